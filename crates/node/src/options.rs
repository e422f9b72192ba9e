//! How a house is started.

use std::{net::SocketAddr, path::PathBuf};

use crate::{
    hosts::HostName,
    job::{Offer, Page},
    limits::ServerLimits,
    origins::{WebOrigin, WebServer},
    tls::Tls,
    web::Bundle,
};

/// What [`crate::bind`] needs to know. There is no field for a key: no job's server has a use for
/// one.
#[non_exhaustive]
pub struct ServerOptions {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Whether and how connections are encrypted.
    pub tls: Tls,
    /// Does a proxy stand in front, by whose word clients are told apart (`X-Forwarded-For`)?
    pub behind_proxy: bool,
    /// What the house puts up with.
    pub limits: ServerLimits,
    /// What it serves, in the order in which it is told of.
    pub jobs: Vec<Box<dyn Offer>>,
    /// Pages of jobs that are shown whether this house serves the job or not. Those of the jobs
    /// that it serves need not be named.
    pub pages: Vec<Page>,
    /// The files of the pages, which are built into the program. Without any, no page is shown.
    pub bundle: Bundle,
    /// A folder with files of the same names, instead of those.
    pub web: Option<PathBuf>,
    /// Names besides this machine's own that requests may give as their host. Where the server
    /// listens on a loopback address, others are refused; elsewhere they are if any is named.
    pub host_names: Vec<HostName>,
    /// Origins whose pages may call, the server's own among them if its page is to be used; any may
    /// where none is named.
    pub web_origins: Vec<WebOrigin>,
    /// Servers that a page may connect to, besides its own, where its job says so
    /// ([`Page::calling`]).
    pub web_servers: Vec<WebServer>,
}

impl ServerOptions {
    /// A house at `addr` without TLS and without a job, with the usual limits.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            tls: Tls::None,
            behind_proxy: false,
            limits: ServerLimits::default(),
            jobs: Vec::new(),
            pages: Vec::new(),
            bundle: Bundle::default(),
            web: None,
            host_names: Vec::new(),
            web_origins: Vec::new(),
            web_servers: Vec::new(),
        }
    }
}
