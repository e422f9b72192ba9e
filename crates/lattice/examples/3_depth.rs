//! Lesson 3: noise grows with every product, and a modulus switch keeps it small. A circuit of
//! depth five.
//!
//! `cargo run --release -p tobari-lattice --example 3_depth`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::SecretKey;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, 6, &mut rng)?;
    let evaluator = Evaluator::new(&parameters)?;

    let values: Vec<i64> = (0..1000).collect();
    let mut x = encoder.encode(&values)?.encrypt_seeded(&secret, 6, &mut rng)?.expand();
    let mut plain = values.clone();
    println!("level {}: {:.0} bits of noise, {:.0} to spare", x.level(), x.noise_bound(), x.noise_budget());
    for level in (1..6).rev() {
        x = evaluator.mul(&x, &x, &keys)?;
        // The modulus loses its last prime, 50 bits, and the noise shrinks by as many bits.
        x = evaluator.to_level(&x, level)?;
        plain.iter_mut().for_each(|value| *value = *value * *value % 65_537);
        println!("level {}: {:.0} bits of noise, {:.0} to spare", x.level(), x.noise_bound(), x.noise_budget());
    }
    let found = encoder.decode(&decryptor.decrypt(&x)?)?;
    assert!(found.iter().zip(&plain).all(|(found, plain)| found.rem_euclid(65_537) == *plain));
    println!("x^32 modulo 65,537 is right in all {} slots", plain.len());

    // A polynomial is evaluated with as few products as possible.
    let x = encoder.encode(&values)?.encrypt_seeded(&secret, 6, &mut rng)?.expand();
    let result = evaluator.polynomial(&x, &[1, -2, 0, 4, 0, 0, 7], &keys)?;
    let at = |x: i64| (1 - 2 * x + 4 * x.pow(3) + 7 * x.pow(6)).rem_euclid(65_537);
    let found = encoder.decode(&decryptor.decrypt(&result)?)?;
    assert!(found.iter().zip(0..1000).all(|(found, x)| found.rem_euclid(65_537) == at(x)));
    println!("7x⁶ + 4x³ - 2x + 1 is right too, at level {}", result.level());
    Ok(())
}
