//! On words of 64 bits.
//!
//! # The forward transform reduces nothing
//! With Shoup's product `T = Y w` below `(1 + Y / 2^52) q` and `q < 2^50`, a butterfly on numbers below `k q` gives
//! `X + T` and `X - T + d q` below `(k + d) q`, `d = ⌈1 + k/4⌉`. From `k = 1`, seventeen stages lead to `k = 286`, below 2^59: all
//! of them fit a word, and one reduction ends them.
//!
//! # The inverse transform
//! keeps numbers below `2q`: `X + Y` with one conditional subtraction, `(X - Y + 2q) w` with `X - Y + 2q < 4q < 2^52`.

use super::{Combination, NttTable, Permutation, RingKernels, Roots, RowPair, Term};
use crate::ring::{Factor, Modulus};

/// The loops.
pub(super) static KERNELS: RingKernels = RingKernels {
    name: "portable",
    ntt_forward,
    ntt_inverse,
    add_assign: |q, a, b| a.iter_mut().zip(b).for_each(|(a, b)| *a = q.add(*a, *b)),
    sub_assign: |q, a, b| a.iter_mut().zip(b).for_each(|(a, b)| *a = q.sub(*a, *b)),
    neg_assign: |q, a| a.iter_mut().for_each(|a| *a = q.neg(*a)),
    mul_assign: |q, a, b| a.iter_mut().zip(b).for_each(|(a, b)| *a = q.mul(*a, *b)),
    mul_add_assign: |q, sum, a, b| {
        for (sum, (a, b)) in sum.iter_mut().zip(a.iter().zip(b)) {
            *sum = q.add(*sum, q.mul(*a, *b));
        }
    },
    inner_product,
    key_product,
    scale_assign: |q, a, w| a.iter_mut().for_each(|a| *a = q.mul_factor(*a, w)),
    scale_add_assign: |q, sum, a, w| sum.iter_mut().zip(a).for_each(|(sum, a)| *sum = q.add(*sum, q.mul_factor(*a, w))),
    sub_scale_assign: |q, b, a, w| b.iter_mut().zip(a).for_each(|(b, a)| *b = q.mul_factor(*a + q.value() - *b, w)),
    tensor,
    terms_assign,
    combine,
    permute,
};

/// Products that are summed before they are reduced.
const LAZY: usize = 8;

/// Eight products a reduction.
fn inner_product(q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) {
    out.fill(0);
    for pairs in pairs.chunks(LAZY) {
        for (i, out) in out.iter_mut().enumerate() {
            let products = pairs.iter().map(|(a, b)| u128::from(a[i] << q.shift()) * u128::from(b[i]));
            *out = q.add(*out, q.reduce_scaled(products.sum()));
        }
    }
}

/// Eight products a reduction, for both halves of a key.
fn key_product(q: &Modulus, out: [&mut [u64]; 2], digits: &[&[u64]], key: &[u64], count: usize) {
    let [out0, out1] = out;
    for (block, (out0, out1)) in out0.as_chunks_mut::<8>().0.iter_mut().zip(out1.as_chunks_mut::<8>().0).enumerate() {
        let key = &key[16 * count * block..][..16 * digits.len()];
        for (pass, (digits, key)) in digits.chunks(LAZY).zip(key.chunks(16 * LAZY)).enumerate() {
            for i in 0..8 {
                let mut sums = [0u128; 2];
                for (digit, key) in digits.iter().zip(key.as_chunks::<16>().0) {
                    let digit = u128::from(digit[8 * block + i] << q.shift());
                    sums[0] += digit * u128::from(key[i]);
                    sums[1] += digit * u128::from(key[8 + i]);
                }
                let sums = sums.map(|sum| q.reduce_scaled(sum));
                (out0[i], out1[i]) =
                    if pass == 0 { (sums[0], sums[1]) } else { (q.add(out0[i], sums[0]), q.add(out1[i], sums[1])) };
            }
        }
    }
}

fn tensor(q: &Modulus, [out0, out1, out2]: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2]) {
    let places = a[0].iter().zip(a[1]).zip(b[0].iter().zip(b[1]));
    for ((out0, (out1, out2)), ((a0, a1), (b0, b1))) in out0.iter_mut().zip(out1.iter_mut().zip(out2)).zip(places) {
        let [a0, a1] = [*a0 << q.shift(), *a1 << q.shift()].map(u128::from);
        let [b0, b1] = [*b0, *b1].map(u128::from);
        (*out0, *out1, *out2) =
            (q.reduce_scaled(a0 * b0), q.reduce_scaled(a0 * b1 + a1 * b0), q.reduce_scaled(a1 * b1));
    }
}

/// `y = x (Q/q)^-1`, and the sum of `y/q` in units of 2^-49, rounded.
fn terms_assign(terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64]) {
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
fn combine(combination: &Combination, rows: &[&[u64]], out: &mut [u64]) {
    let p = &combination.modulus;
    out.fill(combination.offset);
    for (rows, products) in rows.chunks(LAZY).zip(combination.products.chunks(LAZY)) {
        let mut shifted = [0; LAZY];
        shifted.iter_mut().zip(products).for_each(|(shifted, product)| *shifted = product << p.shift());
        for (i, out) in out.iter_mut().enumerate() {
            let products = rows.iter().zip(&shifted);
            let sum = products.map(|(row, product)| u128::from(row[i]) * u128::from(*product)).sum();
            *out = p.add(*out, p.reduce_scaled(sum));
        }
    }
}

fn permute(permutation: &Permutation, from: &[u64], to: &mut [u64]) {
    let from = from.as_chunks::<8>().0;
    for (to, (block, pattern)) in to.as_chunks_mut::<8>().0.iter_mut().zip(permutation.blocks()) {
        *to = pattern.map(|place| from[block][place as usize & 7]);
    }
}

/// The multiple of `q` that is added where `T` is taken off, for the stage after numbers below `k q`.
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

/// Two stages a pass, so that every number is read and written half as often; first one alone if they are odd.
fn ntt_forward(q: &Modulus, table: &NttTable, values: &mut [u64]) {
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

/// The same two stages a pass, backwards; the one that is left over comes last; then `1/N`.
fn ntt_inverse(q: &Modulus, table: &NttTable, values: &mut [u64]) {
    let (mut blocks, mut length) = (values.len() / 4, 4);
    while blocks > 0 {
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
    if length / 4 < values.len() {
        let w = Stage::new(&table.inverse, 1).factor(0);
        let (low, high) = values.split_at_mut(length / 4);
        for (x, y) in low.iter_mut().zip(high) {
            (*x, *y) = join(q, *x, *y, w);
        }
    }
    values.iter_mut().for_each(|value| *value = q.mul_factor(*value, table.scale));
}
