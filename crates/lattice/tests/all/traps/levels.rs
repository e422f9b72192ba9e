//! Levels that differ, and chains that end.

use super::{Bgv, Ckks, SMALL, head_bytes, numbers, rng, zip};
use tobari_lattice::bgv::{EvaluateError, PreparedPlaintext};
use tobari_lattice::ckks::OperationError;
use tobari_lattice::wire;

/// `microsoft/SEAL#377`, `Huelse/SEAL-Python#84`: a plaintext of the top level did not multiply a
/// ciphertext after a rescaling.
#[test]
fn a_plaintext_serves_its_level_and_all_lower_levels() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(1), numbers(2));
    let mut x = s.encrypt(&a, 40, 3);
    let square = s.evaluator.mul_rescale(&x, &x, &s.keys).unwrap();
    let product = s.evaluator.mul_plain(&square, &s.plain(&b, 30, 3)).unwrap();
    assert_eq!(product.level(), 2);
    s.assert_slots(&product, &zip(&a, &b, |a, b| a * a * b), SMALL);
    let sum = s.evaluator.add_plain(&square, &s.encoder.encode(&b, square.scale(), 3).unwrap()).unwrap();
    s.assert_slots(&sum, &zip(&a, &b, |a, b| a * a + b), SMALL);
    // a plaintext of a lower level is refused, and changes nothing
    let (low, before) = (s.plain(&b, 40, 2), wire::encode_ckks_ciphertext(&x).unwrap());
    let refused = Err(OperationError::Levels { left: 3, right: 2 });
    assert_eq!(s.evaluator.mul_plain(&x, &low).map(drop), refused);
    assert_eq!(s.evaluator.add_plain(&x, &low).map(drop), refused);
    assert_eq!(s.evaluator.mul_plain_assign(&mut x, &low), refused);
    assert!(wire::encode_ckks_ciphertext(&x).unwrap() == before);

    let s = Bgv::toy(3);
    let (a, b) = (s.values(1), s.values(2));
    let weights = s.encoder.encode(&b).unwrap();
    let prepared = |level| PreparedPlaintext::new(s.secret.parameters(), &weights, level).unwrap();
    let mut x = s.encrypt(&a, 3);
    let low = s.evaluator.to_level(&x, 2).unwrap();
    let ab = s.zip(&a, &b, |a, b| a * b);
    assert_eq!(s.decrypt(&s.evaluator.mul_prepared(&low, &prepared(3)).unwrap()), Ok(ab.clone()));
    assert_eq!(s.decrypt(&s.evaluator.mul_plain(&low, &weights).unwrap()), Ok(ab));
    assert_eq!(s.decrypt(&s.evaluator.add_plain(&low, &weights).unwrap()), Ok(s.zip(&a, &b, |a, b| a + b)));
    let before = wire::encode_ciphertext(&x).unwrap();
    let refused = Err(EvaluateError::Level { present: 2, wanted: 3 });
    assert_eq!(s.evaluator.mul_prepared(&x, &prepared(2)).map(drop), refused);
    assert_eq!(s.evaluator.mul_prepared_assign(&mut x, &prepared(2)), refused);
    assert!(wire::encode_ciphertext(&x).unwrap() == before);
}

/// `ibarrond/Pyfhel#269`: a sum failed with "parameter mismatch", although levels and scales were
/// printed alike.
#[test]
fn ciphertexts_of_different_levels_are_aligned_or_refused_by_number() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(3), numbers(4));
    let (x, y) = (s.encrypt(&a, 40, 3), s.encrypt(&b, 40, 2));
    assert_eq!(x.scale(), y.scale());
    for (left, right) in [(&x, &y), (&y, &x)] {
        let sum = s.evaluator.add(left, right).unwrap();
        assert_eq!((sum.level(), sum.scale()), (2, x.scale()));
        s.assert_slots(&sum, &zip(&a, &b, |a, b| a + b), SMALL);
        let product = s.evaluator.tensor(left, right).unwrap();
        assert_eq!(product.level(), 2);
        s.assert_slots(&product, &zip(&a, &b, |a, b| a * b), SMALL);
        let mut sum = left.clone();
        s.evaluator.add_assign(&mut sum, right).unwrap();
        s.assert_slots(&sum, &zip(&a, &b, |a, b| a + b), SMALL);
    }
    s.assert_slots(&s.evaluator.sub(&x, &y).unwrap(), &zip(&a, &b, |a, b| a - b), SMALL);
    s.assert_slots(&s.evaluator.sub(&y, &x).unwrap(), &zip(&a, &b, |a, b| b - a), SMALL);
    // a plaintext of a lower level is not a ciphertext's matter
    let low = s.encoder.encode(&b, y.scale(), 2).unwrap();
    let refused = s.evaluator.add_plain(&x, &low).map(drop);
    assert_eq!(refused, Err(OperationError::Levels { left: 3, right: 2 }));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "expected one level, found 3 and 2: take the ciphertext to the lower one"
    );

    let s = Bgv::toy(3);
    let (a, b) = (s.values(3), s.values(4));
    let (x, y) = (s.encrypt(&a, 3), s.encrypt(&b, 2));
    for (found, expected) in [
        (s.evaluator.add(&x, &y), s.zip(&a, &b, |a, b| a + b)),
        (s.evaluator.sub(&y, &x), s.zip(&a, &b, |a, b| b - a)),
        (s.evaluator.mul(&x, &y, &s.keys), s.zip(&a, &b, |a, b| a * b)),
    ] {
        let found = found.unwrap();
        assert_eq!((s.decrypt(&found), found.level()), (Ok(expected), 2));
    }
}

/// `OpenMined/TenSEAL#205`: a larger scale gave no further product, and the third threw "scale out
/// of bounds".
#[test]
fn a_larger_scale_gives_no_further_product() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(5);
    for (scale, products, level) in [(40, 2, 1), (45, 1, 2), (60, 1, 2), (65, 0, 3)] {
        let (mut power, mut expected) = (s.encrypt(&a, scale, 3), a.clone());
        for _ in 0..products {
            power = s.evaluator.mul_rescale(&power, &power, &s.keys).unwrap();
            expected = zip(&expected, &expected, |a, b| a * b);
            s.assert_slots(&power, &expected, SMALL);
        }
        assert_eq!(power.level(), level, "scale 2^{scale}");
        let refused = s.evaluator.mul_rescale(&power, &power, &s.keys).map(drop);
        assert_eq!(refused, Err(OperationError::NoRoom { level }), "scale 2^{scale}");
        s.assert_slots(&power, &expected, SMALL);
    }
}

/// `OpenMined/TenSEAL#78`: five products, where the chain had room for two, crashed.
#[test]
fn products_beyond_the_last_prime_are_refused_with_the_missing_level() {
    // the scale of a third product still fits the first prime
    let s = Ckks::toy(&[50, 24, 24]);
    let a = numbers(6);
    let (mut power, mut expected) = (s.encrypt(&a, 24, 3), a);
    for level in [2, 1] {
        power = s.evaluator.mul_rescale(&power, &power, &s.keys).unwrap();
        expected = zip(&expected, &expected, |a, b| a * b);
        assert_eq!(power.level(), level);
        s.assert_slots(&power, &expected, 2f64.powi(-12));
    }
    let refused = Err(OperationError::Exhausted { least: 2, found: 1 });
    for _ in 2..5 {
        assert_eq!(s.evaluator.mul_rescale(&power, &power, &s.keys).map(drop), refused);
    }
    assert_eq!(s.evaluator.rescale(&power).map(drop), refused);
    assert_eq!(s.evaluator.mul_constant(&power, 0.5).map(drop), refused);
    assert_eq!(s.evaluator.polynomial(&power, &[0.0, 1.0], &s.keys).map(drop), refused);
    s.assert_slots(&power, &expected, 2f64.powi(-12));
}

/// `microsoft/SEAL#423`: a ciphertext with a seed had to be encrypted at the top level, and grew
/// when its level was lowered.
#[test]
fn encryption_at_a_lower_level_has_the_bytes_of_that_level() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(7);
    let seeded = |level| s.plain(&a, 40, level).encrypt_seeded(&s.secret, &mut rng(3)).unwrap();
    // elements of 64 coefficients over the primes of 50, 40 and 40 bits
    let element = |level: usize| 64 * [50, 90, 130][level - 1] / 8;
    let head = head_bytes(s.secret.parameters());
    for level in 1..=3 {
        let fresh = seeded(level);
        assert_eq!(wire::encode_ckks_seeded_ciphertext(&fresh).len(), head + 1 + 4 * 8 + 32 + element(level));
        let switched = s.evaluator.to_level(&seeded(3).expand(), level).unwrap();
        assert_eq!(wire::encode_ckks_ciphertext(&switched).unwrap().len(), head + 2 + 4 * 8 + 2 * element(level));
        assert_eq!((fresh.level(), switched.level()), (level, level));
        s.assert_slots(&fresh.expand(), &a, SMALL);
        s.assert_slots(&switched, &a, SMALL);
    }
}
