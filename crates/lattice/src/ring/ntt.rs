//! The number-theoretic transform of `Z_q[X]/(X^N + 1)`.
//!
//! Let `ψ` be a root of unity of order `2N` modulo a prime `q ≡ 1 (mod 2N)`; then
//! `X^N + 1 = Π (X - ψ^(2i+1))`, and a polynomial is given by its values at these roots, which
//! makes products pointwise. The forward transform writes the value at `ψ^(2 rev(i) + 1)` to place
//! `i`, where `rev` reverses the `log N` bits of an index. The inverse reads values in this order.
//! So neither permutes (Longa, Naehrig, CANS 2016): stage `m` splits every factor `X^(2t) - ψ^(2e)`
//! into `X^t - ψ^e` and `X^t + ψ^e`.
//!
//! **`ψ` is fixed**: `g^((q-1)/2N)` for the smallest `g ≥ 2` such that this has order `2N`. Values
//! are part of wire formats.
//!
//! Cost: `(N/2) log N` butterflies, each with a product by a known number and two additions. The
//! forward transform does not reduce the sums; the module `kernels` explains why they fit.

use super::prime::root_of_unity;
use crate::kernels::{Factor, Modulus};
use crate::kernels::{NttTable, RingKernels, Roots};
use std::sync::OnceLock;

/// The tables of one prime and one length. They are made at their first use: until then, received
/// parameters take little more memory than their bytes.
#[derive(Clone, Debug)]
pub struct Ntt {
    modulus: Modulus,
    degree: usize,
    table: OnceLock<Box<NttTable>>,
}

impl Ntt {
    /// Tables for transforms of length `degree` modulo a prime `q`; none unless `degree` is a power
    /// of two, at least 2, and `q ≡ 1 (mod 2 degree)`.
    pub fn new(modulus: Modulus, degree: usize) -> Option<Self> {
        if !degree.is_power_of_two() || degree < 2 {
            return None;
        }
        root_of_unity(&modulus, 2 * degree as u64)?;
        Some(Self { modulus, degree, table: OnceLock::new() })
    }

    /// `N`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The tables for the loops.
    pub(crate) fn table(&self) -> &NttTable {
        self.table.get_or_init(|| {
            let table = made(&self.modulus, self.degree);
            Box::new(table.unwrap_or_else(|| unreachable!("a prime that has roots")))
        })
    }

    /// The prime.
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// Coefficients to values, in place.
    ///
    /// # Panics
    /// If there are not `N` of them.
    pub fn forward(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree());
        (RingKernels::best().ntt_forward)(&self.modulus, self.table(), values);
    }

    /// Values to coefficients, in place.
    ///
    /// # Panics
    /// If there are not `N` of them.
    pub fn inverse(&self, values: &mut [u64]) {
        assert_eq!(values.len(), self.degree());
        (RingKernels::best().ntt_inverse)(&self.modulus, self.table(), values);
    }
}

fn made(modulus: &Modulus, degree: usize) -> Option<NttTable> {
    let psi = root_of_unity(modulus, 2 * degree as u64)?;
    let forward = powers(modulus, psi, degree);
    let inverse = powers(modulus, modulus.inverse(psi)?, degree);
    let scale = modulus.inverse(degree as u64)?;
    let scaled_root = modulus.factor(modulus.mul_factor(scale, inverse[1]));
    let scale = modulus.factor(scale);
    Some(NttTable { forward: Roots::new(&forward), inverse: Roots::new(&inverse), scale, scaled_root })
}

/// `root^rev(i)` for `i < degree`.
fn powers(modulus: &Modulus, root: u64, degree: usize) -> Vec<Factor> {
    let step = modulus.factor(root);
    let mut all = vec![Factor { value: 0, quotient: 0 }; degree];
    let mut power = 1;
    for exponent in 0..degree {
        all[reverse(exponent, degree)] = modulus.factor(power);
        power = modulus.mul_factor(power, step);
    }
    all
}

/// `log2(length)` bits, reversed.
pub(crate) fn reverse(index: usize, length: usize) -> usize {
    index.reverse_bits() >> (usize::BITS - length.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::super::prime::primes_below;
    use super::*;
    use proptest::prelude::*;

    fn tables(bits: u32, degree: usize) -> Ntt {
        let q = primes_below(bits, 2 * degree as u64).next().unwrap();
        Ntt::new(Modulus::new(q).unwrap(), degree).unwrap()
    }

    /// `Σ a_i ψ^((2 rev(k) + 1) i)`, by Horner's rule.
    fn value_at(ntt: &Ntt, coefficients: &[u64], place: usize) -> u64 {
        let q = ntt.modulus;
        let psi = root_of_unity(&q, 2 * ntt.degree() as u64).unwrap();
        let point = q.pow(psi, 2 * reverse(place, ntt.degree()) as u64 + 1);
        coefficients.iter().rev().fold(0, |sum, a| q.add(q.mul(sum, point), *a))
    }

    #[test]
    fn forward_evaluates_at_the_roots_in_reversed_order() {
        for (bits, degree) in [(13, 2), (20, 4), (30, 16), (50, 64), (45, 256)] {
            let ntt = tables(bits, degree);
            let q = ntt.modulus.value();
            let coefficients: Vec<u64> = (0..degree as u64).map(|i| (i * i * 977 + 5).pow(2) % q).collect();
            let mut values = coefficients.clone();
            ntt.forward(&mut values);
            for (place, value) in values.iter().enumerate() {
                assert_eq!(*value, value_at(&ntt, &coefficients, place), "N = {degree}, place {place}");
            }
        }
    }

    /// All values `q - 1`, or the largest possible sums: the bounds of the lazy stages.
    #[test]
    fn extreme_values_come_back_at_every_length() {
        for log in 1..=17 {
            let degree = 1 << log;
            for bits in [log + 6, 30, 50] {
                let ntt = tables(bits, degree);
                let top = ntt.modulus.value() - 1;
                for pattern in [[top, top], [top, 0], [0, top], [1, top]] {
                    let original: Vec<u64> = (0..degree).map(|i| pattern[i % 2]).collect();
                    let mut values = original.clone();
                    ntt.forward(&mut values);
                    assert!(values.iter().all(|v| *v <= top), "not canonical");
                    ntt.inverse(&mut values);
                    assert!(values == original, "N = {degree}, {bits} bits");
                    ntt.inverse(&mut values);
                    assert!(values.iter().all(|v| *v <= top), "not canonical");
                    ntt.forward(&mut values);
                    assert!(values == original, "N = {degree}, {bits} bits, the other way");
                }
            }
        }
    }

    #[test]
    fn lengths_and_primes_that_do_not_fit_have_no_tables() {
        let q = Modulus::new(65_537).unwrap();
        assert!(Ntt::new(q, 1 << 15).is_some() && Ntt::new(q, 1 << 16).is_none());
        assert!(Ntt::new(q, 12).is_none() && Ntt::new(q, 1).is_none() && Ntt::new(q, 0).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn pointwise_products_are_negacyclic_products(seed: [u64; 64], other: [u64; 64], bits in 12u32..=50) {
            let ntt = tables(bits, 64);
            let q = ntt.modulus;
            let (a, b) = (seed.map(|x| q.reduce(x)), other.map(|x| q.reduce(x)));
            let mut schoolbook = [0u64; 64];
            for (i, x) in a.iter().enumerate() {
                for (j, y) in b.iter().enumerate() {
                    let product = q.mul(*x, *y);
                    let place = &mut schoolbook[(i + j) % 64];
                    *place = if i + j < 64 { q.add(*place, product) } else { q.sub(*place, product) };
                }
            }
            let (mut x, mut y) = (a, b);
            ntt.forward(&mut x);
            ntt.forward(&mut y);
            let mut product = std::array::from_fn(|i| q.mul(x[i], y[i]));
            ntt.inverse(&mut product);
            prop_assert!(product == schoolbook);
        }
    }
}
