//! `tobari plan`: what a job will do here, and why, before it does it.

use clap::{Args, Subcommand};
use std::process::ExitCode;
use tobari_command::output::Failure;
use tobari_command::size::parse_bytes;
use tobari_infer_edge::command::InferPlan;
use tobari_reference::{Matrix, Reference, RunArguments, explain};
use tobari_search_edge::plan::SearchPlan;
use tobari_sense_edge::plan::SensePlan;

/// A job with a plan.
#[derive(Subcommand)]
pub(crate) enum PlanJob {
    /// An image through a network: which layer is done in a plain process or an enclave, in the
    /// clear or encrypted, by what has to be protected.
    Infer(InferPlan),
    /// The reference job: encrypted vectors times a matrix, and a polynomial of the products.
    Memory(MemoryPlan),
    /// The paper's algorithm for the search, as a job: the positional Burrows-Wheeler transform
    /// under encryption.
    Search(SearchPlan),
    /// Devices' frames of AES-128, decrypted under encryption: the paper's second design at 128
    /// bits, which wants 10GiB of memory.
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

/// Plans and prints.
pub(crate) fn run(job: &PlanJob) -> Result<ExitCode, Failure> {
    match job {
        PlanJob::Infer(arguments) => tobari_infer_edge::command::plan(arguments),
        PlanJob::Memory(arguments) => {
            let job = Reference::new(Matrix::new(arguments.working_set)?);
            explain(&job, &arguments.common, arguments.run)
        }
        PlanJob::Search(arguments) => arguments.explain(),
        PlanJob::Sense(arguments) => arguments.explain(),
    }
}
