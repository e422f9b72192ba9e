//! Evaluation keys: a set holds the requested keys only, and a rotation takes any step.

use super::{Bgv, Ckks, SMALL, head_bytes, numbers, rng, turned};
use tobari_lattice::bgv::{self, EvaluateError};
use tobari_lattice::ckks::{self, OperationError};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::wire;

/// The error for a missing key.
fn missing(purpose: &str, level: usize) -> Result<(), OperationError> {
    Err(OperationError::MissingKey { purpose: purpose.into(), level, found: None })
}

/// `OpenMined/TenSEAL#452`, `OpenMined/TenSEAL#206`: the public context held the keys of all
/// rotations, and its bytes did not fit the memory.
#[test]
fn only_the_keys_that_were_asked_for_are_written() {
    let s = Ckks::toy(&[50, 40, 40]);
    let head = head_bytes(s.secret.parameters());
    // three digits of half a key each: 64 coefficients over the primes of 50, 40, 40 and 50 bits
    let key = 4 + 1 + 32 + 3 * 64 * 180 / 8;
    let mut keys = ckks::EvaluationKeys::new(s.secret.parameters());
    for (place, step) in [1, 5, -3].into_iter().enumerate() {
        keys.add_rotation(&s.secret, step, 3, &mut rng(4)).unwrap();
        assert_eq!(wire::encode_ckks_evaluation_keys(&keys).len(), head + 3 + (place + 1) * key);
    }
    assert_eq!(keys.rotations().collect::<Vec<_>>(), [(1, 3), (5, 3), (29, 3)]);
    let read = wire::decode_ckks_evaluation_keys(&wire::encode_ckks_evaluation_keys(&keys), s.secret.parameters());
    let (read, a) = (read.unwrap(), numbers(1));
    let x = s.encrypt(&a, 40, 3);
    for step in [1, 5, -3] {
        s.assert_slots(&s.evaluator.rotate(&x, step, &read).unwrap(), &turned(&a, step), SMALL);
    }
    assert_eq!(s.evaluator.rotate(&x, 2, &read).map(drop), missing("rotation by 2", 3));
    assert_eq!(s.evaluator.conjugate(&x, &read).map(drop), missing("conjugation", 3));
    assert_eq!(s.evaluator.mul(&x, &x, &read).map(drop), missing("relinearisation", 3));
}

/// `microsoft/SEAL#285`: Galois keys for all levels of a modulus of 720 bits could not be created.
#[test]
fn a_key_of_a_low_level_has_the_size_of_that_level() {
    let s = Ckks::toy(&[50, 40, 40]);
    let head = head_bytes(s.secret.parameters());
    let a = numbers(2);
    // over the primes of 50, 40, 40 bits up to the level, and the special one of 50
    for (level, bits) in [(1, 100), (2, 140), (3, 180)] {
        let mut keys = ckks::EvaluationKeys::new(s.secret.parameters());
        keys.add_rotation(&s.secret, 1, level, &mut rng(5)).unwrap();
        let bytes = head + 3 + 4 + 1 + 32 + level * 64 * bits / 8;
        assert_eq!(wire::encode_ckks_evaluation_keys(&keys).len(), bytes, "level {level}");
        for at in 1..=3 {
            let found = s.evaluator.rotate(&s.encrypt(&a, 40, at), 1, &keys);
            if at <= level {
                s.assert_slots(&found.unwrap(), &turned(&a, 1), SMALL);
            } else {
                let (purpose, found_at) = ("rotation by 1".to_owned(), Some(level));
                let expected = OperationError::MissingKey { purpose, level: at, found: found_at };
                assert_eq!(found.map(drop), Err(expected), "level {at}");
            }
        }
    }

    let s = Bgv::toy(3);
    let head = head_bytes(s.secret.parameters());
    let keys = bgv::EvaluationKeys::new(s.secret.parameters())
        .with_rotation(&s.secret, 1, 3, &mut rng(5))
        .unwrap()
        .cut(1)
        .unwrap();
    let bytes = wire::encode_evaluation_keys(&keys).len();
    assert_eq!(bytes, head + 3 + 4 + 1 + 32 + 64 * (40 + 45) / 8);
    let a = s.values(2);
    let expected = [turned(&a[..32], 1), turned(&a[32..], 1)].concat();
    assert_eq!(s.decrypt(&s.evaluator.rotate(&s.encrypt(&a, 1), 1, &keys).unwrap()), Ok(expected));
    let refused = s.evaluator.rotate(&s.encrypt(&a, 3), 1, &keys).map(drop);
    let expected = EvaluateError::MissingKey { purpose: "rotation by 1".to_owned(), level: 3, found: Some(1) };
    assert_eq!(refused, Err(expected));
}

/// `openfheorg/openfhe-development#675`: a rotation by 0 without a key threw "map::at".
#[test]
fn a_rotation_by_nothing_needs_no_key() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, none) = (numbers(3), ckks::EvaluationKeys::new(s.secret.parameters()));
    let x = s.encrypt(&a, 40, 3);
    for step in [0, 32, -64] {
        s.assert_slots(&s.evaluator.rotate(&x, step, &none).unwrap(), &a, SMALL);
    }
    assert_eq!(s.evaluator.rotate(&x, 5, &none).map(drop), missing("rotation by 5", 3));

    let s = Bgv::toy(3);
    let (a, none) = (s.values(3), bgv::EvaluationKeys::new(s.secret.parameters()));
    let x = s.encrypt(&a, 3);
    for step in [0, 32, -64] {
        assert_eq!(s.decrypt(&s.evaluator.rotate(&x, step, &none).unwrap()), Ok(a.clone()));
    }
    let refused = s.evaluator.rotate(&x, 5, &none).map(drop);
    assert!(matches!(refused, Err(EvaluateError::MissingKey { .. })), "{refused:?}");
}

/// `google/heir#3337`: for a rotation by -512 the compiler generated the key of another step.
#[test]
fn the_key_of_a_negative_step_serves_this_step() {
    let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate).unwrap();
    let s = Ckks::of(&parameters);
    let a: Vec<f64> = (0..2048).map(|j| f64::from(j * 37 % 2039) / 1024.0 - 1.0).collect();
    let x = s.encrypt(&a, 30, 2);
    let mut keys = ckks::EvaluationKeys::new(&parameters);
    keys.add_rotation(&s.secret, -512, 2, &mut rng(6)).unwrap();
    assert_eq!(keys.rotations().collect::<Vec<_>>(), [(1536, 2)]);
    for step in [-512, 1536] {
        s.assert_slots(&s.evaluator.rotate(&x, step, &keys).unwrap(), &turned(&a, -512), 1e-3);
    }
    assert_eq!(s.evaluator.rotate(&x, 512, &keys).map(drop), missing("rotation by 512", 2));
}

/// `openfheorg/openfhe-development#1317`: extreme indices of rotations hung, or gave an unrelated
/// automorphism.
#[test]
fn every_step_is_taken_modulo_the_slots() {
    let steps = [
        (i64::MIN, 0),
        (i64::MIN + 1, 1),
        (i64::MAX, -1),
        (i64::from(i32::MIN), 0),
        (i64::from(i32::MAX), -1),
        (1 << 32, 0),
        ((1 << 32) + 1, 1),
        (65, 1),
        (-33, -1),
    ];
    let s = Ckks::toy(&[50, 40]);
    let a = numbers(4);
    let x = s.encrypt(&a, 40, 2);
    for (step, same) in steps {
        s.assert_slots(&s.evaluator.rotate(&x, step, &s.keys).unwrap(), &turned(&a, same), SMALL);
        let mut keys = ckks::EvaluationKeys::new(s.secret.parameters());
        keys.add_rotation(&s.secret, step, 2, &mut rng(7)).unwrap();
        s.assert_slots(&s.evaluator.rotate(&x, same, &keys).unwrap(), &turned(&a, same), SMALL);
    }

    let s = Bgv::toy(2);
    let a = s.values(4);
    let x = s.encrypt(&a, 2);
    for (step, same) in steps {
        let expected = [turned(&a[..32], same), turned(&a[32..], same)].concat();
        assert_eq!(s.decrypt(&s.evaluator.rotate(&x, step, &s.keys).unwrap()), Ok(expected.clone()));
        let keys =
            bgv::EvaluationKeys::new(s.secret.parameters()).with_rotation(&s.secret, step, 2, &mut rng(7)).unwrap();
        assert_eq!(s.decrypt(&s.evaluator.rotate(&x, same, &keys).unwrap()), Ok(expected));
    }
}
