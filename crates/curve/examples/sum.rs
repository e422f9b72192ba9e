//! Two people encrypt numbers, a server without a key adds them, and the key's owner reads the
//! sums.
//!
//! `cargo run --release --example sum`

use rand_core::SeedableRng;
use tobari_curve::Curve;
use tobari_curve::elgamal::{Decryptor, Encryptor, SecretKey};
use tobari_curve::params::{Parameters, SecurityFloor};

#[expect(clippy::print_stdout, reason = "an example that prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?; // randomness of the operating system
    let mut rng = chacha20::ChaCha20Rng::from_seed(seed);

    let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?;
    let key = SecretKey::generate(parameters, &mut rng);
    let encryptor = Encryptor::new(&key.public_key());
    let mut sum = encryptor.encrypt(&[3, -5], &mut rng)?;
    sum.add_assign(&encryptor.encrypt(&[4, 7], &mut rng)?)?; // on a server, without the key

    let found = Decryptor::new(&key, 1_000).vartime_decrypt(&sum)?;
    println!("3 + 4 and -5 + 7: {:?}", *found);
    assert_eq!(*found, [7, 2]);
    Ok(())
}
