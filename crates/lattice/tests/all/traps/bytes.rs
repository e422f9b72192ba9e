//! Bytes that are damaged, hostile, of another object, or of another version.

use super::{Bgv, Ckks, SMALL, head_bytes, numbers, rng, zip};
use tobari_lattice::ckks::OperationError;
use tobari_lattice::params::{LatticeError, LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::{Modulus, RingError};
use tobari_lattice::rlwe::PublicKey;
use tobari_lattice::wire::{self, LatticeKind, LatticeWireError, words};
use tobari_lattice::{bgv, ckks};
use tobari_octets::LengthError;

/// These bytes with others from a place on.
fn with(bytes: &[u8], at: usize, others: &[u8]) -> Vec<u8> {
    [&bytes[..at], others, &bytes[at + others.len()..]].concat()
}

/// `homenc/HElib#526`: a ciphertext with a damaged field aborted the process.
#[test]
fn a_ciphertext_with_a_damaged_field_is_refused_by_the_name_of_the_field() {
    let s = Bgv::toy(2);
    let (a, parameters) = (s.values(1), s.secret.parameters());
    let bytes = wire::encode_ciphertext(&s.encrypt(&a, 2)).unwrap();
    let head = head_bytes(parameters);
    let (factor, row) = (head + 2, 64 * 40 / 8);
    let cases: [(usize, &[u8], &str); 8] = [
        (head, &[0], "level"),
        (head, &[3], "level"),
        (head + 1, &[1], "number of parts"),
        (head + 1, &[4], "number of parts"),
        (factor, &0u64.to_be_bytes(), "factor"),
        (factor, &257u64.to_be_bytes(), "factor"),
        (factor, &u64::MAX.to_be_bytes(), "factor"),
        (bytes.len() - row, &[0xff; 5], "residue"),
    ];
    for (at, others, what) in cases {
        let read = wire::decode_ciphertext(&with(&bytes, at, others), parameters).map(drop);
        assert_eq!(read, Err(LatticeWireError::Malformed(what)), "{others:?} at {at}");
    }
    let mut read = wire::decode_ciphertext(&bytes, parameters).unwrap();
    read.declare_fresh();
    assert_eq!(s.decrypt(&read), Ok(a));

    let s = Ckks::toy(&[50, 40]);
    let (a, parameters) = (numbers(1), s.secret.parameters());
    let bytes = wire::encode_ckks_ciphertext(&s.encrypt(&a, 40, 2)).unwrap();
    let head = head_bytes(parameters);
    let cases: [(usize, &[u8], &str); 6] = [
        (head, &[0], "level"),
        (head + 1, &[5], "number of parts"),
        (head + 2, &(-1i64).to_be_bytes(), "scale"),
        (head + 2, &i64::MAX.to_be_bytes(), "scale"),
        (head + 10, &i64::MIN.to_be_bytes(), "scale"),
        (bytes.len() - 5, &[0xff; 5], "residue"),
    ];
    for (at, others, what) in cases {
        let read = wire::decode_ckks_ciphertext(&with(&bytes, at, others), parameters).map(drop);
        assert_eq!(read, Err(LatticeWireError::Malformed(what)), "{others:?} at {at}");
    }
    s.assert_slots(&wire::decode_ckks_ciphertext(&bytes, parameters).unwrap(), &a, SMALL);
}

/// `homenc/HElib#527`: a flipped bit in the parameters aborted the process in an inversion.
#[test]
fn a_flipped_bit_in_parameters_is_an_error_or_other_parameters() {
    let parameters = NamedSet::from_name("search").unwrap().parameters().unwrap();
    let bytes = wire::encode_parameters(&parameters);
    let primes = bytes.len() - 2 * 7;
    let mut refused = 0;
    for bit in 0..8 * bytes.len() {
        let changed = with(&bytes, bit / 8, &[bytes[bit / 8] ^ 1 << (bit % 8)]);
        match wire::decode_parameters(&changed) {
            Ok(read) => assert!(wire::encode_parameters(&read) == changed, "bit {bit}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 8 * bytes.len() / 2, "{refused}");
    // a prime that is no longer 1 modulo 2N
    for prime in 0..2 {
        let value = parameters.ring().data_primes()[prime].modulus().value();
        for bit in 0..13 {
            let value = value ^ 1 << bit;
            let changed = with(&bytes, primes + 7 * prime, &value.to_be_bytes()[1..]);
            let read = wire::decode_parameters(&changed).map(drop);
            let expected = LatticeError::Ring(RingError::Prime { value, step: 8192 });
            assert_eq!(read, Err(LatticeWireError::Lattice(expected)), "prime {prime}, bit {bit}");
        }
    }
}

/// `homenc/HElib#529`, `tfhe/tfhe#272`: truncated keys and parameters aborted or crashed.
#[test]
fn truncated_keys_and_parameters_are_refused_at_every_length() {
    let s = Bgv::toy(2);
    let parameters = s.secret.parameters();
    let keys = bgv::EvaluationKeys::new(s.secret.parameters()).with_relinearization(&s.secret, 2, &mut rng(1)).unwrap();
    let keys = wire::encode_evaluation_keys(&keys);
    let public = wire::encode_ring_public_key(&s.public());
    let set = wire::encode_parameters(&NamedSet::from_name("search").unwrap().parameters().unwrap());
    let is_truncated = |result: Result<(), LatticeWireError>, length: usize| {
        let Err(LatticeWireError::Length(LengthError::Truncated { expected, found })) = result else {
            panic!("{length} bytes: {result:?}");
        };
        assert!(found == length && length < expected, "{length} bytes: {found} of {expected}");
    };
    for length in 0..keys.len() {
        is_truncated(wire::decode_evaluation_keys(&keys[..length], parameters).map(drop), length);
    }
    for length in 0..public.len() {
        is_truncated(wire::decode_ring_public_key(&public[..length], parameters).map(drop), length);
    }
    for length in 0..set.len() {
        is_truncated(wire::decode_parameters(&set[..length]).map(drop), length);
    }
    let secret = wire::encode_ring_secret_key(&s.secret);
    for length in 0..secret.len() {
        let read = wire::decode_ring_secret_key(&secret[..length], parameters).map(drop);
        if length < 6 {
            assert_eq!(read, Err(LatticeWireError::NotAKeyFile));
        } else {
            is_truncated(read, length);
        }
    }
}

/// `tfhe/tfhe#273`: the import of a sample into one of another shape wrote beyond its memory.
#[test]
fn an_object_of_another_shape_is_refused_and_writes_nothing_beyond_its_room() {
    let s = Bgv::toy(2);
    let (a, parameters) = (s.values(2), s.secret.parameters());
    let x = s.encrypt(&a, 2);
    let bytes = wire::encode_ciphertext(&x).unwrap();
    let mut room = vec![0; words::ciphertext_bytes(parameters, 2, 2)];
    words::write_ciphertext(&x, &mut room).unwrap();
    let scheme = |t| Plaintext::Integers(Modulus::new(t).unwrap());
    let shapes: [(usize, &[u32], u64); 5] =
        [(64, &[40], 257), (64, &[40; 3], 257), (128, &[40; 2], 257), (64, &[41, 40], 257), (64, &[40; 2], 129)];
    for (degree, data, t) in shapes {
        let others = LatticeParameters::insecure_of_sizes(degree, data, &[45], data.len(), scheme(t)).unwrap();
        let refused = Err(LatticeWireError::Parameters { expected: format!("{others:?}") });
        assert_eq!(wire::decode_ciphertext(&bytes, &others).map(drop), refused);
        assert_eq!(words::read_ciphertext(&room, &others).map(drop), refused);
    }
    for length in [room.len() - 1, room.len() - 64 * 8, 0] {
        let mut short = vec![0; length];
        let written = words::write_ciphertext(&x, &mut short);
        assert!(matches!(written, Err(LatticeWireError::Length(LengthError::Truncated { .. }))), "{written:?}");
    }
    let written = words::write_ciphertext(&x, &mut vec![0; room.len() + 8]);
    assert_eq!(written, Err(LatticeWireError::Length(LengthError::TooLong { extra: 8 })));
    let mut read = words::read_ciphertext(&room, parameters).unwrap();
    read.declare_fresh();
    assert_eq!(s.decrypt(&read), Ok(a));
}

/// `zama-ai/tfhe-rs#572`: a hostile length in the bytes exhausted the memory.
#[test]
fn hostile_lengths_are_refused_before_any_memory_is_taken() {
    let s = Bgv::toy(2);
    let parameters = s.secret.parameters();
    let keys = bgv::EvaluationKeys::new(s.secret.parameters()).with_relinearization(&s.secret, 2, &mut rng(1)).unwrap();
    let bytes = wire::encode_evaluation_keys(&keys);
    let head = head_bytes(parameters);
    // 65,535 keys are announced, and the bytes have none
    let many = with(&bytes, head + 1, &[0xff, 0xff]);
    let read = wire::decode_evaluation_keys(&many, parameters).map(drop);
    let found = bytes.len();
    assert_eq!(read, Err(LatticeWireError::Length(LengthError::Truncated { expected: found + 4, found })));
    // 510 primes, without them and with them, at the largest degree
    let start = [wire::VERSION, LatticeKind::Parameters as u8, 17, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let read = wire::decode_parameters(&start).map(drop);
    let expected = 14 + 510 * 7;
    assert_eq!(read, Err(LatticeWireError::Length(LengthError::Truncated { expected, found: 14 })));
    let read = wire::decode_parameters(&[&start[..], &[0xff; 510 * 7]].concat()).map(drop);
    let insecure = LatticeError::Insecure { degree: 1 << 17, most: 3523, found: 510 * 56 };
    assert_eq!(read, Err(LatticeWireError::Lattice(insecure)));
    for log_degree in [18, 63, 64, 255] {
        let read = wire::decode_parameters(&with(&start, 2, &[log_degree])).map(drop);
        assert_eq!(read, Err(LatticeWireError::Malformed("degree")), "2^{log_degree}");
    }
}

/// `s0l0ist/node-seal#109`: the bytes of a key, stored as text in another character set, gave
/// "ciphertext data is invalid".
#[test]
fn a_key_that_was_recoded_as_text_is_refused() {
    let s = Bgv::toy(2);
    let parameters = s.secret.parameters();
    let (public, secret) = (wire::encode_ring_public_key(&s.public()), wire::encode_ring_secret_key(&s.secret));
    let read_public = |bytes: &[u8]| wire::decode_ring_public_key(bytes, parameters).map(drop);
    let read_secret = |bytes: &[u8]| wire::decode_ring_secret_key(bytes, parameters).map(drop);
    let recoded = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned().into_bytes();
    let [low_first, high_first] = [[0, 1], [1, 0]].map(|[low, high]| {
        move |bytes: &[u8]| bytes.iter().flat_map(|byte| [[*byte, 0][low], [*byte, 0][high]]).collect::<Vec<u8>>()
    });
    let others = LatticeWireError::Parameters { expected: format!("{parameters:?}") };
    assert_eq!((read_public(&recoded(&public)), read_secret(&recoded(&secret))), (Err(others.clone()), Err(others)));
    let kind = LatticeWireError::Kind { expected: LatticeKind::PublicKey, found: 0 };
    assert_eq!(read_public(&low_first(&public)), Err(kind));
    assert_eq!(read_public(&high_first(&public)), Err(LatticeWireError::Version(0)));
    assert_eq!(read_secret(&low_first(&secret)), Err(LatticeWireError::NotAKeyFile));
    assert_eq!(read_secret(&high_first(&secret)), Err(LatticeWireError::NotAKeyFile));
    // hexadecimal digits instead of bytes
    let digits: String = public.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(read_public(digits.as_bytes()), Err(LatticeWireError::Version(b'0')));
    assert_eq!((read_public(&public), read_secret(&secret)), (Ok(()), Ok(())));
}

/// `microsoft/SEAL#655`: a stream at the wrong position threw "incompatible version", although the
/// versions were equal.
#[test]
fn a_stream_at_the_wrong_position_is_refused_for_what_is_found_there() {
    let s = Bgv::toy(2);
    let (a, parameters) = (s.values(3), s.secret.parameters());
    let (public, x) = (wire::encode_ring_public_key(&s.public()), wire::encode_ciphertext(&s.encrypt(&a, 2)).unwrap());
    let stream = [&public[..], &x[..]].concat();
    let read = |from: usize| wire::decode_ciphertext(&stream[from..], parameters).map(drop);
    let kind = LatticeWireError::Kind { expected: LatticeKind::Ciphertext, found: LatticeKind::PublicKey as u8 };
    assert_eq!(read(0), Err(kind));
    assert_eq!(read(public.len() + 1), Err(LatticeWireError::Version(LatticeKind::Ciphertext as u8)));
    let end = Err(LatticeWireError::Length(LengthError::Truncated { expected: 1, found: 0 }));
    assert_eq!(read(stream.len()), end);
    let whole = wire::decode_ring_public_key(&stream, parameters).map(drop);
    assert_eq!(whole, Err(LatticeWireError::Length(LengthError::TooLong { extra: x.len() })));
    let mut found = wire::decode_ciphertext(&stream[public.len()..], parameters).unwrap();
    found.declare_fresh();
    assert_eq!(s.decrypt(&found), Ok(a));
}

/// `openfheorg/openfhe-development#571`: a context of another release failed in a parser of JSON.
#[test]
fn bytes_of_another_version_are_refused_as_such() {
    let s = Bgv::toy(2);
    let parameters = s.secret.parameters();
    let set = wire::encode_parameters(&NamedSet::from_name("search").unwrap().parameters().unwrap());
    let x = wire::encode_ciphertext(&s.encrypt(&s.values(4), 2)).unwrap();
    let keys = wire::encode_evaluation_keys(&s.keys);
    let secret = wire::encode_ring_secret_key(&s.secret);
    let no_key = wire::decode_parameters(&with(&set, 0, &[2])).map(drop);
    assert_eq!(no_key, Err(LatticeWireError::Version(2)), "parameters are of no key");
    for version in [0, 3, 255] {
        let refused = wire::decode_parameters(&with(&set, 0, &[version])).map(drop);
        assert_eq!(refused, Err(LatticeWireError::Version(version)));
        assert_eq!(wire::decode_ciphertext(&with(&x, 0, &[version]), parameters).map(drop), refused);
        assert_eq!(wire::decode_evaluation_keys(&with(&keys, 0, &[version]), parameters).map(drop), refused);
        assert_eq!(wire::decode_ring_secret_key(&with(&secret, 6, &[version]), parameters).map(drop), refused);
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, format!("wrong version: expected 1 or 2, found {version}"));
    }
}

/// `openfheorg/openfhe-development#941`: a relinearisation key could not be read twice.
#[test]
fn a_key_can_be_read_twice() {
    let s = Bgv::toy(2);
    let (a, parameters) = (s.values(5), s.secret.parameters());
    let bytes = wire::encode_evaluation_keys(&s.keys);
    let x = s.encrypt(&a, 2);
    let products = [(); 2].map(|()| {
        let keys = wire::decode_evaluation_keys(&bytes, parameters).unwrap();
        assert!(wire::encode_evaluation_keys(&keys) == bytes);
        s.evaluator.mul(&x, &x, &keys).unwrap()
    });
    for product in &products {
        assert_eq!(s.decrypt(product), Ok(s.zip(&a, &a, |a, _| a * a)));
    }
    assert!(wire::encode_ciphertext(&products[0]).unwrap() == wire::encode_ciphertext(&products[1]).unwrap());
    let public = wire::encode_ring_public_key(&s.public());
    let keys = [(); 2].map(|()| wire::decode_ring_public_key(&public, parameters).unwrap());
    assert!(keys.map(|key: PublicKey| wire::encode_ring_public_key(&key)) == [public.clone(), public]);
}

/// `microsoft/SEAL#433`: a computed ciphertext had another value after it was saved and loaded.
#[test]
fn a_computed_ciphertext_goes_on_from_its_bytes_to_the_same_bits() {
    let s = Bgv::toy(4);
    let (a, b) = (s.values(6), s.values(7));
    let (x, y) = (s.encrypt(&a, 4), s.encrypt(&b, 4));
    let product = s.evaluator.mul_mod_switch(&x, &y, &s.keys).unwrap();
    let bytes = wire::encode_ciphertext(&product).unwrap();
    let mut read = wire::decode_ciphertext(&bytes, s.secret.parameters()).unwrap();
    assert!(wire::encode_ciphertext(&read).unwrap() == bytes);
    assert_eq!(s.decrypt(&read), Err(bgv::DecryptError::NoBound));
    read.declare_noise(product.noise_bound());
    assert_eq!(s.decrypt(&read), Ok(s.zip(&a, &b, |a, b| a * b)));
    let further = [&product, &read].map(|product| {
        let square = s.evaluator.mul_mod_switch(product, product, &s.keys).unwrap();
        s.evaluator.add(&s.evaluator.rotate(&square, 1, &s.keys).unwrap(), &x).unwrap()
    });
    let [one, other] = further.each_ref().map(wire::encode_ciphertext);
    assert!(one == other);
    assert_eq!(s.decrypt(&further[0]), s.decrypt(&further[1]));

    let s = Ckks::toy(&[50, 40, 40]);
    let (a, b) = (numbers(6), numbers(7));
    let product = s.evaluator.mul_rescale(&s.encrypt(&a, 38, 3), &s.encrypt(&b, 38, 3), &s.keys).unwrap();
    let bytes = wire::encode_ckks_ciphertext(&product).unwrap();
    let mut read = wire::decode_ckks_ciphertext(&bytes, s.secret.parameters()).unwrap();
    assert_eq!(s.evaluator.add(&read, &read).map(drop), Err(OperationError::NoEstimate));
    read.declare_estimate(product.estimate().unwrap()).unwrap();
    assert_eq!((read.level(), read.scale()), (product.level(), product.scale()));
    assert!(s.decrypt(&read) == s.decrypt(&product), "every bit of the numbers");
    s.assert_slots(&read, &zip(&a, &b, |a, b| a * b), SMALL);
    let further: [ckks::Ciphertext; 2] =
        [&product, &read].map(|product| s.evaluator.mul_rescale(product, product, &s.keys).unwrap());
    let [one, other] = further.each_ref().map(wire::encode_ckks_ciphertext);
    assert!(one == other);
}
