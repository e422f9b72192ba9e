//! The loops over residues: transforms, and operations on every residue of a row.
//!
//! A backend is a table of functions ([`RingKernels`]). Rows are plain slices of canonical residues in `[0, q)`, going in and
//! coming out; what happens in between is a backend's own affair.
//!
//! # The portable forward transform reduces nothing
//! With Shoup's product `T = Y w` below `(1 + Y / 2^52) q` and `q < 2^50`, a butterfly on numbers below `k q` gives
//! `X + T` and `X - T + d q` below `(k + d) q`, `d = ⌈1 + k/4⌉`. From `k = 1`, seventeen stages lead to `k = 286`, below 2^59: all
//! of them fit a word, and one reduction ends them.
//!
//! # The portable inverse transform
//! keeps numbers below `2q`: `X + Y` with one conditional subtraction, `(X - Y + 2q) w` with `X - Y + 2q < 4q < 2^52`.
//!
//! # Leakage
//! Constant time.

use crate::ring::{Factor, Modulus};

/// What the transforms of one prime and one length read.
#[derive(Clone, Debug)]
pub(crate) struct NttTable {
    /// `ψ^rev(i)`, and their quotients.
    pub(crate) forward: [Vec<u64>; 2],
    /// `ψ^(-rev(i))`, and their quotients.
    pub(crate) inverse: [Vec<u64>; 2],
    /// `1/N`.
    pub(crate) scale: Factor,
}

/// Two rows that are multiplied.
pub(crate) type RowPair<'a> = (&'a [u64], &'a [u64]);

/// One backend's loops over rows of residues. Slices given together have the same length (callers check it).
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
    /// `sum[i] += a[i] b[i]`.
    pub(crate) mul_add_assign: fn(&Modulus, sum: &mut [u64], a: &[u64], b: &[u64]),
    /// `out[i] = Σ a[i] b[i]` over the pairs `(a, b)`.
    pub(crate) inner_product: fn(&Modulus, out: &mut [u64], pairs: &[RowPair<'_>]),
    /// `a[i] *= w`.
    pub(crate) scale_assign: fn(&Modulus, a: &mut [u64], w: Factor),
    /// `a[i] = (a[i] - b[i]) w`.
    pub(crate) sub_scale_assign: fn(&Modulus, a: &mut [u64], b: &[u64], w: Factor),
}

impl RingKernels {
    /// The fastest loops that this machine has.
    pub fn best() -> &'static RingKernels {
        &PORTABLE
    }
}

/// The portable loops, which define what all others must return.
static PORTABLE: RingKernels = RingKernels {
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
    scale_assign: |q, a, w| a.iter_mut().for_each(|a| *a = q.mul_factor(*a, w)),
    sub_scale_assign: |q, a, b, w| a.iter_mut().zip(b).for_each(|(a, b)| *a = q.mul_factor(*a + q.value() - *b, w)),
};

/// Eight products a reduction.
fn inner_product(q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>]) {
    out.fill(0);
    for pairs in pairs.chunks(8) {
        for (i, out) in out.iter_mut().enumerate() {
            let products = pairs.iter().map(|(a, b)| u128::from(a[i] << q.shift()) * u128::from(b[i]));
            *out = q.add(*out, q.reduce_scaled(products.sum()));
        }
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
    fn new([roots, quotients]: &'a [Vec<u64>; 2], blocks: usize) -> Self {
        Self([&roots[blocks..2 * blocks], &quotients[blocks..2 * blocks]])
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
