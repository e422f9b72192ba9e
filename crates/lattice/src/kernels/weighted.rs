//! A matrix of small weights times tiles of residues, on eight lanes.
//!
//! Weights are shifted by `2^15`, so that they lie in `[0, 2^16]`. The excess, `2^15 Σ x`, is
//! subtracted before the reduction. For `q < 2^36` a product is below `2^52`, one multiply-add;
//! with up to `2^10` inputs the sum, and the multiple of `q` that it starts from, stay below
//! `2^63`. For wider `q` the high halves of products, below `2^14` each, have their own sum.
//!
//! Four outputs and four eights are summed together: eight loads for sixteen multiply-adds.
//!
//! Sums of tensors of ciphertexts work alike: for `q < 2^26` a product is one multiply-add. For
//! `q < 2^42` a reduction is needed only after `2^10` weights, otherwise after seven, because the
//! middle part has two products for each.

use super::vector::{Lanes, Residues, eights, eights_mut};
use crate::kernels::{BLOCK, Modulus, SHIFT, SIGNED, TILE, WeightMatrix};
use tobari_simd::Simd;

/// Eights that are summed together.
const WIDTH: usize = 4;
/// Bits of the widest modulus for which one multiply-add is a product.
const NARROW_BITS: u32 = 36;

/// Bits of the widest modulus for which one multiply-add is a product of residues.
const SINGLE_BITS: u32 = 26;
/// Bits of the widest modulus for which sums of `2^11` products of residues are reduced at once.
const LATE_BITS: u32 = 42;
/// Weights before a reduction if the modulus is wider.
const EARLY: usize = 7;
/// Eights of a sum of tensors that are processed together.
const PAIR: usize = 2;

type Sums<V> = [[V; WIDTH]; BLOCK];

impl<S: Simd> Residues<S> {
    #[inline(always)]
    pub(crate) fn weighted_sums(self, q: &Modulus, matrix: &WeightMatrix, inputs: &[u64], out: &mut [u64]) {
        for first in (0..TILE / 8).step_by(WIDTH) {
            let totals = self.totals(inputs, first);
            let blocks = matrix.blocks.chunks_exact(matrix.inputs());
            for (out, weights) in out.chunks_exact_mut(BLOCK * TILE).zip(blocks) {
                if q.bits() <= NARROW_BITS {
                    self.narrow(q, weights, inputs, (first, totals), out);
                } else {
                    self.wide(q, weights, inputs, (first, totals), out);
                }
            }
        }
    }

    #[inline(always)]
    fn narrow(
        self,
        q: &Modulus,
        weights: &[[u64; BLOCK]],
        inputs: &[u64],
        (first, totals): (usize, [S::V; WIDTH]),
        out: &mut [u64],
    ) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        // a multiple of q that is at least every total
        let least = s.splat((weights.len() as u64 * q.value()) << SHIFT.trailing_zeros());
        let mut sums: Sums<S::V> = [totals; BLOCK];
        for sums in &mut sums {
            for sum in sums {
                *sum = s.sub(least, s.shl(*sum, SHIFT.trailing_zeros()));
            }
        }
        for (x, w) in inputs.chunks_exact(TILE).zip(weights) {
            let x = self.four(x, first);
            for (sums, w) in sums.iter_mut().zip(w) {
                let w = s.splat(*w);
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = s.multiply_add_low(*sum, x, w);
                }
            }
        }
        for (sums, out) in sums.into_iter().zip(out.chunks_exact_mut(TILE)) {
            for (sum, out) in sums.into_iter().zip(&mut eights_mut(out)[first..]) {
                s.store_words(lanes.reduce([sum, lanes.zero], carry), out);
            }
        }
    }

    #[inline(always)]
    fn wide(
        self,
        q: &Modulus,
        weights: &[[u64; BLOCK]],
        inputs: &[u64],
        (first, totals): (usize, [S::V; WIDTH]),
        out: &mut [u64],
    ) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let (carry, shift) = (lanes.carry(q), lanes.multiplier(q.factor(SHIFT as u64 % q.value())));
        // loops, not closures: the compiler would not inline a closure of this size, so vectors
        // would leave registers
        let mut shifted = totals;
        for total in &mut shifted {
            *total = lanes.scale(lanes.reduce([*total, lanes.zero], carry), shift);
        }
        for half in 0..2 {
            let mut sums = [[[lanes.zero; 2]; WIDTH]; BLOCK / 2];
            for (x, w) in inputs.chunks_exact(TILE).zip(weights) {
                let x = self.four(x, first);
                for (sums, w) in sums.iter_mut().zip(&w[2 * half..]) {
                    let w = s.splat(*w);
                    for (sum, x) in sums.iter_mut().zip(x) {
                        *sum = lanes.add_product(*sum, x, w);
                    }
                }
            }
            for (sums, out) in sums.into_iter().zip(out.chunks_exact_mut(TILE).skip(2 * half)) {
                for ((sum, shifted), out) in sums.into_iter().zip(shifted).zip(&mut eights_mut(out)[first..]) {
                    let difference = s.sub(lanes.reduce(sum, carry), shifted);
                    s.store_words(s.min(difference, s.add(difference, lanes.q)), out);
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn tensor_sum(self, q: &Modulus, inputs: &[u64], which: &[u32], weights: &[u64], out: &mut [u64]) {
        for first in (0..TILE / 8).step_by(PAIR) {
            if q.bits() <= SINGLE_BITS {
                self.tensor_sum_of::<true>(q, inputs, which, weights, first, out);
            } else {
                self.tensor_sum_of::<false>(q, inputs, which, weights, first, out);
            }
        }
    }

    #[inline(always)]
    fn tensor_sum_of<const SINGLE: bool>(
        self,
        q: &Modulus,
        inputs: &[u64],
        which: &[u32],
        weights: &[u64],
        first: usize,
        out: &mut [u64],
    ) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let carry = lanes.carry(q);
        let late = if q.bits() <= LATE_BITS { which.len() } else { EARLY };
        let add = |sum: [S::V; 2], a, b| match SINGLE {
            true => [s.multiply_add_low(sum[0], a, b), sum[1]],
            false => lanes.add_product(sum, a, b),
        };
        let mut sums = [[[lanes.zero; 2]; PAIR]; 3];
        for (which, weights) in which.chunks(late).zip(weights.chunks(2 * TILE * late)) {
            for (x, w) in which.iter().zip(weights.chunks_exact(2 * TILE)) {
                let x = eights(&inputs[2 * TILE * *x as usize..][..2 * TILE]);
                let w = eights(w);
                for i in 0..PAIR {
                    let at = |tiles: &[[u64; 8]], part: usize| s.load_words(&tiles[part * TILE / 8 + first + i]);
                    let ([x0, x1], [w0, w1]) = ([at(x, 0), at(x, 1)], [at(w, 0), at(w, 1)]);
                    sums[0][i] = add(sums[0][i], x0, w0);
                    sums[1][i] = add(add(sums[1][i], x0, w1), x1, w0);
                    sums[2][i] = add(sums[2][i], x1, w1);
                }
            }
            // loops, not a closure: the compiler would not inline a closure of this size, so
            // vectors would leave registers
            for part in &mut sums {
                for sum in part {
                    *sum = [lanes.reduce(*sum, carry), lanes.zero];
                }
            }
        }
        for (sums, out) in sums.into_iter().zip(out.chunks_exact_mut(TILE)) {
            for ([sum, _], out) in sums.into_iter().zip(&mut eights_mut(out)[first..]) {
                s.store_words(sum, out);
            }
        }
    }

    /// Uses tables of all sums of four: a sum of sixteen is a sum of four table entries, below
    /// `2^54`.
    #[inline(always)]
    pub(crate) fn sign_sums(self, q: &Modulus, inputs: &[u64], signs: &[u16], out: &mut [u64]) {
        let (s, lanes) = (self.0, Lanes::new(self.0, q));
        let [eight, four] = [8, 4].map(|times| s.splat(times * q.value()));
        for place in 0..TILE / 8 {
            let mut tables = [[lanes.zero; 16]; SIGNED / 4];
            for (group, table) in tables.iter_mut().enumerate() {
                for i in 0..4 {
                    let x = s.load_words(&eights(&inputs[2 * TILE * (4 * group + i)..][..TILE])[place]);
                    let negative = lanes.once(s.sub(lanes.q, x), lanes.q);
                    for (signs, sum) in table.iter_mut().enumerate() {
                        *sum = s.add(*sum, if signs >> i & 1 == 1 { negative } else { x });
                    }
                }
            }
            for (signs, out) in signs.iter().zip(out.chunks_mut(2 * TILE)) {
                let signs = usize::from(*signs);
                let low = s.add(tables[0][signs & 15], tables[1][signs >> 4 & 15]);
                let sum = s.add(low, s.add(tables[2][signs >> 8 & 15], tables[3][signs >> 12]));
                let sum = lanes.once(lanes.once(sum, eight), four);
                s.store_words(lanes.once(lanes.once(sum, lanes.twice), lanes.q), &mut eights_mut(out)[place]);
            }
        }
    }

    /// `Σ x` over the inputs.
    #[inline(always)]
    fn totals(self, inputs: &[u64], first: usize) -> [S::V; WIDTH] {
        let mut totals = [self.0.splat(0); WIDTH];
        for x in inputs.chunks_exact(TILE) {
            for (total, x) in totals.iter_mut().zip(self.four(x, first)) {
                *total = self.0.add(*total, x);
            }
        }
        totals
    }

    #[inline(always)]
    fn four(self, tile: &[u64], first: usize) -> [S::V; WIDTH] {
        let tile = &eights(tile)[first..first + WIDTH];
        std::array::from_fn(|i| self.0.load_words(&tile[i]))
    }
}
