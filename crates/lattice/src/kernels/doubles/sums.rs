//! Sums of many products on four doubles: matrices of small weights, tensors of ciphertexts, and
//! sums with signs.

use super::{Doubles, Lanes, centred, exp2, fours, fours_mut};
use crate::kernels::{BLOCK, Modulus, SHIFT, SIGNED, TILE, WeightMatrix};
use tobari_simd::Fused;

/// Inputs of a matrix whose products are summed before a reduction.
const INPUTS: usize = 256;
/// Bits of the widest modulus for which [`INPUTS`] products with weights of 16 bits, sign included,
/// stay below 2^53.
const NARROW_BITS: u32 = 30;
/// The bit at which a residue of a wider modulus is split: [`INPUTS`] products of either part stay
/// below 2^48.
const CUT_BITS: i32 = 25;

/// Weights of some inputs, negated, because sums subtract products.
type Negated<'a> = &'a [[f64; BLOCK]];

impl<F: Fused> Doubles<F> {
    /// One fused operation a product for moduli of up to 30 bits, two for wider ones.
    #[inline(always)]
    pub(crate) fn weighted_sums(self, q: &Modulus, matrix: &WeightMatrix, inputs: &[u64], out: &mut [u64]) {
        let mut negated = [[0.0; BLOCK]; INPUTS];
        let blocks = matrix.blocks.chunks_exact(matrix.inputs());
        for (out, weights) in out.chunks_exact_mut(BLOCK * TILE).zip(blocks) {
            out.fill(0);
            for (weights, inputs) in weights.chunks(INPUTS).zip(inputs.chunks(INPUTS * TILE)) {
                for (negated, weights) in negated.iter_mut().zip(weights) {
                    *negated = weights.map(|weight| (SHIFT - weight as i64) as f64);
                }
                let negated = &negated[..weights.len()];
                match q.bits() <= NARROW_BITS {
                    true => self.add_narrow(q, negated, inputs, out),
                    false => self.add_wide(q, negated, inputs, out),
                }
            }
        }
    }

    #[inline(always)]
    fn add_narrow(self, q: &Modulus, weights: Negated<'_>, inputs: &[u64], out: &mut [u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        for first in (0..TILE / 4).step_by(2) {
            let mut sums = [[f.splat(0.0); 2]; BLOCK];
            for (x, weights) in inputs.chunks_exact(TILE).zip(weights) {
                let x = [f.of_words(&fours(x)[first]), f.of_words(&fours(x)[first + 1])];
                for (sums, weight) in sums.iter_mut().zip(weights) {
                    let weight = f.splat(*weight);
                    for (sum, x) in sums.iter_mut().zip(x) {
                        *sum = f.neg_mul_add(x, weight, *sum);
                    }
                }
            }
            for (out, sums) in out.chunks_exact_mut(TILE).zip(sums) {
                for (out, sum) in fours_mut(out)[first..].iter_mut().zip(sums) {
                    f.to_words(lanes.canonical(f.add(f.of_words(out), lanes.reduce(sum))), out);
                }
            }
        }
    }

    /// Each part of a residue has its own sum.
    #[inline(always)]
    fn add_wide(self, q: &Modulus, weights: Negated<'_>, inputs: &[u64], out: &mut [u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        let [up, down] = [CUT_BITS, -CUT_BITS].map(|bits| f.splat(exp2(bits)));
        for place in 0..TILE / 4 {
            let mut sums = [[f.splat(0.0); 2]; BLOCK];
            for (x, weights) in inputs.chunks_exact(TILE).zip(weights) {
                let x = f.of_words(&fours(x)[place]);
                let high = f.floor(f.mul(x, down));
                let low = f.neg_mul_add(high, up, x);
                for (sums, weight) in sums.iter_mut().zip(weights) {
                    let weight = f.splat(*weight);
                    sums[0] = f.neg_mul_add(low, weight, sums[0]);
                    sums[1] = f.neg_mul_add(high, weight, sums[1]);
                }
            }
            for (out, [low, high]) in out.chunks_exact_mut(TILE).zip(sums) {
                let out = &mut fours_mut(out)[place];
                // 2^25 is below q/2: it is its own centred residue
                let sum = f.add(lanes.reduce(low), lanes.product(lanes.reduce(high), up));
                f.to_words(lanes.canonical(f.add(f.of_words(out), sum)), out);
            }
        }
    }

    /// For `q < 2^b` a product `x w` is `2^b (h + l)`, `h` the integer nearest to `x (w/2^b)`
    /// rounded and `l` a multiple of `2^-b` of about one half at the most. With `2^(53 - b)`
    /// products both sums are exact: `h` below 2^53, `l` of 53 bits. Five operations a product.
    #[inline(always)]
    pub(crate) fn tensor_sum(self, q: &Modulus, inputs: &[u64], which: &[u32], weights: &[u64], out: &mut [u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        let bits = q.bits();
        let [up, down] = [bits as i32, -(bits as i32)].map(|bits| f.splat(exp2(bits)));
        let residue = f.splat(centred(q, q.reduce(1 << bits)));
        // two products each in the part in the middle
        let late = 1 << (52 - bits);
        for place in 0..TILE / 4 {
            let mut totals = [f.splat(0.0); 3];
            for (which, weights) in which.chunks(late).zip(weights.chunks((2 * TILE).saturating_mul(late))) {
                let mut sums = [[f.splat(0.0); 2]; 4];
                for (x, w) in which.iter().zip(weights.chunks_exact(2 * TILE)) {
                    let (x, w) = (fours(&inputs[2 * TILE * *x as usize..][..2 * TILE]), fours(w));
                    let x = [f.of_words(&x[place]), f.of_words(&x[TILE / 4 + place])];
                    let w = [&w[place], &w[TILE / 4 + place]].map(|w| f.mul(f.of_words(w), down));
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let (x, w) = (x[i / 2], w[i % 2]);
                        let high = f.round(f.mul(x, w));
                        *sum = [f.add(sum[0], high), f.add(sum[1], f.mul_sub(x, w, high))];
                    }
                }
                let [first, one, other, last] = sums;
                let middle = [f.add(one[0], other[0]), f.add(one[1], other[1])];
                for (total, [high, low]) in totals.iter_mut().zip([first, middle, last]) {
                    let high = lanes.product(lanes.reduce(high), residue);
                    let low = lanes.reduce(f.mul(low, up));
                    *total = lanes.reduce(f.add(*total, f.add(high, low)));
                }
            }
            for (out, total) in out.chunks_exact_mut(TILE).zip(totals) {
                f.to_words(lanes.positive(total), &mut fours_mut(out)[place]);
            }
        }
    }

    /// Uses tables of all sums of four: a sum of sixteen centred residues is a sum of four table
    /// entries, below `8q`.
    #[inline(always)]
    pub(crate) fn sign_sums(self, q: &Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]) {
        let (f, lanes) = (self.0, Lanes::new(self.0, q));
        let half = f.splat(q.value().div_ceil(2) as f64);
        for place in 0..TILE / 4 {
            let mut tables = [[f.splat(0.0); 16]; SIGNED / 4];
            for (group, table) in tables.iter_mut().enumerate() {
                for i in 0..4 {
                    let x = f.of_words(&fours(&inputs[2 * TILE * (4 * group + i)..][..TILE])[place]);
                    let x = f.add(f.sub(x, lanes.q), f.where_negative(f.sub(x, half), lanes.q));
                    for signs in 0..1 << i {
                        table[signs | 1 << i] = f.sub(table[signs], x);
                        table[signs] = f.add(table[signs], x);
                    }
                }
            }
            for (signs, out) in signs.iter().zip(out.chunks_mut(2 * TILE)) {
                let signs = usize::from(*signs);
                let low = f.add(tables[0][signs & 15], tables[1][signs >> 4 & 15]);
                let sum = f.add(low, f.add(tables[2][signs >> 8 & 15], tables[3][signs >> 12]));
                f.to_words(lanes.canonical(sum), &mut fours_mut(out)[place]);
            }
        }
    }
}
