//! Encryption, decryption, and the keys of an evaluator.

use super::ciphertext::{Ciphertext, SeededCiphertext};
use super::encode::{EncodeError, Plaintext, centred, modulus};
use crate::params::LatticeParameters;
use crate::ring::{Conversion, Modulus};
use crate::rlwe::{self, EvaluationKey, PublicKey, SecretKey, norms};
use crate::simd::RingKernels;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// Encrypts under a public key.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_core::bgv::{Decryptor, Encoder, Encryptor};
/// use tobari_core::params::{LatticeParameters, Plaintext};
/// use tobari_core::ring::Modulus;
/// use tobari_core::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// let encoder = Encoder::new(&parameters)?;
/// let ciphertext = Encryptor::new(&public)?.encrypt(&encoder.encode(&[7, -7])?, 2, &mut rng);
/// let found = Decryptor::new(&secret)?.decrypt(&ciphertext);
/// assert_eq!(encoder.decode(&found)[..3], [7, -7, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encryptor<'a> {
    key: &'a PublicKey,
    t: Modulus,
}

impl<'a> Encryptor<'a> {
    /// With this key.
    ///
    /// # Errors
    /// [`EncodeError::Approximate`] for a key of another scheme.
    pub fn new(key: &'a PublicKey) -> Result<Self, EncodeError> {
        Ok(Self { key, t: modulus(key.parameters())? })
    }

    /// A fresh ciphertext over the first `level` data primes.
    ///
    /// # Panics
    /// Unless there are so many.
    pub fn encrypt(&self, plaintext: &Plaintext, level: usize, rng: &mut impl CryptoRng) -> Ciphertext {
        let parameters = self.key.parameters();
        let mut inner = self.key.encrypt_zero(level, rng);
        inner.add_phase(&Zeroizing::new(plaintext.to_element(parameters, 1, level, &self.t)));
        let norm = norms::sum([norms::public_error(parameters), norms::message(parameters)]);
        Ciphertext { inner, factor: 1, norm }
    }
}

/// Decrypts, and encrypts with half of each ciphertext being a seed.
pub struct Decryptor<'a> {
    key: &'a SecretKey,
    t: Modulus,
    /// By level.
    conversions: Vec<Conversion>,
}

impl<'a> Decryptor<'a> {
    /// With this key.
    ///
    /// # Errors
    /// [`EncodeError::Approximate`] for a key of another scheme.
    pub fn new(key: &'a SecretKey) -> Result<Self, EncodeError> {
        let t = modulus(key.parameters())?;
        let primes: Vec<Modulus> = key.parameters().ring().data_primes().iter().map(|prime| *prime.modulus()).collect();
        let conversions = (1..=primes.len()).map(|level| Conversion::new(&primes[..level], &[t])).collect();
        Ok(Self { key, t, conversions })
    }

    /// A fresh ciphertext over the first `level` data primes.
    ///
    /// # Panics
    /// Unless there are so many.
    pub fn encrypt(&self, plaintext: &Plaintext, level: usize, rng: &mut impl CryptoRng) -> SeededCiphertext {
        let parameters = self.key.parameters();
        let mut inner = self.key.encrypt_zero(level, rng);
        inner.add_phase(&Zeroizing::new(plaintext.to_element(parameters, 1, level, &self.t)));
        SeededCiphertext::new(inner)
    }

    /// `log2` of the largest coefficient of the phase, in absolute value: what [`Ciphertext::noise_bound`] bounds.
    ///
    /// # Panics
    /// If the ciphertext is of other parameters.
    pub fn noise(&self, ciphertext: &Ciphertext) -> f64 {
        self.key.noise(&ciphertext.inner).log2()
    }

    /// The message, which is right while [`Ciphertext::noise_budget`] is positive.
    ///
    /// # Panics
    /// If the ciphertext is of other parameters.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Plaintext {
        let phase = self.key.phase(&ciphertext.inner);
        let rows: Vec<&[u64]> = (0..ciphertext.level()).map(|row| phase.row(row)).collect();
        let mut residues = Zeroizing::new(vec![0; phase.ring().degree()]);
        self.conversions[ciphertext.level() - 1].apply(&rows, &mut [&mut residues[..]]);
        let inverse = self.t.inverse(ciphertext.factor).unwrap_or_else(|| unreachable!("factors are units"));
        (RingKernels::best().scale_assign)(&self.t, &mut residues, self.t.factor(inverse));
        Plaintext::from_centred(centred(&self.t, &residues))
    }
}

/// What a server needs besides ciphertexts: public.
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

    pub(super) fn generate(&mut self, secret: &SecretKey, element: usize, level: usize, rng: &mut impl CryptoRng) {
        self.inner.generate_for_automorphism(secret, element, level, rng);
    }

    /// Moves the key for products out, to an object of its own.
    pub fn take_relinearization(&mut self) -> Option<Self> {
        self.inner.take_for_products().map(Self::from_inner)
    }

    /// Moves the key for rotations by `steps` out, to an object of its own.
    pub fn take_rotation(&mut self, parameters: &LatticeParameters, steps: i64) -> Option<Self> {
        self.inner.take_for_automorphism(rlwe::rotation(parameters.degree(), steps)).map(Self::from_inner)
    }

    /// What of them serves ciphertexts of `level` data primes and fewer: smaller, and the keys that would have been made for that level from
    /// the same randomness, so that who has keys of a high level needs no others.
    ///
    /// # Panics
    /// If there is no such level.
    #[must_use]
    pub fn cut(&self, level: usize) -> Self {
        Self::from_inner(self.inner.cut(level))
    }

    /// The only key; none if there are several, or none.
    pub fn only(&self) -> Option<&EvaluationKey> {
        self.inner.only()
    }

    /// Bytes of all keys in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    /// With one for products, at `level` and below.
    #[must_use]
    pub fn with_relinearization(mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Self {
        self.inner.generate_for_products(secret, level, rng);
        self
    }

    /// With one for rotations by `steps`, at `level` and below.
    #[must_use]
    pub fn with_rotation(mut self, secret: &SecretKey, steps: i64, level: usize, rng: &mut impl CryptoRng) -> Self {
        let element = rlwe::rotation(secret.parameters().degree(), steps);
        self.inner.generate_for_automorphism(secret, element, level, rng);
        self
    }

    /// With one for swapping the rows, at `level` and below.
    #[must_use]
    pub fn with_swap(mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Self {
        let element = rlwe::conjugation(secret.parameters().degree());
        self.inner.generate_for_automorphism(secret, element, level, rng);
        self
    }
}
