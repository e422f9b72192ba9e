//! The state of failing storage, derived from the error of a write.
//!
//! A full, read-only or failing disk is a state, not the end of a server: it passes, and the same
//! write succeeds later. This module names the state, so that every store reports it in the same
//! words.

use std::fmt;
use std::io::{self, ErrorKind};

/// Why storage rejects bytes.
///
/// ```
/// use tobari_host::storage::Trouble;
/// let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
/// assert_eq!(Trouble::of(&full).to_string(), "is full");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// No space: on the device (`ENOSPC`), in the user's quota (`EDQUOT`), or within the limit of a
    /// file (`EFBIG`).
    Full,
    /// The file system is mounted read-only (`EROFS`), for example after an error.
    ReadOnly,
    /// The device reports errors (`EIO`).
    Failing,
    /// The bytes read back are damaged.
    Damaged,
    /// Any other reason: a missing permission, for instance.
    Other,
}

impl Trouble {
    /// Derives the state from the system's error.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::InvalidData => Self::Damaged,
            _ if is_device_error(error) => Self::Failing,
            _ => Self::Other,
        }
    }
}

#[cfg(unix)]
fn is_device_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[cfg(not(unix))]
fn is_device_error(_: &io::Error) -> bool {
    false
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "is full",
            Self::ReadOnly => "is read-only",
            Self::Failing => "reports input/output errors",
            Self::Damaged => "is damaged",
            Self::Other => "cannot be written",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_errors_of_a_disk_have_their_names() {
        for (code, trouble) in [
            (28, Trouble::Full),
            (122, Trouble::Full),
            (27, Trouble::Full),
            (30, Trouble::ReadOnly),
            (5, Trouble::Failing),
            (13, Trouble::Other),
        ] {
            assert_eq!(Trouble::of(&io::Error::from_raw_os_error(code)), trouble, "{code}");
        }
    }
}
