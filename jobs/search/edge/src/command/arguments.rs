//! The arguments of the commands that ask questions, and of the commands that make keys and tokens.

use super::answers::FormatArguments;
use super::question::QuestionArguments;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_client::Fingerprint;
use tobari_command::address::parse_address;

/// `tobari search keygen`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search keygen -o search.key
    tobari search keygen -o second.key --json")]
pub struct KeygenArguments {
    /// Write the secret key to this file. All keys of a client are derived from the secret key.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari search token`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search token alice
    tobari search token bob --json")]
pub struct TokenArguments {
    /// The client's name in budgets and in the audit log.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The servers, and the client's keys and tokens.
#[derive(Args)]
#[command(next_help_heading = "Server and client")]
pub(crate) struct RemoteArguments {
    /// Ask this server, such as https://host:7610. Repeat the option to ask several servers and to
    /// add up their counts.
    #[arg(long = "server", required = true, value_name = "URL")]
    pub(crate) servers: Vec<String>,
    /// Use this secret key file (`tobari search keygen`).
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Read the client's token from this file. Repeat the option for each server.
    #[arg(long = "token-file", value_name = "FILE", conflicts_with = "tokens")]
    pub(crate) token_files: Vec<PathBuf>,
    /// Use this token. Other users of this machine may see the command line: prefer --token-file.
    /// Repeat the option for each server.
    #[arg(long = "token", value_name = "TOKEN", env = "TOBARI_TOKEN", hide_env_values = true)]
    pub(crate) tokens: Vec<String>,
    /// Trust only the server whose certificate has this SHA-256 fingerprint. Repeat the option for
    /// each server.
    #[arg(long = "tls-fingerprint", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprints: Vec<Fingerprint>,
    /// Trust only servers whose certificates are signed by an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Ask this table: its label, or the beginning of its name. A server with one table needs no
    /// name.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Ask only servers in mode --malicious, which withstand clients that break the protocol. Each
    /// question then needs one more round. Without the option, each server's own mode is used.
    #[arg(long)]
    pub(crate) malicious: bool,
}

/// What the servers may see of a place.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Place")]
pub(crate) struct PlaceArguments {
    /// Hide the place among all places of the table. The server must offer the number of sites
    /// (`tobari serve --hidden`). Without the option the place hides in the whole table where the
    /// server offers that, and otherwise in its cell: the server then sees a chromosome and a
    /// million bases.
    #[arg(long, conflicts_with = "public")]
    pub(crate) hidden: bool,
    /// Show the place to the servers. Questions are faster then, and take no registration of some
    /// 6 MB. --longest needs the option.
    #[arg(long)]
    pub(crate) public: bool,
    /// Refuse questions whose place would hide among fewer than this many: in its cell, the places
    /// that all tables that are asked have in common; otherwise those of the whole table.
    #[arg(long, default_value_t = 100, conflicts_with = "public", value_name = "N")]
    pub(crate) least_places: usize,
}

/// `tobari search query`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search query --server http://127.0.0.1:7610 --key search.key --table simulated --at chr20:6000 --alleles 110000
    tobari search query --server http://127.0.0.1:7610 --key search.key --table 'simulated: squares' --key-value 144")]
pub struct QueryArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    #[command(flatten)]
    pub(crate) question: QuestionArguments,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// Ask whether the pattern occurs, and not how often.
    #[arg(long, help_heading = "Question")]
    pub(crate) boolean: bool,
    /// Ask how many alleles match, counted from the first, instead of how often all of them match.
    #[arg(long, help_heading = "Question")]
    pub(crate) longest: bool,
    /// Send this many questions at once.
    #[arg(long, help_heading = "Question", default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parallel: u16,
    #[command(flatten)]
    pub(crate) format: FormatArguments,
}

/// `tobari search beacon`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari search beacon --server http://127.0.0.1:7610 --key search.key --table simulated
    tobari search beacon --server http://127.0.0.1:7610 --key search.key --table simulated --assembly GRCh38 --listen localhost:0")]
pub struct BeaconArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// Declare the assembly of tables that do not record theirs, such as GRCh38. A table of another
    /// assembly is rejected at the start, and later requests for another one, too. If the assembly
    /// is unknown, the Beacon rejects every request that names one, and all ranges.
    #[arg(long, value_name = "NAME", help_heading = "Beacon")]
    pub(crate) assembly: Option<String>,
    /// Send at most this many questions to a server for one request. Every listed variant of a
    /// range takes a question, and questions without meaning fill the number up to a power of two.
    #[arg(
        long,
        default_value_t = 128,
        value_name = "N",
        help_heading = "Beacon",
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub(crate) max_questions: u16,
    /// Listen on this address of this machine. Every program that reaches the address asks in the
    /// name of this client. Port 0 takes a free port.
    #[arg(
        long,
        default_value = "127.0.0.1:7611",
        value_parser = parse_address,
        value_name = "HOST:PORT",
        help_heading = "Beacon"
    )]
    pub(crate) listen: SocketAddr,
    /// Print one JSON object a line on standard output.
    #[arg(long, help_heading = "Beacon")]
    pub(crate) json: bool,
}
