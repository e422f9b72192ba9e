//! A matrix of the server times an encrypted vector: exact integers.
//!
//! `cargo run --release -p tobari-lattice --example matrix`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::collections::BTreeMap;
use std::error::Error;
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator, LinearTransform};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// Rows and columns; the number divides the slots.
const SIZE: usize = 64;
/// A product with a plain matrix takes one level, and one is left.
const LEVEL: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;

    // The server: a matrix, by its diagonals, and the rotations that it needs keys for.
    let matrix: Vec<Vec<i64>> =
        (0..SIZE as i64).map(|i| (0..SIZE as i64).map(|j| (i * 7 + j * 3) % 19 - 9).collect()).collect();
    let transform = prepared(&parameters, &matrix)?;

    // The client: a vector, repeated in all slots so that rotations are those of the vector.
    let secret = SecretKey::generate(&parameters, &mut rng);
    let mut keys = EvaluationKeys::new(&parameters);
    for step in transform.rotations() {
        keys.add_rotation(&secret, step, LEVEL, &mut rng)?;
    }
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let vector: Vec<i64> = (0..SIZE as i64).map(|j| j * j % 23 - 11).collect();
    let repeated: Vec<i64> = vector.iter().copied().cycle().take(encoder.slots()).collect();
    let sent = encoder.encode(&repeated)?.encrypt_seeded(&secret, LEVEL, &mut rng)?;
    let (request, public_keys) = (wire::encode_seeded_ciphertext(&sent), wire::encode_evaluation_keys(&keys));

    let result = server(&parameters, &transform, &request, &public_keys)?;

    // The client knows the computation, and so a bound on the noise of an honest result.
    let own = Evaluator::new(&parameters)?.transform(&sent.expand(), &transform, &keys)?;
    let mut result = wire::decode_ciphertext(&result, &parameters)?;
    result.declare_noise(own.noise_bound());
    let found = encoder.decode(&decryptor.decrypt(&result)?)?;
    let expected = matrix.iter().map(|row| row.iter().zip(&vector).map(|(a, b)| a * b).sum::<i64>());
    assert!(found[..SIZE].iter().copied().eq(expected));
    println!("{SIZE} x {SIZE}, {} rotations: {:?} …", transform.rotations().count(), &found[..4]);
    Ok(())
}

/// Diagonal `d` has the entries `(i, i + d)`.
fn prepared(parameters: &LatticeParameters, matrix: &[Vec<i64>]) -> Result<LinearTransform, Box<dyn Error>> {
    let diagonal = |d: usize| (0..SIZE).map(|i| matrix[i][(i + d) % SIZE]).collect();
    let diagonals: BTreeMap<i64, Vec<i64>> = (0..SIZE).map(|d| (d as i64, diagonal(d))).collect();
    Ok(LinearTransform::new(parameters, &Encoder::new(parameters)?, &diagonals, LEVEL)?)
}

/// The server has no secret key.
fn server(
    parameters: &LatticeParameters,
    transform: &LinearTransform,
    request: &[u8],
    keys: &[u8],
) -> Result<Vec<u8>, Box<dyn Error>> {
    let keys = wire::decode_evaluation_keys(keys, parameters)?;
    let vector = wire::decode_seeded_ciphertext(request, parameters)?.expand();
    Ok(wire::encode_ciphertext(&Evaluator::new(parameters)?.transform(&vector, transform, &keys)?)?)
}
