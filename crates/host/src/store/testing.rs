//! For tests of this crate and of others: a store that fails on purpose, and access to a store's
//! disk.

use super::engine::{read_at, write_at};
use super::{Block, Blocks, Completion, DiskStore, Kind, Refused, Statistics, Store, StoreError};
use std::collections::HashSet;
use std::fs::File;
use std::io;

pub use super::measure::measure_with;

/// Injected faults. Operations are counted from 1, in the order of their start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// This read ends with a system error.
    pub fail_read: Option<u64>,
    /// This write ends with a system error, and its object is not in the store.
    pub fail_write: Option<u64>,
    /// This read succeeds with one flipped bit in its block: a fault after the store's check, which
    /// no store can detect. For a fault on the disk, which it must detect, use [`flip_bit`].
    pub flip_read: Option<u64>,
    /// Completions are delayed and reordered, by this seed.
    pub reorder: Option<u64>,
}

/// A store that behaves like its inner store, except for its [`Faults`].
pub struct FaultyStore<S> {
    inner: S,
    faults: Faults,
    reads: u64,
    writes: u64,
    failing: HashSet<(Kind, u64)>,
    flipping: HashSet<u64>,
    held: Vec<Completion>,
    random: u64,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store.
    pub fn new(inner: S, faults: Faults) -> Self {
        let random = faults.reorder.unwrap_or(0);
        let (failing, flipping) = (HashSet::new(), HashSet::new());
        Self { inner, faults, reads: 0, writes: 0, failing, flipping, held: Vec::new(), random }
    }

    /// The inner store.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    fn strike(&mut self, mut completion: Completion) -> Completion {
        let (object, kind) = (completion.object, completion.kind);
        if completion.outcome.is_ok() && self.failing.remove(&(kind, object)) {
            if kind == Kind::Write {
                self.inner.discard(object);
            }
            let source = io::Error::other("a fault on purpose");
            completion.outcome = Err(StoreError::Io { object, path: "faulty".into(), kind, source });
        }
        if kind == Kind::Read && self.flipping.remove(&object) {
            let middle = completion.block.len() / 2;
            if let Some(byte) = completion.block.get_mut(middle) {
                *byte ^= 1;
            }
        }
        completion
    }

    /// SplitMix64.
    fn random_below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn write(&mut self, object: u64, data: Block) -> Result<(), Refused> {
        self.inner.write(object, data)?;
        self.writes += 1;
        if self.faults.fail_write == Some(self.writes) {
            self.failing.insert((Kind::Write, object));
        }
        Ok(())
    }

    fn read(&mut self, object: u64, into: Block) -> Result<(), Refused> {
        self.inner.read(object, into)?;
        self.reads += 1;
        if self.faults.fail_read == Some(self.reads) {
            self.failing.insert((Kind::Read, object));
        }
        if self.faults.flip_read == Some(self.reads) {
            self.flipping.insert(object);
        }
        Ok(())
    }

    fn completed(&mut self, wait: bool) -> Result<Vec<Completion>, StoreError> {
        for completion in self.inner.completed(wait && self.held.is_empty())? {
            let struck = self.strike(completion);
            self.held.push(struck);
        }
        if self.faults.reorder.is_none() {
            return Ok(std::mem::take(&mut self.held));
        }
        let least = usize::from(wait && !self.held.is_empty());
        let released = self.random_below(self.held.len() + 1).max(least);
        let mut out = Vec::new();
        for _ in 0..released {
            let which = self.random_below(self.held.len());
            out.push(self.held.swap_remove(which));
        }
        Ok(out)
    }

    fn discard(&mut self, object: u64) {
        self.inner.discard(object);
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

/// Flips one bit of an object on the disk.
///
/// # Errors
///
/// If the object is not in the store, has no such bit, or the system reports an error.
pub fn flip_bit(store: &DiskStore, object: u64, bit: usize) -> io::Result<()> {
    let (file, start, len) = store.place_of(object).ok_or(io::ErrorKind::NotFound)?;
    if bit / 8 >= len {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let offset = start + (bit / 8 / PAGE * PAGE) as u64;
    let mut page = page_at(file, offset)?;
    page[bit / 8 % PAGE] ^= 1 << (bit % 8);
    write_at(file, &page, offset).map(|_| ())
}

/// Exchanges two objects of the same length on the disk.
///
/// # Errors
///
/// If one is not in the store, their lengths differ, or the system reports an error.
pub fn swap(store: &DiskStore, one: u64, other: u64) -> io::Result<()> {
    let (file, start, len) = store.place_of(one).ok_or(io::ErrorKind::NotFound)?;
    let (other_file, other_start, other_len) = store.place_of(other).ok_or(io::ErrorKind::NotFound)?;
    if len != other_len {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for page in (0..len as u64).step_by(PAGE) {
        let (a, b) = (page_at(file, start + page)?, page_at(other_file, other_start + page)?);
        write_at(file, &b, start + page)?;
        write_at(other_file, &a, other_start + page)?;
    }
    Ok(())
}

/// Cuts the backing file in the middle of an object.
///
/// # Errors
///
/// If the object is not in the store, or the system reports an error.
pub fn truncate(store: &DiskStore, object: u64) -> io::Result<()> {
    let (file, start, len) = store.place_of(object).ok_or(io::ErrorKind::NotFound)?;
    file.set_len(start + len as u64 / 2)
}

const PAGE: usize = super::mapping::PAGE;

/// One page in aligned memory, as direct transfers need it.
fn page_at(file: &File, offset: u64) -> io::Result<Block> {
    let mut page = Blocks::new(super::mapping::granule()).take(PAGE).map_err(io::Error::other)?;
    read_at(file, &mut page, offset)?;
    Ok(page)
}
