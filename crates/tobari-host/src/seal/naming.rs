//! Temporary files, and the names that they get when they are whole.
//!
//! A name is given by one rename, so that whatever has a final name is whole, wherever a process was killed. That this holds where the machine lost its power, too, takes an order
//! on the disk: bytes first, names after them. The files of a folder get their names many at a time, after one `syncfs` for all of them.

use super::{FileProblem, PART};
use crate::files;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile, TempPath};

/// Files of a set that wait for their names, at most: more would be lost to whoever interrupts it, fewer would wait for the disk more often.
const UNNAMED: usize = 4096;

/// A temporary file in the folder of `target`, which is made if it is not there.
pub(super) fn temporary(target: &Path) -> Result<NamedTempFile, FileProblem> {
    let create = || files::temporary(Builder::new().prefix(PART), target);
    in_its_folder(target, create)
}

fn in_its_folder<T>(target: &Path, create: impl Fn() -> std::io::Result<T>) -> Result<T, FileProblem> {
    let created = create().or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => fs::create_dir_all(files::directory_of(target)).and_then(|()| create()),
        _ => Err(error),
    });
    created.map_err(FileProblem::system(target))
}

/// Gives what has a temporary name its own.
pub(super) fn persist(made: TempPath, target: &Path, replace: bool) -> Result<(), FileProblem> {
    let named = if replace { made.persist(target) } else { made.persist_noclobber(target) };
    named.map_err(|failed| match failed.error.kind() {
        std::io::ErrorKind::AlreadyExists => FileProblem::Exists { name: target.display().to_string() },
        _ => FileProblem::system(target)(failed.error),
    })
}

/// Waits until everything on the file system of `path` is on its disk.
pub(super) fn sync(path: &Path) -> Result<File, FileProblem> {
    let file = File::open(path).map_err(FileProblem::system(path))?;
    rustix::fs::syncfs(&file).map_err(|errno| FileProblem::system(path)(errno.into()))?;
    Ok(file)
}

/// Waits until the name of `target`, or that it has none any more, is on the disk.
pub(super) fn sync_name(target: &Path) -> Result<(), FileProblem> {
    let folder = files::directory_of(target);
    File::open(&folder).and_then(|folder| folder.sync_all()).map_err(FileProblem::system(&folder))
}

/// Waits until all names below a folder are on the disk, if it is there.
pub(super) fn sync_names_below(folder: &Path) -> Result<(), FileProblem> {
    if folder.is_dir() { sync(folder).map(|_| ()) } else { Ok(()) }
}

/// A file that has everything but its name.
pub(super) struct Whole {
    pub(super) made: TempPath,
    pub(super) target: PathBuf,
    pub(super) replace: bool,
    /// Bytes of its content.
    pub(super) bytes: u64,
}

/// Files of a set that wait for their names.
#[derive(Default)]
pub(super) struct Unnamed {
    all: Vec<Whole>,
}

impl Unnamed {
    pub(super) fn push(&mut self, whole: Whole) {
        self.all.push(whole);
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= UNNAMED
    }

    /// Gives all of them their names, once they are on the disk below `folder`: those that did not get theirs, as bytes of content and why.
    pub(super) fn name_all(&mut self, folder: &Path) -> Result<Vec<(u64, FileProblem)>, FileProblem> {
        let all = std::mem::take(&mut self.all);
        if !all.is_empty() {
            sync(folder)?;
        }
        let name = |Whole { made, target, replace, bytes }| Some((bytes, persist(made, &target, replace).err()?));
        Ok(all.into_iter().filter_map(name).collect())
    }
}

/// A link that is made when all files are there, so that none is written through it.
pub(super) struct Link {
    pub(super) target: Vec<u8>,
    pub(super) place: PathBuf,
}

/// Makes a link under a temporary name, so that it replaces what is there at once or, without `replace`, not at all.
pub(super) fn make_link(link: &Link, replace: bool) -> Result<(), FileProblem> {
    let symlink = |place: &Path| std::os::unix::fs::symlink(OsStr::from_bytes(&link.target), place);
    let create = || Builder::new().prefix(PART).make_in(files::directory_of(&link.place), symlink);
    persist(in_its_folder(&link.place, create)?.into_temp_path(), &link.place, replace)
}

/// Whether this is the name of a temporary file.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PART.as_bytes())
}

/// Removes what a killed run left in a folder.
pub(super) fn clean(folder: &Path) -> Result<(), FileProblem> {
    for entry in fs::read_dir(folder).map_err(FileProblem::system(folder))? {
        let entry = entry.map_err(FileProblem::system(folder))?;
        if is_temporary(&entry.file_name()) {
            fs::remove_file(entry.path()).map_err(FileProblem::system(&entry.path()))?;
        }
    }
    Ok(())
}
