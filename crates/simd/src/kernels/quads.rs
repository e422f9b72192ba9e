//! Four lanes of 32 bits and the operations on them, for transforms modulo primes of at most 30
//! bits and for key streams.

use super::sealed::Sealed;

/// A set of vector operations. A value of the type proves that this machine has them.
pub trait Quads: Sealed + Copy {
    /// Four numbers of 32 bits.
    type V: Copy;

    /// The value in each lane.
    fn splat(self, value: u32) -> Self::V;
    /// Loads four lanes.
    fn load(self, lanes: &[u32; 4]) -> Self::V;
    /// Loads four numbers that [`Self::pack`] stored.
    fn unpack(self, words: &[u64; 2]) -> Self::V;
    /// Stores four numbers in two words.
    fn pack(self, v: Self::V, words: &mut [u64; 2]);
    /// Loads numbers below 2^32, one from each word.
    fn of_words(self, words: &[u64; 4]) -> Self::V;
    /// Stores each lane in a word of its own.
    fn to_words(self, v: Self::V, words: &mut [u64; 4]);
    /// `a + b` modulo 2^32.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b` modulo 2^32.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b` modulo 2^32.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `⌊a b / 2^32⌋`.
    fn mul_high(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of two lanes, unsigned.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise exclusive or.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// Rotates each lane left by 7, 8, 12 or 16 bits.
    fn rotate_left<const BITS: u32>(self, v: Self::V) -> Self::V;
    /// Rows to columns: lane `j` of result `i` is lane `i` of row `j`.
    fn transpose(self, rows: [Self::V; 4]) -> [Self::V; 4];
    /// The word in both halves of a vector, as [`Self::unpack`] reads words. The operations below
    /// use vectors of two words.
    fn splat_word(self, word: u64) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// All ones in each word where the signed `a` is greater than `b`.
    fn words_greater(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a + b` modulo 2^64.
    fn add_words(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b` modulo 2^64.
    fn sub_words(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b` modulo 2^64.
    fn mul_words(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a_0 b_0` and `a_1 b_1`.
    fn interleave_words(self, a: Self::V, b: Self::V) -> [Self::V; 2];
    /// The integers of words below 2^52, as the bits of doubles.
    fn doubles(self, v: Self::V) -> Self::V;
    /// `a + b` on the bits of doubles.
    fn add_doubles(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b` on the bits of doubles.
    fn mul_doubles(self, a: Self::V, b: Self::V) -> Self::V;
}

/// Plain arrays, on any machine: the reference for the vector code in the tests.
#[derive(Clone, Copy)]
pub struct EmulatedQuads;

impl Sealed for EmulatedQuads {}

impl Quads for EmulatedQuads {
    type V = [u32; 4];

    fn splat(self, value: u32) -> [u32; 4] {
        [value; 4]
    }

    fn load(self, lanes: &[u32; 4]) -> [u32; 4] {
        *lanes
    }

    fn unpack(self, words: &[u64; 2]) -> [u32; 4] {
        std::array::from_fn(|i| (words[i / 2] >> (32 * (i % 2))) as u32)
    }

    fn pack(self, v: [u32; 4], words: &mut [u64; 2]) {
        *words = std::array::from_fn(|i| u64::from(v[2 * i]) | u64::from(v[2 * i + 1]) << 32);
    }

    fn of_words(self, words: &[u64; 4]) -> [u32; 4] {
        words.map(|word| {
            assert!(word >> 32 == 0);
            word as u32
        })
    }

    fn to_words(self, v: [u32; 4], words: &mut [u64; 4]) {
        *words = v.map(u64::from);
    }

    fn add(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    fn sub(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
    }

    fn mul(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i].wrapping_mul(b[i]))
    }

    fn mul_high(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| ((u64::from(a[i]) * u64::from(b[i])) >> 32) as u32)
    }

    fn min(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i].min(b[i]))
    }

    fn xor(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i] ^ b[i])
    }

    fn rotate_left<const BITS: u32>(self, v: [u32; 4]) -> [u32; 4] {
        v.map(|x| x.rotate_left(BITS))
    }

    fn transpose(self, rows: [[u32; 4]; 4]) -> [[u32; 4]; 4] {
        std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
    }

    fn splat_word(self, word: u64) -> [u32; 4] {
        self.unpack(&[word; 2])
    }

    fn and(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i] & b[i])
    }

    fn words_greater(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, |a, b| u64::from(a as i64 > b as i64).wrapping_neg())
    }

    fn add_words(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, u64::wrapping_add)
    }

    fn sub_words(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, u64::wrapping_sub)
    }

    fn mul_words(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, u64::wrapping_mul)
    }

    fn interleave_words(self, a: [u32; 4], b: [u32; 4]) -> [[u32; 4]; 2] {
        [[a[0], a[1], b[0], b[1]], [a[2], a[3], b[2], b[3]]]
    }

    fn doubles(self, v: [u32; 4]) -> [u32; 4] {
        of_pairs(v, v, |word, _| {
            assert!(word < 1 << 52);
            (word as f64).to_bits()
        })
    }

    fn add_doubles(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits())
    }

    fn mul_doubles(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        of_pairs(a, b, |a, b| (f64::from_bits(a) * f64::from_bits(b)).to_bits())
    }
}

fn of_pairs(a: [u32; 4], b: [u32; 4], word: impl Fn(u64, u64) -> u64) -> [u32; 4] {
    let words = |v| {
        let mut words = [0; 2];
        EmulatedQuads.pack(v, &mut words);
        words
    };
    let (a, b) = (words(a), words(b));
    EmulatedQuads.unpack(&[word(a[0], b[0]), word(a[1], b[1])])
}
