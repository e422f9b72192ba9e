//! Polynomials for activations on encrypted numbers.
//!
//! Encrypted numbers (CKKS) can be added and multiplied, so only polynomials of them can be
//! computed. An activation `f` on a range becomes
//!
//! ```text
//! f(x) ≈ base(t) + Σ_i factor_i(t) S_i(t - shift_i),     x = center + radius t,   |t| ≤ 1.
//! ```
//!
//! | part | form | used for |
//! |---|---|---|
//! | `base` | a Chebyshev series in `t` | every function |
//! | `factor_i` | a series of degree 1 or 2 | functions with kinks |
//! | `S_i` | a composition of odd series, near the sign | functions with kinks |
//!
//! A smooth function is a `base` alone, its minimax polynomial ([`remez`], `single.rs`). So is a
//! function with kinks, where the tolerance is wide. Elsewhere such a function takes one *gate* for
//! each kink (`gates.rs`, [`sign`]). For example, `max(x, 0) = x/2 + x/2 sign x`. [`approximate`]
//! chooses the form with the fewest levels, and among those the fewest products of ciphertexts.
//!
//! **Cost.** A series of degree `d` takes `⌈log2(d + 1)⌉` levels. A gate takes the levels of its
//! stages, and one for the product with the factor. The change from `x` to `t` is not counted: it
//! belongs to the linear map before. The factor takes no levels of its own, because it is ready
//! before `S`. A `base` of degree 1 counts as one level; it can join the next linear map.
//!
//! **Levels against products.** One polynomial of degree `n` has an error of `0.14/n` for
//! `max(x, 0)` on [-1, 1], in `log2 n` levels and about `1.4 √n` products. A gate with this
//! error has half again as many levels and, for errors below 2^-10, fewer products. Noise in `t`
//! grows by up to `n²` in `T_n` near ±1. [`Limits::degree`] moves the choice.
//!
//! **Error.** [`Approximation::error`] bounds `|f(x) - value(x)|` on the range: it is the maximum
//! over a fine grid with refined maxima, or a bound (`gates.rs`). The noise of encryption comes on
//! top. Outside the range, polynomials grow quickly: choose the range with a margin.

mod fit;
mod gates;
mod pieces;
pub mod remez;
pub mod series;
pub mod sign;
mod single;
mod table;

#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;

pub use fit::{Fit, MAX_FIT, fit, quadratic};

use crate::graph::Activation;
use sign::Sign;

/// The largest absolute value of an end of a range.
pub const MAX_RANGE: f64 = (1u64 << 40) as f64;

/// Levels and products of ciphertexts. Fewer levels are cheaper, then fewer products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Levels.
    pub depth: usize,
    /// Products of ciphertexts: key switches.
    pub products: usize,
}

/// The most that an approximation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The highest degree of a series, at most [`remez::MAX_DEGREE`].
    pub degree: usize,
    /// Levels.
    pub depth: usize,
    /// Products of ciphertexts.
    pub products: usize,
}

/// Degree 127, 16 levels and 80 products.
impl Default for Limits {
    fn default() -> Self {
        Self { degree: 127, depth: 16, products: 80 }
    }
}

/// `factor(t) S(t - shift)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    factor: Vec<f64>,
    shift: f64,
    sign: Sign,
}

impl Gate {
    /// The coefficients of `T_0(t)`, `T_1(t)` and, for a factor of degree 2, `T_2(t)`.
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }

    /// The kink, in `t`. `|t - shift|` is at most 1 on the range.
    pub fn shift(&self) -> f64 {
        self.shift
    }

    /// The composition, whose stages all take numbers in [-1, 1].
    pub fn sign(&self) -> &Sign {
        &self.sign
    }
}

/// A polynomial for an activation on a range. The head of the module has its form.
#[derive(Clone, Debug, PartialEq)]
pub struct Approximation {
    center: f64,
    radius: f64,
    base: Vec<f64>,
    gates: Vec<Gate>,
    error: f64,
    cost: Cost,
}

impl Approximation {
    fn new(center: f64, radius: f64, base: Vec<f64>, gates: Vec<Gate>) -> Self {
        let degree = series::degree(&base);
        let depth = |gate: &Gate| gate.sign.depth().max(series::levels(series::degree(&gate.factor))) + 1;
        // all factors share T_2, also with the base
        let square = gates.iter().any(|gate| series::degree(&gate.factor) > 1) && degree < 2;
        let products = gates.iter().map(|gate| gate.sign.products() + 1).sum::<usize>();
        let cost = Cost {
            depth: gates.iter().map(depth).fold(series::levels(degree), usize::max),
            products: series::products(&base) + products + usize::from(square),
        };
        Self { center, radius, base, gates, error: f64::INFINITY, cost }
    }

    /// `x` where `t` is 0.
    pub fn center(&self) -> f64 {
        self.center
    }

    /// `x - center` where `t` is 1. The range can be smaller than `center ± radius`.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// The coefficients of `T_0(t)`, `T_1(t)` …
    pub fn base(&self) -> &[f64] {
        &self.base
    }

    /// One for each kink in the range; none if the base is all.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// A bound on `|f(x) - value(x)|` for all `x` of the range.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Levels and products.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The number that the encrypted form computes, without its noise.
    pub fn value(&self, x: f64) -> f64 {
        let t = (x - self.center) / self.radius;
        let gate = |gate: &Gate| series::value(&gate.factor, t) * gate.sign.value(t - gate.shift);
        series::value(&self.base, t) + self.gates.iter().map(gate).sum::<f64>()
    }
}

/// Errors of an approximation.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApproximationError {
    /// A range without numbers, or a large one.
    #[error("expected a range with low < high and ends of at most 2^40 in absolute value, found {low} to {high}")]
    Range {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// A tolerance that is no positive number.
    #[error("expected a positive tolerance, found {found}")]
    Tolerance {
        /// The tolerance.
        found: f64,
    },
    /// A function with an infinite or undefined value.
    #[error("expected an activation with finite parameters and values on the range, found others")]
    NotFinite,
    /// A tolerance that no approximation within the limits reaches.
    #[error(
        "expected an error of at most {tolerance:e}, and found {best:e} with {depth} levels and {products} products \
         as the least: use an activation with a smaller range or without a steep step, or let an enclave compute it \
         (--engine enclave)"
    )]
    Unreachable {
        /// The tolerance.
        tolerance: f64,
        /// The least error within the limits.
        best: f64,
        /// Its levels.
        depth: usize,
        /// Its products.
        products: usize,
    },
    /// An interval or a degree that a polynomial can't have.
    #[error(
        "expected an interval within [-1, 1] (from 0 on for odd or even polynomials), and a degree of at most 255 \
         (8 for fits, odd for signs); found others, with degree {degree}"
    )]
    Interval {
        /// The degree.
        degree: usize,
    },
    /// No polynomial was found.
    #[error("found no minimax polynomial of degree {degree}; choose another degree, or a smoother function")]
    NotConverged {
        /// The degree.
        degree: usize,
    },
    /// No samples, or one that is no number.
    #[error("expected samples, all of them of at most 2^40 in absolute value, found none or others")]
    Samples,
}

/// The cheapest polynomial for an activation with at most this error, a positive number, for all
/// `x` from `low` to `high`.
///
/// ```
/// use tobari_infer_deep::Activation;
/// use tobari_infer_deep::approximate::{Limits, approximate};
/// let sigmoid = approximate(Activation::Sigmoid, -8.0, 8.0, 1e-2, &Limits::default())?;
/// assert!((sigmoid.value(1.0) - 0.7311).abs() < 1e-2);
/// assert_eq!((sigmoid.cost().depth, sigmoid.gates().len()), (4, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ApproximationError::Range`], [`ApproximationError::Tolerance`],
/// [`ApproximationError::NotFinite`], or [`ApproximationError::Unreachable`] with the least error
/// within the limits.
pub fn approximate(
    activation: Activation,
    low: f64,
    high: f64,
    tolerance: f64,
    limits: &Limits,
) -> Result<Approximation, ApproximationError> {
    if !(low < high && low.abs() <= MAX_RANGE && high.abs() <= MAX_RANGE) {
        return Err(ApproximationError::Range { low, high });
    }
    if tolerance.is_nan() || tolerance <= 0.0 {
        return Err(ApproximationError::Tolerance { found: tolerance });
    }
    let pieces = pieces::pieces(activation, low, high)?;
    let kinks: &[f64] = pieces.as_ref().map_or(&[], |pieces| &pieces.kinks);
    let problem = single::Problem { activation, low, high, kinks };
    let mut found = match &pieces {
        Some(pieces) if kinks.is_empty() && pieces.unit == 0.0 => problem.exact(pieces.quadratics[0], tolerance),
        _ => problem.search(tolerance, limits)?,
    };
    if let Some(pieces) = &pieces {
        // the base has a part of the error, where it is not exact
        for part in if pieces.unit == 0.0 { &[0.0][..] } else { &[0.5, 0.05, 0.0] } {
            let form = gates::Form::new(pieces, [low, high], part * tolerance, limits)?;
            if form.is_some_and(|form| form.search(tolerance, limits, &mut found)) {
                break;
            }
        }
    }
    let allowed = |found: &Approximation| found.cost.depth <= limits.depth && found.cost.products <= limits.products;
    if let Some(cheapest) = found.cheapest.take().filter(allowed) {
        return Ok(cheapest);
    }
    problem.most_precise(limits, &mut found)?;
    let (best, Cost { depth, products }) =
        found.best.map_or((f64::INFINITY, Cost { depth: 0, products: 0 }), |best| (best.error, best.cost));
    Err(ApproximationError::Unreachable { tolerance, best, depth, products })
}
