//! The modular reduction that removes the multiples of `q_0`: the sine in an exponential function.
//!
//! Slots hold `t = I + ε` with an integer `|I| ≤ 16.5` and a small `ε = m/q_0`. As `exp(2πit)` has
//! the period 1, its imaginary part is `sin(2πε)`, and
//!
//! ```text
//! sin(2πε)/2π = ε - (2π)² ε³/6 + …
//! ```
//!
//! is `ε` to within `6.6 ε²` of it. With `x = t/κ` in [-1, 1],
//!
//! ```text
//! exp(2πiκ x / 2^r) = J_0(ω) + 2 Σ i^k J_k(ω) T_k(x),      ω = 2πκ/2^r,
//! ```
//!
//! is a Chebyshev series whose coefficients are Bessel functions, and `r` squarings follow. A
//! factor `a` with `a^(2^r) = c/2π` goes through them. It carries the `1/2π`, and the correction
//! `c` of the scale, at no cost.
//!
//! **Why not a cosine**, as others do (Han, Ki, CT-RSA 2020)? It is real, and its series is even,
//! so it takes three key switches less. But `cos 2θ = 2 cos² θ - 1` multiplies an error by up to 4,
//! where a square of a number on the unit circle multiplies it by 2; and an even series knows `x`
//! by `T_2 = 2x² - 1` alone, which loses the digits of a small `x`, as most are. With primes below
//! `2^50` the cosine's results have 15 bits in the worst of 2^15 slots, and these have 17.
//!
//! **More precision.** With one more squaring, `y²` has the imaginary part `sin 4πε`, and
//!
//! ```text
//! (4/3) sin θ - (1/6) sin 2θ = θ - θ⁵/30 + …
//! ```
//!
//! removes the sine's own error: one level, where an arcsine takes two.
//!
//! **Error of the series.** At most twice the sum of the Bessel functions that are left out, times
//! `2^r` by the squarings.

use crate::ckks::Complex;
use std::f64::consts::PI;

/// What a message adds to `|I|`, at most: `|ε|`, and errors.
pub(super) const MARGIN: f64 = 1.0 / 128.0;

/// The approximate modular reduction, prepared.
#[derive(Clone, Debug)]
pub(super) struct Exponential {
    /// `κ`.
    pub(super) bound: f64,
    /// Of Chebyshev polynomials.
    series: Vec<Complex>,
    /// A bound on the error of `exp(2πit)` after `r` squarings.
    pub(super) error: f64,
}

impl Exponential {
    /// For multiples of at most `most` in absolute value.
    pub(super) fn new(most: f64, degree: usize, squarings: u32) -> Self {
        let bound = most + MARGIN;
        let turns = f64::from(1u32 << squarings);
        let bessel = bessel(2.0 * PI * bound / turns, degree + 64);
        let coefficient = |k: usize| {
            let c = bessel[k] * if k == 0 { 1.0 } else { 2.0 };
            match k % 4 {
                0 => Complex { re: c, im: 0.0 },
                1 => Complex { re: 0.0, im: c },
                2 => Complex { re: -c, im: 0.0 },
                _ => Complex { re: 0.0, im: -c },
            }
        };
        let rest: f64 = bessel.iter().skip(degree + 1).map(|j| 2.0 * j.abs()).sum();
        Self { bound, series: (0..=degree).map(coefficient).collect(), error: rest * turns }
    }

    /// The series times a factor.
    pub(super) fn times(&self, factor: f64) -> Vec<Complex> {
        self.series.iter().map(|c| *c * Complex::from(factor)).collect()
    }
}

/// `J_0(x) … J_count(x)` by the recurrence `J_(k-1) = 2k/x J_k - J_(k+1)` from far above
/// downwards, normalised by `J_0 + 2 Σ J_2k = 1` (Miller's algorithm).
fn bessel(x: f64, count: usize) -> Vec<f64> {
    let start = count + 60 + x as usize;
    let mut values = vec![0.0; start + 2];
    values[start] = 1e-280;
    for k in (1..=start).rev() {
        values[k - 1] = 2.0 * k as f64 / x * values[k] - values[k + 1];
        if values[k - 1].abs() > 1e200 {
            values[k - 1..].iter_mut().for_each(|value| *value *= 1e-200);
        }
    }
    let sum = values[0] + 2.0 * values.iter().skip(2).step_by(2).sum::<f64>();
    values.truncate(count + 1);
    values.iter_mut().for_each(|value| *value /= sum);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bessel_functions_have_their_values() {
        // from tables
        for (x, k, value) in [(1.0, 0, 0.765_197_686_557_966_6), (5.0, 3, 0.364_831_230_613_666_7)] {
            let found = bessel(x, 40)[k];
            assert!((found - value).abs() < 1e-13, "J_{k}({x}) = {found}, expected {value}");
        }
        for x in [0.5, 1.6, 13.0, 26.3] {
            let all = bessel(x, 80);
            // Neumann: J_0² + 2 Σ J_k² = 1
            let squares = all[0] * all[0] + 2.0 * all.iter().skip(1).map(|j| j * j).sum::<f64>();
            assert!((squares - 1.0).abs() < 1e-13, "{x}: {squares}");
        }
    }

    /// `exp(2πit)` in doubles.
    fn value(exponential: &Exponential, squarings: u32, t: f64) -> Complex {
        let angle = (t / exponential.bound).acos();
        let terms = exponential.times(1.0).into_iter().enumerate();
        let sum = terms.fold(Complex::default(), |sum, (k, c)| sum + c * Complex::from((k as f64 * angle).cos()));
        (0..squarings).fold(sum, |y, _| y * y)
    }

    #[test]
    fn multiples_of_one_vanish_within_the_bound() {
        for (degree, squarings, most) in [(31, 3, -28.9), (15, 5, -27.0), (23, 4, -33.0), (63, 2, -50.0)] {
            let exponential = Exponential::new(16.5, degree, squarings);
            assert!(exponential.error < 2f64.powf(most), "degree {degree}: 2^{}", exponential.error.log2());
            for multiple in -16..=16 {
                for j in -20..=20 {
                    let epsilon = f64::from(j) / 20.0 * MARGIN;
                    let found = value(&exponential, squarings, f64::from(multiple) + epsilon);
                    let (sin, cos) = (2.0 * PI * epsilon).sin_cos();
                    let error = (found - Complex { re: cos, im: sin }).abs();
                    assert!(error <= exponential.error + 1e-12, "{multiple} + {epsilon}: {error:e}");
                }
            }
        }
    }
}
