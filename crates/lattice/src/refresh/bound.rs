//! A bound on the error of a refresh.
//!
//! The parts are those of [`Estimator`](crate::ckks::Estimator), with two refinements.
//!
//! **Products of two Gaussians.** A rounding error is `r_0 + r_1 s`, and a slot of `r_1 s` is a
//! product of two complex Gaussians. With `σ_r √N` and `σ_s √N` for their deviations, it exceeds
//! `19 σ_r σ_s N` with a chance of `38 K_1(38) < 2^-51`, the same as one Gaussian beyond `6 σ √N`.
//! Errors that are multiplied by constants and added are Gaussian for a given `s`, so that squares
//! add up. With `R` for the bound on a rounding,
//!
//! ```text
//! R = σ_r (6 √N + 19 σ_s N).
//! ```
//!
//! **Derivatives.** Every rounding in the series, in the squarings and in the correction is a
//! source of error, and the result depends on it by a derivative that is known: the values that the
//! circuit multiplies depend on `t` alone, and `t` is an integer up to a small `ε`. So the circuit
//! is computed in numbers, with derivatives by every source, for each of the 33 integers, and the
//! largest root of a sum of squares counts.
//!
//! **Bits.** Their error meets a derivative that is 0, so it counts squared: `sin² πδ` for an error
//! `δ` of `t`. The circuit's own error counts as it is, at halves of integers, too.
//!
//! The rest is small: the errors of the linear maps, the switch to the sparse secret and back, what
//! the sine and its series leave out.

use super::{Numbers, Refresh, RefreshError, modular::MARGIN};
use crate::ckks::{Basis, Complex, Estimate, OperationError, Scale, degree, is_sum, log2_up};
use crate::params::LatticeParameters;
use crate::ring::Ntt;
use crate::rlwe::raise::WEIGHT;
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// The deviation of a rounding error.
const ROUNDING: f64 = 0.288_675_134_594_812_9;
/// The deviation of a fresh error, rounded up.
const FRESH: f64 = 3.22;
/// That of a ternary secret.
const SECRET: f64 = 0.816_496_580_927_726;

/// Bounds on the errors of single steps, in the slots.
struct Steps<'a> {
    parameters: &'a LatticeParameters,
    degree: f64,
    /// `P`.
    special: f64,
}

impl<'a> Steps<'a> {
    fn new(parameters: &'a LatticeParameters) -> Self {
        let special = product(parameters.ring().special_primes());
        Self { parameters, degree: parameters.degree() as f64, special }
    }

    /// `q_index`.
    fn prime(&self, index: usize) -> f64 {
        value(&self.parameters.ring().data_primes()[index])
    }

    /// `R`.
    fn rounding(&self) -> f64 {
        ROUNDING * (6.0 * self.degree.sqrt() + 19.0 * SECRET * self.degree)
    }

    /// A key switch at a level.
    fn switch(&self, level: usize) -> f64 {
        let digits = self.parameters.ring().data_primes()[..level].chunks(self.parameters.digit_size());
        let widths: f64 = digits.map(|digit| product(digit) / self.special).sum();
        self.rounding() + widths * 19.0 * ROUNDING * FRESH * self.degree
    }

    /// The slots of a weight's rounded polynomial: its deviation.
    fn weight(&self) -> f64 {
        ROUNDING * self.degree.sqrt()
    }

    /// The switch to the sparse secret, in the coefficients.
    fn narrow(&self) -> f64 {
        let special = self.parameters.ring().special_primes().first().map_or(1.0, value);
        let switched = self.prime(0) / special * ROUNDING * FRESH * self.degree.sqrt();
        6.0 * (switched + ROUNDING * (1.0 + WEIGHT as f64).sqrt())
    }
}

fn value(table: &Ntt) -> f64 {
    table.modulus().value() as f64
}

fn product(tables: &[Ntt]) -> f64 {
    tables.iter().map(value).product()
}

impl Refresh {
    /// Bits of the chance that a refresh exceeds its bound on the error: `N 2^-51`, for a slot
    /// beyond six deviations. Such a result is a little less precise than was said. A wrong
    /// result has no chance: nothing overflows at any input that is accepted.
    pub fn failure_bits(&self) -> f64 {
        51.0 - (self.evaluator.parameters().degree() as f64).log2()
    }

    /// The bounds of a refreshed ciphertext, given those of the ciphertext and its scale. Its
    /// precision in bits is `-log2` of the error. They hold for every key and every ciphertext but
    /// for a chance of 2 to minus [`Self::failure_bits`]; the multiples of `q_0` are within their
    /// bound always.
    ///
    /// # Errors
    /// [`RefreshError`] for numbers that are too large beside the first prime, and for bits with
    /// too large an error, or at another scale.
    pub fn bound(&self, a: &Estimate, scale: &Scale) -> Result<Estimate, RefreshError> {
        let parameters = self.evaluator.parameters();
        if let Numbers::Bits { scale: bits } = self.settings.numbers {
            if *scale != Scale::power_of_two(bits) {
                return Err(RefreshError::Scale { bits, found: scale.clone() });
            }
            return self.bound_of_bits(a, f64::from(bits).exp2());
        }
        let (steps, scale) = (Steps::new(parameters), scale.to_f64(parameters).unwrap_or(f64::NAN));
        let q = steps.prime(0);
        let [magnitude, wide, encoding, noise] = a.bounds();
        let down = self.down_error(&steps, magnitude, scale);
        // a number over q_0
        let epsilon = ((magnitude + a.error() + down) * scale + steps.narrow()) / q;
        let fits = wide == 0.0 && epsilon <= MARGIN;
        if !fits {
            let (magnitude, most) = (magnitude + wide + a.error(), MARGIN * q / scale);
            return Err(RefreshError::Magnitude { magnitude, most });
        }
        let angle = 2.0 * PI * epsilon;
        let sine = epsilon * if self.settings.corrected { angle.powi(4) / 30.0 } else { angle.powi(2) / 6.0 };
        let t = self.raised_error(&steps) + self.circuit_error(&steps) + self.exponential.error / PI;
        let parts = if self.settings.numbers == Numbers::Complex { 2f64.sqrt() } else { 1.0 };
        let added = parts * (down + (t + sine) * q / scale);
        Ok(Estimate::of_bounds([magnitude, 0.0, encoding, noise + added], scale, self.level()))
    }

    /// [`Self::bound`] for bits, which are at most 1. A bit's error is halved in `t`, and squared
    /// by the cosine.
    fn bound_of_bits(&self, a: &Estimate, scale: f64) -> Result<Estimate, RefreshError> {
        let steps = Steps::new(self.evaluator.parameters());
        let [magnitude, wide, ..] = a.bounds();
        let error = a.error() + self.down_error(&steps, magnitude, scale);
        let t = error / 2.0 + self.raised_error(&steps);
        // the range of the series has a margin for what comes after the raise
        let fits = wide == 0.0 && magnitude <= 1.0 && error <= 0.25 && self.raised_error(&steps) <= MARGIN;
        if !fits {
            return Err(OperationError::Bits { magnitude: magnitude + wide, error }.into());
        }
        let noise = (PI * t).sin().powi(2) + self.circuit_error(&steps) + self.exponential.error / 2.0;
        Ok(Estimate::of_bounds([1.0, 0.0, 0.0, noise], steps.prime(0), self.level()))
    }

    /// The error of `t` that does not come from the numbers: of the raise, of coefficients to
    /// slots, and of the conjugation.
    fn raised_error(&self, steps: &Steps<'_>) -> f64 {
        let after = steps.parameters.data_primes() - self.settings.up.len();
        let conjugated = 2.0 * steps.switch(after + 1) / steps.prime(after) * self.exponential.bound;
        (steps.narrow() + conjugated) / steps.prime(0) + self.up_error(steps) * self.exponential.bound
    }

    /// The error of the series, of the squarings and of the last conjugation, over `q_0`.
    fn circuit_error(&self, steps: &Steps<'_>) -> f64 {
        (self.slope * steps.rounding() + 2.0 * steps.switch(self.level())) / steps.prime(0)
    }

    /// Slots to coefficients, in the coefficients, for slots of at most `magnitude`. What is added
    /// after a factor goes through the others, of norm `2^(layers/2)` each; a coefficient is an
    /// average of slots.
    fn down_error(&self, steps: &Steps<'_>, magnitude: f64, scale: f64) -> f64 {
        let (slots, copies) = (self.settings.slots as f64, self.copies().count() as f64);
        let (mut error, mut grown) = (0.0, magnitude * slots.sqrt());
        for (i, layers) in self.settings.down.iter().enumerate() {
            let (level, norm) = (self.settings.least_level() - i, f64::from(1u32 << layers).sqrt());
            let repeated = if i == 0 { copies * steps.switch(level - 1) } else { 0.0 };
            error = norm * (error + steps.switch(level) / scale);
            error += 6.0 * steps.weight() * grown / steps.prime(level - 1) + (steps.rounding() + repeated) / scale;
            grown *= norm;
        }
        error / slots.sqrt()
    }

    /// Coefficients to slots, in `x = t/κ`. Slots of the raised ciphertext are sums of coefficients
    /// with the deviation `√(33/12)`.
    fn up_error(&self, steps: &Steps<'_>) -> f64 {
        let (top, q) = (steps.parameters.data_primes(), steps.prime(0));
        let mut size = ((WEIGHT as f64 + 1.0) / 12.0).sqrt() * steps.degree.sqrt();
        let mut error = (1.0 + self.copies().count() as f64) * steps.switch(top) / q;
        for (i, layers) in self.settings.up.iter().enumerate() {
            let level = top - i;
            // both halves of x, once
            let constant = if i == 0 { 1.0 / self.exponential.bound } else { 1.0 };
            let norm = constant / f64::from(1u32 << layers).sqrt();
            let diagonals = f64::from(2u32 << layers).sqrt();
            error = norm * (error + steps.switch(level) / q);
            error += 19.0 * steps.weight() * diagonals * size / steps.prime(level - 1) + steps.rounding() / q;
            size *= norm;
        }
        error
    }
}

/// A number with its derivatives by the sources of error.
#[derive(Clone)]
struct Dual {
    value: Complex,
    slopes: Vec<Complex>,
}

impl Dual {
    fn of(value: Complex) -> Self {
        Self { value, slopes: Vec::new() }
    }

    fn plus(&self, other: &Self) -> Self {
        let length = self.slopes.len().max(other.slopes.len());
        let at = |dual: &Self, i: usize| dual.slopes.get(i).copied().unwrap_or_default();
        let slopes = (0..length).map(|i| at(self, i) + at(other, i)).collect();
        Self { value: self.value + other.value, slopes }
    }

    fn scaled(&self, factor: Complex) -> Self {
        Self { value: self.value * factor, slopes: self.slopes.iter().map(|slope| *slope * factor).collect() }
    }

    fn times(&self, other: &Self) -> Self {
        let product = self.scaled(other.value).plus(&other.scaled(self.value));
        Self { value: self.value * other.value, ..product }
    }
}

/// A circuit in numbers, which counts roundings.
pub(super) struct Circuit {
    sources: usize,
}

impl Circuit {
    /// A root of a sum of squares: of the derivatives of twice the result by all roundings. The
    /// circuit is a series of Chebyshev polynomials of `x`, squarings, and perhaps `c y - y²`.
    pub(super) fn slope(x: f64, series: &[Complex], squarings: u32, linear: Option<f64>) -> f64 {
        let mut circuit = Self { sources: 0 };
        let mut y = circuit.series(&Dual::of(x.into()), series);
        for _ in 0..squarings {
            y = circuit.rounded(&y.times(&y));
        }
        if let Some(linear) = linear {
            y = circuit.rounded(&y.scaled(linear.into()).plus(&y.times(&y).scaled((-1.0).into())));
        }
        2.0 * y.slopes.iter().map(|slope| slope.abs() * slope.abs()).sum::<f64>().sqrt()
    }

    /// A new source.
    fn rounded(&mut self, a: &Dual) -> Dual {
        let mut rounded = a.clone();
        rounded.slopes.resize(self.sources + 1, Complex::default());
        rounded.slopes[self.sources] = 1.0.into();
        self.sources += 1;
        rounded
    }

    /// As [`Evaluator::chebyshev`](crate::ckks::Evaluator::chebyshev).
    fn series(&mut self, x: &Dual, p: &[Complex]) -> Dual {
        let mut known = BTreeMap::from([(0, Dual::of(1.0.into())), (1, x.clone())]);
        let sum = self.terms(p, log2_up(degree(p) + 1), Basis::Chebyshev.baby(p), &mut known);
        self.rounded(&sum)
    }

    fn terms(&mut self, p: &[Complex], depth: usize, baby: usize, known: &mut BTreeMap<usize, Dual>) -> Dual {
        let degree = degree(p);
        if is_sum(p, baby, depth) {
            let mut sum = Dual::of(p[0]);
            for (k, c) in p.iter().enumerate().skip(1).filter(|(_, c)| **c != Complex::default()) {
                sum = sum.plus(&self.element(k, known).scaled(*c));
            }
            return sum;
        }
        let h = (degree + 1).next_power_of_two() / 2;
        let [low, high] = Basis::Chebyshev.split(&p[..=degree], h);
        let element = self.element(h, known);
        let product = if high.len() == 1 {
            element.scaled(high[0])
        } else {
            let high = self.terms(&high, depth - 1, baby, known);
            self.rounded(&high).times(&element)
        };
        product.plus(&self.terms(&low, depth, baby, known))
    }

    /// `T_k`.
    fn element(&mut self, k: usize, known: &mut BTreeMap<usize, Dual>) -> Dual {
        if let Some(element) = known.get(&k) {
            return element.clone();
        }
        let ([left, right], term) = Basis::Chebyshev.parts(k);
        let product = self.element(left, known).times(&self.element(right, known)).scaled(2.0.into());
        let term = self.element(term.unwrap_or(0), known).scaled((-1.0).into());
        let element = self.rounded(&product.plus(&term));
        known.insert(k, element.clone());
        element
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_differences() {
        let series: Vec<Complex> =
            (0..16).map(|k| Complex { re: 0.5 / f64::from(k + 1), im: f64::from(k % 3) / 10.0 }).collect();
        for x in [-0.9, -0.1, 0.0, 0.3, 1.0] {
            let mut circuit = Circuit { sources: 0 };
            let y = circuit.series(&Dual::of(x.into()), &series);
            // the value is that of cosines
            let cosine = |k: usize| Complex::from((k as f64 * f64::acos(x)).cos());
            let sum = series.iter().enumerate().fold(Complex::default(), |sum, (k, c)| sum + *c * cosine(k));
            assert!((sum - y.value).abs() < 1e-12);
            // the last rounding counts once, and squares double
            assert_eq!(y.slopes.last(), Some(&Complex::from(1.0)));
            assert_eq!(circuit.sources, y.slopes.len());
            let square = circuit.rounded(&y.times(&y));
            for (before, after) in y.slopes.iter().zip(&square.slopes) {
                assert!((*before * y.value * Complex::from(2.0) - *after).abs() < 1e-12);
            }
        }
        // T_4 = 2 (2x² - 1)² - 1: the first rounding counts 4 T_2, the second 1, the last 1
        let mut unit = vec![Complex::default(); 5];
        unit[4] = 1.0.into();
        let x = 0.3;
        let expected = (16.0 * (2.0 * x * x - 1.0f64).powi(2) + 2.0).sqrt();
        assert!((Circuit::slope(x, &unit, 0, None) / 2.0 - expected).abs() < 1e-12);
    }
}
