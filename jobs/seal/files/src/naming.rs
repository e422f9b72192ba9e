//! Temporary files, and their final names.
//!
//! One rename gives a file its name. So every file with a final name is whole, wherever a process
//! was killed. To hold after a power failure, too, this needs an order on the disk: bytes first,
//! names after them. The files of a folder get their names many at a time, after one `syncfs` for
//! all of them.
//!
//! A run that writes a set, or opens one into a folder, holds a lock on that folder. So all
//! temporary files in the folder are from this run or from killed ones, and a later run removes
//! those of killed runs. A single file goes into a folder that other programs may use. Its
//! temporary file has another prefix and holds a lock, which ends with its process. So the next run
//! recognizes leftovers.

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

/// The most files of a set that wait for their names. With more, an interruption loses more work;
/// with fewer, the run waits for the disk more often.
const UNNAMED: usize = 4096;
/// The prefix of temporary files for single files.
const ALONE: &str = ".tobari-part-alone-";

/// A file or link under a temporary name. Dropping removes it unless it got its final name.
pub(super) struct Part {
    below: Arc<Below>,
    /// Path of its folder.
    path: Vec<u8>,
    /// Descriptor of its folder; closed while the file waits for its name.
    folder: Option<Arc<OwnedFd>>,
    /// The temporary name; empty once it has its final name.
    name: OsString,
    /// The lock of a single file, held until it has its name.
    lock: Option<File>,
}

/// An open temporary file.
pub(super) struct PartFile {
    pub(super) file: File,
    pub(super) part: Part,
}

/// Whether other processes may use the folder of a temporary file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// No: this run holds the folder's lock.
    Ours,
    /// Yes.
    Shared,
}

/// A name that no other process of this machine uses now. A killed process may have left a file of
/// this name; then [`make`] takes the next name.
fn fresh(prefix: &str) -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Queried once: there may be a million files.
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

/// Makes a temporary file beside `path` that only its owner can read.
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
        // Another run may have removed the file before it was locked.
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

    /// Renames it to the last name of `path`, which is in the same folder.
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
            // If this fails, the next run removes it.
            let _ = rustix::fs::unlinkat(&folder, &self.name, AtFlags::empty());
        }
    }
}

/// A whole file without its final name.
pub(super) struct Whole {
    pub(super) made: Part,
    /// Its path below the target folder.
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
    /// Adds a file, and closes its folder: a process may have only about a thousand descriptors.
    pub(super) fn push(&mut self, mut whole: Whole) {
        whole.made.folder = None;
        self.all.push(whole);
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= UNNAMED
    }

    /// Waits until all files are on the disk, and gives them their names. Returns the failures:
    /// bytes of content, and the problem.
    pub(super) fn name_all(&mut self, below: &Below) -> Result<Vec<(u64, FileProblem)>, FileProblem> {
        let all = std::mem::take(&mut self.all);
        if !all.is_empty() {
            below.sync().map_err(FileProblem::system(&below.place(b"")))?;
        }
        let name = |Whole { made, path, onto, bytes }: Whole| Some((bytes, made.name(&path, onto).err()?));
        Ok(all.into_iter().filter_map(name).collect())
    }
}

/// A link, made after all files.
pub(super) struct Link {
    pub(super) target: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) modified: Time,
}

/// Makes a link with its time under a temporary name, and renames it. So it replaces an existing
/// file at once or, without permission in `onto`, not at all.
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

/// Removes temporary files of killed runs from a folder that only this run writes to.
pub(super) fn clean(below: &Below, path: &[u8]) -> Result<(), FileProblem> {
    let failed = |error| FileProblem::system(&below.place(path))(error);
    for (name, _) in below.names(path).map_err(failed)? {
        if is_temporary(&name) && !is_used_alone(below, path, &name) {
            remove_in(below, path, &name).map_err(failed)?;
        }
    }
    Ok(())
}

/// Removes temporary files that killed runs left for single files, as far as possible.
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

/// Whether the process that writes this single file is still alive.
fn is_used_alone(below: &Below, folder: &[u8], name: &OsStr) -> bool {
    name.as_bytes().starts_with(ALONE.as_bytes())
        && below.folder(folder, Need::Found).and_then(|folder| open_file(&folder, name)).is_ok_and(is_held)
}

/// The folder of a single file, made if necessary, and the file's name.
pub(super) fn folder_of(target: &Path) -> Result<(Arc<Below>, Vec<u8>), FileProblem> {
    let Some(name) = target.file_name() else {
        return Err(FileProblem::IsFolder { name: target.display().to_string() });
    };
    let folder = tobari_host::files::directory_of(target);
    let below = Below::made(&folder).map_err(FileProblem::system(&folder))?;
    Ok((Arc::new(below), name.as_bytes().to_vec()))
}
