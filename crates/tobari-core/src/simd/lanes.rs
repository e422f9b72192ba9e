//! Eight 64-bit lanes and the dozen operations that the field arithmetic of [`super::field52`] is written in.

/// A set of vector operations. A value of the type is proof that this machine has them.
///
/// Lanes are unsigned 64-bit integers and wrap around; `sar` alone reads them as signed.
pub(super) trait Simd: Copy {
    /// Eight lanes.
    type V: Copy;

    fn splat(self, value: u64) -> Self::V;
    /// The first eight words; words beyond the end of the slice are zero.
    fn load(self, words: &[u64]) -> Self::V;
    /// As many lanes as the slice has words, eight at most.
    fn store(self, v: Self::V, words: &mut [u64]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
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
    /// One bit a lane: equal.
    fn equal(self, a: Self::V, b: Self::V) -> u8;
    /// One bit a lane: below, unsigned.
    fn below(self, a: Self::V, b: Self::V) -> u8;
    /// `b` where the lane's bit is set, else `a`.
    fn select(self, bits: u8, a: Self::V, b: Self::V) -> Self::V;
    /// Lane `i` of the result is entry `index[i] mod 16` of the sixteen in `low` and `high`.
    fn look_up(self, index: Self::V, low: Self::V, high: Self::V) -> Self::V;
    /// Rows to columns: lane `j` of result `i` is lane `i` of row `j`.
    fn transpose(self, rows: [Self::V; 8]) -> [Self::V; 8];
    /// Does `task` in a function of its own, compiled for these operations: what is done in many places of a long loop
    /// would not fit the instruction cache if it stood in each.
    fn outline<T: Task>(self, task: T) -> T::Output;
}

/// Work that [`Simd::outline`] puts into a function of its own; `run` must be inlined always.
pub(super) trait Task {
    type Output;
    fn run(self) -> Self::Output;
}

/// Plain arrays, on any machine: the oracle of the vector code in the tests.
#[cfg(test)]
#[derive(Clone, Copy)]
pub(super) struct Emulated;

#[cfg(test)]
impl Simd for Emulated {
    type V = [u64; 8];

    fn splat(self, value: u64) -> [u64; 8] {
        [value; 8]
    }

    fn load(self, words: &[u64]) -> [u64; 8] {
        std::array::from_fn(|i| words.get(i).copied().unwrap_or(0))
    }

    fn store(self, v: [u64; 8], words: &mut [u64]) {
        let count = words.len().min(8);
        words[..count].copy_from_slice(&v[..count]);
    }

    fn add(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    fn sub(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    fn and(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| a[i] & b[i])
    }

    fn or(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    fn shl(self, v: [u64; 8], count: u32) -> [u64; 8] {
        v.map(|lane| lane.checked_shl(count).unwrap_or(0))
    }

    fn shr(self, v: [u64; 8], count: u32) -> [u64; 8] {
        v.map(|lane| lane.checked_shr(count).unwrap_or(0))
    }

    fn sar(self, v: [u64; 8], count: u32) -> [u64; 8] {
        v.map(|lane| (lane as i64 >> count) as u64)
    }

    fn multiply_add_low(self, sum: [u64; 8], a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| sum[i].wrapping_add(product52(a[i], b[i]) as u64 & (u64::MAX >> 12)))
    }

    fn multiply_add_high(self, sum: [u64; 8], a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| sum[i].wrapping_add((product52(a[i], b[i]) >> 52) as u64))
    }

    fn equal(self, a: [u64; 8], b: [u64; 8]) -> u8 {
        (0..8).map(|i| u8::from(a[i] == b[i]) << i).sum()
    }

    fn below(self, a: [u64; 8], b: [u64; 8]) -> u8 {
        (0..8).map(|i| u8::from(a[i] < b[i]) << i).sum()
    }

    fn select(self, bits: u8, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
        std::array::from_fn(|i| if bits >> i & 1 == 1 { b[i] } else { a[i] })
    }

    fn look_up(self, index: [u64; 8], low: [u64; 8], high: [u64; 8]) -> [u64; 8] {
        index.map(|i| if i & 8 == 0 { low[i as usize & 7] } else { high[i as usize & 7] })
    }

    fn transpose(self, rows: [[u64; 8]; 8]) -> [[u64; 8]; 8] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }

    fn outline<T: Task>(self, task: T) -> T::Output {
        task.run()
    }
}

#[cfg(test)]
fn product52(a: u64, b: u64) -> u128 {
    u128::from(a & (u64::MAX >> 12)) * u128::from(b & (u64::MAX >> 12))
}
