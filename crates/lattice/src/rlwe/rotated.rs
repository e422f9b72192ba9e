//! Sums of rotations, divided by `P` once.
//!
//! ```text
//! Σ_i a_i + Σ_g ρ_g( Σ_i c_(g,i) )
//! ```
//!
//! The digits of a hoisted element already exist, and a product with a key costs little compared
//! with the following division by `P`. The products of all rotations are permuted and summed modulo
//! `Q P`, and divided once. So `n` elements take `n` decompositions, and each sum two divisions,
//! however many rotations it has. Digits of elements with the same rotation are summed first,
//! because a sum of digits is a digit of the sum.
//!
//! # Error
//! The digit error of a key switch for each rotated element, and one rounding.

use super::evaluation_keys::GaloisKey;
use super::switch::{Digits, KeySwitcher};
use crate::kernels::RingKernels;
use crate::ring::{Eval, Poly};

/// Elements with the same rotation: the first parts of ciphertexts, the digits of the second parts,
/// and the key.
pub(crate) struct Turned<'a> {
    pub(crate) inputs: Vec<(&'a Poly<Eval>, &'a Digits)>,
    pub(crate) key: &'a GaloisKey,
}

impl KeySwitcher {
    /// The sum; all inputs are of one level.
    ///
    /// # Panics
    /// If nothing is rotated, a key is of other parameters or a lower level, or levels differ.
    pub(crate) fn rotated_sum(&self, terms: &[[&Poly<Eval>; 2]], turns: &[Turned<'_>]) -> [Poly<Eval>; 2] {
        let (ring, kernels) = (self.parameters().ring(), RingKernels::best());
        let (basis, degree) = (turns[0].inputs[0].1.basis(), ring.degree());
        let count = turns[0].inputs[0].1.row(0).len();
        let mut sums = [(); 2].map(|()| Poly::any(ring, basis));
        let mut scratch = ring.scratch(count + 3);
        let (summed, rest) = scratch.split_at_mut(count * degree);
        let (product, moved) = rest.split_at_mut(2 * degree);
        for row in 0..basis.rows() {
            let q = ring.table(basis, row).modulus();
            let special = q.factor(self.special(q));
            for (number, turn) in turns.iter().enumerate() {
                let digits = turn.digits(row, basis, summed, |sum, digit| (kernels.add_assign)(q, sum, digit));
                let (product0, product1) = product.split_at_mut(degree);
                self.product_row(row, &digits, basis, &turn.key.key, [&mut *product0, &mut *product1]);
                for (c0, _) in turn.inputs.iter().filter(|_| row < basis.data()) {
                    (kernels.scale_add_assign)(q, product0, c0.row(row), special);
                }
                for (sum, product) in sums.iter_mut().zip([product0, product1]) {
                    if number == 0 {
                        turn.key.automorphism.permute(product, sum.row_mut(row));
                    } else {
                        turn.key.automorphism.permute(product, moved);
                        (kernels.add_assign)(q, sum.row_mut(row), moved);
                    }
                }
            }
        }
        let mut part = 0;
        sums.map(|sum| {
            let own: Vec<&Poly<Eval>> = terms.iter().map(|term| term[part]).collect();
            part += 1;
            self.divide_and(&sum, |row, q, values| {
                own.iter().for_each(|term| (kernels.add_assign)(q, values, term.row(row)));
            })
        })
    }
}

impl Turned<'_> {
    /// A row of the digits, summed over the inputs.
    fn digits<'b>(
        &'b self,
        row: usize,
        basis: crate::ring::Basis,
        summed: &'b mut [u64],
        add: impl Fn(&mut [u64], &[u64]),
    ) -> Vec<&'b [u64]> {
        assert!(self.inputs.iter().all(|(_, digits)| digits.basis() == basis), "digits of one level");
        let first = self.inputs[0].1.row(row);
        let [_, others @ ..] = &self.inputs[..] else { return first };
        if others.is_empty() {
            return first;
        }
        let degree = first[0].len();
        for (digit, sum) in summed.chunks_exact_mut(degree).enumerate() {
            sum.copy_from_slice(first[digit]);
            others.iter().for_each(|(_, digits)| add(sum, digits.row(row)[digit]));
        }
        summed.chunks_exact(degree).collect()
    }
}
