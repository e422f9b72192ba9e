//! The keys of an evaluator.

use crate::params::LatticeParameters;
use crate::rlwe::{self, EvaluationKey, KeyId, OtherKey, SecretKey};
use rand_core::CryptoRng;

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
    /// A secret of other parameters.
    #[error("expected a secret key of the same parameters, found one of others")]
    OtherParameters,
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

/// The keys that a server needs to compute on ciphertexts: each is made for a level, and serves
/// that level and all lower ones. They are public, under the assumption of circular security.
///
/// Each kind of key is added in place, or to a set that is passed on: both are shown here.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::EvaluationKeys;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// // a program takes its randomness from the system
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, 2, &mut rng)?;
/// for step in 1..4 {
///     keys.add_rotation(&secret, step, 2, &mut rng)?;
/// }
/// assert_eq!(keys.id(), secret.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EvaluationKeys {
    parameters: LatticeParameters,
    inner: rlwe::EvaluationKeys,
}

impl EvaluationKeys {
    /// No keys.
    pub fn new(parameters: &LatticeParameters) -> Self {
        Self::from_inner(parameters, rlwe::EvaluationKeys::default())
    }

    pub(crate) fn from_inner(parameters: &LatticeParameters, inner: rlwe::EvaluationKeys) -> Self {
        Self { parameters: parameters.clone(), inner }
    }

    pub(crate) fn inner(&self) -> &rlwe::EvaluationKeys {
        &self.inner
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The identity of the secret key that they are of, if it is known.
    pub fn id(&self) -> Option<KeyId> {
        self.inner.id()
    }

    /// Moves the key for products into an object of its own.
    pub fn take_relinearization(&mut self) -> Option<Self> {
        self.inner.take_for_products().map(|inner| Self::from_inner(&self.parameters, inner))
    }

    /// Moves the key for rotations by `steps` into an object of its own.
    pub fn take_rotation(&mut self, steps: i64) -> Option<Self> {
        let element = rlwe::rotation(self.parameters.degree(), steps);
        self.inner.take_for_automorphism(element).map(|inner| Self::from_inner(&self.parameters, inner))
    }

    /// The part of these keys that serves ciphertexts of `level` data primes and fewer. It is
    /// smaller, and equals the keys made for that level from the same randomness, so keys of a high
    /// level are enough for all.
    ///
    /// # Errors
    /// [`KeyError::Level`] for level 0.
    pub fn cut(&self, level: usize) -> Result<Self, KeyError> {
        if level == 0 {
            return Err(KeyError::Level { most: self.inner.level(), found: 0 });
        }
        Ok(Self::from_inner(&self.parameters, self.inner.cut(level)))
    }

    /// The only key; none if there are several, or none.
    pub fn only(&self) -> Option<&EvaluationKey> {
        self.inner.only()
    }

    /// Bytes of all keys in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    /// Adds the key for products of ciphertexts of at most this level.
    ///
    /// # Errors
    /// [`KeyError`] for a secret of other parameters or not that of the keys here, parameters
    /// without a special prime, or a level that does not exist.
    pub fn add_relinearization(
        &mut self,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), KeyError> {
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
    ) -> Result<Self, KeyError> {
        self.add_relinearization(secret, level, rng)?;
        Ok(self)
    }

    /// Adds the key for rotations by `steps` of ciphertexts of at most this level; steps are modulo
    /// `N/2`, and 0 needs no key.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn add_rotation(
        &mut self,
        secret: &SecretKey,
        steps: i64,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), KeyError> {
        self.add_automorphism(secret, rlwe::rotation(self.parameters.degree(), steps), level, rng)
    }

    /// As [`Self::add_rotation`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn with_rotation(
        mut self,
        secret: &SecretKey,
        steps: i64,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, KeyError> {
        self.add_rotation(secret, steps, level, rng)?;
        Ok(self)
    }

    /// Adds the key for swapping the rows of ciphertexts of at most this level.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn add_swap(&mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Result<(), KeyError> {
        self.add_automorphism(secret, rlwe::conjugation(self.parameters.degree()), level, rng)
    }

    /// As [`Self::add_swap`], of a set that is passed on.
    ///
    /// # Errors
    /// As [`Self::add_relinearization`].
    pub fn with_swap(mut self, secret: &SecretKey, level: usize, rng: &mut impl CryptoRng) -> Result<Self, KeyError> {
        self.add_swap(secret, level, rng)?;
        Ok(self)
    }

    /// Adds the key for `X -> X^element`; `X -> X` needs none.
    pub(super) fn add_automorphism(
        &mut self,
        secret: &SecretKey,
        element: usize,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), KeyError> {
        self.check(secret, level)?;
        if element != 1 {
            self.inner.generate_for_automorphism(secret, element, level, rng);
        }
        Ok(())
    }

    fn check(&self, secret: &SecretKey, level: usize) -> Result<(), KeyError> {
        let most = self.parameters.data_primes();
        if *secret.parameters() != self.parameters {
            Err(KeyError::OtherParameters)
        } else if self.parameters.ring().special_primes().is_empty() {
            Err(KeyError::NoSpecialPrime)
        } else if !(1..=most).contains(&level) {
            Err(KeyError::Level { most, found: level })
        } else {
            Ok(self.inner.check(secret)?)
        }
    }
}
