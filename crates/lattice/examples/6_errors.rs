//! Lesson 6: errors and their messages.
//!
//! `cargo run --release -p tobari-lattice --example 6_errors`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::fmt::Display;
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// Prints an error; the result must be one.
fn refused<T, E: Display>(what: &str, result: Result<T, E>) {
    match result {
        Ok(_) => panic!("{what} was not refused"),
        Err(error) => println!("{what}: {error}"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = ChaCha20Rng::from_seed([6; 32]);

    // Weak parameters are rejected.
    let t = Plaintext::Integers(Modulus::new(65_537).ok_or("no modulus")?);
    refused("200 bits at degree 4,096", LatticeParameters::of_sizes(1 << 12, &[50; 3], &[50], 3, t));

    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    refused("a slot too many", encoder.encode(&vec![0; 16_385]));

    // Missing keys, and keys for a lower level.
    let evaluator = Evaluator::new(&parameters)?;
    let x = encoder.encode(&[2])?.encrypt_seeded(&secret, 6, &mut rng)?;
    let bytes = wire::encode_seeded_ciphertext(&x);
    let x = x.expand();
    refused("a product without a key", evaluator.mul(&x, &x, &EvaluationKeys::new(&parameters)));
    let low = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 2, &mut rng)?;
    refused("a product with a key for level 2", evaluator.mul(&x, &x, &low));
    refused("a level that is gone", evaluator.to_level(&evaluator.to_level(&x, 2)?, 3));

    // Bytes of another object, or of other parameters.
    refused("a ciphertext cut short", wire::decode_seeded_ciphertext(&bytes[..1000], &parameters));
    let search = NamedSet::from_name("search").ok_or("no such set")?.parameters()?;
    refused("a ciphertext of other parameters", wire::decode_seeded_ciphertext(&bytes, &search));

    // More noise than the modulus has room for. The budget predicts it, and decryption is an error.
    let mut y = evaluator.to_level(&x, 1)?;
    println!("at level 1 {:.0} bits to spare", y.noise_budget());
    y = evaluator.tensor(&y, &y)?;
    println!("after a product {:.0}", y.noise_budget());
    refused("too much noise", decryptor.decrypt(&y));
    Ok(())
}
