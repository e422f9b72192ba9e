//! The slots of each byte.
//!
//! ShiftRows and MixColumns move a byte by an amount that depends on its row and column. No
//! arrangement of sixteen bytes at one stride turns that into the same few rotations in every
//! round. So every column is stored `M/4` times:
//!
//! ```text
//! slot = (row M + j) B + block,     column held there = (j + a row) mod 4,     j = 0 … M - 1,
//! ```
//!
//! in each of the two rows of slots, with `B = N/(8 M)`; `a` falls by one with each round. After
//! ShiftRows, row `r` needs values of the row `i` further on. These values lie `i` rows further on
//! and `(1 - a) i mod 4` places along `j`, for every `r`: three rotations and no mask.
//!
//! Each rotation brings wrong values into the ends of a row of `M`. They take part in the
//! computation and are ignored. The **window** of right values loses at most three places a round,
//! and none where `a = 1 mod 4`. It must be four wide at the end; `M = 32` is enough for any `a`.

use super::cipher::ROUNDS;

/// Places of a row.
pub const PLACES: usize = 32;
/// The first `a`.
const FIRST: i64 = 1;

/// An arrangement of blocks in two rows of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    columns: usize,
    places: usize,
}

impl Layout {
    /// The layout of `N` slots; `None` if they hold no block. At `N = 2^17` there are 1,024 blocks.
    ///
    /// ```
    /// use tobari_sense::aes::Layout;
    /// assert_eq!(Layout::new(1 << 17).map(|layout| layout.blocks()), Some(1024));
    /// assert_eq!(Layout::new(1 << 7), None);
    /// ```
    pub fn new(slots: usize) -> Option<Self> {
        Self::with_places(slots, PLACES)
    }

    /// A layout with another number of places; `None` if slots or places are not powers of two, or
    /// no block fits. [`Self::window`] tells whether there are enough places.
    pub fn with_places(slots: usize, places: usize) -> Option<Self> {
        let fits = slots.is_power_of_two() && places.is_power_of_two() && places >= 4 && slots >= 8 * places;
        fits.then_some(Self { columns: slots / 2, places })
    }

    /// The number of slots, `N`.
    pub fn slots(&self) -> usize {
        2 * self.columns
    }

    /// Slots of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        2 * self.stride()
    }

    /// The stride `B`.
    fn stride(&self) -> usize {
        self.columns / (4 * self.places)
    }

    /// The places of each byte of a block after `rounds` rounds: the slot, and the byte's number in
    /// the block, column by column. These are all copies, right or wrong.
    pub fn places(&self, block: usize, rounds: usize) -> impl Iterator<Item = (usize, usize)> {
        let (half, block) = (block / self.stride(), block % self.stride());
        let a = a(rounds);
        (0..4).flat_map(move |row| {
            (0..self.places).map(move |j| {
                let column = (j as i64 + a * row as i64).rem_euclid(4) as usize;
                (half * self.columns + (row * self.places + j) * self.stride() + block, 4 * column + row)
            })
        })
    }

    /// One place for each byte, at which it is right after the last round.
    pub fn results(&self, block: usize) -> impl Iterator<Item = (usize, usize)> {
        let first = self.window(ROUNDS).start;
        let places = self.places(block, ROUNDS);
        places.enumerate().filter(move |(i, _)| (first..first + 4).contains(&(i % self.places))).map(|(_, place)| place)
    }

    /// The places of a row that are right after this many rounds; the last round moves nothing.
    pub fn window(&self, rounds: usize) -> std::ops::Range<usize> {
        let (mut start, mut end) = (0, self.places as i64);
        for round in 1..=rounds.min(ROUNDS - 1) {
            let moves = moves(round);
            start += moves.map(|by| (-by).max(0)).into_iter().max().unwrap_or(0);
            end -= moves.map(|by| by.max(0)).into_iter().max().unwrap_or(0);
        }
        start as usize..end.max(start) as usize
    }

    /// The rotations of a round in slots, for the rows 1, 2 and 3 further on.
    pub fn steps(&self, round: usize) -> [i64; 3] {
        let moves = moves(round);
        std::array::from_fn(|i| ((i + 1) as i64 * self.places as i64 + moves[i]) * self.stride() as i64)
    }
}

/// `a` after this many rounds.
fn a(rounds: usize) -> i64 {
    FIRST - rounds as i64
}

/// Places along `j` by which a round moves: the values nearest to zero that are `(1 - a) i` modulo
/// 4.
fn moves(round: usize) -> [i64; 3] {
    let a = a(round - 1);
    [1, 2, 3].map(|i| {
        let by = ((1 - a) * i).rem_euclid(4);
        if by > 2 { by - 4 } else { by }
    })
}
