//! Every operation with sets of parameters that decode.

use super::*;
use crate::params::LatticeParameters;
use crate::rlwe::tests::rng;
use crate::rlwe::{PublicKey, SecretKey};
use crate::wire;

/// Errors are allowed, panics are not.
pub(crate) fn exercise(parameters: &LatticeParameters) {
    let mut rng = rng(1);
    let secret = SecretKey::generate(parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);
    let Ok(encoder) = Encoder::new(parameters) else { return };
    let top = parameters.data_primes();
    let mut keys = EvaluationKeys::new(parameters);
    _ = keys.add_relinearization(&secret, top, &mut rng);
    _ = keys.add_rotation(&secret, 1, top, &mut rng);
    _ = keys.add_conjugation(&secret, top, &mut rng);
    wire::decode_ckks_evaluation_keys(&wire::encode_ckks_evaluation_keys(&keys), parameters).unwrap();
    let decryptor = Decryptor::new(&secret, &encoder).unwrap();
    for level in 1..=top {
        for bits in [0, 10, 20, 60, 1000] {
            let Ok(plain) = encoder.encode(&[1.0, -2.5], &Scale::power_of_two(bits), level) else { continue };
            let Ok(x) = plain.encrypt(&public, &mut rng) else { continue };
            wire::decode_ckks_ciphertext(&wire::encode_ckks_ciphertext(&x).unwrap(), parameters).unwrap();
            _ = decryptor.decrypt(&x);
            _ = decryptor.rounded(&x, 52);
            _ = decryptor.label(&x, &[0, 1]);
            let bits = x.estimate().map_or(1, Estimate::noise_bits);
            if let Ok(mut budget) = FloodBudget::new(&secret, bits, 5, 2) {
                _ = decryptor.flooded(&x, &mut budget, &mut rng);
            }
            let Ok(evaluator) = Evaluator::new(parameters) else { continue };
            _ = evaluator.add(&x, &x);
            _ = evaluator.sub(&x, &x);
            _ = evaluator.neg(&x);
            _ = evaluator.mul(&x, &x, &keys);
            _ = evaluator.mul_rescale(&x, &x, &keys);
            _ = evaluator.mul_integer(&x, i64::MIN);
            _ = evaluator.mul_constant(&x, f64::MAX);
            _ = evaluator.add_constant(&x, -0.5);
            _ = evaluator.rescale(&x);
            _ = evaluator.to_level(&x, 1);
            _ = evaluator.rotate(&x, i64::MIN, &keys);
            _ = evaluator.rotate(&x, 1, &keys);
            _ = evaluator.polynomial(&x, &[1.0, 0.5, -3.0], &keys);
            _ = evaluator.set_scale(&x, &Scale::power_of_two(bits + 3));
        }
    }
}
