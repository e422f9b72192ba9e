//! Parameters: their security, their sizes, and the plaintext modulus.

use super::{Bgv, Ckks, zip};
use tobari_lattice::bgv::{EncodeError, Encoder};
use tobari_lattice::ckks::{OperationError, Scale};
use tobari_lattice::params::{LatticeError, LatticeParameters, Plaintext};
use tobari_lattice::ring::{Modulus, RingError, primes_below};
use tobari_lattice::wire::{self, LatticeWireError};

fn integers(t: u64) -> Plaintext {
    Plaintext::Integers(Modulus::new(t).unwrap())
}

/// `openfheorg/openfhe-development#382`, `microsoft/SEAL#453`: a ring with too little security was
/// accepted, or the text named no limit.
#[test]
fn a_modulus_too_large_for_the_ring_is_refused_with_the_limit() {
    let approximate = Plaintext::Approximate;
    let large = vec![50; 35];
    let cases = [
        (1 << 10, &[20][..], &[20][..], 26, 40),
        (1 << 12, &[36, 36], &[35], 106, 107),
        (1 << 16, &large, &[], 1747, 1750),
        (1 << 9, &[20], &[], 0, 20),
    ];
    for (degree, data, special, most, found) in cases {
        let refused = LatticeParameters::of_sizes(degree, data, special, 1, approximate).map(drop);
        assert_eq!(refused, Err(LatticeError::Insecure { degree, most, found }));
        let text = refused.unwrap_err().to_string();
        let expected = "bits of modulus for 128 bits of security at degree";
        assert_eq!(text, format!("expected at most {most} {expected} {degree}, found {found}"));
        // the same parameters from bytes
        let weak = LatticeParameters::insecure_of_sizes(degree, data, special, 1, approximate).unwrap();
        let read = wire::decode_parameters(&wire::encode_parameters(&weak)).map(drop);
        assert_eq!(read, Err(LatticeWireError::Lattice(LatticeError::Insecure { degree, most, found })));
    }
    assert!(LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, approximate).is_ok());
}

/// `openfheorg/openfhe-development#584`: a sum of objects from two contexts ended the program in a
/// kernel. Here parameters are compared by their numbers: objects of equal ones fit together, and
/// objects of others are an error.
#[test]
fn objects_of_two_contexts_fit_together_or_are_an_error() {
    let sizes = || LatticeParameters::insecure_of_sizes(64, &[50, 40], &[50], 2, Plaintext::Approximate).unwrap();
    let (one, other) = (Ckks::of(&sizes()), Ckks::of(&sizes()));
    let a: Vec<f64> = (0..32).map(|j| f64::from(j) / 32.0).collect();
    let x = one.encrypt(&a, 38, 2);
    let product = other.evaluator.mul(&x, &x, &one.keys).unwrap();
    one.assert_slots(&other.evaluator.add(&product, &product).unwrap(), &zip(&a, &a, |a, b| 2.0 * a * b), 1e-4);
    let deeper = Ckks::toy(&[50, 40, 40]);
    let plaintext = deeper.encoder.encode(&a, &Scale::power_of_two(38), 2).unwrap();
    assert_eq!(one.evaluator.add_plain(&x, &plaintext).map(drop), Err(OperationError::OtherParameters));
    let sizes = || LatticeParameters::insecure_of_sizes(64, &[50, 50], &[50], 2, integers(257)).unwrap();
    let (one, other) = (Bgv::of(&sizes()), Bgv::of(&sizes()));
    let a: Vec<i64> = (0..64).collect();
    let square = other.evaluator.mul(&one.encrypt(&a, 2), &one.encrypt(&a, 2), &one.keys).unwrap();
    assert_eq!(one.decrypt(&square), Ok(one.zip(&a, &a, |a, b| a * b)));
}

/// `microsoft/SEAL#608`: a degree of 65,536 was refused as "parameters are not set correctly".
#[test]
fn a_degree_of_65536_works() {
    let parameters = LatticeParameters::of_sizes(1 << 16, &[50, 40], &[50], 2, Plaintext::Approximate).unwrap();
    let s = Ckks::of(&parameters);
    let a: Vec<f64> = (0..1 << 15).map(|j| f64::from(j % 1999) / 1000.0 - 1.0).collect();
    let x = s.encrypt(&a, 40, 2);
    s.assert_slots(&x, &a, 1e-6);
    s.assert_slots(&s.evaluator.mul(&x, &x, &s.keys).unwrap(), &zip(&a, &a, |a, b| a * b), 1e-5);
    let s = Bgv::of(&LatticeParameters::of_sizes(1 << 16, &[50, 50], &[], 2, integers(786_433)).unwrap());
    let a: Vec<i64> = (0..1 << 16).map(|j| j * 11 % 786_433 - 393_216).collect();
    assert_eq!(s.decrypt(&s.encrypt(&a, 2)), Ok(a));
}

/// `zama-ai/tfhe-rs#3827`, `microsoft/SEAL#220`: an invalid plaintext modulus was an obscure panic,
/// and a user asked for a modulus of 1024 bits.
#[test]
fn a_plaintext_modulus_out_of_range_is_refused() {
    for value in [0, 1, 1 << 50, 1 << 60, u64::MAX] {
        assert_eq!(Modulus::new(value), None, "{value}");
    }
    assert_eq!(Modulus::new((1 << 50) - 1).map(|t| t.value()), Some((1 << 50) - 1));
    let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, integers(65_537)).unwrap();
    // from bytes: the modulus is after version, kind and four numbers
    for value in [1, 1 << 50, 1 << 60, u64::MAX] {
        let mut bytes = wire::encode_parameters(&parameters);
        bytes[6..14].copy_from_slice(&value.to_be_bytes());
        let read = wire::decode_parameters(&bytes).map(drop);
        assert_eq!(read, Err(LatticeWireError::Malformed("plaintext modulus")), "{value}");
    }
    // a modulus that shares a prime with the ciphertexts
    let prime = primes_below(36, 1 << 13).next().unwrap();
    for found in [prime, 2 * prime] {
        let refused = LatticeParameters::new(1 << 12, &[prime], &[], 1, integers(found)).map(drop);
        assert_eq!(refused, Err(LatticeError::PlaintextModulus { found }));
    }
}

/// `microsoft/SEAL#222`, `microsoft/SEAL#420`, `ibarrond/Pyfhel#215`, `homenc/HElib#125`: a
/// plaintext modulus without slots was refused without the condition, or aborted the process.
#[test]
fn a_plaintext_modulus_without_slots_is_refused_with_the_condition() {
    // no residue 1; a power of a prime; 1 modulo N, but not modulo 2N; 1 modulo 2N, but composite
    for t in [257, 127 * 127 * 127, 12_289, 8193, 65_536] {
        let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, integers(t)).unwrap();
        let refused = Encoder::new(&parameters).map(drop);
        assert_eq!(refused, Err(EncodeError::NoSlots { t, step: 8192 }));
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, format!("expected a prime plaintext modulus that is 1 modulo 8192, found {t}"));
    }
    for t in [40_961, 65_537] {
        let s = Bgv::of(&LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, integers(t)).unwrap());
        let a = [1, -2, 3, -20_000];
        assert_eq!(s.decrypt(&s.encrypt(&a, 2)).unwrap()[..5], [1, -2, 3, -20_000, 0]);
    }
    // a composite number among the primes of ciphertexts
    let refused = LatticeParameters::new(1 << 12, &[8193], &[], 1, integers(257)).map(drop);
    assert_eq!(refused, Err(LatticeError::Ring(RingError::Prime { value: 8193, step: 8192 })));
}
