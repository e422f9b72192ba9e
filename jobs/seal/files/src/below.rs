//! One folder and everything below it, opened by descriptors of folders.
//!
//! A path is walked one name at a time. Each name is opened in the folder before it, without
//! following a symbolic link. So no path leads out of the folder, whatever the folder contains now
//! or later. Names are checked when a record is decoded: no name is empty, `.` or `..`, or holds a
//! slash. `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS` would ensure the same for a
//! whole path. Walking name by name needs no recent kernel, passes filters of system calls that
//! lack `openat2`, and has no limit of 4,096 bytes of path.
//!
//! A walk opens neighbours again and again. So the descriptors of the last path are kept, and the
//! next path costs one call for each new folder.

use super::PART;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most folders of one path whose descriptors are kept. Deeper folders are opened again.
const KEPT: usize = 64;
/// Permissions of a new folder, before the process's mask.
const FOLDER_MODE: RawMode = 0o777;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const UNFOLLOWED: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// Whether a folder of a path must exist, or is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It must exist.
    Found,
    /// It is made if nothing is in its place.
    Made,
    /// It is made, after a file or link in its place was removed.
    Replaced,
}

/// The existing files that a whole file may replace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    /// Nothing.
    Nothing,
    /// A file or link with the same content: an earlier run made it.
    Same,
    /// Any file or link.
    Anything,
}

struct Step {
    name: Vec<u8>,
    folder: Option<Arc<OwnedFd>>,
}

/// A folder, and cached descriptors of folders below it.
pub(super) struct Below {
    place: PathBuf,
    root: Arc<OwnedFd>,
    /// From the root down to the folder opened last.
    steps: Mutex<Vec<Step>>,
}

/// A path as its folder and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &OsStr) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], OsStr::from_bytes(&path[at + 1..])),
        None => (&[], OsStr::from_bytes(path)),
    }
}

impl Below {
    /// Opens a folder that the caller named. Links in its path are followed.
    pub(super) fn open(place: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(place, FOLDER, Mode::empty())?;
        Ok(Self { place: place.to_owned(), root: Arc::new(root), steps: Mutex::default() })
    }

    /// The same, and makes the folder if it does not exist.
    pub(super) fn made(place: &Path) -> io::Result<Self> {
        Self::open(place).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => fs::create_dir_all(place).and_then(|()| Self::open(place)),
            _ => Err(error),
        })
    }

    /// The full path, for messages.
    pub(super) fn place(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.place.clone() } else { self.place.join(OsStr::from_bytes(path)) }
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Locks the folder against other runs as long as this descriptor lives; false if another run
    /// has the lock. True on a file system without locks.
    pub(super) fn lock(&self) -> bool {
        rustix::fs::flock(&self.root, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
    }

    /// The folder at a path; an empty path is the root.
    pub(super) fn folder(&self, path: &[u8], need: Need) -> io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(self.root.clone());
        }
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let same = steps.iter().zip(&names).take_while(|(step, name)| step.name == **name).count();
        steps.truncate(same);
        while steps.last().is_some_and(|step| step.folder.is_none()) {
            steps.pop();
        }
        let mut folder = steps.last().and_then(|step| step.folder.clone()).unwrap_or_else(|| self.root.clone());
        for name in &names[steps.len()..] {
            folder = Arc::new(enter(&folder, OsStr::from_bytes(name), need)?);
            // Beyond `KEPT` folders only the last descriptor of a path is kept.
            if let Some(before) = steps.len().checked_sub(1).filter(|before| *before >= KEPT) {
                steps[before].folder = None;
            }
            steps.push(Step { name: name.to_vec(), folder: Some(folder.clone()) });
        }
        Ok(folder)
    }

    /// Forgets descriptors of folders that were removed or replaced.
    pub(super) fn forget(&self) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Opens a file for reading; rejects links, pipes and devices.
    pub(super) fn file(&self, path: &[u8]) -> io::Result<File> {
        let (folder, name) = split(path);
        let folder = self.folder(folder, Need::Found)?;
        open_file(&folder, name)
    }

    /// The names in a folder, and their kinds.
    pub(super) fn names(&self, path: &[u8]) -> io::Result<Vec<(OsString, FileType)>> {
        let folder = self.folder(path, Need::Found)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                // The file system does not list kinds.
                FileType::Unknown => {
                    let found = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                kind => kind,
            };
            names.push((name, kind));
        }
        Ok(names)
    }

    /// Removes a file or link.
    pub(super) fn remove(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.folder(folder, Need::Found)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    /// Waits until everything on the file system of this folder is on its disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    /// Waits until the names in this folder are on the disk, without folders below it.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.root)?)
    }
}

/// Opens a folder in another one.
fn enter(folder: &OwnedFd, name: &OsStr, need: Need) -> io::Result<OwnedFd> {
    let open = || rustix::fs::openat(folder, name, FOLDER | UNFOLLOWED, Mode::empty());
    let make = || match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open()?),
        Err(errno) => Err(io::Error::from(errno)),
    };
    match open() {
        Ok(found) => Ok(found),
        Err(Errno::NOENT) if need != Need::Found => make(),
        Err(Errno::NOTDIR | Errno::LOOP) if need == Need::Replaced => {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
            make()
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a name for its metadata only; a link is not followed.
pub(super) fn look(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    Ok(rustix::fs::openat(folder, name, OFlags::PATH | UNFOLLOWED, Mode::empty())?.into())
}

/// Opens a file in a folder for reading. With `NONBLOCK`, as a pipe in its place would block.
pub(super) fn open_file(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | UNFOLLOWED;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file, found something else")),
    }
}

/// The target of a link.
pub(super) fn link_target(folder: &OwnedFd, name: &OsStr) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(folder, name, Vec::new())?.into_bytes())
}

/// Whether this is the name of a temporary file.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PART.as_bytes())
}

/// Renames a file or link in its folder.
pub(super) fn rename(folder: &OwnedFd, from: &OsStr, to: &OsStr, onto: Onto) -> io::Result<()> {
    if onto == Onto::Anything {
        return Ok(rustix::fs::renameat(folder, from, folder, to)?);
    }
    match rename_to_nothing(folder, from, to) {
        Err(Errno::EXIST) if onto == Onto::Same && is_same(folder, from, to) => {
            Ok(rustix::fs::renameat(folder, from, folder, to)?)
        }
        renamed => Ok(renamed?),
    }
}

fn rename_to_nothing(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Without support by the file system: add the new name, then remove the old one.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Whether two files have the same content, or two links the same target.
fn is_same(folder: &OwnedFd, one: &OsStr, other: &OsStr) -> bool {
    if let (Ok(one), Ok(other)) = (link_target(folder, one), link_target(folder, other)) {
        return one == other;
    }
    let (Ok(one), Ok(other)) = (open_file(folder, one), open_file(folder, other)) else { return false };
    same_content(one, other).unwrap_or(false)
}

fn same_content(mut one: File, mut other: File) -> io::Result<bool> {
    use io::Read;
    const PIECE: u64 = 1 << 16;
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    loop {
        a.clear();
        b.clear();
        (&mut one).take(PIECE).read_to_end(&mut a)?;
        (&mut other).take(PIECE).read_to_end(&mut b)?;
        if a != b || a.is_empty() {
            return Ok(a == b);
        }
    }
}

/// Locks a file; true if another process has the lock.
pub(super) fn is_held(file: impl AsFd) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    #[test]
    fn fault_1_no_path_leads_through_a_link_or_a_file() {
        let (root, outside) = (tempdir().unwrap(), tempdir().unwrap());
        symlink(outside.path(), root.path().join("link")).unwrap();
        fs::write(root.path().join("file"), b"x").unwrap();
        fs::write(outside.path().join("victim"), b"x").unwrap();
        let below = Below::open(root.path()).unwrap();
        for need in [Need::Found, Need::Made] {
            for path in [&b"link"[..], b"link/inner", b"file", b"file/inner"] {
                let refused = below.folder(path, need).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::NotADirectory, "{path:?}: {refused}");
            }
        }
        assert!(below.file(b"link/victim").is_err() && below.remove(b"link/victim").is_err());
        assert!(below.folder(b"link/inner", Need::Replaced).is_ok());
        assert!(root.path().join("link/inner").is_dir() && !root.path().join("link").is_symlink());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn fault_2_folders_far_deeper_than_a_path_can_say_are_made_and_found_again() {
        let root = tempdir().unwrap();
        let below = Below::open(root.path()).unwrap();
        let deep = vec![vec![b'd'; 200]; 100].join(&b'/');
        assert!(deep.len() > 4096 * 4);
        let first = below.folder(&deep, Need::Made).unwrap();
        below.folder(&deep[..201 * 80 - 1], Need::Found).unwrap();
        let (again, file) = (below.folder(&deep, Need::Found).unwrap(), [&deep[..], b"/file"].concat());
        let flags = OFlags::CREATE | OFlags::WRONLY;
        rustix::fs::openat(&first, "file", flags, Mode::RUSR).unwrap();
        assert!(open_file(&again, OsStr::new("file")).is_ok() && below.file(&file).is_ok());
        let open = fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < 2 * KEPT, "{open} descriptors");
        // Clean up, so that the temporary folder can be removed.
        let mut path = deep;
        below.remove(&file).unwrap();
        while let Some(at) = path.iter().rposition(|byte| *byte == b'/') {
            let folder = below.folder(&path[..at], Need::Found).unwrap();
            rustix::fs::unlinkat(&folder, OsStr::from_bytes(&path[at + 1..]), AtFlags::REMOVEDIR).unwrap();
            path.truncate(at);
        }
    }

    #[test]
    fn a_name_is_given_to_nothing_to_the_same_or_to_anything() {
        let root = tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let below = Below::open(root.path()).unwrap();
        let give = |content: &str, onto| {
            fs::write(at("new"), content).unwrap();
            rename(below.root(), OsStr::new("new"), OsStr::new("old"), onto).map_err(|error| error.kind())
        };
        assert_eq!(give("a", Onto::Nothing), Ok(()));
        assert_eq!(give("a", Onto::Nothing), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(give("a", Onto::Same), Ok(()));
        assert_eq!(give("b", Onto::Same), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(at("old")).unwrap(), b"a");
        assert_eq!(give("b", Onto::Anything), Ok(()));
        assert_eq!(fs::read(at("old")).unwrap(), b"b");
    }
}
