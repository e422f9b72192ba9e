//! Numbers to polynomials and back.
//!
//! A plaintext of scale `Δ` is the polynomial with the coefficients `⌊Δ τ(z)⌉`, `τ` the inverse of
//! the [embedding](super::Embedding), half to even. **Error.** With `M = max |z_j|` and
//! `ε = 2^-53`, the error of a coefficient is at most `1/2` from rounding plus `5 ε log2(N) Δ M`
//! from the transform. The error of a slot is at most the sum of all `N`:
//!
//! ```text
//! |decode(encode(z)) - z|  ≤  N/(2Δ) + 10 ε N log2(N) M,
//!                          about 6 √(N/12)/Δ for the rounding of generic numbers.
//! ```
//!
//! The first bound always holds, and practical vectors never reach it.
//! [`Estimate`] uses the second one.
//!
//! # Leakage
//! Encoding is constant time for coefficients below 2^53. For larger ones, it reads a table at an
//! index that depends on their size. Decoding branches on the number of words of a coefficient.

use super::integer::{Integer, lift, to_f64};
use super::precision::USABLE;
use super::scale::{Magnitude, Scale};
use super::{Complex, Embedding, Estimate, Estimator, SeededCiphertext};
use crate::params::{self, LatticeParameters};
use crate::ring::{Coeff, Conversion, Eval, Modulus, Poly, Reconstruction};
use crate::rlwe::SecretKey;
use rand_core::CryptoRng;
use std::borrow::Cow;
use std::sync::Arc;
use tobari_simd::Wiped;
use zeroize::{Zeroize, Zeroizing};

/// Numbers as an element of the ring, with their scale; wiped on drop.
///
/// ```
/// use tobari_lattice::ckks::{Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let plaintext = Encoder::new(&parameters)?.encode(&[1.5, -2.0], &Scale::power_of_two(30), 2)?;
/// assert_eq!((plaintext.level(), plaintext.scale().to_string()), (2, "2^30".to_string()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Plaintext {
    parameters: LatticeParameters,
    element: Poly<Eval>,
    scale: Scale,
    /// Of its own numbers: for products and sums with it.
    estimate: Estimate,
    /// Of its declared range: for its ciphertexts.
    declared: Estimate,
    /// A bound on coefficients that is checked when they are decoded, because nobody else has.
    most: f64,
}

/// An element as coefficients, modulo the primes and as doubles.
type Checked = (Zeroizing<Poly<Coeff>>, Zeroizing<Vec<f64>>);

/// Why a decryption is no message.
pub(super) const NO_MESSAGE: &str = "the decrypted numbers are beyond all bounds: the ciphertext belongs to another \
                                     key, it was changed, or its numbers exceed the declared range";

impl Plaintext {
    /// An element with coefficients of at most this absolute value.
    pub(super) fn of_element(parameters: &LatticeParameters, element: Poly<Eval>, scale: &Scale, most: f64) -> Self {
        let estimate = Estimator::new(parameters).coefficients(most, scale, element.basis().data());
        let (parameters, scale) = (parameters.clone(), scale.clone());
        Self { parameters, element, scale, estimate, declared: estimate, most: f64::INFINITY }
    }

    /// A decryption that should have coefficients of at most this absolute value.
    pub(super) fn of_decryption(parameters: &LatticeParameters, element: Poly<Eval>, scale: &Scale, most: f64) -> Self {
        let mut decryption = Self::of_element(parameters, element, scale, most);
        decryption.most = most;
        decryption
    }

    /// The same message as another element, over another number of primes. Its coefficients were
    /// checked.
    pub(super) fn as_element(&self, element: Poly<Eval>) -> Self {
        let level = element.basis().data();
        let [estimate, declared] = [self.estimate, self.declared].map(|one| one.at(one.scale(), level));
        let (parameters, scale) = (self.parameters.clone(), self.scale.clone());
        Self { parameters, element, scale, estimate, declared, most: f64::INFINITY }
    }

    /// The coefficients, if they keep their bound.
    ///
    /// # Errors
    /// [`EncodeError::NoMessage`].
    pub(super) fn checked(&self) -> Result<Checked, EncodeError> {
        let element = Zeroizing::new(self.element.clone().inverse());
        let coefficients = coefficients_of(&element);
        if keep(&coefficients, self.most) { Ok((element, coefficients)) } else { Err(EncodeError::NoMessage) }
    }

    /// The bounds of its own numbers. They tell something about these.
    pub(super) fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// The bounds of the declared range, for an encryption.
    ///
    /// # Errors
    /// [`EncodeError`] for numbers beyond it, and for a decryption of no message.
    pub(super) fn declared(&self) -> Result<&Estimate, EncodeError> {
        within(self.estimate.magnitude(), self.declared.magnitude())?;
        if self.most.is_finite() {
            self.checked()?;
        }
        Ok(&self.declared)
    }

    /// The element over data primes alone.
    pub(super) fn data_element(&self) -> Cow<'_, Poly<Eval>> {
        match self.is_diagonal() {
            true => Cow::Owned(self.element.restrict(self.element.ring().basis(self.level()))),
            false => Cow::Borrowed(&self.element),
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// Data primes.
    pub fn level(&self) -> usize {
        self.element.basis().data()
    }

    /// The scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Is the element over the special primes, too ([`Encoder::encode_diagonal`])?
    pub fn is_diagonal(&self) -> bool {
        self.element.basis().special() > 0
    }

    /// The element as values. Its residues are the same on every machine.
    pub fn element(&self) -> &Poly<Eval> {
        &self.element
    }
}

impl Drop for Plaintext {
    fn drop(&mut self) {
        self.element.zeroize();
        self.estimate.zeroize();
    }
}

/// Why numbers were not encoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The parameters are for integers.
    #[error("expected parameters for approximate numbers, found parameters for exact integers")]
    Integers,
    /// A plaintext or a key of other parameters.
    #[error("expected a plaintext or a key of the encoder's parameters, found one of others")]
    OtherParameters,
    /// More numbers than slots.
    #[error("expected at most {most} numbers, found {found}")]
    Slots {
        /// `N/2`.
        most: usize,
        /// The numbers given.
        found: usize,
    },
    /// An infinite number, or NaN.
    #[error("expected finite numbers, found none in slot {slot}")]
    NotFinite {
        /// The slot, from 0.
        slot: usize,
    },
    /// Numbers beyond the declared range, which would be encrypted with a wrong estimate.
    #[error(
        "expected numbers of at most {range} in absolute value, the declared range, found larger ones: \
         declare a larger range"
    )]
    Range {
        /// The declared range.
        range: f64,
    },
    /// A decryption that is no message.
    #[error("{}", NO_MESSAGE)]
    NoMessage,
    /// A scaled coefficient of half the modulus or more: it would overflow.
    #[error("expected numbers that stay below 2^{most} when scaled, found larger ones")]
    TooLarge {
        /// Bits of half the modulus, rounded down.
        most: i64,
    },
    /// No such level.
    #[error("expected a level from 1 to {most}, found {found}")]
    Level {
        /// The number of data primes.
        most: usize,
        /// The level given.
        found: usize,
    },
    /// A scale with primes of other parameters, or out of the range of doubles.
    #[error("expected a scale of these parameters from 1 to 2^1023, found {found}")]
    Scale {
        /// The scale given.
        found: Scale,
    },
}

/// Encodes and decodes for one set of parameters. It holds no secret.
///
/// Numbers that will be encrypted have a **declared range**: 1 in absolute value, or that of
/// [`Self::within`]. Ciphertexts carry it, and operations that could leave the modulus are refused.
///
/// ```
/// use tobari_lattice::ckks::{Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let encoder = Encoder::new(&parameters)?.within(2.0);
/// let plaintext = encoder.encode(&[1.5, -2.0, 0.1], &Scale::power_of_two(30), 2)?;
/// let slots = encoder.decode(&plaintext)?;
/// assert_eq!(slots.len(), 2048);
/// assert!((slots[2] - 0.1).abs() < 1e-6 && slots[3].abs() < 1e-6);
/// assert!(encoder.encode(&[f64::NAN], &Scale::power_of_two(30), 2).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Encoder {
    parameters: LatticeParameters,
    embedding: Arc<Embedding>,
    range: f64,
}

/// The declared range of numbers if there is no other.
const RANGE: f64 = 1.0;

impl Encoder {
    /// An encoder for these parameters.
    ///
    /// # Errors
    /// [`EncodeError::Integers`] if they are for integers.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, EncodeError> {
        if parameters.plaintext() != params::Plaintext::Approximate {
            return Err(EncodeError::Integers);
        }
        let embedding = Arc::new(Embedding::new(parameters.degree()));
        Ok(Self { parameters: parameters.clone(), embedding, range: RANGE })
    }

    /// The same encoder for numbers of at most `range` in absolute value, which must not depend on
    /// what is encrypted: everybody may see it. It counts for numbers that are encrypted; factors
    /// that are not have no declared range. Infinity declares nothing: then only an evaluator
    /// [without bounds](super::Evaluator::unbounded) computes with the ciphertexts.
    ///
    /// ```
    /// use tobari_lattice::ckks::{Encoder, Scale};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::rlwe::SecretKey;
    /// let mut rng = <chacha20::ChaCha20Rng as rand_core::SeedableRng>::from_seed([0; 32]);
    /// let approximate = Plaintext::Approximate;
    /// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, approximate)?;
    /// let (secret, scale) = (SecretKey::generate(&parameters, &mut rng), Scale::power_of_two(20));
    /// let encoder = Encoder::new(&parameters)?;
    /// assert!(encoder.encode(&[1_000.0], &scale, 2)?.encrypt_seeded(&secret, &mut rng).is_err());
    /// let ages = encoder.within(130.0);
    /// let age = ages.encode(&[61.0], &scale, 2)?.encrypt_seeded(&secret, &mut rng)?.expand();
    /// assert_eq!(age.estimate().map(|estimate| estimate.magnitude()), Some(130.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn within(&self, range: f64) -> Self {
        Self { range, ..self.clone() }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// `N/2`.
    pub fn slots(&self) -> usize {
        self.embedding.slots()
    }

    /// Real numbers, from slot 0 on; the others are 0.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit.
    pub fn encode(&self, slots: &[f64], scale: &Scale, level: usize) -> Result<Plaintext, EncodeError> {
        self.encode_slots(slots.iter().copied().map(Complex::from), scale, level)
    }

    /// Encodes real numbers and encrypts them under the secret: [`Self::encode`] and
    /// [`Plaintext::encrypt_seeded`] with half the transforms.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit, and for a key of other parameters.
    pub fn encrypt_seeded(
        &self,
        slots: &[f64],
        scale: &Scale,
        level: usize,
        key: &SecretKey,
        rng: &mut impl CryptoRng,
    ) -> Result<SeededCiphertext, EncodeError> {
        if *key.parameters() != self.parameters {
            return Err(EncodeError::OtherParameters);
        }
        let ring = self.parameters.ring();
        let slots = slots.iter().copied().map(Complex::from);
        within(largest(slots.clone()), self.range)?;
        let coefficients = self.coefficients(slots, scale, level)?;
        let inner = key.encrypt_seeded(lift(ring, ring.basis(level), &coefficients), rng);
        let estimator = Estimator::new(&self.parameters);
        let estimate = estimator.encrypt_seeded(&estimator.encode(self.range, scale, level));
        Ok(SeededCiphertext::new(inner, scale.clone(), Some(estimate)))
    }

    /// Complex numbers, from slot 0 on; the others are 0.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit.
    pub fn encode_complex(&self, slots: &[Complex], scale: &Scale, level: usize) -> Result<Plaintext, EncodeError> {
        self.encode_slots(slots.iter().copied(), scale, level)
    }

    fn encode_slots(
        &self,
        slots: impl ExactSizeIterator<Item = Complex> + Clone,
        scale: &Scale,
        level: usize,
    ) -> Result<Plaintext, EncodeError> {
        let (ring, largest) = (self.parameters.ring(), largest(slots.clone()));
        let coefficients = self.coefficients(slots, scale, level)?;
        let element = lift(ring, ring.basis(level), &coefficients).forward();
        Ok(self.plaintext(element, scale, |estimator, range| estimator.encode(range.unwrap_or(largest), scale, level)))
    }

    /// A plaintext with its two estimates: of the declared range, and of its own numbers.
    fn plaintext(
        &self,
        element: Poly<Eval>,
        scale: &Scale,
        estimate: impl Fn(&Estimator, Option<f64>) -> Estimate,
    ) -> Plaintext {
        let estimator = Estimator::new(&self.parameters);
        let declared = estimate(&estimator, Some(self.range));
        let estimate = estimate(&estimator, None);
        Plaintext {
            parameters: self.parameters.clone(),
            element,
            scale: scale.clone(),
            estimate,
            declared,
            most: f64::INFINITY,
        }
    }

    /// Real numbers for [`Evaluator::transform_sum`](super::Evaluator::transform_sum), over the
    /// special primes, too. The result is also valid as an ordinary plaintext.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit.
    pub fn encode_diagonal(&self, slots: &[f64], scale: &Scale, level: usize) -> Result<Plaintext, EncodeError> {
        let (ring, slots) = (self.parameters.ring(), slots.iter().copied().map(Complex::from));
        let largest = largest(slots.clone());
        let coefficients = self.coefficients(slots, scale, level)?;
        let element = lift(ring, ring.key_basis(level), &coefficients).forward();
        Ok(self.plaintext(element, scale, |estimator, range| estimator.encode(range.unwrap_or(largest), scale, level)))
    }

    /// The element of a public plaintext over the data primes of a level and the special ones.
    pub(crate) fn key_element(
        &self,
        slots: &[Complex],
        scale: &Scale,
        level: usize,
    ) -> Result<Poly<Eval>, EncodeError> {
        let coefficients = self.coefficients(slots.iter().copied(), scale, level)?;
        Ok(lift(self.parameters.ring(), self.parameters.ring().key_basis(level), &coefficients).forward())
    }

    /// Coefficients, scaled and not yet rounded, which fit the level.
    fn coefficients(
        &self,
        slots: impl ExactSizeIterator<Item = Complex> + Clone,
        scale: &Scale,
        level: usize,
    ) -> Result<Wiped<f64>, EncodeError> {
        let n = self.slots();
        if slots.len() > n {
            return Err(EncodeError::Slots { most: n, found: slots.len() });
        }
        // checks all numbers without a branch, in one vectorised pass
        let finite = |z: Complex| (z.re.abs() < f64::INFINITY) & (z.im.abs() < f64::INFINITY);
        if !slots.clone().fold(true, |all, z| all & finite(z)) {
            let slot = slots.clone().position(|z| !finite(z)).unwrap_or(0);
            return Err(EncodeError::NotFinite { slot });
        }
        let (factor, most) = limits(&self.parameters, scale, level)?;
        let coefficients = self.embedding.scaled_coefficients(slots, factor);
        check(&coefficients, most)?;
        Ok(coefficients)
    }

    /// The same real number in all slots, without a transform. To multiply a ciphertext by a
    /// constant, use the evaluator's [`mul_constant`](super::Evaluator::mul_constant), which needs
    /// no plaintext.
    ///
    /// # Errors
    /// [`EncodeError`] for input that does not fit.
    pub fn encode_constant(&self, value: f64, scale: &Scale, level: usize) -> Result<Plaintext, EncodeError> {
        let integer = constant(&self.parameters, value, scale, level)?;
        let ring = self.parameters.ring();
        let basis = ring.basis(level);
        let mut element = Poly::any(ring, basis);
        for (row, table) in ring.tables(basis).enumerate() {
            element.row_mut(row).fill(integer.modulo(table.modulus()));
        }
        Ok(self.plaintext(element, scale, |estimator, range| estimator.constant(range.unwrap_or(value), scale, level)))
    }

    /// The real parts of all slots.
    ///
    /// # Errors
    /// [`EncodeError::OtherParameters`], or [`EncodeError::NoMessage`] for a decryption of no
    /// message.
    pub fn decode(&self, plaintext: &Plaintext) -> Result<Zeroizing<Vec<f64>>, EncodeError> {
        Ok(Zeroizing::new(self.decode_complex(plaintext)?.iter().map(|z| z.re).collect()))
    }

    /// All slots.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_complex(&self, plaintext: &Plaintext) -> Result<Zeroizing<Vec<Complex>>, EncodeError> {
        if plaintext.parameters != self.parameters {
            return Err(EncodeError::OtherParameters);
        }
        let (_, mut coefficients) = plaintext.checked()?;
        Ok(self.slots_of(&mut coefficients, &plaintext.scale))
    }

    /// The slots of coefficients of this ring.
    pub(super) fn slots_of(&self, coefficients: &mut [f64], scale: &Scale) -> Zeroizing<Vec<Complex>> {
        // a product by the inverse, not a quotient: its time does not depend on the number
        let inverse = 1.0 / scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        coefficients.iter_mut().for_each(|coefficient| *coefficient *= inverse);
        self.embedding.to_slots(coefficients)
    }
}

/// The coefficients of an element as doubles: infinite or rounded where they are too large.
pub(super) fn coefficients_of(element: &Poly<Coeff>) -> Zeroizing<Vec<f64>> {
    let mut coefficients = Zeroizing::new(vec![0.0; element.ring().degree()]);
    if !nearby(element, &mut coefficients) {
        Reconstruction::new(element.ring(), element.basis()).for_each(element, |place, integer| {
            coefficients[place] = to_f64(integer.negative, integer.words);
        });
    }
    coefficients
}

/// Do all coefficients keep this bound? Without a branch: only the answer is public.
pub(super) fn keep(coefficients: &[f64], most: f64) -> bool {
    coefficients.iter().fold(true, |all, coefficient| all & (coefficient.abs() <= most))
}

/// The largest absolute value, without a branch; infinite beyond 2^511, the root of doubles.
fn largest(slots: impl Iterator<Item = Complex>) -> f64 {
    slots.fold(0.0, |most: f64, z| most.max(z.re * z.re + z.im * z.im)).sqrt()
}

/// Rejects numbers beyond a declared range, but for the rounding of [`largest`].
fn within(largest: f64, range: f64) -> Result<(), EncodeError> {
    if largest <= range * (1.0 + 4.0 * f64::EPSILON) { Ok(()) } else { Err(EncodeError::Range { range }) }
}

/// The coefficients as doubles, if all are so small that the first prime or the first two determine
/// them, which then agrees with all other primes. Whether they are is not hidden.
fn nearby(element: &Poly<Coeff>, out: &mut [f64]) -> bool {
    let moduli: Vec<Modulus> = element.ring().tables(element.basis()).map(|table| *table.modulus()).collect();
    let rows: Vec<&[u64]> = (0..moduli.len()).map(|row| element.row(row)).collect();
    (1..=2).any(|few| {
        few < moduli.len() && {
            small(&moduli[..few], &rows[..few], out) && {
                let mut others = Zeroizing::new(vec![0; (moduli.len() - few) * out.len()]);
                let mut places: Vec<&mut [u64]> = others.chunks_exact_mut(out.len()).collect();
                Conversion::new(&moduli[..few], &moduli[few..]).apply(&rows[..few], &mut places);
                let differs =
                    |(row, other): (&&[u64], &[u64])| row.iter().zip(other).fold(0, |any, (x, y)| any | (x ^ y));
                rows[few..].iter().zip(others.chunks_exact(out.len())).map(differs).fold(0, |any, one| any | one) == 0
            }
        }
    })
}

/// Numbers by one or two residues, if all are below a quarter of the modulus in absolute value.
fn small(moduli: &[Modulus], rows: &[&[u64]], out: &mut [f64]) -> bool {
    let mut all = true;
    match (moduli, rows) {
        ([q], [row]) => {
            for (out, x) in out.iter_mut().zip(*row) {
                let x = q.centred(*x);
                all &= x.unsigned_abs() < q.value() / 4;
                *out = x as f64;
            }
        }
        ([p, q], [first, second]) => {
            let inverse = q.inverse(q.reduce(p.value())).map(|inverse| q.factor(inverse));
            let Some(inverse) = inverse else { unreachable!("distinct primes") };
            let quarter = u128::from(p.value()) * u128::from(q.value()) / 4;
            for (out, (x, y)) in out.iter_mut().zip(first.iter().zip(*second)) {
                // x + p k ≡ y, with centred x and k
                let x = p.centred(*x);
                let k = q.centred(q.mul_factor(q.sub(*y, q.reduce_signed(x)), inverse));
                let number = i128::from(x) + i128::from(p.value()) * i128::from(k);
                all &= number.unsigned_abs() < quarter;
                *out = number as f64;
            }
        }
        _ => unreachable!("one modulus or two"),
    }
    all
}

/// The scale as a double, and half the modulus.
fn limits(parameters: &LatticeParameters, scale: &Scale, level: usize) -> Result<(f64, Magnitude), EncodeError> {
    let most = parameters.data_primes();
    if !(1..=most).contains(&level) {
        return Err(EncodeError::Level { most, found: level });
    }
    let in_range = |factor: &f64| (1.0..f64::INFINITY).contains(factor);
    match scale.to_f64(parameters).filter(in_range) {
        Some(factor) => Ok((factor, Magnitude::modulus(parameters, level).quotient(Magnitude::of(2)))),
        None => Err(EncodeError::Scale { found: scale.clone() }),
    }
}

/// Rejects scaled coefficients unless all are below the usable part of half the modulus, as
/// decryption does.
fn check(coefficients: &[f64], half: Magnitude) -> Result<(), EncodeError> {
    // infinity stands for every larger modulus: all finite numbers are below it
    let margin = half.to_f64() * USABLE;
    let fits = coefficients.iter().fold(true, |all, coefficient| all & (coefficient.abs() < margin));
    if fits { Ok(()) } else { Err(EncodeError::TooLarge { most: half.floor_log2() }) }
}

/// A number in all slots is the constant polynomial `⌊Δ value⌉`.
pub(super) fn constant(
    parameters: &LatticeParameters,
    value: f64,
    scale: &Scale,
    level: usize,
) -> Result<Integer, EncodeError> {
    if !value.is_finite() {
        return Err(EncodeError::NotFinite { slot: 0 });
    }
    let (factor, half) = limits(parameters, scale, level)?;
    check(&[value * factor], half)?;
    Ok(Integer::round(value * factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::tests::toy;
    use proptest::prelude::*;

    fn encoder() -> Encoder {
        Encoder::new(&toy(None)).unwrap()
    }

    /// The coefficients as integers.
    fn coefficients(plaintext: &Plaintext) -> Vec<f64> {
        let element = plaintext.element.clone().inverse();
        let mut out = vec![0.0; 64];
        Reconstruction::new(element.ring(), element.basis()).for_each(&element, |place, integer| {
            out[place] = to_f64(integer.negative, integer.words);
        });
        out
    }

    #[test]
    fn large_scales_and_numbers_come_back() {
        let encoder = encoder();
        for (scale, size) in [(30, 1.0), (50, 2f64.powi(40)), (20, 2f64.powi(120)), (110, 1.0)] {
            let slots: Vec<f64> = (0..32).map(|j| size * (f64::from(j) - 15.5) / 16.0).collect();
            let plaintext = encoder.encode(&slots, &Scale::power_of_two(scale), 4).unwrap();
            let bound = 32.0 / 2f64.powi(scale as i32) + 10.0 * 64.0 * 6.0 * size * 2f64.powi(-53);
            for (found, expected) in encoder.decode(&plaintext).unwrap().iter().zip(&slots) {
                assert!((found - expected).abs() <= bound, "{scale}, {size}: {found} {expected}");
            }
        }
    }

    #[test]
    fn small_numbers_are_read_from_few_primes_as_they_are_from_all() {
        use crate::ring::{Domain, Seed};
        let ring = encoder().parameters.ring().clone();
        let mut fast = 0;
        for level in 1..=4 {
            for bits in 0..40 * level as u32 - 1 {
                let mut stream = Seed::from_bytes([bits as u8; 32]).stream(Domain::Flood, level as u64);
                let element = Poly::uniform_integers(&ring, ring.basis(level), bits, &mut stream);
                let (mut few, mut all) = (vec![0.0; 64], vec![0.0; 64]);
                Reconstruction::new(&ring, element.basis()).for_each(&element, |place, integer| {
                    all[place] = to_f64(integer.negative, integer.words);
                });
                if nearby(&element, &mut few) {
                    fast += 1;
                    assert!(few.iter().zip(&all).all(|(x, y)| x == y), "{bits} bits at level {level}");
                } else {
                    assert!(bits > 76 || level == 1 || level == 2 && bits > 36, "{bits} bits at level {level}");
                }
            }
        }
        assert!(fast > 150, "{fast}");
    }

    #[test]
    fn a_constant_is_the_same_plaintext_without_a_transform() {
        let encoder = encoder();
        for value in [0.0, 1.0, -3.25, 1e-7] {
            let scale = Scale::power_of_two(45);
            let constant = encoder.encode_constant(value, &scale, 3).unwrap();
            assert!(constant.element == encoder.encode(&[value; 32], &scale, 3).unwrap().element, "{value}");
        }
    }

    #[test]
    fn levels_are_rows_of_the_same_plaintext() {
        let encoder = encoder();
        let at = |level| encoder.encode(&[0.25, -7.0], &Scale::power_of_two(30), level).unwrap();
        let ring = encoder.parameters().ring();
        assert!(at(4).element.restrict(ring.basis(2)) == at(2).element);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_reason() {
        let encoder = encoder();
        let scale = Scale::power_of_two(30);
        let error = |slots: &[f64], scale: &Scale, level| encoder.encode(slots, scale, level).map(|_| ()).unwrap_err();
        assert_eq!(error(&[0.0; 33], &scale, 1), EncodeError::Slots { most: 32, found: 33 });
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(error(&[0.0, bad], &scale, 1), EncodeError::NotFinite { slot: 1 });
            assert!(encoder.encode_constant(bad, &scale, 1).is_err());
        }
        assert_eq!(error(&[600.0; 32], &scale, 1), EncodeError::TooLarge { most: 38 });
        assert!(encoder.encode(&[470.0; 32], &scale, 1).is_ok() && encoder.encode(&[600.0; 32], &scale, 2).is_ok());
        assert_eq!(error(&[f64::MAX; 32], &scale, 4), EncodeError::TooLarge { most: 158 });
        for level in [0, 5] {
            assert_eq!(error(&[1.0], &scale, level), EncodeError::Level { most: 4, found: level });
        }
        let small = Scale::power_of_two(0).quotient(&Scale::prime(0)).unwrap();
        for found in [Scale::power_of_two(2000), Scale::prime(4), small] {
            assert_eq!(error(&[1.0], &found, 1), EncodeError::Scale { found: found.clone() });
        }
        assert_eq!(Encoder::new(&toy(Some(257))).map(|_| ()).unwrap_err(), EncodeError::Integers);
        let foreign = encoder.encode(&[1.0], &scale, 1).unwrap();
        let others = LatticeParameters::insecure_of_sizes(64, &[40; 4], &[45; 2], 3, params::Plaintext::Approximate);
        let refused = Encoder::new(&others.unwrap()).unwrap().decode(&foreign).unwrap_err();
        assert_eq!(refused, EncodeError::OtherParameters);
        assert!(self::encoder().decode(&foreign).is_ok(), "parameters are compared by value");
        assert!(error(&[600.0; 32], &scale, 1).to_string().contains("stay below 2^38"));
    }

    /// Known answer: the coefficients of `2^40 τ(z)` by their definition with 60 digits (mpmath),
    /// rounded; none is within `10^-3` of a half.
    #[test]
    fn a_known_plaintext_has_its_coefficients_on_every_machine() {
        let slots: Vec<Complex> = (0..32)
            .map(|j| Complex { re: f64::from(j * 37 % 101) / 101.0, im: f64::from(j * 53 % 103) / 206.0 - 0.25 })
            .collect();
        let encoder = encoder();
        let plaintext = encoder.encode_complex(&slots, &Scale::power_of_two(40), 2).unwrap();
        let found = coefficients(&plaintext);
        let first = [539_549_951_006.0, -45_753_087_637.0, -37_231_254_226.0, -56_664_598_712.0, 16_471_522_654.0];
        let last = [51_635_051_144.0, -12_390_021_438.0, 26_293_886_744.0, 46_418_421_565.0, 56_371_149_226.0];
        assert_eq!((&found[..5], &found[59..]), (&first[..], &last[..]));
        // every bit of every slot after decoding, as the same butterflies give them in Python with
        // roots from mpmath
        let digest = encoder.decode_complex(&plaintext).unwrap().iter().fold(0u64, |digest, z| {
            (digest.rotate_left(7) ^ z.re.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ z.im.to_bits()
        });
        assert_eq!(digest, 7_992_090_402_692_021_255);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn complex_slots_come_back_within_the_bound(
            slots in prop::collection::vec((-1e3..1e3f64, -1e3..1e3f64), 0..33),
            scale in 10u32..60,
        ) {
            let encoder = encoder();
            let slots: Vec<Complex> = slots.iter().map(|(re, im)| Complex { re: *re, im: *im }).collect();
            let plaintext = encoder.encode_complex(&slots, &Scale::power_of_two(scale), 2).unwrap();
            let found = encoder.decode_complex(&plaintext).unwrap();
            let most = slots.iter().map(|z| z.abs()).fold(0.0, f64::max);
            let bound = 32.0 / 2f64.powi(scale as i32) + 10.0 * 64.0 * 6.0 * most * 2f64.powi(-53);
            let zeros = std::iter::repeat(Complex::default());
            for (found, expected) in found.iter().zip(slots.into_iter().chain(zeros)) {
                prop_assert!((*found - expected).abs() <= bound);
            }
        }
    }
}
