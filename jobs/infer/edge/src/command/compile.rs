//! `tobari infer compile`: makes models from networks.
//!
//! A chain of maps and polynomials of degree two that fits the special layouts becomes a model of
//! maps with squares, which also runs in an enclave. Every other network becomes one of any depth.

use super::arguments::CompileArguments;
use super::local;
use serde_json::{Value, json};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_host::files;
use tobari_infer::calibration::check_images;
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::holder::short;
use tobari_infer::{Calibration, Network};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::model::{CompileOptions, ModelError};
use tobari_infer_deep::settings::{Engine, EngineKind};
use tobari_infer_deep::steps::Step;
use tobari_infer_files::images::{Pictures, Wanted, read_pictures};
use tobari_infer_files::onnx::{Pixels, read_graph, read_onnx};

/// The default headroom of maps with squares.
const HEADROOM: f64 = 1.25;
/// The most pictures that are used, spread evenly over those given.
const PICTURES: usize = 2_000;

/// Reads a network, compiles it, and prints its precision. Writes nothing if the model could not be
/// served.
pub(super) fn run(arguments: &CompileArguments) -> Result<(), Failure> {
    let pixels = Pixels { mean: arguments.mean.clone(), deviation: arguments.deviation.clone() };
    let imported = read_graph(&arguments.input, &pixels)?;
    imported.notes.iter().for_each(output::say);
    let wanted = Wanted { fit: arguments.fit, limit: PICTURES, ..Wanted::new(imported.graph.input()) };
    let pictures = match &arguments.images[..] {
        [] => None,
        paths => Some(read_pictures(paths, &wanted)?),
    };
    let pictures: Vec<&[u8]> = pictures.iter().flat_map(Pictures::pixels).collect();
    // a layout or a set is for models of maps with squares alone
    let any_depth =
        arguments.approximate.is_some() || matches!(arguments.engine, Some(EngineKind::Refresh | EngineKind::Enclave));
    if any_depth {
        arguments.local.refuse()?;
    }
    let chain = match any_depth {
        true => None,
        false if arguments.local.is_chosen() => Some(read_onnx(&arguments.input, &pixels)?),
        false => read_onnx(&arguments.input, &pixels).ok(),
    };
    let mut refused = None;
    if let Some(network) = chain {
        match flat(arguments, &network, &pictures) {
            Err(failure) if arguments.local.is_chosen() || pictures.is_empty() => return Err(failure),
            Err(failure) => refused = Some(failure),
            written => return written,
        }
    }
    let options = CompileOptions {
        headroom: arguments.headroom,
        margin: arguments.margin,
        quadratic: arguments.approximate.is_some(),
        engine: arguments.engine,
    };
    let start = Instant::now();
    let model = match (DeepModel::compile(imported.graph, &pictures, options), refused) {
        // pictures that tell no margin fail both, and the first refusal says more
        (Err(ModelError::Margin), Some(refused)) => return Err(refused),
        (model, _) => model?,
    };
    let (seconds, network) = (start.elapsed().as_secs_f64(), model.network()?);
    if model.settings().engine != Engine::Enclave {
        network.card().check()?;
    }
    let bytes = model.encode();
    files::write_atomically(&arguments.output, &bytes)?;
    told(arguments, &model, &network, (bytes.len(), pictures.len(), seconds))
}

/// Prints what a network of any depth takes.
fn told(
    arguments: &CompileArguments,
    model: &DeepModel,
    network: &tobari_infer_deep::encrypted::Network,
    (bytes, pictures, seconds): (usize, usize, f64),
) -> Result<(), Failure> {
    let (forecast, settings, circuit) = (model.forecast(), model.settings(), network.circuit());
    let (card, levels) = (network.card(), circuit.level(0));
    let bits = network.parameters().security().map_or(0, tobari_lattice::params::Security::bits);
    let keys = network.keyring_memory();
    let refreshes = circuit.steps.steps.iter().filter(|(_, step, _)| matches!(step, Step::Refresh { .. })).count();
    let visits = if settings.engine == Engine::Enclave { network.visits().len() } else { 0 };
    if arguments.json {
        let step = |(number, (name, step, volume)): (usize, &(String, Step, tobari_infer::Volume))| -> Value {
            json!({
                "name": name, "kind": step.kind(), "shape": [volume.channels, volume.height, volume.width],
                "level": circuit.level(number + 1), "ciphertexts": circuit.layout(number + 1).ciphertexts(),
                "layout": circuit.layout(number + 1).to_string(),
            })
        };
        let steps: Vec<Value> = circuit.steps.steps.iter().enumerate().map(step).collect();
        return output::json(&json!({
            "model": arguments.output.display().to_string(), "digest": super::hex(&model.digest()), "bytes": bytes,
            "images": pictures, "margin": forecast.margin, "logit_error": forecast.error,
            "approximation_error": forecast.approximation, "noise_deviation": forecast.noise,
            "set": settings.sizes.to_string(), "security_bits": bits, "levels": levels, "refreshes": refreshes,
            "engine": settings.engine.kind().name(), "visits": visits, "keys": card.keys.len(),
            "key_memory": keys, "question_bytes": tobari_infer::messages::question_bytes(&card), "seconds": seconds,
            "steps": steps,
        }));
    }
    output::result(format!("model {}, {bytes} bytes", short(&model.digest())));
    output::result(format!(
        "labels are {:.3} apart; the foretold error of a logit is {:.4}; approximations of activations made at most \
         {:.4} on these images",
        forecast.margin, forecast.error, forecast.approximation
    ));
    if visits > 0 {
        let from_keys = format!("{} keys of {} MB for each session", card.keys.len(), keys / 1_000_000);
        output::result(format!(
            "maps in parameters {} ({bits} bits of security), and {visits} visits of an enclave a picture; {from_keys}",
            settings.sizes,
        ));
        output::result("serve it with `tobari serve --infer-enclave mixed-plain-reset`, or with enclave-plain");
        output::result(format!("{} steps; `--json` lists them", circuit.steps.steps.len()));
        return Ok(());
    }
    output::result(format!(
        "{levels} levels in parameters {} ({bits} bits of security); {} keys of {} MB for each client",
        settings.sizes,
        card.keys.len(),
        keys / 1_000_000
    ));
    if refreshes > 0 {
        output::result(format!(
            "{refreshes} refreshes, seconds each; a server keeps the keys in files: `tobari serve --data FOLDER \
             --infer-keys {}MiB`",
            keys.div_ceil(1 << 20)
        ));
    }
    output::result(format!("{} steps; `--json` lists them", circuit.steps.steps.len()));
    Ok(())
}

/// Compiles a chain as maps with squares.
fn flat(arguments: &CompileArguments, network: &Network, pictures: &[&[u8]]) -> Result<(), Failure> {
    let reach = match pictures.is_empty() {
        true => Reach::Every,
        false => Reach::Seen { images: pictures, headroom: arguments.headroom.unwrap_or(HEADROOM) },
    };
    let model = fold(network, &FoldOptions::new(reach))?;
    let model = match arguments.margin {
        Some(margin) => {
            let powers = model.calibration().map(|known| known.powers.clone()).unwrap_or_default();
            model.calibrated(Calibration { margin, powers })?
        }
        None => {
            check_images(&model, pictures)?;
            model
        }
    };
    let (compiled, _) = local::compiled(&model, &arguments.local)?;
    let error = compiled.error().unwrap_or(f64::INFINITY);
    let margin = model.calibration().map_or(0.0, |known| known.margin);
    let ranges = model.ranges(pictures)?;
    let bytes = model.encode();
    files::write_atomically(&arguments.output, &bytes)?;
    if arguments.json {
        let stage = |range: &tobari_infer::StageRange| {
            let (seen, bound, gain) = (range.seen, range.bound, range.gain);
            json!({ "name": range.name, "seen": seen, "bound": bound, "gain": gain })
        };
        let stages: Vec<_> = ranges.iter().map(stage).collect();
        let digest = super::hex(&model.digest());
        let line = json!({ "model": arguments.output.display().to_string(), "digest": digest, "bytes": bytes.len(), "images": pictures.len(), "margin": margin, "logit_error": error, "stages": stages });
        return output::json(&line);
    }
    output::result(format!("model {}, {} bytes", short(&model.digest()), bytes.len()));
    output::result(format!(
        "labels are {margin:.3} apart; in the set {} the foretold error of a logit is {error:.3}",
        arguments.local.set()
    ));
    output::result("the largest sums of each stage:");
    for range in &ranges {
        let seen = if pictures.is_empty() { "-".to_owned() } else { format!("{:.3}", range.seen) };
        output::result(format!(
            "{:<12}  of {} images {seen}, of any image at most {:.3}, errors grow at most {:.3} times",
            range.name,
            pictures.len(),
            range.bound,
            range.gain
        ));
    }
    Ok(())
}
