//! What a server needs to multiply and to rotate.

use super::OperationError;
use crate::params::LatticeParameters;
use crate::ring::Automorphism;
use crate::rlwe::{EvaluationKey, SecretKey};
use rand_core::CryptoRng;
use std::collections::BTreeMap;

/// A relinearisation key and Galois keys, each made for a level: it serves that level and all lower ones, and a key for
/// few primes is small. Public, under the assumption of circular security.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_core::ckks::EvaluationKeys;
/// use tobari_core::params::{LatticeParameters, Plaintext};
/// use tobari_core::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters);
/// keys.add_relinearization(&secret, 2, &mut rng)?;
/// keys.add_rotation(&secret, 1, 2, &mut rng)?;
/// keys.add_rotation(&secret, -1, 1, &mut rng)?; // for ciphertexts of level 1 only
/// keys.add_conjugation(&secret, 2, &mut rng)?;
/// assert_eq!(keys.rotations().collect::<Vec<_>>(), [(1, 2), (2047, 1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EvaluationKeys {
    parameters: LatticeParameters,
    relinearization: Option<EvaluationKey>,
    /// By step, from 1 to `N/2 - 1`.
    rotations: BTreeMap<usize, GaloisKey>,
    conjugation: Option<GaloisKey>,
}

/// A key from `s(X^g)` to `s`, and `X -> X^g`.
#[derive(Clone)]
pub(super) struct GaloisKey {
    pub(super) automorphism: Automorphism,
    pub(super) key: EvaluationKey,
}

impl EvaluationKeys {
    /// No keys.
    pub fn new(parameters: &LatticeParameters) -> Self {
        Self { parameters: parameters.clone(), relinearization: None, rotations: BTreeMap::new(), conjugation: None }
    }

    /// Adds the key for products of ciphertexts of at most this level.
    ///
    /// # Errors
    /// [`OperationError`] for a secret of other parameters, parameters without a special prime, or no such level.
    pub fn add_relinearization(
        &mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), OperationError> {
        self.check(secret, level)?;
        self.relinearization = Some(EvaluationKey::generate(secret, &secret.square(), level, rng));
        Ok(())
    }

    /// Adds the key for rotations by `step` of ciphertexts of at most this level; steps are modulo `N/2`.
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
        let (step, degree) = (self.step(step), self.parameters.degree());
        if step > 0 {
            let element = (0..step).fold(1, |power, _| power * 5 % (2 * degree));
            self.rotations.insert(step, GaloisKey::generate(secret, element, level, rng));
        }
        Ok(())
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
        let element = 2 * self.parameters.degree() - 1;
        self.conjugation = Some(GaloisKey::generate(secret, element, level, rng));
        Ok(())
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The steps from 1 to `N/2 - 1` that have keys, each with its level.
    pub fn rotations(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rotations.iter().map(|(step, galois)| (*step, galois.key.level()))
    }

    /// A step from 0 to `N/2 - 1`.
    pub(super) fn step(&self, step: i64) -> usize {
        // N/2 is a power of two, so that this is a remainder for negative steps, too
        step as usize & (self.parameters.degree() / 2 - 1)
    }

    pub(super) fn relinearization(&self, level: usize) -> Result<&EvaluationKey, OperationError> {
        let key = self.relinearization.as_ref().filter(|key| key.level() >= level);
        key.ok_or(OperationError::MissingKey { purpose: "relinearisation".into(), level })
    }

    /// For a step from 1 to `N/2 - 1`.
    pub(super) fn rotation(&self, step: usize, level: usize) -> Result<&GaloisKey, OperationError> {
        let galois = self.rotations.get(&step).filter(|galois| galois.key.level() >= level);
        galois.ok_or_else(|| OperationError::MissingKey { purpose: format!("rotation by {step}"), level })
    }

    pub(super) fn conjugation(&self, level: usize) -> Result<&GaloisKey, OperationError> {
        let galois = self.conjugation.as_ref().filter(|galois| galois.key.level() >= level);
        galois.ok_or(OperationError::MissingKey { purpose: "conjugation".into(), level })
    }

    fn check(&self, secret: &SecretKey, level: usize) -> Result<(), OperationError> {
        let most = self.parameters.data_primes();
        if *secret.parameters() != self.parameters {
            Err(OperationError::OtherParameters)
        } else if self.parameters.ring().special_primes().is_empty() {
            Err(OperationError::NoSpecialPrime)
        } else if !(1..=most).contains(&level) {
            Err(OperationError::Level { most, found: level })
        } else {
            Ok(())
        }
    }
}

impl GaloisKey {
    fn generate(secret: &SecretKey, element: usize, level: usize, rng: &mut impl CryptoRng) -> Self {
        let automorphism = Automorphism::new(secret.parameters().degree(), element);
        let key = EvaluationKey::generate(secret, &secret.rotated(&automorphism), level, rng);
        Self { automorphism, key }
    }
}
