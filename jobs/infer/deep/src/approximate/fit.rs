//! Least-squares polynomials of low degree, for the numbers that a network really has.
//!
//! A minimax polynomial bounds the error for all numbers of a range. Most numbers of a network are
//! in a small part of their range, so a polynomial of degree 2 that is near there can serve better.
//! A network that is trained further with this polynomial adapts to the rest of the error.
//!
//! **Method.** With the scalar product `⟨p, q⟩ = Σ_x p(x) q(x)` over the samples, Forsythe's
//! recurrence (J. SIAM 5, 1957) makes orthogonal polynomials
//!
//! ```text
//! π_(k+1) = (t - α_k) π_k - β_k π_(k-1),    α_k = ⟨t π_k, π_k⟩/⟨π_k, π_k⟩,
//!                                           β_k = ⟨π_k, π_k⟩/⟨π_(k-1), π_(k-1)⟩,
//! ```
//!
//! and the result is `Σ ⟨f, π_k⟩/⟨π_k, π_k⟩ π_k`. No system of equations is solved, so
//! a higher degree costs no precision.

use super::{ApproximationError, MAX_RANGE, series};
use crate::graph::Activation;

/// The highest degree of a fit.
pub const MAX_FIT: usize = 8;

/// A polynomial for samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    center: f64,
    radius: f64,
    series: Vec<f64>,
    rms: f64,
    largest: f64,
}

/// The polynomial of a degree of at most [`MAX_FIT`] with the least sum of squared errors over the
/// samples. Samples count as often as they occur. With fewer different samples than coefficients,
/// the degree is lower.
///
/// # Errors
/// [`ApproximationError::Samples`] without samples or for a sample that is infinite or larger than
/// 2^40, [`ApproximationError::Interval`] for a higher degree, and
/// [`ApproximationError::NotFinite`] if the function is infinite or undefined at a sample.
pub fn fit(activation: Activation, samples: &[f64], degree: usize) -> Result<Fit, ApproximationError> {
    if degree > MAX_FIT {
        return Err(ApproximationError::Interval { degree });
    }
    let ends = |(low, high): (f64, f64), x: &f64| (low.min(*x), high.max(*x));
    let (low, high) = samples.iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    if samples.is_empty() || samples.iter().any(|x| x.is_nan() || x.abs() > MAX_RANGE) {
        return Err(ApproximationError::Samples);
    }
    let center = (low + high) / 2.0;
    let radius = if low < high { (high - low) / 2.0 } else { 1.0 };
    let t: Vec<f64> = samples.iter().map(|x| (x - center) / radius).collect();
    let values: Vec<f64> = samples.iter().map(|x| activation.value(*x)).collect();
    if values.iter().any(|y| !y.is_finite()) {
        return Err(ApproximationError::NotFinite);
    }
    let series = project(&t, &values, degree);
    let error = |(t, y): (&f64, &f64)| (series::value(&series, *t) - y).abs();
    let largest = t.iter().zip(&values).map(error).fold(0.0, f64::max);
    let squares: f64 = t.iter().zip(&values).map(error).map(|e| e * e).sum();
    Ok(Fit { center, radius, rms: (squares / samples.len() as f64).sqrt(), largest, series })
}

/// [`fit`] of degree 2: one product, two levels.
///
/// # Errors
/// As [`fit`].
pub fn quadratic(activation: Activation, samples: &[f64]) -> Result<Fit, ApproximationError> {
    fit(activation, samples, 2)
}

/// The projection onto polynomials of the degree, by orthogonal polynomials: their values at the
/// points, and their series.
fn project(t: &[f64], values: &[f64], degree: usize) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rest = values.to_vec();
    let (mut now, mut before) = ((vec![1.0; t.len()], vec![1.0]), (vec![0.0; t.len()], vec![0.0]));
    let (mut norm, mut last) = (t.len() as f64, 0.0);
    let mut result = vec![0.0];
    for k in 0..=degree {
        let factor = dot(&rest, &now.0) / norm;
        rest.iter_mut().zip(&now.0).for_each(|(y, p)| *y -= factor * p);
        let scaled: Vec<f64> = now.1.iter().map(|c| factor * c).collect();
        result = series::sum(&result, &scaled);
        if k == degree {
            break;
        }
        let shifted: Vec<f64> = t.iter().zip(&now.0).map(|(t, p)| t * p).collect();
        let alpha = dot(&shifted, &now.0) / norm;
        let beta = if k == 0 { 0.0 } else { norm / last };
        let next: Vec<f64> =
            shifted.iter().zip(&now.0).zip(&before.0).map(|((s, p), q)| s - alpha * p - beta * q).collect();
        let lower = now.1.iter().map(|c| -alpha * c).collect::<Vec<f64>>();
        let lowest = before.1.iter().map(|c| -beta * c).collect::<Vec<f64>>();
        let next = (next, series::sum(&series::sum(&series::times_t(&now.1), &lower), &lowest));
        (before, now) = (now, next);
        (last, norm) = (norm, dot(&now.0, &now.0));
        // the polynomial is 0 at all samples, up to rounding errors
        if norm <= 1e-22 * t.len() as f64 {
            break;
        }
    }
    result
}

impl Fit {
    /// The middle of the samples' range.
    pub fn center(&self) -> f64 {
        self.center
    }

    /// Half the width of the samples' range.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// The coefficients of `T_0(t)`, `T_1(t)` …, `x = center + radius t`.
    pub fn series(&self) -> &[f64] {
        &self.series
    }

    /// The root of the mean squared error over the samples.
    pub fn rms(&self) -> f64 {
        self.rms
    }

    /// The largest error over the samples.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// The polynomial's value.
    pub fn value(&self, x: f64) -> f64 {
        series::value(&self.series, (x - self.center) / self.radius)
    }

    /// The coefficients of `1`, `x`, `x²` …, as a polynomial node of a graph has them.
    pub fn powers(&self) -> Vec<f64> {
        // Clenshaw's recurrence with polynomials in x in place of numbers
        let (a, b) = (1.0 / self.radius, -self.center / self.radius);
        let times_t = |p: &[f64]| {
            let mut product = vec![0.0; p.len() + 1];
            for (k, c) in p.iter().enumerate() {
                product[k] += b * c;
                product[k + 1] += a * c;
            }
            product
        };
        let step = |(b1, b2): (Vec<f64>, Vec<f64>), (k, c): (usize, &f64)| {
            let twice = if k == 0 { 1.0 } else { 2.0 };
            let mut b0: Vec<f64> = times_t(&b1).iter().map(|x| twice * x).collect();
            b0.iter_mut().zip(&b2).for_each(|(x, y)| *x -= y);
            b0[0] += c;
            (b0, b1)
        };
        let (mut powers, _) = self.series.iter().enumerate().rev().fold((vec![0.0], vec![0.0]), step);
        powers.truncate(self.series.len());
        powers
    }
}
