//! The command line of those who ask, and of whoever lets them.

use super::answers::FormatArguments;
use super::question::QuestionArguments;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_client::Fingerprint;

/// `tobari search keygen`
#[derive(Args)]
pub struct KeygenArguments {
    /// The secret key file to write: all keys of a client follow from it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari search token`
#[derive(Args)]
pub struct TokenArguments {
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
    /// A server that serves tables, e.g. https://host:7610. Given again, all are asked, and counts
    /// are added up.
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
    /// Trust the server whose certificate has this SHA-256 fingerprint, and no other; given again,
    /// one for each server.
    #[arg(long = "tls-fingerprint", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprints: Vec<Fingerprint>,
    /// Trust servers vouched for by the certificates in this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The table, by its label or the beginning of its name; not needed where there is one.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Places of a query, the true one among them. They hide one place, for one question to one
    /// server: more questions, or the same one after the table has changed, show the place. 1: the
    /// place is public.
    #[arg(long, default_value_t = 1, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) decoys: u32,
    /// Ask only where tables are served with labels, which hold against clients that do not follow
    /// the protocol: an evaluation goes before each question. Without this, each server is asked in
    /// its own mode.
    #[arg(long)]
    pub(crate) malicious: bool,
}

/// `tobari search query`
#[derive(Args)]
pub struct QueryArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    #[command(flatten)]
    pub(crate) question: QuestionArguments,
    /// Hide the place among all places of the table, or ask a large table of keys: for numbers of
    /// sites that the server has arranged (`tobari serve --hidden`). Takes longer, and some 6 MB
    /// once.
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
pub struct BeaconArguments {
    #[command(flatten)]
    pub(crate) remote: RemoteArguments,
    /// Hide each place among all places of the table: of servers that have arranged single sites
    /// (`tobari serve --hidden 1`). Takes longer, and some 6 MB once.
    #[arg(long)]
    pub(crate) hidden: bool,
    /// The assembly of the tables, as GRCh38: requests that name another one are refused. Without
    /// it, requests that name any are refused, as a table does not say its own.
    #[arg(long, value_name = "NAME")]
    pub(crate) assembly: Option<String>,
    /// Where to listen, on this machine only: who asks here asks as this client. Port 0 takes a
    /// free one.
    #[arg(long, default_value = "127.0.0.1:7611", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
