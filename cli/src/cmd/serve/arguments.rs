//! The arguments of `tobari serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tobari_call_edge::command::ServeCallArguments;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_infer_edge::command::ServeInferArguments;
use tobari_node::{HostName, Offer, Page, WebOrigin, WebServer};
use tobari_search_edge::command::ServeSearchArguments;
use tobari_sense_edge::command::ServeSenseArguments;

/// `tobari serve`
#[derive(Args)]
pub(crate) struct ServeArguments {
    /// A file of settings (TOML): under `[serve]` the options of this command by their long names.
    /// What stands on the command line or in the environment (`TOBARI_SERVE_ADDR` for `--addr`)
    /// goes before it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:7610")]
    pub(crate) addr: SocketAddr,
    /// The server's certificate chain (PEM).
    #[arg(long, requires = "tls_key", conflicts_with = "tls_self_signed", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM): of the TLS connection, not of any call.
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// TLS with a certificate made now, whose fingerprint is printed for clients to pin.
    #[arg(long)]
    pub(crate) tls_self_signed: bool,
    #[cfg(feature = "acme")]
    #[command(flatten)]
    pub(crate) acme: AcmeArguments,
    /// A proxy stands in front and writes `X-Forwarded-For`, by which clients are told apart
    /// (deploy/nginx, deploy/caddy). Without one anybody could write it.
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// Connections at once.
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Connections at once from one address, or from one network of 64 bits; this machine's own are
    /// not counted. [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) max_client_connections: Option<usize>,
    /// The most that one client may hold of anything scarce, in percent: places for keys and
    /// fleets, sessions, turns at the cores, memory, connections. The more clients hold something,
    /// the less each may, so that there is room for another. A client is an address, or who has a
    /// token. 100 is no limit. [default: 50]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "PERCENT")]
    pub(crate) client_share: Option<u8>,
    /// Bits of an IPv4 address that are one client. [default: 32]
    #[arg(long, value_parser = clap::value_parser!(u8).range(8..=32), value_name = "BITS")]
    pub(crate) client_prefix_v4: Option<u8>,
    /// Bits of an IPv6 address that are one client. [default: 64]
    #[arg(long, value_parser = clap::value_parser!(u8).range(16..=128), value_name = "BITS")]
    pub(crate) client_prefix_v6: Option<u8>,
    /// Memory for bodies of requests that are read or worked at, and for answers that were not
    /// taken yet. [default: 1GiB]
    #[arg(long, value_parser = tobari_command::size::parse_bytes, value_name = "BYTES")]
    pub(crate) max_body_memory: Option<u64>,
    /// Serve the files of this folder as the page of live rooms, instead of those that are built in
    /// (`tobari info` has their hash).
    #[arg(long, value_name = "DIR")]
    pub(crate) web: Option<PathBuf>,
    /// Answer requests whose `Host` is one of these names, too (`call.example`, without a port;
    /// separated by commas): the names by which a proxy's clients reach it. On a loopback address,
    /// only requests for localhost, 127.0.0.0/8, [::1] and these names are answered; elsewhere all
    /// are, unless names are given. Name the host of your links: a proof of membership that a
    /// server in between passes on is for another name, and refused.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) host_name: Vec<HostName>,
    /// Let pages of these origins call and no others (`https://call.example`; separated by commas),
    /// this server's own only if it is one of them. Any page may without it: the page can be hosted
    /// elsewhere. Programs always may.
    #[arg(long, value_delimiter = ',', value_name = "ORIGIN")]
    pub(crate) web_origin: Vec<WebOrigin>,
    /// Let this server's page call live rooms on these servers, too (`https://call.example`;
    /// separated by commas): whoever does not want the page from the server that adds up the voices
    /// opens `https://HERE/call/#LINK`.
    #[arg(long, value_delimiter = ',', value_name = "SERVER")]
    pub(crate) web_server: Vec<WebServer>,
    /// When told to stop, let live rooms go on for so many seconds, and nobody in.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) drain: u32,
    /// Serve all jobs on made-up data, to look at: a simulated panel, a table of squares, the
    /// built-in digits, and fleets of visitors. Where something of its own is served as well, that
    /// is taken instead. Nothing is kept.
    #[arg(long = "try")]
    pub(crate) trial: bool,
    #[command(flatten)]
    pub(crate) shared: SharedArguments,
    #[command(flatten)]
    pub(crate) call: ServeCallArguments,
    #[command(flatten)]
    pub(crate) search: ServeSearchArguments,
    #[command(flatten)]
    pub(crate) infer: ServeInferArguments,
    #[command(flatten)]
    pub(crate) sense: ServeSenseArguments,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when standard input ends: for a server started by another program.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// Options that several jobs go by.
#[derive(Args)]
pub(crate) struct SharedArguments {
    /// With --search, --infer or --sense: who may ask, a line for each client with its name and the
    /// hash of its token (`tobari search token`). Without it, anybody on this machine.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// With --search, --infer or --sense: let anybody ask who reaches the address, without tokens.
    /// Budgets then hold nobody, as clients name themselves.
    #[arg(long, conflicts_with = "tokens")]
    pub(super) open: bool,
    /// With --search or --infer: where clients' public keys and what they have used are kept;
    /// without it, a new start forgets them.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --search or --infer: how long a client's keys have their place after they were used.
    /// Then the place is given away if another client needs it, the least recently used first.
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

    /// Whether there is an option that has no use without a job.
    pub(super) fn are_given(&self) -> bool {
        self.tokens.is_some() || self.open || self.data.is_some()
    }
}

/// The body for each job, in the order in which the house tells of them. This is the one list of
/// the jobs that a server can have.
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
    /// What the server offers.
    pub(super) fn offers(&self) -> Result<Vec<Box<dyn Offer>>, Failure> {
        let shared = self.shared.options();
        let offers = each_job!(self, job => job.offer(&shared)?);
        Ok(offers.into_iter().flatten().collect())
    }

    /// Whether the options of the jobs can be offered.
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

    /// Whether a job is asked for beside calls, which a server always has.
    pub(super) fn wants_more_than_calls(&self) -> bool {
        each_job!(self, job => job.is_wanted()).into_iter().filter(|wanted| *wanted).count() > 1
    }

    /// Options for made-up data, for each job that is not asked for.
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
pub(crate) struct AcmeArguments {
    /// TLS with a certificate of Let's Encrypt, or of another authority, for this name of the
    /// server, ordered and renewed by ACME: it must be reached at this name and port 443 from
    /// outside. Once for each name.
    #[arg(long, value_name = "NAME", requires = "tls_acme_folder", conflicts_with_all = ["tls_cert", "tls_self_signed"])]
    pub(crate) tls_acme: Vec<String>,
    /// Where account and certificates are kept: a folder of mode 0700.
    #[arg(long, value_name = "DIR", requires = "tls_acme")]
    pub(crate) tls_acme_folder: Option<PathBuf>,
    /// An e-mail address for the authority's warnings.
    #[arg(long, value_name = "ADDRESS", requires = "tls_acme")]
    pub(crate) tls_acme_contact: Option<String>,
    /// The authority's directory.
    #[arg(long, value_name = "URL", default_value = tobari_node::LETS_ENCRYPT)]
    pub(crate) tls_acme_directory: String,
    /// Who signs the authority's own certificate, if the system does not know (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_acme")]
    pub(crate) tls_acme_ca: Option<PathBuf>,
}

#[cfg(feature = "acme")]
impl AcmeArguments {
    /// What the server needs of it, if anything was asked for.
    pub(crate) fn options(&self) -> Option<tobari_node::AcmeOptions> {
        let folder = self.tls_acme_folder.clone().filter(|_| !self.tls_acme.is_empty())?;
        let mut options = tobari_node::AcmeOptions::new(self.tls_acme.clone(), folder);
        options.contact.clone_from(&self.tls_acme_contact);
        options.directory.clone_from(&self.tls_acme_directory);
        options.authority.clone_from(&self.tls_acme_ca);
        Some(options)
    }
}
