//! Plaintexts that take only the memory of their coefficients.

use super::EngineError;
use tobari_lattice::bgv::{Plaintext, PreparedPlaintext};
use tobari_lattice::params::LatticeParameters;

/// A plaintext as its coefficients modulo `t`, in `[0, t)`, each in [`width`] bytes, the lowest
/// byte first. Each use prepares it again.
pub(super) struct Compact {
    pub(super) parameters: LatticeParameters,
    pub(super) level: u16,
    pub(super) bytes: Vec<u8>,
}

/// Bytes of a coefficient in memory: four where they suffice, otherwise a word.
pub(super) fn width(t: u64) -> usize {
    if t >> 32 == 0 { 4 } else { 8 }
}

impl Compact {
    pub(super) fn new(parameters: &LatticeParameters, level: u16, plaintext: &Plaintext) -> Self {
        let t = parameters.error_factor();
        // moves the centred coefficients to [0, t)
        let residues = plaintext.coefficients().iter().map(|c| c + (t as i64 & (c >> 63)));
        let mut bytes = Vec::with_capacity(parameters.degree() * width(t));
        match width(t) {
            4 => residues.for_each(|residue| bytes.extend_from_slice(&(residue as u32).to_le_bytes())),
            _ => residues.for_each(|residue| bytes.extend_from_slice(&residue.to_le_bytes())),
        }
        Self { parameters: parameters.clone(), level, bytes }
    }

    /// Reads such bytes. All coefficients must be below `t`.
    pub(super) fn read(parameters: &LatticeParameters, level: u16, bytes: &[u8]) -> Result<Self, EngineError> {
        let compact = Self { parameters: parameters.clone(), level, bytes: bytes.to_vec() };
        let t = parameters.error_factor() as i64;
        let below = compact.residues().iter().fold(true, |all, residue| all & (0..t).contains(residue));
        if below { Ok(compact) } else { Err(EngineError::Malformed("coefficient")) }
    }

    pub(super) fn residues(&self) -> Vec<i64> {
        match width(self.parameters.error_factor()) {
            4 => self.bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes).into()).collect(),
            _ => self.bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        }
    }

    pub(super) fn plaintext(&self) -> Result<Plaintext, EngineError> {
        Ok(Plaintext::from_coefficients(&self.parameters, &self.residues())?)
    }

    /// Prepares the plaintext for ciphertexts over so many primes.
    pub(super) fn prepare(&self, primes: usize) -> Result<PreparedPlaintext, EngineError> {
        Ok(PreparedPlaintext::new(&self.parameters, &self.plaintext()?, primes)?)
    }
}
