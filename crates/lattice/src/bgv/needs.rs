//! Parameters for a computation with integers, by its depth.
//!
//! All sizes are `log2` of canonical norms ([`norms`](crate::rlwe::norms)). A division by a prime
//! leaves a rounding of size `ρ`, so `n = ρ + 1` is the least noise that is worth dividing for. A
//! fresh ciphertext has the noise `n_0`. Before each product, up to 8 ciphertexts may be added, for
//! which there are `m = 3` bits. A product doubles the size, and a division makes it `n` again:
//!
//! ```text
//! first product:   2 (n_0 + m) - n  bits,
//! further ones:    2 (n + m) - n    bits,
//! and at the end:  n + m, the noise of rotations, and 2 bits by which noise stays below Q.
//! ```
//!
//! Sizes above 50 bits are split into several primes.

use crate::params::{DEGREES, LatticeParameters, NeedsError, Plaintext, Sizes, split};
use crate::ring::{MAX_BITS, MAX_PRIMES, Modulus, is_prime};
use crate::rlwe::norms;

/// The integers of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Integers modulo this prime, which is 1 modulo `2N`.
    Modulo(u64),
    /// Integers of at most this absolute value, results included. The modulus is the smallest prime
    /// that serves.
    UpTo(u64),
}

/// What a computation with integers needs.
///
/// ```
/// use tobari_lattice::bgv::{Integers, Needs};
/// let needs = Needs { depth: 2, integers: Integers::UpTo(1_000_000), slots: 100 };
/// let sizes = needs.sizes()?;
/// assert_eq!(sizes.plaintext_modulus, Some(2_277_377));
/// assert_eq!(sizes.parameters()?.security().map(|security| security.bits()), Some(128));
/// // 7 is no modulus with slots
/// assert!(Needs { integers: Integers::Modulo(7), ..needs }.sizes().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Products that follow each other, those with plain vectors included.
    pub depth: usize,
    /// The integers.
    pub integers: Integers,
    /// Integers of a ciphertext.
    pub slots: usize,
}

/// `m`.
const ADDITIONS: f64 = 3.0;

/// Bits for rotations of a result: each adds about as much noise as a division.
const ROTATIONS: f64 = 9.0;

impl Needs {
    /// Sizes of the smallest degree that serves.
    ///
    /// # Errors
    /// [`NeedsError`] if no ring is large enough, or the modulus does not serve.
    pub fn sizes(&self) -> Result<Sizes, NeedsError> {
        let Self { depth, slots, .. } = *self;
        let most = 1 << DEGREES.end();
        if slots > most {
            return Err(NeedsError::Slots { most, found: slots });
        }
        let mut reason = None;
        for degree in DEGREES.map(|log| 1usize << log).filter(|degree| *degree >= slots) {
            let t = match self.modulus(degree) {
                Ok(t) => t,
                Err(error) => return Err(reason.unwrap_or(error)),
            };
            reason = Some(NeedsError::TooDeep { depth });
            let Some(data) = data(degree, t, depth) else { continue };
            if let Some(found) = Sizes::fit(degree, data, Some(t)) {
                return Ok(found);
            }
        }
        Err(reason.unwrap_or(NeedsError::TooDeep { depth }))
    }

    /// `t` for this degree.
    fn modulus(&self, degree: usize) -> Result<u64, NeedsError> {
        let step = 2 * degree as u64;
        match self.integers {
            Integers::Modulo(t) if t % step == 1 && t >> MAX_BITS == 0 && is_prime(t) => Ok(t),
            Integers::Modulo(found) => Err(NeedsError::Modulus { step, slots: self.slots.max(degree), found }),
            Integers::UpTo(most) if most > 0 && most >> (MAX_BITS - 2) == 0 => {
                let first = 2 * most / step + 1;
                (first..).map(|k| k * step + 1).find(|t| is_prime(*t)).ok_or(NeedsError::TooDeep { depth: self.depth })
            }
            Integers::UpTo(found) => Err(NeedsError::Range { most: MAX_BITS - 2, found: found as f64 }),
        }
    }
}

/// Bits of the data primes.
fn data(degree: usize, t: u64, depth: usize) -> Option<Vec<u32>> {
    // the norms need the degree and the modulus alone
    let plaintext = Plaintext::Integers(Modulus::new(t)?);
    let parameters = LatticeParameters::insecure_of_sizes(degree, &[MAX_BITS], &[], 1, plaintext).ok()?;
    let fresh = norms::sum([norms::public_error(&parameters), norms::message(&parameters)]);
    let divided = norms::rounding(&parameters, 2) + 1.0;
    let last = if depth == 0 { fresh } else { divided };
    // as few bits as there are primes for
    let bits = |size: f64| split((size.ceil() as u32).max(degree.ilog2() + 8));
    let mut data = bits(last + ADDITIONS + ROTATIONS + 2.0);
    for product in (0..depth.min(MAX_PRIMES)).rev() {
        let before = if product == 0 { fresh } else { divided };
        data.extend(bits(2.0 * (before + ADDITIONS) - divided));
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
    use crate::rlwe::{PublicKey, SecretKey};
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    /// Squares of sums of eight, as often as the depth says, then rotations, with random integers.
    #[test]
    fn so_many_products_of_sums_are_right_and_have_bits_to_spare() {
        let mut rng = ChaCha20Rng::from_seed([8; 32]);
        for (depth, integers) in [
            (0, Integers::Modulo(65_537)),
            (1, Integers::Modulo(65_537)),
            (3, Integers::Modulo(65_537)),
            (2, Integers::UpTo(1 << 30)),
            (1, Integers::UpTo(1 << 47)),
        ] {
            let needs = Needs { depth, integers, slots: 100 };
            let sizes = needs.sizes().unwrap();
            let parameters = sizes.parameters().unwrap();
            let t = i128::from(sizes.plaintext_modulus.unwrap());
            let (top, secret) = (parameters.data_primes(), SecretKey::generate(&parameters, &mut rng));
            let public = PublicKey::generate(&secret, &mut rng);
            let mut keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, top, &mut rng).unwrap();
            keys.add_rotation(&secret, 1, top, &mut rng).unwrap();
            let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
            let mut expected: Vec<i128> = (0..64i128).map(|i| (i * i * 0x9E37_79B9_7F4A_7C15 + i) % t).collect();
            let values: Vec<i64> = expected.iter().map(|value| *value as i64).collect();
            let plaintext = encoder.encode(&values).unwrap();
            let mut x = plaintext.encrypt(&public, top, &mut rng).unwrap();
            for _ in 0..depth {
                let twice = evaluator.add(&x, &x).unwrap();
                let four = evaluator.add(&twice, &twice).unwrap();
                let eight = evaluator.add(&four, &four).unwrap();
                x = evaluator.mul_reduced(&eight, &eight, &keys).unwrap();
                expected.iter_mut().for_each(|value| *value = (64 * (*value * *value % t)) % t);
            }
            for _ in 0..8 {
                x = evaluator.add(&x, &evaluator.rotate(&x, 1, &keys).unwrap()).unwrap();
                let next = expected.clone();
                expected.iter_mut().zip(next.iter().skip(1)).for_each(|(value, next)| *value = (*value + *next) % t);
            }
            assert!(x.noise_budget() > 0.0, "{needs:?} {sizes}: {}", x.noise_budget());
            let holder = Decryptor::new(&secret).unwrap();
            let found = encoder.decode(&holder.decrypt(&x).unwrap()).unwrap();
            let found: Vec<i128> = found[..50].iter().map(|value| i128::from(*value).rem_euclid(t)).collect();
            assert_eq!(found, expected[..50], "{needs:?} {sizes}");
        }
    }

    #[test]
    fn needs_that_nothing_serves_are_errors_with_what_would() {
        let needs = Needs { depth: 1, integers: Integers::Modulo(65_537), slots: 1 };
        let error = |needs: Needs| needs.sizes().map(|sizes| sizes.to_string()).unwrap_err().to_string();
        assert!(error(Needs { depth: 60, ..needs }).contains("reduce the depth (now 60)"));
        assert!(error(Needs { depth: usize::MAX, ..needs }).contains("reduce the depth"));
        assert!(error(Needs { slots: 65_537, ..needs }).contains("at most 65536 slots"));
        assert!(error(Needs { slots: 65_536, ..needs }).contains("1 modulo 131072"));
        for found in [0, 7, 65_539, 65_537 * 65_537, 1 << 50, u64::MAX] {
            assert!(
                error(Needs { integers: Integers::Modulo(found), ..needs }).contains("leave the modulus out"),
                "{found}"
            );
        }
        for found in [0, 1 << 48, u64::MAX] {
            assert!(error(Needs { integers: Integers::UpTo(found), ..needs }).contains("at most 2^48"), "{found}");
        }
        // the modulus has room for both signs of the range
        for most in [1, 4096, 6144, 32_768, 1_000_000, (1 << 48) - 1] {
            let sizes = Needs { integers: Integers::UpTo(most), ..needs }.sizes().unwrap();
            assert!(sizes.plaintext_modulus.unwrap() > 2 * most, "{most}: {sizes}");
        }
    }
}
