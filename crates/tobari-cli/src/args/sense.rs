//! What is measured of devices' frames.

use clap::Args;
use std::path::PathBuf;

/// `tobari bench sense`
#[derive(Args)]
pub(crate) struct SenseBench {
    /// Rounds, after one that warms up.
    #[arg(long, default_value_t = 7, value_parser = super::parse_runs)]
    pub(crate) runs: usize,
    /// Leave the exact conversion out: it takes seconds a round.
    #[arg(long)]
    pub(crate) without_exact: bool,
    /// Frames that are sent to a server.
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) frames: u32,
    /// Frames of a batch.
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,
    /// Connections that send.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) connections: u32,
    /// Servers that frames are sent to, one after the other.
    #[arg(long, default_value_t = 3, value_parser = super::parse_runs)]
    pub(crate) ingest_runs: usize,
    /// The paper's figure 4, (a) to (h), ours for one thread of this machine.
    #[arg(long)]
    pub(crate) paper: bool,
    /// One cell of it, in this process.
    #[arg(long, hide = true)]
    pub(crate) once: Option<String>,
    /// Where lines, tables and figures go.
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
