//! Symmetric encryption of approximate numbers at `N = 2^13` with five primes (set `infer-f`), as
//! an image leaves a browser. The randomness is a fixed seed's: for timing only.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use std::cell::RefCell;
use tobari_lattice::ckks::{Decryptor, Encoder, Scale, SeededCiphertext};
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::{Modulus, Ntt, primes_below};
use tobari_lattice::rlwe::SecretKey;
use tobari_simd::{Backend, choose_backend};
use tobari_lattice::wire::encode_ckks_seeded_ciphertext;

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
        *last = encoder.encrypt_seeded(values, &Scale::power_of_two(26), level, secret, rng).ok();
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

/// Encodes and encrypts once more, decrypts nothing, and gives a digest of the ciphertext's
/// residues; 0 if something was refused. The same on every backend, after as many encryptions.
#[unsafe(no_mangle)]
pub extern "C" fn lattice_digest() -> u64 {
    if lattice_encrypt() != 1 {
        return 0;
    }
    STATE.with_borrow(|state| match state {
        Some(State { last: Some(last), .. }) => {
            encode_ckks_seeded_ciphertext(last).iter().fold(1, |sum, byte| digest(sum, u64::from(*byte)))
        }
        _ => 0,
    })
}

/// Chooses the portable loops, of this instance of the module; 1 if that came in time.
#[unsafe(no_mangle)]
pub extern "C" fn choose_portable() -> u32 {
    u32::from(choose_backend(Backend::Portable).is_ok())
}

thread_local! {
    static TRANSFORM: RefCell<Option<(Ntt, Vec<u64>)>> = const { RefCell::new(None) };
}

/// Makes the tables of transforms of length `2^log` modulo the largest prime of `bits` bits, and
/// numbers; 1 if there is one.
#[unsafe(no_mangle)]
pub extern "C" fn transform_prepare(log: u32, bits: u32) -> u32 {
    let modulus = primes_below(bits, 2 << log).next().and_then(Modulus::new);
    let Some(ntt) = modulus.and_then(|modulus| Ntt::new(modulus, 1 << log)) else { return 0 };
    let (q, mut state) = (ntt.modulus().value(), 1u64);
    let values = (0..1 << log).map(|place| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // extreme ones among them
        if place % 5 == 0 { q - 1 } else { (state >> 14) % q }
    });
    let values = values.collect();
    TRANSFORM.set(Some((ntt, values)));
    1
}

/// A transform, back if `inverse` is 1; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn transform(inverse: u32) -> u32 {
    TRANSFORM.with_borrow_mut(|state| {
        let Some((ntt, values)) = state else { return 0 };
        if inverse == 1 {
            ntt.inverse(values)
        } else {
            ntt.forward(values)
        }
        1
    })
}

/// A digest of the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn transform_digest() -> u64 {
    TRANSFORM.with_borrow(|state| state.iter().flat_map(|(_, values)| values).fold(1, |sum, value| digest(sum, *value)))
}

fn digest(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}
