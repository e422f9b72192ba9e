//! A polynomial of the server at 16,384 encrypted integers, exactly.
//!
//! `cargo run --release -p tobari-lattice --example polynomial`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::error::Error;
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// 7 - 2x² + 3x⁴ + x⁷, modulo 65,537.
const COEFFICIENTS: [i64; 8] = [7, 0, -2, 0, 3, 0, 0, 1];
const MODULUS: i64 = 65_537;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let level = parameters.data_primes();
    let secret = SecretKey::generate(&parameters, &mut rng);
    let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, level, &mut rng)?;
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let numbers: Vec<i64> = (0..encoder.slots() as i64).map(|i| i * 4 - MODULUS / 2).collect();
    let sent = encoder.encode(&numbers)?.encrypt_seeded(&secret, level, &mut rng)?;
    let request = wire::encode_seeded_ciphertext(&sent);
    let result = server(&parameters, &request, &wire::encode_evaluation_keys(&keys))?;

    // The client knows the computation, and so a bound on the noise of an honest result.
    let own = Evaluator::new(&parameters)?.polynomial(&sent.expand(), &COEFFICIENTS, &keys)?;
    let mut result = wire::decode_ciphertext(&result, &parameters)?;
    result.declare_noise(own.noise_bound());
    let found = encoder.decode(&decryptor.decrypt(&result)?)?;
    for (x, found) in numbers.iter().zip(&found) {
        let expected = COEFFICIENTS.iter().rev().fold(0, |sum, c| (sum * x + c).rem_euclid(MODULUS));
        assert_eq!(found.rem_euclid(MODULUS), expected, "at {x}");
    }
    println!("{} values, the first at {}: {}", found.len(), numbers[0], found[0]);
    Ok(())
}

/// The server has no secret key.
fn server(parameters: &LatticeParameters, request: &[u8], keys: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let keys = wire::decode_evaluation_keys(keys, parameters)?;
    let x = wire::decode_seeded_ciphertext(request, parameters)?.expand();
    Ok(wire::encode_ciphertext(&Evaluator::new(parameters)?.polynomial(&x, &COEFFICIENTS, &keys)?)?)
}
