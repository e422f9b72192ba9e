//! Computing with ciphertexts, on the server.
//!
//! | operation | slots | scale | level | error in the slots, times the scale of the result |
//! |---|---|---|---|---|
//! | `add`, `sub` | `a ± b` | the same | the lower one | the sum |
//! | `mul_plain` | `a p` | product | the same | `p`'s scale times `a`'s, `a`'s times `p`'s |
//! | `mul`, `tensor` | `a b` | product | the lower one | as `mul_plain`; `mul` adds a key switch's |
//! | `mul_reduced` | `a b` | about the smaller one | one less or more | that of both |
//! | `rescale` | `a` | over the last prime | one less | a rounding: 1/2 in each part, the second times `s` |
//! | `rotate`, `conjugate` | moved | the same | the same | that of a key switch |
//! | `to_level` | `a` | the same | as asked | none |
//!
//! [`Estimate`] has the numbers, and every ciphertext carries its own. An
//! operation whose result might not fit the modulus is an error ([`OperationError::Overflow`]).
//!
//! **Levels are aligned, scales are not.** Of two ciphertexts, the one of the higher level is taken
//! at the lower level, as in [`bgv`](crate::bgv): that costs no error. A sum or a difference of
//! different scales is an error, because another scale costs a level ([`Evaluator::align`]). Apart
//! from `mul_reduced`, nothing is rescaled implicitly: the author of a circuit decides on the use
//! of its levels. Long sums (`dot_plain`, `tensor_sums`, `weighted_sums`) take ciphertexts of one
//! level.

use super::OperationError;
use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Plaintext, constant};
use super::keys::EvaluationKeys;
use super::precision::{Estimate, Estimator};
use super::scale::{Magnitude, Scale};
use crate::params::{self, LatticeParameters};
use crate::ring::{Division, Eval, Poly, Rounding};
use crate::rlwe::{self, KeyId, KeySwitcher};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Two ciphertexts, borrowed where they are as needed.
type Pair<'a, 'b> = (Cow<'a, Ciphertext>, Cow<'b, Ciphertext>);

/// Computes with ciphertexts of one set of parameters. It holds no secret.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[50, 40, 40], &[50], 3, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// let mut keys = EvaluationKeys::new(&parameters);
/// keys.add_relinearization(&secret, 3, &mut rng)?;
/// keys.add_rotation(&secret, 1, 2, &mut rng)?;
///
/// let encoder = Encoder::new(&parameters)?.within(3.0);
/// let evaluator = Evaluator::new(&parameters)?;
/// let x = encoder.encode(&[1.0, 2.0, 3.0], &Scale::power_of_two(40), 3)?.encrypt(&public, &mut rng)?;
/// // x², and then in each slot the sum with the next one
/// let square = evaluator.rescale(&evaluator.mul(&x, &x, &keys)?)?;
/// let sum = evaluator.add(&square, &evaluator.rotate(&square, 1, &keys)?)?;
/// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&sum)?;
/// assert!((slots[0] - 5.0).abs() < 1e-4 && (slots[1] - 13.0).abs() < 1e-4);
/// // the scales of x and x² differ by as little as the last prime and 2^40 do: no sum of them
/// assert!(evaluator.add(&evaluator.to_level(&x, 2)?, &square).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evaluator {
    parameters: LatticeParameters,
    estimator: Estimator,
    /// Does it check that results fit?
    bounded: bool,
    switcher: KeySwitcher,
    /// By the last prime of each level.
    divisions: Vec<OnceLock<Division>>,
    /// `X^(N/2)`, which is `i` in every slot.
    unit: OnceLock<Poly<Eval>>,
}

impl Evaluator {
    /// An evaluator for these parameters.
    ///
    /// # Errors
    /// [`OperationError`] if they are for integers, or without a special prime.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, OperationError> {
        if parameters.plaintext() != params::Plaintext::Approximate {
            return Err(EncodeError::Integers.into());
        }
        if parameters.ring().special_primes().is_empty() {
            return Err(OperationError::NoSpecialPrime);
        }
        let divisions = (0..=parameters.data_primes()).map(|_| OnceLock::new()).collect();
        let (estimator, switcher) = (Estimator::new(parameters), KeySwitcher::new(parameters));
        let unit = OnceLock::new();
        Ok(Self { parameters: parameters.clone(), estimator, bounded: true, switcher, divisions, unit })
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The same evaluator without bounds. It takes ciphertexts of which nothing is known, refuses
    /// no result that may be too large, and its results carry no estimate. It is for circuits whose
    /// ranges are known from elsewhere, for instance from examples, and are far below the worst
    /// case. **If they are exceeded, results may be wrong without any sign.** So may a sum of two
    /// levels, where a number does not fit the lower one.
    #[must_use]
    pub fn unbounded(self) -> Self {
        Self { bounded: false, ..self }
    }

    pub(crate) fn switcher(&self) -> &KeySwitcher {
        &self.switcher
    }

    pub(super) fn estimator(&self) -> &Estimator {
        &self.estimator
    }

    /// Rejects the bounds of a result that may not fit.
    pub(super) fn admit(&self, estimate: Estimate) -> Result<Estimate, OperationError> {
        let most = self.estimator.most(&estimate);
        if !self.bounded || estimate.largest() <= most {
            return Ok(estimate);
        }
        let [magnitude, wide, ..] = estimate.bounds();
        let (magnitude, error, level) = (magnitude + wide, estimate.error(), estimate.level());
        Err(OperationError::Overflow { magnitude, error, most, level })
    }

    /// The bounds of an argument; numbers that are none if nothing is known, and need not be.
    pub(super) fn bounds(&self, a: &Ciphertext) -> Result<Estimate, OperationError> {
        match a.estimate() {
            Some(estimate) => Ok(*estimate),
            None if self.bounded => Err(OperationError::NoEstimate),
            None => Ok(Estimate::of_bounds([f64::NAN; 4], f64::NAN, a.level())),
        }
    }

    /// What a result carries.
    fn carried(&self, estimate: Estimate) -> Option<Estimate> {
        self.bounded.then_some(estimate)
    }

    /// The bounds of a sum.
    fn sum_of(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Estimate, OperationError> {
        self.admit(self.estimator.add(&self.bounds(a)?, &self.bounds(b)?))
    }

    /// The bounds of a product at this scale.
    pub(super) fn product_of(&self, a: &Estimate, b: &Estimate, scale: &Scale) -> Result<Estimate, OperationError> {
        let scale = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        self.admit(self.estimator.tensor(a, b).at(scale, a.level()))
    }

    /// `a + b`, at the lower of both levels.
    ///
    /// # Errors
    /// [`OperationError`] if parameters or scales differ, or the sum may not fit.
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, OperationError> {
        let (a, b) = self.alike(a, b)?;
        let estimate = self.sum_of(&a, &b)?;
        Ok(Ciphertext::new(a.inner().sum(b.inner()), a.scale().clone(), self.carried(estimate)))
    }

    /// `a += b`, at the lower of both levels.
    ///
    /// # Errors
    /// As [`Self::add`]; then `a` is unchanged.
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<(), OperationError> {
        let (one, b) = self.alike(a, b)?;
        let estimate = self.sum_of(&one, &b)?;
        let lowered = if let Cow::Owned(lowered) = one { Some(lowered) } else { None };
        if let Some(lowered) = lowered {
            *a = lowered;
        }
        a.inner_mut().add_assign(b.inner());
        a.set_estimate(self.carried(estimate));
        Ok(())
    }

    /// `a - b`, at the lower of both levels.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, OperationError> {
        let (a, b) = self.alike(a, b)?;
        let (estimate, mut difference) = (self.sum_of(&a, &b)?, a.into_owned());
        difference.inner_mut().sub_assign(b.inner());
        difference.set_estimate(self.carried(estimate));
        Ok(difference)
    }

    /// `-a`.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ.
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        let mut negative = a.clone();
        negative.inner_mut().neg_assign();
        Ok(negative)
    }

    /// `a + p`, for a plaintext of this level or a higher one.
    ///
    /// # Errors
    /// [`OperationError`] if parameters or scales differ, the plaintext has a lower level, or the
    /// sum may not fit.
    pub fn add_plain(&self, a: &Ciphertext, p: &Plaintext) -> Result<Ciphertext, OperationError> {
        self.check_plain(a, p)?;
        check_scales(a.scale(), p.scale())?;
        let estimate = self.admit(self.estimator.add(&self.bounds(a)?, p.estimate()))?;
        let mut sum = a.clone();
        sum.inner_mut().add_phase(&p.element().restrict(self.parameters.ring().basis(a.level())));
        sum.set_estimate(self.carried(estimate));
        Ok(sum)
    }

    /// `a` and the same real number in all slots.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, or the number does not fit.
    pub fn add_constant(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, OperationError> {
        self.plus_constant(a.clone(), value)
    }

    /// The same without a copy.
    pub(super) fn plus_constant(&self, mut a: Ciphertext, value: f64) -> Result<Ciphertext, OperationError> {
        self.check(&a)?;
        let integer = constant(&self.parameters, value, a.scale(), a.level())?;
        let number = self.estimator.constant(value, a.scale(), a.level());
        let estimate = self.admit(self.estimator.add(&self.bounds(&a)?, &number))?;
        a.inner_mut().parts_mut()[0].add_to_rows(|q| integer.modulo(q));
        a.set_estimate(self.carried(estimate));
        Ok(a)
    }

    /// `a p`, for a plaintext of this level or a higher one. The scale is the product: see
    /// [`Self::rescale`].
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, the plaintext has a lower level, or the product
    /// has no room.
    pub fn mul_plain(&self, a: &Ciphertext, p: &Plaintext) -> Result<Ciphertext, OperationError> {
        self.check_plain(a, p)?;
        let scale = self.product(a.scale(), p.scale(), a.level())?;
        let estimate = self.product_of(&self.bounds(a)?, p.estimate(), &scale)?;
        Ok(Ciphertext::new(a.inner().times(p.element()), scale, self.carried(estimate)))
    }

    /// `a *= p`, likewise.
    ///
    /// # Errors
    /// As [`Self::mul_plain`]; then `a` is unchanged.
    pub fn mul_plain_assign(&self, a: &mut Ciphertext, p: &Plaintext) -> Result<(), OperationError> {
        self.check_plain(a, p)?;
        let scale = self.product(a.scale(), p.scale(), a.level())?;
        let estimate = self.product_of(&self.bounds(a)?, p.estimate(), &scale)?;
        a.inner_mut().times_assign(p.element());
        a.set_scale(scale);
        a.set_estimate(self.carried(estimate));
        Ok(())
    }

    /// `sum += a p` without an intermediate ciphertext: the step of linear layers.
    ///
    /// # Errors
    /// As [`Self::mul_plain`] and [`Self::add`]; then `sum` is unchanged.
    pub fn mul_plain_add_assign(
        &self,
        sum: &mut Ciphertext,
        a: &Ciphertext,
        p: &Plaintext,
    ) -> Result<(), OperationError> {
        self.check_plain(a, p)?;
        self.check_levels(sum, a)?;
        check_scales(sum.scale(), &self.product(a.scale(), p.scale(), a.level())?)?;
        let term = self.product_of(&self.bounds(a)?, p.estimate(), sum.scale())?;
        let estimate = self.admit(self.estimator.add(&self.bounds(sum)?, &term))?;
        if sum.needs_relinearization() != a.needs_relinearization() {
            return Err(OperationError::ThreeParts);
        }
        for (sum, part) in sum.inner_mut().parts_mut().iter_mut().zip(a.inner().parts()) {
            sum.mul_add_assign(part, p.element());
        }
        sum.inner_mut().join(a.inner());
        sum.set_estimate(self.carried(estimate));
        Ok(())
    }

    /// `Σ a p`. It reads every ciphertext and every plaintext once, and writes the sum once.
    ///
    /// # Errors
    /// As [`Self::mul_plain_add_assign`], and if there is no pair.
    pub fn dot_plain(&self, pairs: &[(&Ciphertext, &Plaintext)]) -> Result<Ciphertext, OperationError> {
        let Some(((first, p), others)) = pairs.split_first() else { return Err(OperationError::Empty) };
        self.check_plain(first, p)?;
        let scale = self.product(first.scale(), p.scale(), first.level())?;
        let mut estimate = self.product_of(&self.bounds(first)?, p.estimate(), &scale)?;
        for (a, p) in others {
            self.check_plain(a, p)?;
            self.check_levels(first, a)?;
            check_scales(&scale, &self.product(a.scale(), p.scale(), a.level())?)?;
            let term = self.product_of(&self.bounds(a)?, p.estimate(), &scale)?;
            estimate = self.admit(self.estimator.add(&estimate, &term))?;
            if a.needs_relinearization() != first.needs_relinearization() {
                return Err(OperationError::ThreeParts);
            }
        }
        self.check_key(pairs.iter().map(|(a, _)| *a))?;
        let pairs: Vec<_> = pairs.iter().map(|(a, p)| (a.inner(), p.element())).collect();
        Ok(Ciphertext::new(rlwe::Ciphertext::inner_product(&pairs), scale, self.carried(estimate)))
    }

    /// `a` times a number that is encoded at the scale of the last prime, so that the rescaled
    /// product has the scale of `a`. The error of the encoded number is at most half the inverse of
    /// that prime.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, one prime only is left, or the number or the
    /// product does not fit.
    pub fn mul_constant(&self, a: &Ciphertext, value: f64) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        self.check_level(a, 2)?;
        self.mul_constant_at(a, value, &Scale::prime(a.level() - 1))
    }

    /// `a` times a number encoded at any scale.
    pub(crate) fn mul_constant_at(
        &self,
        a: &Ciphertext,
        value: f64,
        scale: &Scale,
    ) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        let product = self.product(a.scale(), scale, a.level())?;
        let integer = constant(&self.parameters, value, scale, a.level())?;
        let number = self.estimator.constant(value, scale, a.level());
        let estimate = self.product_of(&self.bounds(a)?, &number, &product)?;
        let mut inner = a.inner().clone();
        for part in inner.parts_mut() {
            part.scale_rows(|q| integer.modulo(q));
        }
        Ok(Ciphertext::new(inner, product, self.carried(estimate)))
    }

    /// `a` times an integer. Scale and level do not change.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, or the product may not fit.
    pub fn mul_integer(&self, a: &Ciphertext, factor: i64) -> Result<Ciphertext, OperationError> {
        self.times_integer(a.clone(), factor)
    }

    /// The same without a copy.
    pub(super) fn times_integer(&self, mut a: Ciphertext, factor: i64) -> Result<Ciphertext, OperationError> {
        self.check(&a)?;
        let estimate = self.admit(self.bounds(&a)?.times(factor as f64))?;
        a.inner_mut().parts_mut().iter_mut().for_each(|part| part.scale_assign(factor));
        a.set_estimate(self.carried(estimate));
        Ok(a)
    }

    /// `i a`. Scale and level do not change, and no key is needed: `X^(N/2)` is `i` in every slot.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, or nothing is known about the numbers.
    pub fn times_i(&self, a: &Ciphertext) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        self.bounds(a)?;
        let unit = self.unit.get_or_init(|| {
            let (ring, mut coefficients) = (self.parameters.ring(), vec![0; self.parameters.degree()]);
            coefficients[self.parameters.degree() / 2] = 1;
            Poly::from_signed(ring, ring.basis(self.parameters.data_primes()), &coefficients).forward()
        });
        let mut product = a.clone();
        product.inner_mut().times_assign(unit);
        Ok(product)
    }

    /// `a b`, in two parts, at the lower of both levels. The scale is the product: see
    /// [`Self::rescale`].
    ///
    /// # Errors
    /// As [`Self::tensor`] and [`Self::relinearize`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.relinearize(&self.tensor(a, b)?, keys)
    }

    /// `a b`, in three parts, at the lower of both levels. Sums of such products can be
    /// relinearised once.
    ///
    /// # Errors
    /// [`OperationError`] if parameters differ, a factor has three parts itself, or the product has
    /// no room.
    pub fn tensor(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, OperationError> {
        check_two_parts(a)?;
        check_two_parts(b)?;
        let (a, b) = self.at_one_level(a, b)?;
        let scale = self.product(a.scale(), b.scale(), a.level())?;
        let estimate = self.product_of(&self.bounds(&a)?, &self.bounds(&b)?, &scale)?;
        Ok(Ciphertext::new(a.inner().tensor(b.inner()), scale, self.carried(estimate)))
    }

    /// The same in two parts.
    ///
    /// # Errors
    /// [`OperationError`] if parameters differ, or there is no key for this level.
    pub fn relinearize(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.check_keys(a, keys)?;
        let [c0, c1, c2] = a.inner().parts() else {
            return Ok(a.clone());
        };
        let key = keys.relinearization(a.level())?;
        let estimate = self.admit(self.estimator.switch(&self.bounds(a)?))?;
        Ok(self.of_parts(a.key(), self.switcher.relinearize([c0, c1, c2], key).into(), a.scale(), estimate))
    }

    /// `a b` over the last prime, in two parts: [`Self::mul`] and [`Self::rescale`] in less time,
    /// and rounded once instead of twice.
    ///
    /// # Errors
    /// As those.
    pub fn mul_rescale(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        self.relinearize_rescale(&self.tensor(a, b)?, keys)
    }

    /// `a b` at about the smaller of their scales: one level below the lower of their levels, or
    /// several, if the other scale takes several primes.
    ///
    /// # Errors
    /// As [`Self::mul_rescale`].
    pub fn mul_reduced(
        &self,
        a: &Ciphertext,
        b: &Ciphertext,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, OperationError> {
        let (a, b) = self.at_one_level(a, b)?;
        let log2 = |scale: &Scale| scale.to_f64(&self.parameters).unwrap_or(f64::INFINITY).log2();
        let wanted = log2(a.scale()).min(log2(b.scale()));
        let mut product = self.mul_rescale(&a, &b, keys)?;
        // the scale that is nearer, and the larger one of two that are about as near
        let too_large = |product: &Ciphertext| {
            let prime = log2(&Scale::prime(product.level() - 1));
            log2(product.scale()) - wanted > 0.6 * prime
        };
        while product.level() > 1 && too_large(&product) {
            product = self.rescale(&product)?;
        }
        Ok(product)
    }

    /// The same message at this level, which is not above the present one.
    fn at_level<'a>(&self, a: &'a Ciphertext, level: usize) -> Result<Cow<'a, Ciphertext>, OperationError> {
        if a.level() == level { Ok(Cow::Borrowed(a)) } else { self.to_level(a, level).map(Cow::Owned) }
    }

    /// [`Self::relinearize`] and [`Self::rescale`] of a product, or a sum of products, likewise.
    ///
    /// # Errors
    /// As those.
    pub fn relinearize_rescale(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        self.check_keys(a, keys)?;
        let [c0, c1, c2] = a.inner().parts() else { return self.rescale(a) };
        let key = keys.relinearization(a.level())?;
        let (scale, estimate) = self.rescaled(a, &self.estimator.switch(&self.bounds(a)?), 2)?;
        Ok(self.of_parts(a.key(), self.switcher.relinearize_and_divide([c0, c1, c2], key).into(), &scale, estimate))
    }

    /// The scale of a ciphertext divided by the last prime, and the bounds of the result, which has
    /// this many parts.
    fn rescaled(&self, a: &Ciphertext, estimate: &Estimate, parts: usize) -> Result<(Scale, Estimate), OperationError> {
        self.check_level(a, 2)?;
        let level = a.level();
        let scale = a.scale().quotient(&Scale::prime(level - 1));
        let scale = scale.ok_or(OperationError::NoRoom { level: level - 1 })?;
        self.check_room(&scale, level - 1)?;
        let factor = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        let result = self.estimator.rescale_parts(estimate, parts).at(factor, level - 1);
        // numbers whose rounding is larger than they are, and than 1: their scale is lost
        let rounding = result.noise() - estimate.noise();
        if self.bounded && rounding > 1.0 && rounding > result.magnitude() {
            return Err(OperationError::Rounding { magnitude: result.magnitude(), error: rounding });
        }
        Ok((scale, self.admit(result)?))
    }

    /// Divides message, error and scale by the last prime of the level.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, it is the only prime, or the scale is smaller
    /// than it or so small that the rounding hides the numbers.
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        let parts = a.inner().parts().len();
        let ((scale, estimate), level) = (self.rescaled(a, &self.bounds(a)?, parts)?, a.level());
        let division =
            self.divisions[level].get_or_init(|| Division::by_last(self.parameters.ring(), level, Rounding::Nearest));
        let parts = a.inner().parts().iter().map(|part| division.divide(part)).collect();
        Ok(self.of_parts(a.key(), parts, &scale, estimate))
    }

    /// The same message over the first `level` primes.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, `level` is 0 or too large, or the scale has no
    /// room.
    pub fn to_level(&self, a: &Ciphertext, level: usize) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        if !(1..=a.level()).contains(&level) {
            return Err(OperationError::Level { most: a.level(), found: level });
        }
        self.check_room(a.scale(), level)?;
        let bounds = self.bounds(a)?;
        let estimate = self.admit(bounds.at(bounds.scale(), level))?;
        let mut dropped = a.clone();
        dropped.inner_mut().truncate(level);
        dropped.set_estimate(self.carried(estimate));
        Ok(dropped)
    }

    /// The same message at another scale, one level below: a product by the integer
    /// `k = ⌊q Δ' / Δ⌉` and a rescaling by `q`. Messages change by a factor of `1 ± 1/(2k)`.
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, one prime only is left, or a scale has no room.
    pub fn set_scale(&self, a: &Ciphertext, scale: &Scale) -> Result<Ciphertext, OperationError> {
        self.check(a)?;
        self.check_level(a, 2)?;
        let room = OperationError::NoRoom { level: a.level() };
        let before = scale.product(&Scale::prime(a.level() - 1)).ok_or_else(|| room.clone())?;
        let factor = before.quotient(a.scale()).ok_or(room)?;
        self.rescale(&self.mul_constant_at(a, 1.0, &factor)?)
    }

    /// Both ciphertexts at one level and one scale, so that they can be added. The one of the
    /// higher level takes the scale of the other, at no loss of levels. Of two at one level, the
    /// second takes the scale of the first, and both lose a level. Alike ones do not change.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::ckks::{Decryptor, Encoder, EvaluationKeys, Evaluator, Scale};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::rlwe::SecretKey;
    /// // a program takes its randomness from the system
    /// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
    /// let (kind, data) = (Plaintext::Approximate, [50, 40, 40]);
    /// let parameters = LatticeParameters::of_sizes(1 << 13, &data, &[50], 3, kind)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let mut keys = EvaluationKeys::new(&parameters);
    /// keys.add_relinearization(&secret, 3, &mut rng)?;
    /// let (encoder, evaluator) = (Encoder::new(&parameters)?, Evaluator::new(&parameters)?);
    /// let plaintext = encoder.encode(&[0.5, -0.25], &Scale::power_of_two(40), 3)?;
    /// let x = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
    /// let square = evaluator.mul_rescale(&x, &x, &keys)?;
    /// let (x, square) = evaluator.align(&x, &square)?;
    /// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&evaluator.add(&x, &square)?)?;
    /// assert!((slots[0] - 0.75).abs() < 1e-6 && (slots[1] + 0.1875).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OperationError`] if the parameters differ, no level is left to change a scale, or a number
    /// might not fit at the lower level.
    pub fn align<'a>(&self, a: &'a Ciphertext, b: &'a Ciphertext) -> Result<Pair<'a, 'a>, OperationError> {
        self.check(a)?;
        self.check(b)?;
        self.check_key([a, b])?;
        let scaled = |one: &'a Ciphertext, scale: &Scale| self.set_scale(one, scale).map(Cow::Owned);
        let (a, b) = match (a.scale() == b.scale(), a.level() > b.level()) {
            (true, _) => (Cow::Borrowed(a), Cow::Borrowed(b)),
            (false, true) => (scaled(a, b.scale())?, Cow::Borrowed(b)),
            (false, false) => (Cow::Borrowed(a), scaled(b, a.scale())?),
        };
        let level = a.level().min(b.level());
        let at = |one: Cow<'a, Ciphertext>| match one.level() == level {
            true => Ok(one),
            false => self.to_level(&one, level).map(Cow::Owned),
        };
        Ok((at(a)?, at(b)?))
    }

    /// A result under this key.
    pub(super) fn of_parts(
        &self,
        key: Option<KeyId>,
        parts: Vec<Poly<Eval>>,
        scale: &Scale,
        estimate: Estimate,
    ) -> Ciphertext {
        Ciphertext::new(rlwe::Ciphertext::new(&self.parameters, key, parts), scale.clone(), self.carried(estimate))
    }

    /// A ciphertext under the key of another one, of which nothing is known.
    pub(crate) fn with_parts(&self, like: &Ciphertext, parts: Vec<Poly<Eval>>, scale: &Scale) -> Ciphertext {
        Ciphertext::new(rlwe::Ciphertext::new(&self.parameters, like.key(), parts), scale.clone(), None)
    }

    /// The scale of a product, if it has room.
    pub(crate) fn product(&self, a: &Scale, b: &Scale, level: usize) -> Result<Scale, OperationError> {
        let scale = a.product(b).ok_or(OperationError::NoRoom { level })?;
        self.check_room(&scale, level)?;
        Ok(scale)
    }

    fn check_room(&self, scale: &Scale, level: usize) -> Result<(), OperationError> {
        let magnitude = scale.magnitude(&self.parameters).ok_or(OperationError::OtherParameters)?;
        let room = Magnitude::of(1)..Magnitude::modulus(&self.parameters, level);
        if room.contains(&magnitude) { Ok(()) } else { Err(OperationError::NoRoom { level }) }
    }

    pub(super) fn check(&self, a: &Ciphertext) -> Result<(), OperationError> {
        if *a.parameters() == self.parameters { Ok(()) } else { Err(OperationError::OtherParameters) }
    }

    /// Rejects a ciphertext or keys of other parameters, or keys of another secret.
    pub(crate) fn check_keys(&self, a: &Ciphertext, keys: &EvaluationKeys) -> Result<(), OperationError> {
        self.check(a)?;
        if *keys.parameters() != self.parameters {
            return Err(OperationError::OtherParameters);
        }
        KeyId::joined([a.key(), keys.id()])?;
        Ok(())
    }

    /// Rejects ciphertexts of two keys. Returns the key, if it is known.
    pub(super) fn check_key<'a>(
        &self,
        all: impl IntoIterator<Item = &'a Ciphertext>,
    ) -> Result<Option<KeyId>, OperationError> {
        Ok(KeyId::joined(all.into_iter().map(Ciphertext::key))?)
    }

    pub(crate) fn check_level(&self, a: &Ciphertext, least: usize) -> Result<(), OperationError> {
        if a.level() >= least { Ok(()) } else { Err(OperationError::Exhausted { least, found: a.level() }) }
    }

    pub(super) fn check_levels(&self, a: &Ciphertext, b: &Ciphertext) -> Result<(), OperationError> {
        self.check(a)?;
        self.check(b)?;
        self.check_key([a, b])?;
        let (left, right) = (a.level(), b.level());
        if left == right { Ok(()) } else { Err(OperationError::Levels { left, right }) }
    }

    /// Both at the lower of their levels.
    fn at_one_level<'a, 'b>(&self, a: &'a Ciphertext, b: &'b Ciphertext) -> Result<Pair<'a, 'b>, OperationError> {
        self.check(a)?;
        self.check(b)?;
        self.check_key([a, b])?;
        let level = a.level().min(b.level());
        Ok((self.at_level(a, level)?, self.at_level(b, level)?))
    }

    /// The same, for a sum: their scales are equal.
    fn alike<'a, 'b>(&self, a: &'a Ciphertext, b: &'b Ciphertext) -> Result<Pair<'a, 'b>, OperationError> {
        let both = self.at_one_level(a, b)?;
        check_scales(a.scale(), b.scale())?;
        Ok(both)
    }

    pub(super) fn check_plain(&self, a: &Ciphertext, p: &Plaintext) -> Result<(), OperationError> {
        self.check(a)?;
        if *p.parameters() != self.parameters {
            return Err(OperationError::OtherParameters);
        }
        let (left, right) = (a.level(), p.level());
        if right >= left { Ok(()) } else { Err(OperationError::Levels { left, right }) }
    }
}

pub(super) fn check_scales(left: &Scale, right: &Scale) -> Result<(), OperationError> {
    let error = || OperationError::Scales { left: left.clone(), right: right.clone() };
    if left == right { Ok(()) } else { Err(error()) }
}

pub(super) fn check_two_parts(a: &Ciphertext) -> Result<(), OperationError> {
    if a.needs_relinearization() { Err(OperationError::ThreeParts) } else { Ok(()) }
}
