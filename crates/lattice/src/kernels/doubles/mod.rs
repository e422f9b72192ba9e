//! Loops on doubles with fused multiply-add, four lanes, for machines whose vectors have no product
//! of 52-bit integers.
//!
//! A residue is a double with an integer value. Integers below 2^53 in absolute value are exact,
//! and so are differences and fused operations with such results. Every modulus is below 2^50.
//!
//! * **A product** ([`Lanes::product`]; Dekker's, as FLINT's `fft_small` does it): `h = y w`
//!   rounded, `l = y w - h` exact, `k` the integer nearest to `h (1/q)` rounded,
//!   `r = (h - k q) + l` exact. With `u = 2^-53`, the error of `h (1/q)` is at most `3u |y w / q|`,
//!   so `|r| ≤ (1/2 + 3u |y w| / q^2) q`. For `|w| ≤ q/2` (factors are centred) and `|y| ≤ B q`
//!   this is at most `(1/2 + B q 2^-52.4) q`, or `1/2 + 3B/16` times `q` at 50 bits; for two
//!   residues `7/8 q`. Six operations.
//! * **A reduction** ([`Lanes::reduce`]) of `|x| < 2^53` to at most `q/2 + 2`: three.
//!
//! # Leakage
//! Constant time: integers cause no denormals and no exceptions.

mod sums;
mod transform;

pub(crate) use transform::{DoubleRoots, DoubleTransform};

use super::{Combination, Parts, Permutation, RowPair, Term, Words};
use crate::kernels::{Factor, Modulus};
use tobari_simd::Fused;

/// Products, each below `7/8 q`, that are added to a residue before a reduction: the sum is below
/// `8q`.
const LAZY: usize = 7;

/// The loops on the lanes of `F`.
#[derive(Clone, Copy)]
pub(crate) struct Doubles<F: Fused>(pub(crate) F);

/// One modulus in all lanes.
#[derive(Clone, Copy)]
struct Lanes<F: Fused> {
    fused: F,
    q: F::V,
    /// `1/q`, rounded.
    inverse: F::V,
}

/// A residue as the double of least absolute value.
fn centred(q: &Modulus, w: u64) -> f64 {
    q.centred(w) as f64
}

impl<F: Fused> Lanes<F> {
    #[inline(always)]
    fn new(fused: F, q: &Modulus) -> Self {
        let q = q.value() as f64;
        Self { fused, q: fused.splat(q), inverse: fused.splat(1.0 / q) }
    }

    #[inline(always)]
    fn product(self, y: F::V, w: F::V) -> F::V {
        let f = self.fused;
        let high = f.mul(y, w);
        let low = f.mul_sub(y, w, high);
        let quotient = f.round(f.mul(high, self.inverse));
        f.add(f.neg_mul_add(quotient, self.q, high), low)
    }

    #[inline(always)]
    fn reduce(self, x: F::V) -> F::V {
        let f = self.fused;
        f.neg_mul_add(f.round(f.mul(x, self.inverse)), self.q, x)
    }

    /// A number in `(-q, q)` as a residue.
    #[inline(always)]
    fn positive(self, x: F::V) -> F::V {
        self.fused.add(x, self.fused.where_negative(x, self.q))
    }

    #[inline(always)]
    fn canonical(self, x: F::V) -> F::V {
        self.positive(self.reduce(x))
    }

    #[inline(always)]
    fn factor(self, q: &Modulus, w: Factor) -> F::V {
        self.fused.splat(centred(q, w.value))
    }
}

/// A row in fours.
#[inline(always)]
fn fours(row: &[u64]) -> &[[u64; 4]] {
    row.as_chunks().0
}

/// A row in fours.
#[inline(always)]
fn fours_mut(row: &mut [u64]) -> &mut [[u64; 4]] {
    row.as_chunks_mut().0
}

/// Loops that the compiler vectorises, or that gain nothing from vectors.
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

impl<F: Fused> Doubles<F> {
    as_words! {
        add_assign(q: &Modulus, a: &mut [u64], b: &[u64]);
        sub_assign(q: &Modulus, a: &mut [u64], b: &[u64]);
        neg_assign(q: &Modulus, a: &mut [u64]);
        of_signed(q: &Modulus, signed: &[i64], out: &mut [u64]);
        gaussian(table: &[u64], words: &[u64], out: &mut [i64]);
        accept(q: &Modulus, words: &[u64], out: &mut [u64]) -> usize;
        centred(q: &Modulus, residues: &[u64], out: &mut [i64]);
        to_slots(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]);
        to_coefficients(twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]);
        permute(permutation: &Permutation, from: &[u64], to: &mut [u64]);
        of_integers(q: &Modulus, signed: &[i64], out: &mut [u64]);
    }

    /// Replaces every four of `a`, given those of `b`.
    #[inline(always)]
    fn zip(self, a: &mut [u64], b: &[u64], work: impl Fn(F::V, F::V) -> F::V) {
        for (a, b) in fours_mut(a).iter_mut().zip(fours(b)) {
            self.0.to_words(work(self.0.of_words(a), self.0.of_words(b)), a);
        }
    }

    #[inline(always)]
    pub(crate) fn mul_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        let lanes = Lanes::new(self.0, q);
        self.zip(a, b, |a, b| lanes.positive(lanes.product(a, b)));
    }

    #[inline(always)]
    pub(crate) fn mul(self, q: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        for (out, (a, b)) in fours_mut(out).iter_mut().zip(fours(a).iter().zip(fours(b))) {
            f.to_words(lanes.positive(lanes.product(f.of_words(a), f.of_words(b))), out);
        }
    }

    #[inline(always)]
    pub(crate) fn mul_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        for (sum, (a, b)) in fours_mut(sum).iter_mut().zip(fours(a).iter().zip(fours(b))) {
            let product = lanes.product(f.of_words(a), f.of_words(b));
            f.to_words(lanes.canonical(f.add(f.of_words(sum), product)), sum);
        }
    }

    #[inline(always)]
    pub(crate) fn scale_assign(self, q: &Modulus, a: &mut [u64], w: Factor) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        let w = lanes.factor(q, w);
        for a in fours_mut(a) {
            f.to_words(lanes.positive(lanes.product(f.of_words(a), w)), a);
        }
    }

    #[inline(always)]
    pub(crate) fn scale_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor) {
        let lanes = Lanes::new(self.0, q);
        let w = lanes.factor(q, w);
        self.zip(sum, a, |sum, a| lanes.canonical(self.0.add(sum, lanes.product(a, w))));
    }

    #[inline(always)]
    pub(crate) fn sub_scale_assign(self, q: &Modulus, b: &mut [u64], a: &[u64], w: Factor) {
        let lanes = Lanes::new(self.0, q);
        let w = lanes.factor(q, w);
        self.zip(b, a, |b, a| lanes.positive(lanes.product(self.0.sub(a, b), w)));
    }

    #[inline(always)]
    pub(crate) fn inner_product(self, q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        for (pass, pairs) in pairs.chunks(LAZY).enumerate() {
            for (i, out) in fours_mut(out).iter_mut().enumerate() {
                let mut sum = if pass == 0 { f.splat(0.0) } else { f.of_words(out) };
                for (a, b) in pairs {
                    sum = f.add(sum, lanes.product(f.of_words(&fours(a)[i]), f.of_words(&fours(b)[i])));
                }
                f.to_words(lanes.canonical(sum), out);
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
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        for (pass, digits) in digits.chunks(LAZY).enumerate() {
            let keys = fours(key).chunks(4 * count);
            let out = fours_mut(out0).as_chunks_mut::<2>().0.iter_mut().zip(fours_mut(out1).as_chunks_mut::<2>().0);
            for (block, ((out0, out1), key)) in out.zip(keys).enumerate() {
                let mut sums = [[f.splat(0.0); 2]; 2];
                if pass > 0 {
                    sums = [[f.of_words(&out0[0]), f.of_words(&out0[1])], [f.of_words(&out1[0]), f.of_words(&out1[1])]];
                }
                for (digit, key) in digits.iter().zip(key[4 * LAZY * pass..].as_chunks::<4>().0) {
                    for half in 0..2 {
                        let digit = f.of_words(&fours(digit)[2 * block + half]);
                        sums[0][half] = f.add(sums[0][half], lanes.product(digit, f.of_words(&key[half])));
                        sums[1][half] = f.add(sums[1][half], lanes.product(digit, f.of_words(&key[2 + half])));
                    }
                }
                for half in 0..2 {
                    f.to_words(lanes.canonical(sums[0][half]), &mut out0[half]);
                    f.to_words(lanes.canonical(sums[1][half]), &mut out1[half]);
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn tensor(self, q: &Modulus, out: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        let [out0, out1, out2] = out;
        let (out1, out2) = (fours_mut(out1), fours_mut(out2));
        for (i, out0) in fours_mut(out0).iter_mut().enumerate() {
            let (a0, a1) = (f.of_words(&fours(a[0])[i]), f.of_words(&fours(a[1])[i]));
            let (b0, b1) = (f.of_words(&fours(b[0])[i]), f.of_words(&fours(b[1])[i]));
            f.to_words(lanes.positive(lanes.product(a0, b0)), out0);
            let middle = f.add(lanes.product(a0, b1), lanes.product(a1, b0));
            f.to_words(lanes.canonical(middle), &mut out1[i]);
            f.to_words(lanes.positive(lanes.product(a1, b1)), &mut out2[i]);
        }
    }

    #[inline(always)]
    pub(crate) fn terms_assign(self, terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]) {
        let f = self.0;
        quotients.fill(1 << 48);
        for (term, row) in terms.iter().zip(rows) {
            let lanes = Lanes::new(f, &term.modulus);
            let inverse = lanes.factor(&term.modulus, term.inverse);
            // of one word and a power of two: exact
            let reciprocal = f.splat(term.reciprocal as f64 * exp2(term.modulus.shift() as i32 - 52));
            for (row, sum) in fours_mut(row).iter_mut().zip(fours_mut(quotients)) {
                let y = lanes.positive(lanes.product(f.of_words(row), inverse));
                f.to_words(y, row);
                // the floor of a product that may have been rounded up to an integer
                let high = f.mul(y, reciprocal);
                let (floor, low) = (f.floor(high), f.mul_sub(y, reciprocal, high));
                let rest = f.add(f.sub(high, floor), low);
                f.add_to_words(f.sub(floor, f.where_negative(rest, f.splat(1.0))), sum);
            }
        }
        quotients.iter_mut().for_each(|sum| *sum >>= 49);
    }

    /// As `products` are centred and rows below 2^50, a product is below `11/16 q`.
    #[inline(always)]
    pub(crate) fn combine(self, combination: &Combination, rows: &[&[u64]], out: &mut [u64]) {
        let products = &combination.products;
        out.fill(combination.offset);
        for (rows, products) in rows.chunks(LAZY).zip(products.chunks(LAZY)) {
            match rows.len() {
                2 => self.add_products::<2>(&combination.modulus, products, rows, out),
                3 => self.add_products::<3>(&combination.modulus, products, rows, out),
                4 => self.add_products::<4>(&combination.modulus, products, rows, out),
                5 => self.add_products::<5>(&combination.modulus, products, rows, out),
                LAZY => self.add_products::<LAZY>(&combination.modulus, products, rows, out),
                _ => {
                    for (row, product) in rows.iter().zip(products) {
                        self.add_products::<1>(&combination.modulus, &[*product], &[row], out);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn add_products<const R: usize>(self, p: &Modulus, products: &[u64], rows: &[&[u64]], out: &mut [u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, p));
        let (mut factors, mut all): ([F::V; R], [&[[u64; 4]]; R]) = ([lanes.q; R], [&[]; R]);
        for i in 0..R {
            (factors[i], all[i]) = (f.splat(centred(p, products[i])), &fours(rows[i])[..out.len() / 4]);
        }
        for (i, out) in fours_mut(out).iter_mut().enumerate() {
            let mut sum = f.of_words(out);
            for (row, factor) in all.iter().zip(factors) {
                sum = f.add(sum, lanes.product(f.of_words(&row[i]), factor));
            }
            f.to_words(lanes.canonical(sum), out);
        }
    }
}

/// `2^exponent`, exact.
fn exp2(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
