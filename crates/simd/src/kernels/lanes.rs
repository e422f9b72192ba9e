//! Eight 64-bit lanes, and the dozen operations in which the arithmetic of fields and the loops
//! over residues are written.

use super::lines::{LANES, Line};
use super::sealed::Sealed;

/// A set of vector operations. A value of the type proves that this machine has them.
///
/// Lanes are unsigned 64-bit integers, and operations are modulo 2^64; only `sar` reads lanes as
/// signed.
pub trait Simd: Sealed + Copy {
    /// Eight lanes.
    type V: Copy;

    /// The value in each lane.
    fn splat(self, value: u64) -> Self::V;
    /// Lines as lanes, in place.
    fn view(self, lines: &[Line]) -> &[Self::V];
    /// The lanes of a line.
    fn load(self, line: &Line) -> Self::V;
    /// Stores the lanes in a line.
    fn store(self, v: Self::V, line: &mut Line);
    /// Loads eight words at any alignment.
    fn load_words(self, words: &[u64; LANES]) -> Self::V;
    /// Stores the lanes in eight words at any alignment.
    fn store_words(self, v: Self::V, words: &mut [u64; LANES]);
    /// Loads eight signed words.
    fn load_signed(self, words: &[i64; LANES]) -> Self::V;
    /// Stores the lanes in eight signed words.
    fn store_signed(self, v: Self::V, words: &mut [i64; LANES]);
    /// Lanes of `a` and `b` in turn: first those of the first halves, then those of the second.
    fn interleave(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// Prefetches a line some way behind `words`. The line need not exist.
    fn prefetch(self, words: &[u64; LANES]);
    /// The smaller of two lanes, unsigned.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a + b` modulo 2^64.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b` modulo 2^64.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// Shift left; zero from 64 on.
    fn shl(self, v: Self::V, count: u32) -> Self::V;
    /// Shift right; zero from 64 on.
    fn shr(self, v: Self::V, count: u32) -> Self::V;
    /// Arithmetic shift right by less than 64.
    fn sar(self, v: Self::V, count: u32) -> Self::V;
    /// `sum +` the low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn multiply_add_low(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// `sum +` the high 52 bits of the product of the low 52 bits of `a` and `b`.
    fn multiply_add_high(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// One bit a lane: whether the lanes are equal.
    fn equal(self, a: Self::V, b: Self::V) -> u8;
    /// One bit a lane: whether `a` is below `b`, unsigned.
    fn below(self, a: Self::V, b: Self::V) -> u8;
    /// `b` where the lane's bit is set, otherwise `a`.
    fn select(self, bits: u8, a: Self::V, b: Self::V) -> Self::V;
    /// Lane `i` of the result is entry `index[i] mod 16` of the sixteen in `low` and `high`.
    fn look_up(self, index: Self::V, low: Self::V, high: Self::V) -> Self::V;
    /// Rows to columns: lane `j` of result `i` is lane `i` of row `j`.
    fn transpose(self, rows: [Self::V; 8]) -> [Self::V; 8];
    /// Runs `task` in a function of its own, compiled for these operations. A long loop with many
    /// copies of inlined code would not fit the instruction cache.
    fn outline<T: Task>(self, task: T) -> T::Output;
    /// Runs `task` inline, if that is faster.
    fn inline<T: Task>(self, task: T) -> T::Output;
}

/// Work that [`Simd::outline`] puts into a function of its own; `run` must always be inlined.
pub trait Task {
    /// The result of the task.
    type Output;
    /// Runs the task.
    fn run(self) -> Self::Output;
}

/// Plain arrays, on any machine: the reference for the vector code in the tests.
#[derive(Clone, Copy)]
pub struct Emulated;

impl Sealed for Emulated {}

impl Simd for Emulated {
    type V = Line;

    fn view(self, lines: &[Line]) -> &[Line] {
        lines
    }

    fn load(self, line: &Line) -> Line {
        *line
    }

    fn store(self, v: Line, line: &mut Line) {
        *line = v;
    }

    fn splat(self, value: u64) -> Line {
        Line([value; LANES])
    }

    fn load_words(self, words: &[u64; LANES]) -> Line {
        Line(*words)
    }

    fn store_words(self, v: Line, words: &mut [u64; LANES]) {
        *words = v.0;
    }

    fn load_signed(self, words: &[i64; LANES]) -> Line {
        Line(words.map(|word| word as u64))
    }

    fn store_signed(self, v: Line, words: &mut [i64; LANES]) {
        *words = v.0.map(|word| word as i64);
    }

    fn interleave(self, a: Line, b: Line) -> [Line; 2] {
        [0, 4].map(|from| lanewise(|i| if i % 2 == 0 { a.0[from + i / 2] } else { b.0[from + i / 2] }))
    }

    fn prefetch(self, _: &[u64; LANES]) {}

    fn min(self, a: Line, b: Line) -> Line {
        lanewise(|i| a.0[i].min(b.0[i]))
    }

    #[inline(never)]
    fn add(self, a: Line, b: Line) -> Line {
        lanewise(|i| a.0[i].wrapping_add(b.0[i]))
    }

    #[inline(never)]
    fn sub(self, a: Line, b: Line) -> Line {
        lanewise(|i| a.0[i].wrapping_sub(b.0[i]))
    }

    #[inline(never)]
    fn and(self, a: Line, b: Line) -> Line {
        lanewise(|i| a.0[i] & b.0[i])
    }

    #[inline(never)]
    fn or(self, a: Line, b: Line) -> Line {
        lanewise(|i| a.0[i] | b.0[i])
    }

    #[inline(never)]
    fn shl(self, v: Line, count: u32) -> Line {
        lanewise(|i| v.0[i].checked_shl(count).unwrap_or(0))
    }

    #[inline(never)]
    fn shr(self, v: Line, count: u32) -> Line {
        lanewise(|i| v.0[i].checked_shr(count).unwrap_or(0))
    }

    #[inline(never)]
    fn sar(self, v: Line, count: u32) -> Line {
        lanewise(|i| (v.0[i] as i64 >> count) as u64)
    }

    #[inline(never)]
    fn multiply_add_low(self, sum: Line, a: Line, b: Line) -> Line {
        lanewise(|i| sum.0[i].wrapping_add(product52(a.0[i], b.0[i]) as u64 & (u64::MAX >> 12)))
    }

    #[inline(never)]
    fn multiply_add_high(self, sum: Line, a: Line, b: Line) -> Line {
        lanewise(|i| sum.0[i].wrapping_add((product52(a.0[i], b.0[i]) >> 52) as u64))
    }

    #[inline(never)]
    fn equal(self, a: Line, b: Line) -> u8 {
        (0..LANES).map(|i| u8::from(a.0[i] == b.0[i]) << i).sum()
    }

    #[inline(never)]
    fn below(self, a: Line, b: Line) -> u8 {
        (0..LANES).map(|i| u8::from(a.0[i] < b.0[i]) << i).sum()
    }

    #[inline(never)]
    fn select(self, bits: u8, a: Line, b: Line) -> Line {
        lanewise(|i| if bits >> i & 1 == 1 { b.0[i] } else { a.0[i] })
    }

    #[inline(never)]
    fn look_up(self, index: Line, low: Line, high: Line) -> Line {
        Line(index.0.map(|i| if i & 8 == 0 { low.0[i as usize & 7] } else { high.0[i as usize & 7] }))
    }

    #[inline(never)]
    fn transpose(self, rows: [Line; 8]) -> [Line; 8] {
        std::array::from_fn(|i| lanewise(|j| rows[j].0[i]))
    }

    #[inline(never)]
    fn outline<T: Task>(self, task: T) -> T::Output {
        task.run()
    }

    fn inline<T: Task>(self, task: T) -> T::Output {
        self.outline(task)
    }
}

fn lanewise(lane: impl Fn(usize) -> u64) -> Line {
    Line(std::array::from_fn(lane))
}

fn product52(a: u64, b: u64) -> u128 {
    u128::from(a & (u64::MAX >> 12)) * u128::from(b & (u64::MAX >> 12))
}
