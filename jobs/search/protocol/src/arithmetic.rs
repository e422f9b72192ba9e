//! The server's arithmetic, for public and hidden places: slots modulo `t`, and noise that hides
//! noise.

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
    /// Bits of the uniform noise that hides the rest of a query's noise.
    pub(super) flood_bits: u32,
}

/// Standard deviations of the last rounding for which a flood leaves room. With six, all that
/// `search-40` had, one honest answer in some thousands was rejected.
const ROUNDINGS: f64 = 8.0;

impl Arithmetic {
    /// The arithmetic of these parameters; none for another scheme.
    ///
    /// # Errors
    /// [`EncodeError`] for a plaintext modulus without slots.
    pub(super) fn new(parameters: &LatticeParameters) -> Result<Option<Self>, EncodeError> {
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Ok(None) };
        let log2 = |value: u64| (value as f64).log2();
        let modulus: f64 = parameters.ring().data_primes().iter().map(|prime| log2(prime.modulus().value())).sum();
        // decryption fails from a quarter of the modulus on. The flood ends before that, because an
        // answer is rounded to one prime, with an error of this deviation for a secret of -1, 0 and
        // 1
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
