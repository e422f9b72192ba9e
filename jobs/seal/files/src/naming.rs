//! Temporary files, and the names that they get when they are whole.
//!
//! A name is given by one rename, so that whatever has a final name is whole, wherever a process
//! was killed. That this holds where the machine lost its power, too, takes an order on the disk:
//! bytes first, names after them. The files of a folder get their names many at a time, after one
//! `syncfs` for all of them.
//!
//! Whoever writes a set, or opens one into a folder, holds a lock on that folder: temporary files
//! in it belong to nobody else, and a later run removes what a killed one left. A file that is
//! written alone lies in a folder that others may use. Its temporary file has a name of its own
//! kind and holds a lock, which ends with its process, so that the next run knows what is left
//! over.

use super::below::{Below, Need, Onto, is_held, is_temporary, open_file, rename, split};
use super::{FileProblem, PART};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use tobari_seal::Time;

/// Files of a set that wait for their names, at most: more would be lost to whoever interrupts it,
/// fewer would wait for the disk more often.
const UNNAMED: usize = 4096;
/// What temporary files of files that are written alone begin with.
const ALONE: &str = ".tobari-part-alone-";

/// Something under a temporary name, which goes away unless it gets its own.
pub(super) struct Part {
    below: Arc<Below>,
    /// Path of the folder that it is in.
    path: Vec<u8>,
    /// That folder, as long as few parts wait.
    folder: Option<Arc<OwnedFd>>,
    /// Empty when it has a name of its own.
    name: OsString,
    /// A file that is written alone stays locked until it has its name.
    lock: Option<File>,
}

/// A temporary file that is open.
pub(super) struct PartFile {
    pub(super) file: File,
    pub(super) part: Part,
}

/// Who else may be in the folder of a temporary file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// Nobody: this run holds its lock.
    Ours,
    /// Others.
    Shared,
}

/// A name that no other process of this machine uses now. What a killed one left under it is passed
/// over by whoever makes it.
fn fresh(prefix: &str) -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // asked for once: there may be a million files
    static PROCESS: LazyLock<u32> = LazyLock::new(std::process::id);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:x}-{number:x}", *PROCESS).into()
}

/// Makes something under a new temporary name, beside `path`.
fn make<T>(
    below: &Arc<Below>,
    path: &[u8],
    need: Need,
    prefix: &str,
    create: impl Fn(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
) -> io::Result<(T, Part)> {
    let (parent, _) = split(path);
    let folder = below.folder(parent, need)?;
    loop {
        let name = fresh(prefix);
        match create(&folder, &name) {
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
            Ok(made) => {
                let (below, path, folder) = (below.clone(), parent.to_vec(), Some(folder));
                return Ok((made, Part { below, path, folder, name, lock: None }));
            }
        }
    }
}

/// A temporary file beside `path`; only its owner reads it.
pub(super) fn temporary(below: &Arc<Below>, path: &[u8], need: Need, whose: Folder) -> io::Result<PartFile> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = |folder: &OwnedFd, name: &OsStr| {
        rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
    };
    if whose == Folder::Ours {
        let (file, part) = make(below, path, need, PART, create)?;
        return Ok(PartFile { file, part });
    }
    loop {
        let (file, mut part) = make(below, path, need, ALONE, create)?;
        // another run may have removed it between its making and its lock
        if !is_held(&file) && file.metadata()?.nlink() > 0 {
            part.lock = Some(file.try_clone()?);
            return Ok(PartFile { file, part });
        }
    }
}

impl Part {
    fn folder(&self) -> io::Result<Arc<OwnedFd>> {
        self.folder.clone().map_or_else(|| self.below.folder(&self.path, Need::Found), Ok)
    }

    /// Gives it the last name of `path`, which is in the same folder.
    pub(super) fn name(mut self, path: &[u8], onto: Onto) -> Result<(), FileProblem> {
        let named = self.folder().and_then(|folder| rename(&folder, &self.name, split(path).1, onto));
        let place = self.below.place(path);
        match named {
            Ok(()) => {
                self.name.clear();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(FileProblem::Exists { name: place.display().to_string() })
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty) => {
                Err(FileProblem::IsFolder { name: place.display().to_string() })
            }
            Err(error) => Err(FileProblem::system(&place)(error)),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.name.is_empty()
            && let Ok(folder) = self.folder()
        {
            // where it cannot be removed now the next run does it
            let _ = rustix::fs::unlinkat(&folder, &self.name, AtFlags::empty());
        }
    }
}

/// A file that has everything but its name.
pub(super) struct Whole {
    pub(super) made: Part,
    /// Below the folder that it is opened into.
    pub(super) path: Vec<u8>,
    pub(super) onto: Onto,
    /// Bytes of its content.
    pub(super) bytes: u64,
}

/// Files of a set that wait for their names.
#[derive(Default)]
pub(super) struct Unnamed {
    all: Vec<Whole>,
}

impl Unnamed {
    /// A file; its folder is closed meanwhile, as a process may have a thousand descriptors and no
    /// more.
    pub(super) fn push(&mut self, mut whole: Whole) {
        whole.made.folder = None;
        self.all.push(whole);
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= UNNAMED
    }

    /// Gives all of them their names, once they are on the disk: those that did not get theirs, as
    /// bytes of content and why.
    pub(super) fn name_all(&mut self, below: &Below) -> Result<Vec<(u64, FileProblem)>, FileProblem> {
        let all = std::mem::take(&mut self.all);
        if !all.is_empty() {
            below.sync().map_err(FileProblem::system(&below.place(b"")))?;
        }
        let name = |Whole { made, path, onto, bytes }: Whole| Some((bytes, made.name(&path, onto).err()?));
        Ok(all.into_iter().filter_map(name).collect())
    }
}

/// A link that is made when all files are there.
pub(super) struct Link {
    pub(super) target: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) modified: Time,
}

/// Makes a link with its time under a temporary name, so that it replaces what is there at once or,
/// unless it may, not at all.
pub(super) fn make_link(below: &Arc<Below>, link: &Link, need: Need, onto: Onto) -> Result<(), FileProblem> {
    let target = OsStr::from_bytes(&link.target);
    let symlink = |folder: &OwnedFd, name: &OsStr| rustix::fs::symlinkat(target, folder, name);
    let made = make(below, &link.path, need, PART, symlink).and_then(|((), part)| {
        let folder = part.folder()?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let modified = Timespec { tv_sec: link.modified.seconds, tv_nsec: link.modified.nanoseconds.into() };
        let times = Timestamps { last_access: now, last_modification: modified };
        rustix::fs::utimensat(&folder, &part.name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(part)
    });
    made.map_err(FileProblem::system(&below.place(&link.path)))?.name(&link.path, onto)
}

/// Removes what a killed run left in a folder that nobody else writes to.
pub(super) fn clean(below: &Below, path: &[u8]) -> Result<(), FileProblem> {
    let failed = |error| FileProblem::system(&below.place(path))(error);
    for (name, _) in below.names(path).map_err(failed)? {
        if is_temporary(&name) && !is_used_alone(below, path, &name) {
            remove_in(below, path, &name).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes what killed runs left that wrote a file alone; whatever cannot be removed stays.
pub(super) fn clean_alone(below: &Below) {
    for (name, _) in below.names(b"").unwrap_or_default() {
        if name.as_bytes().starts_with(ALONE.as_bytes()) && !is_used_alone(below, b"", &name) {
            let _ = remove_in(below, b"", &name);
        }
    }
}

fn remove_in(below: &Below, folder: &[u8], name: &OsStr) -> io::Result<()> {
    let folder = below.folder(folder, Need::Found)?;
    Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
}

/// Whether a file that is written alone still has its process.
fn is_used_alone(below: &Below, folder: &[u8], name: &OsStr) -> bool {
    name.as_bytes().starts_with(ALONE.as_bytes())
        && below.folder(folder, Need::Found).and_then(|folder| open_file(&folder, name)).is_ok_and(is_held)
}

/// The folder of a file that is written alone, which is made if it is not there, and the file's
/// name.
pub(super) fn folder_of(target: &Path) -> Result<(Arc<Below>, Vec<u8>), FileProblem> {
    let Some(name) = target.file_name() else {
        return Err(FileProblem::IsFolder { name: target.display().to_string() });
    };
    let folder = tobari_host::files::directory_of(target);
    let below = Below::made(&folder).map_err(FileProblem::system(&folder))?;
    Ok((Arc::new(below), name.as_bytes().to_vec()))
}
