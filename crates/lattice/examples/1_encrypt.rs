//! Lesson 1: encrypt numbers. Only the holder of the key can read the ciphertext.
//!
//! `cargo run --release -p tobari-lattice --example 1_encrypt`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::bgv::{Decryptor, Encoder};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::{PublicKey, SecretKey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Randomness comes from the operating system. The other lessons begin with a fixed seed, so
    // that they print the same numbers each time: a program that people use must not.
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let mut rng = ChaCha20Rng::from_seed(seed);

    // Parameters first: they set how much can be computed, and the security. Weak parameters are
    // impossible.
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let security = parameters.security().ok_or("a toy")?;
    println!("{parameters:?}, {} bits of security", security.bits());

    // The secret key is 32 bytes; all other keys derive from it. Anybody can encrypt with the
    // public key.
    let secret = SecretKey::generate(&parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);

    // Messages are integers modulo 65,537, one in each of 16,384 slots.
    let encoder = Encoder::new(&parameters)?;
    let message = encoder.encode(&[3, 1, 4, 1, 5, -9])?;
    let ciphertext = message.encrypt(&public, parameters.data_primes(), &mut rng)?;
    println!("a ciphertext with {:.0} bits to spare", ciphertext.noise_budget());

    let found = encoder.decode(&Decryptor::new(&secret)?.decrypt(&ciphertext)?)?;
    assert_eq!(found[..7], [3, 1, 4, 1, 5, -9, 0]);
    println!("decrypted: {:?} …", &found[..7]);

    // Another key does not decrypt: every object names its key.
    let other = SecretKey::generate(&parameters, &mut rng);
    match Decryptor::new(&other)?.decrypt(&ciphertext) {
        Ok(_) => return Err("another key decrypted".into()),
        Err(error) => println!("with another key: {error}"),
    }
    Ok(())
}
