//! Numbers in and out: large, tiny, negative and complex ones, and vectors of the wrong length.

use super::{Bgv, Ckks, SMALL, numbers, rng, turned, zip};
use std::collections::BTreeMap;
use tobari_lattice::bgv::{self, PreparedPlaintext};
use tobari_lattice::ckks::{self, Complex, Decryptor, OperationError, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;

/// `microsoft/SEAL#570`: a large number at a large scale threw "encoded values are too large".
#[test]
fn numbers_that_do_not_fit_the_modulus_are_refused_with_the_bound() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (large, scale) = (vec![1e4; 32], Scale::power_of_two(40));
    let refused = s.encoder.encode(&large, &scale, 1).map(drop);
    assert_eq!(refused, Err(ckks::EncodeError::TooLarge { most: 48 }));
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "expected numbers that stay below 2^48 when scaled, found larger ones");
    let refused = s.encoder.encode_constant(-1e4, &scale, 1).map(drop);
    assert_eq!(refused, Err(ckks::EncodeError::TooLarge { most: 48 }));
    let x = s.encrypt(&[0.5; 32], 40, 1);
    let refused = s.evaluator.add_constant(&x, 1e4).map(drop);
    assert_eq!(refused, Err(OperationError::Encode(ckks::EncodeError::TooLarge { most: 48 })));
    s.assert_slots(&x, &[0.5; 32], SMALL);
    // one prime more has room
    s.assert_slots(&s.encrypt(&large, 40, 2), &large, SMALL);
    let sum = s.evaluator.add_constant(&s.encrypt(&[0.5; 32], 40, 2), 1e4).unwrap();
    s.assert_slots(&sum, &[10_000.5; 32], SMALL);
}

/// `microsoft/SEAL#166`: products with plaintexts were wrong for negative slots.
#[test]
fn negative_slots_multiply_like_integers() {
    let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    let parameters = LatticeParameters::of_sizes(1 << 12, &[50, 50], &[], 2, t).unwrap();
    let s = Bgv::of(&parameters);
    let (a, b) = ([-3, 5, -150, 0, -1, 181, -181], [7, -7, -200, -9, -1, -181, -181]);
    let (x, weights) = (s.encrypt(&a, 2), s.encoder.encode(&b).unwrap());
    let prepared = PreparedPlaintext::new(&parameters, &weights, 2).unwrap();
    for product in [s.evaluator.mul_plain(&x, &weights).unwrap(), s.evaluator.mul_prepared(&x, &prepared).unwrap()] {
        let found = s.decrypt(&product).unwrap();
        assert_eq!(found[..8], [-21, -35, 30_000, 0, 1, -32_761, 32_761, 0]);
    }
    let found = s.decrypt(&s.evaluator.mul_integer(&x, -3).unwrap()).unwrap();
    assert_eq!(found[..8], [9, -15, 450, 0, 3, -543, 543, 0]);
}

/// `homenc/HElib#347`: a product with -1.0, then a third power, aborted the process.
#[test]
fn a_product_with_minus_one_has_its_third_power() {
    let s = Ckks::toy(&[50, 40, 40, 40]);
    let a = numbers(1);
    let x = s.encrypt(&a, 40, 4);
    let negative = s.evaluator.rescale(&s.evaluator.mul_constant(&x, -1.0).unwrap()).unwrap();
    assert_eq!((negative.level(), negative.scale()), (3, x.scale()));
    s.assert_slots(&negative, &zip(&a, &a, |a, _| -a), SMALL);
    for minus in [negative, s.evaluator.to_level(&s.evaluator.mul_integer(&x, -1).unwrap(), 3).unwrap()] {
        let square = s.evaluator.mul_rescale(&minus, &minus, &s.keys).unwrap();
        let low = s.evaluator.to_level(&minus, 2).unwrap();
        let cube = s.evaluator.mul_rescale(&square, &low, &s.keys).unwrap();
        s.assert_slots(&cube, &zip(&a, &a, |a, _| -a * a * a), SMALL);
    }
}

/// `homenc/HElib#291`: a constant was scaled by a shift of 32 bits, and was wrong above.
#[test]
fn constants_beyond_32_bits_are_added_exactly() {
    let s = Ckks::toy(&[50, 40, 40]);
    let a = numbers(2);
    let x = s.encrypt(&a, 40, 3);
    for bits in [30, 31, 32, 33, 40, 48] {
        for sign in [1.0, -1.0] {
            let constant = sign * 2f64.powi(bits);
            let sum = s.evaluator.add_constant(&x, constant).unwrap();
            // doubles of this size have fewer bits behind the point
            let most = SMALL + 2f64.powi(bits - 44);
            s.assert_slots(&sum, &zip(&a, &a, |a, _| a + constant), most);
            // without the constant again, the number is as precise as before
            s.assert_slots(&s.evaluator.add_constant(&sum, -constant).unwrap(), &a, SMALL);
        }
    }
    let s = Bgv::toy(1);
    let a = s.values(2);
    for constant in [1 << 31, 1 << 32, -(1 << 33), i64::MAX, i64::MIN] {
        let sum = s.evaluator.add_constant(&s.encrypt(&a, 1), constant).unwrap();
        assert_eq!(s.decrypt(&sum), Ok(s.zip(&a, &a, |a, _| a + constant % 257)), "{constant}");
    }
}

/// `microsoft/SEAL#10`, `tuneinsight/lattigo#517`: with 16 moduli and more, decoding gave NaN; with
/// more than 32, decoding panicked.
#[test]
fn numbers_over_many_primes_come_back() {
    for primes in [15, 16, 17, 32, 33, 36] {
        let (data, approximate) = (vec![50; primes], Plaintext::Approximate);
        let parameters = LatticeParameters::insecure_of_sizes(64, &data, &[50], primes, approximate).unwrap();
        let s = Ckks::of(&parameters);
        let a = numbers(3);
        for scale in [40, 300, 50 * primes as u32 - 20].map(|scale| scale.min(1000)) {
            let x = s.encrypt(&a, scale, primes);
            s.assert_slots(&x, &a, SMALL);
            let sum = s.evaluator.add(&x, &s.evaluator.rotate(&x, 1, &s.keys).unwrap()).unwrap();
            s.assert_slots(&sum, &zip(&a, &turned(&a, 1), |a, b| a + b), SMALL);
        }
        let t = Plaintext::Integers(Modulus::new(257).unwrap());
        let s = Bgv::of(&LatticeParameters::insecure_of_sizes(64, &data, &[50], primes, t).unwrap());
        let a = s.values(3);
        let x = s.encrypt(&a, primes);
        assert_eq!(s.decrypt(&x), Ok(a.clone()));
        let square = s.evaluator.mul(&x, &x, &s.keys).unwrap();
        assert_eq!(s.decrypt(&square), Ok(s.zip(&a, &a, |a, _| a * a)));
    }
}

/// `openfheorg/openfhe-development#1257`: tiny inputs were encoded as other numbers.
#[test]
fn tiny_numbers_are_zero_within_the_precision() {
    let s = Ckks::toy(&[50, 40, 40]);
    let tiny = [1e-13, -1e-13, 1e-30, -1e-300, f64::MIN_POSITIVE, f64::from_bits(1), -0.0, 0.0];
    let vector: Vec<f64> = tiny.iter().copied().cycle().take(32).collect();
    let plain = s.plain(&vector, 40, 3);
    assert_eq!(s.encoder.decode(&plain).unwrap()[..], [0.0; 32]);
    s.assert_slots(&s.encrypt(&vector, 40, 3), &vector, SMALL);
    // beside others, and at scales where a double has no bits left
    let mixed: Vec<f64> = (0..32).map(|j| if j % 2 == 0 { 0.75 } else { vector[j] }).collect();
    for scale in [40, 60, 100] {
        let found = s.encoder.decode(&s.plain(&mixed, scale, 3)).unwrap();
        let error = zip(&found, &mixed, |a, b| (a - b).abs()).into_iter().fold(0.0, f64::max);
        // 64 halves of a unit, and the rounding of doubles
        assert!(error <= 32.0 / 2f64.powi(scale as i32) + 1e-12, "scale 2^{scale}: {error:e}");
    }
    // a unit of the scale is no zero
    let unit = 2f64.powi(-40);
    assert_eq!(s.encoder.decode(&s.plain(&[unit; 32], 40, 3)).unwrap()[..], [unit; 32]);
}

fn complex(re: &[f64], im: &[f64]) -> Vec<Complex> {
    re.iter().zip(im).map(|(re, im)| Complex { re: *re, im: *im }).collect()
}

/// `openfheorg/openfhe-development#1235`, `microsoft/SEAL#668`: imaginary parts were encoded as
/// other numbers, and products with complex numbers were missing.
#[test]
fn complex_numbers_are_encrypted_and_multiply() {
    let s = Ckks::toy(&[50, 40, 40]);
    let (z, w) = (complex(&numbers(4), &numbers(5)), complex(&numbers(6), &numbers(7)));
    let decryptor = Decryptor::new(&s.secret, &s.encoder).unwrap();
    let assert_close = |found: &ckks::Ciphertext, expected: &[Complex]| {
        let found = decryptor.decrypt_complex(found).unwrap();
        assert_eq!(found.len(), expected.len());
        let error = found.iter().zip(expected).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max);
        assert!(error <= SMALL, "{error:e}");
    };
    // also beyond words of 64 bits
    for scale in [40, 63, 64, 65, 100] {
        let plain = s.encoder.within(1.5).encode_complex(&z, &Scale::power_of_two(scale), 3).unwrap();
        let x = plain.encrypt_seeded(&s.secret, &mut rng(1)).unwrap().expand();
        assert_close(&x, &z);
        s.assert_slots(&x, &numbers(4), SMALL);
    }
    let plain = s.encoder.within(1.5).encode_complex(&z, &Scale::power_of_two(40), 3).unwrap();
    let x = plain.encrypt_seeded(&s.secret, &mut rng(1)).unwrap().expand();
    let i = vec![Complex { re: 0.0, im: 1.0 }; 32];
    for factor in [i, w] {
        let factors = s.encoder.encode_complex(&factor, &Scale::prime(2), 3).unwrap();
        let product = s.evaluator.rescale(&s.evaluator.mul_plain(&x, &factors).unwrap()).unwrap();
        assert_eq!((product.level(), product.scale()), (2, x.scale()));
        let expected: Vec<Complex> = z.iter().zip(&factor).map(|(z, w)| *z * *w).collect();
        assert_close(&product, &expected);
    }
}

/// `tuneinsight/lattigo#478`: the encoding of N coefficients without slots was a panic for a small
/// plaintext modulus.
#[test]
fn all_coefficients_are_encoded_for_a_modulus_without_slots() {
    let t = Plaintext::Integers(Modulus::new(257).unwrap());
    let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[], 2, t).unwrap();
    let no_slots = bgv::Encoder::new(&parameters).map(drop);
    assert_eq!(no_slots, Err(bgv::EncodeError::NoSlots { t: 257, step: 8192 }));
    let coefficients: Vec<i64> = (0..4096).map(|j| (j * 31 + 7) % 257 - 128).collect();
    let message = bgv::Plaintext::from_coefficients(&parameters, &coefficients).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng(2));
    let holder = bgv::Decryptor::new(&secret).unwrap();
    for level in 1..=2 {
        let x = message.encrypt_seeded(holder.key(), level, &mut rng(3)).unwrap().expand();
        assert_eq!(holder.decrypt(&x).unwrap().coefficients(), coefficients, "level {level}");
    }
    let more = bgv::Plaintext::from_coefficients(&parameters, &[1; 4097]).map(drop);
    assert_eq!(more, Err(bgv::EncodeError::Length { most: 4096, found: 4097 }));
}

/// `OpenMined/TenSEAL#19`, `ibarrond/Pyfhel#177`, `OpenMined/TenSEAL#500`: a vector or a matrix of
/// more numbers than slots was refused with a text that named no number.
#[test]
fn more_numbers_than_slots_are_refused_with_both_counts() {
    let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35, 35], &[], 3, t).unwrap();
    let s = Bgv::of(&parameters);
    let refused = s.encoder.encode(&[1; 4100]).map(drop);
    assert_eq!(refused, Err(bgv::EncodeError::Length { most: 4096, found: 4100 }));
    assert_eq!(refused.unwrap_err().to_string(), "expected at most 4096 values, found 4100");
    let all: Vec<i64> = (0..4096).map(|j| j * 16 - 32_768).collect();
    assert_eq!(s.decrypt(&s.encrypt(&all, 3)), Ok(all));

    let approximate = Plaintext::Approximate;
    let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, approximate).unwrap();
    let (s, scale) = (Ckks::of(&parameters), Scale::power_of_two(30));
    for found in [2049, 4096, 192 * 784] {
        let refused = s.encoder.encode(&vec![0.5; found], &scale, 2).map(drop);
        assert_eq!(refused, Err(ckks::EncodeError::Slots { most: 2048, found }));
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, format!("expected at most 2048 numbers, found {found}"));
        let diagonals: BTreeMap<i64, Vec<f64>> = BTreeMap::from([(0, vec![0.5; found])]);
        let refused = ckks::LinearTransform::new(&s.encoder, &diagonals, &scale, 2).map(drop);
        assert_eq!(refused, Err(ckks::EncodeError::Slots { most: 2048, found }));
    }
    let all: Vec<f64> = (0..2048).map(|j| f64::from(j) / 2048.0).collect();
    s.assert_slots(&s.encrypt(&all, 30, 2), &all, 1e-4);
}
