//! Table look-ups at secret places by byte shuffles: sixteen places at once, for WebAssembly's
//! vectors of sixteen bytes.
//!
//! A shuffle looks up sixteen indices in sixteen bytes, and gives zero for an index of 16 or more.
//! The table is transposed into *planes*: one vector for each byte of sixteen entries. For each
//! byte, the indices minus 16c are looked up in the plane of entries `16c … 16c + 15`. Only one of
//! these results can be non-zero, so the results are combined by or. Sixteen result vectors,
//! transposed, are sixteen bytes of sixteen entries. For 128 entries this costs about a third of a
//! scan by 64-bit words.
//!
//! # Leakage
//! No address or branch depends on an index. The time of a shuffle does not either, on any known
//! processor.

#![allow(clippy::out_of_bounds_indexing, reason = "not in the part of an unrolled loop that runs")]

use super::coordinate::Coordinate;
use super::portable::{Affine, entry_lines};
use super::unrolled;
use tobari_simd::{LANES, Line};

/// Bytes of a vector.
const WIDTH: usize = 16;
/// Words of the longest entry.
const MAX_WORDS: usize = 12;

/// Sixteen bytes.
#[cfg(target_feature = "simd128")]
mod bytes {
    use core::arch::wasm32::{
        i8x16_shuffle, i8x16_splat, i8x16_sub, i8x16_swizzle, u64x2, u64x2_extract_lane, v128, v128_or,
    };

    #[derive(Clone, Copy)]
    pub(super) struct Bytes(v128);

    impl Bytes {
        #[inline(always)]
        pub(super) fn of([low, high]: [u64; 2]) -> Self {
            Self(u64x2(low, high))
        }

        #[inline(always)]
        pub(super) fn words(self) -> [u64; 2] {
            [u64x2_extract_lane::<0>(self.0), u64x2_extract_lane::<1>(self.0)]
        }

        /// `self[index[i]]`, and zero for indices above 15.
        #[inline(always)]
        pub(super) fn look_up(self, index: Self) -> Self {
            Self(i8x16_swizzle(self.0, index.0))
        }

        #[inline(always)]
        pub(super) fn or(self, other: Self) -> Self {
            Self(v128_or(self.0, other.0))
        }

        #[inline(always)]
        pub(super) fn less(self, value: u8) -> Self {
            Self(i8x16_sub(self.0, i8x16_splat(value as i8)))
        }

        /// `a_0 b_0 a_1 b_1 …`, in two vectors.
        #[inline(always)]
        pub(super) fn interleave(a: Self, b: Self) -> [Self; 2] {
            [
                Self(i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a.0, b.0)),
                Self(i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a.0, b.0)),
            ]
        }
    }
}

/// The same in plain bytes, for the tests of other machines.
#[cfg(not(target_feature = "simd128"))]
mod bytes {
    use super::WIDTH;
    use std::array::from_fn;

    #[derive(Clone, Copy)]
    pub(super) struct Bytes([u8; WIDTH]);

    impl Bytes {
        pub(super) fn of([low, high]: [u64; 2]) -> Self {
            Self((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
        }

        pub(super) fn words(self) -> [u64; 2] {
            let all = u128::from_le_bytes(self.0);
            [all as u64, (all >> 64) as u64]
        }

        pub(super) fn look_up(self, index: Self) -> Self {
            Self(index.0.map(|i| self.0.get(usize::from(i)).copied().unwrap_or(0)))
        }

        pub(super) fn or(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i] | other.0[i]))
        }

        pub(super) fn less(self, value: u8) -> Self {
            Self(self.0.map(|byte| byte.wrapping_sub(value)))
        }

        pub(super) fn interleave(a: Self, b: Self) -> [Self; 2] {
            [0, WIDTH / 2].map(|start| Self(from_fn(|i| [a, b][i % 2].0[start + i / 2])))
        }
    }
}

use bytes::Bytes;

/// Transposes: byte `j` of result `i` is byte `i` of row `j`. Each round doubles the stride of a
/// row's bytes.
#[inline(always)]
fn transpose(mut rows: [Bytes; WIDTH]) -> [Bytes; WIDTH] {
    for _ in 0..WIDTH.ilog2() {
        let old = rows;
        unrolled!(i < WIDTH / 2 => { [rows[2 * i], rows[2 * i + 1]] = Bytes::interleave(old[i], old[i + WIDTH / 2]); });
    }
    rows
}

/// Lines of sixteen entries: `L` blocks of sixteen planes, one block for two words.
const fn chunk_lines<const L: usize>() -> usize {
    WIDTH * entry_lines::<L>()
}

/// See [`super::CurveKernels::arrange`]: turns every sixteen entries into planes, in place.
pub(super) fn arrange<const L: usize>(table: &mut [Line]) {
    for chunk in table.chunks_exact_mut(chunk_lines::<L>()) {
        let planes: [[Bytes; WIDTH]; MAX_WORDS / 2] = std::array::from_fn(|block| {
            let word = |entry: usize, place: usize| chunk[entry * entry_lines::<L>() + place / LANES].0[place % LANES];
            let entry =
                |entry| if block < L { [2 * block, 2 * block + 1].map(|place| word(entry, place)) } else { [0; 2] };
            transpose(std::array::from_fn(|i| Bytes::of(entry(i))))
        });
        let words = planes[..L].iter().flatten().flat_map(|plane| plane.words());
        chunk.iter_mut().flat_map(|line| &mut line.0).zip(words).for_each(|(place, word)| *place = word);
    }
}

/// See [`super::CurveKernels::select`]; at most 256 entries, arranged.
pub(super) fn select<F: Coordinate<L>, const L: usize>(
    table: &[Line],
    index: &[Line],
    negate: &[Line],
    out: &mut [Line],
) {
    if table.len() < chunk_lines::<L>() {
        return super::portable::select::<F, L>(table, index, negate, out);
    }
    assert!(table.len() <= 16 * chunk_lines::<L>(), "tables of at most 256 entries");
    let group = 2 * F::LIMBS;
    let halves = out.chunks_mut(2 * group).zip(index.chunks(2)).zip(negate.chunks(2));
    for ((out, index), negate) in halves {
        let mut packed = [0; 2];
        for (packed, line) in packed.iter_mut().zip(index) {
            *packed = line.0.iter().rev().fold(0, |all, place| all << 8 | place);
        }
        let index = Bytes::of(packed);
        let mut words = [[0; MAX_WORDS]; WIDTH];
        for block in 0..L {
            let rows = transpose(look_up::<L>(table, block, index));
            for (words, row) in words.iter_mut().zip(rows) {
                [words[2 * block], words[2 * block + 1]] = row.words();
            }
        }
        for (i, words) in words.iter().enumerate().take(out.len() / group * LANES) {
            let coordinate = |start: usize| F::from_residue(&std::array::from_fn(|j| words[start + j]));
            let y = coordinate(L).negate_masked(negate[i / LANES].0[i % LANES]);
            Affine { x: coordinate(0), y }.write(out, i);
        }
    }
}

/// The entries at the places `index`: one plane for each byte of a block.
#[inline(always)]
fn look_up<const L: usize>(table: &[Line], block: usize, index: Bytes) -> [Bytes; WIDTH] {
    let mut found = [Bytes::of([0; 2]); WIDTH];
    // half of the sums at a time stay in registers
    for half in 0..2 {
        let mut sums = [Bytes::of([0; 2]); WIDTH / 2];
        for (chunk, lines) in table.chunks_exact(chunk_lines::<L>()).enumerate() {
            let local = index.less((WIDTH * chunk) as u8);
            let lines = &lines[4 * block + 2 * half..][..2];
            unrolled!(i < WIDTH / 2 => {
                let plane = Bytes::of([lines[i / 4].0[2 * (i % 4)], lines[i / 4].0[2 * (i % 4) + 1]]);
                sums[i] = sums[i].or(plane.look_up(local));
            });
        }
        found[half * WIDTH / 2..][..WIDTH / 2].copy_from_slice(&sums);
    }
    found
}
