//! Computing on ciphertexts.

use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Plaintext, PreparedPlaintext, modulus};
use super::factors::equal;
use super::keys::EvaluationKeys;
use crate::params::LatticeParameters;
use crate::ring::{Division, Eval, Modulus, Poly, Rounding};
use crate::rlwe::{self, Digits, EvaluationKey, GaloisKey, KeyId, KeySwitcher, OtherKey, norms};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Computes on ciphertexts of one set of parameters, without any secret.
///
/// It first brings two ciphertexts of different levels to the lower level, and two of different
/// factors to one factor.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::{ring::Modulus, rlwe::SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program asks the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45, 45], &[46], 3, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, 3, &mut rng)?;
/// keys.add_rotation(&secret, 1, 3, &mut rng)?;
/// let (encoder, decryptor) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let ciphertext = encoder.encode(&[3, 4, 5])?.encrypt_seeded(&secret, 3, &mut rng)?.expand();
///
/// // x · (x, one slot to the left)
/// let evaluator = Evaluator::new(&parameters)?;
/// let product = evaluator.mul(&ciphertext, &evaluator.rotate(&ciphertext, 1, &keys)?, &keys)?;
/// assert_eq!(encoder.decode(&decryptor.decrypt(&product)?)?[..2], [12, 20]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evaluator {
    parameters: LatticeParameters,
    t: Modulus,
    switcher: KeySwitcher,
    /// By the level after the division.
    divisions: Vec<OnceLock<Division>>,
}

/// A ciphertext cut into digits, for rotations by many steps, one at a time ([`Evaluator::hoist`]).
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::{ring::Modulus, rlwe::SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program asks the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[46], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters).with_rotation(&secret, 1, 2, &mut rng)?;
/// keys.add_rotation(&secret, 2, 2, &mut rng)?;
/// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let x = encoder.encode(&[3, 4, 5])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// let evaluator = Evaluator::new(&parameters)?;
/// let hoisted = evaluator.hoist(&x)?.into_owned();
/// for (steps, expected) in [(0, 3), (1, 4), (2, 5)] {
///     let rotated = evaluator.rotate_hoisted(&hoisted, steps, &keys)?;
///     assert_eq!(encoder.decode(&holder.decrypt(&rotated)?)?[0], expected);
/// }
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

    pub(super) fn digits(&self) -> &Digits {
        &self.digits
    }

    /// Bytes in memory, including the ciphertext.
    pub fn memory(&self) -> usize {
        self.ciphertext.memory() + self.digits.memory()
    }
}

/// Why an operation is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A key is missing, or is for lower levels.
    #[error("expected a key for {purpose} at level {level}, found {}", rlwe::found_key(*found))]
    MissingKey {
        /// The purpose of the key.
        purpose: String,
        /// The level of the ciphertext.
        level: usize,
        /// The level of the key; none without a key.
        found: Option<usize>,
    },
    /// No prime left to switch to.
    #[error("expected a level from 1 to {present}, found {wanted}")]
    Level {
        /// The ciphertext's.
        present: usize,
        /// The level asked for.
        wanted: usize,
    },
    /// A product that was not relinearised.
    #[error("expected a ciphertext of two parts, found a product that was not relinearised")]
    NotRelinearized,
    /// Nothing to compute with.
    #[error("expected {expected}, found none")]
    Empty {
        /// What is missing.
        expected: &'static str,
    },
    /// Weights that do not fit the ciphertexts.
    #[error("expected {expected} weights for each form, one for each pair of ciphertexts and constants, found {found}")]
    Weights {
        /// Weights of a form.
        expected: usize,
        /// Weights given.
        found: usize,
    },
    /// A value of other parameters.
    #[error("expected a value of this evaluator's parameters, found one of others")]
    Parameters,
    /// Ciphertexts or evaluation keys of two secret keys.
    #[error(transparent)]
    OtherKey(#[from] OtherKey),
    /// Parameters without a special prime: no key is possible.
    #[error("expected parameters with a special prime, found none: rotations need a set that has one")]
    NoSpecialPrime,
    /// A number without an inverse modulo `t`.
    #[error("expected a number that has an inverse modulo t, found {found}")]
    NotUnit {
        /// The number.
        found: i64,
    },
    /// A ciphertext from bytes, whose noise nobody has declared.
    #[error(
        "nothing is known about the noise of a ciphertext that was read from bytes: declare its bound before you flood \
         results with it (`declare_fresh` for what a client has just encrypted)"
    )]
    NoBound,
    /// Too many bits of flooding.
    #[error(
        "expected at most {most} bits of flooding beside the noise, found {found}: flood with fewer bits, compute less, \
         or encrypt at a higher level"
    )]
    Flooding {
        /// The most bits that fit below the modulus.
        most: u32,
        /// Bits asked for.
        found: u32,
    },
}

impl Evaluator {
    /// An evaluator for these parameters. Without a special prime there are no keys, and only
    /// operations without keys are possible.
    ///
    /// # Errors
    /// [`EncodeError::Approximate`] for those of another scheme.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, EncodeError> {
        let divisions = (0..parameters.data_primes()).map(|_| OnceLock::new()).collect();
        let (t, switcher) = (modulus(parameters)?, KeySwitcher::new(parameters));
        Ok(Self { parameters: parameters.clone(), t, switcher, divisions })
    }

    pub(super) fn check(&self, ciphertext: &Ciphertext) -> Result<(), EvaluateError> {
        if *ciphertext.parameters() == self.parameters { Ok(()) } else { Err(EvaluateError::Parameters) }
    }

    /// Rejects ciphertexts of two keys.
    pub(super) fn check_key<'a>(&self, all: impl IntoIterator<Item = &'a Ciphertext>) -> Result<(), EvaluateError> {
        KeyId::joined(all.into_iter().map(Ciphertext::key))?;
        Ok(())
    }

    /// Rejects parameters without a special prime: no key exists, so digits have no use.
    pub(super) fn check_special(&self) -> Result<(), EvaluateError> {
        let none = self.parameters.ring().special_primes().is_empty();
        if none { Err(EvaluateError::NoSpecialPrime) } else { Ok(()) }
    }

    pub(super) fn modulus(&self) -> &Modulus {
        &self.t
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    pub(super) fn switcher(&self) -> &KeySwitcher {
        &self.switcher
    }

    /// The same message over the first `level` data primes. The noise shrinks with the modulus.
    ///
    /// # Errors
    /// [`EvaluateError::Level`] unless the level is from 1 to the present one.
    pub fn to_level(&self, ciphertext: &Ciphertext, level: usize) -> Result<Ciphertext, EvaluateError> {
        self.check(ciphertext)?;
        if !(1..=ciphertext.level()).contains(&level) {
            return Err(EvaluateError::Level { present: ciphertext.level(), wanted: level });
        }
        Ok(self.at_level(ciphertext, level).into_owned())
    }

    /// The same message at this level, which is not above the present one.
    fn at_level<'a>(&self, ciphertext: &'a Ciphertext, level: usize) -> Cow<'a, Ciphertext> {
        let mut out = Cow::Borrowed(ciphertext);
        while out.level() > level {
            out = Cow::Owned(self.mod_switch(&out));
        }
        out
    }

    /// The same message at this level: divides by `divisions` primes, then drops rows without
    /// division. Dropping changes neither the noise nor the factor. It is for a ciphertext with no
    /// more noise than a division would leave.
    pub(super) fn dropped(&self, mut ciphertext: Ciphertext, level: usize, divisions: usize) -> Ciphertext {
        debug_assert!(level + divisions <= ciphertext.level(), "no more divisions than levels");
        for _ in 0..divisions {
            ciphertext = self.mod_switch(&ciphertext);
        }
        if ciphertext.level() > level {
            ciphertext.inner.truncate(level);
        }
        ciphertext
    }

    fn mod_switch(&self, ciphertext: &Ciphertext) -> Ciphertext {
        let (ring, level) = (self.parameters.ring(), ciphertext.level());
        let division =
            self.divisions[level - 1].get_or_init(|| Division::by_last(ring, level, Rounding::Congruent(self.t)));
        let parts = ciphertext.inner.parts().iter().map(|part| division.divide(part)).collect();
        self.divided(parts, ciphertext, ciphertext.norm)
    }

    /// The result of dividing this ciphertext by its last prime; `norm` is that of the quantity
    /// divided.
    fn divided(&self, parts: Vec<Poly<Eval>>, of: &Ciphertext, norm: f64) -> Ciphertext {
        let last = self.parameters.ring().data_primes()[parts[0].basis().data()].modulus().value();
        let rounding = norms::rounding(&self.parameters, parts.len());
        let inverse = self.t.inverse(last).unwrap_or_else(|| unreachable!("primes are prime to t"));
        Ciphertext::new(
            rlwe::Ciphertext::new(&self.parameters, of.key(), parts),
            self.t.mul(of.factor, inverse),
            norms::sum([norm - (last as f64).log2(), rounding]),
        )
    }

    /// Both at the lower of their levels.
    fn align<'a>(&self, a: &'a Ciphertext, b: &'a Ciphertext) -> Result<[Cow<'a, Ciphertext>; 2], EvaluateError> {
        self.check(a)?;
        self.check(b)?;
        self.check_key([a, b])?;
        let level = a.level().min(b.level());
        Ok([self.at_level(a, level), self.at_level(b, level)])
    }

    /// `a + b`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, EvaluateError> {
        let [a, mut b] = self.align(a, b)?;
        let norm = |a: &Ciphertext, b: &Ciphertext| norms::sum([a.norm, b.norm]);
        if a.factor == b.factor {
            return Ok(Ciphertext::new(a.inner.sum(&b.inner), a.factor, norm(&a, &b)));
        }
        let mut a = a.into_owned();
        self.equalise(&mut a, &mut b);
        a.inner.add_assign(&b.inner);
        a.set_norm(norm(&a, &b));
        Ok(a)
    }

    /// `a += b`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`]; then `a` is unchanged.
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), EvaluateError> {
        if a.level() != b.level() || a.factor != b.factor {
            *a = self.add(a, b)?;
            return Ok(());
        }
        self.check(a)?;
        self.check(b)?;
        self.check_key([&*a, b])?;
        a.inner.add_assign(&b.inner);
        a.set_norm(norms::sum([a.norm, b.norm]));
        Ok(())
    }

    /// `a - b`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, EvaluateError> {
        let [a, mut b] = self.align(a, b)?;
        let mut a = a.into_owned();
        self.equalise(&mut a, &mut b);
        a.inner.sub_assign(&b.inner);
        a.set_norm(norms::sum([a.norm, b.norm]));
        Ok(a)
    }

    /// Gives two ciphertexts one factor: each is multiplied by a number of [`equal`].
    fn equalise(&self, a: &mut Ciphertext, b: &mut Cow<'_, Ciphertext>) {
        if a.factor == b.factor {
            return;
        }
        let (u, v) = equal(&self.t, a.factor, b.factor);
        let factor = self.t.mul(a.factor, self.t.reduce_signed(u));
        for (ciphertext, scalar) in [(a, u), (b.to_mut(), v)] {
            ciphertext.inner.scale_assign(scalar);
            ciphertext.set_norm(ciphertext.norm + (scalar.unsigned_abs() as f64).log2());
            ciphertext.factor = factor;
        }
    }

    /// `-a`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        let mut out = a.clone();
        out.inner.neg_assign();
        Ok(out)
    }

    /// `factor` times a plaintext, over the primes of a level.
    fn element(&self, m: &Plaintext, factor: u64, level: usize) -> Result<Poly<Eval>, EvaluateError> {
        m.to_element(&self.parameters, factor, level, &self.t).map_err(|_| EvaluateError::Parameters)
    }

    /// `a + m`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn add_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        let mut out = a.clone();
        out.inner.add_phase(&self.element(m, a.factor, a.level())?);
        out.set_norm(norms::sum([a.norm, norms::message(&self.parameters)]));
        Ok(out)
    }

    /// `a` with an integer added in every slot.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn add_constant(&self, a: &Ciphertext, constant: i64) -> Result<Ciphertext, EvaluateError> {
        let mut coefficients = vec![0; self.parameters.degree()];
        coefficients[0] = self.t.centred(self.t.reduce_signed(constant));
        self.add_plain(a, &Plaintext::from_centred(&self.t, coefficients))
    }

    /// `a m`, slot by slot.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn mul_plain(&self, a: &Ciphertext, m: &Plaintext) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        let inner = a.inner.times(&self.element(m, 1, a.level())?);
        Ok(Ciphertext::new(inner, a.factor, a.norm + m.norm().max(1.0).log2()))
    }

    /// The same with a prepared plaintext.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`], or [`EvaluateError::Level`] for one of a lower level.
    pub fn mul_prepared(&self, a: &Ciphertext, m: &PreparedPlaintext) -> Result<Ciphertext, EvaluateError> {
        self.check_prepared(a, m)?;
        let inner = a.inner.times(&m.element);
        Ok(Ciphertext::new(inner, a.factor, a.norm + m.norm))
    }

    /// `a *= m`, likewise.
    ///
    /// # Errors
    /// As [`Self::mul_prepared`]; then `a` is unchanged.
    pub fn mul_prepared_assign(&self, a: &mut Ciphertext, m: &PreparedPlaintext) -> Result<(), EvaluateError> {
        self.check_prepared(a, m)?;
        a.inner.times_assign(&m.element);
        a.set_norm(a.norm + m.norm);
        Ok(())
    }

    pub(super) fn check_prepared(&self, a: &Ciphertext, m: &PreparedPlaintext) -> Result<(), EvaluateError> {
        self.check(a)?;
        if m.parameters != self.parameters {
            return Err(EvaluateError::Parameters);
        }
        let (present, wanted) = (m.level(), a.level());
        if wanted > present { Err(EvaluateError::Level { present, wanted }) } else { Ok(()) }
    }

    /// `a` times an integer, reduced modulo `t`.
    ///
    /// # Errors
    /// [`EvaluateError::Parameters`].
    pub fn mul_integer(&self, a: &Ciphertext, scalar: i64) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        let mut out = a.clone();
        let scalar = self.t.centred(self.t.reduce_signed(scalar));
        out.inner.scale_assign(scalar);
        out.set_norm(a.norm + (scalar.unsigned_abs().max(1) as f64).log2());
        Ok(out)
    }

    /// `a b` in three parts. Sums of such products can be relinearised once.
    ///
    /// # Errors
    /// [`EvaluateError`] for products that were not relinearised, or other parameters.
    pub fn tensor(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, EvaluateError> {
        if a.needs_relinearization() || b.needs_relinearization() {
            return Err(EvaluateError::NotRelinearized);
        }
        let [a, b] = self.align(a, b)?;
        let inner = a.inner.tensor(&b.inner);
        Ok(Ciphertext::new(inner, self.t.mul(a.factor, b.factor), norms::product(a.norm, b.norm)))
    }

    /// The same ciphertext in two parts.
    ///
    /// # Errors
    /// [`EvaluateError`] for a missing key, a key of a lower level, or other parameters.
    pub fn relinearize(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        if !a.needs_relinearization() {
            return Ok(a.clone());
        }
        let key = self.for_products(a.key(), a.level(), keys)?;
        let [c0, c1, c2] = a.inner.parts() else { unreachable!("three parts") };
        Ok(self.switched(self.switcher.relinearize([c0, c1, c2], key), a))
    }

    /// `a b`.
    ///
    /// # Errors
    /// As [`Self::tensor`] and [`Self::relinearize`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        self.relinearize(&self.tensor(a, b)?, keys)
    }

    /// `a b` over the last prime: [`Self::mul`] and [`Self::to_level`] one level down in less
    /// time, and rounded once.
    ///
    /// # Errors
    /// As [`Self::mul`], or [`EvaluateError::Level`] if there is one prime only.
    pub fn mul_mod_switch(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        self.relinearize_mod_switch(&self.tensor(a, b)?, keys)
    }

    /// A product over the last prime, in two parts: [`Self::relinearize`] and
    /// [`Self::to_level`] one level down in less time, and rounded once.
    ///
    /// # Errors
    /// As [`Self::relinearize`], or [`EvaluateError::Level`] if there is one prime only.
    pub fn relinearize_mod_switch(
        &self,
        product: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, EvaluateError> {
        self.check(product)?;
        let level = product.level();
        if level < 2 {
            return Err(EvaluateError::Level { present: level, wanted: 0 });
        }
        let [c0, c1, c2] = product.inner.parts() else { return Ok(self.mod_switch(product)) };
        let key = self.for_products(product.key(), level, keys)?;
        let parts = self.switcher.relinearize_and_divide([c0, c1, c2], key);
        let norm = norms::sum([product.norm, norms::switch(&self.parameters, level)]);
        Ok(self.divided(parts.into(), product, norm))
    }

    /// Rotates both rows: slot `j` gets the value of slot `j + steps`.
    ///
    /// # Errors
    /// As [`Self::relinearize`], or for a product that was not relinearised.
    pub fn rotate(&self, a: &Ciphertext, steps: i64, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        self.automorphism(a, rlwe::rotation(self.parameters.degree(), steps), keys)
    }

    /// Cuts a ciphertext into digits for [`Self::rotate_hoisted`]. It is most of a rotation's work.
    ///
    /// # Errors
    /// [`EvaluateError`] for a product that was not relinearised, parameters without a special
    /// prime, or other parameters.
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>, EvaluateError> {
        self.check(a)?;
        self.check_special()?;
        let [_, c1] = a.inner.parts() else { return Err(EvaluateError::NotRelinearized) };
        Ok(Hoisted { digits: self.switcher.digits(c1), ciphertext: Cow::Borrowed(a) })
    }

    /// As [`Self::rotate`], with the same result bit for bit.
    ///
    /// # Errors
    /// As [`Self::rotate`].
    pub fn rotate_hoisted(&self, a: &Hoisted, steps: i64, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        let (element, ciphertext) = (rlwe::rotation(self.parameters.degree(), steps), a.ciphertext());
        self.check(ciphertext)?;
        self.check_fit(ciphertext.key(), keys)?;
        let [c0, _] = ciphertext.inner.parts() else { return Err(EvaluateError::NotRelinearized) };
        if element == 1 {
            return Ok(ciphertext.clone());
        }
        let galois = self.galois(element, ciphertext, keys)?;
        Ok(self.switched(self.switcher.rotate_digits(c0, &a.digits, galois), ciphertext))
    }

    /// The rows swapped.
    ///
    /// # Errors
    /// As [`Self::rotate`].
    pub fn swap_rows(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        self.automorphism(a, rlwe::conjugation(self.parameters.degree()), keys)
    }

    fn automorphism(&self, a: &Ciphertext, element: usize, keys: &EvaluationKeys) -> Result<Ciphertext, EvaluateError> {
        self.check(a)?;
        self.check_fit(a.key(), keys)?;
        let [c0, c1] = a.inner.parts() else { return Err(EvaluateError::NotRelinearized) };
        if element == 1 {
            return Ok(a.clone());
        }
        let galois = self.galois(element, a, keys)?;
        Ok(self.switched(self.switcher.rotate([c0, c1], galois), a))
    }

    /// The key for products of a ciphertext of this level and this secret key.
    pub(super) fn for_products<'a>(
        &self,
        of: Option<KeyId>,
        level: usize,
        keys: &'a EvaluationKeys,
    ) -> Result<&'a EvaluationKey, EvaluateError> {
        self.check_fit(of, keys)?;
        let (key, purpose) = (keys.inner().for_products(), || "relinearisation".to_owned());
        let found = key.map(EvaluationKey::level);
        let fits = key.filter(|key| key.level() >= level);
        fits.ok_or_else(|| EvaluateError::MissingKey { purpose: purpose(), level, found })
    }

    /// The key for `X -> X^element`, which is not 1, of this ciphertext.
    pub(super) fn galois<'a>(
        &self,
        element: usize,
        a: &Ciphertext,
        keys: &'a EvaluationKeys,
    ) -> Result<&'a GaloisKey, EvaluateError> {
        self.check_fit(a.key(), keys)?;
        let (galois, level) = (keys.inner().for_automorphism(element), a.level());
        let found = galois.map(|galois| galois.key.level());
        let purpose = || rlwe::purpose(self.parameters.degree(), element);
        let fits = galois.filter(|galois| galois.key.level() >= level);
        fits.ok_or_else(|| EvaluateError::MissingKey { purpose: purpose(), level, found })
    }

    /// Rejects keys of other parameters, or of another secret.
    fn check_fit(&self, of: Option<KeyId>, keys: &EvaluationKeys) -> Result<(), EvaluateError> {
        if *keys.parameters() != self.parameters {
            return Err(EvaluateError::Parameters);
        }
        KeyId::joined([of, keys.id()])?;
        Ok(())
    }

    /// The result of a key switch of `a`.
    pub(super) fn switched(&self, parts: [Poly<Eval>; 2], a: &Ciphertext) -> Ciphertext {
        let norm = norms::sum([a.norm, norms::switch(&self.parameters, a.level())]);
        Ciphertext::new(rlwe::Ciphertext::new(&self.parameters, a.key(), parts.into()), a.factor, norm)
    }
}
