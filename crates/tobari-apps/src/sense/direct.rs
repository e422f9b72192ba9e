//! Design 1: the device encrypts under the homomorphic scheme itself, and nothing has to be converted. What conversions are compared with.
//!
//! **Bitwise**, as in the paper: a ciphertext for each bit of each reading, 2,048 for 256 bytes, and the server adds bits with their weights. **Packed**, its best form: all readings in the slots of one ciphertext.
//!
//! Both with parameters of 128 bits that leave three products ([`parameters`]); the paper's are its own. A fleet encrypts under the key holder's public key. With the secret key a ciphertext is half as long, half of it being a seed, and is
//! made sooner, but then every device could read every other's: good for measurements alone, and each line that quotes one says which it was.

use tobari_core::bgv::{Ciphertext, EncodeError, Encoder, EvaluateError, Evaluator, Plaintext};
use tobari_core::params::{LatticeError, LatticeParameters, Plaintext as Scheme};
use tobari_core::ring::Modulus;
use tobari_device::READINGS;

/// Bits of a reading.
pub const BITS: usize = 8;
/// Products that ciphertexts bear.
pub const PRODUCTS: usize = 3;

/// Integers modulo 65,537 at `N = 2^13`, three products deep.
///
/// # Errors
/// None that could come about: [`LatticeError`] for numbers that are no parameters.
pub fn parameters() -> Result<LatticeParameters, LatticeError> {
    let t = Modulus::new(65_537).ok_or(LatticeError::PlaintextModulus { found: 65_537 })?;
    LatticeParameters::of_sizes(1 << 13, &[37, 35, 35, 41], &[42], 4, Scheme::Integers(t))
}

/// All readings, the first in slot 0.
///
/// # Errors
/// [`EncodeError`] for parameters without so many slots.
pub fn packed(encoder: &Encoder, readings: &[u8; READINGS]) -> Result<Plaintext, EncodeError> {
    encoder.encode(&readings.map(i64::from))
}

/// Every bit of every reading as a message of its own, the lowest first.
///
/// # Errors
/// [`EncodeError`] for parameters of another scheme.
pub fn bitwise(parameters: &LatticeParameters, readings: &[u8; READINGS]) -> Result<Vec<Plaintext>, EncodeError> {
    let bit = |place: usize| i64::from(readings[place / BITS] >> (place % BITS) & 1);
    (0..READINGS * BITS).map(|place| Plaintext::from_coefficients(parameters, &[bit(place)])).collect()
}

/// A reading from its bits, in every slot.
///
/// # Errors
/// [`EvaluateError`] for ciphertexts of other parameters.
pub fn recomposed(evaluator: &Evaluator, bits: &[Ciphertext; BITS]) -> Result<Ciphertext, EvaluateError> {
    let mut sum = bits[0].clone();
    for (weight, bit) in (1..).zip(&bits[1..]) {
        sum = evaluator.add(&sum, &evaluator.mul_scalar(bit, 1 << weight)?)?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use tobari_core::bgv::{Decryptor, Encryptor, EvaluationKeys};
    use tobari_core::rlwe::{PublicKey, SecretKey};

    #[test]
    fn both_forms_hold_the_readings_and_bear_three_products() {
        let (parameters, mut rng) = (parameters().unwrap(), ChaCha20Rng::seed_from_u64(1));
        assert!(parameters.security().is_some());
        let secret = SecretKey::generate(&parameters, &mut rng);
        let public = PublicKey::generate(&secret, &mut rng);
        let keys = EvaluationKeys::none().with_relinearization(&secret, PRODUCTS + 1, &mut rng);
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let (holder, device) = (Decryptor::new(&secret).unwrap(), Encryptor::new(&public).unwrap());
        let readings: [u8; READINGS] = std::array::from_fn(|i| (i * 37 + 255) as u8);
        let mut value = device.encrypt(&packed(&encoder, &readings).unwrap(), PRODUCTS + 1, &mut rng);
        for power in [1u32, 2, 4, 8] {
            if power > 1 {
                value = evaluator.mul_mod_switch(&value, &value, &keys).unwrap();
            }
            assert!(value.noise_budget() > 0.0, "power {power}");
            let found = encoder.decode(&holder.decrypt(&value));
            for (found, reading) in found.iter().zip(readings) {
                let expected = (0..power).fold(1, |product, _| product * i64::from(reading) % 65_537);
                assert_eq!(found.rem_euclid(65_537), expected);
            }
        }
        let bits = bitwise(&parameters, &readings).unwrap();
        assert_eq!(bits.len(), 2_048);
        for place in [0, 1, 100, 255] {
            let bits: Vec<Ciphertext> =
                bits[place * BITS..][..BITS].iter().map(|bit| device.encrypt(bit, PRODUCTS + 1, &mut rng)).collect();
            let value = recomposed(&evaluator, &bits.try_into().unwrap_or_else(|_| unreachable!("eight"))).unwrap();
            let square = evaluator.mul_mod_switch(&value, &value, &keys).unwrap();
            let expected = i64::from(readings[place]).pow(2) % 65_537;
            let found = encoder.decode(&holder.decrypt(&square));
            assert!(found.iter().all(|found| found.rem_euclid(65_537) == expected));
        }
    }
}
