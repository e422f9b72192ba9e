//! Compiles a model in a suitable layout and checks it, as a server does before it serves a file.

use super::calibration::{self, MarginError};
use super::compile::{CompileError, Compiled, Options};
use super::forecast::{self, ForecastError};
use super::model::Model;
use super::precision::{self, PrecisionError, Ranges, StageReport};
use tobari_lattice::params::LatticeParameters;

/// The order in which layouts are tried: the fastest first, and last the one for every model.
pub const ORDER: [&str; 4] = ["wide", "balanced", "compact", "dense"];
/// The default set of parameters: the fastest.
pub const SET: &str = "infer-f";

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadyError {
    /// No layout fits, or the requested one does not, or the parameters do not suffice.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A stage's numbers do not fit.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// A program that cannot be simulated; it cannot occur for a compiled model.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// The errors could change labels.
    #[error(transparent)]
    Margin(#[from] MarginError),
}

/// Compiles a model and ensures right labels: as in [`inspect`], and the predicted error is within
/// half the margin between labels ([`calibration`]).
///
/// # Errors
/// [`ReadyError`].
pub fn ready(
    model: &Model,
    layout: Option<&str>,
    parameters: &LatticeParameters,
) -> Result<(Compiled, Vec<StageReport>), ReadyError> {
    let (compiled, report) = inspect(model, layout, parameters)?;
    calibration::check(model, compiled.error().unwrap_or(f64::INFINITY))?;
    Ok((compiled, report))
}

/// Compiles a model in the layout of this name, or in the first of [`ORDER`] that fits, and
/// foretells the error of its logits. Also returns the predictions for its stages if sums stay
/// within 1, the range for which models are folded.
///
/// # Errors
/// [`ReadyError`]; if several layouts do not fit, the error of the last one.
pub fn inspect(
    model: &Model,
    layout: Option<&str>,
    parameters: &LatticeParameters,
) -> Result<(Compiled, Vec<StageReport>), ReadyError> {
    let compile = |layout: &str| Compiled::new(model, layout, parameters, Options::PLAIN_WEIGHTS);
    let compiled = match layout {
        Some(layout) => compile(layout)?,
        None => {
            let [first @ .., last] = ORDER;
            match first.into_iter().find_map(|layout| compile(layout).ok()) {
                Some(compiled) => compiled,
                None => compile(last)?,
            }
        }
    };
    let report = precision::report(&compiled, model, &Ranges::all(model, 1.0), f64::INFINITY)?;
    let error = forecast::logit_error(&compiled, model)?;
    Ok((compiled.with_error(error), report))
}
