//! Loops on two lanes of words, with quotients estimated by a product of doubles, for machines
//! whose vectors have the low half of a product of words but not the high half, and no fused
//! multiply-add.
//!
//! `k` is the integer nearest to the rounded product of `y` and `w/q` rounded, `y < 2^52` being
//! exact and `|w| ≤ q/2` (factors are centred). With `u = 2^-53` the error of the product is at
//! most `2u |y w / q| < 1/2`, so `|y w - k q| < q`, and `y w - k q + q` lies in `[0, 2q)`. This is
//! the range of Shoup's quotient, for one product of doubles and two low products of words. For two
//! residues `k` is the integer nearest to `(a b) (1/q)` with three roundings; the error is at most
//! `3u q < 3/8`, plus `1/2`.
//!
//! A number below `2^51` in absolute value, added to `3 · 2^51`, is rounded to an integer in the
//! low bits of the sum.
//!
//! # Leakage
//! Constant time: integers cause no denormals and no exceptions.

mod transform;

pub(crate) use transform::{EstimatedRoots, EstimatedTransform};

use super::{Combination, Parts, Permutation, RowPair, Term, Words};
use crate::kernels::{Factor, Modulus, WeightMatrix};
use tobari_simd::Quads;

/// The loops; those without a product use the lanes of `Q`.
#[derive(Clone, Copy)]
pub(crate) struct Estimates<Q: Quads>(pub(crate) Q);

/// `3 · 2^51`: after its addition, a double has an integer in its low bits.
const SHIFT: f64 = 3.0 * (1u64 << 51) as f64;

/// One modulus in both lanes.
#[derive(Clone, Copy)]
struct Lanes<Q: Quads> {
    quads: Q,
    q: Q::V,
    twice: Q::V,
    /// `1/q`, rounded, a double.
    inverse: Q::V,
    /// [`SHIFT`], a double, and its bits.
    shift: Q::V,
    /// The product of these bits with `q`, plus `q`.
    offset: Q::V,
    zero: Q::V,
}

/// A centred number in both lanes, or one in each, and the double nearest to its quotient by the
/// modulus.
type Multiplier<V> = [V; 2];

impl<Q: Quads> Lanes<Q> {
    #[inline(always)]
    fn new(quads: Q, q: &Modulus) -> Self {
        let q = q.value();
        Self {
            quads,
            q: quads.splat_word(q),
            twice: quads.splat_word(2 * q),
            inverse: quads.splat_word((1.0 / q as f64).to_bits()),
            shift: quads.splat_word(SHIFT.to_bits()),
            offset: quads.splat_word(SHIFT.to_bits().wrapping_mul(q).wrapping_add(q)),
            zero: quads.splat_word(0),
        }
    }

    #[inline(always)]
    fn splat(self, [value, share]: [u64; 2]) -> Multiplier<Q::V> {
        [self.quads.splat_word(value), self.quads.splat_word(share)]
    }

    /// `product - k q + q` for the integer `k` nearest to an estimate.
    #[inline(always)]
    fn rest(self, product: Q::V, estimate: Q::V) -> Q::V {
        let s = self.quads;
        let quotient = s.add_doubles(estimate, self.shift);
        s.add_words(s.sub_words(product, s.mul_words(quotient, self.q)), self.offset)
    }

    /// `y w` in `[0, 2q)`.
    #[inline(always)]
    fn product(self, y: Q::V, [w, share]: Multiplier<Q::V>) -> Q::V {
        let s = self.quads;
        self.rest(s.mul_words(y, w), s.mul_doubles(s.doubles(y), share))
    }

    /// `x - m` unless that is negative.
    #[inline(always)]
    fn once(self, x: Q::V, m: Q::V) -> Q::V {
        let s = self.quads;
        let reduced = s.sub_words(x, m);
        s.add_words(reduced, s.and(s.words_greater(self.zero, reduced), m))
    }

    /// The product of two residues, in `[0, q)`.
    #[inline(always)]
    fn mul(self, a: Q::V, b: Q::V) -> Q::V {
        let s = self.quads;
        let estimate = s.mul_doubles(s.mul_doubles(s.doubles(a), s.doubles(b)), self.inverse);
        self.once(self.rest(s.mul_words(a, b), estimate), self.q)
    }
}

/// A row in twos.
#[inline(always)]
fn twos(row: &[u64]) -> &[[u64; 2]] {
    row.as_chunks().0
}

/// A row in twos.
#[inline(always)]
fn twos_mut(row: &mut [u64]) -> &mut [[u64; 2]] {
    row.as_chunks_mut().0
}

/// Loops that gain nothing, or that no client runs.
macro_rules! as_words {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline(always)]
            pub(crate) fn $name(self, $($argument: $type),*) $(-> $result)? {
                Words.$name($($argument),*)
            }
        )*
    };
}

impl<Q: Quads> Estimates<Q> {
    as_words! {
        add_assign(q: &Modulus, a: &mut [u64], b: &[u64]);
        sub_assign(q: &Modulus, a: &mut [u64], b: &[u64]);
        neg_assign(q: &Modulus, a: &mut [u64]);
        scale_assign(q: &Modulus, a: &mut [u64], w: Factor);
        scale_add_assign(q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor);
        sub_scale_assign(q: &Modulus, b: &mut [u64], a: &[u64], w: Factor);
        inner_product(q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]);
        weighted_sums(q: &Modulus, matrix: &WeightMatrix, inputs: &[u64], out: &mut [u64]);
        tensor_sum(q: &Modulus, inputs: &[u64], which: &[u32], weights: &[u64], out: &mut [u64]);
        sign_sums(q: &Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]);
        key_product(q: &Modulus, out: [&mut [u64]; 2], digits: &[&[u64]], key: &[u64], count: usize);
        tensor(q: &Modulus, out: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]);
        terms_assign(terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]);
        combine(combination: &Combination, rows: &[&[u64]], out: &mut [u64]);
        of_signed(q: &Modulus, signed: &[i64], out: &mut [u64]);
        accept(q: &Modulus, words: &[u64], out: &mut [u64]) -> usize;
        centred(q: &Modulus, residues: &[u64], out: &mut [i64]);
        to_slots(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]);
        to_coefficients(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]);
        permute(permutation: &Permutation, from: &[u64], to: &mut [u64]);
    }

    #[inline(always)]
    pub(crate) fn mul_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        for (a, b) in twos_mut(a).iter_mut().zip(twos(b)) {
            s.pack(lanes.mul(s.unpack(a), s.unpack(b)), a);
        }
    }

    #[inline(always)]
    pub(crate) fn mul(self, q: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        for (out, (a, b)) in twos_mut(out).iter_mut().zip(twos(a).iter().zip(twos(b))) {
            s.pack(lanes.mul(s.unpack(a), s.unpack(b)), out);
        }
    }

    #[inline(always)]
    pub(crate) fn mul_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        for (sum, (a, b)) in twos_mut(sum).iter_mut().zip(twos(a).iter().zip(twos(b))) {
            let product = lanes.mul(s.unpack(a), s.unpack(b));
            s.pack(lanes.once(s.add_words(s.unpack(sum), product), lanes.q), sum);
        }
    }

    /// Absolute values are below 2^52, and the error of their estimates is at most `2u |x / q|`,
    /// less than 1/2.
    #[inline(always)]
    pub(crate) fn of_integers(self, q: &Modulus, signed: &[i64], out: &mut [u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        for (out, [x, y]) in twos_mut(out).iter_mut().zip(signed.as_chunks::<2>().0) {
            let signed = s.unpack(&[*x as u64, *y as u64]);
            let negative = s.words_greater(lanes.zero, signed);
            let absolute = s.sub_words(s.xor(signed, negative), negative);
            let residue = lanes.rest(absolute, s.mul_doubles(s.doubles(absolute), lanes.inverse));
            let residue = lanes.once(residue, lanes.q);
            // r, or q - r
            let flipped = s.sub_words(s.xor(residue, negative), negative);
            s.pack(lanes.once(s.add_words(flipped, s.and(negative, lanes.q)), lanes.q), out);
        }
    }

    /// Eight words at a time, so that an entry is read once for them. Every word is compared with
    /// the whole table.
    #[inline(always)]
    pub(crate) fn gaussian(self, table: &[u64], words: &[u64], out: &mut [i64]) {
        let (s, (words, rest), (out, rest_out)) = (self.0, words.as_chunks::<8>(), out.as_chunks_mut::<8>());
        Words.gaussian(table, rest, rest_out);
        let (zero, magnitude, most) = (s.splat_word(0), s.splat_word(u64::MAX >> 1), s.splat_word(table.len() as u64));
        for (out, words) in out.iter_mut().zip(words) {
            let words: [Q::V; 4] = std::array::from_fn(|i| s.unpack(&words.as_chunks().0[i]));
            let (places, mut above) = (words.map(|word| s.and(word, magnitude)), [zero; 4]);
            for entry in table {
                let entry = s.splat_word(*entry);
                // a mask is -1
                above = std::array::from_fn(|i| s.sub_words(above[i], s.words_greater(entry, places[i])));
            }
            for (i, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let (negative, absolute) = (s.words_greater(zero, words[i]), s.sub_words(most, above[i]));
                let mut both = [0; 2];
                s.pack(s.sub_words(s.xor(absolute, negative), negative), &mut both);
                *out = both.map(|word| word as i64);
            }
        }
    }
}
