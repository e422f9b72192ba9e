//! Lesson 5: two parties that exchange only bytes.
//!
//! `cargo run --release -p tobari-lattice --example 5_server`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The server has parameters, public keys, a ciphertext, and a table that the client must not see.
fn server(parameters: &LatticeParameters, public: &[u8], keys: &[u8], query: &[u8]) -> Outcome<Vec<u8>> {
    let mut rng = ChaCha20Rng::from_seed([50; 32]);
    let public = wire::decode_ring_public_key(public, parameters)?;
    let keys = wire::decode_evaluation_keys(keys, parameters)?;
    let query = wire::decode_seeded_ciphertext(query, parameters)?.expand();
    let (encoder, evaluator) = (Encoder::new(parameters)?, Evaluator::new(parameters)?);
    let table: Vec<i64> = (0..encoder.slots() as i64).map(|i| i * i % 1000).collect();
    let answer = evaluator.mul_plain(&query, &encoder.encode(&table)?)?;
    let answer = evaluator.rotate(&answer, 1, &keys)?;
    // The holder of the key knows the query and could divide by it: fresh randomness and a wide
    // error hide the table.
    let answer = evaluator.flood(&answer, &public, 200, &mut rng)?;
    // One prime is enough for decryption, with a sixth of the bytes.
    Ok(wire::encode_ciphertext(&evaluator.to_level(&answer, 1)?)?)
}

fn main() -> Outcome<()> {
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let public = wire::encode_ring_public_key(&PublicKey::generate(&secret, &mut rng));
    let keys = EvaluationKeys::new(secret.parameters()).with_rotation(&secret, 1, 6, &mut rng)?;
    let keys = wire::encode_evaluation_keys(&keys);

    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let query = encoder.encode(&[0, 1, 10, 100])?.encrypt_seeded(&secret, 6, &mut rng)?;
    let query = wire::encode_seeded_ciphertext(&query);
    println!("public key {} bytes, rotation key {}, query {}", public.len(), keys.len(), query.len());

    let answer = server(&parameters, &public, &keys, &query)?;
    println!("answer {} bytes", answer.len());
    // No bound travels. The server floods, which leaves no result with too much noise, so it is
    // enough that the noise is measured.
    let answer = decryptor.decrypt_measured(&wire::decode_ciphertext(&answer, &parameters)?)?;
    // slot j holds the former slot j + 1: the query times i²
    assert_eq!(encoder.decode(&answer)?[..3], [1, 40, 900]);
    println!("1·1², 10·2², 100·3² = {:?}", &encoder.decode(&answer)?[..3]);
    Ok(())
}
