//! `tobari plan`: shows the steps of a job and the reasons for them before the job runs.

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
    /// Choose where each layer of a network runs: in a process or an enclave, plain or encrypted.
    Infer(InferPlan),
    /// Plan the reference job: encrypted vectors times a matrix, then a polynomial of the products.
    Memory(MemoryPlan),
    /// Plan the paper's search: the positional Burrows-Wheeler transform under encryption.
    Search(SearchPlan),
    /// Plan the decryption of sensor frames (AES-128) under encryption, which needs 10GiB of
    /// memory.
    Sense(SensePlan),
}

/// `tobari plan memory`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari plan memory --memory 1GiB
    tobari plan memory --memory 512MiB --working-set 512MiB --tier . --run")]
pub(crate) struct MemoryPlan {
    #[command(flatten)]
    pub(crate) common: RunArguments,
    /// Size the job so that its working set takes this much memory.
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) working_set: u64,
    /// Run the plan, too, and check the result.
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
