//! The sign of a number, by a composition of odd minimax polynomials.
//!
//! **Why a composition.** A polynomial of degree `n` has an error of about `0.28/n` for `|x|`
//! (Bernstein, 1914), and one of degree `n` takes about `2 √(2n)` products. A composition of `k`
//! polynomials has the product of their degrees for the sum of their products. Compositions of
//! minimax polynomials are the best for a given number of products and levels (Lee, Lee, No, Kim,
//! IEEE TDSC 19, 2022; earlier with fixed polynomials: Cheon, Kim, Kim, ASIACRYPT 2020). Lee et al.
//! (ICML 2022) compute `max(x, 0)` so with degrees 15, 15 and 27.
//!
//! **Construction.** For numbers `e ≤ |u| ≤ 1`, `e` the *edge*:
//!
//! ```text
//! [a_1, b_1] = [e, 1]
//! p_i        the odd minimax polynomial of degree d_i for 1 on [a_i, 1], with error E_i
//! s_i        = (1 + E_i)(1 + m)            m = 2^-10, the margin
//! stage i    = p_i / s_i                   for i < k
//! stage k    = p_k
//! a_(i+1)    = (1 - E_i)(1 - m) / s_i
//! S(u)       = stage k (… stage 2 (stage 1 (u)))
//! ```
//!
//! Stage `i` maps `a_i ≤ |u| ≤ 1` into `(1 ± E_i)/s_i`, within the interval of the next stage. So
//! `|S(u) - sign u| ≤ E_k` for `e ≤ |u| ≤ 1`. A number between stages stays in the interval of the
//! next stage if noise changes it by at most a part `m/2` of itself. It then also stays in [-1, 1],
//! where Chebyshev series need it.
//!
//! **Between the edges.** All critical points of `p_i` are in `a_i < |u| < 1`, since the error
//! alternates there and `p_i` has no more of them. So `p_i` grows on `[-a_i, a_i]`, from
//! `-(1 - E_i)` to `1 - E_i`. No number within [-1, 1] leaves it, and `S` is 0 at 0.
//!
//! **Choice of the edge.** With a smaller edge, `S` is near the sign for more numbers, but `E_k` is
//! larger. For `|u| ≈ u S(u)` the error is `u (1 - S(u))` near 0, about an eighth of the edge, and
//! `E_k` at the ends. The best edge makes the two equal.

use super::remez::{self, Terms};
use super::{ApproximationError, series};

/// Room for noise between stages, as a part of the numbers.
pub const MARGIN: f64 = 1.0 / 1024.0;

/// An approximation `S` of the sign. The head of the module has its construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Sign {
    stages: Vec<Vec<f64>>,
    edge: f64,
    error: f64,
}

impl Sign {
    /// The composition for stages of these odd degrees, in the order of their computation.
    ///
    /// # Errors
    /// [`ApproximationError`] if a degree is even or too large, if the edge isn't between 0 and 1,
    /// or if no minimax polynomial is found.
    pub fn new(degrees: &[usize], edge: f64) -> Result<Self, ApproximationError> {
        let (mut stages, mut lowest, mut error) = (Vec::new(), edge, 1.0);
        for (at, degree) in degrees.iter().enumerate() {
            if degree % 2 == 0 || lowest.is_nan() || lowest <= 0.0 {
                return Err(ApproximationError::Interval { degree: *degree });
            }
            let found = remez::minimax(|_| 1.0, Terms::Odd, *degree, [lowest, 1.0], &[])?;
            // rounding errors of a stage are far below 2^-45
            error = found.error + 2f64.powi(-45);
            let mut stage = found.series;
            if at + 1 < degrees.len() {
                let scale = (1.0 + error) * (1.0 + MARGIN);
                stage.iter_mut().for_each(|c| *c /= scale);
                lowest = (1.0 - error) * (1.0 - MARGIN) / scale;
            }
            stages.push(stage);
        }
        if stages.is_empty() {
            return Err(ApproximationError::Interval { degree: 0 });
        }
        Ok(Self { stages, edge, error })
    }

    /// The stages in the order of their computation: coefficients of `T_0`, `T_1` …; those of even
    /// index are 0.
    pub fn stages(&self) -> &[Vec<f64>] {
        &self.stages
    }

    /// `S` is near the sign for `edge ≤ |u| ≤ 1`.
    pub fn edge(&self) -> f64 {
        self.edge
    }

    /// `|S(u) - sign u|` is at most this for `edge ≤ |u| ≤ 1`, also if each number between stages
    /// changes by a part [`MARGIN`]/2 of itself.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// `S(u)`, for `|u| ≤ 1`.
    pub fn value(&self, u: f64) -> f64 {
        self.stages.iter().fold(u, |u, stage| series::value(stage, u))
    }

    /// Levels.
    pub fn depth(&self) -> usize {
        self.stages.iter().map(|stage| series::levels(series::degree(stage))).sum()
    }

    /// Products of ciphertexts.
    pub fn products(&self) -> usize {
        self.stages.iter().map(|stage| series::products(stage)).sum()
    }
}
