//! The options with which a server starts.

use std::{net::SocketAddr, path::PathBuf};

use crate::{
    hosts::HostName,
    job::{Offer, Page},
    limits::ServerLimits,
    origins::{WebOrigin, WebServer},
    tls::Tls,
    web::Bundle,
};

/// The options of [`crate::bind`]. There is no field for a decryption key: no job's server uses
/// one.
#[non_exhaustive]
pub struct ServerOptions {
    /// The address to listen on; port 0 selects a free port.
    pub addr: SocketAddr,
    /// Whether and how connections are encrypted.
    pub tls: Tls,
    /// Whether a proxy in front of the server names the clients (`X-Forwarded-For`).
    pub behind_proxy: bool,
    /// The limits of the server.
    pub limits: ServerLimits,
    /// The jobs, in the order of `/metrics` and of the startup notes.
    pub jobs: Vec<Box<dyn Offer>>,
    /// Pages that are shown even if this server does not serve their jobs. Pages of served jobs
    /// need not be listed.
    pub pages: Vec<Page>,
    /// The files of the pages, built into the program. Without files the server shows no page.
    pub bundle: Bundle,
    /// A folder with files of the same names, to replace the built-in ones.
    pub web: Option<PathBuf>,
    /// Host names that requests may use besides this machine's own. On a loopback address the
    /// server refuses all others; elsewhere it does so only if this list is not empty.
    pub host_names: Vec<HostName>,
    /// Origins whose pages may call the server. If the list is empty, every page may. A list must
    /// include the server's own origin if its page is used.
    pub web_origins: Vec<WebOrigin>,
    /// Servers that the files in [`Page::calling`] may connect to, besides their own.
    pub web_servers: Vec<WebServer>,
}

impl ServerOptions {
    /// A server at `addr` without TLS and without a job, with the default limits.
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
