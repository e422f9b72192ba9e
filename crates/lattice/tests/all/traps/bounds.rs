//! Numbers that grow beyond the modulus, and ciphertexts of two keys.

use super::{Ckks, numbers, rng};
use tobari_lattice::ckks::{Decryptor, EncodeError, Encoder, OperationError, ReleaseError, Scale};
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::{ckks, wire};

#[track_caller]
fn assert_overflow(found: Result<ckks::Ciphertext, OperationError>, at: usize) {
    match found.map(drop) {
        Err(OperationError::Overflow { level, magnitude, error, most }) => {
            assert!(level == at && magnitude + error > most, "{level}: {magnitude} {error} {most}");
        }
        other => panic!("expected an overflow at level {at}, found {other:?}"),
    }
}

/// `google/heir#1823`: a product larger than the room above the scale came back as 1e-10. Three
/// more such circuits: a product by an integer, a square, and sums.
#[test]
fn numbers_that_would_leave_the_modulus_are_refused() {
    let s = Ckks::of(&NamedSet::from_name("ckks-a").unwrap().parameters().unwrap());
    let all = |number: f64| vec![number; 8192];
    // level 1 has 50 bits, 30 of them for the scale
    assert_overflow(s.evaluator.mul_integer(&s.encrypt(&all(1.5), 30, 1), 1 << 25), 1);
    let x = s.encrypt(&all(1_000.0), 30, 2);
    assert_overflow(s.evaluator.mul(&x, &x, &s.keys), 2);
    assert_overflow(s.evaluator.mul_rescale(&x, &x, &s.keys), 2);
    assert_overflow(s.evaluator.tensor(&x, &x), 2);
    let mut x = s.encrypt(&all(65_536.0), 30, 1);
    for expected in [131_072.0, 262_144.0] {
        let twice = x.clone();
        s.evaluator.add_assign(&mut x, &twice).unwrap();
        s.assert_slots(&x, &all(expected), 0.01);
    }
    let twice = x.clone();
    assert_overflow(s.evaluator.add(&x, &twice), 1);
    let mut sum = x.clone();
    s.evaluator.add_assign(&mut sum, &twice).unwrap_err();
    assert!(
        wire::encode_ckks_ciphertext(&sum).unwrap() == wire::encode_ckks_ciphertext(&x).unwrap(),
        "what was refused changes nothing"
    );
    // 7 · 8, where it fits and where it does not
    let product = |level: usize| {
        let [x, y] = [7.0, 8.0].map(|number| s.encrypt(&all(number), 30, level));
        s.evaluator.mul_rescale(&x, &y, &s.keys)
    };
    s.assert_slots(&product(2).unwrap(), &all(56.0), 0.01);
    let s = Ckks::toy(&[40, 36, 36]);
    let [x, y] = [7.0, 8.0].map(|number| s.encrypt(&[number; 32], 36, 2));
    assert_overflow(s.evaluator.mul_rescale(&x, &y, &s.keys), 2);
}

/// `microsoft/SEAL#252`, `OpenMined/TenSEAL#453`, `homenc/HElib#450`: ciphertexts of two keys were
/// mixed, or a new key was made, and decryption gave numbers.
#[test]
fn what_belongs_to_another_key_does_not_decrypt() {
    let parameters = NamedSet::from_name("infer-f").unwrap().parameters().unwrap();
    let (s, mut rng) = (Ckks::of(&parameters), rng(9));
    // without an identity: only the phase shows that it is another key
    let other = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let encoder = Encoder::new(&parameters).unwrap();
    let refused = |secret: &SecretKey, ciphertext: &ckks::Ciphertext| {
        let decryptor = Decryptor::new(secret, &encoder).unwrap();
        let no_message = Err(ReleaseError::NoMessage);
        assert_eq!(decryptor.decrypt(ciphertext).map(drop), no_message);
        assert_eq!(decryptor.rounded(ciphertext, 2).map(drop), no_message);
        assert_eq!(decryptor.label(ciphertext, &[0, 1]).map(drop), no_message);
        let plaintext = decryptor.plaintext(ciphertext).unwrap();
        assert_eq!(encoder.decode(&plaintext).map(drop), Err(EncodeError::NoMessage));
        assert!(plaintext.lift(5).is_none() && plaintext.lift(1).is_none());
        // also if nothing is known about the numbers
        let bytes = wire::encode_ckks_ciphertext(ciphertext).unwrap();
        let read = wire::decode_ckks_ciphertext(&bytes, &parameters).unwrap();
        assert_eq!(decryptor.decrypt(&read).map(drop), no_message);
    };
    for level in 1..=5 {
        let mine = s.encrypt(&numbers(1), 26, level);
        refused(&other, &mine);
        let plain = encoder.encode(&numbers(2), &Scale::power_of_two(26), level).unwrap();
        let theirs = plain.encrypt_seeded(&other, &mut rng).unwrap().expand();
        let sum = s.evaluator.add(&mine, &theirs).unwrap();
        refused(&s.secret, &sum);
        refused(&other, &sum);
        // keys of one for the ciphertexts of the other
        if level > 1 {
            let square = s.evaluator.mul_rescale(&theirs, &theirs, &s.keys).unwrap();
            refused(&s.secret, &square);
            refused(&other, &square);
            let turned = s.evaluator.rotate(&theirs, 1, &s.keys).unwrap();
            refused(&s.secret, &turned);
            refused(&other, &turned);
        }
    }
}
