//! What a server computes with, whether places are public or hidden: slots modulo `t`, and noise to hide noise.

use tobari_core::bgv::{EncodeError, Encoder, Evaluator};
use tobari_core::params::{self, LatticeParameters};
use tobari_core::ring::Modulus;

/// Encoder and evaluator of some parameters.
pub(super) struct Arithmetic {
    pub(super) parameters: LatticeParameters,
    /// The plaintext modulus.
    pub(super) t: Modulus,
    pub(super) encoder: Encoder,
    pub(super) evaluator: Evaluator,
    /// Bits of the uniform noise that hides what is left of a query's.
    pub(super) flood_bits: u32,
}

impl Arithmetic {
    /// Of these parameters; none for those of another scheme.
    ///
    /// # Errors
    /// [`EncodeError`] for a plaintext modulus without slots.
    pub(super) fn new(parameters: &LatticeParameters) -> Result<Option<Self>, EncodeError> {
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Ok(None) };
        let log2 = |value: u64| (value as f64).log2();
        let modulus: f64 = parameters.ring().data_primes().iter().map(|prime| log2(prime.modulus().value())).sum();
        Ok(Some(Self {
            parameters: parameters.clone(),
            t,
            encoder: Encoder::new(parameters)?,
            evaluator: Evaluator::new(parameters)?,
            // it stays below a quarter of the modulus: half of what decryption can bear
            flood_bits: (modulus - 2.0 - log2(t.value())).max(0.0) as u32,
        }))
    }
}
