//! Logistic regression: a server with a model scores a thousand encrypted patients at once.
//!
//! `cargo run --release -p tobari-lattice --example regression`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::error::Error;
use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

const PATIENTS: usize = 1000;
/// The model of the server: a weight for each feature, and a constant.
const WEIGHTS: [f64; 4] = [1.9, -2.4, 1.3, 0.8];
const CONSTANT: f64 = -0.4;
/// The logistic function on [-8, 8], of its argument divided by 8: within 0.033 (Kim, Song, Wang,
/// Xia, Jiang, JMIR Medical Informatics 2018).
const LOGISTIC: [f64; 8] = [0.5, 1.73496, 0.0, -4.19407, 0.0, 5.43402, 0.0, -2.50739];
/// One for the weights, three for the polynomial; two are left, which have room for its terms.
const LEVEL: usize = 6;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // The client: a ciphertext for each feature, with a slot for each patient. Features are at
    // most 1 in absolute value.
    let parameters = NamedSet::from_name("ckks-b").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, LEVEL, &mut rng)?;
    let encoder = Encoder::new(&parameters)?;
    let feature = |j: usize| (0..PATIENTS).map(move |i| ((i * (17 + 4 * j) + 31 * j) % 201) as f64 / 100.0 - 1.0);
    let features: Vec<Vec<f64>> = (0..WEIGHTS.len()).map(|j| feature(j).collect()).collect();
    let encrypt = |feature: &Vec<f64>| -> Result<SeededCiphertext, Box<dyn Error>> {
        Ok(encoder.encode(feature, &Scale::power_of_two(49), LEVEL)?.encrypt_seeded(&secret, &mut rng)?)
    };
    let sent = features.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?;
    let request: Vec<Vec<u8>> = sent.iter().map(wire::encode_ckks_seeded_ciphertext).collect();
    let result = server(&parameters, &request, &wire::encode_ckks_evaluation_keys(&keys))?;

    // The client again: a probability for each patient.
    let result = wire::decode_ckks_ciphertext(&result, &parameters)?;
    let found = Decryptor::new(&secret, &encoder)?.decrypt(&result)?;
    let mut worst: f64 = 0.0;
    for (i, found) in found[..PATIENTS].iter().enumerate() {
        let score = WEIGHTS.iter().zip(&features).map(|(weight, feature)| weight * feature[i]).sum::<f64>() + CONSTANT;
        let polynomial = LOGISTIC.iter().rev().fold(0.0, |sum, c| sum * (score / 8.0) + c);
        assert!((found - polynomial).abs() < 1e-6, "patient {i}: {found}, expected {polynomial}");
        worst = worst.max((found - 1.0 / (1.0 + (-score).exp())).abs());
    }
    println!("{PATIENTS} probabilities, each within {worst:.3} of the logistic function");
    assert!(worst < 0.033);
    Ok(())
}

/// The server has no secret key.
fn server(parameters: &LatticeParameters, request: &[Vec<u8>], keys: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let keys = wire::decode_ckks_evaluation_keys(keys, parameters)?;
    let evaluator = Evaluator::new(parameters)?;
    let mut score = None;
    for (bytes, weight) in request.iter().zip(WEIGHTS) {
        let mut feature = wire::decode_ckks_seeded_ciphertext(bytes, parameters)?.expand();
        feature.declare(1.0);
        let term = evaluator.mul_constant(&feature, weight / 8.0)?;
        score = Some(match score {
            Some(sum) => evaluator.add(&sum, &term)?,
            None => term,
        });
    }
    let score = evaluator.rescale(&score.ok_or("no feature")?)?;
    let score = evaluator.add_constant(&score, CONSTANT / 8.0)?;
    Ok(wire::encode_ckks_ciphertext(&evaluator.polynomial(&score, &LOGISTIC, &keys)?)?)
}
