//! `tobari-bench seal`: bulk AES-CBC by every policy over one CPU core and an emulated module on
//! another core, and the sealing of real files against a copy of them (`--tree`). With `--paper`
//! the grid has the paper's tables 2 and 3 and figures 9 to 11, and cases that the paper leaves
//! out.
//!
//! **The module is emulated** by a second CPU core, throttled to a multiple of the speed of one
//! chain on the first core. Ratios can be compared with the paper; absolute speeds cannot.

mod chains;
mod engines;
mod figures;
mod grid;
mod tree;

use crate::program::Tobari;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::memory;
use tobari_plan::dispatch::Policy;
use tobari_seal_edge::policy;

/// `tobari-bench seal`
#[derive(Args)]
pub(crate) struct SealBench {
    /// The paper's grid of sizes, keys, directions and policies, engines of other speeds, a busy
    /// core, batches, mixed sizes: tables and figures into -o.
    #[arg(long, requires = "output")]
    pub(crate) paper: bool,
    /// Messages of each size.
    #[arg(long, default_value_t = 4000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=100_000))]
    pub(crate) files: u32,
    /// Rounds, after one that warms up and compares every answer with the CPU's.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// Only these policies, separated by commas; all without it.
    #[arg(long = "policy", value_parser = policy(), value_delimiter = ',', value_name = "NAME")]
    pub(crate) policies: Vec<Policy>,
    /// Only setups whose description has this text, as "0.5 of its core wanted".
    #[arg(long, requires = "paper", value_name = "TEXT")]
    pub(crate) setup: Option<String>,
    /// Few sizes, AES-128 alone, one of each other thing: to see that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seal this folder with a key file, and copy it with `cp -r` and one sync, in turn.
    #[arg(long, value_name = "DIR", conflicts_with = "paper")]
    pub(crate) tree: Option<PathBuf>,
    /// AES-CBC encryption alone, on one core: many chains side by side, one chain, and OpenSSL
    /// where it is built in.
    #[arg(long, conflicts_with_all = ["paper", "tree"])]
    pub(crate) chains: bool,
    /// Write CSV and SVG into this folder.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures and prints.
pub(super) fn run(arguments: &SealBench, tobari: &Tobari) -> Result<ExitCode, Failure> {
    if let Some(tree) = &arguments.tree {
        return tree::run(arguments, tobari, tree);
    }
    if arguments.chains {
        return chains::run(arguments);
    }
    if tobari_host::threads::available() < 2 {
        output::say("NOT RUN: expected two cores, one of them for the emulated module, found one");
        return Ok(ExitCode::SUCCESS);
    }
    // All policies use one heap, because they start different numbers of threads.
    memory::one_heap();
    memory::keep_small(memory::KEPT_SMALL);
    grid::run(arguments)
}
