//! Scales that do not match, scales without room, and constants at a scale.

use super::{Bgv, Ckks, SMALL, numbers, zip};
use tobari_lattice::ckks::{EncodeError, OperationError, Scale};
use tobari_lattice::wire;

/// The error of a sum of ciphertexts with these scales.
fn scales(left: &Scale, right: &Scale) -> Result<(), OperationError> {
    Err(OperationError::Scales { left: left.clone(), right: right.clone() })
}

/// `microsoft/SEAL#659`: a sum after a rescaling threw "scale mismatch", and both scales were
/// printed alike.
#[test]
fn scales_that_nearly_agree_are_shown_with_their_difference() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(1);
    let x = s.encrypt(&a, 40, 3);
    let square = s.evaluator.rescale(&s.evaluator.mul(&x, &x, &s.keys).unwrap()).unwrap();
    let low = s.evaluator.to_level(&x, 2).unwrap();
    let printed = |scale: &Scale| format!("{:.3}", scale.to_f64(s.secret.parameters()).unwrap().log2());
    assert_eq!((printed(square.scale()), printed(low.scale())), ("40.000".into(), "40.000".into()));
    let refused = s.evaluator.add(&square, &low).map(drop);
    assert_eq!(refused, scales(square.scale(), low.scale()));
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "expected equal scales, found 2^80 q2^-1 and 2^40");
    let same = s.evaluator.set_scale(&low, square.scale()).unwrap();
    let sum = s.evaluator.add(&s.evaluator.to_level(&square, 1).unwrap(), &same).unwrap();
    s.assert_slots(&sum, &zip(&a, &a, |a, _| a * a + a), SMALL);
}

/// `microsoft/SEAL#372`: primes of 49 bits left a scale of 31 bits, and a sum with a fresh
/// ciphertext threw.
#[test]
fn a_scale_far_from_the_fresh_one_is_refused_in_a_sum_and_can_be_adjusted() {
    let s = Ckks::toy(&[50, 49, 49]);
    let a = numbers(2);
    let x = s.encrypt(&a, 40, 3);
    let square = s.evaluator.rescale(&s.evaluator.mul(&x, &x, &s.keys).unwrap()).unwrap();
    let bits = square.scale().to_f64(s.secret.parameters()).unwrap().log2();
    assert!((bits - 31.0).abs() < 0.001, "{bits}");
    let low = s.evaluator.to_level(&x, 2).unwrap();
    assert_eq!(s.evaluator.add(&square, &low).map(drop), scales(square.scale(), low.scale()));
    assert_eq!(s.evaluator.sub(&low, &square).map(drop), scales(low.scale(), square.scale()));
    let same = s.evaluator.set_scale(&low, square.scale()).unwrap();
    let sum = s.evaluator.add(&s.evaluator.to_level(&square, 1).unwrap(), &same).unwrap();
    s.assert_slots(&sum, &zip(&a, &a, |a, _| a * a + a), 2f64.powi(-20));
}

/// `tuneinsight/lattigo#338`: a difference of different scales, written over its second operand,
/// was wrong without notice.
#[test]
fn a_difference_of_different_scales_is_refused_and_changes_no_operand() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(3), numbers(4));
    let (x, mut y) = (s.encrypt(&a, 40, 3), s.encrypt(&b, 41, 3));
    let before = wire::encode_ckks_ciphertext(&y).unwrap();
    assert_eq!(s.evaluator.sub(&x, &y).map(drop), scales(x.scale(), y.scale()));
    assert_eq!(s.evaluator.add_assign(&mut y, &x), scales(y.scale(), x.scale()));
    let weight = s.plain(&[1.0; 32], 40, 3);
    let product = x.scale().product(weight.scale()).unwrap();
    assert_eq!(s.evaluator.mul_plain_add_assign(&mut y, &x, &weight), scales(&Scale::power_of_two(41), &product));
    assert!(wire::encode_ckks_ciphertext(&y).unwrap() == before);
    s.assert_slots(&y, &b, SMALL);
    s.assert_slots(&s.evaluator.sub(&x, &s.encrypt(&b, 40, 3)).unwrap(), &zip(&a, &b, |a, b| a - b), SMALL);
}

/// `ibarrond/Pyfhel#235`, `OpenMined/TenSEAL#411`: a bias after a product threw "scale mismatch",
/// and the user did not know the scale.
#[test]
fn a_bias_is_encoded_at_the_scale_of_the_product() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, w, bias) = (numbers(5), numbers(6), numbers(7));
    let product = s.evaluator.mul_plain(&s.encrypt(&a, 40, 3), &s.plain(&w, 40, 3)).unwrap();
    let expected: Vec<f64> = (0..32).map(|j| a[j] * w[j] + bias[j]).collect();
    for product in [product.clone(), s.evaluator.rescale(&product).unwrap()] {
        let fresh = s.plain(&bias, 40, 3);
        let before = wire::encode_ckks_ciphertext(&product).unwrap();
        assert_eq!(s.evaluator.add_plain(&product, &fresh).map(drop), scales(product.scale(), fresh.scale()));
        assert!(wire::encode_ckks_ciphertext(&product).unwrap() == before);
        let fitting = s.encoder.encode(&bias, product.scale(), product.level()).unwrap();
        s.assert_slots(&s.evaluator.add_plain(&product, &fitting).unwrap(), &expected, SMALL);
    }
}

/// `microsoft/SEAL#50`: a scale as large as the modulus threw "scale out of bounds".
#[test]
fn a_scale_as_large_as_the_modulus_leaves_no_room_for_a_message() {
    let s = Ckks::toy(&[50, 40]);
    let scale = Scale::power_of_two(50);
    let large = EncodeError::TooLarge { most: 48 };
    assert_eq!(s.encoder.encode(&[1.0; 32], &scale, 1).map(drop), Err(large.clone()));
    assert_eq!(s.encoder.encode_constant(1.0, &scale, 1).map(drop), Err(large));
    let x = s.encrypt(&[1.0; 32], 50, 2);
    assert_eq!(s.evaluator.to_level(&x, 1).map(drop), Err(OperationError::NoRoom { level: 1 }));
    s.assert_slots(&x, &[1.0; 32], SMALL);
    // a scale below the modulus has room
    let low = s.evaluator.to_level(&s.encrypt(&[1.0; 32], 40, 2), 1).unwrap();
    s.assert_slots(&low, &[1.0; 32], SMALL);
}

/// `microsoft/SEAL#64`: the powers up to `x^7`, without a rescaling, threw "scale out of bounds".
#[test]
fn products_without_rescaling_end_when_the_scale_has_no_room() {
    let s = Ckks::toy(&[50, 40, 40, 40]);
    let a = numbers(8);
    let x = s.encrypt(&a, 40, 4);
    let mut power = x.clone();
    for exponent in 2..=4 {
        power = s.evaluator.mul(&power, &x, &s.keys).unwrap();
        s.assert_slots(&power, &zip(&a, &a, |a, _| a.powi(exponent)), SMALL);
    }
    let refused = s.evaluator.mul(&power, &x, &s.keys).map(drop);
    assert_eq!(refused, Err(OperationError::NoRoom { level: 4 }));
    let seventh = s.evaluator.polynomial(&x, &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], &s.keys).unwrap();
    s.assert_slots(&seventh, &zip(&a, &a, |a, _| a.powi(7)), 2f64.powi(-20));
}

/// `tuneinsight/lattigo#581`, `openfheorg/openfhe-development#1333`: a constant was added at the
/// default scale instead of the ciphertext's, after a rescaling or before one.
#[test]
fn a_constant_is_added_at_the_scale_of_its_ciphertext() {
    // the rescaled scale has 36 bits: a constant at 38 bits would be wrong by a factor of four
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(9);
    let x = s.encrypt(&a, 38, 3);
    let product = s.evaluator.mul(&x, &x, &s.keys).unwrap();
    let rescaled = s.evaluator.rescale(&product).unwrap();
    let (before, after) = (s.evaluator.add_constant(&product, 0.375), s.evaluator.add_constant(&rescaled, 0.375));
    let (before, after) = (before.unwrap(), after.unwrap());
    assert_eq!((before.scale(), after.scale()), (product.scale(), rescaled.scale()));
    let expected = zip(&a, &a, |a, _| a * a + 0.375);
    for sum in [&before, &s.evaluator.rescale(&before).unwrap(), &after] {
        s.assert_slots(sum, &expected, 2f64.powi(-27));
    }
}

/// `tuneinsight/lattigo#169`: the sum of all slots kept the scale of another ciphertext.
#[test]
fn the_sum_of_all_slots_has_the_scale_of_its_ciphertext() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(10);
    let x = s.encrypt(&a, 38, 3);
    let square = s.evaluator.mul_rescale(&x, &x, &s.keys).unwrap();
    let mut sum = square.clone();
    for step in [16, 8, 4, 2, 1] {
        sum = s.evaluator.add(&sum, &s.evaluator.rotate(&sum, step, &s.keys).unwrap()).unwrap();
    }
    assert_eq!((sum.scale(), sum.level()), (square.scale(), 2));
    let expected: f64 = a.iter().map(|a| a * a).sum();
    s.assert_slots(&sum, &[expected; 32], 2f64.powi(-20));
}

/// `tuneinsight/lattigo#467`: sums and differences of BGV ciphertexts with different factors were
/// wrong.
#[test]
fn integers_of_different_factors_have_their_sum() {
    let s = Bgv::toy(3);
    let (a, b) = (s.values(1), s.values(2));
    let x = s.evaluator.to_level(&s.encrypt(&a, 3), 2).unwrap();
    let y = s.encrypt(&b, 2);
    assert_ne!(x.factor(), y.factor());
    let mut sum = x.clone();
    s.evaluator.add_assign(&mut sum, &y).unwrap();
    assert_eq!(s.decrypt(&sum), Ok(s.zip(&a, &b, |a, b| a + b)));
    assert_eq!(s.decrypt(&s.evaluator.add(&y, &x).unwrap()), Ok(s.zip(&a, &b, |a, b| a + b)));
    assert_eq!(s.decrypt(&s.evaluator.sub(&x, &y).unwrap()), Ok(s.zip(&a, &b, |a, b| a - b)));
    assert_eq!(s.decrypt(&s.evaluator.sub(&y, &x).unwrap()), Ok(s.zip(&a, &b, |a, b| b - a)));
    // the factor of the sum also fits later products
    let product = s.evaluator.mul(&sum, &y, &s.keys).unwrap();
    assert_eq!(s.decrypt(&product), Ok(s.zip(&a, &b, |a, b| (a + b) * b)));
}
