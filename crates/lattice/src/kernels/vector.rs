//! Loops on eight lanes with 52-bit products.
//!
//! A lane is a word, but products read only its low 52 bits: sums are right modulo 2^52, and the
//! bits above are arbitrary. The represented number is always below 2^52. Before a comparison
//! ([`Lanes::once`]) the bits above are cleared ([`Lanes::clean`]).
//!
//! * **By a known factor** ([`Lanes::product`], Shoup): three multiply-adds,
//!   `Y w - ⌊Y w'/2^52⌋ q < 2q` for any `Y < 2^52`.
//! * **Of two residues** ([`Lanes::times`]), `q < 2^n`: with `h = ⌊a b / 2^n⌋`, the upper half of
//!   `2^(52 - n) a b`, and `m = ⌊2^(52 + n) / q⌋`, between `2^52` and `2^53`, so that its highest
//!   bit is a sum, `e = h + ⌊h (m - 2^52) / 2^52⌋` falls short of `a b / q` by less than
//!   `2^n/q + h/2^52 + 1 < 3.25`, and `a b - e q < 4q`: four multiply-adds and a shift.
//! * **A sum of products** ([`Lanes::reduce`]): with `H 2^52 + L` the sum, `H, L < 2^52`, and
//!   `c = 2^52 mod q`, `e = ⌊H c'/2^52⌋ + ⌊L ⌊2^52/q⌋ / 2^52⌋` falls short of `(H c + L)/q` by less
//!   than 4, so `H c + L - e q < 4q`: four multiply-adds for sums of up to sixteen products,
//!   `H < 2^4 2^(100 - 52)`, and of `2^(54 - n)` where one factor is below `2^n`.
//!
//! Cost for eight residues, in operations of one register: `add` and `sub` 3, `scale` 6, `mul` 10;
//! they are limited by memory.

use super::{Combination, Parts, Permutation, RowPair, Term, Words};
use crate::kernels::{Factor, Modulus};
use tobari_simd::Simd;

/// The most products in a sum for [`Lanes::reduce`].
const LAZY: usize = 16;

/// Bits of a digit of a sum, and the most bits of a factor in [`Residues::combine`].
const RADIX_BITS: u32 = 52;
const TERM_BITS: u32 = 50;

/// Registers of a row that are processed together.
const WIDE: usize = 4;

/// The loops on the lanes of `S`.
#[derive(Clone, Copy)]
pub(crate) struct Residues<S: Simd>(pub(crate) S);

/// A factor and its quotient in all lanes.
#[derive(Clone, Copy)]
pub(super) struct Multiplier<V> {
    pub(super) value: V,
    pub(super) quotient: V,
}

/// One modulus in all lanes.
#[derive(Clone, Copy)]
pub(super) struct Lanes<S: Simd> {
    pub(super) simd: S,
    pub(super) zero: S::V,
    pub(super) q: S::V,
    pub(super) twice: S::V,
    /// `2^52 - q`.
    pub(super) negated: S::V,
    mask: S::V,
}

/// The further constants of [`Lanes::reduce`].
#[derive(Clone, Copy)]
pub(super) struct Carry<V> {
    /// `2^52 mod q`.
    carry: Multiplier<V>,
    /// `⌊2^52 / q⌋`.
    ratio: V,
}

/// The further constants of [`Lanes::times`].
#[derive(Clone, Copy)]
struct Times<V> {
    /// `52 - n`.
    shift: u32,
    /// `⌊2^(52 + n) / q⌋ - 2^52`.
    ratio: V,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    pub(super) fn new(simd: S, q: &Modulus) -> Self {
        Self {
            simd,
            zero: simd.splat(0),
            q: simd.splat(q.value()),
            twice: simd.splat(2 * q.value()),
            negated: simd.splat((1 << 52) - q.value()),
            mask: simd.splat((1 << 52) - 1),
        }
    }

    #[inline(always)]
    pub(super) fn carry(self, q: &Modulus) -> Carry<S::V> {
        let carry = q.factor(q.reduce(1 << 52));
        Carry { carry: self.multiplier(carry), ratio: self.simd.splat((1 << 52) / q.value()) }
    }

    #[inline(always)]
    pub(super) fn multiplier(self, w: Factor) -> Multiplier<S::V> {
        Multiplier { value: self.simd.splat(w.value), quotient: self.simd.splat(w.quotient) }
    }

    /// The low 52 bits.
    #[inline(always)]
    pub(super) fn clean(self, x: S::V) -> S::V {
        self.simd.and(x, self.mask)
    }

    /// `x - m` unless that is negative, for a clean `x`.
    #[inline(always)]
    pub(super) fn once(self, x: S::V, m: S::V) -> S::V {
        self.simd.min(x, self.simd.sub(x, m))
    }

    /// `sum + y w` modulo `q`: the product is below `2q`; not clean.
    #[inline(always)]
    pub(super) fn product(self, sum: S::V, y: S::V, w: Multiplier<S::V>) -> S::V {
        let quotient = self.simd.multiply_add_high(self.zero, y, w.quotient);
        self.simd.multiply_add_low(self.simd.multiply_add_low(sum, y, w.value), quotient, self.negated)
    }

    /// `y w`, canonical.
    #[inline(always)]
    pub(super) fn scale(self, y: S::V, w: Multiplier<S::V>) -> S::V {
        self.once(self.clean(self.product(self.zero, y, w)), self.q)
    }

    /// `high 2^52 + low`, canonical, for a sum below `2^104` of fewer than `2^12` products and
    /// numbers: sixteen products of numbers below `2^50`, or more of smaller ones.
    #[inline(always)]
    pub(super) fn reduce(self, [low, high]: [S::V; 2], c: Carry<S::V>) -> S::V {
        let s = self.simd;
        let high = s.add(high, s.shr(low, 52));
        let quotient = s.multiply_add_high(s.multiply_add_high(self.zero, high, c.carry.quotient), low, c.ratio);
        let sum = s.multiply_add_low(s.multiply_add_low(low, high, c.carry.value), quotient, self.negated);
        self.once(self.once(self.clean(sum), self.twice), self.q)
    }

    #[inline(always)]
    fn for_times(self, q: &Modulus) -> Times<S::V> {
        // only a power of two gives 2^53, and one less works as well
        let ratio = (q.ratio() >> 1).min((1 << 53) - 1) - (1 << 52);
        Times { shift: 52 - q.bits(), ratio: self.simd.splat(ratio) }
    }

    /// `a b`, canonical, for residues.
    #[inline(always)]
    fn times(self, a: S::V, b: S::V, t: Times<S::V>) -> S::V {
        let s = self.simd;
        let high = s.multiply_add_high(self.zero, a, s.shl(b, t.shift));
        let quotient = s.multiply_add_high(high, high, t.ratio);
        let rest = s.multiply_add_low(s.multiply_add_low(self.zero, a, b), quotient, self.negated);
        self.once(self.once(self.clean(rest), self.twice), self.q)
    }

    /// Adds a product to a sum.
    #[inline(always)]
    pub(super) fn add_product(self, [low, high]: [S::V; 2], a: S::V, b: S::V) -> [S::V; 2] {
        [self.simd.multiply_add_low(low, a, b), self.simd.multiply_add_high(high, a, b)]
    }

    #[inline(always)]
    fn add(self, a: S::V, b: S::V) -> S::V {
        self.once(self.simd.add(a, b), self.q)
    }
}

/// A row in eights.
#[inline(always)]
pub(super) fn eights(row: &[u64]) -> &[[u64; 8]] {
    row.as_chunks().0
}

/// A row in eights.
#[inline(always)]
pub(super) fn eights_mut(row: &mut [u64]) -> &mut [[u64; 8]] {
    row.as_chunks_mut().0
}

impl<S: Simd> Residues<S> {
    /// Replaces every eight.
    #[inline(always)]
    fn map(self, a: &mut [u64], work: impl Fn(S::V) -> S::V) {
        for a in eights_mut(a) {
            self.0.store_words(work(self.0.load_words(a)), a);
        }
    }

    /// Replaces every eight of `a`, given those of `b`.
    #[inline(always)]
    fn zip(self, a: &mut [u64], b: &[u64], work: impl Fn(S::V, S::V) -> S::V) {
        for (a, b) in eights_mut(a).iter_mut().zip(eights(b)) {
            self.0.store_words(work(self.0.load_words(a), self.0.load_words(b)), a);
        }
    }

    #[inline(always)]
    pub(crate) fn add_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        let lanes = Lanes::new(self.0, q);
        self.zip(a, b, |a, b| lanes.add(a, b));
    }

    #[inline(always)]
    pub(crate) fn sub_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        self.zip(a, b, |a, b| {
            let difference = s.sub(a, b);
            s.min(difference, s.add(difference, lanes.q))
        });
    }

    #[inline(always)]
    pub(crate) fn neg_assign(self, q: &Modulus, a: &mut [u64]) {
        let lanes = Lanes::new(self.0, q);
        self.map(a, |a| lanes.once(self.0.sub(lanes.q, a), lanes.q));
    }

    #[inline(always)]
    pub(crate) fn mul_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        let lanes = Lanes::new(self.0, q);
        let times = lanes.for_times(q);
        self.zip(a, b, |a, b| lanes.times(a, b, times));
    }

    #[inline(always)]
    pub(crate) fn mul(self, q: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let times = lanes.for_times(q);
        for (out, (a, b)) in eights_mut(out).iter_mut().zip(eights(a).iter().zip(eights(b))) {
            s.store_words(lanes.times(s.load_words(a), s.load_words(b), times), out);
        }
    }

    #[inline(always)]
    pub(crate) fn mul_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        for (sum, (a, b)) in eights_mut(sum).iter_mut().zip(eights(a).iter().zip(eights(b))) {
            let product = lanes.add_product([s.load_words(sum), lanes.zero], s.load_words(a), s.load_words(b));
            s.store_words(lanes.reduce(product, carry), sum);
        }
    }

    #[inline(always)]
    pub(crate) fn inner_product(self, q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        let mut before = lanes.zero;
        for (pass, pairs) in pairs.chunks(LAZY - 1).enumerate() {
            for (i, out) in eights_mut(out).iter_mut().enumerate() {
                if pass > 0 {
                    before = s.load_words(out);
                }
                let mut sum = [before, lanes.zero];
                for (a, b) in pairs {
                    sum = lanes.add_product(sum, s.load_words(&eights(a)[i]), s.load_words(&eights(b)[i]));
                }
                s.store_words(lanes.reduce(sum, carry), out);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn key_product(
        self,
        q: &Modulus,
        [out0, out1]: [&mut [u64]; 2],
        digits: &[&[u64]],
        key: &[u64],
        count: usize,
    ) {
        let key = eights(key);
        match digits.len() {
            1 => self.key_product_of::<1>(q, out0, out1, digits, key, count, true),
            2 => self.key_product_of::<2>(q, out0, out1, digits, key, count, true),
            3 => self.key_product_of::<3>(q, out0, out1, digits, key, count, true),
            4 => self.key_product_of::<4>(q, out0, out1, digits, key, count, true),
            5 => self.key_product_of::<5>(q, out0, out1, digits, key, count, true),
            6 => self.key_product_of::<6>(q, out0, out1, digits, key, count, true),
            _ => {
                let mut first = 0;
                for digits in digits.chunks(7) {
                    let key = &key[2 * first..];
                    match digits.len() {
                        7 => self.key_product_of::<7>(q, out0, out1, digits, key, count, first == 0),
                        _ => {
                            for (digit, i) in digits.iter().zip(0..) {
                                self.key_product_of::<1>(q, out0, out1, &[digit], &key[2 * i..], count, false);
                            }
                        }
                    }
                    first += digits.len();
                }
            }
        }
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "a loop")]
    fn key_product_of<const D: usize>(
        self,
        q: &Modulus,
        out0: &mut [u64],
        out1: &mut [u64],
        digits: &[&[u64]],
        key: &[[u64; 8]],
        count: usize,
        first: bool,
    ) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        let digits = self.rows_of::<D>(digits, out0.len() / 8);
        let keys = key.chunks(2 * count);
        for (i, ((out0, out1), key)) in eights_mut(out0).iter_mut().zip(eights_mut(out1)).zip(keys).enumerate() {
            let key = &key[..2 * D];
            let mut sums = [[lanes.zero; 2]; 2];
            if !first {
                (sums[0][0], sums[1][0]) = (s.load_words(out0), s.load_words(out1));
            }
            for (d, digit) in digits.iter().enumerate() {
                let digit = s.load_words(&digit[i]);
                s.prefetch(&key[2 * d]);
                s.prefetch(&key[2 * d + 1]);
                sums[0] = lanes.add_product(sums[0], digit, s.load_words(&key[2 * d]));
                sums[1] = lanes.add_product(sums[1], digit, s.load_words(&key[2 * d + 1]));
            }
            s.store_words(lanes.reduce(sums[0], carry), out0);
            s.store_words(lanes.reduce(sums[1], carry), out1);
        }
    }

    /// `R` rows of `length` eights.
    #[inline(always)]
    fn rows_of<'a, const R: usize>(self, rows: &[&'a [u64]], length: usize) -> [&'a [[u64; 8]]; R] {
        let mut all: [&[[u64; 8]]; R] = [&[]; R];
        for (all, row) in all.iter_mut().zip(rows) {
            *all = &eights(row)[..length];
        }
        all
    }

    #[inline(always)]
    pub(crate) fn scale_assign(self, q: &Modulus, a: &mut [u64], w: Factor) {
        let lanes = Lanes::new(self.0, q);
        let w = lanes.multiplier(w);
        self.map(a, |a| lanes.scale(a, w));
    }

    #[inline(always)]
    pub(crate) fn scale_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor) {
        let lanes = Lanes::new(self.0, q);
        let w = lanes.multiplier(w);
        self.zip(sum, a, |sum, a| {
            let sum = lanes.clean(lanes.product(sum, a, w)); // below 3q
            lanes.once(lanes.once(sum, lanes.twice), lanes.q)
        });
    }

    #[inline(always)]
    pub(crate) fn sub_scale_assign(self, q: &Modulus, b: &mut [u64], a: &[u64], w: Factor) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let w = lanes.multiplier(w);
        self.zip(b, a, |b, a| lanes.scale(s.sub(s.add(a, lanes.q), b), w));
    }

    #[inline(always)]
    pub(crate) fn tensor(self, q: &Modulus, out: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        let [out0, out1, out2] = out;
        let length = out0.len() / 8;
        let ([a0, a1], [b0, b1]) = (self.rows_of::<2>(&a, length), self.rows_of::<2>(&b, length));
        let (out0, out1, out2) = (eights_mut(out0), &mut eights_mut(out1)[..length], &mut eights_mut(out2)[..length]);
        for (i, out0) in out0.iter_mut().enumerate() {
            let (a0, a1) = (s.load_words(&a0[i]), s.load_words(&a1[i]));
            let (b0, b1) = (s.load_words(&b0[i]), s.load_words(&b1[i]));
            let zero = [lanes.zero; 2];
            s.store_words(lanes.reduce(lanes.add_product(zero, a0, b0), carry), out0);
            let middle = lanes.add_product(lanes.add_product(zero, a0, b1), a1, b0);
            s.store_words(lanes.reduce(middle, carry), &mut out1[i]);
            s.store_words(lanes.reduce(lanes.add_product(zero, a1, b1), carry), &mut out2[i]);
        }
    }

    #[inline(always)]
    pub(crate) fn terms_assign(self, terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]) {
        let s = self.0;
        quotients.fill(1 << 48);
        for (i, (term, row)) in terms.iter().zip(rows.iter_mut()).enumerate() {
            let (lanes, last) = (Lanes::new(s, &term.modulus), i + 1 == terms.len());
            let (inverse, reciprocal) = (lanes.multiplier(term.inverse), s.splat(term.reciprocal));
            for (row, sum) in eights_mut(row).iter_mut().zip(eights_mut(quotients)) {
                let y = lanes.scale(s.load_words(row), inverse);
                s.store_words(y, row);
                let y = s.shl(y, term.modulus.shift());
                let fraction = s.multiply_add_high(s.load_words(sum), y, reciprocal);
                s.store_words(if last { s.shr(fraction, 49) } else { fraction }, sum);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn combine(self, combination: &Combination, rows: &[&[u64]], out: &mut [u64]) {
        let products = &combination.products[..];
        match rows.len() {
            2 => self.combine_of::<2>(combination, rows, products, out, true),
            3 => self.combine_of::<3>(combination, rows, products, out, true),
            4 => self.combine_of::<4>(combination, rows, products, out, true),
            5 => self.combine_of::<5>(combination, rows, products, out, true),
            6 => self.combine_of::<6>(combination, rows, products, out, true),
            1 => self.combine_of::<1>(combination, rows, products, out, true),
            _ => {
                // together with the previous sum, no more than a reduction accepts
                let most = (1 << (2 * RADIX_BITS - TERM_BITS - combination.modulus.bits())) - 1;
                for (pass, (rows, products)) in rows.chunks(most).zip(products.chunks(most)).enumerate() {
                    self.combine_many(combination, rows, products, out, pass == 0);
                }
            }
        }
    }

    /// As [`Self::combine_of`], for any number of rows that one reduction accepts. It takes
    /// [`WIDE`] registers at a time: their sums depend less on one another, and they share the
    /// reads of the products.
    #[inline(always)]
    fn combine_many(self, combination: &Combination, rows: &[&[u64]], products: &[u64], out: &mut [u64], first: bool) {
        let (s, lanes) = (self.0, Lanes::new(self.0, &combination.modulus));
        let carry = lanes.carry(&combination.modulus);
        let offset = s.splat(combination.offset);
        let (blocks, rest) = eights_mut(out).as_chunks_mut::<WIDE>();
        let done = 8 * WIDE * blocks.len();
        for (block, out) in blocks.iter_mut().enumerate() {
            let mut sums = [[offset, lanes.zero]; WIDE];
            if !first {
                for (sum, out) in sums.iter_mut().zip(&*out) {
                    sum[0] = s.load_words(out);
                }
            }
            for (row, product) in rows.iter().zip(products) {
                let factor = s.splat(*product);
                for (sum, x) in sums.iter_mut().zip(&eights(row).as_chunks::<WIDE>().0[block]) {
                    *sum = lanes.add_product(*sum, s.load_words(x), factor);
                }
            }
            for (sum, out) in sums.into_iter().zip(out) {
                s.store_words(lanes.reduce(sum, carry), out);
            }
        }
        for (i, out) in rest.iter_mut().enumerate() {
            let mut sum = [if first { offset } else { s.load_words(out) }, lanes.zero];
            for (row, product) in rows.iter().zip(products) {
                sum = lanes.add_product(sum, s.load_words(&eights(&row[done..])[i]), s.splat(*product));
            }
            s.store_words(lanes.reduce(sum, carry), out);
        }
    }

    #[inline(always)]
    fn combine_of<const R: usize>(
        self,
        combination: &Combination,
        rows: &[&[u64]],
        products: &[u64],
        out: &mut [u64],
        first: bool,
    ) {
        let (s, lanes) = (self.0, Lanes::new(self.0, &combination.modulus));
        let carry = lanes.carry(&combination.modulus);
        let rows = self.rows_of::<R>(rows, out.len() / 8);
        let mut factors = [lanes.zero; R];
        for (factor, product) in factors.iter_mut().zip(products) {
            *factor = s.splat(*product);
        }
        let offset = s.splat(combination.offset);
        for (i, out) in eights_mut(out).iter_mut().enumerate() {
            let mut sum = [if first { offset } else { s.load_words(out) }, lanes.zero];
            for (row, factor) in rows.iter().zip(factors) {
                sum = lanes.add_product(sum, s.load_words(&row[i]), factor);
            }
            s.store_words(lanes.reduce(sum, carry), out);
        }
    }

    #[inline(always)]
    pub(crate) fn of_signed(self, q: &Modulus, signed: &[i64], out: &mut [u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        for (out, signed) in eights_mut(out).iter_mut().zip(signed.as_chunks::<8>().0) {
            let signed = s.load_signed(signed);
            // as an unsigned word a negative number is larger than with `q` added, and any other is
            // smaller
            s.store_words(s.min(signed, s.add(signed, lanes.q)), out);
        }
    }

    #[inline(always)]
    pub(crate) fn gaussian(self, table: &[u64], words: &[u64], out: &mut [i64]) {
        let (s, most) = (self.0, self.0.splat(table.len() as u64));
        let ((words, rest), (out, rest_out)) = (words.as_chunks::<8>(), out.as_chunks_mut::<8>());
        Words.gaussian(table, rest, rest_out);
        for (out, word) in out.iter_mut().zip(words) {
            let word = s.load_words(word);
            let (negative, place) = (s.sar(word, 63), s.and(word, s.splat(u64::MAX >> 1)));
            let mut absolute = most;
            for entry in table {
                absolute = s.sub(absolute, s.shr(s.sub(place, s.splat(*entry)), 63));
            }
            let flipped = s.sub(s.or(absolute, negative), s.and(absolute, negative));
            s.store_signed(s.sub(flipped, negative), out);
        }
    }

    #[inline(always)]
    pub(crate) fn accept(self, q: &Modulus, words: &[u64], out: &mut [u64]) -> usize {
        let (s, lanes, mut kept) = (self.0, Lanes::new(self.0, q), 0);
        let mask = s.splat(u64::MAX >> (64 - q.bits()));
        let narrow = q.bits() <= 32;
        let (words, rest) = words.as_chunks::<8>();
        for words in words {
            let word = s.load_words(words);
            let (low, high) = (s.and(word, mask), s.and(s.shr(word, 32), mask));
            let all = s.below(low, lanes.q) == 0xff && (!narrow || s.below(high, lanes.q) == 0xff);
            if !all {
                kept += Words.accept(q, words, &mut out[kept..]);
            } else if narrow {
                let [first, second] = s.interleave(low, high);
                let out = eights_mut(&mut out[kept..][..16]);
                s.store_words(first, &mut out[0]);
                s.store_words(second, &mut out[1]);
                kept += 16;
            } else {
                s.store_words(low, &mut eights_mut(&mut out[kept..][..8])[0]);
                kept += 8;
            }
        }
        kept + Words.accept(q, rest, &mut out[kept..])
    }

    #[inline(always)]
    pub(crate) fn of_integers(self, q: &Modulus, signed: &[i64], out: &mut [u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let ratio = s.splat((1 << 52) / q.value());
        for (out, signed) in eights_mut(out).iter_mut().zip(signed.as_chunks::<8>().0) {
            let signed = s.load_signed(signed);
            let negative = s.sar(signed, 63);
            let absolute = s.sub(s.sub(s.or(signed, negative), s.and(signed, negative)), negative);
            // the quotient falls short by less than 2
            let quotient = s.multiply_add_high(lanes.zero, absolute, ratio);
            let residue = lanes.once(lanes.clean(s.multiply_add_low(absolute, quotient, lanes.negated)), lanes.q);
            // r, or q - r
            let flipped = s.sub(s.sub(s.or(residue, negative), s.and(residue, negative)), negative);
            s.store_words(lanes.once(s.add(flipped, s.and(negative, lanes.q)), lanes.q), out);
        }
    }

    /// The compiler vectorises this loop.
    #[inline(always)]
    pub(crate) fn to_slots(self, twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) {
        Words.to_slots(twiddles, re, im);
    }

    /// The compiler vectorises this loop.
    #[inline(always)]
    pub(crate) fn to_coefficients(self, twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) {
        Words.to_coefficients(twiddles, re, im);
    }

    #[inline(always)]
    pub(crate) fn centred(self, q: &Modulus, residues: &[u64], out: &mut [i64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let half = s.splat((q.value() - 1) / 2);
        for (out, residue) in out.as_chunks_mut::<8>().0.iter_mut().zip(eights(residues)) {
            let residue = s.load_words(residue);
            let upper = s.sar(s.sub(half, residue), 63);
            s.store_signed(s.sub(residue, s.and(upper, lanes.q)), out);
        }
    }

    #[inline(always)]
    pub(crate) fn permute(self, permutation: &Permutation, from: &[u64], to: &mut [u64]) {
        let (s, from) = (self.0, eights(from));
        for (to, (block, pattern)) in eights_mut(to).iter_mut().zip(permutation.blocks()) {
            let values = s.load_words(&from[block]);
            s.store_words(s.look_up(s.load_words(pattern), values, values), to);
        }
    }
}
