//! Random polynomials from seeds.
//!
//! A [`Stream`] is the key stream of ChaCha20 in Bernstein's original form: the seed is the key,
//! the 64-bit nonce is a [`Domain`] in its highest byte and an index below, the 64-bit block
//! counter starts at 0. Bytes are read as little-endian words. So every random object has a name,
//! no two names share bytes, and every row of residues can be expanded alone.
//!
//! | drawn | from | how |
//! |---|---|---|
//! | uniform residues | words of 4 or 8 bytes | the low bits, as many as in `q`; above: again |
//! | ternary, uniform on -1, 0, 1 | crumbs of 2 bits, lowest first | less one; 3 is rejected |
//! | ternary of a weight | words of 4 bytes | lowest bit: sign; the next ones: place; a place that is taken: again |
//! | centred binomial, `η ≤ 32` | words of 8 bytes | ones among the low `η` bits less ones among the next `η`; variance `η/2` |
//! | rounded Gaussian, `σ = 3.2` | words of 8 bytes | top bit: sign; the others: absolute value |
//!
//! Uniform residues take words of 4 bytes for moduli of at most 32 bits, and words of 8 bytes for
//! larger moduli. The other bits of a Gaussian's word are compared with the distribution function
//! of the absolute value.
//!
//! The Gaussian's table holds `⌊2^63 P(|round(3.2 Z)| ≤ k)⌉` for `k = 0 … 28`, computed with 200
//! bits: every probability is right to `2^-63`, and larger values, which have a chance of `2^-60`
//! together, do not occur. Its standard deviation is 3.213, the root of `3.2² + 1/12`.
//!
//! # Leakage
//! Constant time in the accepted values. The positions of rejected words are independent of these
//! values.

use crate::kernels::Modulus;
use crate::kernels::RingKernels;
use rand_core::CryptoRng;
use tobari_simd::StreamKernels;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of a seed.
pub const SEED_BYTES: usize = 32;

/// The seed of random polynomials: 32 bytes. It may be secret, or public, such as that of the
/// uniform half of a key.
///
/// ```
/// use tobari_lattice::ring::{Domain, Modulus, Seed};
/// let seed = Seed::from_bytes([7; 32]);
/// let mut residues = [0; 8];
/// seed.stream(Domain::Uniform, 0).uniform(&Modulus::new(65_537).unwrap(), &mut residues);
/// assert!(residues.iter().all(|residue| *residue < 65_537));
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Seed([u8; SEED_BYTES]);

/// The purpose of a stream, part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Domain {
    /// Uniform residues that anybody may expand.
    Uniform = 1,
    /// A secret key.
    Secret = 2,
    /// Errors.
    Error = 3,
    /// The ephemeral secret of an encryption under a public key.
    Ephemeral = 4,
    /// Errors wide enough to hide other errors.
    Flood = 5,
    /// Seeds of further objects.
    Seed = 6,
}

impl Seed {
    /// A random seed.
    pub fn random(rng: &mut impl CryptoRng) -> Self {
        let mut seed = Self([0; SEED_BYTES]);
        rng.fill_bytes(&mut seed.0);
        seed
    }

    /// A seed from its bytes.
    pub const fn from_bytes(bytes: [u8; SEED_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for storage or for a public seed.
    pub fn to_bytes(&self) -> [u8; SEED_BYTES] {
        self.0
    }

    /// The stream of this name.
    ///
    /// # Panics
    /// If the index does not fit 56 bits.
    pub fn stream(&self, domain: Domain, index: u64) -> Stream {
        assert!(index >> 56 == 0, "an index below 2^56");
        Stream::new(self.clone(), (domain as u64) << 56 | index)
    }

    /// A seed that depends on this one and on the name.
    pub fn derive(&self, index: u64) -> Seed {
        let (mut seed, mut stream) = (Self([0; SEED_BYTES]), self.stream(Domain::Seed, index));
        let words = stream.words(SEED_BYTES / 8);
        seed.0.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        seed
    }
}

/// A stream of random words; wiped on drop. Words of 64 bits begin at even words of 32 bits.
pub struct Stream {
    seed: Seed,
    name: u64,
    /// The next block to draw.
    block: u64,
    words: Zeroizing<[u64; CHUNK]>,
    /// Words drawn into the buffer, and half words of them that were read.
    drawn: usize,
    read: usize,
}

/// The most words drawn at once.
const CHUNK: usize = 512;
/// Words of a block.
const BLOCK: usize = 8;

impl Stream {
    fn new(seed: Seed, name: u64) -> Self {
        Self { seed, name, block: 0, words: Zeroizing::new([0; CHUNK]), drawn: 0, read: 0 }
    }

    /// From 1 to `wanted` words.
    fn words(&mut self, wanted: usize) -> &[u64] {
        let mut first = self.read.div_ceil(2);
        if first == self.drawn {
            let blocks = wanted.div_ceil(BLOCK).clamp(1, CHUNK / BLOCK);
            (self.drawn, first) = (blocks * BLOCK, 0);
            (StreamKernels::best().keystream)(&self.seed.0, self.name, self.block, &mut self.words[..self.drawn]);
            self.block += blocks as u64;
        }
        let last = self.drawn.min(first + wanted);
        self.read = 2 * last;
        &self.words[first..last]
    }

    /// A word of 32 bits; `wanted` is about the number still needed.
    fn half(&mut self, wanted: usize) -> u32 {
        if self.read % 2 == 1 {
            self.read += 1;
            return (self.words[self.read / 2 - 1] >> 32) as u32;
        }
        let (drawn, read) = (self.drawn, self.read);
        if read == 2 * drawn {
            self.words(wanted.div_ceil(2));
            self.read = 0;
        }
        self.read += 1;
        self.words[self.read / 2] as u32
    }

    /// Uniform residues.
    pub fn uniform(&mut self, modulus: &Modulus, out: &mut [u64]) {
        let accept = RingKernels::best().accept;
        let narrow = modulus.bits() <= 32;
        let mut kept = 0;
        while kept < out.len() {
            // draw one candidate for each remaining place
            let left = out.len() - kept;
            if narrow && (left == 1 || self.read % 2 == 1) {
                let candidate = u64::from(self.half(1)) & (u64::MAX >> (64 - modulus.bits()));
                out[kept] = candidate;
                kept += usize::from(candidate < modulus.value());
            } else {
                kept += accept(modulus, self.words(if narrow { left / 2 } else { left }), &mut out[kept..]);
            }
        }
    }

    /// Uniform on -1, 0, 1.
    pub fn ternary(&mut self, out: &mut [i64]) {
        let mut kept = 0;
        while kept < out.len() {
            let left = out.len() - kept;
            let crumbs = self.half(left.div_ceil(16));
            for crumb in (0..16).map(|i| i64::from(crumbs >> (2 * i) & 3)) {
                if kept == out.len() {
                    break; // the last word had a crumb too many
                }
                out[kept] = crumb - 1;
                kept += usize::from(crumb < 3);
            }
        }
    }

    /// Uniform among the vectors with `weight` coefficients of -1 or 1, and 0 elsewhere. Positions
    /// that were drawn before are rejected. No branch and no address depends on the accepted ones.
    ///
    /// # Panics
    /// If the weight is more than the length, or the length is no power of two below `2^31`.
    pub fn sparse_ternary(&mut self, weight: usize, out: &mut [i64]) {
        let length = out.len();
        assert!(length.is_power_of_two() && length < 1 << 31 && weight <= length, "{weight} of {length} coefficients");
        out.fill(0);
        let mut taken = 0;
        while taken < weight {
            let half = self.half(1);
            let (place, sign) = ((half >> 1) as usize & (length - 1), i64::from(half & 1) * 2 - 1);
            let mut added = 0;
            for (i, value) in out.iter_mut().enumerate() {
                // -1 at the place if it is free
                let chosen = -((((i ^ place) as u64).wrapping_sub(1) >> 63) as i64 & i64::from(*value == 0));
                *value |= chosen & sign;
                added += (chosen & 1) as usize;
            }
            taken += added;
        }
    }

    /// The centred binomial distribution of parameter `eta`.
    ///
    /// # Panics
    /// If `eta` is more than 32.
    pub fn centred_binomial(&mut self, eta: u32, out: &mut [i64]) {
        assert!((1..=32).contains(&eta), "a parameter from 1 to 32");
        let mask = u64::MAX >> (64 - eta);
        self.each_word(out, |word| {
            let ones = |bits: u64| i64::from((bits & mask).count_ones());
            ones(word) - ones(word >> eta)
        });
    }

    /// The rounded Gaussian of standard deviation 3.2.
    pub fn gaussian(&mut self, out: &mut [i64]) {
        self.blocks(out, |words, out| (RingKernels::best().gaussian)(&GAUSSIAN, words, out));
    }

    /// Uniform on the integers from `-2^bits` to below `2^bits`.
    ///
    /// # Panics
    /// If there are more than 62 bits.
    pub fn uniform_bits(&mut self, bits: u32, out: &mut [i64]) {
        assert!(bits <= 62, "at most 62 bits");
        self.each_word(out, |word| word as i64 >> (63 - bits));
    }

    fn each_word(&mut self, out: &mut [i64], of: impl Fn(u64) -> i64) {
        self.blocks(out, |words, out| out.iter_mut().zip(words).for_each(|(out, word)| *out = of(*word)));
    }

    /// Passes all of `out` to `work` in blocks, with as many words.
    fn blocks(&mut self, out: &mut [i64], work: impl Fn(&[u64], &mut [i64])) {
        let mut rest = out;
        while !rest.is_empty() {
            let words = self.words(rest.len());
            let (now, later) = rest.split_at_mut(words.len());
            work(words, now);
            rest = later;
        }
    }
}

/// `⌊2^63 P(|x| ≤ k)⌉` of the rounded Gaussian, for `k` from 0.
const GAUSSIAN: [u64; 29] = [
    0x0fe4_9b67_dc81_59c6,
    0x2e2d_1c3c_52a8_98ee,
    0x485d_35a2_bfb7_3e55,
    0x5ceb_732e_1722_d4e3,
    0x6b90_978e_d137_b379,
    0x7509_18a6_261b_9ef9,
    0x7a98_3819_4645_678e,
    0x7d8e_6d64_fa05_b5b3,
    0x7efd_1567_1e08_3d30,
    0x7f9e_04e8_6b30_32cd,
    0x7fde_2288_855d_8680,
    0x7ff5_51b6_1e43_79ea,
    0x7ffc_eda7_e45f_8f31,
    0x7fff_31ec_d05c_47a9,
    0x7fff_ced0_1461_8980,
    0x7fff_f54f_dd5b_dbf5,
    0x7fff_fde2_f40f_c52c,
    0x7fff_ff9e_abf0_edbd,
    0x7fff_fff0_13b1_364f,
    0x7fff_fffd_a1a4_5e49,
    0x7fff_ffff_ae02_14e1,
    0x7fff_ffff_f5ec_6bf4,
    0x7fff_ffff_fedf_ec2a,
    0x7fff_ffff_ffe2_c526,
    0x7fff_ffff_fffd_4e43,
    0x7fff_ffff_ffff_c640,
    0x7fff_ffff_ffff_fb9c,
    0x7fff_ffff_ffff_ffb2,
    0x7fff_ffff_ffff_fffb,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(index: u64) -> Stream {
        Seed::from_bytes([9; SEED_BYTES]).stream(Domain::Error, index)
    }

    fn moments(values: &[i64]) -> (f64, f64) {
        let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
        (mean, values.iter().map(|x| (*x as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64)
    }

    const MANY: usize = 1 << 17;

    /// RFC 8439's first test vector of the block function: key and nonce zero, counter 0. Both
    /// forms of ChaCha20 share it.
    #[test]
    fn the_stream_is_chacha20() {
        let mut residues = [0; 2];
        Stream::new(Seed::from_bytes([0; 32]), 0).uniform(&Modulus::new((1 << 50) - 1).unwrap(), &mut residues);
        let bytes = [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28];
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) & ((1 << 50) - 1));
        assert!(words.eq(residues));
    }

    #[test]
    fn uniform_residues_are_below_their_modulus_and_spread_evenly() {
        for q in [3, 786_433, (1 << 31) - 1, (1 << 32) + 15, (1 << 50) - 27] {
            let mut residues = vec![0; MANY];
            stream(1).uniform(&Modulus::new(q).unwrap(), &mut residues);
            assert!(residues.iter().all(|residue| *residue < q));
            let mean = residues.iter().map(|residue| *residue as f64 / (q - 1) as f64).sum::<f64>() / MANY as f64;
            assert!((mean - 0.5).abs() < 0.006, "{q}: {mean}"); // five deviations
        }
    }

    #[test]
    fn small_distributions_have_their_mean_variance_and_support() {
        let draw = |of: &dyn Fn(&mut Stream, &mut [i64])| {
            let mut values = vec![0; MANY];
            of(&mut stream(2), &mut values);
            values
        };
        let cases: [(&str, Vec<i64>, f64, i64); 5] = [
            ("ternary", draw(&|stream, out| stream.ternary(out)), 2.0 / 3.0, 1),
            ("binomial 1", draw(&|stream, out| stream.centred_binomial(1, out)), 0.5, 1),
            ("binomial 21", draw(&|stream, out| stream.centred_binomial(21, out)), 10.5, 21),
            ("gaussian", draw(&|stream, out| stream.gaussian(out)), 3.2 * 3.2 + 1.0 / 12.0, 29),
            ("bits", draw(&|stream, out| stream.uniform_bits(4, out)), (1024.0 - 1.0) / 12.0, 16),
        ];
        for (name, values, variance, most) in cases {
            let (mean, measured) = moments(&values);
            let expected_mean = if name == "bits" { -0.5 } else { 0.0 };
            assert!((mean - expected_mean).abs() < 5.0 * (variance / MANY as f64).sqrt(), "{name}: mean {mean}");
            assert!((measured / variance - 1.0).abs() < 0.03, "{name}: variance {measured}");
            assert!(values.iter().all(|value| value.abs() <= most), "{name}");
        }
    }

    #[test]
    fn the_gaussian_has_its_distribution() {
        let mut values = vec![0; MANY];
        stream(3).gaussian(&mut values);
        for (k, entry) in GAUSSIAN.iter().enumerate().take(12) {
            let within = values.iter().filter(|value| value.unsigned_abs() <= k as u64).count() as f64 / MANY as f64;
            let expected = *entry as f64 / 2f64.powi(63);
            assert!((within - expected).abs() < 5.0 * (expected * (1.0 - expected) / MANY as f64).sqrt() + 1e-9, "{k}");
        }
        assert!(GAUSSIAN.windows(2).all(|pair| pair[0] < pair[1]) && GAUSSIAN[28] < 1 << 63);
    }

    #[test]
    fn names_give_streams_of_their_own_and_prefixes_agree() {
        let seed = Seed::from_bytes([1; SEED_BYTES]);
        let first = |domain, index, count: usize| {
            let mut values = vec![0; count];
            seed.stream(domain, index).ternary(&mut values);
            values
        };
        let reference = first(Domain::Error, 0, 3000);
        assert_eq!(first(Domain::Error, 0, 17), reference[..17]);
        for (domain, index) in [(Domain::Error, 1), (Domain::Secret, 0), (Domain::Error, 1 << 55)] {
            assert_ne!(first(domain, index, 3000), reference);
        }
        assert_ne!(seed.derive(0).to_bytes(), seed.derive(1).to_bytes());
    }
}
