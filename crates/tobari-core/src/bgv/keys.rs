//! Encryption, decryption, and the keys of an evaluator.

use super::ciphertext::{Ciphertext, SeededCiphertext};
use super::encode::{EncodeError, Plaintext, modulus};
use crate::params::LatticeParameters;
use crate::ring::{Automorphism, Conversion, Modulus};
use crate::rlwe::{EvaluationKey, PublicKey, SecretKey, norms};
use rand_core::CryptoRng;
use std::collections::BTreeMap;
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
        let inverse = self.t.factor(inverse);
        let coefficients = residues.iter().map(|residue| self.t.centred(self.t.mul_factor(*residue, inverse)));
        Plaintext::from_centred(coefficients.collect())
    }
}

/// What a server needs besides ciphertexts: public.
#[derive(Clone)]
pub struct EvaluationKeys {
    pub(super) relinearization: Option<EvaluationKey>,
    /// By the `g` of `X -> X^g`.
    pub(super) galois: BTreeMap<usize, (Automorphism, EvaluationKey)>,
}

impl EvaluationKeys {
    /// No key at all.
    pub fn none() -> Self {
        Self { relinearization: None, galois: BTreeMap::new() }
    }

    /// With one for products, at `level` and below.
    #[must_use]
    pub fn with_relinearization(mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Self {
        self.relinearization = Some(EvaluationKey::generate(secret, &secret.square(), level, rng));
        self
    }

    /// With one for rotations by `steps`, at `level` and below.
    #[must_use]
    pub fn with_rotation(self, secret: &SecretKey, steps: i64, level: usize, rng: &mut impl CryptoRng) -> Self {
        let element = rotation(secret.parameters(), steps);
        self.with_automorphism(secret, element, level, rng)
    }

    /// With one for swapping the rows, at `level` and below.
    #[must_use]
    pub fn with_swap(self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Self {
        let element = 2 * secret.parameters().degree() - 1;
        self.with_automorphism(secret, element, level, rng)
    }

    pub(crate) fn for_products(&self) -> Option<&EvaluationKey> {
        self.relinearization.as_ref()
    }

    /// By the `g` of `X -> X^g`, ascending.
    pub(crate) fn automorphisms(&self) -> impl Iterator<Item = (usize, &EvaluationKey)> {
        self.galois.iter().map(|(element, (_, key))| (*element, key))
    }

    pub(crate) fn and_products(self, key: EvaluationKey) -> Self {
        Self { relinearization: Some(key), ..self }
    }

    pub(crate) fn and_automorphism(mut self, element: usize, key: EvaluationKey) -> Self {
        let automorphism = Automorphism::new(key.parameters().degree(), element);
        self.galois.insert(element, (automorphism, key));
        self
    }

    fn with_automorphism(self, secret: &SecretKey, element: usize, level: usize, rng: &mut impl CryptoRng) -> Self {
        let automorphism = Automorphism::new(secret.parameters().degree(), element);
        self.and_automorphism(element, EvaluationKey::generate(secret, &secret.rotated(&automorphism), level, rng))
    }
}

/// `5^steps mod 2N`: the automorphism that moves slot `j + steps` to slot `j`.
pub(super) fn rotation(parameters: &LatticeParameters, steps: i64) -> usize {
    let degree = parameters.degree();
    let steps = steps.rem_euclid((degree / 2) as i64) as usize;
    (0..steps).fold(1, |power, _| power * 5 % (2 * degree))
}
