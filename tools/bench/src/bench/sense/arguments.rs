//! The command line of `tobari-bench sense`, for clap.

use crate::bench::measuring::parse_runs;
use clap::Args;
use std::path::PathBuf;
use tobari_command::size::parse_bytes;

/// `tobari-bench sense`
#[derive(Args)]
pub(crate) struct SenseBench {
    /// Rounds, after one that warms up.
    #[arg(long, default_value_t = 7, value_parser = parse_runs)]
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
    #[arg(long, default_value_t = 3, value_parser = parse_runs)]
    pub(crate) ingest_runs: usize,
    /// Also by this broker (MQTT 5), as mqtt://host:1883.
    #[arg(long, value_name = "URL")]
    pub(crate) mqtt: Option<tobari_sense_edge::serve::MqttBroker>,
    /// The paper's figure 4, (a) to (h), ours for one thread of this machine.
    #[arg(long)]
    pub(crate) paper: bool,
    /// Memory for design 2 on the server, AES under encryption, as in 10GiB: a plan within it is
    /// carried out, which takes minutes and some 12 GB of disk. Without it the design is left out
    /// there.
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) memory: Option<u64>,
    /// The folder of its tier. [default: that of temporary files]
    #[arg(long, requires = "memory", value_name = "FOLDER")]
    pub(crate) tier: Option<PathBuf>,
    /// A degree that protects nothing, for design 2: to see that it works.
    #[arg(long, hide = true, requires = "memory", value_name = "N")]
    pub(crate) insecure_degree: Option<usize>,
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
