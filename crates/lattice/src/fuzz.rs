//! The body of a fuzz target; the tests run it over its corpus too.

use crate::params::{LatticeParameters, Plaintext};
use crate::ring::Modulus;
use crate::wire::{self, words};

/// Bytes that decode as an object of the lattice schemes encode to the same bytes.
pub fn lattice_wire(data: &[u8]) {
    if let Ok(parameters) = wire::decode_parameters(data) {
        assert_eq!(wire::encode_parameters(&parameters), data);
    }
    let Some(t) = Modulus::new(257) else { return };
    for plaintext in [Plaintext::Integers(t), Plaintext::Approximate] {
        let of_sizes = LatticeParameters::insecure_of_sizes;
        let Ok(parameters) = of_sizes(8, &[33, 30, 31], &[37, 36], 2, plaintext) else { continue };
        lattice_objects(data, &parameters);
        approximate_objects(data, &parameters);
    }
    raise_keys(data);
}

/// The keys of a raise, in the smallest ring that has them.
fn raise_keys(data: &[u8]) {
    let Some(parameters) = raise_parameters() else { return };
    if let Ok(keys) = wire::decode_raise_keys(data, &parameters) {
        assert_eq!(wire::encode_raise_keys(&keys), data);
    }
}

fn raise_parameters() -> Option<LatticeParameters> {
    let degree = 2 * crate::rlwe::raise::WEIGHT;
    LatticeParameters::insecure_of_sizes(degree, &[33, 30], &[37], 2, Plaintext::Approximate).ok()
}

/// Objects of both schemes, and of BGV.
fn lattice_objects(data: &[u8], parameters: &LatticeParameters) {
    if let Ok(key) = wire::decode_ring_secret_key(data, parameters) {
        assert_eq!(*wire::encode_ring_secret_key(&key), data);
    }
    if let Ok(key) = wire::decode_ring_public_key(data, parameters) {
        assert_eq!(wire::encode_ring_public_key(&key), data);
    }
    if let Ok(keys) = wire::decode_evaluation_keys(data, parameters) {
        assert_eq!(wire::encode_evaluation_keys(&keys), data);
    }
    if let Ok(ciphertext) = wire::decode_ciphertext(data, parameters) {
        assert_eq!(wire::store_ciphertext(&ciphertext), data);
    }
    if let Ok(ciphertext) = wire::decode_seeded_ciphertext(data, parameters) {
        assert_eq!(wire::encode_seeded_ciphertext(&ciphertext), data);
    }
    if let Ok(ciphertext) = wire::rounded::decode_rounded(data, parameters) {
        match wire::rounded::encode_rounded(&ciphertext) {
            Ok(again) => assert_eq!(again, data),
            Err(error) => assert_eq!(error, wire::LatticeWireError::Transparent),
        }
    }
    words_again(data, words::read_ciphertext(data, parameters), words::write_ciphertext);
    words_again(data, words::read_evaluation_key(data, parameters), words::write_evaluation_key);
}

/// A value read as words is written as the same bytes.
fn words_again<T, E>(data: &[u8], read: Result<T, E>, write: impl FnOnce(&T, &mut [u8]) -> Result<(), E>) {
    if let Ok(object) = read {
        let mut again = vec![0; data.len()];
        assert!(write(&object, &mut again).is_ok() && again == data);
    }
}

/// Objects of CKKS.
fn approximate_objects(data: &[u8], parameters: &LatticeParameters) {
    if let Ok(keys) = wire::decode_ckks_evaluation_keys(data, parameters) {
        assert_eq!(wire::encode_ckks_evaluation_keys(&keys), data);
    }
    if let Ok(ciphertext) = wire::decode_ckks_ciphertext(data, parameters) {
        assert_eq!(wire::store_ckks_ciphertext(&ciphertext), data);
    }
    if let Ok(ciphertext) = wire::decode_ckks_seeded_ciphertext(data, parameters) {
        assert_eq!(wire::encode_ckks_seeded_ciphertext(&ciphertext), data);
    }
    words_again(data, words::read_ckks_ciphertext(data, parameters), words::write_ckks_ciphertext);
    words_again(data, words::read_ckks_evaluation_key(data, parameters), words::write_ckks_evaluation_key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_octets::testing::noise;

    /// The target decoded them in a ring without room for a raise once, and so nothing of them.
    #[test]
    fn the_target_reads_keys_of_a_raise() {
        let parameters = raise_parameters().unwrap();
        let whole = include_bytes!("../../../fuzz/corpus/lattice_wire/ckks-raise-keys");
        assert!(wire::decode_raise_keys(whole, &parameters).is_ok());
        // whatever byte is changed or lost, it is other keys or an error
        for place in 0..whole.len() {
            let mut other = whole.to_vec();
            other[place] ^= 0x80;
            lattice_wire(&other);
            lattice_wire(&whole[..place]);
        }
    }

    #[test]
    fn noise_never_breaks_the_target() {
        for seed in 0..300 {
            lattice_wire(&noise(seed, seed as usize % 200));
        }
    }
}
