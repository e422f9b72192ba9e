//! The size of the intersection of two private sets, and nothing else of them. It is for an honest
//! client: with other numbers than 0 and 1 in its slots, it learns more than the size.
//!
//! `cargo run --release -p tobari-lattice --example intersection`

#![allow(clippy::print_stdout, reason = "an example speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::collections::BTreeSet;
use std::error::Error;
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire;

/// Members are numbers below this one, the number of slots: both sides know the whole list.
const ALL: usize = 16_384;
/// A product with the server's set, and room for the noise that hides the set.
const LEVEL: usize = 3;
/// The result tells the client nothing else, up to a statistical distance of `2^-HIDDEN`.
const HIDDEN: u32 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // The client: a 1 in the slot of each member.
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);
    let mut keys = EvaluationKeys::new(&parameters).with_swap(&secret, LEVEL, &mut rng)?;
    for log in 0..(ALL / 2).trailing_zeros() {
        keys.add_rotation(&secret, 1 << log, LEVEL, &mut rng)?;
    }
    let mine: BTreeSet<usize> = (0..3_000).map(|i| i * 5 % ALL).collect();
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let sent = encoder.encode(&indicator(&mine))?.encrypt_seeded(&secret, LEVEL, &mut rng)?;
    let (request, public) = (wire::encode_seeded_ciphertext(&sent), wire::encode_ring_public_key(&public));

    let theirs: BTreeSet<usize> = (0..4_000).map(|i| i * 3 % ALL).collect();
    let result = server(&parameters, &theirs, &request, [&public, &wire::encode_evaluation_keys(&keys)], &mut rng)?;

    // The client again. A flooded result has a small phase, or the server would have refused.
    let result = wire::decode_ciphertext(&result, &parameters)?;
    let slots = encoder.decode(&decryptor.decrypt_measured(&result)?)?;
    let expected = mine.intersection(&theirs).count() as i64;
    assert!(slots.iter().all(|slot| *slot == expected), "every slot has the size");
    println!("{} and {} members, {} of them in both sets", mine.len(), theirs.len(), slots[0]);
    Ok(())
}

fn indicator(set: &BTreeSet<usize>) -> Vec<i64> {
    (0..ALL).map(|number| i64::from(set.contains(&number))).collect()
}

/// The server has no secret key.
fn server(
    parameters: &LatticeParameters,
    set: &BTreeSet<usize>,
    request: &[u8],
    [public, keys]: [&[u8]; 2],
    rng: &mut ChaCha20Rng,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let public = wire::decode_ring_public_key(public, parameters)?;
    let keys = wire::decode_evaluation_keys(keys, parameters)?;
    let mut sum = wire::decode_seeded_ciphertext(request, parameters)?.expand();
    sum.declare_fresh();
    let evaluator = Evaluator::new(parameters)?;
    sum = evaluator.mul_plain(&sum, &Encoder::new(parameters)?.encode(&indicator(set))?)?;
    for log in 0..(ALL / 2).trailing_zeros() {
        sum = evaluator.add(&sum, &evaluator.rotate(&sum, 1 << log, &keys)?)?;
    }
    sum = evaluator.add(&sum, &evaluator.swap_rows(&sum, &keys)?)?;
    // The noise of the sum knows the server's set: hide it (see `Evaluator::flood`).
    let t = (parameters.error_factor() as f64).log2();
    let bits = (sum.noise_bound() - t).ceil() as u32 + parameters.degree().trailing_zeros() + HIDDEN;
    Ok(wire::encode_ciphertext(&evaluator.flood(&sum, &public, bits, rng)?)?)
}
