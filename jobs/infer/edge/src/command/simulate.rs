//! `tobari infer simulate`: an encrypted run on plaintext, with the errors of encryption.

use super::arguments::{LocalArguments, SimulateArguments};
use super::image::{self, ModelImages};
use super::local;
use crate::network::AnyModel;
use serde_json::{Value, json};
use tobari_command::output::{self, Failure};
use tobari_infer::Model;
use tobari_infer::calibration;
use tobari_infer::client::{close, is_outside};
use tobari_infer::compile::Compiled;
use tobari_infer::forecast::noisy;
use tobari_infer::precision::{Ranges, StageReport, report};
use tobari_infer::ready::inspect;
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::machine::Circuit;

/// Simulates a run of each picture, and prints the predicted precision.
pub(super) fn run(arguments: &SimulateArguments) -> Result<(), Failure> {
    let ready = match arguments.model.read()? {
        AnyModel::Flat(model) => flat(model, &arguments.local, arguments.tolerance)?,
        AnyModel::Deep(model) => {
            arguments.local.refuse()?;
            let error = model.forecast().error;
            if error > arguments.tolerance {
                let most = arguments.tolerance;
                return Err(Failure::Work(format!("expected an error of at most {most}, found {error}")));
            }
            let circuit = model.circuit()?;
            Ready::Deep(model, Box::new(circuit))
        }
    };
    let images = match &ready {
        Ready::Flat(model, ..) => ModelImages::of(&model.digest(), model.input())?,
        Ready::Deep(model, _) => ModelImages::of(&model.digest(), model.graph().input())?,
    };
    // every picture has errors of its own
    for (seed, picture) in (0..).zip(image::read_all(arguments, &images)?) {
        let line = ready.line(&picture.pixels, seed)?;
        match arguments.json {
            true => output::json(&ready.as_json(&picture.name, &line))?,
            false => ready.print(&picture.name, &line),
        }
    }
    Ok(())
}

/// A model that is ready for pictures.
enum Ready {
    Flat(Model, Box<Compiled>, Vec<StageReport>),
    Deep(Box<DeepModel>, Box<Circuit>),
}

/// The result for a picture.
struct Line {
    logits: Vec<f64>,
    plain: Vec<f64>,
    foretold: f64,
    /// Whether a client would refuse the answer.
    outside: bool,
    /// Whether a client would say that either of two labels may be right.
    close: bool,
}

fn flat(model: Model, local: &LocalArguments, tolerance: f64) -> Result<Ready, Failure> {
    let (compiled, _) = inspect(&model, local.layout.as_deref(), &local::set(local.set())?)?;
    let stages = report(&compiled, &model, &Ranges::all(&model, 1.0), tolerance)?;
    if let Err(error) = calibration::check(&model, compiled.error().unwrap_or(f64::INFINITY)) {
        output::say(format!("warning: this model would not be served: {error}"));
    }
    Ok(Ready::Flat(model, Box::new(compiled), stages))
}

impl Ready {
    fn line(&self, pixels: &[u8], seed: u64) -> Result<Line, Failure> {
        Ok(match self {
            Self::Flat(model, compiled, _) => {
                let logits = noisy(compiled, &Model::numbers(pixels), seed)?;
                let foretold = compiled.error().unwrap_or(f64::INFINITY);
                Line {
                    plain: model.forward(pixels)?,
                    foretold,
                    outside: is_outside(&logits, compiled.logit_bits()),
                    close: close(&logits, foretold).is_some(),
                    logits,
                }
            }
            Self::Deep(model, circuit) => {
                let found = model.simulate(circuit, pixels, seed)?;
                let (logits, plain, foretold) = (found.logits, found.plain, found.error);
                Line { logits, plain, foretold, outside: found.outside, close: found.close }
            }
        })
    }

    fn as_json(&self, name: &str, line: &Line) -> Value {
        let mut value = json!({
            "image": name, "label": best(&line.logits), "plain_label": best(&line.plain), "logits": line.logits,
            "foretold_error": line.foretold, "difference": off(line), "outside": line.outside, "close": line.close,
        });
        if let Self::Flat(_, compiled, stages) = self {
            let stage = |stage: &StageReport| {
                json!({
                    "name": stage.name, "primes": stage.primes, "error": stage.error,
                    "headroom_bits": stage.headroom_bits,
                })
            };
            value["layout"] = compiled.layout().name().into();
            value["stages"] = stages.iter().map(stage).collect();
        }
        value
    }

    fn print(&self, name: &str, line: &Line) {
        let (label, plain) = (best(&line.logits), best(&line.plain));
        let foretold = line.foretold;
        match line.outside {
            true => output::result(format!(
                "{name}: numbers of this image leave the range of the model, and a client would refuse the answer; label \
                 {label}, in the plain network {plain}"
            )),
            false => output::result(format!(
                "{name}: label {label}{}, in the plain network {plain}; logits off by {:.1e} here; foretold error \
                 {foretold:.1e}",
                if line.close { " (too close to tell)" } else { "" },
                off(line)
            )),
        }
        if let Self::Flat(_, compiled, stages) = self {
            output::result(format!("layout {}", compiled.layout().name()));
            for stage in stages {
                output::result(format!(
                    "{:<12}  {} primes, sums off by at most {:.1e}, {:.1} bits of room",
                    stage.name, stage.primes, stage.error, stage.headroom_bits
                ));
            }
        }
    }
}

/// The largest difference to the plain model.
fn off(line: &Line) -> f64 {
    line.logits.iter().zip(&line.plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// The position of the largest number, the first one if several are equal.
fn best(numbers: &[f64]) -> usize {
    (0..numbers.len()).rev().max_by(|a, b| numbers[*a].total_cmp(&numbers[*b])).unwrap_or(0)
}
