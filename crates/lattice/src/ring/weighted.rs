//! Sums of polynomials with small integer weights: a matrix times a vector of polynomials.
//!
//! ```text
//! out_j = Σ_i w_ji x_i,      |w_ji| <= 2^15,
//! ```
//!
//! residue by residue. Weights are small, so a product of a residue below `2^36` and a weight,
//! shifted by `2^15` to be positive, stays below `2^52`, and a thousand of them below `2^62`: one
//! multiply-add a product, and one reduction a sum. Wider residues take two multiply-adds. Rows are
//! processed in tiles of [`TILE`] residues of all inputs, which are first copied together: rows of
//! a power of two bytes would collide in every cache.
//!
//! Cost: one multiply-add of eight lanes for every eight residues, input and output. Inputs are
//! read once for each matrix.
//!
//! [`Poly::tensor_sums`] does the same for weights that are ciphertexts: sums of products
//! `(x_0, x_1) ⊗ (w_0, w_1)` of three parts. Weights that many sums share are read once for all of
//! them.

use super::{Eval, Poly};
use crate::kernels::{BLOCK, MAX_INPUTS, RingKernels, TILE, WeightMatrix};
use std::borrow::Borrow;

/// Sums that share their weights: one for each list of inputs. Each list is as long as that of the
/// weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductSums {
    /// The numbers of the weights.
    pub weights: Vec<u32>,
    /// For each sum, the numbers of the inputs that they multiply.
    pub inputs: Vec<Vec<u32>>,
}

impl ProductSums {
    /// Are there from 1 to [`MAX_INPUTS`] weights with numbers below `weights`, and in each sum as
    /// many inputs with numbers below `inputs`?
    pub fn fits(&self, inputs: usize, weights: usize) -> bool {
        let within = |list: &[u32], count: usize| list.iter().all(|i| (*i as usize) < count);
        (1..=MAX_INPUTS).contains(&self.weights.len())
            && within(&self.weights, weights)
            && self.inputs.iter().all(|list| list.len() == self.weights.len() && within(list, inputs))
    }
}

/// Copies a tile of two parts.
fn pack(parts: [&Poly<Eval>; 2], row: usize, from: usize, tile: usize, packed: &mut [u64]) {
    for (part, packed) in parts.into_iter().zip(packed.chunks_exact_mut(TILE)) {
        packed[..tile].copy_from_slice(&part.row(row)[from..][..tile]);
    }
}

impl Poly<Eval> {
    /// The three parts of `Σ x ⊗ w` for each sum of each of `sums`, one after the other.
    ///
    /// # Panics
    /// If sums do not fit ([`ProductSums::fits`]), or polynomials are not over the same primes.
    pub fn tensor_sums(sums: &[ProductSums], inputs: &[[&Self; 2]], weights: &[[&Self; 2]]) -> Vec<[Self; 3]> {
        assert!(sums.iter().all(|sum| sum.fits(inputs.len(), weights.len())), "sums of what there is");
        let Some([first, _]) = inputs.first() else { return Vec::new() };
        let (ring, basis) = (first.ring(), first.basis());
        let alike = |x: &&Self| x.ring().is(ring) && x.basis() == basis;
        assert!(inputs.iter().chain(weights).flatten().all(alike), "polynomials over the same primes");
        let count = sums.iter().map(|sum| sum.inputs.len()).sum();
        let mut made: Vec<[Self; 3]> = (0..count).map(|_| std::array::from_fn(|_| Self::any(ring, basis))).collect();
        let (kernels, degree) = (RingKernels::best(), ring.degree());
        let tile = TILE.min(degree);
        let most = sums.iter().map(|sum| sum.weights.len()).max().unwrap_or(0);
        let (mut xs, mut ws) = (vec![0; 2 * inputs.len() * TILE], vec![0; 2 * most * TILE]);
        let mut out = [0; 3 * TILE];
        for (row, table) in ring.tables(basis).enumerate() {
            for from in (0..degree).step_by(tile) {
                for (x, packed) in inputs.iter().zip(xs.chunks_exact_mut(2 * TILE)) {
                    pack(*x, row, from, tile, packed);
                }
                let mut next = made.iter_mut();
                for sum in sums {
                    for (w, packed) in sum.weights.iter().zip(ws.chunks_exact_mut(2 * TILE)) {
                        pack(weights[*w as usize], row, from, tile, packed);
                    }
                    for (which, made) in sum.inputs.iter().zip(&mut next) {
                        (kernels.tensor_sum)(table.modulus(), &xs, which, &ws, &mut out);
                        for (part, out) in made.iter_mut().zip(out.chunks_exact(TILE)) {
                            part.row_mut(row)[from..][..tile].copy_from_slice(&out[..tile]);
                        }
                    }
                }
            }
        }
        made
    }

    /// `Σ_i f_i x_i`, with separate factors for each prime.
    ///
    /// # Panics
    /// If there is no polynomial, a prime has another number of factors, or polynomials are not
    /// over the same primes.
    pub(crate) fn combination(factors: &[Vec<u64>], inputs: &[&Self]) -> Self {
        let (ring, basis) = (inputs[0].ring(), inputs[0].basis());
        assert!(factors.len() == basis.rows() && factors.iter().all(|factors| factors.len() == inputs.len()));
        let mut sum = Self::zero(ring, basis);
        for (row, (table, factors)) in ring.tables(basis).zip(factors).enumerate() {
            let q = table.modulus();
            for (input, factor) in inputs.iter().zip(factors) {
                assert!(input.basis() == basis && input.ring().is(ring), "polynomials over the same primes");
                (RingKernels::best().scale_add_assign)(q, sum.row_mut(row), input.row(row), q.factor(*factor));
            }
        }
        sum
    }

    /// `Σ_i w_ji x_i` for each row `j` of a matrix.
    ///
    /// # Panics
    /// If the number of polynomials differs from the inputs of the matrix, or they are not over the
    /// same primes.
    pub fn weighted_sums<P: Borrow<Self>>(matrix: &WeightMatrix, inputs: &[P]) -> Vec<Self> {
        assert_eq!(inputs.len(), matrix.inputs(), "as many polynomials as weights in a row");
        let (ring, basis) = (inputs[0].borrow().ring(), inputs[0].borrow().basis());
        let alike = |input: &P| input.borrow().ring().is(ring) && input.borrow().basis() == basis;
        assert!(inputs.iter().all(alike), "polynomials over the same primes");
        let mut sums: Vec<Self> = (0..matrix.outputs()).map(|_| Self::any(ring, basis)).collect();
        let (kernels, degree) = (RingKernels::best(), ring.degree());
        let tile = TILE.min(degree);
        let mut packed = vec![0; matrix.inputs() * TILE];
        let mut out = vec![0; matrix.outputs().next_multiple_of(BLOCK) * TILE];
        for (row, table) in ring.tables(basis).enumerate() {
            for from in (0..degree).step_by(tile) {
                for (packed, input) in packed.chunks_mut(TILE).zip(inputs) {
                    packed[..tile].copy_from_slice(&input.borrow().row(row)[from..][..tile]);
                }
                (kernels.weighted_sums)(table.modulus(), matrix, &packed, &mut out);
                for (sum, out) in sums.iter_mut().zip(out.chunks(TILE)) {
                    sum.row_mut(row)[from..][..tile].copy_from_slice(&out[..tile]);
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::{Domain, Ring, Seed, primes_below};
    use super::*;

    #[test]
    fn weighted_sums_are_sums_of_scaled_polynomials() {
        let wide: Vec<u64> = primes_below(50, 1 << 8).take(1).collect();
        let narrow: Vec<u64> = primes_below(30, 1 << 8).take(2).collect();
        for (degree, inputs, outputs) in [(128, 3, 2), (128, 1, 5), (64, 70, 9), (8, 2, 1)] {
            let primes: Vec<u64> = wide.iter().chain(&narrow).copied().collect();
            let ring = Ring::new(degree, &primes, &[]).unwrap();
            let seed = Seed::from_bytes([7; 32]);
            let uniform = |i: usize| {
                Poly::<Eval>::uniform(&ring, ring.basis(3), |row| seed.stream(Domain::Error, (8 * i + row) as u64))
            };
            let all: Vec<Poly<Eval>> = (0..inputs).map(uniform).collect();
            let weights: Vec<i32> =
                (0..inputs * outputs).map(|i| [0, 1, -1, 1 << 15, -(1 << 15), 12_345][i * 7 % 6]).collect();
            let matrix = WeightMatrix::new(inputs, &weights).unwrap();
            let sums = Poly::weighted_sums(&matrix, &all);
            assert_eq!(sums.len(), outputs);
            for (sum, weights) in sums.iter().zip(weights.chunks(inputs)) {
                let mut expected = Poly::zero(&ring, ring.basis(3));
                for (x, w) in all.iter().zip(weights) {
                    let mut term = x.clone();
                    term.scale_assign(i64::from(*w));
                    expected.add_assign(&term);
                }
                assert_eq!(sum.values(), expected.values());
            }
        }
    }

    #[test]
    fn tensor_sums_are_sums_of_tensors() {
        let primes: Vec<u64> = [50, 41, 30, 26].iter().flat_map(|bits| primes_below(*bits, 1 << 8).take(1)).collect();
        let ring = Ring::new(128, &primes, &[]).unwrap();
        let seed = Seed::from_bytes([8; 32]);
        let uniform =
            |i: u64| Poly::<Eval>::uniform(&ring, ring.basis(4), |row| seed.stream(Domain::Error, 8 * i + row as u64));
        let all: Vec<Poly<Eval>> = (0..40).map(uniform).collect();
        let pairs: Vec<[&Poly<Eval>; 2]> = all.chunks(2).map(|pair| [&pair[0], &pair[1]]).collect();
        let (inputs, weights) = pairs.split_at(9);
        let sums = [
            ProductSums { weights: vec![3, 0, 1], inputs: vec![vec![0, 8, 8], vec![1, 2, 3]] },
            ProductSums { weights: vec![10], inputs: vec![vec![4]] },
            ProductSums { weights: (0..11).chain(0..11).collect(), inputs: vec![vec![5; 22]] },
        ];
        let found = Poly::tensor_sums(&sums, inputs, weights);
        assert_eq!(found.len(), 4);
        let lists = sums.iter().flat_map(|sum| sum.inputs.iter().map(|inputs| (&sum.weights, inputs)));
        for (found, (ws, xs)) in found.iter().zip(lists) {
            let mut expected: [Poly<Eval>; 3] = std::array::from_fn(|_| Poly::zero(&ring, ring.basis(4)));
            for (w, x) in ws.iter().zip(xs) {
                let product = Poly::tensor(inputs[*x as usize], weights[*w as usize]);
                expected.iter_mut().zip(&product).for_each(|(sum, part)| sum.add_assign(part));
            }
            assert!(found.iter().zip(&expected).all(|(a, b)| a.values() == b.values()));
        }
        assert!(!ProductSums { weights: vec![0], inputs: vec![vec![0, 1]] }.fits(9, 9));
        assert!(!ProductSums { weights: vec![9], inputs: vec![vec![0]] }.fits(9, 9));
        assert!(!ProductSums { weights: vec![], inputs: vec![] }.fits(9, 9));
    }
}
