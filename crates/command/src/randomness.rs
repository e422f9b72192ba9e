//! Randomness from the system, expanded by ChaCha20.

use crate::output::Failure;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use zeroize::Zeroizing;

/// A new generator, seeded with 256 bits from the system.
pub fn generator() -> Result<ChaCha20Rng, Failure> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| Failure::Work(format!("no randomness from the system: {error}")))?;
    Ok(ChaCha20Rng::from_seed(*seed))
}
