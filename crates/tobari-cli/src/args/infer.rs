//! Arguments of `infer`.

use clap::{Args, ValueEnum};

/// `tobari plan infer`
#[derive(Args)]
pub(crate) struct InferPlan {
    /// What has to be protected, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "data", value_name = "WHAT")]
    pub(crate) protect: Vec<Protected>,
    /// The enclave's memory may be watched by side channels.
    #[arg(long)]
    pub(crate) side_channels: bool,
    /// The host may do other than it was told, together with a user.
    #[arg(long)]
    pub(crate) active_host: bool,
    /// Whether ciphertexts may be decrypted in the enclave between layers, to be encrypted anew.
    #[arg(long, default_value = "none", value_name = "HOW")]
    pub(crate) reset: ResetName,
    /// There is no enclave: the user holds the key.
    #[arg(long)]
    pub(crate) without_enclave: bool,
    /// Whose measurements.
    #[arg(long, default_value = "paper", value_name = "WHOSE")]
    pub(crate) costs: WhoseCosts,
    /// Which plan: the cheapest, or what the paper's tables 11 and 12 say, for all cells of its tables 13 and 14.
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
    /// The paper's tables 6 to 10, 13 and 14, ours beside its values; without it, an image under its user's key in every layout.
    #[arg(long)]
    pub(crate) paper: bool,
    /// Thousands of images at once, with weights in the clear, checked, and encrypted: takes 8 GB of memory and some minutes.
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
    /// The parameter set: infer-s is the paper's ring, infer-f the fast one.
    #[arg(long, default_value = "infer-s", value_parser = ["infer-s", "infer-f"])]
    pub(crate) set: String,
    /// The paper's layout too, one ciphertext a channel, as a baseline: it takes long, and needs infer-s.
    #[arg(long)]
    pub(crate) paper_layout: bool,
    /// Images of each combination, after one that warms up.
    #[arg(long, default_value_t = 20, value_parser = super::parse_runs)]
    pub(crate) runs: usize,
    /// Write the tables as CSV into this folder too, and table 6 as SVG.
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

/// What may be decrypted in the enclave between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResetName {
    /// Nothing.
    None,
    /// What is masked.
    Masked,
    /// Activations, in the clear.
    Plain,
}

/// Whose measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhoseCosts {
    /// The paper's tables 6 to 10.
    Paper,
    /// Of this machine, now, with an enclave in a process of its own.
    Measured,
}

/// Which plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhosePolicy {
    /// The cheapest.
    Optimal,
    /// The paper's tables 11 and 12.
    Paper,
}
