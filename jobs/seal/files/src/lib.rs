//! Sealing and opening of folders, files and streams: the input and output for [`tobari_seal`].
//!
//! Files are read and cut into chunks. All engines of a [`Pool`](crate::dispatch::Pool) seal the
//! chunks, and the results are written in order: many files at a time, within a bound on memory.
//!
//! Each file is written under a temporary name and renamed after its last byte. So every file with
//! a final name is whole. The list of a set is written last, after one `syncfs`. The list of an
//! older state is removed before the first file is replaced. After an interruption the next run
//! compares file by file: it keeps a sealed file only if the file decrypts and its content equals
//! the source, byte for byte. Opened files get their names after one `syncfs` for many files.
//!
//! | file | what it holds |
//! |---|---|
//! | `dispatch` | chunks sealed and opened by all engines of the machine |
//! | `keys` | key files, passphrases, recipients and identities of age |
//! | `recipients` | recipients and identities of age (feature `age`) |
//! | `flow` | many files in the engines at once, each in its order |
//! | `below` | access to everything below a folder by descriptors, without following links |
//! | `ending` | last steps of written files, on separate threads |
//! | `source` | a walk through a folder; files with holes, and their content |
//! | `update` | the list of an updated set, and the sealed files of earlier runs |
//! | `write` | sealing a folder, a file, a stream |
//! | `input` | reading of a sealed file from its start |
//! | `read` | opening, verifying and listing |
//! | `opening` | opening of a set into a folder |
//! | `landing` | destinations of opened content |
//! | `naming` | temporary files, and the final names of whole files |
//! | `listing` | the files in a set's folder, compared with its list |
//! | `salvage` | recovery of a damaged file's intact chunks |

#![cfg(linux_64)]
#![deny(unsafe_code)] // foreign interfaces allow it, and say why

pub mod dispatch;

mod below;
mod ending;
mod flow;
mod input;
mod keys;
mod landing;
mod listing;
mod naming;
mod opening;
mod read;
#[cfg(feature = "age")]
mod recipients;
mod salvage;
mod source;
mod update;
mod write;

pub use keys::Keys;
pub use landing::Target;
pub use read::{Opened, Reader, SetEntry};
#[cfg(feature = "age")]
pub use recipients::{Ask, Identities, MAX_RECIPIENTS, Nobody, Recipients, new_identity, recipients_of_lines};
pub use salvage::DAMAGED;
pub use write::{Destination, Sealed, Writer};

use std::fmt;
use std::path::Path;
use tobari_seal::SealError;

/// The name of a set's list.
pub const MANIFEST: &str = "manifest.seal";
/// The name of a set's mark. A run that continues the set unwraps the set's key from this file.
pub const SET: &str = "set.seal";
/// The prefix of temporary files; no finished file has it.
const PART: &str = ".tobari-part-";

/// Why sealing or opening failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// An error of the system.
    #[error("{name}: {source}")]
    System {
        /// The file, as the caller named it.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Not a sealed file, or an altered one.
    #[error("{name}: {source}")]
    Seal {
        /// The file.
        name: String,
        /// The fault.
        source: SealError,
    },
    /// A file of this name exists.
    #[error("{name} already exists: choose another name, or add --force to replace it")]
    Exists {
        /// The file.
        name: String,
    },
    /// A folder is in the way of a file or a link.
    #[error(
        "{name}: this is a folder, and a file or link has to go there. Remove or rename the folder, and run the command again"
    )]
    IsFolder {
        /// The folder.
        name: String,
    },
    /// A folder that holds other files than a set.
    #[error("{name}: this folder is not empty and holds no set of sealed files. Choose a new or an empty folder")]
    NotASet {
        /// The folder.
        name: String,
    },
    /// A finished set: it has its list.
    #[error("{name}: this set is finished. Add --force to bring it up to date")]
    Finished {
        /// The set.
        name: String,
    },
    /// Another run writes to the same folder.
    #[error("{name}: another run is writing to this folder. Wait until it ends, or choose another folder")]
    Busy {
        /// The folder.
        name: String,
    },
    /// None of the given keys decrypts the file.
    #[error(
        "{name}: none of the given keys decrypts this file: give the key file or the passphrase with which it was sealed"
    )]
    NoKey {
        /// The file.
        name: String,
    },
    /// The set exists, and no given key file or passphrase unwraps its key.
    #[error(
        "{name}: expected a key file or passphrase of the set, to continue it, found none: an identity of age does not say who began it"
    )]
    NotOurs {
        /// The set's mark.
        name: String,
    },
    /// A fault of a recipient, an identity or a plugin of age.
    #[error("{name}: {found}")]
    Age {
        /// The file or the input.
        name: String,
        /// The fault.
        found: String,
    },
    /// The source changed again and again.
    #[error("{name}: expected a file that stays as it is while it is read, found it changed each time")]
    Changed {
        /// The file.
        name: String,
    },
    /// A source of an unsupported kind: a pipe, a socket, a device.
    #[error("{name}: expected a file, a folder or a symbolic link, found something else: left out")]
    Kind {
        /// The file.
        name: String,
    },
    /// A damaged file, written with holes for the chunks that do not decrypt.
    #[error("{name}: expected the whole file, found all of it but {missing}")]
    Damaged {
        /// The file written.
        name: String,
        /// The missing ranges.
        missing: Missing,
    },
    /// The list and the files do not agree.
    #[error("{name}: expected {expected}")]
    List {
        /// The file.
        name: String,
        /// The expectation, by the list.
        expected: &'static str,
    },
}

/// Missing ranges of a file: the first byte, and the byte after the last one, or [`u64::MAX`] if
/// the length is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<[u64; 2]>);

/// The most ranges that a message names.
const TOLD: usize = 100;

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("its end, which says that it is all");
        }
        f.write_str("the bytes")?;
        for (place, [from, to]) in self.0.iter().take(TOLD).enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match *to {
                u64::MAX => write!(f, "{comma} {from} to the end")?,
                to => write!(f, "{comma} {from} to {to}")?,
            }
        }
        match self.0.len().checked_sub(TOLD) {
            Some(more @ 1..) => write!(f, " and {more} ranges more"),
            _ => Ok(()),
        }
    }
}

impl FileProblem {
    fn system(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::System { name: path.display().to_string(), source }
    }

    fn seal(path: &Path) -> impl Fn(SealError) -> Self + Copy + '_ {
        |source| Self::Seal { name: path.display().to_string(), source }
    }

    /// Whether every later file will fail, too: a full disk, a reached quota, a read-only file
    /// system.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::System { source, .. } if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::ReadOnlyFilesystem))
    }
}
