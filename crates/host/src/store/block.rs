//! Memory for objects, under a hard limit.

use super::mapping::{Mapping, PAGE, granule};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, slice};

/// Why a pool gave no memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The block would exceed the pool's limit.
    #[error("expected {needed} bytes left in the pool, found {free}")]
    Limit {
        /// The bytes that the block takes.
        needed: usize,
        /// The bytes not taken by blocks in use.
        free: usize,
    },
    /// The system gave no memory, although the limit allows it.
    #[error("the system gave no {needed} bytes of memory: {source}")]
    System {
        /// The bytes that the block takes.
        needed: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// A pool of [`Block`]s. Blocks in use and freed blocks together never exceed its limit.
///
/// A freed block is kept for the next block of the same capacity. If the limit leaves no room for
/// another capacity, freed blocks go back to the system first. So [`take`](Self::take) succeeds
/// exactly if the blocks in use leave room, whatever happened before; a plan can rely on this. A
/// clone is the same pool.
///
/// # Example
///
/// ```
/// use tobari_host::store::Blocks;
/// let blocks = Blocks::new(8192);
/// let mut one = blocks.take(5000)?;
/// one.fill(7);
/// assert_eq!((one.len(), one.capacity()), (5000, 8192));
/// assert!(blocks.take(1).is_err(), "the limit holds");
/// drop(one);
/// assert!(blocks.take(1).is_ok());
/// # Ok::<(), tobari_host::store::BlockError>(())
/// ```
#[derive(Clone)]
pub struct Blocks {
    pool: Arc<Pool>,
}

impl Blocks {
    /// An empty pool, without memory from the system yet.
    pub fn new(limit_bytes: usize) -> Self {
        Self { pool: Arc::new(Pool { limit_bytes, state: Mutex::default() }) }
    }

    /// Memory for an object of `len` bytes. It holds the bytes of an earlier block, or zeros.
    ///
    /// # Errors
    ///
    /// [`BlockError::Limit`] if the blocks in use leave no room; [`BlockError::System`] if the
    /// system has no memory.
    pub fn take(&self, len: usize) -> Result<Block, BlockError> {
        let mut state = self.pool.lock();
        let free = self.pool.limit_bytes - state.used_bytes;
        let capacity = capacity_of(len).unwrap_or(usize::MAX);
        if capacity > free {
            return Err(BlockError::Limit { needed: capacity, free });
        }
        let mapping = match state.reuse(capacity) {
            Some(mapping) => mapping,
            None => {
                state.shrink(free - capacity);
                Mapping::new(capacity).map_err(|source| BlockError::System { needed: capacity, source })?
            }
        };
        state.used_bytes += capacity;
        drop(state);
        let mut block = Block { mapping, len, pool: Arc::clone(&self.pool) };
        // The last page goes to the disk as a whole, and must hold no bytes of an earlier object.
        block.range_mut(len..capacity).fill(0);
        Ok(block)
    }

    /// The pool's limit in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.pool.limit_bytes
    }

    /// The capacity of all blocks in use, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.pool.lock().used_bytes
    }

    /// Bytes taken from the system: blocks in use and freed blocks.
    pub fn held_bytes(&self) -> usize {
        let state = self.pool.lock();
        state.used_bytes + state.kept_bytes
    }
}

/// `len` in whole pages, and at least one page, so that no object is a special case. `None` on
/// overflow.
fn capacity_of(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(granule()).filter(|&capacity| isize::try_from(capacity).is_ok())
}

struct Pool {
    limit_bytes: usize,
    state: Mutex<State>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    used_bytes: usize,
    kept_bytes: usize,
    /// Freed blocks by capacity.
    kept: BTreeMap<usize, Vec<Mapping>>,
}

impl State {
    fn reuse(&mut self, capacity: usize) -> Option<Mapping> {
        let mapping = self.kept.get_mut(&capacity)?.pop()?;
        self.kept_bytes -= capacity;
        Some(mapping)
    }

    /// Returns freed blocks to the system, the largest first, until at most `bytes` bytes are kept.
    fn shrink(&mut self, bytes: usize) {
        while self.kept_bytes > bytes
            && let Some(mut largest) = self.kept.last_entry()
        {
            match largest.get_mut().pop() {
                Some(mapping) => self.kept_bytes -= mapping.bytes(),
                None => drop(largest.remove()),
            }
        }
    }
}

/// Memory for one object, from a pool of [`Blocks`], to which it returns when dropped.
///
/// It starts at a multiple of 4096 bytes and ends with a whole page. It dereferences to the
/// object's bytes.
pub struct Block {
    mapping: Mapping,
    len: usize,
    pool: Arc<Pool>,
}

impl Block {
    /// The object's length in whole pages: the bytes that the block takes from its pool.
    pub fn capacity(&self) -> usize {
        self.mapping.bytes()
    }

    /// The bytes of a transfer of the object: its length in whole pages of 4096 bytes.
    pub(super) fn transfer_bytes(&self) -> usize {
        self.len.max(1).next_multiple_of(PAGE)
    }

    fn range_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.mapping.bytes());
        // SAFETY: the range lies inside the mapping.
        let start = unsafe { self.mapping.address().add(range.start) };
        // SAFETY: these bytes of the mapping are initialised and borrowed exclusively with the
        // block.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), range.len()) }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of the mapping are initialised. Nobody writes: a block whose pieces
        // are under way is reached through the pieces only, which do not give it out.
        unsafe { slice::from_raw_parts(self.mapping.address().as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.range_mut(0..self.len)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mapping = std::mem::replace(&mut self.mapping, Mapping::none());
        let mut state = self.pool.lock();
        state.used_bytes -= mapping.bytes();
        state.kept_bytes += mapping.bytes();
        state.kept.entry(mapping.bytes()).or_default().push(mapping);
    }
}

/// One part of a block in transfer, the data of one request. Pieces do not overlap.
///
/// The block lives as long as one of its pieces, so a transfer that holds its piece cannot outlive
/// its memory.
pub(super) struct Piece {
    block: Arc<Block>,
    range: Range<usize>,
}

impl Piece {
    /// Cuts a block's pages into pieces of `size` bytes, the last one shorter.
    pub(super) fn split(block: Block, size: usize) -> impl Iterator<Item = Self> {
        let total = block.transfer_bytes();
        let block = Arc::new(block);
        // The ranges are disjoint, and a piece is never cloned: each piece owns its bytes alone.
        (0..total)
            .step_by(size)
            .map(move |start| Self { block: Arc::clone(&block), range: start..total.min(start + size) })
    }

    /// The block, if this was its last piece.
    pub(super) fn finish(self) -> Option<Block> {
        Arc::into_inner(self.block)
    }

    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// Removes the first `bytes` bytes, which were transferred.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.range.start = self.range.end.min(self.range.start + bytes);
    }

    /// The address of the first byte. Until the piece is moved or borrowed again, the caller may
    /// read and write the piece's length from there.
    pub(super) fn address(&mut self) -> *mut u8 {
        // SAFETY: the range lies inside the mapping.
        unsafe { self.block.mapping.address().add(self.range.start) }.as_ptr()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, length) = (self.address(), self.len());
        // SAFETY: initialised bytes inside the mapping, of this piece alone, and the piece is
        // borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start, length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_starts_and_ends_with_a_page_and_has_the_objects_length() {
        let blocks = Blocks::new(64 << 20);
        for len in [0, 1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (7 << 20) + 5] {
            let mut block = blocks.take(len).unwrap();
            assert_eq!((block.len(), block.capacity()), (len, len.max(1).next_multiple_of(granule())));
            assert_eq!(block.as_ptr().addr() % PAGE, 0);
            block.fill(0xA5);
            assert!(block.iter().all(|&byte| byte == 0xA5));
            if len >= 2 << 20 {
                assert_eq!(block.as_ptr().addr() % (2 << 20), 0, "huge pages need their alignment");
            }
        }
        assert_eq!(blocks.used_bytes(), 0);
    }

    #[test]
    fn the_last_page_holds_nothing_of_an_earlier_block() {
        let blocks = Blocks::new(granule());
        blocks.take(granule()).unwrap().fill(0xFF);
        let mut again = blocks.take(10).unwrap();
        assert!(again.range_mut(10..4096).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn freed_blocks_make_way_for_another_capacity() {
        let blocks = Blocks::new(10 * granule());
        drop((0..10).map(|_| blocks.take(1).unwrap()).collect::<Vec<_>>());
        assert_eq!((blocks.used_bytes(), blocks.held_bytes()), (0, 10 * granule()));
        let large = blocks.take(9 * granule()).unwrap();
        assert!(blocks.held_bytes() <= blocks.limit_bytes());
        assert!(matches!(blocks.take(granule() + 1), Err(BlockError::Limit { free, .. }) if free == granule()));
        drop(large);
        assert!(blocks.take(10 * granule()).is_ok());
        assert!(blocks.take(usize::MAX).is_err() && blocks.take(isize::MAX as usize).is_err());
    }

    #[test]
    fn the_last_piece_gives_the_block_back_and_pieces_keep_it_alive() {
        let blocks = Blocks::new(1 << 20);
        let mut pieces: Vec<Piece> = Piece::split(blocks.take(10_000).unwrap(), 4096).collect();
        assert_eq!(pieces.iter().map(Piece::len).collect::<Vec<_>>(), [4096, 4096, 4096]);
        for (index, piece) in (0..).zip(&mut pieces) {
            piece.bytes_mut().fill(index);
        }
        pieces[1].skip(4000);
        pieces[1].bytes_mut().fill(9);
        let last = pieces.pop().unwrap();
        assert!(pieces.into_iter().all(|piece| piece.finish().is_none()));
        assert!(blocks.used_bytes() > 0);
        let block = last.finish().unwrap();
        assert!(block[..4096].iter().all(|&b| b == 0) && block[4096..8096].iter().all(|&b| b == 1));
        assert!(block[8096..8192].iter().all(|&b| b == 9) && block[8192..].iter().all(|&b| b == 2));
    }

    proptest! {
        #[test]
        fn the_pool_never_holds_more_than_its_limit_and_refuses_only_for_want_of_room(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40_000, any::<bool>()), 1..60),
        ) {
            let blocks = Blocks::new(30 * 4096);
            let mut held: Vec<Block> = Vec::new();
            for (which, len, free) in steps {
                if free && !held.is_empty() {
                    held.swap_remove(which.index(held.len()));
                } else {
                    let used: usize = held.iter().map(Block::capacity).sum();
                    let fits = used + capacity_of(len).unwrap() <= blocks.limit_bytes();
                    let taken = blocks.take(len);
                    prop_assert_eq!(taken.is_ok(), fits);
                    held.extend(taken);
                }
                prop_assert!(blocks.held_bytes() <= blocks.limit_bytes());
                prop_assert_eq!(blocks.used_bytes(), held.iter().map(Block::capacity).sum::<usize>());
            }
        }
    }
}
