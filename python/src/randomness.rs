//! Randomness from the system, expanded by ChaCha20.

use crate::errors::failed;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use pyo3::PyResult;
use zeroize::Zeroizing;

/// A new generator, seeded with 256 bits from the system.
///
/// # Errors
/// `tobari.Error` where the system has none.
pub(crate) fn generator() -> PyResult<ChaCha20Rng> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| failed(format!("no randomness from the system: {error}")))?;
    Ok(ChaCha20Rng::from_seed(*seed))
}
