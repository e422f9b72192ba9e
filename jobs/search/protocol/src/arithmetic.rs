//! The server's arithmetic, for public and hidden places: slots modulo `t`, and noise that hides
//! noise.

use tobari_lattice::bgv::{Ciphertext, EncodeError, Encoder, Evaluator};
use tobari_lattice::params::{self, LatticeParameters};
use tobari_lattice::ring::Modulus;
use tobari_lattice::wire::rounded::{Sizes, decode_rounded, encode_rounded};
use tobari_lattice::wire::{self, LatticeWireError};

/// Encoder and evaluator of some parameters.
pub(super) struct Arithmetic {
    pub(super) parameters: LatticeParameters,
    /// The plaintext modulus.
    pub(super) t: Modulus,
    pub(super) encoder: Encoder,
    pub(super) evaluator: Evaluator,
    modulus: f64,
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
        Ok(Some(Self {
            parameters: parameters.clone(),
            t,
            encoder: Encoder::new(parameters)?,
            evaluator: Evaluator::new(parameters)?,
            modulus,
        }))
    }

    /// Bits of the flood that hides the rest of a query's noise: as many as an answer has room for.
    pub(super) fn flood_bits(&self) -> u32 {
        // decryption fails from a quarter of the modulus on. The flood ends before that, because an
        // answer is rounded to one prime, with an error of this deviation for a secret of -1, 0 and
        // 1, and then to fewer bits
        let first = self.parameters.ring().data_primes()[0].modulus().value() as f64;
        let t = self.t.value() as f64;
        let deviation = t * ((1.0 + self.parameters.degree() as f64 * 2.0 / 3.0) / 12.0).sqrt();
        let sent = Sizes::new(&self.parameters).map_or(0.0, |sizes| sizes.share());
        let share = 0.25 - ROUNDINGS * deviation / first - sent;
        (self.modulus + share.log2() - t.log2()).max(0.0) as u32
    }
}

/// Encodes a ciphertext of an answer: rounded, where that saves bytes.
///
/// # Errors
/// [`LatticeWireError::Transparent`] for a ciphertext that everybody can read.
pub(super) fn encode_part(part: &Ciphertext) -> Result<Vec<u8>, LatticeWireError> {
    match Sizes::new(part.parameters()) {
        Some(_) => encode_rounded(part),
        None => wire::encode_ciphertext(part),
    }
}

/// Decodes a ciphertext of an answer, over one prime.
///
/// # Errors
/// [`LatticeWireError`].
pub(super) fn decode_part(bytes: &[u8], parameters: &LatticeParameters) -> Result<Ciphertext, LatticeWireError> {
    let bytes = wire::without_identity(bytes)?;
    if Sizes::new(parameters).is_none() {
        return wire::decode_ciphertext(bytes, parameters);
    }
    decode_rounded(bytes, parameters)
}
