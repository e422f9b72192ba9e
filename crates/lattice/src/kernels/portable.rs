//! Loops on words of 64 bits; they define the results of every backend.
//!
//! A butterfly has three products of words, and most machines do one a cycle: at `N = 2^14` that is
//! 344,000 cycles forward. The measured time is a tenth longer.
//!
//! # The forward transform reduces nothing
//! With Shoup's product `T = Y w` below `(1 + Y / 2^52) q` and `q < 2^50`, a butterfly on numbers
//! below `k q` gives `X + T` and `X - T + d q` below `(k + d) q`, `d = ⌈1 + k/4⌉`. From `k = 1`,
//! seventeen stages reach `k = 286`, below 2^59. All intermediate numbers fit a word, and one
//! reduction at the end is enough.
//!
//! # The inverse transform
//! It keeps numbers below `2q`: `X + Y` with one conditional subtraction, `(X - Y + 2q) w` with
//! `X - Y + 2q < 4q < 2^52`.

use super::{Combination, NttTable, Parts, Permutation, Roots, RowPair, Term};
use crate::kernels::{BLOCK, Factor, Modulus, SHIFT, SIGNED, TILE, WeightMatrix};

/// The loops.
#[derive(Clone, Copy)]
pub(crate) struct Words;

/// Products that are summed before a reduction.
const LAZY: usize = 8;

impl Words {
    #[inline(always)]
    pub(crate) fn add_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = q.add(*a, *b));
    }

    #[inline(always)]
    pub(crate) fn sub_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = q.sub(*a, *b));
    }

    #[inline(always)]
    pub(crate) fn neg_assign(self, q: &Modulus, a: &mut [u64]) {
        a.iter_mut().for_each(|a| *a = q.neg(*a));
    }

    #[inline(always)]
    pub(crate) fn mul_assign(self, q: &Modulus, a: &mut [u64], b: &[u64]) {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = q.mul(*a, *b));
    }

    #[inline(always)]
    pub(crate) fn mul(self, q: &Modulus, out: &mut [u64], a: &[u64], b: &[u64]) {
        out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = q.mul(*a, *b));
    }

    #[inline(always)]
    pub(crate) fn mul_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64]) {
        for (sum, (a, b)) in sum.iter_mut().zip(a.iter().zip(b)) {
            *sum = q.add(*sum, q.mul(*a, *b));
        }
    }

    #[inline(always)]
    pub(crate) fn scale_assign(self, q: &Modulus, a: &mut [u64], w: Factor) {
        a.iter_mut().for_each(|a| *a = q.mul_factor(*a, w));
    }

    #[inline(always)]
    pub(crate) fn scale_add_assign(self, q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor) {
        sum.iter_mut().zip(a).for_each(|(sum, a)| *sum = q.add(*sum, q.mul_factor(*a, w)));
    }

    #[inline(always)]
    pub(crate) fn sub_scale_assign(self, q: &Modulus, b: &mut [u64], a: &[u64], w: Factor) {
        b.iter_mut().zip(a).for_each(|(b, a)| *b = q.mul_factor(*a + q.value() - *b, w));
    }

    #[inline(always)]
    pub(crate) fn inner_product(self, q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) {
        out.fill(0);
        for pairs in pairs.chunks(LAZY) {
            for (i, out) in out.iter_mut().enumerate() {
                let mut sum = 0;
                for (a, b) in pairs {
                    sum += u128::from(a[i] << q.shift()) * u128::from(b[i]);
                }
                *out = q.add(*out, q.reduce_scaled(sum));
            }
        }
    }

    /// A product of a residue and a shifted weight is below 2^67, and the sum over the inputs of a
    /// matrix is below 2^77.
    #[inline(always)]
    pub(crate) fn weighted_sums(self, q: &Modulus, matrix: &WeightMatrix, inputs: &[u64], out: &mut [u64]) {
        let shift = u128::from(q.value()) - SHIFT as u128 % u128::from(q.value());
        let out = out.chunks_exact_mut(BLOCK * TILE).zip(matrix.blocks.chunks_exact(matrix.inputs()));
        for (out, weights) in out {
            for (i, out) in out.iter_mut().enumerate() {
                let (row, place) = (i / TILE, i % TILE);
                let (mut sum, mut all) = (0u128, 0u128);
                for (x, w) in inputs.chunks_exact(TILE).zip(weights) {
                    sum += u128::from(x[place]) * u128::from(w[row]);
                    all += u128::from(x[place]);
                }
                *out = ((sum + all * shift) % u128::from(q.value())) as u64;
            }
        }
    }

    /// A product is below 2^100, and the sum of two for each input of a matrix is below 2^111.
    #[inline(always)]
    pub(crate) fn tensor_sum(self, q: &Modulus, inputs: &[u64], which: &[u32], weights: &[u64], out: &mut [u64]) {
        for place in 0..TILE {
            let mut sums = [0u128; 3];
            for (x, w) in which.iter().zip(weights.chunks_exact(2 * TILE)) {
                let x = &inputs[2 * TILE * *x as usize..][..2 * TILE];
                let [x0, x1, w0, w1] = [x[place], x[TILE + place], w[place], w[TILE + place]].map(u128::from);
                sums[0] += x0 * w0;
                sums[1] += x0 * w1 + x1 * w0;
                sums[2] += x1 * w1;
            }
            for (part, sum) in sums.into_iter().enumerate() {
                out[TILE * part + place] = (sum % u128::from(q.value())) as u64;
            }
        }
    }

    /// The sum of sixteen residues is below 2^54.
    #[inline(always)]
    pub(crate) fn sign_sums(self, q: &Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]) {
        for (signs, out) in signs.iter().zip(out.chunks_mut(2 * TILE)) {
            for (place, out) in out.iter_mut().take(TILE).enumerate() {
                let term = |i: usize| match signs >> i & 1 {
                    1 => q.value() - inputs[2 * TILE * i + place],
                    _ => inputs[2 * TILE * i + place],
                };
                *out = q.reduce((0..SIGNED).map(term).sum());
            }
        }
    }

    /// Eight products a reduction, for both halves of a key.
    #[inline(always)]
    pub(crate) fn key_product(
        self,
        q: &Modulus,
        [out0, out1]: [&mut [u64]; 2],
        digits: &[&[u64]],
        key: &[u64],
        count: usize,
    ) {
        let (keys, shift) = (key.chunks(16 * count), q.shift());
        let out = out0.as_chunks_mut::<8>().0.iter_mut().zip(out1.as_chunks_mut::<8>().0);
        for (block, ((out0, out1), key)) in out.zip(keys).enumerate() {
            let (mut sums0, mut sums1) = ([0u128; 8], [0u128; 8]);
            for (d, (digit, key)) in digits.iter().zip(key.as_chunks::<16>().0).enumerate() {
                let digit = &digit.as_chunks::<8>().0[block];
                for i in 0..8 {
                    let digit = u128::from(digit[i] << shift);
                    sums0[i] += digit * u128::from(key[i]);
                    sums1[i] += digit * u128::from(key[8 + i]);
                }
                if d % LAZY == LAZY - 2 {
                    // one more product fits, and this remainder
                    for sum in sums0.iter_mut().chain(&mut sums1) {
                        *sum = u128::from(q.reduce_scaled(*sum)) << shift;
                    }
                }
            }
            for i in 0..8 {
                (out0[i], out1[i]) = (q.reduce_scaled(sums0[i]), q.reduce_scaled(sums1[i]));
            }
        }
    }

    #[inline(always)]
    pub(crate) fn tensor(self, q: &Modulus, [out0, out1, out2]: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]) {
        let places = a[0].iter().zip(a[1]).zip(b[0].iter().zip(b[1]));
        for ((out0, (out1, out2)), ((a0, a1), (b0, b1))) in out0.iter_mut().zip(out1.iter_mut().zip(out2)).zip(places) {
            let (a0, a1) = (u128::from(*a0 << q.shift()), u128::from(*a1 << q.shift()));
            let (b0, b1) = (u128::from(*b0), u128::from(*b1));
            *out0 = q.reduce_scaled(a0 * b0);
            *out1 = q.reduce_scaled(a0 * b1 + a1 * b0);
            *out2 = q.reduce_scaled(a1 * b1);
        }
    }

    /// `y = x (Q/q)^-1`, and the sum of `y/q` in units of 2^-49, rounded.
    #[inline(always)]
    pub(crate) fn terms_assign(self, terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]) {
        quotients.fill(1 << 48);
        for (term, row) in terms.iter().zip(rows) {
            let (shift, reciprocal) = (term.modulus.shift(), term.reciprocal << 12);
            for (x, sum) in row.iter_mut().zip(quotients.iter_mut()) {
                *x = term.modulus.mul_factor(*x, term.inverse);
                *sum += ((u128::from(*x << shift) * u128::from(reciprocal)) >> 64) as u64;
            }
        }
        quotients.iter_mut().for_each(|sum| *sum >>= 49);
    }

    /// Eight products a reduction.
    #[inline(always)]
    pub(crate) fn combine(self, combination: &Combination, rows: &[&[u64]], out: &mut [u64]) {
        out.fill(combination.offset);
        for (rows, products) in rows.chunks(LAZY).zip(combination.products.chunks(LAZY)) {
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
        let (mut shifted, mut all): ([u64; R], [&[u64]; R]) = ([0; R], [&[]; R]);
        for i in 0..R {
            (shifted[i], all[i]) = (products[i] << p.shift(), &rows[i][..out.len()]);
        }
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = 0;
            for (row, product) in all.iter().zip(shifted) {
                sum += u128::from(row[i]) * u128::from(product);
            }
            *out = p.add(*out, p.reduce_scaled(sum));
        }
    }

    #[inline(always)]
    pub(crate) fn of_signed(self, q: &Modulus, signed: &[i64], out: &mut [u64]) {
        out.iter_mut().zip(signed).for_each(|(out, signed)| *out = q.of_signed(*signed));
    }

    /// Sixteen words at a time, which the compiler vectorises. Every word is compared with the
    /// whole table.
    #[inline(always)]
    pub(crate) fn gaussian(self, table: &[u64], words: &[u64], out: &mut [i64]) {
        let ((words, rest), (out, rest_out)) = (words.as_chunks::<16>(), out.as_chunks_mut::<16>());
        for (out, words) in out.iter_mut().zip(words) {
            *out = self.gaussians(table, *words);
        }
        for (out, word) in rest_out.iter_mut().zip(rest) {
            [*out] = self.gaussians(table, [*word]);
        }
    }

    #[inline(always)]
    fn gaussians<const L: usize>(self, table: &[u64], words: [u64; L]) -> [i64; L] {
        let (places, mut absolute) = (words.map(|word| word & (u64::MAX >> 1)), [table.len() as u64; L]);
        for entry in table {
            for (absolute, place) in absolute.iter_mut().zip(places) {
                // counts entries at or below, by the sign of a difference, not by a comparison
                *absolute -= place.wrapping_sub(*entry) >> 63;
            }
        }
        std::array::from_fn(|lane| {
            let negative = words[lane] as i64 >> 63;
            (absolute[lane] as i64 ^ negative) - negative
        })
    }

    #[inline(always)]
    pub(crate) fn accept(self, q: &Modulus, words: &[u64], out: &mut [u64]) -> usize {
        let (mut kept, mask) = (0, u64::MAX >> (64 - q.bits()));
        for word in words {
            let candidates = [word & mask, word >> 32 & mask];
            for candidate in &candidates[..if q.bits() <= 32 { 2 } else { 1 }] {
                out[kept] = *candidate;
                kept += usize::from(*candidate < q.value());
            }
        }
        kept
    }

    #[inline(always)]
    pub(crate) fn of_integers(self, q: &Modulus, signed: &[i64], out: &mut [u64]) {
        out.iter_mut().zip(signed).for_each(|(out, signed)| *out = q.reduce_signed(*signed));
    }

    #[inline(always)]
    pub(crate) fn to_slots(self, twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) {
        let length = re.len();
        let mut blocks = 1;
        while blocks < length {
            let w = twiddles.re[blocks..].iter().zip(&twiddles.im[blocks..]);
            let (re, im) = (re.chunks_exact_mut(length / blocks), im.chunks_exact_mut(length / blocks));
            for ((re, im), (w_re, w_im)) in re.zip(im).zip(w) {
                let half = re.len() / 2;
                let ((x_re, y_re), (x_im, y_im)) = (re.split_at_mut(half), im.split_at_mut(half));
                for ((x_re, y_re), (x_im, y_im)) in x_re.iter_mut().zip(y_re).zip(x_im.iter_mut().zip(y_im)) {
                    let product = (*y_re * w_re - *y_im * w_im, *y_re * w_im + *y_im * w_re);
                    (*y_re, *y_im) = (*x_re - product.0, *x_im - product.1);
                    (*x_re, *x_im) = (*x_re + product.0, *x_im + product.1);
                }
            }
            blocks *= 2;
        }
    }

    #[inline(always)]
    pub(crate) fn to_coefficients(self, twiddles: &Parts<Vec<f64>>, re: &mut [f64], im: &mut [f64]) {
        let length = re.len();
        let mut blocks = length / 2;
        while blocks > 0 {
            let w = twiddles.re[blocks..].iter().zip(&twiddles.im[blocks..]);
            let (re, im) = (re.chunks_exact_mut(length / blocks), im.chunks_exact_mut(length / blocks));
            for ((re, im), (w_re, w_im)) in re.zip(im).zip(w) {
                let (half, w_im) = (re.len() / 2, -w_im);
                let ((x_re, y_re), (x_im, y_im)) = (re.split_at_mut(half), im.split_at_mut(half));
                for ((x_re, y_re), (x_im, y_im)) in x_re.iter_mut().zip(y_re).zip(x_im.iter_mut().zip(y_im)) {
                    let (d_re, d_im) = (*x_re - *y_re, *x_im - *y_im);
                    (*x_re, *x_im) = (*x_re + *y_re, *x_im + *y_im);
                    (*y_re, *y_im) = (d_re * w_re - d_im * w_im, d_re * w_im + d_im * w_re);
                }
            }
            blocks /= 2;
        }
    }

    #[inline(always)]
    pub(crate) fn centred(self, q: &Modulus, residues: &[u64], out: &mut [i64]) {
        out.iter_mut().zip(residues).for_each(|(out, residue)| *out = q.centred(*residue));
    }

    #[inline(always)]
    pub(crate) fn permute(self, permutation: &Permutation, from: &[u64], to: &mut [u64]) {
        let from = from.as_chunks::<8>().0;
        for (to, (block, pattern)) in to.as_chunks_mut::<8>().0.iter_mut().zip(permutation.blocks()) {
            for (to, place) in to.iter_mut().zip(pattern) {
                *to = from[block][*place as usize & 7];
            }
        }
    }

    /// Two stages a pass, so that every number is read and written half as often. If the number of
    /// stages is odd, the first pass has one.
    #[inline(always)]
    pub(crate) fn forward(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        let (mut blocks, mut length, mut k) = (1, values.len(), 1);
        if length.trailing_zeros() % 2 == 1 {
            let (d, w) = (offset(k) * q.value(), Stage::new(&table.forward, 1).factor(0));
            let (low, high) = values.split_at_mut(length / 2);
            for (x, y) in low.iter_mut().zip(high) {
                (*x, *y) = split(q, *x, *y, w, d);
            }
            (blocks, length, k) = (2, length / 2, k + offset(k));
        }
        while length > 1 {
            let (first, second) = (Stage::new(&table.forward, blocks), Stage::new(&table.forward, 2 * blocks));
            let next = k + offset(k);
            let d = [offset(k) * q.value(), offset(next) * q.value()];
            for (block, values) in values.chunks_exact_mut(length).enumerate() {
                let w = [first.factor(block), second.factor(2 * block), second.factor(2 * block + 1)];
                let last = length == 4;
                quarters(values, |[a, b, c, e]| {
                    let ((a, c), (b, e)) = (split(q, a, c, w[0], d[0]), split(q, b, e, w[0], d[0]));
                    let ((a, b), (c, e)) = (split(q, a, b, w[1], d[1]), split(q, c, e, w[2], d[1]));
                    if last { [a, b, c, e].map(|value| q.reduce(value)) } else { [a, b, c, e] }
                });
            }
            (blocks, length, k) = (4 * blocks, length / 4, next + offset(next));
        }
        if values.len() == 2 {
            values.iter_mut().for_each(|value| *value = q.reduce(*value)); // there was no such pass
        }
    }

    /// Two stages a pass, backwards. A remaining single stage is last; the last pass includes
    /// `1/N`.
    #[inline(always)]
    pub(crate) fn inverse(self, q: &Modulus, table: &NttTable, values: &mut [u64]) {
        let (mut blocks, mut length) = (values.len() / 4, 4);
        while blocks > 1 {
            let (first, second) = (Stage::new(&table.inverse, 2 * blocks), Stage::new(&table.inverse, blocks));
            for (block, values) in values.chunks_exact_mut(length).enumerate() {
                let w = [first.factor(2 * block), first.factor(2 * block + 1), second.factor(block)];
                quarters(values, |[a, b, c, e]| {
                    let ((a, b), (c, e)) = (join(q, a, b, w[0]), join(q, c, e, w[1]));
                    let ((a, c), (b, e)) = (join(q, a, c, w[2]), join(q, b, e, w[2]));
                    [a, b, c, e]
                });
            }
            (blocks, length) = (blocks / 4, 4 * length);
        }
        if blocks == 1 {
            let w = [0, 1].map(|block| Stage::new(&table.inverse, 2).factor(block));
            quarters(values, |[a, b, c, e]| {
                let ((a, b), (c, e)) = (join(q, a, b, w[0]), join(q, c, e, w[1]));
                let ((a, c), (b, e)) = (join_last(q, a, c, table), join_last(q, b, e, table));
                [a, b, c, e]
            });
        } else {
            let (low, high) = values.split_at_mut(values.len() / 2);
            for (x, y) in low.iter_mut().zip(high) {
                (*x, *y) = join_last(q, *x, *y, table);
            }
        }
    }
}

/// The multiple of `q` that is added before `T` is subtracted, in the stage after numbers below
/// `k q`.
const fn offset(k: u64) -> u64 {
    1 + k.div_ceil(4)
}

/// The factors of a stage, by block.
#[derive(Clone, Copy)]
struct Stage<'a>([&'a [u64]; 2]);

impl<'a> Stage<'a> {
    /// The stage that cuts `blocks` blocks in two.
    fn new(roots: &'a Roots, blocks: usize) -> Self {
        Self([&roots.values[blocks..2 * blocks], &roots.quotients[blocks..2 * blocks]])
    }

    #[inline(always)]
    fn factor(self, block: usize) -> Factor {
        Factor { value: self.0[0][block], quotient: self.0[1][block] }
    }
}

/// `X + Y w` and `X - Y w + d`.
#[inline(always)]
fn split(q: &Modulus, x: u64, y: u64, w: Factor, d: u64) -> (u64, u64) {
    let t = q.mul_factor_lazy(y, w);
    (x + t, x + d - t)
}

/// Replaces the numbers at the same place in the four quarters of a block.
#[inline(always)]
fn quarters(values: &mut [u64], work: impl Fn([u64; 4]) -> [u64; 4]) {
    if let Ok(values) = <&mut [u64; 4]>::try_from(&mut *values) {
        *values = work(*values);
        return;
    }
    let (low, high) = values.split_at_mut(values.len() / 2);
    let ((a, b), (c, e)) = (low.split_at_mut(low.len() / 2), high.split_at_mut(high.len() / 2));
    for ((a, b), (c, e)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(e)) {
        [*a, *b, *c, *e] = work([*a, *b, *c, *e]);
    }
}

/// `X + Y`, below `2q` again, and `(X - Y) w`, for `X, Y < 2q`.
#[inline(always)]
fn join(q: &Modulus, x: u64, y: u64, w: Factor) -> (u64, u64) {
    let twice = 2 * q.value();
    let sum = x + y;
    (sum.min(sum.wrapping_sub(twice)), q.mul_factor_lazy(x + twice - y, w))
}

/// The last butterfly, with `1/N`; the results are canonical.
#[inline(always)]
fn join_last(q: &Modulus, x: u64, y: u64, table: &NttTable) -> (u64, u64) {
    (q.mul_factor(x + y, table.scale), q.mul_factor(x + 2 * q.value() - y, table.scaled_root))
}
