//! `tobari infer compile`: makes models from networks.

use super::arguments::CompileArguments;
use super::local;
use serde_json::json;
use tobari_command::output::{self, Failure};
use tobari_host::files;
use tobari_infer::Calibration;
use tobari_infer::calibration::{check_images, logit_error};
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::holder::short;
use tobari_infer_files::images::{IdxImages, read_idx_images};
use tobari_infer_files::onnx::{Pixels, read_onnx};

/// The most images of a file that are used.
const IMAGES: usize = 10_000;

/// Reads a network, folds it, and prints the sizes of its numbers. Writes nothing if the model
/// could not be served.
pub(super) fn run(arguments: &CompileArguments) -> Result<(), Failure> {
    let pixels = Pixels { mean: arguments.mean.clone(), deviation: arguments.deviation.clone() };
    let network = read_onnx(&arguments.input, &pixels)?;
    let images = arguments.images.as_deref().map(read_idx_images).transpose()?;
    let images: Vec<&[u8]> = images.iter().flat_map(IdxImages::iter).take(IMAGES).collect();
    let reach = match images.is_empty() {
        true => Reach::Every,
        false => Reach::Seen { images: &images, headroom: arguments.headroom },
    };
    let model = fold(&network, &FoldOptions::new(reach))?;
    let model = match arguments.margin {
        Some(margin) => {
            let powers = model.calibration().map(|known| known.powers.clone()).unwrap_or_default();
            model.calibrated(Calibration { margin, powers })?
        }
        None => {
            check_images(&model, &images)?;
            model
        }
    };
    let (_, report) = local::compiled(&model, &arguments.local)?;
    let error = logit_error(&model, &report);
    let margin = model.calibration().map_or(0.0, |known| known.margin);
    let ranges = model.ranges(&images)?;
    let bytes = model.encode();
    files::write_atomically(&arguments.output, &bytes)?;
    if arguments.json {
        let stage = |range: &tobari_infer::StageRange| {
            let (seen, bound, gain) = (range.seen, range.bound, range.gain);
            json!({ "name": range.name, "seen": seen, "bound": bound, "gain": gain })
        };
        let stages: Vec<_> = ranges.iter().map(stage).collect();
        let digest = super::hex(&model.digest());
        let line = json!({ "model": arguments.output.display().to_string(), "digest": digest, "bytes": bytes.len(), "images": images.len(), "margin": margin, "logit_error": error, "stages": stages });
        return output::json(&line);
    }
    output::result(format!("model {}, {} bytes", short(&model.digest()), bytes.len()));
    output::result(format!(
        "labels are {margin:.3} apart; in the set {} encryption changes each logit by at most {error:.3}",
        arguments.local.set
    ));
    output::result("the largest sums of each stage:");
    for range in &ranges {
        let seen = if images.is_empty() { "-".to_owned() } else { format!("{:.3}", range.seen) };
        output::result(format!(
            "{:<12}  of {} images {seen}, of any image at most {:.3}, errors grow at most {:.3} times",
            range.name,
            images.len(),
            range.bound,
            range.gain
        ));
    }
    Ok(())
}
