//! A model made ready with the layout that suits it, and checked: what a server does with a file
//! before it serves it.

use super::calibration::{self, MarginError};
use super::compile::{CompileError, Compiled, Options};
use super::model::Model;
use super::precision::{self, PrecisionError, Ranges, StageReport};
use tobari_lattice::params::LatticeParameters;

/// Layouts in the order in which they are tried: the fastest first, and last the one that takes
/// every model.
pub const ORDER: [&str; 4] = ["wide", "balanced", "compact", "dense"];
/// The set of parameters where nothing is said: the fastest.
pub const SET: &str = "infer-f";

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadyError {
    /// No layout, or not the one asked for, or parameters that do not suffice.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A stage whose numbers would not fit.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// Errors that labels would not survive.
    #[error(transparent)]
    Margin(#[from] MarginError),
}

/// A model that labels come out right of: as [`inspect`], and the foretold error is within half the
/// margin between labels ([`calibration`]).
///
/// # Errors
/// [`ReadyError`].
pub fn ready(
    model: &Model,
    layout: Option<&str>,
    parameters: &LatticeParameters,
) -> Result<(Compiled, Vec<StageReport>), ReadyError> {
    let (compiled, report) = inspect(model, layout, parameters)?;
    calibration::check(model, &report)?;
    Ok((compiled, report))
}

/// A model in the layout of this name, or in the first of [`ORDER`] that takes it, and what is
/// foretold of its stages where sums stay within 1, for which models are folded.
///
/// # Errors
/// [`ReadyError`]; of several layouts that do not fit, what the last says.
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
    Ok((compiled, report))
}
