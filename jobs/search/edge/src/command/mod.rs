//! `tobari search`: tables, and questions to them.

mod answers;
mod arguments;
mod assembly;
mod beacon;
mod check;
mod index;
mod place;
mod query;
mod question;
mod remote;
mod secret;
mod serve;
mod spill;

pub use remote::{HiddenQuestion, Remote, Wanted};
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

/// The commands of `tobari search`.
#[derive(Subcommand)]
pub enum SearchVerb {
    /// Make a table from a VCF or BCF file, or from any list of keys.
    Index(IndexArguments),
    /// Ask a table on this machine, without encryption: the owner's way to check answers.
    Check(CheckArguments),
    /// Make a client's secret key.
    Keygen(arguments::KeygenArguments),
    /// Make a client's token, and its line for the server's token file.
    Token(arguments::TokenArguments),
    /// Ask a server, which sees neither alleles nor keys. --hidden hides the place, too.
    Query(Box<arguments::QueryArguments>),
    /// Run a Beacon (version 2) on this machine that turns each request into an encrypted question.
    Beacon(arguments::BeaconArguments),
}

/// The heading of options about the table that is written.
const TABLE: &str = "Table";

/// `tobari search index`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search index panel.vcf -o panel.tsi --label panel
    tobari search index codes.tsv -o codes.tsi --table --label codes")]
pub struct IndexArguments {
    /// The input: a .vcf, .vcf.gz or .bcf file with genotypes, or without samples and with AC and
    /// AN in INFO. With --table: lines of KEY, or of KEY, a tab and COUNT. `-` is standard input.
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// Write the table to this file.
    #[arg(short, long, value_name = "TSI")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) filters: FilterArguments,
    /// Treat patterns and keys with fewer occurrences as absent. [default: 1; with --append: as
    /// before]
    #[arg(long, help_heading = TABLE, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_count: Option<u32>,
    /// Append the sites of the input to the existing output file. Both must have the same number of
    /// haplotypes. More haplotypes or more keys need a new table.
    #[arg(long, help_heading = TABLE, conflicts_with = "table")]
    pub(crate) append: bool,
    /// Declare that the appended sites of the table's last chromosome have the same phasing as the
    /// table. Without the option, heterozygous sites of that chromosome are rejected.
    #[arg(long, help_heading = TABLE, requires = "append")]
    pub(crate) same_phasing: bool,
    /// Record that positions are of this assembly, such as GRCh38. Without the option, the header
    /// of the file tells the assembly (##reference, or the names, lengths and assemblies of
    /// ##contig), and otherwise it stays unknown. A Beacon compares requests with the assembly.
    #[arg(long, help_heading = TABLE, conflicts_with = "table", value_name = "NAME")]
    pub(crate) assembly: Option<String>,
    /// Read keys and counts instead of a VCF.
    #[arg(long, help_heading = TABLE)]
    pub(crate) table: bool,
    /// Expect this character between a key and its count, such as `:` for lines of HASH:COUNT.
    /// [default: a tab]
    #[arg(long, help_heading = TABLE, requires = "table", value_name = "CHAR", value_parser = separator)]
    pub(crate) separator: Option<u8>,
    /// Skip the first line, which names the columns.
    #[arg(long, help_heading = TABLE, requires = "table")]
    pub(crate) header: bool,
    /// Give the table this label. Every client sees the label.
    #[arg(long, help_heading = TABLE, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) label: String,
    /// Print one JSON object on standard output.
    #[arg(long, help_heading = TABLE)]
    pub(crate) json: bool,
}

/// A separator of keys and counts: one character of ASCII.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !byte.is_ascii_digit() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err("expected one character that is no digit, such as :".to_owned()),
    }
}

/// Filters of records and samples, named as in bcftools.
#[derive(Args)]
#[command(next_help_heading = "Filters of VCF and BCF files")]
pub struct FilterArguments {
    /// Keep only records in these regions, such as chr20:1000000-2000000. Separate regions by
    /// commas, or repeat the option.
    #[arg(short = 'r', long, value_name = "REGION")]
    pub(crate) regions: Vec<String>,
    /// Keep only records in the regions of this file: BED (0-based, if the name ends in .bed), or
    /// chromosome and positions, 1-based, separated by tabs.
    #[arg(short = 'R', long, value_name = "FILE")]
    pub(crate) regions_file: Vec<PathBuf>,
    /// Keep only these samples. Separate names by commas.
    #[arg(short = 's', long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) samples: Vec<String>,
    /// Keep only the samples of this file, one a line.
    #[arg(short = 'S', long, value_name = "FILE")]
    pub(crate) samples_file: Option<PathBuf>,
    /// Keep only variants that satisfy this expression: MAF, AF, AC, AN (of the kept samples) or
    /// TYPE; <, <=, =, !=, >= or >; and a value. Join several by &&.
    #[arg(short = 'i', long, value_name = "EXPRESSION")]
    pub(crate) include: Option<String>,
    /// Keep only records with at least this many alleles, the reference allele included.
    #[arg(short = 'm', long, value_name = "N")]
    pub(crate) min_alleles: Option<usize>,
    /// Keep only records with at most this many alleles.
    #[arg(short = 'M', long, value_name = "N")]
    pub(crate) max_alleles: Option<usize>,
    /// Keep only these kinds of variants: snps, indels, other.
    #[arg(short = 'v', long, value_delimiter = ',', value_name = "KIND")]
    pub(crate) types: Vec<VariantKind>,
    /// Treat records with several alternate alleles in this way.
    #[arg(long, value_enum, default_value_t = Multiallelic::Skip, value_name = "HOW")]
    pub(crate) multiallelic: Multiallelic,
    /// Treat records with missing genotypes in this way.
    #[arg(long, value_enum, default_value_t = Missing::Skip, value_name = "HOW")]
    pub(crate) missing: Missing,
    /// Fail at the first unphased genotype, instead of making a table of single variants.
    #[arg(long, conflicts_with = "unphased")]
    pub(crate) require_phase: bool,
    /// Treat records without phase, or of another phase set (PS), in this way. Without the option,
    /// a file without any phase becomes a table of single variants, and such a record after phased
    /// ones is an error.
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) unphased: Option<Unphased>,
}

/// Treatment of records that cannot join the haplotypes of the records before.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Unphased {
    /// Leave the record out.
    Skip,
    /// Make a table of single variants of all records.
    Variants,
}

/// Treatment of several alternate alleles.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Multiallelic {
    /// Leave the record out.
    Skip,
    /// Make one site for each alternate allele. The other alternate alleles count as 0.
    Split,
}

/// Treatment of missing genotypes.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Missing {
    /// Leave the record out.
    Skip,
    /// Assume the reference allele.
    Ref,
}

/// `tobari search check`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search check panel.tsi --at chr20:1000 --alleles 01
    tobari search check codes.tsi --key-value code-7 --json")]
pub struct CheckArguments {
    /// The table.
    #[arg(value_name = "TSI")]
    pub(crate) table: PathBuf,
    #[command(flatten)]
    pub(crate) question: QuestionArguments,
    /// Ask how many alleles match, counted from the first, instead of how often all of them match.
    #[arg(long, help_heading = "Question")]
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
