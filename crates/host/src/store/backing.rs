//! The backing file of one folder: its creation, growth and free space.

use super::block::Blocks;
use super::engine::write_at;
use super::extents::{Extent, Extents};
use super::mapping::{PAGE, granule};
use super::{Folder, StoreError};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// A file grows by at least this much, if allowed: one call to the file system for many objects,
/// and one long extent on the disk for them.
const STEP_BYTES: u64 = 64 << 20;

/// The bookkeeping of one backing file. The file itself is shared with the engine, and passed as an
/// argument.
pub(super) struct Backing {
    pub(super) path: PathBuf,
    /// Whether transfers bypass the page cache.
    pub(super) direct: bool,
    extents: Extents,
    limit_bytes: u64,
}

impl Backing {
    /// Creates a file without a name in the folder.
    pub(super) fn open(folder: &Folder) -> Result<(Self, File), StoreError> {
        let failed = |source| StoreError::open(&folder.path, source);
        // Unnamed if the system supports it; otherwise unlinked (or marked for removal) at once.
        let file = tempfile::tempfile_in(&folder.path).map_err(failed)?;
        make_private(&file).map_err(failed)?;
        let direct = make_direct(&file).map_err(failed)?;
        let limit_bytes = folder.quota_bytes.unwrap_or(i64::MAX as u64) / PAGE as u64 * PAGE as u64;
        Ok((Self { path: folder.path.clone(), direct, extents: Extents::default(), limit_bytes }, file))
    }

    /// A place for `bytes` bytes, a multiple of a page; `None` if the folder has no space.
    ///
    /// # Errors
    ///
    /// If the file could not grow for another reason than space.
    pub(super) fn allocate(&mut self, file: &File, bytes: u64) -> io::Result<Option<Extent>> {
        if let Some(extent) = self.extents.allocate(bytes) {
            return Ok(Some(extent));
        }
        let missing = bytes - self.extents.free_at_end();
        let room = self.limit_bytes.saturating_sub(self.extents.end());
        if missing > room {
            return Ok(None);
        }
        for step in [missing.max(STEP_BYTES).min(room), missing] {
            match extend(file, self.extents.end(), step) {
                Ok(()) => {
                    self.extents.grow(step);
                    return Ok(self.extents.allocate(bytes));
                }
                // The system may have given a part of the step: return to the known length.
                Err(error) if is_full(&error) => drop(file.set_len(self.extents.end())),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) fn release(&mut self, extent: Extent) {
        self.extents.release(extent);
    }

    /// Bytes of objects.
    pub(super) fn used_bytes(&self) -> u64 {
        self.extents.end() - self.extents.free_bytes()
    }

    /// Bytes free in the file, and bytes by which it can still grow.
    pub(super) fn free_bytes(&self, file: &File) -> u64 {
        let room = self.limit_bytes.saturating_sub(self.extents.end());
        self.extents.free_bytes() + room.min(available(file).unwrap_or(0))
    }
}

/// Whether an error means that the disk, a quota or a limit on files leaves no space.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Sets mode 0600 while the file is still empty: a file without a name has an ordinary file's mode
/// at first.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

/// Turns the page cache off for the file, and tests this: some file systems agree, but then reject
/// the transfers.
#[cfg(target_os = "linux")]
fn make_direct(file: &File) -> io::Result<bool> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(false);
    }
    let page = Blocks::new(granule()).take(PAGE).map_err(io::Error::other)?;
    if write_at(file, &page, 0).is_err() {
        // Also on a full disk: nothing will be written here, so the mode does not matter.
        fcntl_setfl(file, flags)?;
        return Ok(false);
    }
    file.set_len(0)?;
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn make_direct(file: &File) -> io::Result<bool> {
    let _ = (write_at, granule, Blocks::new);
    file.set_len(0)?;
    Ok(false)
}

/// Reserves `bytes` bytes after `end`, so that a write there cannot find the disk full.
#[cfg(target_os = "linux")]
fn extend(file: &File, end: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    loop {
        return match fallocate(file, FallocateFlags::empty(), end, bytes) {
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => lengthen(file, end, bytes),
            other => other.map_err(io::Error::from),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn extend(file: &File, end: u64, bytes: u64) -> io::Result<()> {
    lengthen(file, end, bytes)
}

/// Lengthens the file without a reservation: another process can still take the space, and a write
/// then fails with a full disk.
fn lengthen(file: &File, end: u64, bytes: u64) -> io::Result<()> {
    if available(file).is_some_and(|free| free < bytes) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.set_len(end + bytes)
}

/// The free bytes of the file system, if it reports them.
#[cfg(unix)]
fn available(file: &File) -> Option<u64> {
    let status = rustix::fs::fstatvfs(file).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

#[cfg(not(unix))]
fn available(_: &File) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_to_its_quota_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let quota = Folder { path: folder.path().into(), quota_bytes: Some(3 * PAGE as u64 + 100) };
        let (mut backing, file) = Backing::open(&quota).unwrap();
        let page = PAGE as u64;
        let first = backing.allocate(&file, 2 * page).unwrap().unwrap();
        assert_eq!(backing.allocate(&file, 2 * page).unwrap(), None);
        assert_eq!(backing.free_bytes(&file), page);
        let last = backing.allocate(&file, page).unwrap().unwrap();
        assert_eq!((first.start, last.start, file.metadata().unwrap().len()), (0, 2 * page, 3 * page));
        backing.release(first);
        backing.release(last);
        assert_eq!(backing.allocate(&file, 3 * page).unwrap().map(|extent| extent.start), Some(0));
    }

    #[cfg(unix)]
    #[test]
    fn a_backing_file_is_private_and_has_no_name() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let (_, file) = Backing::open(&Folder { path: folder.path().into(), quota_bytes: None }).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
