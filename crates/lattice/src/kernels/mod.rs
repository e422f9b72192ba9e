//! The loops over residues: transforms, and operations on every residue of a row.
//!
//! A backend is a table of functions ([`RingKernels`]). Inputs and outputs are plain slices of
//! canonical residues in `[0, q)`. Each backend has its own intermediate form: `portable` works on
//! words, `vector` and `transform` on eight lanes with 52-bit products, `doubles` on four lanes of
//! doubles, `quads` on four lanes of 32 bits for small primes, and `estimates` on two lanes of
//! words. The portable loops define the results of all others.
//!
//! # Leakage
//! Constant time.

#[cfg(any(target_arch = "x86_64", test))]
mod doubles;
#[cfg(any(target_feature = "simd128", test))]
mod estimates;
mod matrix;
mod modulus;
#[cfg(target_arch = "x86_64")]
mod on_avx2;
#[cfg(target_arch = "x86_64")]
mod on_avx512;
mod portable;
#[cfg(any(target_feature = "simd128", test))]
mod quads;
#[cfg(any(target_arch = "x86_64", test))]
mod range;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", test))]
mod transform;
#[cfg(any(target_arch = "x86_64", test))]
mod vector;
#[cfg(any(target_arch = "x86_64", test))]
mod weighted;

#[cfg(any(target_arch = "x86_64", test))]
use doubles::{DoubleTransform, Doubles};
#[cfg(any(target_feature = "simd128", test))]
use estimates::{EstimatedTransform, Estimates};
#[cfg(any(target_feature = "simd128", test))]
use quads::QuadTransform;
#[cfg(any(target_arch = "x86_64", test))]
use transform::Transform;
#[cfg(any(target_arch = "x86_64", test))]
use vector::Residues;

pub(crate) use matrix::{BLOCK, SHIFT, SIGNED, TILE};
pub use matrix::{MAX_INPUTS, WeightMatrix};
pub use modulus::{Factor, MAX_BITS, Modulus};
use std::sync::OnceLock;
#[cfg(target_feature = "simd128")]
use tobari_simd::Wasm128;
use tobari_simd::{Backend, chosen};

use portable::Words;

/// A table of loops: those of `$transforms` and `$rows`, in functions compiled for the named
/// features, if any.
macro_rules! ring_kernels {
    ($name:literal, $transforms:expr, $rows:expr $(, $features:literal)?) => {{
        use $crate::kernels::{
            Combination, Factor, Modulus, NttTable, Parts, Permutation, RingKernels, RowPair, Term, WeightMatrix,
        };
        RingKernels {
            name: $name,
            ntt_forward: ring_kernels!(@ $transforms, forward(q: &Modulus, table: &NttTable, values: &mut [u64]) $(, $features)?),
            ntt_inverse: ring_kernels!(@ $transforms, inverse(q: &Modulus, table: &NttTable, values: &mut [u64]) $(, $features)?),
            add_assign: ring_kernels!(@ $rows, add_assign(q: &Modulus, a: &mut [u64], b: &[u64]) $(, $features)?),
            sub_assign: ring_kernels!(@ $rows, sub_assign(q: &Modulus, a: &mut [u64], b: &[u64]) $(, $features)?),
            neg_assign: ring_kernels!(@ $rows, neg_assign(q: &Modulus, a: &mut [u64]) $(, $features)?),
            mul_assign: ring_kernels!(@ $rows, mul_assign(q: &Modulus, a: &mut [u64], b: &[u64]) $(, $features)?),
            mul: ring_kernels!(@ $rows, mul(q: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) $(, $features)?),
            mul_add_assign: ring_kernels!(
                @ $rows, mul_add_assign(q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64]) $(, $features)?
            ),
            inner_product: ring_kernels!(
                @ $rows, inner_product(q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) $(, $features)?
            ),
            key_product: ring_kernels!(
                @ $rows,
                key_product(q: &Modulus, out: [&mut [u64]; 2], digits: &[&[u64]], key: &[u64], count: usize)
                $(, $features)?
            ),
            scale_assign: ring_kernels!(@ $rows, scale_assign(q: &Modulus, a: &mut [u64], w: Factor) $(, $features)?),
            scale_add_assign: ring_kernels!(
                @ $rows, scale_add_assign(q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor) $(, $features)?
            ),
            sub_scale_assign: ring_kernels!(
                @ $rows, sub_scale_assign(q: &Modulus, b: &mut [u64], a: &[u64], w: Factor) $(, $features)?
            ),
            tensor: ring_kernels!(
                @ $rows, tensor(q: &Modulus, out: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]) $(, $features)?
            ),
            terms_assign: ring_kernels!(
                @ $rows, terms_assign(terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]) $(, $features)?
            ),
            combine: ring_kernels!(
                @ $rows, combine(combination: &Combination, rows: &[&[u64]], out: &mut [u64]) $(, $features)?
            ),
            of_signed: ring_kernels!(@ $rows, of_signed(q: &Modulus, signed: &[i64], out: &mut [u64]) $(, $features)?),
            gaussian: ring_kernels!(@ $rows, gaussian(table: &[u64], words: &[u64], out: &mut [i64]) $(, $features)?),
            accept: ring_kernels!(@ $rows, accept(q: &Modulus, words: &[u64], out: &mut [u64]) -> usize $(, $features)?),
            of_integers: ring_kernels!(@ $rows, of_integers(q: &Modulus, signed: &[i64], out: &mut [u64]) $(, $features)?),
            centred: ring_kernels!(@ $rows, centred(q: &Modulus, residues: &[u64], out: &mut [i64]) $(, $features)?),
            to_slots: ring_kernels!(@ $rows, to_slots(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) $(, $features)?),
            to_coefficients: ring_kernels!(
                @ $rows, to_coefficients(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) $(, $features)?
            ),
            weighted_sums: ring_kernels!(
                @ $rows, weighted_sums(q: &Modulus, matrix: &WeightMatrix, inputs: &[u64], out: &mut [u64]) $(, $features)?
            ),
            tensor_sum: ring_kernels!(
                @ $rows,
                tensor_sum(q: &Modulus, inputs: &[u64], which: &[u32], weights: &[u64], out: &mut [u64])
                $(, $features)?
            ),
            sign_sums: ring_kernels!(
                @ $rows, sign_sums(q: &Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]) $(, $features)?
            ),
            permute: ring_kernels!(
                @ $rows, permute(permutation: &Permutation, from: &[u64], to: &mut [u64]) $(, $features)?
            ),
        }
    }};
    (@ $room:expr, $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {
        |$($argument: $type),*| $room.$name($($argument),*)
    };
    (@ $room:expr, $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $features:literal) => {{
        fn kernel($($argument: $type),*) $(-> $result)? {
            #[target_feature(enable = $features)]
            fn run($($argument: $type),*) $(-> $result)? {
                $room.$name($($argument),*)
            }
            // SAFETY: the maker of the table gives it only to machines that have the features
            unsafe { run($($argument),*) }
        }
        kernel
    }};
}
#[cfg(target_arch = "x86_64")]
use ring_kernels;

static PORTABLE: RingKernels = ring_kernels!("portable", Words, Words);

#[cfg(target_feature = "simd128")]
static ON_WASM128: RingKernels = ring_kernels!("wasm128", QuadTransform(Wasm128), Estimates(Wasm128));

/// The tables for the transforms of one prime and one length.
#[derive(Clone, Debug)]
pub(crate) struct NttTable {
    /// `ψ^rev(i)`.
    pub(crate) forward: Roots,
    /// `ψ^(-rev(i))`.
    pub(crate) inverse: Roots,
    /// `1/N`.
    pub(crate) scale: Factor,
    /// `1/N` times the root of the last stage back.
    pub(crate) scaled_root: Factor,
}

/// Powers of a root by reversed exponents, with their quotients.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub(crate) values: Vec<u64>,
    pub(crate) quotients: Vec<u64>,
    #[cfg(any(target_arch = "x86_64", test))]
    /// For each 64 coefficients the quotients of the last three stages in the order of vectors: see
    /// [`lane_quotients`].
    pub(crate) lanes: Vec<u64>,
    /// Tables for the loops on doubles, made at their first use.
    #[cfg(any(target_arch = "x86_64", test))]
    doubles: OnceLock<doubles::DoubleRoots>,
    /// Tables for the loops on lanes of 32 bits, made at their first use.
    #[cfg(any(target_feature = "simd128", test))]
    quads: OnceLock<quads::QuadRoots>,
    /// Tables for the loops with estimated quotients, made at their first use.
    #[cfg(any(target_feature = "simd128", test))]
    estimated: OnceLock<estimates::EstimatedRoots>,
}

impl Roots {
    /// Tables from `root^rev(i)`, `i < N`.
    pub(crate) fn new(factors: &[Factor]) -> Self {
        let quotients: Vec<u64> = factors.iter().map(|factor| factor.quotient).collect();
        Self {
            values: factors.iter().map(|factor| factor.value).collect(),
            #[cfg(any(target_arch = "x86_64", test))]
            lanes: lane_quotients(&quotients),
            #[cfg(any(target_arch = "x86_64", test))]
            doubles: OnceLock::new(),
            #[cfg(any(target_feature = "simd128", test))]
            quads: OnceLock::new(),
            #[cfg(any(target_feature = "simd128", test))]
            estimated: OnceLock::new(),
            quotients,
        }
    }

    #[cfg(any(target_arch = "x86_64", target_feature = "simd128", test))]
    /// The factor at `index`: block `b` of the stage that cuts `m` blocks has number `m + b`.
    #[inline(always)]
    fn factor(&self, index: usize) -> Factor {
        Factor { value: self.values[index], quotient: self.quotients[index] }
    }
}

#[cfg(any(target_arch = "x86_64", test))]
/// Quotients for the stages inside of vectors. For 64 coefficients in eight vectors, transposed so
/// that lane `j` has the former vector `j`, the first stage needs one factor a lane, the second
/// two, the third four: seven vectors.
fn lane_quotients(quotients: &[u64]) -> Vec<u64> {
    let (degree, mut lanes) = (quotients.len(), Vec::new());
    for block in 0..degree / 64 {
        for (first, count) in [(degree / 8, 1), (degree / 4, 2), (degree / 2, 4)] {
            for i in 0..count {
                lanes.extend((0..8).map(|lane| quotients[first + (8 * block + lane) * count + i]));
            }
        }
    }
    lanes
}

/// Two rows to multiply.
pub(crate) type RowPair<'a> = (&'a [u64], &'a [u64]);

/// Real and imaginary parts.
#[derive(Clone, Debug)]
pub(crate) struct Parts<T> {
    pub(crate) re: T,
    pub(crate) im: T,
}

/// `tensor(q, out, a, b)`.
pub(crate) type Tensor = fn(&Modulus, [&mut [u64]; 3], [&[u64]; 2], [&[u64]; 2]);

/// `tensor_sum(q, inputs, which, weights, out)`.
pub(crate) type TensorSum = fn(&Modulus, &[u64], &[u32], &[u64], &mut [u64]);

/// `key_product(q, out, digits, key, count)`.
pub(crate) type KeyProduct = fn(&Modulus, [&mut [u64]; 2], &[&[u64]], &[u64], usize);

/// One residue of a number in a conversion: see [`crate::ring::Conversion`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) modulus: Modulus,
    /// `(Q/q)^-1 mod q`.
    pub(crate) inverse: Factor,
    /// `⌊2^101 / (2^s q)⌋`, below 2^52.
    pub(crate) reciprocal: u64,
}

impl Term {
    /// A term, given `(Q/q)^-1`.
    pub(crate) fn new(modulus: Modulus, inverse: Factor) -> Self {
        let reciprocal = ((1u128 << 101) / (u128::from(modulus.value()) << modulus.shift())) as u64;
        Self { modulus, inverse, reciprocal }
    }
}

/// `Σ products[i] x[i] + offset` modulo a number, for `x[i] < 2^50`.
#[derive(Clone, Debug)]
pub(crate) struct Combination {
    pub(crate) modulus: Modulus,
    /// Residues.
    pub(crate) products: Vec<u64>,
    pub(crate) offset: u64,
}

/// The permutation of the values of a row by an automorphism. Eight adjacent values come from eight
/// adjacent values: their exponents differ by multiples of `N/4`, before and after.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    /// The source of the first of each eight.
    firsts: Vec<u32>,
    /// The places of all eight, by the place of the first.
    patterns: [[u64; 8]; 8],
}

impl Permutation {
    /// Place `i` gets the value at place `source(i)`.
    ///
    /// # Panics
    /// If eight adjacent values do not come from eight adjacent values.
    pub(crate) fn new(degree: usize, source: impl Fn(usize) -> usize) -> Self {
        let mut patterns = [[0; 8]; 8];
        let mut firsts = Vec::with_capacity(degree / 8);
        for block in (0..degree).step_by(8) {
            let first = source(block);
            let pattern: [u64; 8] = std::array::from_fn(|i| source(block + i) as u64 ^ (first & !7) as u64);
            assert!(pattern.iter().all(|place| *place < 8), "eights come from eights");
            patterns[first & 7] = pattern;
            firsts.push(first as u32);
        }
        Self { firsts, patterns }
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&self.firsts[..]) + size_of_val(&self.patterns)
    }

    /// For each eight places: which eight, and the places in it.
    fn blocks(&self) -> impl Iterator<Item = (usize, &[u64; 8])> {
        self.firsts.iter().map(|first| ((first >> 3) as usize, &self.patterns[(first & 7) as usize]))
    }
}

/// One backend's loops over rows of residues. Slices of one call have the same length, a multiple
/// of eight; transforms also accept two and four values. Callers check this.
pub struct RingKernels {
    /// The backend, as `tobari info` prints it.
    pub name: &'static str,
    /// Coefficients to values; see [`crate::ring`].
    pub(crate) ntt_forward: fn(&Modulus, &NttTable, &mut [u64]),
    /// Values to coefficients.
    pub(crate) ntt_inverse: fn(&Modulus, &NttTable, &mut [u64]),
    /// `a[i] += b[i]`.
    pub(crate) add_assign: fn(&Modulus, a: &mut [u64], b: &[u64]),
    /// `a[i] -= b[i]`.
    pub(crate) sub_assign: fn(&Modulus, a: &mut [u64], b: &[u64]),
    /// `a[i] = -a[i]`.
    pub(crate) neg_assign: fn(&Modulus, a: &mut [u64]),
    /// `a[i] *= b[i]`.
    pub(crate) mul_assign: fn(&Modulus, a: &mut [u64], b: &[u64]),
    /// `out[i] = a[i] b[i]`.
    pub(crate) mul: fn(&Modulus, out: &mut [u64], a: &[u64], b: &[u64]),
    /// `sum[i] += a[i] b[i]`.
    pub(crate) mul_add_assign: fn(&Modulus, sum: &mut [u64], a: &[u64], b: &[u64]),
    /// `out[i] = Σ a[i] b[i]` over the pairs `(a, b)`.
    pub(crate) inner_product: fn(&Modulus, out: &mut [u64], pairs: &[RowPair<'_>]),
    /// `out[h][i] = Σ digits[d][i] key[…]`: for each eight `i`, a key has the eight values of
    /// `h = 0` and those of `h = 1` for each of `count` digits. The first digits are used.
    pub(crate) key_product: KeyProduct,
    /// `a[i] *= w`.
    pub(crate) scale_assign: fn(&Modulus, a: &mut [u64], w: Factor),
    /// `sum[i] += a[i] w`.
    pub(crate) scale_add_assign: fn(&Modulus, sum: &mut [u64], a: &[u64], w: Factor),
    /// `b[i] = (a[i] - b[i]) w`.
    pub(crate) sub_scale_assign: fn(&Modulus, b: &mut [u64], a: &[u64], w: Factor),
    /// `a0 b0`, `a0 b1 + a1 b0` and `a1 b1`.
    pub(crate) tensor: Tensor,
    /// Turns rows of residues into terms `y`, and writes the quotients `v`: see
    /// [`crate::ring::Conversion`].
    pub(crate) terms_assign: fn(&[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]),
    /// `out[i] = Σ products[j] rows[j][i] + offset`.
    pub(crate) combine: fn(&Combination, rows: &[&[u64]], out: &mut [u64]),
    /// Residues of numbers below `q` in absolute value.
    pub(crate) of_signed: fn(&Modulus, signed: &[i64], out: &mut [u64]),
    /// Residues of numbers below 2^52 in absolute value.
    pub(crate) of_integers: fn(&Modulus, signed: &[i64], out: &mut [u64]),
    /// Residues as numbers of least absolute value: [`Modulus::centred`].
    pub(crate) centred: fn(&Modulus, residues: &[u64], out: &mut [i64]),
    /// The stages of [`crate::ckks::Embedding`] from coefficients to slots; the same operations on
    /// doubles, in the same order for each, on every backend.
    pub(crate) to_slots: fn(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]),
    /// The stages back.
    pub(crate) to_coefficients: fn(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]),
    /// Samples from words: the highest bit is the sign, and the absolute value is the number of
    /// table entries at or below the other bits.
    pub(crate) gaussian: fn(table: &[u64], words: &[u64], out: &mut [i64]),
    /// Keeps, in order, the candidates below `q` among the low bits of words, or of half words for
    /// moduli of at most 32 bits. Returns their number.
    pub(crate) accept: fn(&Modulus, words: &[u64], out: &mut [u64]) -> usize,
    /// Tiles of residues, one for each input, times a matrix. Writes tiles for its outputs, with
    /// padding to a full last block.
    pub(crate) weighted_sums: fn(&Modulus, &WeightMatrix, inputs: &[u64], out: &mut [u64]),
    /// Tiles of the three parts of `Σ x ⊗ w`, from tiles of both parts of inputs and of weights.
    /// `which` gives the input of each weight.
    pub(crate) tensor_sum: TensorSum,
    /// Sums of sixteen tiles with signs, for each list of signs. Bit `i` is set if tile `i` is
    /// subtracted: see [`SIGNED`]. Every other tile of `inputs` is read, and every other one of
    /// `out` written.
    pub(crate) sign_sums: fn(&Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]),
    /// Permutes values.
    pub(crate) permute: fn(&Permutation, from: &[u64], to: &mut [u64]),
}

impl RingKernels {
    /// The loops in use: the fastest on this machine, unless
    /// [`choose_backend`](tobari_simd::choose_backend) selected others.
    pub fn best() -> &'static RingKernels {
        static BEST: OnceLock<&RingKernels> = OnceLock::new();
        BEST.get_or_init(|| match chosen() {
            Backend::Fastest => Self::available().last().unwrap_or(&PORTABLE),
            Backend::Avx2 => Self::available().find(|kernels| kernels.name == "avx2").unwrap_or(&PORTABLE),
            Backend::Portable => &PORTABLE,
        })
    }

    /// All loops that run on this machine, the fastest last.
    pub fn available() -> impl Iterator<Item = &'static RingKernels> {
        #[cfg(target_arch = "x86_64")]
        let others = [on_avx2::kernels(), on_avx512::kernels()];
        #[cfg(target_feature = "simd128")]
        let others = [Some(&ON_WASM128)];
        #[cfg(not(any(target_arch = "x86_64", target_feature = "simd128")))]
        let others = [None; 0];
        std::iter::once(&PORTABLE).chain(others.into_iter().flatten())
    }
}
