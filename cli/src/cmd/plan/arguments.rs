//! `tobari plan`, as clap reads it.

use crate::cmd::infer::planned::InferPlan;
use crate::cmd::sense::SensePlan;
use clap::{Args, Subcommand, ValueEnum};
use tobari_command::size::parse_bytes;
use tobari_reference::{PanelArguments, RunArguments};

/// A job with a plan.
#[derive(Subcommand)]
pub(crate) enum PlanJob {
    /// An image through a network: which layer is done in a plain process or an enclave, in the clear or encrypted, by what has to be protected.
    Infer(InferPlan),
    /// The reference job: encrypted vectors times a matrix, and a polynomial of the products.
    Memory(MemoryPlan),
    /// The paper's algorithm for the search, as a job: the positional Burrows-Wheeler transform under encryption.
    Search(SearchPlan),
    /// Devices' frames of AES-128, decrypted under encryption: the paper's second design at 128 bits, which wants 10GiB of memory.
    Sense(SensePlan),
}

/// `tobari plan memory`
#[derive(Args)]
pub(crate) struct MemoryPlan {
    #[command(flatten)]
    pub(crate) common: RunArguments,
    /// What the job would like to have in memory.
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) working_set: u64,
    /// Carry it out as well.
    #[arg(long)]
    pub(crate) run: bool,
}

/// `tobari plan search`
#[derive(Args)]
pub(crate) struct SearchPlan {
    #[command(flatten)]
    pub(crate) common: RunArguments,
    /// Which algorithm.
    #[arg(long, value_enum, default_value_t = SearchMethod::PbwtHe)]
    pub(crate) method: SearchMethod,
    /// Sites of the pattern.
    #[arg(long, default_value_t = 5, value_name = "SITES")]
    pub(crate) length: usize,
    #[command(flatten)]
    pub(crate) panel: PanelArguments,
    /// Carry it out as well.
    #[arg(long)]
    pub(crate) run: bool,
}

/// An algorithm for a search that is run as a job within a memory limit.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchMethod {
    /// The paper's: the positional Burrows-Wheeler transform under encryption.
    PbwtHe,
}
