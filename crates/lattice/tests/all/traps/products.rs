//! Products: their third part, zeros in them, and matrices.

use super::{Bgv, Ckks, SMALL, numbers, rng, turned, zip};
use std::collections::BTreeMap;
use tobari_lattice::bgv::{self, EvaluateError};
use tobari_lattice::ckks::{self, OperationError, Plaintext, Scale};
use tobari_lattice::wire::{self, LatticeWireError};

/// `microsoft/SEAL#97`, `openfheorg/openfhe-development#575`, `alan-turing-institute/SHEEP#204`:
/// the rotation of a product without relinearisation threw, failed, or gave a wrong value.
#[test]
fn a_product_of_three_parts_turns_only_after_its_relinearisation() {
    let s = Bgv::toy(3);
    let (a, b) = (s.values(1), s.values(2));
    let ab = s.zip(&a, &b, |a, b| a * b);
    let product = s.evaluator.tensor(&s.encrypt(&a, 3), &s.encrypt(&b, 3)).unwrap();
    let refused = Err(EvaluateError::NotRelinearized);
    assert_eq!(s.evaluator.rotate(&product, 1, &s.keys).map(drop), refused);
    assert_eq!(s.evaluator.hoist(&product).map(drop), refused);
    assert_eq!(s.evaluator.hoist(&product).map(drop), refused);
    assert_eq!(s.evaluator.swap_rows(&product, &s.keys).map(drop), refused);
    assert_eq!(s.decrypt(&product), Ok(ab.clone()));
    let product = s.evaluator.relinearize(&product, &s.keys).unwrap();
    let rotated = s.evaluator.rotate(&product, 1, &s.keys).unwrap();
    assert_eq!(s.decrypt(&rotated), Ok([turned(&ab[..32], 1), turned(&ab[32..], 1)].concat()));

    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(1), numbers(2));
    let ab = zip(&a, &b, |a, b| a * b);
    let product = s.evaluator.tensor(&s.encrypt(&a, 40, 3), &s.encrypt(&b, 40, 3)).unwrap();
    let refused = Err(OperationError::ThreeParts);
    assert_eq!(s.evaluator.rotate(&product, 1, &s.keys).map(drop), refused);
    assert_eq!(s.evaluator.conjugate(&product, &s.keys).map(drop), refused);
    assert_eq!(s.evaluator.hoist(&product).map(drop), refused);
    s.assert_slots(&product, &ab, SMALL);
    let product = s.evaluator.relinearize(&product, &s.keys).unwrap();
    s.assert_slots(&s.evaluator.rotate(&product, 1, &s.keys).unwrap(), &turned(&ab, 1), SMALL);
}

/// `microsoft/SEAL#351`: the sum of a relinearised product and of one in three parts threw, or
/// differed from run to run.
#[test]
fn two_parts_and_three_parts_have_a_sum() {
    let s = Bgv::toy(3);
    let (a, b) = (s.values(3), s.values(4));
    let three = s.evaluator.tensor(&s.encrypt(&a, 3), &s.encrypt(&b, 3)).unwrap();
    let two = s.evaluator.relinearize(&three, &s.keys).unwrap();
    let sums = [(&two, &three), (&three, &two)].map(|(x, y)| s.evaluator.add(x, y).unwrap());
    for sum in &sums {
        assert!(sum.needs_relinearization());
        let expected = s.zip(&a, &b, |a, b| 2 * a * b);
        assert_eq!(s.decrypt(sum), Ok(expected.clone()));
        assert_eq!(s.decrypt(&s.evaluator.relinearize(sum, &s.keys).unwrap()), Ok(expected));
    }
    assert!(
        wire::encode_ciphertext(&sums[0]).unwrap() == wire::encode_ciphertext(&sums[1]).unwrap(),
        "in either order"
    );
    for (x, y) in [(&two, &three), (&three, &two)] {
        assert_eq!(s.decrypt(&s.evaluator.sub(x, y).unwrap()), Ok(vec![0; 64]));
    }

    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(3), numbers(4));
    let three = s.evaluator.tensor(&s.encrypt(&a, 40, 3), &s.encrypt(&b, 40, 3)).unwrap();
    let two = s.evaluator.relinearize(&three, &s.keys).unwrap();
    let sums = [(&two, &three), (&three, &two)].map(|(x, y)| s.evaluator.add(x, y).unwrap());
    for sum in &sums {
        let expected = zip(&a, &b, |a, b| 2.0 * a * b);
        s.assert_slots(sum, &expected, SMALL);
        s.assert_slots(&s.evaluator.relinearize(sum, &s.keys).unwrap(), &expected, SMALL);
    }
    assert!(
        wire::encode_ckks_ciphertext(&sums[0]).unwrap() == wire::encode_ckks_ciphertext(&sums[1]).unwrap(),
        "in either order"
    );
    for (x, y) in [(&two, &three), (&three, &two)] {
        s.assert_slots(&s.evaluator.sub(x, y).unwrap(), &[0.0; 32], SMALL);
    }
}

/// `microsoft/SEAL#224`, `s0l0ist/node-seal#160`: the difference of a ciphertext and itself, or a
/// sum that starts with zero, threw "result ciphertext is transparent".
#[test]
fn a_difference_with_itself_is_zero_and_starts_a_sum() {
    let s = Bgv::toy(3);
    let (a, zeros) = (s.values(5), vec![0; 64]);
    let x = s.encrypt(&a, 3);
    let negative = s.evaluator.neg(&x).unwrap();
    for zero in [
        s.evaluator.sub(&x, &x).unwrap(),
        s.evaluator.add(&negative, &x).unwrap(),
        s.evaluator.mul_integer(&x, 0).unwrap(),
        s.evaluator.zero(3).unwrap(),
    ] {
        assert_eq!(s.decrypt(&zero), Ok(zeros.clone()));
        assert_eq!(s.decrypt(&s.evaluator.add(&zero, &x).unwrap()), Ok(a.clone()));
        assert_eq!(s.decrypt(&s.evaluator.mul(&zero, &x, &s.keys).unwrap()), Ok(zeros.clone()));
        assert_eq!(s.decrypt(&s.evaluator.rotate(&zero, 1, &s.keys).unwrap()), Ok(zeros.clone()));
        // it stays where it was computed: its bytes would hide nothing
        assert!(zero.is_transparent() && !s.evaluator.add(&zero, &x).unwrap().is_transparent());
        assert_eq!(wire::encode_ciphertext(&zero), Err(LatticeWireError::Transparent));
        let mut kept = wire::decode_ciphertext(&wire::store_ciphertext(&zero), s.secret.parameters()).unwrap();
        kept.declare_noise(zero.noise_bound());
        assert_eq!((kept.is_transparent(), s.decrypt(&kept)), (true, Ok(zeros.clone())));
        // an encryption of 0 is the remedy
        let sent = s.evaluator.add(&zero, &s.encrypt(&zeros, 3)).unwrap();
        assert!(wire::encode_ciphertext(&sent).is_ok());
    }
    // 5 is as readable as 0
    let five = s.encoder.encode(&[5; 64]).unwrap();
    let five = s.evaluator.add_plain(&s.evaluator.zero(3).unwrap(), &five).unwrap();
    assert_eq!(wire::encode_ciphertext(&five), Err(LatticeWireError::Transparent));
    assert!(!s.evaluator.mul(&x, &x, &s.keys).unwrap().is_transparent());

    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(5);
    let x = s.encrypt(&a, 40, 3);
    let negative = s.evaluator.neg(&x).unwrap();
    for zero in [
        s.evaluator.sub(&x, &x).unwrap(),
        s.evaluator.add(&negative, &x).unwrap(),
        s.evaluator.mul_integer(&x, 0).unwrap(),
    ] {
        assert_eq!(s.decrypt(&zero), [0.0; 32]);
        s.assert_slots(&s.evaluator.add(&zero, &x).unwrap(), &a, SMALL);
        s.assert_slots(&s.evaluator.mul(&zero, &x, &s.keys).unwrap(), &[0.0; 32], SMALL);
        assert!(zero.is_transparent() && !s.evaluator.add(&zero, &x).unwrap().is_transparent());
        assert_eq!(wire::encode_ckks_ciphertext(&zero), Err(LatticeWireError::Transparent));
        let kept = wire::decode_ckks_ciphertext(&wire::store_ckks_ciphertext(&zero), s.secret.parameters()).unwrap();
        assert_eq!((kept.is_transparent(), s.decrypt(&kept)), (true, vec![0.0; 32]));
    }
}

/// `microsoft/SEAL#200`: a product with 0.0046, encoded without a scale, threw "result ciphertext
/// is transparent".
#[test]
fn a_product_with_a_number_below_the_precision_is_zero() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(6);
    let x = s.encrypt(&a, 40, 3);
    let lost = s.plain(&[0.0046; 32], 0, 3);
    assert_eq!(s.encoder.decode(&lost).unwrap()[..], [0.0; 32]);
    let product = s.evaluator.mul_plain(&x, &lost).unwrap();
    assert_eq!((s.decrypt(&product), product.scale()), (vec![0.0; 32], x.scale()));
    let product = s.evaluator.mul_plain(&x, &s.plain(&[0.0046; 32], 40, 3)).unwrap();
    s.assert_slots(&product, &zip(&a, &a, |a, _| 0.0046 * a), SMALL);
}

/// A matrix by its diagonals, times a ciphertext of level 3.
fn transformed(s: &Ckks, x: &ckks::Ciphertext, diagonals: &BTreeMap<i64, Vec<f64>>) -> ckks::Ciphertext {
    let map = ckks::LinearTransform::new(&s.encoder, diagonals, &Scale::prime(2), 3).unwrap();
    let mut keys = ckks::EvaluationKeys::new(s.secret.parameters());
    map.rotations().for_each(|step| keys.add_rotation(&s.secret, step, 3, &mut rng(9)).unwrap());
    let y = s.evaluator.rescale(&s.evaluator.transform(x, &map, &keys).unwrap()).unwrap();
    assert_eq!((y.level(), y.scale()), (2, x.scale()));
    y
}

/// `OpenMined/TenSEAL#398`: the product of a vector and an identity matrix threw "result ciphertext
/// is transparent", because of its zero diagonals.
#[test]
fn zero_diagonals_of_a_matrix_are_zeros() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(7);
    let x = s.encrypt(&a, 40, 3);
    let diagonals = |first: f64| -> BTreeMap<i64, Vec<f64>> {
        (0..32).map(|step| (step, vec![if step == 0 { first } else { 0.0 }; 32])).collect()
    };
    s.assert_slots(&transformed(&s, &x, &diagonals(1.0)), &a, SMALL);
    s.assert_slots(&transformed(&s, &x, &diagonals(0.0)), &[0.0; 32], SMALL);

    let s = Bgv::toy(3);
    let a = s.values(7);
    let x = s.encrypt(&a, 3);
    for (first, expected) in [(1, a), (0, vec![0; 64])] {
        let diagonals: BTreeMap<i64, Vec<i64>> =
            (0..32).map(|step| (step, vec![if step == 0 { first } else { 0 }; 64])).collect();
        let map = bgv::LinearTransform::new(s.secret.parameters(), &s.encoder, &diagonals, 3).unwrap();
        let keys = map.rotations().fold(bgv::EvaluationKeys::new(s.secret.parameters()), |keys, step| {
            keys.with_rotation(&s.secret, step, 3, &mut rng(9)).unwrap()
        });
        assert_eq!(s.decrypt(&s.evaluator.transform(&x, &map, &keys).unwrap()), Ok(expected));
    }
}

/// `OpenMined/TenSEAL#449`: a product of matrices failed with a parameter mismatch if a matrix had
/// zeros.
#[test]
fn products_with_zero_keep_the_level_and_the_scale_of_the_others() {
    let s = Ckks::toy(&[50, 40, 40]);
    let columns: Vec<Vec<f64>> = (0..3).map(|seed| numbers(seed + 8)).collect();
    let encrypted: Vec<ckks::Ciphertext> = columns.iter().map(|column| s.encrypt(column, 40, 3)).collect();
    let mut total = None;
    let mut expected_total = vec![0.0; 32];
    for row in [[0.5, 0.0, -1.5], [0.0, 0.0, 0.0], [0.0, 0.25, 2.0]] {
        let weights: Vec<Plaintext> =
            row.iter().map(|w| s.encoder.encode_constant(*w, &Scale::prime(2), 3).unwrap()).collect();
        let pairs: Vec<_> = encrypted.iter().zip(&weights).collect();
        let y = s.evaluator.rescale(&s.evaluator.dot_plain(&pairs).unwrap()).unwrap();
        assert_eq!((y.level(), y.scale()), (2, &Scale::power_of_two(40)));
        let expected: Vec<f64> = (0..32).map(|j| (0..3).map(|i| row[i] * columns[i][j]).sum()).collect();
        s.assert_slots(&y, &expected, SMALL);
        // the same sum, product by product
        let product =
            |i: usize| s.evaluator.rescale(&s.evaluator.mul_constant(&encrypted[i], row[i]).unwrap()).unwrap();
        let sum = s.evaluator.add(&s.evaluator.add(&product(0), &product(1)).unwrap(), &product(2)).unwrap();
        s.assert_slots(&sum, &expected, SMALL);
        expected_total = zip(&expected_total, &expected, |a, b| a + b);
        total = Some(match total {
            Some(total) => s.evaluator.add(&total, &y).unwrap(),
            None => y,
        });
    }
    s.assert_slots(&total.unwrap(), &expected_total, SMALL);
}

/// `OpenMined/TenSEAL#504`: products with matrices of more rows and columns together than slots
/// were wrong without notice.
#[test]
fn matrices_of_every_shape_that_fits_the_slots_give_their_product() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(11);
    for (rows, columns) in [(32, 32), (20, 20), (17, 17), (5, 32), (32, 5), (16, 16)] {
        let entry = |j: usize, k: usize| {
            let inside = j < rows && k < columns;
            if inside { ((j * 31 + k * 17) % 23) as f64 / 23.0 - 0.5 } else { 0.0 }
        };
        let diagonal = |step: usize| (0..32).map(|j| entry(j, (j + step) % 32)).collect::<Vec<f64>>();
        let diagonals: BTreeMap<i64, Vec<f64>> = (0..32).map(|step| (step as i64, diagonal(step))).collect();
        let found = transformed(&s, &s.encrypt(&a, 40, 3), &diagonals);
        let expected: Vec<f64> = (0..32).map(|j| (0..32).map(|k| entry(j, k) * a[k]).sum()).collect();
        s.assert_slots(&found, &expected, SMALL);
    }
    let long: BTreeMap<i64, Vec<f64>> = BTreeMap::from([(0, vec![1.0; 33])]);
    let refused = ckks::LinearTransform::new(&s.encoder, &long, &Scale::prime(2), 3).map(drop);
    assert_eq!(refused, Err(ckks::EncodeError::Slots { most: 32, found: 33 }));
}

/// `OpenMined/TenSEAL#354`: the product overwrote both factors.
#[test]
fn a_product_leaves_its_factors_as_they_were() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(12), numbers(13));
    let (mut x, y) = (s.encrypt(&a, 40, 3), s.encrypt(&b, 40, 3));
    let before = [&x, &y].map(wire::encode_ckks_ciphertext);
    let product = s.evaluator.mul_rescale(&x, &y, &s.keys).unwrap();
    assert!([&x, &y].map(wire::encode_ckks_ciphertext) == before);
    x = s.evaluator.mul_rescale(&x, &y, &s.keys).unwrap();
    let ab = zip(&a, &b, |a, b| a * b);
    s.assert_slots(&product, &ab, SMALL);
    s.assert_slots(&x, &ab, SMALL);
    s.assert_slots(&y, &b, SMALL);

    let s = Bgv::toy(3);
    let (a, b) = (s.values(12), s.values(13));
    let (mut x, y) = (s.encrypt(&a, 3), s.encrypt(&b, 3));
    let before = [&x, &y].map(wire::encode_ciphertext);
    let product = s.evaluator.mul_mod_switch(&x, &y, &s.keys).unwrap();
    assert!([&x, &y].map(wire::encode_ciphertext) == before);
    x = s.evaluator.mul_mod_switch(&x, &y, &s.keys).unwrap();
    let ab = s.zip(&a, &b, |a, b| a * b);
    assert_eq!((s.decrypt(&product), s.decrypt(&x), s.decrypt(&y)), (Ok(ab.clone()), Ok(ab), Ok(b)));
}
