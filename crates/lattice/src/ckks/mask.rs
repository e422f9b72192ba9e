//! Refreshing a ciphertext without showing its message to the key holder: a wide mask, and the step
//! from a small modulus to a larger one.
//!
//! The holder of a ciphertext of `m` adds a mask `r` with uniform coefficients in `[-2^b, 2^b)`.
//! The holder of the key decrypts `m + r`, an integer polynomial below half of the modulus, and
//! encrypts **these integers** under a larger modulus. The first party then subtracts `r` over the
//! larger modulus. Nothing is rounded. The sums with masks are taken modulo `Q`, so an evaluator
//! [without bounds](super::Evaluator::unbounded) takes them. A coefficient `c` of `m` is hidden up
//! to a statistical distance of `|c| / 2^(b + 1)`.
//!
//! # Leakage
//! Constant time; the time depends only on the number of primes.

use super::{Plaintext, Scale};
use crate::params::LatticeParameters;
use crate::ring::{Domain, Poly, Reconstruction, Seed};
use zeroize::Zeroize;

/// The number of the stream of masks within the domain.
const MASKS: u64 = 1;

impl Plaintext {
    /// The widest mask over `level` data primes that leaves as much room for the message: `b` bits
    /// with `2^(b + 2) ≤ Q`.
    pub fn mask_bits(parameters: &LatticeParameters, level: usize) -> u32 {
        let primes = &parameters.ring().data_primes()[..level.min(parameters.data_primes())];
        let bits: f64 = primes.iter().map(|prime| (prime.modulus().value() as f64).log2()).sum();
        (bits.floor() as u32).saturating_sub(2)
    }

    /// The mask of a seed over `level` data primes, with uniform coefficients in
    /// `[-2^bits, 2^bits)`. It is the same polynomial for every number of primes. None if the level
    /// does not exist, or the mask is wider than the modulus of all data primes.
    pub fn mask(parameters: &LatticeParameters, seed: &Seed, bits: u32, scale: &Scale, level: usize) -> Option<Self> {
        if !(1..=parameters.data_primes()).contains(&level) || bits > Self::mask_bits(parameters, usize::MAX) + 1 {
            return None;
        }
        let ring = parameters.ring();
        let mut stream = seed.stream(Domain::Flood, MASKS);
        let element = Poly::uniform_integers(ring, ring.basis(level), bits, &mut stream).forward();
        Some(Self::of_element(parameters, element, scale, 2f64.powi(bits as i32)))
    }

    /// The same integer polynomial over `level` data primes, with coefficients between minus and
    /// plus half of the present modulus. None if the level does not exist, if this plaintext is
    /// over special primes, too, or if it is a decryption of no message.
    pub fn lift(&self, level: usize) -> Option<Self> {
        let (parameters, found) = (self.parameters(), self.level());
        if !(1..=parameters.data_primes()).contains(&level) || self.is_diagonal() {
            return None;
        }
        let ring = parameters.ring();
        let basis = ring.basis(level);
        let (small, _) = self.checked().ok()?;
        if level <= found {
            return Some(self.as_element(self.element().restrict(basis)));
        }
        let mut large = Poly::any(ring, basis);
        for row in 0..found {
            large.row_mut(row).copy_from_slice(small.row(row));
        }
        let moduli: Vec<_> = ring.tables(basis).map(|table| *table.modulus()).collect();
        Reconstruction::new(ring, small.basis()).for_each(&small, |place, integer| {
            let negative = u64::from(integer.negative).wrapping_neg();
            for (row, q) in moduli.iter().enumerate().skip(found) {
                let word = q.add(q.reduce(u64::MAX), q.reduce(1)); // 2^64
                let absolute = integer.words.iter().rev().fold(0, |sum, next| q.add(q.mul(sum, word), q.reduce(*next)));
                large.row_mut(row)[place] = absolute ^ ((absolute ^ q.neg(absolute)) & negative);
            }
        });
        let lifted = self.as_element(large.clone().forward());
        large.zeroize();
        Some(lifted)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::{Decryptor, Encoder, Evaluator};
    use super::*;
    use crate::params::Plaintext as Kind;
    use crate::rlwe::SecretKey;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn a_masked_ciphertext_comes_back_over_more_primes_with_the_same_numbers() {
        let parameters =
            LatticeParameters::insecure_of_sizes(64, &[50, 26, 26, 26], &[50], 4, Kind::Approximate).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let (encoder, evaluator) =
            (Encoder::new(&parameters).unwrap().within(3.0), Evaluator::new(&parameters).unwrap().unbounded());
        let (scale, numbers) = (Scale::power_of_two(26), [0.5, -1.25, 3.0]);
        for (from, to) in [(1, 1), (1, 4), (2, 4), (2, 1), (3, 4)] {
            let bits = Plaintext::mask_bits(&parameters, from);
            let fresh = encoder.encode(&numbers, &scale, from).unwrap().encrypt_seeded(&secret, &mut rng).unwrap();
            let seed = Seed::random(&mut rng);
            let mask = Plaintext::mask(&parameters, &seed, bits, &scale, from).unwrap();
            let masked = evaluator.add_plain(&fresh.expand(), &mask).unwrap();
            let seen = Decryptor::new(&secret, &encoder).unwrap().plaintext(&masked).unwrap();
            let again = seen.lift(to).unwrap().encrypt_seeded(&secret, &mut rng).unwrap().expand();
            let mask = Plaintext::mask(&parameters, &seed, bits, &scale, to).unwrap();
            let unmasked =
                evaluator.neg(&evaluator.add_plain(&evaluator.neg(&again).unwrap(), &mask).unwrap()).unwrap();
            let slots = Decryptor::new(&secret, &encoder).unwrap().decrypt(&unmasked).unwrap();
            for (found, expected) in slots.iter().zip(numbers) {
                assert!((found - expected).abs() < 1e-4, "{from} {to}: {found}");
            }
        }
        assert!(Plaintext::mask(&parameters, &Seed::random(&mut rng), 3, &scale, 5).is_none());
    }
}
