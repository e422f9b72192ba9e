//! The arguments of `tobari serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tobari_call_edge::command::ServeCallArguments;
use tobari_command::address::parse_address;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_infer_edge::command::ServeInferArguments;
use tobari_node::{HostName, Offer, Page, WebOrigin, WebServer};
use tobari_search_edge::command::ServeSearchArguments;
use tobari_sense_edge::command::ServeSenseArguments;

/// `tobari serve`
#[derive(Args)]
#[command(next_help_heading = ADDRESS)]
pub(crate) struct ServeArguments {
    /// Read settings from this TOML file. The table `[serve]` takes the options of this command by
    /// their long names. The command line and the environment (`TOBARI_SERVE_ADDR` for `--addr`)
    /// take precedence.
    #[arg(long, value_name = "FILE", help_heading = GENERAL)]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this address. The host may be a name, such as localhost. Port 0 takes a free port.
    #[arg(long, default_value = "127.0.0.1:7610", value_parser = parse_address, value_name = "HOST:PORT")]
    pub(crate) addr: SocketAddr,
    /// Use this certificate chain for TLS (PEM).
    #[arg(long, requires = "tls_key", conflicts_with = "tls_self_signed", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Use this private key for the certificate (PEM). The key protects the connection, not a call.
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Make a TLS certificate now, and print its fingerprint for clients (`--tls-fingerprint`).
    #[arg(long)]
    pub(crate) tls_self_signed: bool,
    #[cfg(feature = "acme")]
    #[command(flatten)]
    pub(crate) acme: AcmeArguments,
    /// Tell clients apart by the header `X-Forwarded-For`, which a reverse proxy in front writes
    /// (examples: deploy/nginx, deploy/caddy). Without such a proxy anybody could forge the header.
    #[arg(long, help_heading = ADDRESS)]
    pub(crate) behind_proxy: bool,
    /// Also answer requests whose `Host` is one of these names, without a port; separate names by
    /// commas. On a loopback address, the server otherwise answers only localhost, 127.0.0.0/8 and
    /// [::1]. On other addresses the server answers every name, unless names are given. Name the
    /// host of your links: then a server in between cannot reuse a proof of membership.
    #[arg(long, value_delimiter = ',', value_name = "NAME", help_heading = ADDRESS)]
    pub(crate) host_name: Vec<HostName>,
    /// Accept calls only from web pages of these origins (`https://call.example`); separate origins
    /// by commas. Add this server's own origin if its page may call, too. Without the option, any
    /// page may call. Programs always may.
    #[arg(long, value_delimiter = ',', value_name = "ORIGIN", help_heading = PAGES)]
    pub(crate) web_origin: Vec<WebOrigin>,
    /// Allow this server's page to call rooms on these servers (`https://call.example`); separate
    /// servers by commas. People who distrust the server of a room then take the page from here:
    /// `https://HERE/call/#LINK`.
    #[arg(long, value_delimiter = ',', value_name = "SERVER", help_heading = PAGES)]
    pub(crate) web_server: Vec<WebServer>,
    /// Serve the files of this folder as the page of calls, instead of the built-in files
    /// (`tobari info` prints their hash).
    #[arg(long, value_name = "DIR", help_heading = PAGES)]
    pub(crate) web: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: SharedArguments,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
    #[command(flatten)]
    pub(crate) call: ServeCallArguments,
    #[command(flatten)]
    pub(crate) search: ServeSearchArguments,
    #[command(flatten)]
    pub(crate) infer: ServeInferArguments,
    #[command(flatten)]
    pub(crate) sense: ServeSenseArguments,
    /// Serve every job on sample data: a simulated panel, a table of squares, the built-in digits,
    /// and fleets for visitors. Data of your own replaces the sample of its job. The server keeps
    /// nothing.
    #[arg(long = "try", help_heading = GENERAL)]
    pub(crate) trial: bool,
    /// After a stop signal, let live rooms continue for this many seconds, without new members.
    #[arg(long, default_value_t = 0, value_name = "SECONDS", help_heading = GENERAL)]
    pub(crate) drain: u32,
    /// Print one JSON object a line on standard output.
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
    /// Stop when standard input ends: for a server started by another program.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// Headings of the help of `tobari serve`; each job adds its own.
const GENERAL: &str = "General";
const ADDRESS: &str = "Address and TLS";
const PAGES: &str = "Web pages";
const LIMITS: &str = "Limits for every job";
const CLIENTS: &str = "Clients of search, inference and devices";

/// Limits that hold for every job.
#[derive(Args)]
#[command(next_help_heading = LIMITS)]
pub(crate) struct LimitArguments {
    /// Accept at most this many connections at once.
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Accept at most this many connections at once from one client. Connections from this machine
    /// do not count. [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) max_client_connections: Option<usize>,
    /// Give one client at most this percentage of anything scarce: places for keys and fleets,
    /// sessions, turns at the cores, memory, connections. The more clients hold something, the less
    /// each may hold, so that another client finds room. A client is an address or the holder of a
    /// token. 100 means no limit. [default: 50]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "PERCENT")]
    pub(crate) client_share: Option<u8>,
    /// Count IPv4 addresses that share this many leading bits as one client. [default: 32]
    #[arg(long, value_parser = clap::value_parser!(u8).range(8..=32), value_name = "BITS")]
    pub(crate) client_prefix_v4: Option<u8>,
    /// Count IPv6 addresses that share this many leading bits as one client. [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u8).range(16..=128), value_name = "BITS")]
    pub(crate) client_prefix_v6: Option<u8>,
    /// Use at most this much memory for requests in progress and for answers in transit.
    /// [default: 1GiB]
    #[arg(long, value_parser = tobari_command::size::parse_bytes, value_name = "BYTES")]
    pub(crate) max_body_memory: Option<u64>,
}

/// Options that several jobs share.
#[derive(Args)]
#[command(next_help_heading = CLIENTS)]
pub(crate) struct SharedArguments {
    /// Answer only clients with a token from this file. Each line has a client's name and the hash
    /// of its token; `tobari search token` makes both. Without the option, only this machine may
    /// ask.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Answer every client that reaches the address, without tokens. Budgets then protect nothing,
    /// because clients choose their own names.
    #[arg(long, conflicts_with = "tokens")]
    pub(super) open: bool,
    /// Keep clients' public keys and used budgets in this folder (search and inference). Without
    /// the option, a restart forgets both.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Reserve a client's place for this long after its last question (search and inference). A
    /// client that needs a place then replaces the one that has been idle for longest.
    /// [default: 3600]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "SECONDS")]
    client_idle: Option<u32>,
}

impl SharedArguments {
    fn options(&self) -> SharedOptions {
        SharedOptions {
            tokens: self.tokens.clone(),
            open: self.open,
            data: self.data.clone(),
            idle: self.client_idle.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }

    /// Whether an option is given that is useless without a job.
    pub(super) fn are_given(&self) -> bool {
        self.tokens.is_some() || self.open || self.data.is_some()
    }
}

/// The body for each job, in the order in which the server reports the jobs. This is the only list
/// of the jobs that a server can have.
macro_rules! each_job {
    ($arguments:ident, $job:ident => $body:expr) => {
        each_job!(@ $arguments, $job => $body; call search infer sense)
    };
    (@ $arguments:ident, $job:ident => $body:expr; $($field:ident)*) => {
        [$({
            let $job = &$arguments.$field;
            $body
        }),*]
    };
}

/// The page of a job with these options.
fn page_of<J: ServerJob>(_: &J) -> Option<Page> {
    J::PAGE
}

impl ServeArguments {
    /// The jobs that the server offers.
    pub(super) fn offers(&self) -> Result<Vec<Box<dyn Offer>>, Failure> {
        let shared = self.shared.options();
        let offers = each_job!(self, job => job.offer(&shared)?);
        Ok(offers.into_iter().flatten().collect())
    }

    /// Checks the options of every job.
    pub(super) fn check_jobs(&self) -> Result<(), Failure> {
        let shared = self.shared.options();
        each_job!(self, job => job.check(&shared)).into_iter().collect()
    }

    /// The pages of all jobs.
    pub(super) fn pages(&self) -> Vec<Page> {
        each_job!(self, job => page_of(job)).into_iter().flatten().collect()
    }

    /// Files without which a job could not start.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let mut files: Vec<&Path> = each_job!(self, job => job.files()).into_iter().flatten().collect();
        files.extend(self.shared.tokens.as_deref());
        files
    }

    /// Whether another job is requested besides calls, which a server always has.
    pub(super) fn wants_more_than_calls(&self) -> bool {
        each_job!(self, job => job.is_wanted()).into_iter().filter(|wanted| *wanted).count() > 1
    }

    /// Sets the options for made-up data of each job that is not requested.
    pub(super) fn make_up(&mut self, folder: &Path) -> Result<(), Failure> {
        self.call.make_up(folder)?;
        self.search.make_up(folder)?;
        self.infer.make_up(folder)?;
        self.sense.make_up(folder)
    }
}

/// Certificates of an authority.
#[cfg(feature = "acme")]
#[derive(Args)]
#[command(next_help_heading = "Certificates by ACME")]
pub(crate) struct AcmeArguments {
    /// Order a TLS certificate for this name, and renew it, by ACME (Let's Encrypt, or another
    /// authority). The internet must reach the server at this name and port 443. Repeat the option
    /// for each name.
    #[arg(long, value_name = "NAME", requires = "tls_acme_folder", conflicts_with_all = ["tls_cert", "tls_self_signed"])]
    pub(crate) tls_acme: Vec<String>,
    /// Keep the account and the certificates in this folder (mode 0700).
    #[arg(long, value_name = "DIR", requires = "tls_acme")]
    pub(crate) tls_acme_folder: Option<PathBuf>,
    /// Receive the authority's warnings at this e-mail address.
    #[arg(long, value_name = "ADDRESS", requires = "tls_acme")]
    pub(crate) tls_acme_contact: Option<String>,
    /// Use the authority with this directory.
    #[arg(long, value_name = "URL", default_value = tobari_node::LETS_ENCRYPT)]
    pub(crate) tls_acme_directory: String,
    /// Trust the authority's own server by this certificate (PEM), if the system does not know it.
    #[arg(long, value_name = "FILE", requires = "tls_acme")]
    pub(crate) tls_acme_ca: Option<PathBuf>,
}

#[cfg(feature = "acme")]
impl AcmeArguments {
    /// The options for the server; none if no certificate is requested.
    pub(crate) fn options(&self) -> Option<tobari_node::AcmeOptions> {
        let folder = self.tls_acme_folder.clone().filter(|_| !self.tls_acme.is_empty())?;
        let mut options = tobari_node::AcmeOptions::new(self.tls_acme.clone(), folder);
        options.contact.clone_from(&self.tls_acme_contact);
        options.directory.clone_from(&self.tls_acme_directory);
        options.authority.clone_from(&self.tls_acme_ca);
        Some(options)
    }
}
