//! Every operation with sets of parameters that decode.

use super::*;
use crate::params::LatticeParameters;
use crate::params::Plaintext as Scheme;
use crate::refresh::KeyPiece;
use crate::ring::Seed;
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

/// Arguments that no program should give are errors, or have a result that says so.
#[test]
fn mistakes_of_a_caller_are_errors() {
    let of = |degree| LatticeParameters::insecure_of_sizes(degree, &[40; 3], &[45], 3, Scheme::Approximate).unwrap();
    let (parameters, others) = (of(64), of(128));
    let mut rng = rng(1);
    let [secret, stranger] = [(); 2].map(|()| SecretKey::generate(&parameters, &mut rng));
    let public = PublicKey::generate(&secret, &mut rng);
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    let scale = Scale::power_of_two(30);
    let x = encoder.encode(&[0.5; 32], &scale, 3).unwrap().encrypt(&public, &mut rng).unwrap();
    let y = encoder.encode(&[0.5], &scale, 3).unwrap().encrypt_seeded(&stranger, &mut rng).unwrap().expand();
    let elsewhere = Evaluator::new(&others).unwrap();
    assert_eq!(elsewhere.neg(&x).map(drop), Err(OperationError::OtherParameters));
    assert!(matches!(evaluator.add(&x, &y), Err(OperationError::OtherKey(_))));
    // keys are checked for a rotation by no step, too, and a product has three parts for any step
    let keys = EvaluationKeys::new(&parameters).with_relinearization(&stranger, 3, &mut rng).unwrap();
    let product = evaluator.tensor(&y, &y).unwrap();
    for step in [0, 64, 1] {
        assert!(matches!(evaluator.rotate(&x, step, &keys), Err(OperationError::OtherKey(_))), "{step}");
        assert_eq!(evaluator.rotate(&product, step, &keys).map(drop), Err(OperationError::ThreeParts), "{step}");
        let hoisted = evaluator.hoist(&x).unwrap();
        assert!(matches!(evaluator.rotate_hoisted(&hoisted, step, &keys), Err(OperationError::OtherKey(_))));
    }
    // as wide as the modulus of all primes, and no wider: it would take as long as its width says
    let widest = Plaintext::mask_bits(&parameters, 3) + 1;
    let mask = |bits| Plaintext::mask(&parameters, &Seed::from_bytes([1; 32]), bits, &scale, 2);
    assert!(mask(widest).is_some());
    assert!([widest + 1, 1 << 20, u32::MAX].iter().all(|bits| mask(*bits).is_none()));
    let unbounded = Evaluator::new(&parameters).unwrap().unbounded();
    for bits in [200, 1 << 20, u32::MAX] {
        let refused = unbounded.flood(&x, &public, bits, &mut rng).map(drop);
        assert_eq!(refused, Err(OperationError::NoRoom { level: 3 }), "{bits}");
    }
    // a ring of fewer coefficients than the sparse secret of a refresh has
    for degree in [8, 16, 32] {
        let small = of(degree);
        let key = SecretKey::generate(&small, &mut rng);
        let refused = EvaluationKeys::new(&small).add_piece(KeyPiece::Raise, &key, 3, &mut rng);
        assert!(refused.unwrap_err().to_string().contains("a degree of at least 64"), "{degree}");
    }
    // primes and levels that no parameters have
    for index in [3, 1 << 20, usize::MAX] {
        assert_eq!(Scale::prime(index).to_f64(&parameters), None);
        assert!(encoder.encode(&[0.5], &Scale::prime(index), 3).is_err());
    }
    for [level, same] in [[0, 1], [4, 3], [usize::MAX, 3]] {
        assert_eq!(wire::words::key_bytes(&parameters, level), wire::words::key_bytes(&parameters, same));
    }
    let estimator = Estimator::new(&parameters);
    for level in [0, 1, 4, usize::MAX] {
        assert_eq!(estimator.rescale(&estimator.encode(1.0, &scale, level)).error(), f64::INFINITY, "{level}");
    }
    // a check of an input that is not there
    let incomplete = LinearCheck::new(1, vec![vec![(1, 1)]]);
    assert!(!incomplete.holds(&[&x], &[&x], 0, 1, &mut rng) && !incomplete.holds(&[], &[], 0, 1, &mut rng));
}
