//! Ciphertexts with their factor and a bound on their noise.

use crate::params::LatticeParameters;
use crate::rlwe::{self, norms};

/// Units of a noise bound in a bit: a power of two, so that a decoded bound encodes to the same
/// bytes.
pub(crate) const BOUND_UNITS: f64 = 1024.0;

/// A ciphertext of a polynomial modulo `t`.
#[derive(Clone)]
pub struct Ciphertext {
    pub(super) inner: rlwe::Ciphertext,
    /// `κ`.
    pub(super) factor: u64,
    /// `log2` of a bound on the phase's canonical norm.
    pub(super) norm: f64,
}

impl Ciphertext {
    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// A ciphertext with a factor that is prime to `t`, and a noise bound.
    pub(crate) fn new(inner: rlwe::Ciphertext, factor: u64, norm: f64) -> Self {
        Self { inner, factor, norm }
    }

    pub(crate) fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    /// `κ`.
    pub fn factor(&self) -> u64 {
        self.factor
    }

    /// Data primes left.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// Is this a product that has not been relinearised?
    pub fn needs_relinearization(&self) -> bool {
        self.inner.needs_relinearization()
    }

    /// `log2` of a bound on every coefficient of the phase. The bound fails with a chance of about
    /// `2^-36` for each operation.
    pub fn noise_bound(&self) -> f64 {
        self.norm
    }

    /// The bound as encoded in bytes: in units of 2^-10, rounded up.
    pub(crate) fn bound_units(&self) -> u32 {
        (BOUND_UNITS * self.norm).ceil().clamp(0.0, f64::from(u32::MAX)) as u32
    }

    /// Rounds the bound up to its encoded value, by less than 2^-10 of a bit. Encoding and decoding
    /// then give the same ciphertext, and so do all results computed from it.
    #[must_use]
    pub fn with_written_bound(mut self) -> Self {
        self.norm = f64::from(self.bound_units()) / BOUND_UNITS;
        self
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    /// Bits between the bound and `Q/4`. Decryption is right while the budget is positive, and an
    /// error otherwise.
    pub fn noise_budget(&self) -> f64 {
        let primes = &self.parameters().ring().data_primes()[..self.level()];
        primes.iter().map(|prime| (prime.modulus().value() as f64).log2()).sum::<f64>() - 2.0 - self.norm
    }
}

/// A fresh ciphertext made with the secret key: half of it is a seed.
#[derive(Clone)]
pub struct SeededCiphertext {
    pub(super) inner: rlwe::SeededCiphertext,
    pub(super) norm: f64,
}

impl SeededCiphertext {
    /// A fresh ciphertext, with the bound of one.
    pub(crate) fn new(inner: rlwe::SeededCiphertext) -> Self {
        let parameters = inner.parameters();
        let norm = norms::sum([norms::secret_error(parameters), norms::message(parameters)]);
        Self { inner, norm }
    }

    pub(crate) fn inner(&self) -> &rlwe::SeededCiphertext {
        &self.inner
    }

    /// Draws the second half from the seed.
    pub fn expand(&self) -> Ciphertext {
        Ciphertext { inner: self.inner.expand(), factor: 1, norm: self.norm }
    }

    /// Data primes.
    pub fn level(&self) -> usize {
        self.inner.level()
    }
}
