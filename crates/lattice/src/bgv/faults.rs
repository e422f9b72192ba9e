//! Former faults that gave a silent wrong answer, or a panic.

use super::*;
use crate::params::{LatticeParameters, NamedSet, Plaintext as Scheme};
use crate::ring::{Modulus, Seed};
use crate::rlwe::tests::rng;
use crate::rlwe::{PublicKey, SecretKey};
use crate::wire;

#[test]
fn fault_30_factors_of_forty_bits_are_made_equal_within_the_noise_budget() {
    let parameters = NamedSet::from_name("search-40").unwrap().parameters().unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    let holder = Decryptor::new(&secret).unwrap();
    let large = 10i64.pow(11);
    let encrypt = |value, level| {
        encoder.encode(&[value]).unwrap().encrypt_seeded(holder.key(), level, &mut rng(2)).unwrap().expand()
    };
    let [a, b] = [evaluator.to_level(&encrypt(large, 4), 2).unwrap(), encrypt(7, 2)];
    assert_ne!(a.factor(), b.factor());
    let found = |sum: Ciphertext| encoder.decode(&holder.decrypt(&sum).unwrap()).unwrap()[0];
    let sum = evaluator.add(&a, &b).unwrap();
    assert!(sum.noise_budget() > 10.0, "{}", sum.noise_budget());
    assert_eq!(found(sum), large + 7);
    assert_eq!(found(evaluator.sub(&b, &a).unwrap()), 7 - large);
}

/// A modulus of several primes: the factor of a sum must stay a unit, or the message is lost.
#[test]
fn fault_30_sums_are_exact_for_a_plaintext_modulus_that_is_no_prime() {
    for t in [2, 6, 4096, 3 * 5 * 7 * 11 * 13] {
        let scheme = Scheme::Integers(Modulus::new(t).unwrap());
        let parameters = LatticeParameters::insecure_of_sizes(64, &[40; 5], &[45], 5, scheme).unwrap();
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let (evaluator, holder) = (Evaluator::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
        let encrypt = |value, level| {
            let message = Plaintext::from_coefficients(&parameters, &[value]).unwrap();
            message.encrypt_seeded(holder.key(), level, &mut rng(2)).unwrap().expand()
        };
        for level in 1..5 {
            let a = evaluator.to_level(&encrypt(1, 5), level).unwrap();
            let sum = evaluator.add(&a, &encrypt(2, level)).unwrap();
            let found = holder.decrypt(&sum).unwrap().coefficients()[0];
            assert_eq!(found.rem_euclid(t as i64), 3 % t as i64, "{t}: level {level}");
        }
    }
}

#[test]
fn fault_31_too_much_noise_is_an_error_and_less_work_decrypts() {
    let t = Scheme::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::insecure_of_sizes(64, &[40; 3], &[45], 3, t).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    // without an identity: only the phase shows that it is another key
    let other = SecretKey::from_seed(&parameters, Seed::random(&mut rng(2)));
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    let holder = Decryptor::new(&secret).unwrap();
    let message = encoder.encode(&[5, -6, 100]).unwrap();
    let x = message.encrypt_seeded(holder.key(), 3, &mut rng(3)).unwrap().expand();
    assert_eq!(holder.decrypt(&x).unwrap().coefficients(), message.coefficients());
    let failed = |holder: &Decryptor<'_>, x: &Ciphertext| holder.decrypt(x).map(|_| ());
    // the bound is checked: products until there is no room
    let mut power = evaluator.to_level(&x, 1).unwrap();
    power = evaluator.tensor(&power, &power).unwrap();
    for _ in 0..4 {
        power = evaluator.mul_integer(&power, 128).unwrap();
    }
    assert!(power.noise_budget() <= 0.0);
    assert_eq!(failed(&holder, &power), Err(DecryptError::Noise));
    // the phase is checked although the bound is small: under another key, at every level
    for level in 1..=3 {
        let low = evaluator.to_level(&x, level).unwrap();
        assert!(low.noise_budget() > 0.0 && holder.decrypt(&low).is_ok(), "level {level}");
        assert_eq!(failed(&Decryptor::new(&other).unwrap(), &low), Err(DecryptError::Noise), "level {level}");
    }
    // a forged bound, on both sides of a quarter of the modulus
    let modulus: f64 = parameters.ring().data_primes().iter().map(|q| (q.modulus().value() as f64).log2()).sum();
    for (bits, expected) in [(-2.001, Ok(())), (-1.999, Err(DecryptError::Noise)), (f64::NAN, Err(DecryptError::Noise))]
    {
        let claimed = Ciphertext::new(x.inner().clone(), x.factor(), modulus + bits);
        assert_eq!(failed(&holder, &claimed), expected, "{bits}");
    }
    // one coefficient on both sides of a quarter, whatever the bound
    let q = parameters.ring().data_primes()[0].modulus().value() as i64;
    for (part, expected) in [(0.2499, Ok(())), (0.2501, Err(DecryptError::Noise))] {
        for sign in [1.0, -1.0] {
            let mut coefficients = vec![0; 64];
            coefficients[17] = (part * sign * q as f64) as i64;
            let element = Plaintext::from_centred(evaluator.modulus(), coefficients)
                .to_element(&parameters, 1, 1, evaluator.modulus())
                .unwrap();
            let mut moved = evaluator.zero(1).unwrap();
            moved.inner.add_phase(&element);
            assert_eq!(failed(&holder, &moved), expected, "{part} {sign}");
        }
    }
    let others = LatticeParameters::insecure_of_sizes(64, &[40; 3], &[45], 2, t).unwrap();
    let foreign = SecretKey::generate(&others, &mut rng(1));
    assert_eq!(failed(&Decryptor::new(&foreign).unwrap(), &x), Err(DecryptError::Parameters));
}

/// The maker of a ciphertext can do this, as the documents say.
#[test]
fn fault_31_a_crafted_phase_stays_undetected() {
    let t = Scheme::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::insecure_of_sizes(64, &[40; 3], &[45], 3, t).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
    let x = encoder.encode(&[5]).unwrap().encrypt_seeded(holder.key(), 3, &mut rng(3)).unwrap().expand();
    // half of Q is nearly a multiple of t: the message changes, and the phase stays small
    let evaluator = Evaluator::new(&parameters).unwrap();
    let mut moved = x.clone();
    let element = Plaintext::from_centred(evaluator.modulus(), vec![1000; 64])
        .to_element(&parameters, 1, 3, evaluator.modulus())
        .unwrap();
    moved.inner.add_phase(&element);
    assert_ne!(
        encoder.decode(&holder.decrypt(&moved).unwrap()).unwrap(),
        encoder.decode(&holder.decrypt(&x).unwrap()).unwrap()
    );
}

#[test]
fn fault_33_keys_without_a_special_prime_are_an_error_and_what_needs_none_works() {
    let parameters = NamedSet::from_name("search").unwrap().parameters().unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    let none = || EvaluationKeys::new(&parameters);
    let made = [
        none().with_relinearization(&secret, 2, &mut rng(2)),
        none().with_rotation(&secret, 1, 2, &mut rng(2)),
        none().with_swap(&secret, 2, &mut rng(2)),
        none().with_expansion(&secret, 2, &mut rng(2)),
    ];
    assert!(made.iter().all(|keys| keys.as_ref().err() == Some(&KeyError::NoSpecialPrime)));
    let (encoder, holder) = (Encoder::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
    let x = encoder.encode(&[5]).unwrap().encrypt_seeded(holder.key(), 2, &mut rng(3)).unwrap().expand();
    let evaluator = Evaluator::new(&parameters).unwrap();
    let found = holder.decrypt(&evaluator.mul_integer(&x, 3).unwrap()).unwrap();
    assert_eq!(encoder.decode(&found).unwrap()[0], 15);
    // a set with a special prime: a level that does not exist
    let parameters = NamedSet::from_name("search-hidden").unwrap().parameters().unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(1));
    for found in [0, 4] {
        let refused = EvaluationKeys::new(&parameters).with_rotation(&secret, 1, found, &mut rng(2)).err();
        assert_eq!(refused, Some(KeyError::Level { most: 3, found }));
    }
}

/// Every operation on sets that decode: errors are allowed, panics are not, and decrypted results
/// are right.
#[test]
fn fault_33_no_set_that_decodes_panics() {
    let shapes: [(usize, &[u32], &[u32]); 6] = [
        (1 << 10, &[25], &[]),
        (1 << 11, &[26], &[25]),
        (1 << 11, &[17, 18], &[17]),
        (1 << 12, &[50, 17], &[37]),
        (1 << 12, &[20, 20, 20], &[20, 20]),
        (1 << 12, &[36, 35, 35], &[]),
    ];
    let moduli = [None, Some(2), Some(4), Some(6), Some(257), Some(40_961), Some(1 << 49), Some((1 << 50) - 1)];
    let mut sets = 0;
    for (degree, data, special) in shapes {
        for t in moduli {
            let scheme = t.map_or(Scheme::Approximate, |t| Scheme::Integers(Modulus::new(t).unwrap()));
            for digits in [1, data.len()] {
                let Ok(made) = LatticeParameters::of_sizes(degree, data, special, digits, scheme) else { continue };
                let parameters = wire::decode_parameters(&wire::encode_parameters(&made)).unwrap();
                match t {
                    Some(_) => exercise(&parameters),
                    None => crate::ckks::exercise(&parameters),
                }
                sets += 1;
            }
        }
    }
    assert!(sets > 60, "{sets}");
}

fn exercise(parameters: &LatticeParameters) {
    let mut rng = rng(1);
    let secret = SecretKey::generate(parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);
    let (evaluator, holder) = (Evaluator::new(parameters).unwrap(), Decryptor::new(&secret).unwrap());
    let t = evaluator.modulus().value() as i64;
    if let Ok(encoder) = Encoder::new(parameters) {
        assert_eq!(encoder.decode(&encoder.encode(&[1, i64::MIN]).unwrap()).unwrap()[0], 1 % t);
    }
    let message = Plaintext::from_coefficients(parameters, &[1, i64::MAX, i64::MIN, -1]).unwrap();
    let check = |x: &Ciphertext, factor: i64| {
        wire::decode_ciphertext(&wire::store_ciphertext(x), parameters).unwrap();
        if let Ok(found) = holder.decrypt(x) {
            let first = (found.coefficients()[0] - factor).rem_euclid(t);
            assert_eq!(first, 0, "{parameters:?} modulo {t}");
        }
    };
    let none = || EvaluationKeys::new(parameters);
    let top = parameters.data_primes();
    let keys = none()
        .with_relinearization(&secret, top, &mut rng)
        .and_then(|keys| keys.with_rotation(&secret, 1, top, &mut rng))
        .and_then(|keys| keys.with_swap(&secret, top, &mut rng));
    let keys = keys.unwrap_or_else(|error| {
        assert!(parameters.ring().special_primes().is_empty() && error == KeyError::NoSpecialPrime);
        none()
    });
    let bytes = wire::encode_evaluation_keys(&keys);
    wire::decode_evaluation_keys(&bytes, parameters).unwrap();
    for level in 1..=top {
        let x = message.encrypt(&public, level, &mut rng).unwrap();
        check(&x, 1);
        check(&evaluator.add(&x, &x).unwrap(), 2);
        check(&evaluator.neg(&x).unwrap(), -1);
        check(&evaluator.mul_integer(&x, 3).unwrap(), 3);
        check(&evaluator.add_constant(&x, i64::MIN).unwrap(), 1 + (i64::MIN % t));
        let low = evaluator.to_level(&x, 1).unwrap();
        check(&low, 1);
        check(&evaluator.add(&low, &x).unwrap(), 2);
        check(&evaluator.sub(&x, &low).unwrap(), 0);
        _ = evaluator.mul_plain(&x, &message).unwrap();
        _ = evaluator.mul(&x, &x, &keys);
        _ = evaluator.mul_mod_switch(&x, &low, &keys);
        _ = evaluator.rotate(&x, 1, &keys);
        _ = evaluator.swap_rows(&x, &keys);
        match evaluator.hoist(&x) {
            Ok(hoisted) => _ = evaluator.rotate_hoisted(&hoisted, 1, &keys),
            Err(error) => assert_eq!(error, EvaluateError::NoSpecialPrime),
        }
        for bits in [0, 10, 40, 127, 1000, u32::MAX] {
            if let Ok(flooded) = evaluator.flood(&x, &public, bits, &mut rng) {
                check(&flooded, 1);
            }
        }
        if let Ok(expansion) = Expansion::new(parameters, 5) {
            let packed =
                expansion.pack(&[1, 2, 3]).unwrap().encrypt_seeded(holder.key(), level, &mut rng).unwrap().expand();
            let made = none().with_expansion(&secret, 3, &mut rng).unwrap_or_else(|_| none());
            let mut leaf = 0;
            _ = evaluator.expand(&packed, &expansion, &made, 0..3, |_, found| {
                leaf += 1;
                check(&found, leaf);
                Ok::<(), EvaluateError>(())
            });
        }
        _ = evaluator.polynomial(&x, &[1, 2, i64::MIN, 3], &keys);
        if let Ok(sum) = evaluator.dot_prepared(&[(&x, &PreparedPlaintext::new(parameters, &message, level).unwrap())])
        {
            wire::decode_ciphertext(&wire::encode_ciphertext(&sum).unwrap(), parameters).unwrap();
        }
    }
}

/// Each of these ended the program, or used a plaintext of another modulus without notice.
#[test]
fn mistakes_of_a_caller_are_errors() {
    let of = |t| {
        let t = Scheme::Integers(Modulus::new(t).unwrap());
        LatticeParameters::insecure_of_sizes(64, &[40; 3], &[45], 3, t).unwrap()
    };
    let (parameters, others) = (of(257), of(769));
    let mut rng = rng(1);
    let secret = SecretKey::generate(&parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);
    let (evaluator, encoder) = (Evaluator::new(&parameters).unwrap(), Encoder::new(&parameters).unwrap());
    let holder = Decryptor::new(&secret).unwrap();
    let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 3, &mut rng).unwrap();
    let plaintext = encoder.encode(&[1, 2]).unwrap();
    let x = plaintext.encrypt_seeded(holder.key(), 3, &mut rng).unwrap().expand();
    for found in [0, 4, usize::MAX] {
        let level = EncodeError::Level { most: 3, found };
        assert_eq!(plaintext.encrypt_seeded(holder.key(), found, &mut rng).map(drop), Err(level.clone()));
        assert_eq!(plaintext.encrypt(&public, found, &mut rng).map(drop), Err(level.clone()));
        assert_eq!(PreparedPlaintext::new(&parameters, &plaintext, found).map(drop), Err(level.clone()));
        let diagonals = std::collections::BTreeMap::from([(1, vec![1])]);
        assert_eq!(LinearTransform::new(&parameters, &encoder, &diagonals, found).map(drop), Err(level));
        let refused = Err(EvaluateError::Level { present: 3, wanted: found });
        assert_eq!(evaluator.zero(found).map(drop), refused);
        assert_eq!(evaluator.to_level(&x, found).map(drop), refused);
    }
    assert_eq!(keys.cut(0).map(drop), Err(KeyError::Level { most: 3, found: 0 }));
    assert_eq!(keys.cut(9).unwrap().only().unwrap().level(), 3, "as much as there is");
    let depth = EvaluationKeys::new(secret.parameters()).with_expansion(&secret, 7, &mut rng).map(drop);
    assert_eq!(depth, Err(KeyError::Depth { most: 6, found: 7 }));

    // a plaintext of another modulus has other bounds
    let foreign = Encoder::new(&others).unwrap().encode(&[1, 2]).unwrap();
    let refused = EncodeError::OtherParameters { degree: 64, t: 257 };
    assert_eq!(foreign.encrypt_seeded(holder.key(), 3, &mut rng).map(drop), Err(refused.clone()));
    assert_eq!(foreign.encrypt(&public, 3, &mut rng).map(drop), Err(refused.clone()));
    assert_eq!(PreparedPlaintext::new(&parameters, &foreign, 3).map(drop), Err(refused.clone()));
    assert_eq!(encoder.decode(&foreign), Err(refused.clone()), "another modulus");
    let larger = Scheme::Integers(Modulus::new(257).unwrap());
    let larger = LatticeParameters::insecure_of_sizes(128, &[40; 3], &[45], 3, larger).unwrap();
    let of_a_larger_ring = Encoder::new(&larger).unwrap().encode(&[1; 128]).unwrap();
    assert_eq!(encoder.decode(&of_a_larger_ring), Err(refused.clone()), "another degree");
    let diagonals = std::collections::BTreeMap::from([(1, vec![1])]);
    let of_another = LinearTransform::new(&parameters, &Encoder::new(&others).unwrap(), &diagonals, 3);
    assert_eq!(of_another.map(drop), Err(refused));
    assert_eq!(evaluator.add_plain(&x, &foreign).map(drop), Err(EvaluateError::Parameters));
    assert_eq!(evaluator.mul_plain(&x, &foreign).map(drop), Err(EvaluateError::Parameters));
    let prepared = PreparedPlaintext::new(&others, &foreign, 3).unwrap();
    assert_eq!(evaluator.mul_prepared(&x, &prepared).map(drop), Err(EvaluateError::Parameters));
    let elsewhere = SecretKey::generate(&others, &mut rng);
    assert_eq!(Decryptor::new(&elsewhere).unwrap().noise(&x), Err(DecryptError::Parameters));

    // keys are checked for a rotation by no step, too
    let stranger = SecretKey::generate(&parameters, &mut rng);
    let theirs = EvaluationKeys::new(&parameters).with_relinearization(&stranger, 3, &mut rng).unwrap();
    for steps in [0, 32, 1] {
        assert!(matches!(evaluator.rotate(&x, steps, &theirs), Err(EvaluateError::OtherKey(_))), "{steps}");
        let hoisted = evaluator.hoist(&x).unwrap();
        assert!(matches!(evaluator.rotate_hoisted(&hoisted, steps, &theirs), Err(EvaluateError::OtherKey(_))));
    }
    let empty = |expected| Err(EvaluateError::Empty { expected });
    assert_eq!(evaluator.dot_prepared(&[]).map(drop), empty("a product to sum up"));
    assert_eq!(evaluator.polynomial(&x, &[], &keys).map(drop), empty("a coefficient"));
    for none in [&[][..], &[vec![]], &[vec![5]]] {
        let refused = evaluator.polynomials(&x, none, &keys).map(drop);
        assert_eq!(refused, empty("a polynomial of degree one at least"));
    }
    assert_eq!(evaluator.rotated_sum(&[&x], &[]).map(drop), empty("a ciphertext to rotate"));
    let forms = |left: &[&Ciphertext], right: &[&Ciphertext], weights: &[Vec<i64>]| {
        evaluator.bilinear_forms(&Forms { left, right, weights, divisor: 1 }, &keys).map(drop)
    };
    let sides = "ciphertexts on both sides, and a form";
    assert_eq!(forms(&[], &[&x], &[vec![1; 2]]), empty(sides));
    assert_eq!(forms(&[&x], &[], &[vec![1; 2]]), empty(sides));
    assert_eq!(forms(&[&x], &[&x], &[]), empty(sides));
    for found in [0, 3, 5] {
        let refused = Err(EvaluateError::Weights { expected: 4, found });
        assert_eq!(forms(&[&x], &[&x], &[vec![1; 4], vec![1; found]]), refused);
    }
    for weights in [vec![0; 4], vec![3, 1, 0, 0], vec![3, 1, 257, 0]] {
        let refused = forms(&[&x], &[&x], &[vec![1; 4], weights]);
        assert_eq!(refused, empty("a weight for a ciphertext on the left in each form"));
    }
}
