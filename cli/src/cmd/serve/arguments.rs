//! The arguments of `tobari serve`.

use crate::cmd::infer::ServeInferArguments;
use crate::cmd::search::ServeSearchArguments;
use crate::cmd::sense::ServeSenseArguments;
use crate::options::FloorArguments;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_server::{HostName, WebOrigin, WebServer};

/// `tobari serve`
#[derive(Args)]
pub(crate) struct ServeArguments {
    /// A file of settings (TOML): under `[serve]` the options of this command by their long names. What stands on the command line or in the
    /// environment (`TOBARI_SERVE_ADDR` for `--addr`) goes before it.
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
    #[cfg(feature = "cascade")]
    #[command(flatten)]
    pub(crate) bus: BusArguments,
    /// A proxy stands in front and writes `X-Forwarded-For`, by which clients are told apart (deploy/nginx, deploy/caddy). Without one anybody could write it.
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// Connections at once.
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<usize>,
    /// Connections at once from one address, or from one network of 64 bits; this machine's own are not counted. [default: 1024]
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
    /// With --search or --infer: how long a client's keys have their place after they were used.
    /// Then the place is given away if another client needs it, the least recently used first.
    /// [default: 3600]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "SECONDS")]
    pub(crate) client_idle: Option<u32>,
    /// Memory for bodies of requests that are read or worked at, and for answers that were not
    /// taken yet. [default: 1GiB]
    #[arg(long, value_parser = tobari_command::size::parse_bytes, value_name = "BYTES")]
    pub(crate) max_body_memory: Option<u64>,
    /// Rooms at once.
    #[arg(long, value_name = "N")]
    pub(crate) max_rooms: Option<usize>,
    /// Rooms at once that one address has opened. [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) max_client_rooms: Option<usize>,
    /// Members of a live room, those in its lobby too. [default: 4096]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub(crate) max_members: Option<u16>,
    /// The most speakers that a link may ask for. [default: 4096]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub(crate) max_speakers: Option<u16>,
    /// Serve the files of this folder as the page of live rooms, instead of those that are built in (`tobari info` has their hash).
    #[arg(long, value_name = "DIR")]
    pub(crate) web: Option<PathBuf>,
    /// Answer requests whose `Host` is one of these names, too (`call.example`, without a port;
    /// separated by commas): the names by which a proxy's clients reach it. On a loopback address,
    /// only requests for localhost, 127.0.0.0/8, [::1] and these names are answered; elsewhere all
    /// are, unless names are given. Name the host of your links: a proof of membership that a
    /// server in between passes on is for another name, and refused.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) host_name: Vec<HostName>,
    /// Let pages of these origins call and no others (`https://call.example`; separated by commas), this server's own only if it is one of them. Any page
    /// may without it: the page can be hosted elsewhere. Programs always may.
    #[arg(long, value_delimiter = ',', value_name = "ORIGIN")]
    pub(crate) web_origin: Vec<WebOrigin>,
    /// Let this server's page call live rooms on these servers, too (`https://call.example`; separated by commas): whoever does not want the page from the
    /// server that adds up the voices opens `https://HERE/call/#LINK`.
    #[arg(long, value_delimiter = ',', value_name = "SERVER")]
    pub(crate) web_server: Vec<WebServer>,
    /// When told to stop, let live rooms go on for so many seconds, and nobody in.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) drain: u32,
    /// Serve all jobs on made-up data, to look at: a simulated panel, a table of squares, the built-in digits, and fleets of visitors. Where something of its own is
    /// served as well, that is taken instead. Nothing is kept.
    #[arg(long = "try")]
    pub(crate) trial: bool,
    #[command(flatten)]
    pub(crate) search: ServeSearchArguments,
    #[command(flatten)]
    pub(crate) infer: ServeInferArguments,
    #[command(flatten)]
    pub(crate) sense: ServeSenseArguments,
    #[command(flatten)]
    pub(crate) floor: FloorArguments,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when standard input ends: for a server started by another program.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// Servers that hold live rooms together.
#[cfg(feature = "cascade")]
#[derive(Args)]
pub(crate) struct BusArguments {
    /// Hold live rooms together with all servers at this NATS server, as nats://host:4222 or tls://host:4222; a word behind it (nats://host:4222/team)
    /// sets apart those who share a broker.
    #[arg(long, value_name = "URL")]
    pub(crate) call_bus: Option<tobari_server::CallBus>,
    /// A file with a user's name and a password for the broker, with a colon between.
    #[arg(long, requires = "call_bus", value_name = "FILE")]
    pub(crate) call_bus_login: Option<PathBuf>,
    /// How the broker lists this server among its clients. [default: tobari]
    #[arg(long, requires = "call_bus", value_name = "NAME")]
    pub(crate) call_bus_name: Option<String>,
}

#[cfg(feature = "cascade")]
impl BusArguments {
    /// What the server needs of it, if anything was asked for.
    pub(crate) fn options(&self) -> Result<Option<tobari_server::CallBus>, tobari_command::output::Failure> {
        let Some(mut bus) = self.call_bus.clone() else { return Ok(None) };
        if let Some(path) = &self.call_bus_login {
            bus.login = Some(crate::cmd::sense::login(path)?);
        }
        if let Some(name) = &self.call_bus_name {
            bus.name.clone_from(name);
        }
        Ok(Some(bus))
    }
}

/// Certificates of an authority.
#[cfg(feature = "acme")]
#[derive(Args)]
pub(crate) struct AcmeArguments {
    /// TLS with a certificate of Let's Encrypt, or of another authority, for this name of the server, ordered and renewed by ACME: it must be reached at
    /// this name and port 443 from outside. Once for each name.
    #[arg(long, value_name = "NAME", requires = "tls_acme_folder", conflicts_with_all = ["tls_cert", "tls_self_signed"])]
    pub(crate) tls_acme: Vec<String>,
    /// Where account and certificates are kept: a folder of mode 0700.
    #[arg(long, value_name = "DIR", requires = "tls_acme")]
    pub(crate) tls_acme_folder: Option<PathBuf>,
    /// An e-mail address for the authority's warnings.
    #[arg(long, value_name = "ADDRESS", requires = "tls_acme")]
    pub(crate) tls_acme_contact: Option<String>,
    /// The authority's directory.
    #[arg(long, value_name = "URL", default_value = tobari_server::LETS_ENCRYPT)]
    pub(crate) tls_acme_directory: String,
    /// Who signs the authority's own certificate, if the system does not know (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_acme")]
    pub(crate) tls_acme_ca: Option<PathBuf>,
}

#[cfg(feature = "acme")]
impl AcmeArguments {
    /// What the server needs of it, if anything was asked for.
    pub(crate) fn options(&self) -> Option<tobari_server::AcmeOptions> {
        let folder = self.tls_acme_folder.clone().filter(|_| !self.tls_acme.is_empty())?;
        let mut options = tobari_server::AcmeOptions::new(self.tls_acme.clone(), folder);
        options.contact.clone_from(&self.tls_acme_contact);
        options.directory.clone_from(&self.tls_acme_directory);
        options.authority.clone_from(&self.tls_acme_ca);
        Some(options)
    }
}
