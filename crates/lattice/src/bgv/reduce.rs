//! Products that choose their level.
//!
//! A product has twice the noise bits of its factors, so it pays to divide them by primes first.
//! Let `n` be the noise of a factor, `ρ` that of a rounding, and `b` the bits of the last prime.
//! With a division first, the product's noise is `2 max(n - b, ρ)` and not `2 n`, below a modulus
//! with `b` bits less. So **a division pays if `n - ρ > b / 2`**, all in bits.

use super::ciphertext::Ciphertext;
use super::evaluate::{EvaluateError, Evaluator};
use super::keys::EvaluationKeys;
use crate::rlwe::norms;
use std::borrow::Cow;

/// Bits that a division leaves to a ciphertext that perhaps nobody multiplies again.
const SPARE: f64 = 12.0;

impl Evaluator {
    /// The same message at the level that is best for a product.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn reduced<'a>(&self, a: &'a Ciphertext) -> Result<Cow<'a, Ciphertext>, EvaluateError> {
        let mut level = a.level();
        let mut norm = a.noise_bound();
        while let Some(divided) = self.pays(norm, level, a.inner().parts().len()) {
            (norm, level) = (divided, level - 1);
        }
        Ok(if level == a.level() { Cow::Borrowed(a) } else { Cow::Owned(self.to_level(a, level)?) })
    }

    /// `a b`, in two parts, with factors and product at the levels that are best for further
    /// products.
    ///
    /// # Errors
    /// As [`Self::mul`].
    pub fn mul_reduced(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        let product = self.tensor(self.reduced(a)?.as_ref(), self.reduced(b)?.as_ref())?;
        let divided = self.pays(product.noise_bound(), product.level(), 2);
        let spare = |norm: f64| self.modulus_bits(product.level() - 1) - 2.0 - norm >= SPARE;
        match divided.is_some_and(spare) {
            true => self.relinearize_mod_switch(&product, keys),
            false => self.relinearize(&product, keys),
        }
    }

    /// `a^exponent` in every slot, `⌈log2 exponent⌉` products deep.
    ///
    /// # Errors
    /// As [`Self::mul`], and [`EvaluateError::Empty`] for an exponent of 0.
    pub fn power(&self, a: &Ciphertext, exponent: u32, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        if exponent == 0 {
            return Err(EvaluateError::Empty { expected: "an exponent of at least 1" });
        }
        // a^(2^i), as long as they are needed; the lowest ones are multiplied first
        let (mut square, mut product, mut left) = (a.clone(), None::<Ciphertext>, exponent);
        loop {
            if left % 2 == 1 {
                product = Some(match product {
                    Some(product) => self.mul_reduced(&product, &square, keys)?,
                    None => square.clone(),
                });
            }
            left /= 2;
            match product {
                Some(product) if left == 0 => return Ok(product),
                _ => square = self.mul_reduced(&square, &square, keys)?,
            }
        }
    }

    /// The noise after a division by the last prime, if it pays.
    fn pays(&self, norm: f64, level: usize, parts: usize) -> Option<f64> {
        if level < 2 || !norm.is_finite() {
            return None;
        }
        let bits = (self.parameters().ring().data_primes()[level - 1].modulus().value() as f64).log2();
        let rounding = norms::rounding(self.parameters(), parts);
        (norm - rounding > bits / 2.0).then(|| norms::sum([norm - bits, rounding]))
    }

    /// `log2 Q` of a level.
    fn modulus_bits(&self, level: usize) -> f64 {
        let primes = &self.parameters().ring().data_primes()[..level];
        primes.iter().map(|prime| (prime.modulus().value() as f64).log2()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Decryptor, Encoder};
    use super::*;
    use crate::params::NamedSet;
    use crate::rlwe::SecretKey;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn powers_are_right_and_as_deep_as_they_must_be() {
        let parameters = NamedSet::from_name("bgv-c").unwrap().parameters().unwrap();
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let (secret, top) = (SecretKey::generate(&parameters, &mut rng), parameters.data_primes());
        let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, top, &mut rng).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let holder = Decryptor::new(&secret).unwrap();
        let x = encoder.encode(&[3, -2, 0, 1]).unwrap().encrypt_seeded(holder.key(), top, &mut rng).unwrap().expand();
        for exponent in [1u32, 2, 3, 4, 5, 6, 7, 8, 15, 16, 31] {
            let power = evaluator.power(&x, exponent, &keys).unwrap();
            let found = encoder.decode(&holder.decrypt(&power).unwrap()).unwrap();
            let expected = [3i128, -2, 0, 1].map(|x| x.pow(exponent).rem_euclid(65_537));
            assert_eq!([0, 1, 2, 3].map(|i| i128::from(found[i]).rem_euclid(65_537)), expected, "{exponent}");
            // one division for each product but the last, which may wait
            let depth = exponent.next_power_of_two().ilog2() as usize;
            assert!((top - depth..=top).contains(&power.level()), "{exponent}: {}", power.level());
        }
        let zero = evaluator.power(&x, 0, &keys).err();
        assert_eq!(zero, Some(EvaluateError::Empty { expected: "an exponent of at least 1" }));
        assert!(evaluator.power(&x, 2, &EvaluationKeys::new(&parameters)).is_err());
    }

    /// Without divisions, the third product has more noise than the modulus has bits.
    #[test]
    fn divisions_happen_where_they_pay_and_not_where_nothing_is_known() {
        let parameters = NamedSet::from_name("bgv-c").unwrap().parameters().unwrap();
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let (secret, top) = (SecretKey::generate(&parameters, &mut rng), parameters.data_primes());
        let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, top, &mut rng).unwrap();
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let holder = Decryptor::new(&secret).unwrap();
        let x = encoder.encode(&[2]).unwrap().encrypt_seeded(holder.key(), top, &mut rng).unwrap().expand();
        assert_eq!(evaluator.reduced(&x).unwrap().level(), top, "a fresh ciphertext");
        let mut unknown =
            crate::wire::decode_ciphertext(&crate::wire::encode_ciphertext(&x).unwrap(), &parameters).unwrap();
        assert_eq!(evaluator.mul_reduced(&unknown, &unknown, &keys).unwrap().level(), top, "unknown noise");
        unknown.declare_noise(250.0);
        let reduced = evaluator.reduced(&unknown).unwrap();
        assert!(reduced.level() == 2 && reduced.noise_bound() < 60.0, "{} {}", reduced.level(), reduced.noise_bound());
        let [mut plain, mut best] = [x.clone(), x];
        for product in 0..4 {
            plain = evaluator.mul(&plain, &plain, &keys).unwrap();
            best = evaluator.mul_reduced(&best, &best, &keys).unwrap();
            // a division that nobody needs later costs at most half a prime
            let lost = plain.noise_budget() - best.noise_budget();
            assert!(best.noise_budget() > 0.0 && lost < 26.0, "{product}: {lost}");
        }
        assert!(plain.noise_budget() < 0.0);
        assert_eq!(encoder.decode(&holder.decrypt(&best).unwrap()).unwrap()[0], 65_536 - 65_537, "2^16");
    }
}
