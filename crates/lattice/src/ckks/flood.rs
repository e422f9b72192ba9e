//! Noise of a server that hides how a result was computed.

use super::ciphertext::Ciphertext;
use super::error::OperationError;
use super::evaluator::Evaluator;
use super::precision::Estimate;
use crate::ring::{Coeff, Domain, Poly, Seed};
use crate::rlwe::{KeyId, PublicKey, norms};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

impl Evaluator {
    /// The same numbers with fresh randomness, and an error that hides the old one from the holder
    /// of the key. It adds an encryption of zero, and a polynomial with coefficients in `[-2^bits,
    /// 2^bits)`, each a sum of three uniform numbers. **It hides inputs of the server; it does not
    /// make results safe to show to others** ([`FloodBudget`](super::FloodBudget) does).
    ///
    /// The result is within [`flood_distance`](crate::rlwe::flood_distance) of `b` of being
    /// independent of the old error, in statistical distance over all coefficients together, where
    /// the Euclidean norm of the old error's coefficients is below `2^b`. [`Estimate::error`] times
    /// the scale bounds it, because it bounds the canonical norm. Its part [`Estimate::noise`]
    /// leaves out how factors of the server were rounded, which may tell something of them. **The
    /// bound holds for honestly made ciphertexts**: an attacker without a key can make one with any
    /// phase.
    ///
    /// Slots are sums of all `N` coefficients, and so the result's slots have errors of up to
    /// `N 2^bits` over the scale, which [`Estimate::error`] counts. Sums of slots whose message has
    /// few coefficients may have much smaller ones.
    ///
    /// # Errors
    /// [`OperationError::Overflow`] if the noise would not fit the modulus, or
    /// [`OperationError::NoRoom`] without bounds; for a product before
    /// relinearisation, a public key of other parameters or another secret, and for a ciphertext
    /// without bounds.
    pub fn flood(
        &self,
        a: &Ciphertext,
        public: &PublicKey,
        bits: u32,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        super::evaluator::check_two_parts(a)?;
        if public.parameters() != self.parameters() {
            return Err(OperationError::OtherParameters);
        }
        KeyId::joined([a.key(), public.id()])?;
        let [magnitude, wide, encoding, noise] = self.bounds(a)?.bounds();
        let scale = self.bounds(a)?.scale();
        let fresh = norms::public_error(self.parameters()).exp2() / scale;
        let flood = f64::from(bits).exp2() / scale;
        let after = [magnitude, wide + flood, encoding, noise + fresh];
        // a slot is a sum of all coefficients
        let slots = self.bounds(a)?.flood() + self.parameters().degree() as f64 * flood;
        let estimate = self.admit(Estimate::of_bounds(after, scale, a.level()).with_flood(slots))?;
        // without bounds, too
        if bits > super::Plaintext::mask_bits(self.parameters(), a.level()) + 1 {
            return Err(OperationError::NoRoom { level: a.level() });
        }
        let mut out = a.clone();
        out.inner_mut().add_assign(&public.encrypt_zero(a.level(), rng));
        let mut stream = Seed::random(rng).stream(Domain::Flood, 0);
        let ring = self.parameters().ring();
        let flood = Poly::<Coeff>::spline_integers(ring, ring.basis(a.level()), bits, &mut stream);
        out.inner_mut().add_phase(&Zeroizing::new(flood.forward()));
        out.declare_estimate(&estimate)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Encoder, Scale};
    use super::*;
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::{rng, toy};

    /// The holder of the key sees the error. Two inputs that differ by a number far below the flood
    /// cannot be told apart, and without the flood they can.
    #[test]
    fn a_flooded_error_tells_nothing_and_coefficients_stay_within_the_bound() {
        let (parameters, mut rng) = (toy(None), rng(5));
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let holder = Decryptor::new(&secret, &encoder).unwrap();
        let scale = Scale::power_of_two(60);
        let error = 2f64.powi(-40);
        // a number in all slots is one coefficient, and the average of the slots shows it
        let average = |x: &Ciphertext| holder.decrypt(x).unwrap().iter().sum::<f64>() / 32.0;
        let turns = 2_000;
        let mut seen = [0.0; 2];
        for (kind, seen) in seen.iter_mut().enumerate() {
            for _ in 0..turns {
                let plaintext = encoder.encode_constant(error * kind as f64, &scale, 3).unwrap();
                let x = plaintext.encrypt(&public, &mut rng).unwrap();
                assert!((average(&x) - error * kind as f64).abs() < error / 8.0, "it shows without a flood");
                let y = evaluator.flood(&x, &public, 50, &mut rng).unwrap();
                assert_ne!(y.inner().parts()[1].values(), x.inner().parts()[1].values());
                let found = average(&y);
                assert!(found.abs() < 2f64.powi(-9));
                // a fair coin, whatever the input is
                *seen += f64::from(u8::from(found > 0.0));
            }
        }
        for heads in seen {
            assert!((heads - f64::from(turns) / 2.0).abs() < 5.0 * (f64::from(turns) / 4.0).sqrt(), "{seen:?}");
        }
    }

    #[test]
    fn the_error_of_a_flood_stays_within_the_bound_in_whatever_is_computed_with_it() {
        let (parameters, mut rng) = (toy(None), rng(7));
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let encoder = Encoder::new(&parameters).unwrap();
        let evaluator = Evaluator::new(&parameters).unwrap();
        let keys = super::super::EvaluationKeys::new(&parameters).with_relinearization(&secret, 4, &mut rng).unwrap();
        let keys = keys.with_rotation(&secret, 1, 4, &mut rng).unwrap();
        let holder = Decryptor::new(&secret, &encoder).unwrap();
        let numbers: Vec<f64> = (0..32).map(|j| f64::from(j) / 16.0 - 1.0).collect();
        let turned = |j: usize| numbers[(j + 1) % 32];
        for bits in [20, 30, 35] {
            let plaintext = encoder.encode(&numbers, &Scale::power_of_two(40), 4).unwrap();
            let x = plaintext.encrypt(&public, &mut rng).unwrap();
            let y = evaluator.flood(&x, &public, bits, &mut rng).unwrap();
            let twice = evaluator.flood(&y, &public, bits, &mut rng).unwrap();
            let sum = evaluator.add(&y, &twice).unwrap();
            let read = {
                let bytes = crate::wire::encode_ckks_ciphertext(&sum).unwrap();
                let mut read = crate::wire::decode_ckks_ciphertext(&bytes, &parameters).unwrap();
                read.set_bounds(&sum.bounds_to_bytes()).unwrap();
                read
            };
            let product = evaluator.mul_rescale(&sum, &y, &keys).unwrap();
            for (what, found, expected) in [
                ("flooded", &y, &(|j: usize| numbers[j]) as &dyn Fn(usize) -> f64),
                ("twice", &twice, &|j| numbers[j]),
                ("a sum", &sum, &|j| 2.0 * numbers[j]),
                ("kept", &read, &|j| 2.0 * numbers[j]),
                ("rotated", &evaluator.rotate(&y, 1, &keys).unwrap(), &turned),
                ("times -3", &evaluator.mul_integer(&y, -3).unwrap(), &|j| -3.0 * numbers[j]),
                ("lower", &evaluator.to_level(&y, 2).unwrap(), &|j| numbers[j]),
                ("a product", &product, &|j| 2.0 * numbers[j] * numbers[j]),
            ] {
                let slots = holder.decrypt(found).unwrap();
                let error = (0..32).map(|j| (slots[j] - expected(j)).abs()).fold(0.0, f64::max);
                let bound = found.estimate().unwrap().error();
                assert!(error <= bound, "{bits} bits, {what}: {error:e} > {bound:e}");
                // with the flood, and not far above it
                assert!(error > bound / 2000.0, "{bits} bits, {what}: {error:e}, {bound:e}");
            }
            // the flood hides noise: it is no noise that a budget must hide
            assert!(y.estimate().unwrap().noise_bits() <= x.estimate().unwrap().noise_bits() + 2);
        }
    }

    #[test]
    fn floods_that_do_not_fit_and_keys_of_others_are_refused() {
        let (parameters, mut rng) = (toy(None), rng(6));
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let plaintext = encoder.encode(&[1.0], &Scale::power_of_two(30), 2).unwrap();
        let mut x = plaintext.encrypt(&public, &mut rng).unwrap();
        let room = (x.estimate().unwrap().scale() * evaluator.estimator().most(x.estimate().unwrap())).log2() as u32;
        assert!(evaluator.flood(&x, &public, room - 1, &mut rng).is_ok());
        let refused = evaluator.flood(&x, &public, room + 1, &mut rng).map(drop).unwrap_err();
        assert!(matches!(refused, OperationError::Overflow { .. }), "{refused}");
        let stranger = PublicKey::generate(&SecretKey::generate(&parameters, &mut rng), &mut rng);
        let refused = evaluator.flood(&x, &stranger, 20, &mut rng).map(drop).unwrap_err();
        assert!(matches!(refused, OperationError::OtherKey(_)), "{refused}");
        x.set_estimate(None);
        assert_eq!(evaluator.flood(&x, &public, 20, &mut rng).map(drop), Err(OperationError::NoEstimate));
    }
}
