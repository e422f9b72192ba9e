//! Folders, files and streams, sealed and opened: the machine's half of [`tobari_seal`].
//!
//! Files are read, cut into chunks, sealed by all engines of a [`Pool`](crate::dispatch::Pool), and
//! written in order, many files at a time and within a bound on memory. Each goes to a temporary
//! name and is renamed when its last byte is there, so that whatever has a final name is whole; a
//! set's list is written last, after one `syncfs`, and the list of an older state is gone before
//! the first file is replaced. What was killed is begun anew file by file: a file that is there is
//! left alone only if it opens and its content is that of the source, byte for byte. Opened files
//! get their names after one `syncfs` for many.
//!
//! | file | what it holds |
//! |---|---|
//! | `dispatch` | chunks sealed and opened by all engines of the machine |
//! | `keys` | who may open: key files, passphrases, recipients of age |
//! | `recipients` | recipients and identities of age (feature `age`) |
//! | `flow` | many files on their way through the engines at once, each in its order |
//! | `below` | a folder, and the way to what lies below it: by descriptors, past no link |
//! | `ending` | what makes finished files of whole ones, on threads of its own |
//! | `source` | a walk through a folder; files with holes, and their content |
//! | `update` | what the list of a set gets, and what becomes of what was sealed earlier |
//! | `write` | sealing a folder, a file, a stream |
//! | `input` | a sealed file that is read from its start |
//! | `read` | opening, verifying and listing |
//! | `opening` | a set on its way into a folder |
//! | `landing` | where opened content goes |
//! | `naming` | temporary files, and the names that whole ones get |
//! | `listing` | what lies in a set's folder, beside what its list says |
//! | `salvage` | what is left of a damaged file |

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

/// The name of a set's list, and of the mark of an unfinished set.
pub const MANIFEST: &str = "manifest.seal";
/// From this file whoever continues has the set's key.
pub const SET: &str = "set.seal";
/// What temporary files begin with: never a finished file.
const PART: &str = ".tobari-part-";

/// Why something was not sealed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The system refused.
    #[error("{name}: {source}")]
    System {
        /// The file, as the caller named it.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a sealed file, or not as it was sealed.
    #[error("{name}: {source}")]
    Seal {
        /// The file.
        name: String,
        /// What is wrong.
        source: SealError,
    },
    /// Something is in the way.
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
    /// A folder with files that are no set's.
    #[error("{name}: this folder is not empty and holds no set of sealed files. Choose a new or an empty folder")]
    NotASet {
        /// The folder.
        name: String,
    },
    /// A set that has its list already.
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
    /// No key opens it.
    #[error(
        "{name}: none of the given keys decrypts this file: give the key file or the passphrase with which it was sealed"
    )]
    NoKey {
        /// The file.
        name: String,
    },
    /// The set is there, and no key of one's own opens it.
    #[error(
        "{name}: expected a key file or passphrase of the set, to continue it, found none: an identity of age does not say who began it"
    )]
    NotOurs {
        /// The set's mark.
        name: String,
    },
    /// A recipient, an identity or a plugin of age.
    #[error("{name}: {found}")]
    Age {
        /// Where it stands.
        name: String,
        /// What was found there.
        found: String,
    },
    /// The source changed again and again.
    #[error("{name}: expected a file that stays as it is while it is read, found it changed each time")]
    Changed {
        /// The file.
        name: String,
    },
    /// A pipe, a socket, a device.
    #[error("{name}: expected a file, a folder or a symbolic link, found something else: left out")]
    Kind {
        /// The file.
        name: String,
    },
    /// A file of which only a part opens: the rest are holes.
    #[error("{name}: expected the whole file, found all of it but {missing}")]
    Damaged {
        /// What was written.
        name: String,
        /// What is not in it.
        missing: Missing,
    },
    /// The list and the files do not agree.
    #[error("{name}: expected {expected}")]
    List {
        /// The file.
        name: String,
        /// What the list says.
        expected: &'static str,
    },
}

/// Ranges of a file that are missing: from a byte on, up to another, or up to [`u64::MAX`] where
/// nobody knows its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<[u64; 2]>);

/// Ranges that are told one by one.
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

    /// Whether nothing else can succeed either: a full disk.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::System { source, .. } if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::ReadOnlyFilesystem))
    }
}
