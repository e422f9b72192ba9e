//! Lesson 4: approximate real numbers. Each product costs a level, and every result has a lasting
//! error.
//!
//! `cargo run --release -p tobari-lattice --example 4_approximate`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Precision, Scale};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::SecretKey;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    let parameters = NamedSet::from_name("ckks-b").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let encoder = Encoder::new(&parameters)?;
    let decryptor = Decryptor::new(&secret, &encoder)?;
    let mut keys = EvaluationKeys::new(&parameters);
    keys.add_relinearization(&secret, 7, &mut rng)?;
    let evaluator = Evaluator::new(&parameters)?;

    // The message holds numbers multiplied by a scale, here about as large as the primes that
    // rescaling divides by.
    let values: Vec<f64> = (0..encoder.slots()).map(|i| i as f64 / encoder.slots() as f64).collect();
    let plaintext = encoder.encode(&values, &Scale::power_of_two(49), 7)?;
    let fresh = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();

    // A circuit of depth five: x^32, by five squares.
    let mut x = fresh.clone();
    let mut plain = values.clone();
    for _ in 0..5 {
        x = evaluator.rescale(&evaluator.mul(&x, &x, &keys)?)?;
        plain.iter_mut().for_each(|value| *value *= *value);
        let found = decryptor.decrypt(&x)?;
        let precision = Precision::of(&found, &plain);
        println!(
            "level {}, scale {}: right to {:.0} bits in the worst slot",
            x.level(),
            x.scale(),
            precision.least_bits()
        );
        assert!(precision.least_bits() > 25.0);
    }

    // Scales are exact: numbers of different scales cannot be added by accident.
    println!("x^32 + x: {}", evaluator.add(&x, &fresh).map(|_| "added").unwrap_or("refused, other level and scale"));

    // Every ciphertext carries bounds on its numbers and their errors. The last level has one bit
    // more than the scale: x^32 may be as large as 1, and with its error it might not fit.
    let bounds = x.estimate().ok_or("no estimate")?;
    println!("x^32 is at most {}, with an error of {:.1e}", bounds.magnitude(), bounds.error());
    println!("x^32 at level 1: {}", evaluator.to_level(&x, 1).err().ok_or("an overflow")?);

    // A polynomial's result has the scale of x, so that the two can be added.
    let sigmoid = [0.5, 0.25, 0.0, -1.0 / 48.0, 0.0, 1.0 / 480.0];
    let result = evaluator.polynomial(&fresh, &sigmoid, &keys)?;
    let at = |x: f64| sigmoid.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let expected: Vec<f64> = values.iter().map(|x| at(*x)).collect();
    let found = decryptor.decrypt(&result)?;
    println!("a polynomial of degree five: right to {:.0} bits", Precision::of(&found, &expected).least_bits());

    // Results hold the error, and the error reveals the key. Give results to holders of the
    // ciphertexts only in this rounded form.
    let coarse = decryptor.rounded(&result, 8)?;
    println!("for others, eight bits: {} instead of {:.12}", coarse[100], found[100]);
    Ok(())
}
