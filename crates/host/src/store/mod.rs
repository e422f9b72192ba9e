//! A disk tier: objects that leave memory and come back, byte for byte or not at all.
//!
//! A job whose ciphertexts and keys are larger than memory moves them out and in by itself, in
//! whole objects and ahead of time, because it knows what it will need. A page fault knows neither:
//! the kernel's swap moves 4 KiB at a time, on demand. The objects are opaque here, and immutable:
//! each is written once, read any number of times, and discarded.
//!
//! **Layout.** Each folder of a [`DiskStore`] has one backing file: private (mode 0600), without a
//! name from the start, so that nothing is left behind even by a process that is killed. An object
//! lies in one extent of whole 4 KiB pages, first fit; the file grows in steps, and its space is
//! asked of the file system before anything is written there. A folder that is full (its quota, or
//! its disk) hands on to the next. The index is in memory only: a backing file means nothing to
//! another process.
//!
//! **Transfers** go past the page cache where the file system allows it, in requests of 1 to 4 MiB
//! of which a few are in flight, by io_uring or, where that is denied, by threads. Either way they
//! run on threads of the store's own, so that they go on while the caller computes. Reads go before
//! writes that wait.
//!
//! **Guarantees.** A read gives the bytes that were written, or an error that names the object. The
//! checksum (XXH3, 64 bits) of every object is kept in memory and compared on every read: bits that
//! flip, objects that change places, a file cut short and a write that was lost are found, but for
//! one case in 2^64. That is a guard against faults and not against a malicious disk: XXH3 has no
//! key, and who can write to the disk and knows an object can make another of the same sum. Nothing
//! is encrypted here: no secret key may go to a store. Nothing is flushed to stable storage either:
//! the contents are meant to be lost with the process.
//!
//! **Cost.** One pass of checksumming an object, at about memory's speed; a table entry of some 100
//! bytes an object; no copy. Memory is the caller's: [`Blocks`], which hold to a limit.
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

/// Where objects can be put that do not fit in memory.
///
/// [`write`](Self::write) and [`read`](Self::read) only start a transfer;
/// [`completed`](Self::completed) tells of those that ended, in any order. Every block that goes in
/// comes out: with its completion, or with the refusal.
pub trait Store: Send {
    /// Starts to write an object. Its bytes never change afterwards: to write another, discard it
    /// first.
    ///
    /// # Errors
    ///
    /// With the block: [`StoreError::Exists`] for an object that is here, [`StoreError::Full`]
    /// where no space is left.
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused>;

    /// Starts to read an object into a block of exactly its length. Several reads of one object may
    /// be under way.
    ///
    /// # Errors
    ///
    /// With the block: [`StoreError::Unknown`], [`StoreError::Unfinished`] while the object is
    /// still being written, [`StoreError::Length`].
    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused>;

    /// What has ended since the last call; with `wait`, at least one transfer unless none is under
    /// way.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`] if the store can't go on: transfers under way will not end, and their
    /// blocks are lost.
    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError>;

    /// Forgets an object, if it is here. Its space is used again once transfers of it have ended;
    /// they still complete.
    fn discard(&mut self, object: u64);

    /// What was moved so far.
    fn statistics(&self) -> Statistics;

    /// How the store moves data: "io_uring", "threads".
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

/// Which way a transfer goes.
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

/// A transfer that ended.
#[derive(Debug)]
pub struct Completion {
    /// The object.
    pub object: u64,
    /// What was done with it.
    pub kind: Kind,
    /// The block that was given: the object's bytes, except after a read that failed.
    pub block: Block,
    /// How it ended. After a failed write the object is not in the store; after a failed read it
    /// still is.
    pub outcome: Result<(), StoreError>,
}

/// A transfer that did not start, and the block that was given for it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: StoreError,
    /// The block as it was given.
    pub block: Block,
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// What a store has moved.
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
    /// The most requests that were in flight at once.
    pub most_in_flight: usize,
    /// The time that [`Store::completed`] waited.
    pub waited_seconds: f64,
}

/// A folder of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where the backing file is made.
    pub path: PathBuf,
    /// The most its backing file may grow to; without it, what the disk has.
    pub quota_bytes: Option<u64>,
}

/// What moves the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring where the system allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// Threads with plain system calls.
    Threads,
}

/// How a [`DiskStore`] is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In order of speed: the next is used for what the ones before have no space for.
    pub folders: Vec<Folder>,
    /// The most one request moves: a multiple of 4096, up to 4 MiB.
    pub request_bytes: usize,
    /// The most requests in flight: 1 to 256.
    pub depth: usize,
    /// What moves the data.
    pub engine: Choice,
}

impl Options {
    /// One folder without a quota, requests of 2 MiB, 8 of them in flight.
    pub fn in_folder(path: impl Into<PathBuf>) -> Self {
        let folders = vec![Folder { path: path.into(), quota_bytes: None }];
        Self { folders, request_bytes: 2 << 20, depth: 8, engine: Choice::Auto }
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The options ask for what can't be.
    #[error("expected {expected}, found {found}")]
    Options {
        /// The rule.
        expected: &'static str,
        /// What was asked for.
        found: usize,
    },
    /// No backing file could be made in the folder.
    #[error("{}: cannot make a backing file here: {source}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What moves the data could not start, or has stopped.
    #[error("{name}: {source}")]
    Engine {
        /// Which one.
        name: &'static str,
        /// What the system said.
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
    /// An object is written once.
    #[error("object {object}: expected a new object, found it in the store")]
    Exists {
        /// The object.
        object: u64,
    },
    /// The object can't be read before its write has completed.
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
        /// The block's.
        found: usize,
    },
    /// No folder has space for the object. What is free may lie in pieces.
    #[error("expected {needed} bytes free on disk in one piece, found {free} in all")]
    Full {
        /// The bytes the object takes.
        needed: u64,
        /// The bytes free in all folders together, within their quotas; twice where two folders
        /// share a disk.
        free: u64,
    },
    /// The system refused to move an object's bytes: the disk is ill or gone.
    #[error("object {object}: cannot {kind} it in {}: {source}", path.display())]
    Io {
        /// The object.
        object: u64,
        /// The folder.
        path: PathBuf,
        /// Which way.
        kind: Kind,
        /// What the system said.
        source: io::Error,
    },
    /// A transfer moved nothing more: the backing file was cut.
    #[error("object {object}: expected to {kind} {missing} bytes more in {}, found the end of the file", path.display())]
    Short {
        /// The object.
        object: u64,
        /// The folder.
        path: PathBuf,
        /// Which way.
        kind: Kind,
        /// The bytes of the request that were not moved.
        missing: usize,
    },
    /// What came back is not what was written.
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

    /// What is wrong with the disk, if it is the disk.
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
