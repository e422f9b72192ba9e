//! A disk tier: objects are written to disk and read back, byte for byte or with an error.
//!
//! A job whose ciphertexts and keys are larger than memory moves them itself, as whole objects and
//! ahead of time, because the job knows its next needs. The kernel's swap knows neither objects nor
//! future needs: it moves 4 KiB at a time, on demand. Objects are opaque here, and immutable: each
//! is written once, read any number of times, and discarded.
//!
//! **Layout.** Each folder of a [`DiskStore`] has one backing file. The file is private (mode 0600)
//! and has no name from the start, so that even a killed process leaves nothing behind. An object
//! lies in one extent of whole 4 KiB pages, first fit. The file grows in steps, and its space is
//! reserved before anything is written there. If a folder is full (its quota, or its disk), the
//! next folder is used. The index is only in memory: a backing file means nothing to another
//! process.
//!
//! **Transfers** bypass the page cache if the file system allows it. They are requests of 1 to 4
//! MiB, a few in flight at once, by io_uring or, if that is denied, by threads. In both cases they
//! run on the store's own threads, and so continue while the caller computes. Reads go before
//! waiting writes.
//!
//! **Guarantees.** A read returns the written bytes, or an error that names the object. The
//! checksum (XXH3, 64 bits) of every object is kept in memory and compared on every read. It
//! detects flipped bits, exchanged objects, a cut file and a lost write, except with probability
//! 2^-64. This protects against faults, but not against a malicious disk: XXH3 has no key, so an
//! attacker who can write to the disk and knows an object can make another with the same checksum.
//! Nothing is encrypted here: no secret key may go to a store. Nothing is flushed to stable
//! storage, either: the contents are meant to be lost with the process.
//!
//! **Cost.** One checksum pass over an object, at about memory's speed; a table entry of some 100
//! bytes for each object; no copy. The caller provides the memory: [`Blocks`], with a limit.
//!
//! # Example
//!
//! ```
//! use tobari_host::store::{Blocks, DiskStore, Options, Store};
//! let folder = tempfile::tempdir()?;
//! let mut store = DiskStore::open(&Options::in_folder(folder.path()))?;
//! let blocks = Blocks::new(1 << 20);
//! let mut data = blocks.take(100_000)?;
//! data.fill(42);
//! store.write(7, data)?;
//! assert!(store.completed(true)?.pop().unwrap().outcome.is_ok());
//! store.read(7, blocks.take(100_000)?)?;
//! let read = store.completed(true)?.pop().unwrap();
//! assert!(read.outcome.is_ok() && read.block.iter().all(|&byte| byte == 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backing;
#[allow(unsafe_code)] // memory from the system, and blocks cut into pieces
mod block;
mod disk;
mod engine;
mod extents;
#[allow(unsafe_code)] // memory from the system
mod mapping;
mod measure;
#[doc(hidden)]
pub mod testing;

pub use block::{Block, BlockError, Blocks};
pub use disk::DiskStore;
pub use measure::{Speed, measure};

use crate::storage::Trouble;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A store for objects that do not fit in memory.
///
/// [`write`](Self::write) and [`read`](Self::read) only start a transfer;
/// [`completed`](Self::completed) returns the transfers that ended, in any order. The caller gets
/// every block back, with the completion or with the error.
pub trait Store: Send {
    /// Starts to write an object. Its bytes never change afterwards: to write another object of the
    /// same number, discard it first.
    ///
    /// # Errors
    ///
    /// With the block: [`StoreError::Exists`] for an object in the store, [`StoreError::Full`] if
    /// no space is left.
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused>;

    /// Starts to read an object into a block of exactly its length. Several reads of one object may
    /// run at once.
    ///
    /// # Errors
    ///
    /// With the block: [`StoreError::Unknown`], [`StoreError::Unfinished`] while the object is
    /// still being written, [`StoreError::Length`].
    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused>;

    /// The transfers that ended since the last call. With `wait`, at least one, unless none is
    /// running.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`] if the store cannot continue: running transfers will not end, and
    /// their blocks are lost.
    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError>;

    /// Removes an object, if it is in the store. Its running transfers still complete; then its
    /// space is free.
    fn discard(&mut self, object: u64);

    /// The transfers so far.
    fn statistics(&self) -> Statistics;

    /// The name of the store's engine: "io_uring", "threads".
    fn name(&self) -> &'static str;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused> {
        (**self).write(object, data)
    }

    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused> {
        (**self).read(object, into)
    }

    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError> {
        (**self).completed(wait)
    }

    fn discard(&mut self, object: u64) {
        (**self).discard(object);
    }

    fn statistics(&self) -> Statistics {
        (**self).statistics()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From the disk to memory.
    Read,
    /// From memory to the disk.
    Write,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// An ended transfer.
#[derive(Debug)]
pub struct Completion {
    /// The object.
    pub object: u64,
    /// The direction.
    pub kind: Kind,
    /// The caller's block, with the object's bytes, except after a failed read.
    pub block: Block,
    /// The outcome. After a failed write the object is not in the store; after a failed read it
    /// still is.
    pub outcome: Result<(), StoreError>,
}

/// A transfer that did not start, and the caller's block.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// The reason.
    pub error: StoreError,
    /// The caller's block, unchanged.
    pub block: Block,
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// The transfers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Bytes from the disk, in whole pages.
    pub read_bytes: u64,
    /// Bytes to the disk, in whole pages.
    pub written_bytes: u64,
    /// Requests that read.
    pub read_requests: u64,
    /// Requests that wrote.
    pub write_requests: u64,
    /// The most requests in flight at once.
    pub most_in_flight: usize,
    /// The time spent waiting in [`Store::completed`].
    pub waited_seconds: f64,
}

/// A folder of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The folder for the backing file.
    pub path: PathBuf,
    /// The largest size of its backing file; limited only by the disk if `None`.
    pub quota_bytes: Option<u64>,
}

/// The engine for the transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring if the system allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// Threads with plain system calls.
    Threads,
}

/// Options of a [`DiskStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folders in order of preference, the fastest first. A folder is used if the ones before it
    /// have no space.
    pub folders: Vec<Folder>,
    /// The most bytes of one request: a multiple of 4096, up to 4 MiB.
    pub request_bytes: usize,
    /// The most requests in flight: 1 to 256.
    pub depth: usize,
    /// The engine for the transfers.
    pub engine: Choice,
}

impl Options {
    /// Options for one folder without a quota, requests of 2 MiB, and 8 of them in flight.
    pub fn in_folder(path: impl Into<PathBuf>) -> Self {
        let folders = vec![Folder { path: path.into(), quota_bytes: None }];
        Self { folders, request_bytes: 2 << 20, depth: 8, engine: Choice::Auto }
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Invalid options.
    #[error("expected {expected}, found {found}")]
    Options {
        /// The rule.
        expected: &'static str,
        /// The value in the options.
        found: usize,
    },
    /// No backing file could be made in the folder.
    #[error("{}: cannot make a backing file here: {source}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The engine could not start, or has stopped.
    #[error("{name}: {source}")]
    Engine {
        /// The engine's name.
        name: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// There is no memory for a block.
    #[error(transparent)]
    Memory(#[from] BlockError),
    /// No such object.
    #[error("object {object}: expected it in the store, found nothing")]
    Unknown {
        /// The object.
        object: u64,
    },
    /// The object exists already: each object is written once.
    #[error("object {object}: expected a new object, found it in the store")]
    Exists {
        /// The object.
        object: u64,
    },
    /// The object cannot be read before its write has completed.
    #[error("object {object}: expected it to be written, found its write under way")]
    Unfinished {
        /// The object.
        object: u64,
    },
    /// The block has another length than the object.
    #[error("object {object}: expected a block of {expected} bytes, found {found}")]
    Length {
        /// The object.
        object: u64,
        /// The object's length.
        expected: usize,
        /// The block's length.
        found: usize,
    },
    /// No folder has space for the object in one piece. The free space may be fragmented.
    #[error("expected {needed} bytes free on disk in one piece, found {free} in all")]
    Full {
        /// The bytes that the object takes.
        needed: u64,
        /// The bytes free in all folders together, within their quotas. The space of a disk counts
        /// twice if two folders share it.
        free: u64,
    },
    /// The system did not transfer an object's bytes: the disk fails or is gone.
    #[error("object {object}: cannot {kind} it in {}: {source}", path.display())]
    Io {
        /// The object.
        object: u64,
        /// The folder.
        path: PathBuf,
        /// The direction.
        kind: Kind,
        /// The system's error.
        source: io::Error,
    },
    /// A transfer ended early: the backing file was cut.
    #[error("object {object}: expected to {kind} {missing} bytes more in {}, found the end of the file", path.display())]
    Short {
        /// The object.
        object: u64,
        /// The folder.
        path: PathBuf,
        /// The direction.
        kind: Kind,
        /// The bytes of the request that were not transferred.
        missing: usize,
    },
    /// The bytes read differ from the bytes written.
    #[error("object {object}: expected the bytes that were written, found others in {}", path.display())]
    Corrupted {
        /// The object.
        object: u64,
        /// The folder.
        path: PathBuf,
    },
}

impl StoreError {
    /// The object that the error is about, if it is about one.
    pub fn object(&self) -> Option<u64> {
        match self {
            Self::Unknown { object }
            | Self::Exists { object }
            | Self::Unfinished { object }
            | Self::Length { object, .. }
            | Self::Io { object, .. }
            | Self::Short { object, .. }
            | Self::Corrupted { object, .. } => Some(*object),
            Self::Options { .. } | Self::Open { .. } | Self::Engine { .. } | Self::Memory(_) | Self::Full { .. } => {
                None
            }
        }
    }

    /// The state of the disk, if the disk is the reason.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Open { source, .. } | Self::Engine { source, .. } | Self::Io { source, .. } => {
                Some(Trouble::of(source))
            }
            Self::Full { .. } => Some(Trouble::Full),
            Self::Short { .. } | Self::Corrupted { .. } => Some(Trouble::Damaged),
            _ => None,
        }
    }

    fn open(path: &Path, source: io::Error) -> Self {
        Self::Open { path: path.to_path_buf(), source }
    }
}
