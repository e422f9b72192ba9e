//! `tobari seal` and `tobari unseal`, as clap reads them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use tobari_plan::dispatch::Policy;
use tobari_seal::Suite;

/// Headings of the help.
const KEYS: &str = "Keys";
const ENGINES: &str = "Engines";
const OUTPUT: &str = "Output";

/// `tobari seal`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari seal docs -o sealed --new-key docs.key
    tobari seal docs -o sealed --key-file docs.key --force")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SealArguments {
    #[command(subcommand)]
    pub(super) verb: Option<SealVerb>,
    /// The folder or file to seal. `-` is standard input, which has no name, time or permissions.
    #[arg(value_name = "SOURCE", required = true)]
    pub(super) source: Option<PathBuf>,
    /// Write to this folder, or to this file if SOURCE is a file. An unfinished folder is
    /// continued. `-` is standard output.
    #[arg(short, long, value_name = "OUT", required = true)]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    /// Make this key file (32 random bytes), and seal with the key.
    #[arg(long, value_name = "FILE", help_heading = KEYS)]
    pub(super) new_key: Option<PathBuf>,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) recipients: RecipientArguments,
    /// Encrypt in this mode.
    #[arg(long, value_enum, default_value_t = ModeName::Gcm, help_heading = OUTPUT)]
    pub(super) mode: ModeName,
    /// Replace an existing sealed file, or update a finished set.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// Print one JSON object on standard output.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

impl SealArguments {
    /// The source, if the command seals.
    pub(crate) fn source(&self) -> Option<&Path> {
        self.source.as_deref().filter(|_| self.verb.is_none())
    }

    /// Whether the command only verifies or lists a set.
    pub(crate) fn is_look(&self) -> bool {
        self.verb.is_some()
    }
}

impl UnsealArguments {
    /// The output.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// Whether existing files are replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.force
    }

    /// Whether the command decrypts only one file.
    pub(crate) fn is_part(&self) -> bool {
        self.only.is_some()
    }
}

/// Commands about sealed sets.
#[derive(Subcommand)]
pub(crate) enum SealVerb {
    /// Decrypt everything without writing anything, and report every damaged or missing file.
    #[command(after_help = "\
Examples:
    tobari seal verify sealed --key-file docs.key
    tobari seal verify sealed --key-file docs.key --json")]
    Verify(LookArguments),
    /// List the content of a set.
    #[command(after_help = "\
Examples:
    tobari seal ls sealed --key-file docs.key
    tobari seal ls sealed --key-file docs.key --json")]
    Ls(LookArguments),
}

/// `tobari seal verify`, `tobari seal ls`
#[derive(Args)]
pub(crate) struct LookArguments {
    /// The set (a folder), or one sealed file.
    #[arg(value_name = "SET")]
    pub(super) set: PathBuf,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) identities: IdentityArguments,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// Print one JSON object on standard output; `ls` prints one for each entry.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

/// `tobari unseal`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari unseal sealed -o docs-again --key-file docs.key
    tobari unseal sealed -o one.txt --key-file docs.key --only one.txt")]
pub struct UnsealArguments {
    /// The set (a folder) or file to decrypt. `-` is standard input.
    #[arg(value_name = "SEALED")]
    pub(super) sealed: PathBuf,
    /// Write to this new or empty folder, or to this file. The folder of an interrupted run of the
    /// same set is continued. `-` is standard output, which receives each chunk once verified.
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) keys: KeyArguments,
    #[cfg(feature = "age")]
    #[command(flatten)]
    pub(super) identities: IdentityArguments,
    /// Decrypt only this file or link of a set, by its path in `tobari seal ls`.
    #[arg(long, value_name = "PATH", conflicts_with = "salvage", help_heading = OUTPUT)]
    pub(super) only: Option<PathBuf>,
    /// Recover every readable file of a damaged set. Without the set's list, missing and outdated
    /// files go unnoticed. Damaged files become NAME.damaged, with holes for the ranges that are
    /// printed.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) salvage: bool,
    /// Replace existing files.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) engines: EngineArguments,
    /// Print one JSON object on standard output.
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

/// Key files and passphrases.
#[derive(Args, Default)]
#[command(next_help_heading = KEYS)]
pub(crate) struct KeyArguments {
    /// Use this key file of exactly 32 bytes. Repeat the option to seal for several keys.
    #[arg(long, value_name = "FILE")]
    pub(super) key_file: Vec<PathBuf>,
    /// Use the passphrase in the first line of this file.
    #[arg(long, value_name = "FILE")]
    pub(super) passphrase_file: Vec<PathBuf>,
    /// Ask for a passphrase at the terminal.
    #[arg(long)]
    pub(super) passphrase: bool,
}

/// Recipients of age.
#[cfg(feature = "age")]
#[derive(Args, Default)]
#[command(next_help_heading = KEYS)]
pub(crate) struct RecipientArguments {
    /// Seal for this recipient of age (age1…), a plugin's included. Repeat the option for several.
    /// A run with recipients alone cannot be continued after an interruption.
    #[arg(long, short, value_name = "RECIPIENT")]
    pub(super) recipient: Vec<String>,
    /// Seal for the recipients in this file, one a line.
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

/// Identities of age.
#[cfg(feature = "age")]
#[derive(Args, Default)]
#[command(next_help_heading = KEYS)]
pub(crate) struct IdentityArguments {
    /// Use this identity file of age. The command asks for the passphrase of an encrypted file.
    #[arg(long, short, value_name = "FILE")]
    pub(super) identity: Vec<PathBuf>,
}

/// Engines that encrypt.
#[derive(Args)]
#[command(next_help_heading = ENGINES)]
pub(crate) struct EngineArguments {
    /// Divide the work between engines by this policy.
    #[arg(long, value_parser = policy(), default_value = Policy::Best.name())]
    pub(super) policy: Policy,
    /// Use this many CPU threads. [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(super) threads: Option<u16>,
    /// Use a crypto module beside the CPU. `emulated` is a process on another core: a demonstration
    /// that makes nothing faster.
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
