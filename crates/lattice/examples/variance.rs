//! Mean and variance of numbers that the server cannot read.
//!
//! `cargo run --release -p tobari-lattice --example variance`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::error::Error;
use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// Temperatures, which are at most `RANGE`: the server knows the range and their number.
const NUMBERS: [f64; 8] = [23.5, 19.0, 31.25, 26.0, 22.75, 28.5, 17.0, 24.0];
const RANGE: f64 = 50.0;
/// A level for each product and for a change of scale; two are left, which have room for the
/// numbers.
const LEVEL: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // The client: a key, the keys for products and for sums of eight slots, and the numbers.
    let parameters = NamedSet::from_name("ckks-b").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let mut keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, LEVEL, &mut rng)?;
    for step in [1, 2, 4] {
        keys.add_rotation(&secret, step, LEVEL, &mut rng)?;
    }
    let encoder = Encoder::new(&parameters)?.within(RANGE);
    let numbers = encoder.encode(&NUMBERS, &Scale::power_of_two(49), LEVEL)?.encrypt_seeded(&secret, &mut rng)?;
    let request = wire::encode_ckks_seeded_ciphertext(&numbers);
    let results = server(&parameters, &request, &wire::encode_ckks_evaluation_keys(&keys))?;

    // The client again.
    let mean = NUMBERS.iter().sum::<f64>() / 8.0;
    let variance = NUMBERS.iter().map(|x| x * x).sum::<f64>() / 8.0 - mean * mean;
    let decryptor = Decryptor::new(&secret, &encoder)?;
    for (name, bytes, expected) in [("mean", &results[0], mean), ("variance", &results[1], variance)] {
        let found = decryptor.decrypt(&wire::decode_ckks_ciphertext(bytes, &parameters)?)?[0];
        println!("{name}: {found:.6}");
        assert!((found - expected).abs() < 1e-5, "{name}: {found}, expected {expected}");
    }
    Ok(())
}

/// The server has no secret key.
fn server(parameters: &LatticeParameters, request: &[u8], keys: &[u8]) -> Result<[Vec<u8>; 2], Box<dyn Error>> {
    let keys = wire::decode_ckks_evaluation_keys(keys, parameters)?;
    let mut numbers = wire::decode_ckks_seeded_ciphertext(request, parameters)?.expand();
    numbers.declare(RANGE);
    let evaluator = Evaluator::new(parameters)?;
    let mean_of = |x| evaluator.rescale(&evaluator.mul_constant(&evaluator.sum_slots(x, 8, &keys)?, 1.0 / 8.0)?);
    let mean = mean_of(&numbers)?;
    let of_squares = mean_of(&evaluator.mul_rescale(&numbers, &numbers, &keys)?)?;
    let square = evaluator.mul_rescale(&mean, &mean, &keys)?;
    let (of_squares, square) = evaluator.align(&of_squares, &square)?;
    let variance = evaluator.sub(&of_squares, &square)?;
    Ok([wire::encode_ckks_ciphertext(&mean)?, wire::encode_ckks_ciphertext(&variance)?])
}
