//! Lesson 1: numbers go in, a ciphertext comes out, and nobody without the key can read it.
//!
//! `cargo run --release -p tobari-lattice --example 1_encrypt`

#![allow(clippy::print_stdout, reason = "a lesson speaks")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_lattice::bgv::{Decryptor, Encoder, Encryptor};
use tobari_lattice::params::NamedSet;
use tobari_lattice::rlwe::{PublicKey, SecretKey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program takes its randomness from the operating system. A lesson must say the same each
    // time.
    let mut rng = ChaCha20Rng::from_seed([1; 32]);

    // Parameters first: they say how much can be computed, and how strong it is. They cannot be
    // weak.
    let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
    let security = parameters.security().ok_or("a toy")?;
    println!("{parameters:?}, {} bits of security", security.bits());

    // The secret key is 32 bytes from which everything else follows. The public key lets anybody
    // encrypt.
    let secret = SecretKey::generate(&parameters, &mut rng);
    let public = PublicKey::generate(&secret, &mut rng);

    // Messages are integers modulo 65,537, one in each of 16,384 slots.
    let encoder = Encoder::new(&parameters)?;
    let message = encoder.encode(&[3, 1, 4, 1, 5, -9])?;
    let ciphertext = Encryptor::new(&public)?.encrypt(&message, parameters.data_primes(), &mut rng);
    println!("a ciphertext with {:.0} bits to spare", ciphertext.noise_budget());

    let found = encoder.decode(&Decryptor::new(&secret)?.decrypt(&ciphertext)?);
    assert_eq!(found[..7], [3, 1, 4, 1, 5, -9, 0]);
    println!("decrypted: {:?} …", &found[..7]);

    // Another key finds nothing: whatever it decrypts has too much noise.
    let other = SecretKey::generate(&parameters, &mut rng);
    match Decryptor::new(&other)?.decrypt(&ciphertext) {
        Ok(_) => return Err("another key decrypted".into()),
        Err(error) => println!("with another key: {error}"),
    }
    Ok(())
}
