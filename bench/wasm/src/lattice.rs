//! Symmetric encryption of approximate numbers at `N = 2^13` with five primes (set `infer-f`), as an image leaves a browser. The
//! randomness is a fixed seed's: for timing only.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::cell::RefCell;
use tobari_core::ckks::{Decryptor, Encoder, Scale, SeededCiphertext};
use tobari_core::params::NamedSet;
use tobari_core::rlwe::SecretKey;

struct State {
    rng: ChaCha20Rng,
    secret: SecretKey,
    encoder: Encoder,
    values: Vec<f64>,
    last: Option<SeededCiphertext>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Makes a key and tables; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn lattice_prepare() -> u32 {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let set = NamedSet::from_name("infer-f");
    let Some(parameters) = set.and_then(|set| set.parameters().ok()) else { return 0 };
    let secret = SecretKey::generate(&parameters, &mut rng);
    let Ok(encoder) = Encoder::new(&parameters) else { return 0 };
    let values = (0..encoder.slots()).map(|slot| (slot % 256) as f64 / 256.0).collect();
    STATE.set(Some(State { rng, secret, encoder, values, last: None }));
    1
}

/// Encodes and encrypts; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn lattice_encrypt() -> u32 {
    STATE.with_borrow_mut(|state| {
        let Some(State { rng, secret, encoder, values, last }) = state else { return 0 };
        let level = secret.parameters().data_primes();
        let plaintext = encoder.encode(values, &Scale::power_of_two(26), level).ok();
        *last = plaintext.and_then(|plaintext| plaintext.encrypt_seeded(secret, rng).ok());
        u32::from(last.is_some())
    })
}

/// Decrypts the last one; 1 if it is what went in, to ten bits.
#[unsafe(no_mangle)]
pub extern "C" fn lattice_check() -> u32 {
    STATE.with_borrow(|state| {
        let Some(State { secret, encoder, values, last: Some(last), .. }) = state else { return 0 };
        let found = Decryptor::new(secret, encoder).ok().and_then(|decryptor| decryptor.decrypt(&last.expand()).ok());
        let near = |found: &[f64]| found.iter().zip(values).all(|(found, value)| (found - value).abs() < 1.0 / 1024.0);
        u32::from(found.is_some_and(|found| near(&found)))
    })
}
