//! Activations with kinks, as quadratics between kinks.
//!
//! For a continuous function with quadratics `q_0`, `q_1` … between kinks `k_1 < k_2 < …`,
//!
//! ```text
//! f(x) = (q_0 + q_last)/2 + Σ_i sign(x - k_i) (q_i - q_(i-1))/2.
//! ```
//!
//! Each factor `q_i - q_(i-1)` is 0 at its kink. So an error of the sign near the kink matters
//! little.

use super::ApproximationError;
use crate::graph::Activation;

/// Quadratics `c_0 + c_1 x + c_2 x²` between kinks within a range, and a multiple of
/// `max(x, e^min(x, 0) - 1)`, the exponential linear unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pieces {
    /// In ascending order.
    pub(super) kinks: Vec<f64>,
    /// One more than there are kinks.
    pub(super) quadratics: Vec<[f64; 3]>,
    /// The factor of the exponential linear unit.
    pub(super) unit: f64,
}

/// The pieces of an activation on a range; none if the activation is smooth on the range and no
/// quadratic.
pub(super) fn pieces(activation: Activation, low: f64, high: f64) -> Result<Option<Pieces>, ApproximationError> {
    let (zero, identity) = ([0.0; 3], [0.0, 1.0, 0.0]);
    let (kinks, quadratics, unit) = match activation {
        Activation::Relu => (vec![0.0], vec![zero, identity], 0.0),
        Activation::LeakyRelu { slope } => (vec![0.0], vec![[0.0, slope, 0.0], identity], 0.0),
        Activation::Absolute => (vec![0.0], vec![[0.0, -1.0, 0.0], identity], 0.0),
        Activation::Elu { .. } if low >= 0.0 => (vec![], vec![identity], 0.0),
        Activation::Elu { .. } if high <= 0.0 => return Ok(None),
        Activation::Elu { alpha } => (vec![0.0], vec![zero, [0.0, 1.0 - alpha, 0.0]], alpha),
        Activation::Clip { low: least, high: most } if least < most => {
            let kinks = [least, most].into_iter().filter(|kink| kink.is_finite()).collect();
            let constant = |end: f64| end.is_finite().then_some([end, 0.0, 0.0]);
            let quadratics = constant(least).into_iter().chain([identity]).chain(constant(most)).collect();
            (kinks, quadratics, 0.0)
        }
        Activation::Clip { low: only, high: most } if only == most => (vec![], vec![[only, 0.0, 0.0]], 0.0),
        Activation::HardSigmoid { slope, offset } if !(slope.is_finite() && offset.is_finite()) => {
            return Err(ApproximationError::NotFinite);
        }
        Activation::HardSigmoid { slope: 0.0, offset } => (vec![], vec![[offset.clamp(0.0, 1.0), 0.0, 0.0]], 0.0),
        Activation::HardSigmoid { slope, offset } => {
            let (start, end) = (-offset / slope, (1.0 - offset) / slope);
            let (one, ramp) = ([1.0, 0.0, 0.0], [offset, slope, 0.0]);
            if slope > 0.0 {
                (vec![start, end], vec![zero, ramp, one], 0.0)
            } else {
                (vec![end, start], vec![one, ramp, zero], 0.0)
            }
        }
        Activation::HardSwish => (vec![-3.0, 3.0], vec![zero, [0.0, 0.5, 1.0 / 6.0], identity], 0.0),
        Activation::Clip { .. } => return Err(ApproximationError::NotFinite),
        _ => return Ok(None),
    };
    within(&Pieces { kinks, quadratics, unit }, low, high).map(Some)
}

/// Removes kinks outside the range, and places where nothing changes.
fn within(all: &Pieces, low: f64, high: f64) -> Result<Pieces, ApproximationError> {
    let first = all.kinks.iter().filter(|kink| **kink <= low).count();
    let mut pieces = Pieces { kinks: vec![], quadratics: vec![all.quadratics[first]], unit: all.unit };
    for (kink, quadratic) in all.kinks.iter().zip(&all.quadratics[1..]).skip(first) {
        if *kink < high && pieces.quadratics.last() != Some(quadratic) {
            pieces.kinks.push(*kink);
            pieces.quadratics.push(*quadratic);
        }
    }
    let numbers = pieces.quadratics.iter().flatten().chain([&pieces.unit]).chain(&pieces.kinks);
    if numbers.into_iter().all(|x| x.is_finite()) { Ok(pieces) } else { Err(ApproximationError::NotFinite) }
}
