//! Lesson 2: sums, products and rotations of encrypted numbers.
//!
//! `cargo run --release -p tobari-lattice --example 2_compute`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::SecretKey;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    let top = parameters.data_primes();

    // The computing machine gets no secret, only keys for products and for some rotations.
    let mut keys = EvaluationKeys::new(secret.parameters()).with_relinearization(&secret, top, &mut rng)?;
    for log in 0..13 {
        keys = keys.with_rotation(&secret, 1 << log, top, &mut rng)?;
    }
    let evaluator = Evaluator::new(&parameters)?;

    // Two columns of a table, row by row in the slots.
    let half = encoder.slots() as i64 / 2;
    let prices: Vec<i64> = (0..half).map(|i| 100 + i % 7).collect();
    let counts: Vec<i64> = (0..half).map(|i| i % 3).collect();
    let encrypt = |values: &[i64], rng: &mut ChaCha20Rng| -> Result<_, Box<dyn std::error::Error>> {
        Ok(encoder.encode(values)?.encrypt_seeded(&secret, top, rng)?.expand())
    };
    let (x, y) = (encrypt(&prices, &mut rng)?, encrypt(&counts, &mut rng)?);

    // Everything happens in all slots at once: price times count.
    let amounts = evaluator.mul(&x, &y, &keys)?;
    // The sum over all slots of a row, by rotating by 1, 2, 4 … and adding. Every slot then holds
    // the sum.
    let mut total = amounts;
    for log in 0..13 {
        total = evaluator.add(&total, &evaluator.rotate(&total, 1 << log, &keys)?)?;
    }

    let found = encoder.decode(&decryptor.decrypt(&total)?)?[0].rem_euclid(65_537);
    let plain: i64 = prices.iter().zip(&counts).map(|(price, count)| price * count).sum();
    println!("Σ price · count = {found} modulo 65,537; plainly {plain}, which is {}", plain % 65_537);
    println!("{:.0} bits to spare", total.noise_budget());
    assert_eq!(found, plain % 65_537);
    Ok(())
}
