//! Coefficients as integers, from their residues.
//!
//! Garner's mixed radix (IRE Trans. EC-8, 1959): `x = v_1 + q_1 (v_2 + q_2 (v_3 + …))` with `v_k =
//! (x_k - (v_1 + q_1 v_2 + …)) (q_1 … q_(k-1))^-1 mod q_k`, for `x` in `[0, Q)`; `x` above `Q/2` is
//! `x - Q`. Cost for a coefficient and `n` primes: `n²/2` products modulo primes, and as many of
//! words.
//!
//! # Leakage
//! Constant time.

use super::Ring;
use super::poly::{Basis, Coeff, Poly};
use crate::kernels::{Factor, Modulus};
use zeroize::Zeroizing;

/// Tables for the primes of one basis.
pub struct Reconstruction {
    moduli: Vec<Modulus>,
    /// `q_j mod q_k` for `j < k`, by `k`.
    bases: Vec<Vec<Factor>>,
    /// `(q_1 … q_(k-1))^-1 mod q_k`.
    inverses: Vec<Factor>,
    /// `Q`, least significant word first.
    product: Vec<u64>,
}

/// A coefficient: its sign, and the words of its absolute value, least significant first.
pub struct Signed<'a> {
    /// Is it below zero?
    pub negative: bool,
    /// The absolute value.
    pub words: &'a [u64],
}

impl Reconstruction {
    /// Tables for elements of this ring over this basis.
    pub fn new(ring: &Ring, basis: Basis) -> Self {
        let moduli: Vec<Modulus> = ring.tables(basis).map(|table| *table.modulus()).collect();
        let bases = |k: usize| moduli[..k].iter().map(|q| moduli[k].factor(moduli[k].reduce(q.value()))).collect();
        let inverse = |k: usize| {
            let q = &moduli[k];
            let product = moduli[..k].iter().fold(1, |product, other| q.mul(product, q.reduce(other.value())));
            match q.inverse(product) {
                Some(inverse) => q.factor(inverse),
                None => unreachable!("the primes of a ring are distinct"),
            }
        };
        let mut product = vec![0; moduli.len() + 1]; // a word more than is needed, for the double
        product[0] = 1;
        moduli.iter().for_each(|q| multiply_add(&mut product, q.value(), 0));
        Self {
            bases: (0..moduli.len()).map(bases).collect(),
            inverses: (0..moduli.len()).map(inverse).collect(),
            product,
            moduli,
        }
    }

    /// Passes every coefficient to `take`, with its place.
    ///
    /// # Panics
    /// If the element is over a smaller basis.
    pub fn for_each(&self, element: &Poly<Coeff>, mut take: impl FnMut(usize, Signed)) {
        let (n, degree) = (self.moduli.len(), element.ring().degree());
        let mut digits = Zeroizing::new(vec![0; n]);
        let [mut words, mut opposite, mut rest] = [(); 3].map(|()| Zeroizing::new(vec![0; n + 1]));
        for place in 0..degree {
            for k in 0..n {
                // v_1 + q_1 (v_2 + …) by Horner's rule
                let q = &self.moduli[k];
                let known = digits[..k].iter().zip(&self.bases[k]).rev();
                let known = known.fold(0, |sum, (digit, base)| q.add(q.mul_factor(sum, *base), q.reduce(*digit)));
                digits[k] = q.mul_factor(q.sub(element.row(k)[place], known), self.inverses[k]);
            }
            words.fill(0);
            for (digit, q) in digits.iter().zip(&self.moduli).rev() {
                multiply_add(&mut words, q.value(), *digit);
            }
            // Q - x is below x iff x is the negative one
            subtract(&self.product, &words, &mut opposite);
            let negative = subtract(&opposite, &words, &mut rest) != 0;
            let mask = u64::from(negative).wrapping_neg();
            for (word, other) in words.iter_mut().zip(opposite.iter()) {
                *word ^= (*word ^ other) & mask;
            }
            take(place, Signed { negative, words: &words });
        }
    }
}

/// `words = words · factor + carry`.
fn multiply_add(words: &mut [u64], factor: u64, mut carry: u64) {
    for word in words {
        let product = u128::from(*word) * u128::from(factor) + u128::from(carry);
        (*word, carry) = (product as u64, (product >> 64) as u64);
    }
}

/// `out = a - b`, and 1 if that is negative.
fn subtract(a: &[u64], b: &[u64], out: &mut [u64]) -> u64 {
    let mut borrow = 0;
    for ((a, b), out) in a.iter().zip(b).zip(out) {
        let difference = u128::from(*a).wrapping_sub(u128::from(*b) + u128::from(borrow));
        (*out, borrow) = (difference as u64, (difference >> 127) as u64);
    }
    borrow
}

#[cfg(test)]
mod tests {
    use super::super::primes_below;
    use super::*;

    #[test]
    fn coefficients_come_back_with_their_sign() {
        let primes: Vec<u64> =
            [50, 30, 50].iter().zip(0..).map(|(bits, i)| primes_below(*bits, 16).nth(i).unwrap()).collect();
        let ring = Ring::new(8, &primes[..2], &primes[2..]).unwrap();
        let values = [0, 1, -1, 5, -77, (1 << 28) - 1, 1 - (1 << 28), 123_456_789];
        for basis in [ring.basis(1), ring.basis(2), ring.key_basis(2)] {
            let mut seen = Vec::new();
            Reconstruction::new(&ring, basis).for_each(&Poly::from_signed(&ring, basis, &values), |place, found| {
                assert!(place == seen.len() && found.words[1..].iter().all(|word| *word == 0));
                seen.push(if found.negative { -(found.words[0] as i64) } else { found.words[0] as i64 });
            });
            assert_eq!(seen, values);
        }
        // the largest ones
        let half: u128 = u128::from(primes[0]) * u128::from(primes[1]) / 2;
        let residues = |x: u128| primes[..2].iter().map(move |q| (x % u128::from(*q)) as u64);
        let ends = [half, half + 1];
        let rows = (0..2).flat_map(|row| (0..8).map(move |i| residues(ends[i % 2]).nth(row).unwrap()));
        let element = Poly::from_values(&ring, ring.basis(2), &rows.collect::<Vec<_>>());
        Reconstruction::new(&ring, ring.basis(2)).for_each(&element, |place, found| {
            let value = u128::from(found.words[1]) << 64 | u128::from(found.words[0]);
            assert_eq!((found.negative, value), (place % 2 == 1, half));
        });
    }
}
