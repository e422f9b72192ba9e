//! Noise beyond the modulus: an error, never another message.

use super::{Bgv, Ckks, SMALL, head_bytes, numbers, rng, turned, zip};
use tobari_lattice::bgv::{Ciphertext, DecryptError, Decryptor, EvaluateError, Evaluator, Plaintext};
use tobari_lattice::ckks::OperationError;
use tobari_lattice::params::{LatticeParameters, Plaintext as Scheme};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

fn integers(t: u64) -> Scheme {
    Scheme::Integers(Modulus::new(t).unwrap())
}

/// `OpenMined/TenSEAL#187`, `ibarrond/Pyfhel#44`: the third power, without budget, decrypted to a
/// wrong number.
#[test]
fn a_third_power_without_room_is_an_error() {
    let s = Bgv::toy(1);
    let a = s.values(1);
    let x = s.encrypt(&a, 1);
    let square = s.evaluator.mul(&x, &x, &s.keys).unwrap();
    assert_eq!(s.decrypt(&square), Ok(s.zip(&a, &a, |a, _| a * a)));
    let cube = s.evaluator.mul(&square, &x, &s.keys).unwrap();
    assert!(cube.noise_budget() <= 0.0);
    assert_eq!(s.decrypt(&cube), Err(DecryptError::Noise));
    // with one prime more
    let s = Bgv::toy(2);
    let x = s.encrypt(&a, 2);
    let cube = s.evaluator.mul(&s.evaluator.mul(&x, &x, &s.keys).unwrap(), &x, &s.keys).unwrap();
    assert_eq!(s.decrypt(&cube), Ok(s.zip(&a, &a, |a, _| a * a * a)));
}

/// `homenc/HElib#285`, `homenc/HElib#279`: too many products for the primes gave a warning, and
/// then garbage.
#[test]
fn products_are_right_until_there_is_no_budget_and_errors_from_then_on() {
    for primes in 1..=4 {
        let s = Bgv::toy(primes);
        let a = s.values(2);
        let x = s.encrypt(&a, primes);
        let (mut power, mut expected) = (x.clone(), a.clone());
        let mut right = 0;
        for exponent in 1..=12 {
            let budget = power.noise_budget() > 0.0;
            if budget {
                assert_eq!(s.decrypt(&power), Ok(expected.clone()), "{primes} primes, exponent {exponent}");
                assert_eq!(right, exponent - 1, "the budget does not come back");
                right = exponent;
            } else {
                assert_eq!(s.decrypt(&power), Err(DecryptError::Noise), "{primes} primes, exponent {exponent}");
            }
            power = s.evaluator.mul(&power, &x, &s.keys).unwrap();
            expected = s.zip(&expected, &a, |a, b| a * b);
        }
        // a power takes about 15 bits of 40 for each prime
        assert!(right >= 2 * primes && right < 12, "{primes} primes: {right} powers");
    }
}

/// `microsoft/SEAL#742`: the noise overflowed the modulus, the measured budget was positive, and
/// the message was another.
#[test]
fn noise_that_overflows_the_modulus_is_an_error() {
    let s = Bgv::toy(1);
    let a = s.values(3);
    let (mut x, mut expected) = (s.encrypt(&a, 1), a);
    let holder = Decryptor::new(&s.secret).unwrap();
    let public = s.public();
    let (mut failures, mut small_again) = (0, 0);
    for doublings in 0..120 {
        let found = s.decrypt(&x);
        if x.noise_budget() > 0.0 {
            assert_eq!((found, failures), (Ok(expected.clone()), 0), "{doublings} doublings");
        } else {
            assert_eq!(found, Err(DecryptError::Noise), "{doublings} doublings");
            failures += 1;
            // 2^40 is near the prime: after 40 doublings the phase is small again. It looks
            // right, and the message is another.
            if doublings > 30 && holder.noise(&x).unwrap() < 36.0 {
                small_again += 1;
                let measured = holder.decrypt_measured(&x).map(|message| s.encoder.decode(&message).unwrap());
                assert!(measured.is_ok_and(|measured| measured != expected), "{doublings} doublings");
            }
            // a server that hides its computation refuses here, so no such result leaves it
            let hidden = s.evaluator.flood(&x, &public, 10, &mut *s.rng.borrow_mut());
            assert_eq!(hidden.map(drop), Err(EvaluateError::Flooding { most: 0, found: 10 }), "{doublings}");
        }
        x = s.evaluator.add(&x, &x).unwrap();
        expected = s.zip(&expected, &expected, |a, b| a + b);
    }
    assert!(failures > 80 && failures < 110 && small_again > 0, "{failures} errors, {small_again} small phases");
}

/// `homenc/HElib#524`: a check of the noise believed a field of the ciphertext that anybody could
/// overwrite. Four changed bytes said that there were bits to spare, and another message came out.
#[test]
fn a_forged_bound_on_the_noise_makes_no_message() {
    let s = Bgv::toy(1);
    let a = s.values(4);
    let fresh = s.encrypt(&a, 1);
    let holder = Decryptor::new(&s.secret).unwrap();
    // the bound is the field after level, parts and factor
    let at = head_bytes(s.secret.parameters()) + 2 + 8;
    let forged = |ciphertext: &Ciphertext, bound: u32| {
        let mut bytes = wire::encode_ciphertext(ciphertext).unwrap();
        bytes[at..at + 4].copy_from_slice(&bound.to_be_bytes());
        wire::decode_ciphertext(&bytes, s.secret.parameters()).unwrap()
    };
    // a phase that wrapped around the modulus and is small again
    let (mut wrapped, mut expected, mut doublings) = (fresh.clone(), a.clone(), 0);
    while doublings <= 30 || holder.noise(&wrapped).unwrap() > 36.0 {
        wrapped = s.evaluator.add(&wrapped, &wrapped).unwrap();
        expected = s.zip(&expected, &expected, |a, b| a + b);
        doublings += 1;
    }
    let found = holder.decrypt_measured(&wrapped).map(|message| s.encoder.decode(&message).unwrap());
    assert!(found.is_ok_and(|found| found != expected), "another message");
    for bound in [0, 1, 20 * 1024, u32::MAX] {
        let mut claimed = forged(&wrapped, bound);
        assert_eq!(claimed.claimed_noise(), f64::from(bound) / 1024.0);
        assert_eq!(claimed.noise_budget(), f64::NEG_INFINITY, "no bit to spare");
        assert_eq!(s.decrypt(&claimed), Err(DecryptError::NoBound), "bound {bound}");
        let sum = s.evaluator.add(&claimed, &fresh).unwrap();
        assert_eq!(s.decrypt(&sum), Err(DecryptError::NoBound), "bound {bound}");
        // what the reader knows of the computation counts alone
        claimed.declare_noise(wrapped.noise_bound());
        assert_eq!(s.decrypt(&claimed), Err(DecryptError::Noise), "bound {bound}");
        let mut good = forged(&fresh, bound);
        good.declare_fresh();
        assert_eq!(s.decrypt(&good), Ok(a.clone()), "bound {bound}");
    }
}

/// `microsoft/SEAL#684`: a circuit deeper than the chain was sometimes right and sometimes random.
#[test]
fn a_circuit_deeper_than_the_chain_is_an_error_in_both_schemes() {
    let s = Bgv::toy(3);
    let a = s.values(5);
    let (mut power, mut expected) = (s.encrypt(&a, 3), a);
    for level in [2, 1] {
        power = s.evaluator.mul_mod_switch(&power, &power, &s.keys).unwrap();
        expected = s.zip(&expected, &expected, |a, b| a * b);
        assert_eq!((power.level(), s.decrypt(&power)), (level, Ok(expected.clone())));
    }
    let refused = s.evaluator.mul_mod_switch(&power, &power, &s.keys).map(drop);
    assert_eq!(refused, Err(EvaluateError::Level { present: 1, wanted: 0 }));
    for _ in 0..4 {
        power = s.evaluator.mul(&power, &power, &s.keys).unwrap();
    }
    assert_eq!(s.decrypt(&power), Err(DecryptError::Noise));

    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(5);
    let (mut power, mut expected) = (s.encrypt(&a, 40, 3), a);
    for _ in 0..2 {
        power = s.evaluator.mul_rescale(&power, &power, &s.keys).unwrap();
        expected = zip(&expected, &expected, |a, b| a * b);
        s.assert_slots(&power, &expected, SMALL);
    }
    let refused = s.evaluator.mul_rescale(&power, &power, &s.keys).map(drop);
    assert_eq!(refused, Err(OperationError::NoRoom { level: 1 }));
    let refused = s.evaluator.rescale(&power).map(drop);
    assert_eq!(refused, Err(OperationError::Exhausted { least: 2, found: 1 }));
    s.assert_slots(&power, &expected, SMALL);
}

/// `microsoft/SEAL#307`: products with plaintexts of 2048 numbers modulo 1,032,193 were right only
/// sometimes.
#[test]
fn a_plaintext_product_without_room_is_an_error() {
    let t = 1_032_193;
    let parameters = LatticeParameters::of_sizes(1 << 11, &[50], &[], 1, integers(t)).unwrap();
    let s = Bgv::of(&parameters);
    let public = s.public();
    let holder = Decryptor::new(&s.secret).unwrap();
    for seed in 0..8 {
        let values =
            |seed: i64| (0..2048).map(|j| (j * j * 7919 + seed * 104_729 + j) % t as i64).collect::<Vec<i64>>();
        let (a, b) = (values(seed), values(seed + 100));
        let (message, weights) = (s.encoder.encode(&a).unwrap(), s.encoder.encode(&b).unwrap());
        let expected = s.zip(&a, &b, |a, b| a * b);
        for x in [s.encrypt(&a, 1), message.encrypt(&public, 1, &mut rng(seed as u8)).unwrap()] {
            assert_eq!(s.decrypt(&x), Ok(s.zip(&a, &a, |a, _| a)));
            let product = s.evaluator.mul_plain(&x, &weights).unwrap();
            assert_eq!(s.decrypt(&product), Err(DecryptError::Noise));
            match holder.decrypt_measured(&product) {
                Ok(found) => assert_eq!(s.encoder.decode(&found).unwrap(), expected, "seed {seed}"),
                Err(error) => assert_eq!(error, DecryptError::Noise),
            }
        }
    }
}

/// `microsoft/SEAL#367`: with 1024 coefficients, a modulus of 27 bits and 20 bits of plaintext, a
/// fresh ciphertext decrypted to garbage.
#[test]
fn a_fresh_ciphertext_without_room_is_an_error() {
    let parameters = LatticeParameters::of_sizes(1 << 10, &[26], &[], 1, integers(1_032_193)).unwrap();
    let s = Bgv::of(&parameters);
    let public = s.public();
    let a: Vec<i64> = (0..1024).map(|j| j * 997 - 509_000).collect();
    let message = s.encoder.encode(&a).unwrap();
    let encrypted = message.encrypt(&public, 1, &mut rng(1)).unwrap();
    assert_eq!(s.decrypt(&encrypted), Err(DecryptError::Noise));
    assert_eq!(Decryptor::new(&s.secret).unwrap().decrypt_measured(&encrypted).map(drop), Err(DecryptError::Noise));
    assert_eq!(s.decrypt(&s.encrypt(&a, 1)), Err(DecryptError::Noise));
}

/// `homenc/HElib#148`: a shift by one slot, repeated for all slots, gave garbage, and the rotation
/// did not.
#[test]
fn repeated_shifts_are_right_until_there_is_no_budget() {
    let s = Bgv::toy(3);
    let a = s.values(6);
    // a row without its last slot
    let mask: Vec<i64> = (0..64).map(|j| i64::from(j % 32 != 31)).collect();
    let plain = s.encoder.encode(&mask).unwrap();
    let rows = |a: &[i64], step| [turned(&a[..32], step), turned(&a[32..], step)].concat();
    let (mut shifted, mut rotated, mut expected, mut right) = (s.encrypt(&a, 3), s.encrypt(&a, 3), a.clone(), 0);
    for step in 1..=32 {
        rotated = s.evaluator.rotate(&rotated, 1, &s.keys).unwrap();
        assert_eq!(s.decrypt(&rotated), Ok(rows(&a, step)), "rotation by {step}");
        shifted = s.evaluator.mul_plain(&s.evaluator.rotate(&shifted, 1, &s.keys).unwrap(), &plain).unwrap();
        expected = s.zip(&rows(&expected, 1), &mask, |a, m| a * m);
        if shifted.noise_budget() > 0.0 {
            assert_eq!((s.decrypt(&shifted), right), (Ok(expected.clone()), step - 1), "shift by {step}");
            right = step;
        } else {
            assert_eq!(s.decrypt(&shifted), Err(DecryptError::Noise), "shift by {step}");
        }
    }
    assert!((4..32).contains(&right), "{right} shifts");
}

/// `openfheorg/openfhe-development#111`: polynomials of degree 48 and 64 were wrong, because the
/// parameters had too little room.
#[test]
fn polynomials_of_high_degree_are_right_or_an_error() {
    for degree in [48usize, 64] {
        let coefficients: Vec<i64> = (0..=degree as i64).map(|k| (k * 7 + 3) % 257 - 128).collect();
        let mut right = Vec::new();
        for primes in [2, 4, 6, 8, 10] {
            let s = Bgv::toy(primes);
            let a = s.values(7);
            let found = s.evaluator.polynomial(&s.encrypt(&a, primes), &coefficients, &s.keys).unwrap();
            let value = |a: i64| coefficients.iter().rev().fold(0, |sum, c| (sum * a + c) % 257);
            let expected = s.zip(&a, &a, |a, _| value(a));
            match s.decrypt(&found) {
                Ok(found) => {
                    assert_eq!(found, expected, "degree {degree}, {primes} primes");
                    right.push(primes);
                }
                Err(error) => assert_eq!(error, DecryptError::Noise, "degree {degree}, {primes} primes"),
            }
        }
        assert!(right.contains(&10) && !right.contains(&2), "degree {degree}: right with {right:?} primes");
    }
}

/// `openfheorg/openfhe-development#714`: for a single set of parameters, results were wrong.
#[test]
fn whatever_the_parameters_results_are_right_or_an_error() {
    let shapes: [&[u32]; 6] = [&[20, 20], &[30, 30, 30], &[50], &[50, 50], &[33, 47], &[25, 50, 40]];
    let moduli = [2, 3, 4, 6, 257, 1000, 65_537, 786_433, 1 << 20, (1 << 40) + 1, 1 << 49];
    let (mut right, mut failures) = (0, 0);
    for data in shapes {
        for t in moduli {
            let parameters = LatticeParameters::insecure_of_sizes(64, data, &[], 1, integers(t)).unwrap();
            let secret = SecretKey::generate(&parameters, &mut rng(1));
            let (evaluator, holder) = (Evaluator::new(&parameters).unwrap(), Decryptor::new(&secret).unwrap());
            let message = Plaintext::from_coefficients(&parameters, &[3, -4, 5]).unwrap();
            for level in 1..=data.len() {
                let x = message.encrypt_seeded(holder.key(), level, &mut rng(2)).unwrap().expand();
                let low = evaluator.to_level(&x, 1).unwrap();
                for (found, expected) in [
                    (x.clone(), [3, -4, 5, 0, 0]),
                    (evaluator.add(&x, &low).unwrap(), [6, -8, 10, 0, 0]),
                    (evaluator.mul_integer(&x, -1).unwrap(), [-3, 4, -5, 0, 0]),
                    (evaluator.tensor(&x, &x).unwrap(), [9, -24, 46, -40, 25]),
                    (evaluator.tensor(&x, &low).unwrap(), [9, -24, 46, -40, 25]),
                    (low, [3, -4, 5, 0, 0]),
                ] {
                    match holder.decrypt(&found) {
                        Ok(found) => {
                            let differs = |(found, wanted): (&i64, &i64)| (found - wanted).rem_euclid(t as i64) != 0;
                            let wrong = found.coefficients().iter().zip(&expected).any(differs);
                            assert!(!wrong && found.coefficients()[5..].iter().all(|c| *c == 0), "{parameters:?}, {t}");
                            right += 1;
                        }
                        Err(error) => {
                            assert_eq!(error, DecryptError::Noise);
                            failures += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(right > 200 && failures > 100, "{right} right, {failures} errors");
}
