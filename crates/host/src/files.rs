//! Whole files: read within a limit, written whole or not at all.
//!
//! A file is written to a temporary name in its own directory, flushed to the device and renamed,
//! so that a reader (or a crash) sees the old file or the new one, never a part. On error the
//! temporary file is removed and the old file is untouched. Every message names the file.

use crate::storage::Trouble;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system could not read the file.
    #[error("{name}: cannot read: {source}")]
    Read {
        /// The file, as the caller named it.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system could not write the file; its old content is unchanged.
    #[error("{name}: cannot write: {source}")]
    Write {
        /// The file, as the caller named it.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A secret would have replaced an existing file.
    #[error("{name} already exists, and a secret never replaces a file: choose another name")]
    Exists {
        /// The file, as the caller named it.
        name: String,
    },
    /// The file is longer than the reader's limit.
    #[error("{name}: expected at most {limit_bytes} bytes, found more")]
    TooLarge {
        /// The file, as the caller named it.
        name: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// The target is a directory, a device or a pipe: renaming a file over it would destroy it.
    #[error("{name} is no file, but a folder, a device or a pipe: choose another name")]
    NotAFile {
        /// The file, as the caller named it.
        name: String,
    },
}

impl FileError {
    /// The kind of storage problem, if the system could not read or write.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => Trouble::of(source),
            Self::Exists { .. } | Self::TooLarge { .. } | Self::NotAFile { .. } => Trouble::Other,
        }
    }
}

/// Writes `bytes` as the whole of `path`, and replaces its old content.
///
/// A new file gets mode 0666 without the bits of the process's mask; a replaced file keeps its
/// mode. A symbolic link is followed: the file it points to is replaced, the link stays.
///
/// # Errors
///
/// [`FileError::NotAFile`] for a directory, device or pipe; [`FileError::Write`] if the system
/// refuses.
///
/// # Example
///
/// ```
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("table.csv");
/// tobari_host::files::write_atomically(&path, b"speakers,seconds\n")?;
/// assert_eq!(tobari_host::files::read_bounded(&path, 1024)?, b"speakers,seconds\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// Like [`write_atomically`], for content that is produced during the write.
///
/// `write` receives an empty temporary file. If it returns an error, `path` is unchanged.
///
/// # Errors
///
/// Those of [`write_atomically`], and the error of `write` as [`FileError::Write`].
pub fn write_atomically_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), FileError> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let existing = fs::metadata(&target).ok();
    if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return Err(FileError::NotAFile { name: name_of(path) });
    }
    let mut builder = Builder::new();
    if let Some(permissions) = existing.map_or_else(new_file_permissions, |metadata| Some(metadata.permissions())) {
        builder.permissions(permissions);
    }
    let replace = || {
        persist(write_temporary(&builder, &target, write)?, &target, true)?;
        sync_directory(directory_of(&target))
    };
    replace().map_err(|source| FileError::Write { name: name_of(path), source })
}

/// Writes `bytes` as a new file that only its owner may read (mode 0600 on Unix).
///
/// An existing file is never replaced, even one that appears during the call: overwriting a key
/// loses it. The temporary file has the same mode from its first byte on.
///
/// # Errors
///
/// [`FileError::Exists`] if anything of that name exists; [`FileError::Write`] if the system
/// refuses.
pub fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    // This check only reports the problem before the work; the rename below enforces it.
    if fs::symlink_metadata(path).is_ok() {
        return Err(FileError::Exists { name: name_of(path) });
    }
    let create = || {
        // The builder's default mode is 0600.
        persist(write_temporary(&Builder::new(), path, |file| file.write_all(bytes))?, path, false)?;
        sync_directory(directory_of(path))
    };
    create().map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => FileError::Exists { name: name_of(path) },
        _ => FileError::Write { name: name_of(path), source },
    })
}

/// Reads the whole of `path`, which may hold at most `limit_bytes`.
///
/// Memory stays within the limit, even if the file grows during the read or reports a wrong length.
/// A regular file is read into one allocation, so that growth leaves no copy of a secret behind.
///
/// # Errors
///
/// [`FileError::TooLarge`] beyond the limit; [`FileError::Read`] if the system refuses.
pub fn read_bounded(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, FileError> {
    let refused = |source| FileError::Read { name: name_of(path), source };
    let file = File::open(path).map_err(refused)?;
    let claimed_bytes = file.metadata().map_err(refused)?.len();
    if claimed_bytes > limit_bytes {
        return Err(FileError::TooLarge { name: name_of(path), limit_bytes });
    }
    // One byte more than expected: room to see the end of the file without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(claimed_bytes.saturating_add(1)).unwrap_or(0));
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(FileError::TooLarge { name: name_of(path), limit_bytes });
    }
    Ok(bytes)
}

/// Checks that [`read_bounded`] with this limit accepts a file of these bytes. A command that
/// writes a file for another command calls this before the write.
///
/// # Errors
///
/// [`FileError::TooLarge`] beyond the limit.
pub fn check_bounded(path: &Path, bytes: &[u8], limit_bytes: u64) -> Result<(), FileError> {
    match bytes.len() as u64 > limit_bytes {
        true => Err(FileError::TooLarge { name: name_of(path), limit_bytes }),
        false => Ok(()),
    }
}

/// The file's name for a message.
pub fn name_of(path: &Path) -> String {
    path.display().to_string()
}

/// The text of an error, without the file's name at its start: for messages that already have the
/// name.
pub fn without_name(path: &Path, error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{}: ", name_of(path))).map(str::to_owned).unwrap_or(text)
}

/// Creates an empty temporary file beside `target`. It is removed unless `persist` renames it.
pub fn temporary(builder: &Builder, target: &Path) -> io::Result<NamedTempFile> {
    builder.tempfile_in(directory_of(target))
}

/// Renames a temporary file to `target`. Replaces an existing file only if `replace` is set.
pub fn persist(file: NamedTempFile, target: &Path, replace: bool) -> io::Result<()> {
    let named = if replace { file.persist(target) } else { file.persist_noclobber(target) };
    named.map(|_| ()).map_err(|failed| failed.error)
}

/// Writes and flushes a temporary file beside `target`.
fn write_temporary(
    builder: &Builder,
    target: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mut temporary = temporary(builder, target)?;
    write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// The folder of a file.
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Makes a rename durable: until its directory is flushed, a crash may undo it.
#[cfg(unix)]
pub fn sync_directory(directory: PathBuf) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub fn sync_directory(_: PathBuf) -> io::Result<()> {
    Ok(())
}

/// The permissions of an ordinary program's new file. The temporary file's own default (0600) is
/// for secrets.
#[cfg(unix)]
fn new_file_permissions() -> Option<fs::Permissions> {
    Some(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

#[cfg(not(unix))]
fn new_file_permissions() -> Option<fs::Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::{TempDir, tempdir};

    fn names_in(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_written_file_reads_back_and_leaves_nothing_else() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a");
        for bytes in [&b"first"[..], b"", &[0xff; 100_000]] {
            write_atomically(&path, bytes).unwrap();
            assert_eq!(read_bounded(&path, 100_000).unwrap(), bytes);
        }
        assert_eq!(names_in(&directory), ["a"]);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_part() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a");
        write_atomically(&path, b"old").unwrap();
        let failed = write_atomically_with(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::Error::other("disk full"))
        });
        let message = failed.unwrap_err().to_string();
        assert!(message.starts_with(path.to_str().unwrap()) && message.contains("disk full"), "{message}");
        assert_eq!(read_bounded(&path, 100).unwrap(), b"old");
        assert_eq!(names_in(&directory), ["a"]);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("none").join("a");
        let message = write_atomically(&path, b"x").unwrap_err().to_string();
        assert!(message.starts_with(path.to_str().unwrap()), "{message}");
    }

    #[test]
    fn a_directory_is_never_replaced() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("inner");
        fs::create_dir(&path).unwrap();
        assert!(matches!(write_atomically(&path, b"x"), Err(FileError::NotAFile { .. })));
        assert!(matches!(write_secret(&path, b"x"), Err(FileError::Exists { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_or_device_is_never_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let directory = tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(write_atomically(&path, b"x"), Err(FileError::NotAFile { .. })));
        assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_stays_and_its_file_is_replaced() {
        let directory = tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        write_atomically(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read_bounded(&file, 100).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempdir().unwrap();
        let path = directory.path().join("private");
        write_atomically(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_mode_an_ordinary_program_gives_and_a_secret_only_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempdir().unwrap();
        let [ordinary, written, secret] = ["ordinary", "written", "secret"].map(|name| directory.path().join(name));
        fs::write(&ordinary, b"x").unwrap();
        write_atomically(&written, b"x").unwrap();
        write_secret(&secret, b"x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&written), mode(&ordinary));
        assert_eq!(mode(&secret), 0o600);
    }

    #[test]
    fn a_secret_never_replaces_a_file() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("key");
        write_secret(&path, b"the first key").unwrap();
        let refused = write_secret(&path, b"the second key").unwrap_err();
        assert!(matches!(refused, FileError::Exists { .. }), "{refused}");
        assert!(refused.to_string().starts_with(path.to_str().unwrap()), "{refused}");
        assert!(!refused.to_string().contains("second"), "a message never holds the secret");
        assert_eq!(read_bounded(&path, 100).unwrap(), b"the first key");
        assert_eq!(names_in(&directory), ["key"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_does_not_go_through_a_dangling_link() {
        let directory = tempdir().unwrap();
        let link = directory.path().join("key");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &link).unwrap();
        assert!(matches!(write_secret(&link, b"key"), Err(FileError::Exists { .. })));
        assert_eq!(names_in(&directory), ["key"]);
    }

    #[test]
    fn one_writer_wins_when_many_write_the_same_secret_at_once() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("key");
        let writers: Vec<u8> = (0..16).collect();
        let won = crate::threads::map_parallel(&writers, 8, |id| write_secret(&path, &[*id; 32]).is_ok());
        let winners: Vec<u8> = writers.into_iter().filter(|id| won[usize::from(*id)]).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(read_bounded(&path, 32).unwrap(), [winners[0]; 32]);
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a");
        write_atomically(&path, &[7; 33]).unwrap();
        assert_eq!(read_bounded(&path, 33).unwrap().len(), 33);
        let refused = read_bounded(&path, 32).unwrap_err();
        assert!(matches!(refused, FileError::TooLarge { limit_bytes: 32, .. }), "{refused}");
        assert!(matches!(read_bounded(&directory.path().join("none"), 32), Err(FileError::Read { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_end_is_read_only_up_to_the_limit() {
        // A device claims a length of 0 and never ends.
        let refused = read_bounded(Path::new("/dev/zero"), 1000).unwrap_err();
        assert!(matches!(refused, FileError::TooLarge { limit_bytes: 1000, .. }), "{refused}");
    }
}
