//! `tobari infer simulate`: the computation of an encrypted run, on plaintext.

use super::arguments::SimulateArguments;
use super::{image, local};
use serde_json::json;
use tobari_command::output::{self, Failure};
use tobari_infer::Model;
use tobari_infer::calibration;
use tobari_infer::precision::{Ranges, report};
use tobari_infer::ready::inspect;
use tobari_infer::simulate::simulate;

/// Simulates a run, and prints the predicted precision of each stage.
pub(super) fn run(arguments: &SimulateArguments) -> Result<(), Failure> {
    let model = arguments.model.read()?;
    let local = &arguments.local;
    let (compiled, _) = inspect(&model, local.layout.as_deref(), &local::set(&local.set)?)?;
    let stages = report(&compiled, &model, &Ranges::all(&model, 1.0), arguments.tolerance)?;
    if let Err(error) = calibration::check(&model, &stages) {
        output::say(format!("warning: this model would not be served: {error}"));
    }
    let pixels = image::read(&arguments.image, model.input().len())?;
    let logits = simulate(&compiled, &Model::numbers(&pixels))?;
    let plain = model.forward(&pixels)?;
    let label = best(&logits);
    let error = logits.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let layout = compiled.layout().name();
    if arguments.json {
        let stage = |stage: &tobari_infer::precision::StageReport| json!({ "name": stage.name, "primes": stage.primes, "error": stage.error, "headroom_bits": stage.headroom_bits });
        let stages: Vec<_> = stages.iter().map(stage).collect();
        return output::json(&json!({
            "label": label, "plain_label": best(&plain), "logits": logits, "layout": layout, "layout_error": error, "stages": stages
        }));
    }
    output::result(format!("label {label}, in the plain model {}; layout {layout}, off by {error:.1e}", best(&plain)));
    for stage in &stages {
        output::result(format!(
            "{:<12}  {} primes, sums off by at most {:.1e}, {:.1} bits of room",
            stage.name, stage.primes, stage.error, stage.headroom_bits
        ));
    }
    Ok(())
}

/// The position of the largest number, the first one if several are equal.
fn best(numbers: &[f64]) -> usize {
    (0..numbers.len()).rev().max_by(|a, b| numbers[*a].total_cmp(&numbers[*b])).unwrap_or(0)
}
