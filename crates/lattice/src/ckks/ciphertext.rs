//! Encrypted plaintexts.

use super::{OperationError, Plaintext, Scale};
use crate::params::LatticeParameters;
use crate::ring::{Coeff, Eval, Poly};
use crate::rlwe::{self, PublicKey, SecretKey};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// An encrypted message with its scale. Anybody can compute with it, with an
/// [`Evaluator`](super::Evaluator).
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Decryptor, Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// let encoder = Encoder::new(&parameters)?;
/// let ciphertext = encoder.encode(&[1.5, -2.0], &Scale::power_of_two(30), 2)?.encrypt(&public, &mut rng)?;
/// assert_eq!((ciphertext.level(), ciphertext.scale()), (2, &Scale::power_of_two(30)));
/// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&ciphertext)?;
/// assert!((slots[1] + 2.0).abs() < 1e-3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Ciphertext {
    inner: rlwe::Ciphertext,
    scale: Scale,
}

impl Ciphertext {
    pub(crate) fn new(inner: rlwe::Ciphertext, scale: Scale) -> Self {
        Self { inner, scale }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// Data primes left.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// The scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Is this a product whose third part has not been switched?
    pub fn needs_relinearization(&self) -> bool {
        self.inner.needs_relinearization()
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    pub(crate) fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    pub(super) fn inner_mut(&mut self) -> &mut rlwe::Ciphertext {
        &mut self.inner
    }

    pub(super) fn set_scale(&mut self, scale: Scale) {
        self.scale = scale;
    }

    pub(super) fn into_inner(self) -> (rlwe::Ciphertext, Scale) {
        (self.inner, self.scale)
    }

    /// Message and error, as values.
    pub(super) fn phase_values(&self, secret: &SecretKey) -> Result<Zeroizing<Poly<Eval>>, OperationError> {
        if self.parameters() != secret.parameters() {
            return Err(OperationError::OtherParameters);
        }
        Ok(secret.phase_values(&self.inner))
    }

    /// Message and error.
    pub(super) fn phase(&self, secret: &SecretKey) -> Result<Zeroizing<Poly<Coeff>>, OperationError> {
        if self.parameters() != secret.parameters() {
            return Err(OperationError::OtherParameters);
        }
        Ok(secret.phase(&self.inner))
    }
}

/// An encrypted message of which one half is a seed. The holder of the secret makes it.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let plaintext = Encoder::new(&parameters)?.encode(&[1.5], &Scale::power_of_two(30), 2)?;
/// let ciphertext = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
/// assert_eq!(ciphertext.level(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SeededCiphertext {
    inner: rlwe::SeededCiphertext,
    scale: Scale,
}

impl SeededCiphertext {
    pub(crate) fn new(inner: rlwe::SeededCiphertext, scale: Scale) -> Self {
        Self { inner, scale }
    }

    pub(crate) fn inner(&self) -> &rlwe::SeededCiphertext {
        &self.inner
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// Data primes.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// The scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Draws the second half from the seed.
    pub fn expand(&self) -> Ciphertext {
        Ciphertext { inner: self.inner.expand(), scale: self.scale.clone() }
    }
}

impl Plaintext {
    /// Encrypts under a public key. The error is `e_0 + e_1 s + u e`, about `√(4N/3)` times that of
    /// [`Self::encrypt_seeded`] in every coefficient.
    ///
    /// # Errors
    /// [`OperationError::OtherParameters`] for a key of other parameters.
    pub fn encrypt(&self, key: &PublicKey, rng: &mut impl CryptoRng) -> Result<Ciphertext, OperationError> {
        if self.parameters() != key.parameters() {
            return Err(OperationError::OtherParameters);
        }
        let mut inner = key.encrypt_zero(self.level(), rng);
        inner.add_phase(self.element());
        Ok(Ciphertext { inner, scale: self.scale().clone() })
    }

    /// Encrypts under the secret: half the bytes, and the least error.
    ///
    /// # Errors
    /// [`OperationError::OtherParameters`] for a key of other parameters.
    pub fn encrypt_seeded(
        &self,
        key: &SecretKey,
        rng: &mut impl CryptoRng,
    ) -> Result<SeededCiphertext, OperationError> {
        if self.parameters() != key.parameters() {
            return Err(OperationError::OtherParameters);
        }
        let mut inner = key.encrypt_zero(self.level(), rng);
        inner.add_phase(self.element());
        Ok(SeededCiphertext { inner, scale: self.scale().clone() })
    }
}
