//! Arguments of `infer`.

use clap::{Args, ValueEnum};

/// What has to be protected: `tobari plan infer`, and `tobari serve --infer-enclave auto`.
#[derive(Args, Default, PartialEq, Eq)]
pub(crate) struct InferRequirements {
    /// What has to be protected in inference, separated by commas. [default: data]
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) protect: Vec<Protected>,
    /// The enclave's memory may be watched by side channels.
    #[arg(long)]
    pub(crate) side_channels: bool,
    /// The host of the enclave may do other than it was told, together with a user.
    #[arg(long)]
    pub(crate) active_host: bool,
    /// What the enclave may have in the clear of the user's data between image and label: in plain layers, and where levels are reset. [default: yes, and no with --side-channels]
    #[arg(long, value_name = "WHAT")]
    pub(crate) plain_in_enclave: Option<InsideName>,
}

/// `tobari plan infer`
#[derive(Args)]
pub(crate) struct InferPlan {
    #[command(flatten)]
    pub(crate) requirements: InferRequirements,
    /// There is no enclave: the user holds the key.
    #[arg(long)]
    pub(crate) without_enclave: bool,
    /// Whose measurements.
    #[arg(long, default_value = "paper", value_name = "WHOSE")]
    pub(crate) costs: WhoseCosts,
    /// Plan as if an enclave's work took this many times as long as a process's: a projection, no measurement. The paper's Gramine-SGX took 1.2 to 1.4 times as long on ciphertexts and 1.3 to 1.8 in plain numbers; a simulated enclave takes as long.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) enclave_factor: Option<f64>,
    /// Which plan: the cheapest, or what the paper's tables 11 and 12 say, with all cells of its tables 13 and 14.
    #[arg(long, default_value = "optimal", value_name = "WHOSE")]
    pub(crate) policy: WhosePolicy,
    /// JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari bench infer`
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[derive(Args)]
pub(crate) struct InferBench {
    /// The paper's tables 6 to 14, ours beside its values where it measures; without it, an image under its user's key in every layout.
    #[arg(long)]
    pub(crate) paper: bool,
    /// Thousands of images at once, with weights in the clear, checked, and encrypted: 4,096 in infer-f, which takes 8 GB of memory and some minutes; 8,192 in infer-s, which takes twice that.
    #[arg(long)]
    pub(crate) batched: bool,
    /// For every set of requirements, what the planner takes by costs measured here, and runs of all that they allow.
    #[arg(long)]
    pub(crate) plans: bool,
    /// Accuracy over MNIST's test images: a folder with its four files, as they are or by gzip.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) mnist: Option<std::path::PathBuf>,
    /// How many of them under encryption, too.
    #[arg(long, value_name = "COUNT", default_value_t = 100, requires = "mnist")]
    pub(crate) encrypted: usize,
    /// The parameter set: infer-s is the paper's ring, infer-f the fast one. [default: infer-s for --paper, infer-f for --batched]
    #[arg(long, value_parser = ["infer-s", "infer-f"])]
    pub(crate) set: Option<String>,
    /// The paper's layout too, one ciphertext a channel, as a baseline: it takes long, and needs infer-s.
    #[arg(long)]
    pub(crate) paper_layout: bool,
    /// Images of each combination, after one that warms up.
    #[arg(long, default_value_t = 20, value_parser = super::parse_runs)]
    pub(crate) runs: usize,
    /// Write the tables as CSV into this folder too, and as SVG those of the paper that have times of ours.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<std::path::PathBuf>,
    /// One JSON object a line on standard output.
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
    /// That results are right.
    Integrity,
}

/// What the enclave may have in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InsideName {
    /// Nothing.
    No,
    /// Numbers under masks that it does not know.
    Masked,
    /// Activations.
    Yes,
}

/// A factor of at least 1.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor));
    factor.ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

/// Whose measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhoseCosts {
    /// The paper's tables 6 to 10.
    Paper,
    /// Of this machine, now, with an enclave in a process of its own: some seconds.
    Measured,
    /// Of the project's machine, as recorded in `bench/record`, with an enclave in a process of its own.
    Recorded,
}

/// Which plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhosePolicy {
    /// The cheapest.
    Optimal,
    /// The paper's tables 11 and 12.
    Paper,
}
