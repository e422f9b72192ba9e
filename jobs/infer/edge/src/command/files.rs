//! Files; `-` is standard input or output.

use std::io::{Read, Write};
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files;

/// Reads a file within a limit.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    if path != Path::new("-") {
        return Ok(files::read_bounded(path, limit)?);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(Failure::Work(format!("standard input: expected at most {limit} bytes, found more")));
    }
    Ok(bytes)
}

/// Writes a file completely, or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if path != Path::new("-") {
        return Ok(files::write_atomically(path, bytes)?);
    }
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
