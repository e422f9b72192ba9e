//! The canonical embedding: between `N/2` complex slots and `N` real coefficients.
//!
//! Let `ζ = exp(iπ/N)`, `n = N/2`. Slot `j` of a real polynomial `m` is `m(ζ^(5^j))`; the values at
//! the other roots of `X^N + 1` are the conjugates of these. Since `5^j ≡ 1 (mod 4)`, all those
//! roots have `X^n = i`, so
//!
//! ```text
//! z_j = u(ζ^(5^j)),      u_k = m_k + i m_(k+n),      u in C[X]/(X^n - i),
//! ```
//!
//! and the transform works like [`Ntt`](crate::ring::Ntt): stage by stage `X^(2t) - w²` splits into
//! `X^t - w` and `X^t + w`, here from `w² = i`. Place `k` of the last stage has the root
//! `ζ^(1 + 4 rev(k))`, and a table maps it to its slot.
//!
//! **Deterministic.** Roots come from integers, and each butterfly is IEEE additions and products
//! in a fixed order, so that all machines get the same bits.
//!
//! **Accuracy.** Let `ε = 2^-53`. A butterfly's product has a relative error below `4ε` of its
//! factor, its sum one of `ε`. On the way to coefficients, all numbers are averages of slots times
//! roots, so the error of a coefficient is below `5 ε log2(n) max |z_j|`. On the way to slots, the
//! error is below `5 ε log2(n) Σ |u_k|`.
//!
//! # Leakage
//! Constant time as far as the machine's additions and products are: subnormal numbers may be
//! slower.

use super::roots::half_circle;
use crate::kernels::{Parts, RingKernels};
use std::ops::{Add, Mul, Sub};
use tobari_simd::Wiped;
use zeroize::{Zeroize, Zeroizing};

/// A complex number.
///
/// ```
/// use tobari_lattice::ckks::Complex;
/// let z = Complex { re: 1.0, im: 2.0 };
/// assert_eq!(z * z.conjugate(), Complex::from(5.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Zeroize)]
pub struct Complex {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

impl Complex {
    /// The complex conjugate.
    pub fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    /// The absolute value.
    pub fn abs(self) -> f64 {
        (self.re * self.re + self.im * self.im).sqrt()
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self { re, im: 0.0 }
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The transform of one degree, prepared.
#[derive(Clone)]
pub(crate) struct Embedding {
    /// `w` of block `b` of the stage of `m` blocks, at `m + b`.
    twiddles: Parts<Vec<f64>>,
    /// The place of each slot after the last stage.
    places: Vec<u32>,
}

impl Embedding {
    /// The transform for polynomials with `degree` coefficients.
    ///
    /// # Panics
    /// Unless `degree` is a power of two and at least 4.
    pub(crate) fn new(degree: usize) -> Self {
        assert!(degree.is_power_of_two() && degree >= 4, "a power of two from 4 on, not {degree}");
        let slots = degree / 2;
        let roots = half_circle(degree);
        let mut twiddles = Parts { re: vec![0.0; slots], im: vec![0.0; slots] };
        let mut blocks = 1;
        while blocks < slots {
            for block in 0..blocks {
                let root = roots[slots / (2 * blocks) * exponent(block, blocks)];
                (twiddles.re[blocks + block], twiddles.im[blocks + block]) = (root.re, root.im);
            }
            blocks *= 2;
        }
        // the place of each root, then that of 5^j
        let mut of_root = vec![0; slots];
        for place in 0..slots {
            of_root[exponent(place, slots) / 4] = place as u32;
        }
        let powers = std::iter::successors(Some(1), |power| Some(power * 5 % (2 * degree)));
        let places = powers.take(slots).map(|power: usize| of_root[power / 4]).collect();
        Self { twiddles, places }
    }

    /// `N/2`.
    pub(crate) fn slots(&self) -> usize {
        self.places.len()
    }

    /// The `N` coefficients of the polynomial with these slots, from slot 0 on; the others are 0.
    ///
    /// # Panics
    /// If there are more than `N/2` slots.
    #[cfg(test)]
    pub(crate) fn to_coefficients(&self, slots: &[Complex]) -> Zeroizing<Vec<f64>> {
        Zeroizing::new(self.scaled_coefficients(slots.iter().copied(), 1.0).to_vec())
    }

    /// The same coefficients times a factor.
    pub(super) fn scaled_coefficients(&self, slots: impl ExactSizeIterator<Item = Complex>, factor: f64) -> Wiped<f64> {
        let n = self.slots();
        assert!(slots.len() <= n, "at most {n} slots, not {}", slots.len());
        let mut values = Wiped::new(vec![0.0; 2 * n]);
        let (re, im) = values.split_at_mut(n);
        for (slot, place) in slots.zip(&self.places) {
            (re[*place as usize], im[*place as usize]) = (slot.re, slot.im);
        }
        (RingKernels::best().to_coefficients)(&self.twiddles, re, im);
        // 1/n is a power of two: this rounds once, as the product by the factor alone would
        let factor = factor / n as f64;
        values.iter_mut().for_each(|value| *value *= factor);
        values
    }

    /// The `N/2` slots of a polynomial.
    ///
    /// # Panics
    /// If there are not `N` coefficients.
    pub(crate) fn to_slots(&self, coefficients: &[f64]) -> Zeroizing<Vec<Complex>> {
        let n = self.slots();
        assert_eq!(coefficients.len(), 2 * n, "one number for each coefficient");
        let mut values = Zeroizing::new(coefficients.to_vec());
        let (re, im) = values.split_at_mut(n);
        (RingKernels::best().to_slots)(&self.twiddles, re, im);
        let slot = |place: &u32| Complex { re: re[*place as usize], im: im[*place as usize] };
        Zeroizing::new(self.places.iter().map(slot).collect())
    }
}

/// `1 + 4 rev(place)`: the power of `ζ^(n/length)` at that place of `length`.
fn exponent(place: usize, length: usize) -> usize {
    1 + 4 * (place.reverse_bits().checked_shr(usize::BITS - length.trailing_zeros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    /// `m(ζ^(5^j))` from its definition.
    fn direct(coefficients: &[f64]) -> Vec<Complex> {
        let degree = coefficients.len();
        let value = |power: usize| {
            coefficients.iter().enumerate().fold(Complex::default(), |sum, (k, m)| {
                let (sin, cos) = (PI * (k * power % (2 * degree)) as f64 / degree as f64).sin_cos();
                sum + Complex { re: m * cos, im: m * sin }
            })
        };
        let mut power = 1;
        let mut slots = Vec::new();
        for _ in 0..degree / 2 {
            slots.push(value(power));
            power = power * 5 % (2 * degree);
        }
        slots
    }

    fn distance(a: &[Complex], b: &[Complex]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (*a - *b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn every_unit_vector_has_its_values_at_every_degree() {
        for degree in [4, 8, 64, 256] {
            let embedding = Embedding::new(degree);
            for place in (0..degree).step_by(degree.div_ceil(32)) {
                let mut unit = vec![0.0; degree];
                unit[place] = 1.0;
                let slots = embedding.to_slots(&unit);
                assert!(distance(&slots, &direct(&unit)) < 1e-13, "{place} of {degree}");
                let back = embedding.to_coefficients(&slots);
                assert!(back.iter().zip(&unit).all(|(a, b)| (a - b).abs() < 1e-15));
            }
        }
    }

    #[test]
    fn large_degrees_come_back_within_the_bound() {
        for log in [12, 17] {
            let embedding = Embedding::new(1 << log);
            let slots: Vec<Complex> = (0..1 << (log - 1))
                .map(|j| Complex { re: f64::from(j * 37 % 101) / 101.0, im: f64::from(j * 53 % 103) / 206.0 })
                .collect();
            let coefficients = embedding.to_coefficients(&slots);
            let back = embedding.to_slots(&coefficients);
            let sum: f64 = coefficients.iter().map(|m| m.abs()).sum();
            let bound = 5.0 * 2f64.powi(-53) * f64::from(log - 1) * (sum + 2.0 * f64::from(1 << log));
            assert!(distance(&back, &slots) < bound.min(1e-11), "{log}: {:e}", distance(&back, &slots));
        }
    }

    #[test]
    #[should_panic(expected = "at most 4 slots, not 5")]
    fn too_many_slots_are_a_mistake() {
        Embedding::new(8).to_coefficients(&[Complex::default(); 5]);
    }

    #[test]
    fn a_constant_polynomial_has_its_value_everywhere() {
        let embedding = Embedding::new(8);
        let slots = embedding.to_slots(&[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(*slots, [Complex::from(3.0); 4]);
        assert_eq!(embedding.to_coefficients(&slots)[0], 3.0);
    }

    #[test]
    fn slots_that_are_missing_are_zero() {
        let some: Vec<Complex> = [1.5, -2.0].map(Complex::from).to_vec();
        let all: Vec<Complex> = [1.5, -2.0, 0.0, 0.0].map(Complex::from).to_vec();
        let embedding = Embedding::new(8);
        assert!(*embedding.to_coefficients(&some) == *embedding.to_coefficients(&all));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn random_coefficients_have_their_values(values in prop::collection::vec(-1e6..1e6f64, 64)) {
            let embedding = Embedding::new(64);
            let slots = embedding.to_slots(&values);
            prop_assert!(distance(&slots, &direct(&values)) < 64.0 * 1e6 * 5.0 * 6.0 * 2f64.powi(-53));
            let back = embedding.to_coefficients(&slots);
            prop_assert!(back.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-7));
        }
    }
}
