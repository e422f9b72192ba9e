//! What has to be protected in inference, and how that is planned, as clap reads it.

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
    /// What the enclave may have in the clear of the user's data between image and label: in plain
    /// layers, and where levels are reset. [default: yes, and no with --side-channels]
    #[arg(long, value_name = "WHAT")]
    pub(crate) plain_in_enclave: Option<InsideName>,
}

/// `tobari plan infer`
#[derive(Args)]
pub struct InferPlan {
    #[command(flatten)]
    pub(crate) requirements: InferRequirements,
    /// There is no enclave: the user holds the key.
    #[arg(long)]
    pub(crate) without_enclave: bool,
    /// Whose measurements.
    #[arg(long, default_value = "paper", value_name = "WHOSE")]
    pub(crate) costs: WhoseCosts,
    /// Plan as if an enclave's work took this many times as long as a process's: a projection, no
    /// measurement. The paper's Gramine-SGX took 1.2 to 1.4 times as long on ciphertexts and 1.3 to
    /// 1.8 in plain numbers; a simulated enclave takes as long.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) enclave_factor: Option<f64>,
    /// Which plan: the cheapest, or what the paper's tables 11 and 12 say, with all cells of its
    /// tables 13 and 14.
    #[arg(long, default_value = "optimal", value_name = "WHOSE")]
    pub(crate) policy: WhosePolicy,
    /// JSON lines.
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
    /// Of the project's machine, as recorded in `bench/record`, with an enclave in a process of its
    /// own.
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
