//! The command line of `tobari-bench`, for clap.

use super::call::CallBench;
#[cfg(linux_64)]
use super::infer::InferBench;
use super::measuring::{Measuring, parse_runs};
#[cfg(linux_64)]
use super::seal::SealBench;
use super::sense::SenseBench;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tobari_command::size::parse_bytes;
use tobari_reference::RunArguments;
use tobari_search_edge::plan::PanelArguments;

/// A job that has numbers.
#[derive(Subcommand)]
pub(crate) enum BenchJob {
    /// Encryption, addition and decryption of samples, on one thread; with --paper, sums of many
    /// speakers on all.
    Call(CallBench),
    /// An image through a network: every combination of process, enclave and encryption, and both
    /// resets; the paper's tables beside.
    #[cfg(linux_64)]
    Infer(InferBench),
    /// The lattice core: transforms, encryption, products, rotations of BGV and CKKS, on one
    /// thread.
    Lattice(LatticeBench),
    /// Bulk AES over a CPU and an emulated module: the paper's tables and figures, or real files
    /// against a copy of them.
    #[cfg(linux_64)]
    Seal(SealBench),
    /// The search by the paper's algorithm: its table 6, ours beside its values.
    Search(SearchBench),
    /// Devices' frames: sealing, conversion, bytes, and frames a second that a server takes
    /// durably; with --paper the paper's figure 4.
    Sense(SenseBench),
    /// Jobs larger than memory: a reference job without a limit, with a limit and a tier, and with
    /// a limit and the kernel's swap.
    Memory(MemoryBench),
}

/// `tobari-bench memory`
#[derive(Args)]
pub(crate) struct MemoryBench {
    #[command(flatten)]
    pub(crate) limited: LimitedBench,
    /// What the job would like to have in memory.
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) working_set: u64,
}

/// `tobari-bench search`
#[derive(Args)]
pub(crate) struct SearchBench {
    /// The paper's table 6: its algorithm without a limit and within one, on each class of devices.
    /// Without it, questions to a server of this machine, and what follows is the paper's alone but
    /// for --runs, --json and -o.
    #[arg(long)]
    pub(crate) paper: bool,
    /// Sites of the pattern, separated by commas: the paper's without it.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 5, 6], value_name = "SITES")]
    pub(crate) lengths: Vec<usize>,
    #[command(flatten)]
    pub(crate) panel: PanelArguments,
    #[command(flatten)]
    pub(crate) limited: LimitedBench,
}

/// How a job is measured without a limit, within one with a tier, and within one with the kernel's
/// swap.
#[derive(Args)]
pub(crate) struct LimitedBench {
    #[command(flatten)]
    pub(crate) common: RunArguments,
    /// Rounds: each way once in each.
    #[arg(long, default_value_t = 3, value_parser = parse_runs)]
    pub(crate) runs: usize,
    /// Leave the kernel's swap out: it takes long.
    #[arg(long)]
    pub(crate) without_swap: bool,
    /// Seconds after which a run is ended, its inputs' making included.
    #[arg(long, default_value_t = 900, value_name = "SECONDS")]
    pub(crate) patience: u64,
    /// Only these classes of devices, separated by commas; all without it.
    #[arg(long = "class", value_enum, value_delimiter = ',', value_name = "CLASS")]
    pub(crate) classes: Vec<DeviceClass>,
    /// One run, in this process, for the benchmark itself.
    #[arg(long, hide = true, value_enum)]
    pub(crate) once: Option<OnceMode>,
    /// Where tables and figures go.
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// A class of devices of the paper, and how it is emulated.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceClass {
    /// The tier's folder as it is.
    Disk,
    /// A disk in memory: faster than any device.
    Ram,
    /// A disk in memory, at the bandwidth of an NVMe device.
    Nvme,
    /// A disk in memory, at the bandwidth and request rate of a SATA device.
    Sata,
}

/// A way to run the reference job.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnceMode {
    /// Everything in memory.
    Unlimited,
    /// The same on one thread.
    OneThread,
    /// The evaluator called by hand, on one thread, without a plan.
    ByHand,
    /// Within the limit, with a tier.
    Tier,
    /// Everything in memory as far as the process knows, in the program's own order.
    Swap,
    /// The same in the planned order.
    SwapPlanned,
}

/// `tobari-bench lattice`
#[derive(Args)]
pub(crate) struct LatticeBench {
    /// Only these parameter sets, separated by commas; all three without it.
    #[arg(long = "set", value_enum, value_delimiter = ',', value_name = "SET")]
    pub(crate) sets: Vec<SetName>,
    /// Refreshes instead, of complex numbers in 2^15 and 2^14 slots. It takes minutes and 12 GiB.
    #[arg(long, conflicts_with = "sets")]
    pub(crate) refresh: bool,
    /// With --refresh: of 2 to the power of this many slots.
    #[arg(long, value_delimiter = ',', default_values_t = [14, 15], value_parser = clap::value_parser!(u32).range(12..=15))]
    pub(crate) log_slots: Vec<u32>,
    /// A round of refreshes in a process of its own.
    #[arg(long, hide = true, requires = "refresh")]
    pub(crate) alone: bool,
    #[command(flatten)]
    pub(crate) common: Measuring,
}

/// A parameter set of the benchmark: `tobari info` has them as ckks-a, ckks-b and bgv-c.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(crate) enum SetName {
    /// CKKS, N = 2^14, 50 + 5 x 30 bits, 3 digits.
    A,
    /// CKKS, N = 2^15, 50 + 12 x 49 bits, 5 digits.
    B,
    /// BGV, N = 2^14, t = 65537, 6 x 50 bits, 3 digits.
    C,
}
