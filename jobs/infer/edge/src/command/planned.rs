//! The protection required for inference and the options of planning, as clap definitions.

use clap::{Args, ValueEnum};

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
    tobari plan infer --protect data --side-channels --json")]
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
