//! Rotations, conjugates, and sums of slots.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::evaluator::{Evaluator, check_two_parts};
use super::keys::EvaluationKeys;
use crate::rlwe::{Digits, GaloisKey};
use std::borrow::Cow;

/// A ciphertext cut into digits, for rotations by many steps ([`Evaluator::hoist`]).
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters);
/// for step in 1..4 {
///     keys.add_rotation(&secret, step, 2, &mut rng)?;
/// }
/// let encoder = Encoder::new(&parameters)?.within(4.0);
/// let evaluator = Evaluator::new(&parameters)?;
/// let plaintext = encoder.encode(&[1.0, 2.0, 3.0, 4.0], &Scale::power_of_two(30), 2)?;
/// let x = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
/// let hoisted = evaluator.hoist(&x)?;
/// let mut sum = x.clone();
/// for step in 1..4 {
///     evaluator.add_assign(&mut sum, &evaluator.rotate_hoisted(&hoisted, step, &keys)?)?;
/// }
/// assert!((Decryptor::new(&secret, &encoder)?.decrypt(&sum)?[0] - 10.0).abs() < 1e-3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Hoisted<'a> {
    ciphertext: Cow<'a, Ciphertext>,
    digits: Digits,
}

impl Hoisted<'_> {
    /// The original ciphertext.
    pub fn ciphertext(&self) -> &Ciphertext {
        &self.ciphertext
    }

    /// Makes it own a copy of the ciphertext.
    pub fn into_owned(self) -> Hoisted<'static> {
        Hoisted { ciphertext: Cow::Owned(self.ciphertext.into_owned()), digits: self.digits }
    }

    /// Bytes in memory, including the ciphertext.
    pub fn memory(&self) -> usize {
        self.ciphertext.memory() + self.digits.memory()
    }
}
impl Evaluator {
    /// Moves slot `j + step` to slot `j`, cyclically. A negative step moves the other way.
    ///
    /// # Errors
    /// [`OperationError`] if parameters differ, it is a product of three parts, or there is no key
    /// for the step.
    pub fn rotate(&self, a: &Ciphertext, step: i64, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.check_keys(a, keys)?;
        check_two_parts(a)?;
        match keys.step(step) {
            0 => Ok(a.clone()),
            step => self.apply(a, keys.rotation(step, a.level())?),
        }
    }

    /// In slot `j` the sum of `count` slots from slot `j` on, cyclically; `count` is a power of
    /// two. With `count` equal to `N/2`, every slot has the sum of all. The keys are those for
    /// steps 1, 2, 4 … `count / 2`.
    ///
    /// # Errors
    /// As [`Self::rotate`], for another `count`, and if the sum might not fit.
    pub fn sum_slots(&self, a: &Ciphertext, count: usize, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        let most = self.parameters().degree() / 2;
        if !count.is_power_of_two() || count > most {
            return Err(OperationError::Count { most, found: count });
        }
        self.check(a)?;
        check_two_parts(a)?;
        let mut sum = a.clone();
        for log in 0..count.trailing_zeros() {
            let turned = self.rotate(&sum, 1 << log, keys)?;
            self.add_assign(&mut sum, &turned)?;
        }
        Ok(sum)
    }

    /// The conjugate of every slot.
    ///
    /// # Errors
    /// As [`Self::rotate`].
    pub fn conjugate(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.check_keys(a, keys)?;
        self.apply(a, keys.conjugation(a.level())?)
    }

    /// Cuts a ciphertext into digits for [`Self::rotate_hoisted`]. This is most of a rotation's
    /// work.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, or it is a product of three parts.
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>, OperationError> {
        self.check(a)?;
        check_two_parts(a)?;
        Ok(Hoisted { ciphertext: Cow::Borrowed(a), digits: self.switcher().digits(&a.inner().parts()[1]) })
    }

    /// As [`Self::rotate`], with the same result bit for bit.
    ///
    /// # Errors
    /// As [`Self::rotate`].
    pub fn rotate_hoisted(&self, a: &Hoisted, step: i64, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.check_keys(&a.ciphertext, keys)?;
        let step = keys.step(step);
        if step == 0 {
            return Ok(a.ciphertext().clone());
        }
        let galois = keys.rotation(step, a.ciphertext.level())?;
        let estimate = self.admit(self.estimator().switch(&self.bounds(&a.ciphertext)?))?;
        let parts = self.switcher().rotate_digits(&a.ciphertext.inner().parts()[0], &a.digits, galois);
        Ok(self.of_parts(a.ciphertext.key(), parts.into(), a.ciphertext.scale(), estimate))
    }

    /// Applies `X -> X^g` with a key that was checked, and switches back to the secret.
    fn apply(&self, a: &Ciphertext, galois: &GaloisKey) -> Result<Ciphertext, OperationError> {
        let [c0, c1] = a.inner().parts() else { return Err(OperationError::ThreeParts) };
        let estimate = self.admit(self.estimator().switch(&self.bounds(a)?))?;
        Ok(self.of_parts(a.key(), self.switcher().rotate([c0, c1], galois).into(), a.scale(), estimate))
    }
}
