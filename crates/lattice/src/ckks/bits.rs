//! Numbers that are 0 or 1 but for their errors.

use super::ciphertext::Ciphertext;
use super::error::OperationError;
use super::evaluator::Evaluator;
use super::keys::EvaluationKeys;
use super::precision::Estimate;

/// The largest error of a bit that can be cleaned. From about 0.3 on errors grow.
const LARGEST: f64 = 0.25;

impl Evaluator {
    /// The same bits with far smaller errors, at a scale far larger: one level lower, and the scale
    /// is the fifth power of the old one over `q²`, with the last prime `q`. With an error `e` of
    /// bits, that of the result is about `35 e⁴`, and the roundings of the circuit at the large
    /// scale. The keys need the relinearisation.
    ///
    /// It is `h(x) = x⁴ (35 - 84 x + 70 x² - 20 x³)`, the polynomial of degree 7 with the values 0
    /// and 1 at 0 and 1, and three derivatives that are 0 there. As `h(1 - x) = 1 - h(x)`, both
    /// bits have the same bound,
    ///
    /// ```text
    /// |h(b + e) - b| ≤ e⁴ (35 + 84 |e| + 70 e² + 20 |e|³).
    /// ```
    ///
    /// **That the numbers are bits is your promise**; nothing can check it under encryption.
    ///
    /// # Errors
    /// [`OperationError::Bits`] for numbers that may be larger than 1, or errors above 1/4, and
    /// those of [`Self::mul`]: the modulus must have room for the large scale.
    pub fn clean_bits(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        let [magnitude, wide, ..] = self.bounds(a)?.bounds();
        let error = self.bounds(a)?.error();
        let bits = magnitude + wide <= 1.0 && error <= LARGEST;
        if !bits {
            return Err(OperationError::Bits { magnitude: magnitude + wide, error });
        }
        // what the circuit adds at any numbers of this size
        let mut x = a.clone();
        let scale = self.bounds(a)?.scale();
        x.declare_estimate(&Estimate::of_bounds([1.0 + error, 0.0, 0.0, 0.0], scale, a.level()))?;
        let square = self.mul(&x, &x, keys)?;
        let fourth = self.rescale(&self.mul(&square, &square, keys)?)?;
        let high = self.mul(&square, &self.add_constant(&self.mul_integer(&x, -20)?, 70.0)?, keys)?;
        let low = self.add_constant(&self.mul_constant_at(&x, -84.0, square.scale())?, 35.0)?;
        let factor = self.rescale(&self.add(&high, &low)?)?;
        let mut result = self.mul(&fourth, &factor, keys)?;
        let left = error.powi(4) * (35.0 + 84.0 * error + 70.0 * error.powi(2) + 20.0 * error.powi(3));
        let own = self.bounds(&result)?;
        // the constants are integers, exact if the scale is one
        let primes = self.parameters().data_primes();
        let exact = a.scale().exponents(primes).all(|exponent| exponent >= 0);
        let constants = if exact { 0.0 } else { 4.0 / scale };
        let noise = own.noise() + constants + left;
        // decoding has errors of doubles
        let [.., encoding, _] = self.estimator().constant(1.0, result.scale(), result.level()).bounds();
        result.declare_estimate(&Estimate::of_bounds([1.0, 0.0, encoding, noise], own.scale(), own.level()))?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Encoder, Scale};
    use super::*;
    use crate::params::{LatticeParameters, Plaintext};
    use crate::rlwe::SecretKey;
    use crate::rlwe::tests::rng;

    #[test]
    fn bits_of_every_error_are_cleaned_and_no_others() {
        let data = [41, 33, 33, 33, 33, 33, 33, 41];
        let kind = Plaintext::Approximate;
        let parameters = LatticeParameters::insecure_of_sizes(256, &data, &[42; 3], 3, kind).unwrap();
        let mut rng = rng(1);
        let secret = SecretKey::generate(&parameters, &mut rng);
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, 8, &mut rng).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let encoder = encoder.within(1.25);
        let bit = |j: usize| f64::from(u8::from(j * j % 7 < 3));
        for most in [0.249, 0.1, 0.01, 1e-4, 1e-6, 0.0] {
            let error = |j: usize| most * ((j * 37 % 128) as f64 / 63.5 - 1.0);
            let near: Vec<f64> = (0..128).map(|j| bit(j) + error(j)).collect();
            let plaintext = encoder.encode(&near, &Scale::prime(0), 8).unwrap();
            let mut x = plaintext.encrypt_seeded(&secret, &mut rng).unwrap().expand();
            let of = *x.estimate().unwrap();
            let declare = |magnitude, error| Estimate::of_bounds([magnitude, 0.0, 0.0, error], of.scale(), 8);
            x.declare_estimate(&declare(1.0, of.error() + most)).unwrap();
            let y = evaluator.clean_bits(&x, &keys).unwrap();
            assert_eq!(y.level(), 7);
            let found = Decryptor::new(&secret, &encoder).unwrap().decrypt(&y).unwrap();
            let worst = found.iter().enumerate().map(|(j, y)| (y - bit(j)).abs()).fold(0.0, f64::max);
            let bound = y.estimate().unwrap();
            assert!(worst <= bound.error() && bound.magnitude() <= 1.0, "{most}: {worst:e} > {:e}", bound.error());
            assert!(bound.noise() <= 75.0 * f64::powi(most + 2e-9, 4) + 2f64.powi(-58), "{most}: {bound:?}");
            for (magnitude, error) in [(1.01, 0.0), (1.0, 0.26), (f64::INFINITY, 0.0), (1.0, f64::NAN)] {
                x.declare_estimate(&declare(magnitude, error)).unwrap();
                let refused = evaluator.clean_bits(&x, &keys).map(drop).unwrap_err();
                assert!(matches!(refused, OperationError::Bits { .. }), "{refused}");
            }
        }
    }
}
