//! What a server computes with, whether places are public or hidden: slots modulo `t`, and noise to
//! hide noise.

use tobari_lattice::bgv::{EncodeError, Encoder, Evaluator};
use tobari_lattice::params::{self, LatticeParameters};
use tobari_lattice::ring::Modulus;

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

/// Deviations of the last rounding that a flood leaves room for. With six, which was all that
/// `search-40` had, one honest answer of some thousands was refused.
const ROUNDINGS: f64 = 8.0;

impl Arithmetic {
    /// Of these parameters; none for those of another scheme.
    ///
    /// # Errors
    /// [`EncodeError`] for a plaintext modulus without slots.
    pub(super) fn new(parameters: &LatticeParameters) -> Result<Option<Self>, EncodeError> {
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Ok(None) };
        let log2 = |value: u64| (value as f64).log2();
        let modulus: f64 = parameters.ring().data_primes().iter().map(|prime| log2(prime.modulus().value())).sum();
        // decryption ends at a quarter of the modulus, and the flood before it, for an answer is
        // rounded to one prime: by a number of this deviation, with a secret of -1, 0 and 1
        let first = parameters.ring().data_primes()[0].modulus().value() as f64;
        let rounding = t.value() as f64 * ((1.0 + parameters.degree() as f64 * 2.0 / 3.0) / 12.0).sqrt();
        let share = 0.25 - ROUNDINGS * rounding / first;
        Ok(Some(Self {
            parameters: parameters.clone(),
            t,
            encoder: Encoder::new(parameters)?,
            evaluator: Evaluator::new(parameters)?,
            flood_bits: (modulus + share.log2() - log2(t.value())).max(0.0) as u32,
        }))
    }
}
