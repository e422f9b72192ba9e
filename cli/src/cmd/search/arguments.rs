//! The command line of those who ask, and of whoever lets them.

use super::answers::FormatArguments;
use super::question::QuestionArguments;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_apps::search::hidden::numbers::Kind;
use tobari_command::size::parse_bytes;
use tobari_server::Fingerprint;

/// `tobari search keygen`
#[derive(Args)]
pub(crate) struct KeygenArguments {
    /// The secret key file to write: all keys of a client follow from it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari search token`
#[derive(Args)]
pub(crate) struct TokenArguments {
    /// The client's name, which budgets and the audit log go by.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which servers, and as whom.
#[derive(Args)]
pub(crate) struct RemoteArguments {
    /// A server that serves tables, e.g. https://host:7610. Given again, all are asked, and counts are added up.
    #[arg(long = "server", required = true, value_name = "URL")]
    pub(crate) servers: Vec<String>,
    /// The secret key file (`tobari search keygen`).
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// A file with the token of this client; given again, one for each server.
    #[arg(long = "token-file", value_name = "FILE", conflicts_with = "tokens")]
    pub(crate) token_files: Vec<PathBuf>,
    /// The token itself, which others on this machine may see; given again, one for each server.
    #[arg(long = "token", value_name = "TOKEN", env = "TOBARI_TOKEN", hide_env_values = true)]
    pub(crate) tokens: Vec<String>,
    /// Trust the server whose certificate has this SHA-256 fingerprint, and no other; given again, one for each server.
    #[arg(long = "tls-fingerprint", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprints: Vec<Fingerprint>,
    /// Trust servers vouched for by the certificates in this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The table, by its label or the beginning of its name; not needed where there is one.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Places of a query, the true one among them. They hide one place, for one question to one server:
    /// more questions, or the same one after the table has changed, show the place. 1: the place is public.
    #[arg(long, default_value_t = 1, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) decoys: u32,
    /// Ask only where tables are served with labels, which hold against clients that do not follow the protocol: an evaluation goes before each question.
    /// Without this, each server is asked in its own mode.
    #[arg(long)]
    pub(crate) malicious: bool,
}

/// `tobari search query`
#[derive(Args)]
pub(crate) struct QueryArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    #[command(flatten)]
    pub(crate) question: QuestionArguments,
    /// Hide the place among all places of the table, or ask a large table of keys: for numbers of sites that the server has arranged (`tobari serve --hidden`). Takes longer, and some
    /// 6 MB once.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Only whether it occurs, not how often.
    #[arg(long)]
    pub(crate) boolean: bool,
    /// How many alleles from the first on match, instead of how often all do.
    #[arg(long)]
    pub(crate) longest: bool,
    /// Questions that are under way at once.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parallel: u16,
    #[command(flatten)]
    pub(crate) format: FormatArguments,
}

/// `tobari search beacon`
#[derive(Args)]
pub(crate) struct BeaconArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    /// Hide each place among all places of the table: of servers that have arranged single sites
    /// (`tobari serve --hidden 1`). Takes longer, and some 6 MB once.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// The assembly of the tables, as GRCh38: requests that name another one are refused. Without it,
    /// requests that name any are refused, as a table does not say its own.
    #[arg(long, value_name = "NAME")]
    pub(crate) assembly: Option<String>,
    /// Where to listen, on this machine only: who asks here asks as this client. Port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7611", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tables to serve.
#[derive(Args)]
#[command(next_help_heading = "Search")]
pub(crate) struct ServeSearchArguments {
    /// Serve a table (`tobari search index`); given again, each. A file that changes is read again while the server runs.
    #[arg(long = "search", value_name = "TSI")]
    pub(crate) tables: Vec<PathBuf>,
    /// With --search, --infer or --sense: who may ask, a line for each client with its name and the hash of its token (`tobari search token`). Without it, anybody on this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// With --search, --infer or --sense: let anybody ask who reaches the address, without tokens. Budgets then hold nobody, as clients name themselves.
    #[arg(long, conflicts_with = "tokens")]
    pub(crate) open: bool,
    /// Serve all tables with labels, for clients that need not follow the protocol: they have each pattern or key evaluated before they ask, which is what budgets
    /// count then, over all of a table and not by region. A table of keys takes some 40 us a key to load, and at most 2,097,152 keys.
    #[arg(long, requires = "tables")]
    pub(crate) malicious: bool,
    /// Labels that one question to a server with --malicious may need: sites of a longest match, places and patterns of the fullest window multiply, some 40 us each.
    #[arg(long, requires = "malicious", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_labels: Option<u32>,
    /// Tests for membership of each client: a question is one, a longest match as many as it has sites.
    #[arg(long, requires = "tables", value_name = "N")]
    pub(crate) budget: Option<u64>,
    /// Bases of a region, counted from the beginning of its chromosome. [default: 100000]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) region_bases: Option<u32>,
    /// Tests for membership of each client in one region, of all tables together: a panel that is
    /// indexed again gives none back. [default: 1000]
    #[arg(long, requires = "tables", value_name = "N")]
    pub(crate) region_budget: Option<u64>,
    /// Blocks of answers under one key of a client, which then makes a new one.
    #[arg(long, requires = "tables", value_name = "N")]
    pub(crate) key_uses: Option<u32>,
    /// With --search or --infer: where clients' public keys and what they have used are kept; without it, a new start forgets them.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Append a JSON line for each query: who, when, which table, what kind of question; never where or what.
    #[arg(long, requires = "tables", value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Let clients hide the place among all: numbers of sites, with commas between, for each of which the panels are arranged in memory; and `keys` for tables of keys, of which
    /// those that are too large to be compared whole always are. Budgets of regions cannot hold such questions, as nobody knows the place.
    #[arg(long, conflicts_with = "malicious", requires = "tables", value_delimiter = ',', value_name = "SITES|keys")]
    pub(crate) hidden: Vec<Kind>,
    /// Bytes of memory for these, of all tables together. Where ten times as much is there as they take at least, questions take less time. [default: 2GiB]
    #[arg(long, requires = "tables", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) hidden_memory: Option<u64>,
    /// A folder on a fast disk for what has no room in that memory: it is read through with each question.
    #[arg(long, requires = "tables", value_name = "FOLDER")]
    pub(crate) hidden_tier: Option<PathBuf>,
    /// Clients whose keys and accounts are held at once. [default: 1000]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_clients: Option<u32>,
    /// Bytes of all clients' keys together, in the data folder if there is one. [default: 4GiB]
    #[arg(long, requires = "tables", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) max_key_bytes: Option<u64>,
    /// Queries in the server at once; others are told to come again. [default: 64]
    #[arg(long, requires = "tables", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_queries: Option<u32>,
}
