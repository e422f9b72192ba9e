//! The options of all benchmarks, for clap.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tobari_simd::Backend;

/// How anything is measured.
#[derive(Args)]
pub(crate) struct Measuring {
    /// Rounds, after one that warms up.
    #[arg(long, default_value_t = 31, value_parser = parse_runs)]
    pub(crate) runs: usize,
    /// The loops to measure: the fastest that this machine has, or slower ones.
    #[arg(long, value_enum, default_value_t = BackendName::Fastest)]
    pub(crate) backend: BackendName,
    /// A program that measures another engine on the same task, in between: see bench/README.md.
    /// May be given again.
    #[arg(long = "peer", value_name = "PROGRAM")]
    pub(crate) peers: Vec<String>,
    /// Write call.csv or lattice.csv into this folder too, and what else was made.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A choice of loops.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    /// The fastest that this machine has.
    Fastest,
    /// Those of AVX2 and FMA, where there are such: for lattices.
    Avx2,
    /// Those that run everywhere.
    Portable,
}

impl BackendName {
    pub(crate) fn backend(self) -> Backend {
        match self {
            BackendName::Fastest => Backend::Fastest,
            BackendName::Avx2 => Backend::Avx2,
            BackendName::Portable => Backend::Portable,
        }
    }
}

/// From 1 to 10,000.
pub(crate) fn parse_runs(text: &str) -> Result<usize, String> {
    let runs: usize = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (1..=10_000).contains(&runs) { Ok(runs) } else { Err("expected 1 to 10000".to_owned()) }
}
