//! Four doubles, and operations that each round once. Residues are computed with these where the
//! processor has no products of 52 bits.

use super::sealed::Sealed;

/// A set of vector operations. A value of the type proves that this machine has them.
pub trait Fused: Sealed + Copy {
    /// Four doubles.
    type V: Copy;

    /// The value in each lane.
    fn splat(self, value: f64) -> Self::V;
    /// Integers below 2^52 as doubles.
    fn of_words(self, words: &[u64; 4]) -> Self::V;
    /// Doubles that are integers in `[0, 2^52)`, as words.
    fn to_words(self, v: Self::V, words: &mut [u64; 4]);
    /// Adds doubles as in [`Self::to_words`] to words.
    fn add_to_words(self, v: Self::V, words: &mut [u64; 4]);
    /// Loads four doubles.
    fn load(self, doubles: &[f64; 4]) -> Self::V;
    /// Loads the doubles that [`Self::store_bits`] wrote.
    fn load_bits(self, bits: &[u64; 4]) -> Self::V;
    /// Stores the bits of four doubles for [`Self::load_bits`].
    fn store_bits(self, v: Self::V, bits: &mut [u64; 4]);
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b - c`.
    fn mul_sub(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a b`.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Rounds to the nearest integer.
    fn round(self, v: Self::V) -> Self::V;
    /// Rounds down to an integer.
    fn floor(self, v: Self::V) -> Self::V;
    /// `value` where `v` is negative, otherwise zero.
    fn where_negative(self, v: Self::V, value: Self::V) -> Self::V;
    /// Rows to columns: lane `j` of result `i` is lane `i` of row `j`.
    fn transpose(self, rows: [Self::V; 4]) -> [Self::V; 4];
}

/// Plain arrays, on any machine: the reference for the vector code in the tests.
#[derive(Clone, Copy)]
pub struct EmulatedFused;

impl Sealed for EmulatedFused {}

impl Fused for EmulatedFused {
    type V = [f64; 4];

    fn splat(self, value: f64) -> [f64; 4] {
        [value; 4]
    }

    fn of_words(self, words: &[u64; 4]) -> [f64; 4] {
        words.map(|word| {
            assert!(word < 1 << 52);
            word as f64
        })
    }

    fn to_words(self, v: [f64; 4], words: &mut [u64; 4]) {
        *words = v.map(|x| {
            assert!((0.0..(1u64 << 52) as f64).contains(&x) && x.fract() == 0.0);
            x as u64
        });
    }

    fn add_to_words(self, v: [f64; 4], words: &mut [u64; 4]) {
        words.iter_mut().zip(v).for_each(|(word, x)| *word += x as u64);
    }

    fn load(self, doubles: &[f64; 4]) -> [f64; 4] {
        *doubles
    }

    fn load_bits(self, bits: &[u64; 4]) -> [f64; 4] {
        bits.map(f64::from_bits)
    }

    fn store_bits(self, v: [f64; 4], bits: &mut [u64; 4]) {
        *bits = v.map(f64::to_bits);
    }

    fn add(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        exact(|i| a[i] + b[i])
    }

    fn sub(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        exact(|i| a[i] - b[i])
    }

    fn mul(self, a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }

    fn mul_sub(self, a: [f64; 4], b: [f64; 4], c: [f64; 4]) -> [f64; 4] {
        exact(|i| a[i].mul_add(b[i], -c[i]))
    }

    fn neg_mul_add(self, a: [f64; 4], b: [f64; 4], c: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|i| (-a[i]).mul_add(b[i], c[i]))
    }

    fn round(self, v: [f64; 4]) -> [f64; 4] {
        v.map(f64::round_ties_even)
    }

    fn floor(self, v: [f64; 4]) -> [f64; 4] {
        v.map(f64::floor)
    }

    fn where_negative(self, v: [f64; 4], value: [f64; 4]) -> [f64; 4] {
        std::array::from_fn(|i| if v[i] < 0.0 { value[i] } else { 0.0 })
    }

    fn transpose(self, rows: [[f64; 4]; 4]) -> [[f64; 4]; 4] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }
}

/// Four results that are small enough to be exact, if they are integers.
fn exact(lane: impl Fn(usize) -> f64) -> [f64; 4] {
    let all: [f64; 4] = std::array::from_fn(lane);
    assert!(all.iter().all(|x| x.abs() <= (1u64 << 53) as f64));
    all
}
