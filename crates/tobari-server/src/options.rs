//! How a server is started.

use std::{net::SocketAddr, path::PathBuf};

use tobari_core::params::SecurityFloor;
use tobari_node::{HostName, Tls, WebOrigin, WebServer};

use crate::{infer::InferOptions, limits::ServerLimits, search::SearchOptions, sense::SenseOptions};

/// What [`crate::bind`] needs to know. There is no field for a key of a call: the server has no use for one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Which curves a room may use.
    pub floor: SecurityFloor,
    /// Whether and how connections are encrypted.
    pub tls: Tls,
    /// Does a proxy stand in front, by whose word clients are told apart (`X-Forwarded-For`)?
    pub behind_proxy: bool,
    /// What the server puts up with.
    pub limits: ServerLimits,
    /// Tables to search, if there are any.
    pub search: Option<SearchOptions>,
    /// Models to run, if there are any.
    pub infer: Option<InferOptions>,
    /// Devices' frames, if they are taken.
    pub sense: Option<SenseOptions>,
    /// A folder with the files of the page, instead of those that are built in.
    pub web: Option<PathBuf>,
    /// Names besides this machine's own that requests may give as their host. Where the server
    /// listens on a loopback address, others are refused; elsewhere they are if any is named. A
    /// member's proof that it has a link is taken for these names and for the host of its request.
    pub host_names: Vec<HostName>,
    /// Origins whose pages may call, the server's own among them if its page is to be used; any may where none is named.
    pub web_origins: Vec<WebOrigin>,
    /// Servers whose live rooms this server's page may call, besides its own.
    pub web_servers: Vec<WebServer>,
    /// What joins this server with others in live rooms.
    #[cfg(feature = "cascade")]
    pub call_bus: Option<crate::CallBus>,
}

impl ServerOptions {
    /// A server at `addr` without TLS, for curves of standard security, with the usual limits.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            floor: SecurityFloor::Standard,
            tls: Tls::None,
            behind_proxy: false,
            limits: ServerLimits::default(),
            search: None,
            infer: None,
            sense: None,
            web: None,
            host_names: Vec::new(),
            web_origins: Vec::new(),
            web_servers: Vec::new(),
            #[cfg(feature = "cascade")]
            call_bus: None,
        }
    }
}
