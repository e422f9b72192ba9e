//! Encryption, and the keys of an evaluator.

use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Plaintext, modulus};
use crate::params::LatticeParameters;
use crate::ring::Modulus;
use crate::rlwe::{self, EvaluationKey, KeyId, OtherKey, PublicKey, SecretKey, norms};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// Encrypts under a public key.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, Encryptor};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// let encoder = Encoder::new(&parameters)?;
/// let ciphertext = Encryptor::new(&public)?.encrypt(&encoder.encode(&[7, -7])?, 2, &mut rng)?;
/// let found = Decryptor::new(&secret)?.decrypt(&ciphertext)?;
/// assert_eq!(encoder.decode(&found)[..3], [7, -7, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encryptor<'a> {
    key: &'a PublicKey,
    t: Modulus,
}

impl<'a> Encryptor<'a> {
    /// An encryptor with this key.
    ///
    /// # Errors
    /// [`EncodeError::Approximate`] for a key of another scheme.
    pub fn new(key: &'a PublicKey) -> Result<Self, EncodeError> {
        Ok(Self { key, t: modulus(key.parameters())? })
    }

    /// A fresh ciphertext over the first `level` data primes.
    ///
    /// # Errors
    /// [`EncodeError`] for a level that does not exist, or a plaintext of other parameters.
    pub fn encrypt(
        &self,
        plaintext: &Plaintext,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Ciphertext, EncodeError> {
        let parameters = self.key.parameters();
        let message = Zeroizing::new(plaintext.to_element(parameters, 1, level, &self.t)?);
        let mut inner = self.key.encrypt_zero(level, rng);
        inner.add_phase(&message);
        let norm = norms::sum([norms::public_error(parameters), norms::message(parameters)]);
        Ok(Ciphertext::new(inner, 1, norm))
    }
}

/// Why an evaluation key cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The parameters have no special prime, which keys need.
    #[error("expected parameters with a special prime, found none: products and rotations need a set that has one")]
    NoSpecialPrime,
    /// A level that does not exist.
    #[error("expected a level from 1 to {most} for a key, found {found}")]
    Level {
        /// Data primes.
        most: usize,
        /// The level given.
        found: usize,
    },
    /// Keys of two secret keys in one object.
    #[error(transparent)]
    OtherKey(#[from] OtherKey),
    /// More steps of an expansion than there are.
    #[error("expected at most {most} steps of an expansion, found {found}")]
    Depth {
        /// `log2 N`.
        most: usize,
        /// The steps given.
        found: usize,
    },
}

/// The keys that a server needs to compute on ciphertexts. They are public.
#[derive(Clone)]
pub struct EvaluationKeys {
    inner: rlwe::EvaluationKeys,
}

impl EvaluationKeys {
    /// No key at all.
    pub fn none() -> Self {
        Self::from_inner(rlwe::EvaluationKeys::default())
    }

    pub(crate) fn from_inner(inner: rlwe::EvaluationKeys) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &rlwe::EvaluationKeys {
        &self.inner
    }

    /// The identity of the secret key that they are of, if it is known.
    pub fn id(&self) -> Option<KeyId> {
        self.inner.id()
    }

    /// Adds the key for `X -> X^element`.
    pub(super) fn generate(
        &mut self,
        secret: &SecretKey,
        element: usize,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), KeyError> {
        self.check(secret, level)?;
        self.inner.generate_for_automorphism(secret, element, level, rng);
        Ok(())
    }

    /// Moves the key for products into an object of its own.
    pub fn take_relinearization(&mut self) -> Option<Self> {
        self.inner.take_for_products().map(Self::from_inner)
    }

    /// Moves the key for rotations by `steps` into an object of its own.
    pub fn take_rotation(&mut self, parameters: &LatticeParameters, steps: i64) -> Option<Self> {
        self.inner.take_for_automorphism(rlwe::rotation(parameters.degree(), steps)).map(Self::from_inner)
    }

    /// The part of these keys that serves ciphertexts of `level` data primes and fewer. It is
    /// smaller, and equals the keys made for that level from the same randomness, so keys of a high
    /// level are enough for all.
    ///
    /// # Errors
    /// [`KeyError::Level`] for level 0.
    pub fn cut(&self, level: usize) -> Result<Self, KeyError> {
        let most = self.inner.level();
        if level == 0 { Err(KeyError::Level { most, found: 0 }) } else { Ok(Self::from_inner(self.inner.cut(level))) }
    }

    /// The only key; none if there are several, or none.
    pub fn only(&self) -> Option<&EvaluationKey> {
        self.inner.only()
    }

    /// Bytes of all keys in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    /// Adds a key for products, at `level` and below.
    ///
    /// # Errors
    /// [`KeyError`] for parameters without a special prime, a level that does not exist, or a
    /// secret that is not that of the keys here.
    pub fn with_relinearization(
        mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, KeyError> {
        self.check(secret, level)?;
        self.inner.generate_for_products(secret, level, rng);
        Ok(self)
    }

    /// Adds a key for rotations by `steps`, at `level` and below.
    ///
    /// # Errors
    /// As [`Self::with_relinearization`].
    pub fn with_rotation(
        mut self,
        secret: &SecretKey,
        steps: i64,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, KeyError> {
        self.generate(secret, rlwe::rotation(secret.parameters().degree(), steps), level, rng)?;
        Ok(self)
    }

    /// Adds a key for swapping the rows, at `level` and below.
    ///
    /// # Errors
    /// As [`Self::with_relinearization`].
    pub fn with_swap(mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Result<Self, KeyError> {
        self.generate(secret, rlwe::conjugation(secret.parameters().degree()), level, rng)?;
        Ok(self)
    }

    fn check(&self, secret: &SecretKey, level: usize) -> Result<(), KeyError> {
        let most = secret.parameters().data_primes();
        if secret.parameters().ring().special_primes().is_empty() {
            Err(KeyError::NoSpecialPrime)
        } else if !(1..=most).contains(&level) {
            Err(KeyError::Level { most, found: level })
        } else {
            Ok(self.inner.check(secret)?)
        }
    }
}
