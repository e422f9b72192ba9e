//! `tobari search`: tables, and questions to them.

mod answers;
mod arguments;
mod beacon;
mod check;
mod index;
mod query;
mod question;
mod remote;
mod secret;
mod serve;

pub use remote::{Remote, Wanted};
pub use serve::ServeSearchArguments;

use answers::FormatArguments;
use clap::{Args, Subcommand};
use question::QuestionArguments;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tobari_command::job::Verbs;
use tobari_command::output::Failure;
use tobari_search::table::{MAX_TABLE_BYTES, Table, decode_table};
use tobari_search_files::variants::VariantKind;

/// What to do with a table.
#[derive(Subcommand)]
pub enum SearchVerb {
    /// Make a table of a VCF or BCF file, or of any keys, or add sites to one.
    Index(IndexArguments),
    /// Ask a table that lies here, in the clear: the answers that a query under encryption has to
    /// give.
    Check(CheckArguments),
    /// Make a secret key file to ask with.
    Keygen(arguments::KeygenArguments),
    /// Make a client's token, and the line of it for the file that a server is given.
    Token(arguments::TokenArguments),
    /// Ask a server that sees neither the alleles nor the key; with --hidden, not the place either.
    Query(Box<arguments::QueryArguments>),
    /// Beacon version 2 on this machine, for programs that speak it: each request becomes a query
    /// under encryption.
    Beacon(arguments::BeaconArguments),
}

/// `tobari search index`
#[derive(Args)]
pub struct IndexArguments {
    /// A .vcf, .vcf.gz or .bcf file with genotypes; with --table, keys and counts: KEY, or KEY and
    /// a tab and COUNT, one a line. `-` is standard input.
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// The table to write.
    #[arg(short, long, value_name = "TSI")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) filters: FilterArguments,
    /// Answer as if what occurs fewer times were absent. [default: 1, or as it was with --append]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_count: Option<u32>,
    /// Add the input's sites after the last of the output, which is there already; the number of
    /// haplotypes must be the same. More haplotypes, or more keys, are a new table.
    #[arg(long, conflicts_with = "table")]
    pub(crate) append: bool,
    /// With --append: on the chromosome where the table ends, the input is of the table's phasing.
    /// Without this, sites there at which a sample has two different alleles are refused.
    #[arg(long, requires = "append")]
    pub(crate) same_phasing: bool,
    /// The input is a table of keys.
    #[arg(long)]
    pub(crate) table: bool,
    /// Its first line names the columns.
    #[arg(long, requires = "table")]
    pub(crate) header: bool,
    /// What to call the table, for people; whoever may ask sees it.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) label: String,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which records and samples of a VCF or BCF file.
#[derive(Args)]
#[command(next_help_heading = "Filters of VCF and BCF files")]
pub struct FilterArguments {
    /// Only records whose position is in these regions, as chr20:1000000-2000000; with commas
    /// between, or given again.
    #[arg(short = 'r', long, value_name = "REGION")]
    pub(crate) regions: Vec<String>,
    /// The same from a file: BED (0-based, if it is called .bed), or chromosome and position or
    /// positions, 1-based, with tabs between.
    #[arg(short = 'R', long, value_name = "FILE")]
    pub(crate) regions_file: Vec<PathBuf>,
    /// Only these samples, with commas between.
    #[arg(short = 's', long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) samples: Vec<String>,
    /// The same from a file, one a line.
    #[arg(short = 'S', long, value_name = "FILE")]
    pub(crate) samples_file: Option<PathBuf>,
    /// Only variants for which this holds: MAF, AF, AC, AN (of the chosen samples' genotypes) or
    /// TYPE, <, <=, =, !=, >=, > and a value, with && between.
    #[arg(short = 'i', long, value_name = "EXPRESSION")]
    pub(crate) include: Option<String>,
    /// Only records of at least so many alleles, the reference one counted.
    #[arg(short = 'm', long, value_name = "N")]
    pub(crate) min_alleles: Option<usize>,
    /// Only records of at most so many alleles.
    #[arg(short = 'M', long, value_name = "N")]
    pub(crate) max_alleles: Option<usize>,
    /// Only these kinds: snps, indels, other.
    #[arg(short = 'v', long, value_delimiter = ',', value_name = "KIND")]
    pub(crate) types: Vec<VariantKind>,
    /// What becomes of a record with several alternate alleles: it is skipped, or split into one
    /// site for each (where the others count as 0).
    #[arg(long, value_enum, default_value_t = Multiallelic::Skip, value_name = "HOW")]
    pub(crate) multiallelic: Multiallelic,
    /// What becomes of a record with alleles that were not called: it is skipped, or they are taken
    /// as the reference allele.
    #[arg(long, value_enum, default_value_t = Missing::Skip, value_name = "HOW")]
    pub(crate) missing: Missing,
    /// Fail where a genotype is not phased, instead of making a table of single variants.
    #[arg(long)]
    pub(crate) require_phase: bool,
}

/// A way with several alternate alleles.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Multiallelic {
    /// Left out.
    Skip,
    /// One site each.
    Split,
}

/// A way with alleles that were not called.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Missing {
    /// The record is left out.
    Skip,
    /// The reference allele.
    Ref,
}

/// `tobari search check`
#[derive(Args)]
pub struct CheckArguments {
    /// The table.
    #[arg(value_name = "TSI")]
    pub(crate) table: PathBuf,
    #[command(flatten)]
    pub(crate) question: QuestionArguments,
    /// How many alleles from the first on match, instead of how often all do.
    #[arg(long)]
    pub(crate) longest: bool,
    #[command(flatten)]
    pub(crate) format: FormatArguments,
}

impl Verbs for SearchVerb {
    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Index(arguments) => index::run(arguments),
            Self::Check(arguments) => check::run(arguments),
            Self::Keygen(arguments) => secret::keygen(arguments),
            Self::Token(arguments) => secret::token(arguments),
            Self::Query(arguments) => query::run(arguments),
            Self::Beacon(arguments) => beacon::run(arguments),
        }
    }
}

/// Reads a table.
fn read_table(path: &Path) -> Result<Table, Failure> {
    let bytes = tobari_host::files::read_bounded(path, MAX_TABLE_BYTES)?;
    decode_table(&bytes).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}
