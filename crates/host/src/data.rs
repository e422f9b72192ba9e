//! A server's data folder, with one version and one user at a time.
//!
//! The file `tobari-data` in the folder has one line, `tobari data 1`. A running server and a
//! backup lock this file. The jobs define everything else in the folder. A folder from before there
//! were versions counts as version 1, because its format is the same. A folder of a later version
//! is rejected, because this release would misread it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The version that this release writes.
pub const DATA_VERSION: u32 = 1;
/// The file that marks a folder as a server's data.
pub const MARKER: &str = "tobari-data";
const MAX_MARKER_BYTES: u64 = 64;

/// A locked data folder. Dropping it releases the lock.
pub struct DataFolder {
    path: PathBuf,
    _marker: File,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process uses the folder.
    #[error("{}: another server or backup uses this folder: stop it, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// A later release wrote the folder.
    #[error("{}: these data are of a later release (version {found}, and this program knows {DATA_VERSION}): use the later release", path.display())]
    Later {
        /// The folder.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The folder has no data of a server.
    #[error("{}: this is no data folder of `tobari serve`", .0.display())]
    NotData(PathBuf),
}

impl DataFolder {
    /// Opens a folder for a server. Creates it if it does not exist, accessible to its owner only.
    ///
    /// # Errors
    /// [`DataError`] if the folder is in use, has an invalid marker or a later version, or cannot
    /// be written.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let fault = |source| DataError::Io { path: path.to_owned(), source };
        make(path).map_err(fault)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join(MARKER));
        Self::locked(path, file.map_err(fault)?, true)
    }

    /// Locks a folder that a server has used, to read it.
    ///
    /// # Errors
    /// [`DataError`], in particular [`DataError::NotData`] if no server of this or a later release
    /// has used the folder.
    pub fn existing(path: &Path) -> Result<Self, DataError> {
        match File::open(path.join(MARKER)) {
            Ok(file) => Self::locked(path, file, false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DataError::NotData(path.to_owned())),
            Err(source) => Err(DataError::Io { path: path.to_owned(), source }),
        }
    }

    fn locked(path: &Path, mut file: File, may_write: bool) -> Result<Self, DataError> {
        let fault = |source| DataError::Io { path: path.to_owned(), source };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        let mut text = Vec::new();
        Read::by_ref(&mut file).take(MAX_MARKER_BYTES).read_to_end(&mut text).map_err(fault)?;
        match version(&text) {
            Some(DATA_VERSION) => {}
            Some(found) if found > DATA_VERSION => return Err(DataError::Later { path: path.to_owned(), found }),
            // an empty marker is new, or an earlier start was interrupted before it wrote the line
            _ if text.is_empty() && may_write => {
                file.write_all(line(DATA_VERSION).as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
            }
            _ => return Err(DataError::NotData(path.to_owned())),
        }
        Ok(Self { path: path.to_owned(), _marker: file })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn line(version: u32) -> String {
    format!("tobari data {version}\n")
}

/// Parses a version from exactly the line that `line` writes for it.
fn version(text: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(text).ok()?.strip_prefix("tobari data ")?.strip_suffix('\n')?.parse().ok()?;
    (line(number).as_bytes() == text).then_some(number)
}

fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user_at_a_time_and_keeps_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/data");
        let first = DataFolder::open(&path).unwrap();
        assert_eq!(fs::read(path.join(MARKER)).unwrap(), b"tobari data 1\n");
        assert!(matches!(DataFolder::open(&path), Err(DataError::InUse(_))));
        assert!(matches!(DataFolder::existing(&path), Err(DataError::InUse(_))));
        assert_eq!(first.path(), path);
        drop(first);
        drop(DataFolder::existing(&path).unwrap());
        DataFolder::open(&path).unwrap();
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o700);
    }

    proptest::proptest! {
        #[test]
        fn a_line_is_a_version_in_its_one_form_or_none(number: u32, text in "(tobari data )?[0-9+ ]{0,11}\n?", noise: Vec<u8>) {
            proptest::prop_assert_eq!(version(line(number).as_bytes()), Some(number));
            for text in [text.as_bytes(), &noise] {
                proptest::prop_assert!(version(text).is_none_or(|number| line(number).as_bytes() == text));
            }
        }
    }

    #[test]
    fn what_was_there_before_versions_is_taken_and_what_comes_later_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(DataFolder::existing(folder.path()), Err(DataError::NotData(_))));
        fs::write(folder.path().join("lock"), b"").unwrap();
        drop(DataFolder::open(folder.path()).unwrap());
        for (text, later) in
            [("tobari data 2\n", true), ("tobari data 01\n", false), ("something", false), ("\n", false)]
        {
            fs::write(folder.path().join(MARKER), text).unwrap();
            for opened in [DataFolder::open(folder.path()), DataFolder::existing(folder.path())] {
                let error = opened.err().unwrap();
                assert_eq!(matches!(error, DataError::Later { found: 2, .. }), later, "{text:?}: {error}");
                assert_eq!(matches!(error, DataError::NotData(_)), !later, "{text:?}: {error}");
            }
            assert_eq!(fs::read(folder.path().join(MARKER)).unwrap(), text.as_bytes(), "it is left as it is");
        }
    }
}
