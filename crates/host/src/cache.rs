//! What is worth keeping between two runs and can be found out again: measurements. One small file
//! each, in the user's folder for such.

use crate::files::{self, FileError};
use std::path::PathBuf;

/// Larger than anything that is kept.
const LIMIT_BYTES: u64 = 1 << 20;

/// The folder: `TOBARI_CACHE`, or `tobari` in `XDG_CACHE_HOME` or in `~/.cache`.
pub fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("TOBARI_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|path| path.join("tobari")))
        .or_else(|| set("HOME").map(|path| path.join(".cache").join("tobari")))
}

/// What was kept under a name; none if there is nothing, or nothing that can be read.
pub fn read(name: &str) -> Option<Vec<u8>> {
    files::read_bounded(&folder()?.join(name).with_extension("json"), LIMIT_BYTES).ok()
}

/// Keeps bytes under a name.
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
