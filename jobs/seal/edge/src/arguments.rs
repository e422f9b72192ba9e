//! `tobari seal` and `tobari unseal`, as clap reads them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use tobari_plan::dispatch::Policy;
use tobari_seal::Suite;

/// `tobari seal`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SealArguments {
    #[command(subcommand)]
    pub(super) verb: Option<SealVerb>,
    /// A folder, a file, or `-` for standard input, which has no name, time or permissions to keep.
    #[arg(value_name = "SOURCE", required = true)]
    pub(super) source: Option<PathBuf>,
    /// For a folder, the folder of sealed files: new, or unfinished, which is continued. For a file
    /// or standard input, the sealed file; `-` is standard output.
    #[arg(short, long, value_name = "OUT", required = true)]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    /// Make a key file of 32 random bytes, and seal with it.
    #[arg(long, value_name = "FILE")]
    pub(super) new_key: Option<PathBuf>,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) recipients: RecipientArguments,
    /// AES-256-GCM, or AES-256-CBC with HMAC-SHA-256.
    #[arg(long, value_enum, default_value_t = ModeName::Gcm)]
    pub(super) mode: ModeName,
    /// Replace a sealed file; bring a finished set up to date.
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

impl SealArguments {
    /// What is sealed, if it is a folder or a file that is to be.
    pub(crate) fn source(&self) -> Option<&Path> {
        self.source.as_deref().filter(|_| self.verb.is_none())
    }
}

impl UnsealArguments {
    /// Where to.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// Whether files that are there are replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.force
    }

    /// Whether only one file is asked for.
    pub(crate) fn is_part(&self) -> bool {
        self.only.is_some()
    }
}

/// What else there is.
#[derive(Subcommand)]
pub(crate) enum SealVerb {
    /// Open everything, write nothing, and say what is not as it was sealed.
    Verify(LookArguments),
    /// What is in a set.
    Ls(LookArguments),
}

/// `tobari seal verify`, `tobari seal ls`
#[derive(Args)]
pub(crate) struct LookArguments {
    /// A set, or one sealed file.
    #[arg(value_name = "SET")]
    pub(super) set: PathBuf,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) identities: IdentityArguments,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// One JSON object on standard output; of `ls`, one a line for each entry.
    #[arg(long)]
    pub(super) json: bool,
}

/// `tobari unseal`
#[derive(Args)]
pub struct UnsealArguments {
    /// A set, a sealed file, or `-` for standard input.
    #[arg(value_name = "SEALED")]
    pub(super) sealed: PathBuf,
    /// Where to: for a set a folder that is new, empty, or has nothing but what an interrupted run
    /// made of this set; a file for a sealed file or one of a set; `-` is standard output, which
    /// gets each chunk as soon as it is verified.
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) identities: IdentityArguments,
    /// Of a set only this file or link, by its path as `tobari seal ls` prints it; it has to be the
    /// one that the list names.
    #[arg(long, value_name = "PATH", conflicts_with = "salvage")]
    pub(super) only: Option<PathBuf>,
    /// Open what opens: in a set without its list, where what is missing or old is not seen; and of
    /// a damaged file what is right, as NAME.damaged with holes for the ranges that are listed.
    #[arg(long)]
    pub(super) salvage: bool,
    /// Replace files.
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

/// Whose keys.
#[derive(Args, Default)]
pub(crate) struct KeyArguments {
    /// A key file: exactly 32 bytes. Several seal for each.
    #[arg(long, value_name = "FILE")]
    pub(super) key_file: Vec<PathBuf>,
    /// A file whose first line is a passphrase.
    #[arg(long, value_name = "FILE")]
    pub(super) passphrase_file: Vec<PathBuf>,
    /// Ask for a passphrase at the terminal; twice to seal.
    #[arg(long)]
    pub(super) passphrase: bool,
}

/// For whom else a set is sealed.
#[cfg(feature = "age")]
#[derive(Args, Default)]
pub(crate) struct RecipientArguments {
    /// A recipient of age (age1…), of a plugin's too. Several seal for each. What is sealed for
    /// recipients alone cannot be continued when it was interrupted.
    #[arg(long, short, value_name = "RECIPIENT")]
    pub(super) recipient: Vec<String>,
    /// A file of recipients, one a line.
    #[arg(long, short = 'R', value_name = "FILE")]
    pub(super) recipients_file: Vec<PathBuf>,
}

#[cfg(feature = "age")]
impl RecipientArguments {
    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.recipient.is_empty() || !self.recipients_file.is_empty()
    }
}

/// What opens what was sealed for recipients of age.
#[cfg(feature = "age")]
#[derive(Args, Default)]
pub(crate) struct IdentityArguments {
    /// An identity file of age; where it is encrypted, its passphrase is asked for at the terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(super) identity: Vec<PathBuf>,
}

/// Which engines.
#[derive(Args)]
pub(crate) struct EngineArguments {
    /// Who does what.
    #[arg(long, value_parser = policy(), default_value = Policy::Best.name())]
    pub(super) policy: Policy,
    /// CPU threads. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(super) threads: Option<u16>,
    /// A module beside the CPU: `emulated` is a process on another core, which shows how modules
    /// are used and makes nothing faster.
    #[arg(long, value_enum)]
    pub(super) module: Option<ModuleName>,
}

/// A suite.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    /// AES-256-GCM.
    Gcm,
    /// AES-256-CBC, then HMAC-SHA-256.
    Cbc,
}

impl ModeName {
    pub(super) fn suite(self) -> Suite {
        match self {
            Self::Gcm => Suite::Gcm,
            Self::Cbc => Suite::CbcHmac,
        }
    }
}

/// A module.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModuleName {
    /// A process on another core.
    Emulated,
    /// The system's OpenSSL, one message after another: to compare with.
    #[cfg(feature = "openssl")]
    Openssl,
}

/// Policies by their names.
pub fn policy() -> impl TypedValueParser<Value = Policy> {
    let names = Policy::ALL.map(|policy| PossibleValue::new(policy.name()).help(policy.about()));
    let named = |name: String| Policy::from_name(&name).ok_or("expected the name of a policy");
    PossibleValuesParser::new(names).try_map(named)
}
