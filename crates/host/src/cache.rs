//! A cache of measurements that a later run could repeat. Each is one small file in the user's
//! cache folder.

use crate::files::{self, FileError};
use std::path::PathBuf;

/// Longer than any cached file.
const LIMIT_BYTES: u64 = 1 << 20;

/// The cache folder: `TOBARI_CACHE`, or `tobari` in `XDG_CACHE_HOME` or in `~/.cache`.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("TOBARI_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|path| path.join("tobari")))
        .or_else(|| set("HOME").map(|path| path.join(".cache").join("tobari")))
}

/// Reads the bytes stored under a name; `None` if there are none, or they cannot be read.
pub fn read(name: &str) -> Option<Vec<u8>> {
    files::read_bounded(&folder()?.join(name).with_extension("json"), LIMIT_BYTES).ok()
}

/// Stores bytes under a name, and returns their path: `None` if the user has no cache folder.
///
/// # Errors
/// [`FileError`] if the folder or the file cannot be written.
pub fn write(name: &str, bytes: &[u8]) -> Result<Option<PathBuf>, FileError> {
    let Some(folder) = folder() else { return Ok(None) };
    let path = folder.join(name).with_extension("json");
    std::fs::create_dir_all(&folder).map_err(|source| FileError::Write { name: path.display().to_string(), source })?;
    files::write_atomically(&path, bytes)?;
    Ok(Some(path))
}
