//! Lesson 7: a refresh gives levels back, so that a computation has no end.
//!
//! `cargo run --release -p tobari-lattice --example 7_refresh`
//!
//! It is quick because its degree is small, and **so small that it has no security**. A program
//! takes the set `refresh` or `refresh-precise`: 128 bits of security, 6 GB of keys, seconds for a
//! refresh. `cargo run --release -p tobari-lattice --example 7_refresh -- secure` takes the second.

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::ckks::{Decryptor, Encoder, Estimate, Evaluator, Precision, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::refresh::{Refresh, RefreshSettings};
use tobari_lattice::rlwe::SecretKey;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let set = NamedSet::from_name("refresh-precise").ok_or("no such set")?;
    let parameters = if std::env::args().any(|argument| argument == "secure") {
        set.parameters()?
    } else {
        let approximate = Plaintext::Approximate;
        LatticeParameters::insecure_of_sizes(1 << 11, set.data, set.special, set.digits, approximate)?
    };
    println!("security: {:?}", parameters.security());

    // The client: a key, and the keys for the server. They are the most of a refresh.
    let secret = SecretKey::generate(&parameters, &mut rng);
    let refresh = Refresh::new(&parameters, RefreshSettings::real(parameters.degree() / 2).precise())?;
    let keys = refresh.keys(&secret, &mut rng)?;
    println!("{} MB of keys; a refresh ends at level {}", keys.memory() >> 20, refresh.level());
    println!("the bound on its error fails with a chance of 2^-{:.0}", refresh.failure_bits());
    let encoder = Encoder::new(&parameters)?;
    let values: Vec<f64> = (0..encoder.slots()).map(|i| i as f64 / encoder.slots() as f64).collect();
    let scale = Scale::power_of_two(42);
    let mut x = encoder.encode(&values, &scale, refresh.level())?.encrypt_seeded(&secret, &mut rng)?.expand();

    // The server: x -> 1 - x²/2, fifteen times. Each time takes three levels, and a refresh needs
    // four to start from.
    let evaluator = Evaluator::new(&parameters)?;
    let mut plain = values;
    let mut refreshed = 0;
    for _ in 0..15 {
        if x.level() < refresh.settings().least_level() + 3 {
            x = refresh.refresh(&x, &keys)?;
            refreshed += 1;
        }
        let square = evaluator.mul_rescale(&x, &x, keys.evaluation())?;
        let half = evaluator.rescale(&evaluator.mul_constant(&square, -0.5)?)?;
        x = evaluator.add_constant(&evaluator.set_scale(&half, &scale)?, 1.0)?;
        // The bounds know 1 + 1/2, and mathematics knows better.
        x.declare_magnitude(1.0)?;
        plain.iter_mut().for_each(|x| *x = 1.0 - *x * *x / 2.0);
    }

    // The client decrypts.
    let found = Decryptor::new(&secret, &encoder)?.decrypt(&x)?;
    let precision = Precision::of(&found, &plain);
    println!("45 levels with {refreshed} refreshes: right to {:.1} bits in the worst slot", precision.least_bits());
    let bound = x.estimate().map_or(f64::INFINITY, Estimate::error);
    println!("the bound says {:.1}", -bound.log2());
    Ok(())
}
