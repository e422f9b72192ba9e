//! The keys that a server needs to multiply and to rotate.

use super::OperationError;
use crate::params::LatticeParameters;
use crate::rlwe::raise::RaiseKeys;
use crate::rlwe::{self, EvaluationKey, GaloisKey, KeyId, SecretKey};
use rand_core::CryptoRng;
use std::sync::Arc;

/// A relinearisation key and Galois keys, each made for a level. A key serves that level and all
/// lower ones, and a key for few primes is small. They are public, under the assumption of circular
/// security.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::EvaluationKeys;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, 2, &mut rng)?;
/// keys.add_rotation(&secret, 1, 2, &mut rng)?;
/// keys.add_rotation(&secret, -1, 1, &mut rng)?; // for ciphertexts of level 1 only
/// keys.add_conjugation(&secret, 2, &mut rng)?;
/// assert_eq!(keys.rotations().collect::<Vec<_>>(), [(1, 2), (2047, 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EvaluationKeys {
    parameters: LatticeParameters,
    inner: rlwe::EvaluationKeys,
    /// The pair of a refresh.
    raise: Option<Arc<RaiseKeys>>,
}

impl EvaluationKeys {
    /// No keys.
    pub fn new(parameters: &LatticeParameters) -> Self {
        Self::from_inner(parameters, rlwe::EvaluationKeys::default())
    }

    /// These keys, which must be for products, rotations and the conjugation only.
    pub(crate) fn from_inner(parameters: &LatticeParameters, inner: rlwe::EvaluationKeys) -> Self {
        Self { parameters: parameters.clone(), inner, raise: None }
    }

    pub(crate) fn inner(&self) -> &rlwe::EvaluationKeys {
        &self.inner
    }

    /// The identity of the secret key that they are of, if it is known.
    pub fn id(&self) -> Option<KeyId> {
        self.inner.id().or_else(|| self.raise.as_ref().and_then(|raise| raise.id()))
    }

    /// The pair of keys of a refresh.
    pub(crate) fn raise(&self) -> Option<&RaiseKeys> {
        self.raise.as_deref()
    }

    /// Takes the pair of keys of a refresh, which must be of the same secret.
    pub(crate) fn set_raise(&mut self, raise: RaiseKeys) {
        self.raise = Some(Arc::new(raise));
    }

    /// Whether these keys are the pair that raises a ciphertext in a
    /// [refresh](crate::refresh), and no others.
    pub fn is_raise(&self) -> bool {
        self.raise.is_some() && self.inner.memory() == 0
    }

    /// Moves the key for products into an object of its own.
    pub fn take_relinearization(&mut self) -> Option<Self> {
        self.inner.take_for_products().map(|inner| Self::from_inner(&self.parameters, inner))
    }

    /// Moves the key for rotations by `step` into an object of its own.
    pub fn take_rotation(&mut self, step: i64) -> Option<Self> {
        let element = rlwe::rotation(self.parameters.degree(), step);
        self.inner.take_for_automorphism(element).map(|inner| Self::from_inner(&self.parameters, inner))
    }

    /// The only key; none if there are several, or none.
    pub fn only(&self) -> Option<&EvaluationKey> {
        self.inner.only()
    }

    /// Takes the keys of another set. A key for the same product or rotation replaces the present
    /// one.
    ///
    /// # Errors
    /// [`OperationError`] for keys of other parameters or of another secret.
    pub fn merge(&mut self, other: Self) -> Result<(), OperationError> {
        if other.parameters != self.parameters {
            return Err(OperationError::OtherParameters);
        }
        KeyId::joined([self.id(), other.id()])?;
        self.join(other);
        Ok(())
    }

    /// Takes the keys of another set, which must be of the same secret.
    pub(crate) fn join(&mut self, other: Self) {
        self.inner.join(other.inner);
        self.raise = other.raise.or(self.raise.take());
    }

    /// Bytes of all keys in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory() + self.raise.as_ref().map_or(0, |raise| raise.memory())
    }

    /// Bytes in memory of a key for this level, before it exists.
    pub fn memory_of_key(parameters: &LatticeParameters, level: usize) -> usize {
        EvaluationKey::memory_at(parameters, level)
    }

    /// Adds the key for products of ciphertexts of at most this level.
    ///
    /// # Errors
    /// [`OperationError`] for a secret of other parameters or not that of the keys here, parameters
    /// without a special prime, or a level that does not exist.
    pub fn add_relinearization(
        &mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), OperationError> {
        self.check(secret, level)?;
        self.inner.generate_for_products(secret, level, rng);
        Ok(())
    }

    /// As [`Self::add_relinearization`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn with_relinearization(
        mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, OperationError> {
        self.add_relinearization(secret, level, rng)?;
        Ok(self)
    }

    /// Adds the key for rotations by `step` of ciphertexts of at most this level; steps are modulo
    /// `N/2`, and 0 needs no key.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn add_rotation(
        &mut self,
        secret: &SecretKey,
        step: i64,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), OperationError> {
        self.check(secret, level)?;
        if self.step(step) > 0 {
            let element = rlwe::rotation(self.parameters.degree(), step);
            self.inner.generate_for_automorphism(secret, element, level, rng);
        }
        Ok(())
    }

    /// As [`Self::add_rotation`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn with_rotation(
        mut self,
        secret: &SecretKey,
        step: i64,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, OperationError> {
        self.add_rotation(secret, step, level, rng)?;
        Ok(self)
    }

    /// Adds the key for conjugations of ciphertexts of at most this level.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn add_conjugation(
        &mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), OperationError> {
        self.check(secret, level)?;
        let element = rlwe::conjugation(self.parameters.degree());
        self.inner.generate_for_automorphism(secret, element, level, rng);
        Ok(())
    }

    /// As [`Self::add_conjugation`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn with_conjugation(
        mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, OperationError> {
        self.add_conjugation(secret, level, rng)?;
        Ok(self)
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The steps from 1 to `N/2 - 1` that have keys, each with its level.
    pub fn rotations(&self) -> impl Iterator<Item = (usize, usize)> {
        let with_key = |step| Some((step, self.by_step(step)?.key.level()));
        (1..self.parameters.degree() / 2).filter_map(with_key)
    }

    /// A step from 0 to `N/2 - 1`.
    pub(crate) fn step(&self, step: i64) -> usize {
        // N/2 is a power of two, so that this is a remainder for negative steps, too
        step as usize & (self.parameters.degree() / 2 - 1)
    }

    fn by_step(&self, step: usize) -> Option<&GaloisKey> {
        self.inner.for_automorphism(rlwe::rotation(self.parameters.degree(), step as i64))
    }

    pub(super) fn relinearization(&self, level: usize) -> Result<&EvaluationKey, OperationError> {
        let key = self.inner.for_products();
        let found = key.map(EvaluationKey::level);
        let fits = key.filter(|key| key.level() >= level);
        fits.ok_or_else(|| OperationError::MissingKey { purpose: "relinearisation".into(), level, found })
    }

    /// The key for a step from 1 to `N/2 - 1`.
    pub(crate) fn rotation(&self, step: usize, level: usize) -> Result<&GaloisKey, OperationError> {
        fitting(self.by_step(step), level, || format!("rotation by {step}"))
    }

    pub(super) fn conjugation(&self, level: usize) -> Result<&GaloisKey, OperationError> {
        let galois = self.inner.for_automorphism(rlwe::conjugation(self.parameters.degree()));
        fitting(galois, level, || "conjugation".to_owned())
    }

    pub(crate) fn check(&self, secret: &SecretKey, level: usize) -> Result<(), OperationError> {
        let most = self.parameters.data_primes();
        if *secret.parameters() != self.parameters {
            Err(OperationError::OtherParameters)
        } else if self.parameters.ring().special_primes().is_empty() {
            Err(OperationError::NoSpecialPrime)
        } else if !(1..=most).contains(&level) {
            Err(OperationError::Level { most, found: level })
        } else {
            KeyId::joined([self.id(), secret.id()])?;
            Ok(self.inner.check(secret)?)
        }
    }
}

/// The key, if there is one and its level suffices.
fn fitting(
    galois: Option<&GaloisKey>,
    level: usize,
    purpose: impl Fn() -> String,
) -> Result<&GaloisKey, OperationError> {
    let found = galois.map(|galois| galois.key.level());
    let fits = galois.filter(|galois| galois.key.level() >= level);
    fits.ok_or_else(|| OperationError::MissingKey { purpose: purpose(), level, found })
}
