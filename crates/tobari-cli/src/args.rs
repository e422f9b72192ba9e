//! The command line, as clap reads it. Its text is what `tobari help` prints.

mod call_bench;
#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod examples;
mod infer;
mod parse;
mod sense;
mod serve;

use crate::cmd::call::arguments::{JoinArguments, LinkArguments, OpenArguments};
use crate::cmd::infer::InferVerb;
use crate::cmd::search::SearchVerb;
use crate::cmd::sense::SenseVerb;
pub(crate) use call_bench::CallBench;
use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) use infer::InferBench;
pub(crate) use infer::{InferPlan, InferRequirements, InsideName, Protected, WhoseCosts, WhosePolicy};
pub(crate) use parse::parse_bytes;
pub(crate) use sense::{SenseBench, SensePlan};
pub(crate) use serve::{CheckArguments, ServeArguments};
use std::path::PathBuf;
use tobari_core::curve::{Curve, PointEncoding};
use tobari_core::elgamal::Mode;
use tobari_core::params::{BelowFloor, Parameters, SecurityFloor};
use tobari_core::simd::Backend;
use tobari_host::store::Folder;
use tobari_server::Fingerprint;

/// Useful work on data that the server cannot see.
#[derive(Parser)]
#[command(name = "tobari", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// How much to log on standard error.
    #[arg(long, global = true, value_enum, env = "TOBARI_LOG")]
    pub(crate) log: Option<LogLevel>,
    /// How the log is written.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "TOBARI_LOG_FORMAT")]
    pub(crate) log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How much to log.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// And what looks wrong.
    Warn,
    /// And what happened, without any name, address or content.
    Info,
    /// And how.
    Debug,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Every finished job on built-in real inputs, done by a server without a key and checked against the plain answer.
    Demo(DemoArguments),
    /// The blind server: does the work, holds no key.
    Serve(Box<ServeArguments>),
    /// The file with the settings of the server.
    Config {
        /// What to do.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// What a stopped server keeps, sealed into a folder of its own.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Backup(Box<crate::cmd::seal::SealArguments>),
    /// What a backup holds, put into a new folder for a server.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Restore(crate::cmd::seal::UnsealArguments),
    /// Version, arithmetic in use, and each curve with its security.
    Info(InfoArguments),
    /// A job's numbers on this machine.
    Bench {
        /// Which job.
        #[command(subcommand)]
        job: BenchJob,
    },
    /// Every job's paper benchmark on this machine, and one page that shows the papers, the peers on record and this machine.
    Report(crate::cmd::report::ReportArguments),
    /// The plan of a job: what is done in which order, what lies in memory when, and why.
    Plan {
        /// Which job.
        #[command(subcommand)]
        job: PlanJob,
    },
    /// Voices mixed by a server that cannot hear them.
    Call {
        /// What to do.
        #[command(subcommand)]
        verb: CallVerb,
    },
    /// Questions to a table that its owner answers without seeing them.
    Search {
        /// What to do.
        #[command(subcommand)]
        verb: SearchVerb,
    },
    /// Images classified by a server that cannot see them.
    Infer {
        /// What to do.
        #[command(subcommand)]
        verb: InferVerb,
    },
    /// Statistics and alarms over devices' readings that the server cannot see.
    Sense {
        /// What to do.
        #[command(subcommand)]
        verb: SenseVerb,
    },
    /// Folders, files and streams sealed under a key, on all engines of this machine.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Seal(Box<crate::cmd::seal::SealArguments>),
    /// What was sealed, opened.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Unseal(crate::cmd::seal::UnsealArguments),
}

/// What to do with the file of settings.
#[derive(Subcommand)]
pub(crate) enum ConfigVerb {
    /// Say each setting, where it is from, and whether the server could start with them.
    Check(CheckArguments),
}

/// What to do in a call.
#[derive(Subcommand)]
pub(crate) enum CallVerb {
    /// Make a key: a secret key file, and in mode elgamal the public one beside it.
    Keygen(KeygenArguments),
    /// Mix recordings: each is one speaker; the server adds them up under encryption.
    Mix(MixArguments),
    /// Make the link of a live room: address, settings and secret.
    Link(LinkArguments),
    /// Join a live room by its link: speak, listen, record.
    Join(Box<JoinArguments>),
    /// Open a recording of a live room with its link.
    Open(OpenArguments),
}

/// `tobari demo`
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Try to cheat, and print what was caught and what is not caught yet.
    #[arg(long)]
    pub(crate) attack: bool,
}

/// `tobari info`
#[derive(Args)]
pub(crate) struct InfoArguments {
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A job that has numbers.
#[derive(Subcommand)]
pub(crate) enum BenchJob {
    /// Encryption, addition and decryption of samples, on one thread; with --paper, sums of many speakers on all.
    Call(CallBench),
    /// An image through a network: every combination of process, enclave and encryption, and both resets; the paper's tables beside.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Infer(InferBench),
    /// The lattice core: transforms, encryption, products, rotations of BGV and CKKS, on one thread.
    Lattice(LatticeBench),
    /// Bulk AES over a CPU and an emulated module: the paper's tables and figures, or real files against a copy of them.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    Seal(crate::cmd::bench::SealBench),
    /// The search by the paper's algorithm: its table 6, ours beside its values.
    Search(SearchBench),
    /// Devices' frames: sealing, conversion, bytes, and frames a second that a server takes durably; with --paper the paper's figure 4.
    Sense(SenseBench),
    /// Jobs larger than memory: a reference job without a limit, with a limit and a tier, and with a limit and the kernel's swap.
    Memory(MemoryBench),
}

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

/// How a reference job is run.
#[derive(Args, Clone)]
pub(crate) struct RunArguments {
    /// Memory for the whole process, as in 1GiB or 512MiB.
    #[arg(long, default_value = "1GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) memory: u64,
    /// Threads that compute; as many as there are cores without it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// A folder of the tier, and the most that may lie there, as in /fast:2GiB. Given again for each further folder, the fastest first: what one
    /// has no space for goes to the next. Without it, the folder of temporary files.
    #[arg(long = "tier", value_parser = parse_tier, value_name = "FOLDER[:BYTES]")]
    pub(crate) tiers: Vec<Folder>,
    /// Measure what steps cost again, whatever was kept.
    #[arg(long)]
    pub(crate) recalibrate: bool,
    /// Results as JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
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

/// A made-up panel.
#[derive(Args, Clone)]
pub(crate) struct PanelArguments {
    /// Haplotypes of the panel, which is made up.
    #[arg(long, default_value_t = 2184, value_name = "N")]
    pub(crate) haplotypes: usize,
    /// Places that are searched at once, the decoys among them.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) places: usize,
}

/// An algorithm for a search that is run as a job within a memory limit.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchMethod {
    /// The paper's: the positional Burrows-Wheeler transform under encryption.
    PbwtHe,
}

/// `tobari bench memory`
#[derive(Args)]
pub(crate) struct MemoryBench {
    #[command(flatten)]
    pub(crate) limited: LimitedBench,
    /// What the job would like to have in memory.
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) working_set: u64,
}

/// `tobari bench search`
#[derive(Args)]
pub(crate) struct SearchBench {
    /// The paper's table 6: its algorithm without a limit and within one, on each class of devices. Without it, questions to a server of this
    /// machine, and what follows is the paper's alone but for --runs, --json and -o.
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

/// How a job is measured without a limit, within one with a tier, and within one with the kernel's swap.
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

/// How anything is measured.
#[derive(Args)]
pub(crate) struct Measuring {
    /// Rounds, after one that warms up.
    #[arg(long, default_value_t = 31, value_parser = parse_runs)]
    pub(crate) runs: usize,
    /// The loops to measure: the fastest that this machine has, or slower ones.
    #[arg(long, value_enum, default_value_t = BackendName::Fastest)]
    pub(crate) backend: BackendName,
    /// A program that measures another engine on the same task, in between: see bench/README.md. May be given again.
    #[arg(long = "peer", value_name = "PROGRAM")]
    pub(crate) peers: Vec<String>,
    /// Write call.csv or lattice.csv into this folder too, and what else was made.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari bench lattice`
#[derive(Args)]
pub(crate) struct LatticeBench {
    /// Only these parameter sets, separated by commas; all three without it.
    #[arg(long = "set", value_enum, value_delimiter = ',', value_name = "SET")]
    pub(crate) sets: Vec<SetName>,
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

/// The least that a folder of the tier may be limited to: there is nothing to measure in less.
const LEAST_TIER_BYTES: u64 = 4 << 20;

/// A folder, with `:` and a number of bytes behind it or nothing. What begins with a digit after the last colon is such a number.
fn parse_tier(text: &str) -> Result<Folder, String> {
    let sized = |(path, size): &(&str, &str)| {
        !path.is_empty() && size.starts_with(|c: char| c.is_ascii_digit()) && !size.contains(std::path::is_separator)
    };
    let Some((path, size)) = text.rsplit_once(':').filter(sized) else {
        return match text {
            "" => Err("expected a folder".to_owned()),
            _ => Ok(Folder { path: text.into(), quota_bytes: None }),
        };
    };
    match parse_bytes(size)? {
        bytes if bytes < LEAST_TIER_BYTES => Err("expected at least 4MiB for a folder of the tier".to_owned()),
        bytes => Ok(Folder { path: path.into(), quota_bytes: Some(bytes) }),
    }
}

/// From 1 to 10,000.
fn parse_runs(text: &str) -> Result<usize, String> {
    let runs: usize = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (1..=10_000).contains(&runs) { Ok(runs) } else { Err("expected 1 to 10000".to_owned()) }
}

/// `tobari call keygen`
#[derive(Args)]
pub(crate) struct KeygenArguments {
    /// The secret key file to write; in mode elgamal the public key goes to the same name with `.pub` added.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// How samples are to be encrypted.
    #[arg(long, value_enum, default_value_t = ModeName::Elgamal)]
    pub(crate) mode: ModeName,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari call mix`
#[derive(Args)]
pub(crate) struct MixArguments {
    /// WAV recordings, each one speaker: PCM of 8, 16, 24 or 32 bits or float, mono or stereo, any usual rate. They are
    /// brought to 16 kHz mono 16-bit; such a file passes unchanged.
    #[arg(required = true, value_name = "WAV")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The mix, 16 kHz mono 16-bit; sums beyond 16 bits are limited, not wrapped.
    #[arg(short, long, value_name = "WAV")]
    pub(crate) output: PathBuf,
    /// Write the exact sum instead, as 32-bit samples.
    #[arg(long)]
    pub(crate) exact: bool,
    /// The blind server, e.g. https://host:7610; without it one is started as a separate process on this machine.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// How samples are encrypted. Default: in the mode of the key file, or elgamal without one.
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// The secret key file to use; without it a fresh key is made and forgotten.
    #[arg(long, value_name = "FILE", conflicts_with = "curve")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// How points travel: compressed is half the bytes and more work. Default: compressed to a server, uncompressed on
    /// this machine.
    #[arg(long, value_enum)]
    pub(crate) points: Option<PointsForm>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How samples are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Lifted ElGamal, one ciphertext a sample, as in the paper.
    Elgamal,
    /// The randomness of a packet shared by its samples: half the bytes and less work. All members hold one secret, and any
    /// of them can decrypt what another one sends.
    ElgamalShared,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Elgamal => Mode::Elgamal,
            ModeName::ElgamalShared => Mode::ElgamalShared,
        }
    }
}

/// How points travel.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PointsForm {
    /// One coordinate and one bit.
    Compressed,
    /// Both coordinates.
    Uncompressed,
}

impl From<PointsForm> for PointEncoding {
    fn from(form: PointsForm) -> Self {
        match form {
            PointsForm::Compressed => PointEncoding::Compressed,
            PointsForm::Uncompressed => PointEncoding::Uncompressed,
        }
    }
}

/// Whom to trust to be the server.
#[derive(Args)]
pub(crate) struct TrustArguments {
    /// Trust the server whose certificate has this SHA-256 fingerprint (as `tobari serve` prints it), and no other.
    #[arg(long, requires = "server", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Trust servers vouched for by the certificates in this PEM file, and no others.
    #[arg(long, requires = "server", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Which curve.
#[derive(Args)]
pub(crate) struct CurveArguments {
    /// The elliptic curve; `tobari info` lists them.
    #[arg(long, default_value = "secp256k1", value_parser = |name: &str| Curve::from_name(name), value_name = "NAME")]
    pub(crate) curve: Curve,
    #[command(flatten)]
    pub(crate) floor: FloorArguments,
}

impl CurveArguments {
    /// The parameters, if the curve is strong enough for the flags given.
    pub(crate) fn parameters(&self) -> Result<Parameters, BelowFloor> {
        Parameters::new(self.curve, self.floor.floor())
    }
}

/// Which security is enough.
#[derive(Args)]
pub(crate) struct FloorArguments {
    /// Admit curves below 112 bits of security too: to repeat the paper's measurements, never for a secret.
    #[arg(long)]
    pub(crate) insecure_paper: bool,
}

impl FloorArguments {
    /// The floor that the flags ask for.
    pub(crate) fn floor(&self) -> SecurityFloor {
        if self.insecure_paper { SecurityFloor::InsecurePaper } else { SecurityFloor::Standard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_tier_is_a_folder_and_the_most_that_may_lie_there() {
        let folder = |path: &str, quota_bytes| Ok(Folder { path: path.into(), quota_bytes });
        assert_eq!(parse_tier("/fast:2GiB"), folder("/fast", Some(2 << 30)));
        for whole in ["/fast", "a:b", ":2GiB", "C:\\tier", "a:1/b", "a:"] {
            assert_eq!(parse_tier(whole), folder(whole, None), "{whole}");
        }
        for wrong in ["", "/fast:2", "/fast:1XiB", "/fast:3MiB", "/fast:1e9"] {
            assert!(parse_tier(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_server_has_no_flag_for_a_key_of_a_call() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let names: Vec<_> = serve.get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect();
        assert!(names.contains(&"tls_key".to_owned()), "the listing works");
        // beside the server's own: how often a key may be used, and how much room clients' evaluation keys have
        let others = ["tls_key", "key_uses", "infer_keys", "max_key_bytes"];
        assert!(names.iter().all(|name| !name.contains("key") || others.contains(&name.as_str())), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("secret")), "{names:?}");
    }
}
