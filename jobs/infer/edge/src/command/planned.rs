//! The protection required for inference and the options of planning, as clap definitions.

use super::arguments::{engine, margin};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tobari_infer_deep::settings::EngineKind;
use tobari_infer_files::images::Fit;

/// What has to be protected: `tobari plan infer`, and `tobari serve --infer-enclave auto`.
#[derive(Args, Default, PartialEq, Eq)]
pub(crate) struct InferRequirements {
    /// Protect these, separated by commas. [default: data]
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) protect: Vec<Protected>,
    /// Assume that side channels reveal the enclave's memory.
    #[arg(long)]
    pub(crate) side_channels: bool,
    /// Assume that the enclave's host breaks the protocol, together with a user.
    #[arg(long)]
    pub(crate) active_host: bool,
    /// Let the enclave decrypt this part of the user's data between image and label: in plain
    /// layers, and at resets of levels. [default: yes; with --side-channels: no]
    #[arg(long, value_name = "WHAT")]
    pub(crate) plain_in_enclave: Option<InsideName>,
}

/// `tobari plan infer`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari plan infer --protect data,model
    tobari plan infer --protect data --side-channels --json
    tobari plan infer --model net.onnx --images images.idx --engine levels --side-channels")]
pub struct InferPlan {
    #[command(flatten)]
    pub(crate) requirements: InferRequirements,
    /// Plan without an enclave: the user holds the key.
    #[arg(long)]
    pub(crate) without_enclave: bool,
    /// Plan by these measurements.
    #[arg(long, default_value = "paper", value_name = "WHOSE")]
    pub(crate) costs: WhoseCosts,
    /// Project an enclave that takes this many times as long as a process. This is no measurement.
    /// The paper's Gramine-SGX took 1.2 to 1.4 times as long on ciphertexts, and 1.3 to 1.8 on
    /// plain numbers. A simulated enclave takes as long as a process.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) enclave_factor: Option<f64>,
    /// Choose the cheapest plan, or the paper's (its tables 11 to 14).
    #[arg(long, default_value = "optimal", value_name = "WHOSE")]
    pub(crate) policy: WhosePolicy,
    /// Plan this network instead of the paper's: an ONNX file, or a .tim file. Each engine is
    /// compiled, which takes minutes for a deep network, and its time foretold from a rotation that
    /// is measured here.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["costs", "policy", "enclave_factor"])]
    pub(crate) model: Option<PathBuf>,
    /// Plan this engine alone: levels, refresh or enclave, as in `tobari infer compile`.
    #[arg(long, requires = "model", value_parser = engine, value_name = "HOW")]
    pub(crate) engine: Option<EngineKind>,
    /// Take ranges from these pictures: folders of PNG or JPEG files, single ones, .npy or idx
    /// files.
    #[arg(long, requires = "model", num_args = 1.., value_name = "PATH")]
    pub(crate) images: Vec<PathBuf>,
    /// Give pictures the form of the network's images: exact, stretch, crop or digit, as in
    /// `tobari infer compile`.
    #[arg(long, requires = "model", default_value_t = Fit::Exact, value_name = "HOW")]
    pub(crate) fit: Fit,
    /// Give the network (p/255 - MEAN)/DEVIATION for a pixel p. Give one mean, or one for each
    /// channel, separated by commas.
    #[arg(long, requires = "model", value_delimiter = ',', default_value = "0", value_name = "NUMBER")]
    pub(crate) mean: Vec<f64>,
    /// The deviation, in the same form as --mean.
    #[arg(long, requires = "model", value_delimiter = ',', default_value = "1", value_name = "NUMBER")]
    pub(crate) deviation: Vec<f64>,
    /// Keep labels right down to this difference of the two largest logits. [default: that of 19 of
    /// 20 pictures]
    #[arg(long, requires = "model", value_name = "LOGITS", value_parser = margin)]
    pub(crate) margin: Option<f64>,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What has to be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protected {
    /// The user's data.
    Data,
    /// The model's weights.
    Model,
    /// The correctness of results.
    Integrity,
}

/// What the enclave may have in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InsideName {
    /// Nothing.
    No,
    /// Numbers under masks that the enclave does not know.
    Masked,
    /// Activations.
    Yes,
}

/// A factor of at least 1.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor));
    factor.ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

/// The source of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhoseCosts {
    /// The paper's tables 6 to 10.
    Paper,
    /// Measurements of this machine, made now in some seconds, with a simulated enclave.
    Measured,
    /// The project's records (`bench/record`), with a simulated enclave.
    Recorded,
}

/// The choice of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhosePolicy {
    /// The cheapest plan.
    Optimal,
    /// The paper's tables 11 and 12.
    Paper,
}
