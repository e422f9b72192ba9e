//! The nearest of 4,096 points of the server to an encrypted point.
//!
//! `cargo run --release -p tobari-lattice --example nearest`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::error::Error;
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Evaluator, Scale, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

const POINTS: usize = 4_096;
/// Coordinates of a point, each at most 1 in absolute value.
const COORDINATES: usize = 3;
/// A square; two levels are left, which have room for the distances.
const LEVEL: usize = 3;
const SCALE: u32 = 49;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // The client: a ciphertext for each coordinate, with the same number in every slot.
    let parameters = NamedSet::from_name("ckks-b").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, LEVEL, &mut rng)?;
    let encoder = Encoder::new(&parameters)?;
    let point = [0.31, -0.72, 0.05];
    let encrypt = |x: &f64| -> Result<SeededCiphertext, Box<dyn Error>> {
        let everywhere = vec![*x; POINTS];
        Ok(encoder.encode(&everywhere, &Scale::power_of_two(SCALE), LEVEL)?.encrypt_seeded(&secret, &mut rng)?)
    };
    let sent = point.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?;
    let request: Vec<Vec<u8>> = sent.iter().map(wire::encode_ckks_seeded_ciphertext).collect();
    let result = server(&parameters, &request, &wire::encode_ckks_evaluation_keys(&keys))?;

    // The client decrypts all distances, which tell much about the points of the server. It needs
    // the place of the least alone: the largest number, because distances come negative.
    let result = wire::decode_ckks_ciphertext(&result, &parameters)?;
    let slots: Vec<usize> = (0..POINTS).collect();
    let found = Decryptor::new(&secret, &encoder)?.label(&result, &slots)?;
    let distance = |i: usize| point.iter().enumerate().map(|(j, x)| (x - coordinate(i, j)).powi(2)).sum::<f64>();
    let expected = slots.into_iter().min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    assert_eq!(Some(found), expected);
    println!("point {found} is the nearest, at a distance of {:.4}", distance(found).sqrt());
    Ok(())
}

/// The points of the server.
fn coordinate(point: usize, j: usize) -> f64 {
    ((point * (37 + 24 * j) + point * point % 101) % 2_001) as f64 / 1_000.0 - 1.0
}

/// The server has no secret key.
fn server(parameters: &LatticeParameters, request: &[Vec<u8>], keys: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let keys = wire::decode_ckks_evaluation_keys(keys, parameters)?;
    let (encoder, evaluator) = (Encoder::new(parameters)?, Evaluator::new(parameters)?);
    let mut sum: Option<Ciphertext> = None;
    for (j, bytes) in request.iter().enumerate().take(COORDINATES) {
        let mut x = wire::decode_ckks_seeded_ciphertext(bytes, parameters)?.expand();
        x.declare(1.0);
        let negative: Vec<f64> = (0..POINTS).map(|i| -coordinate(i, j)).collect();
        let difference = evaluator.add_plain(&x, &encoder.encode(&negative, &Scale::power_of_two(SCALE), LEVEL)?)?;
        let square = evaluator.tensor(&difference, &difference)?;
        sum = Some(match sum {
            Some(sum) => evaluator.add(&sum, &square)?,
            None => square,
        });
    }
    // one switch of keys for the sum of all squares
    let distances = evaluator.relinearize_rescale(&sum.ok_or("no coordinate")?, &keys)?;
    Ok(wire::encode_ckks_ciphertext(&evaluator.neg(&distances)?)?)
}
