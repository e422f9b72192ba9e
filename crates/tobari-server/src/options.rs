//! How a server is started.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tobari_apps::call::{live::LiveLimits, server::Limits};
use tobari_core::params::SecurityFloor;

use crate::{
    hosts::HostName,
    infer::InferOptions,
    origins::{WebOrigin, WebServer},
    search::SearchOptions,
    sense::SenseOptions,
};

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

/// Whether and how connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not at all: for one machine, a trusted network, or behind a proxy that does it.
    None,
    /// With a certificate chain and its key from PEM files.
    Files {
        /// The chain, the server's own certificate first.
        cert: PathBuf,
        /// The private key: PKCS #8, PKCS #1 or SEC 1.
        key: PathBuf,
    },
    /// With a certificate made now, whose key is kept in memory only: clients pin its fingerprint.
    SelfSigned,
    /// With certificates that an authority signs and renews, by ACME.
    #[cfg(feature = "acme")]
    Acme(crate::AcmeOptions),
}

/// What the server puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; those beyond are closed unheard.
    pub connections: usize,
    /// Connections at once from one client: an address, or the first 64 bits of one of version 6. This machine's own are not counted.
    pub client_connections: usize,
    /// Bits of an address that are one client, of version 4 and of version 6.
    pub client_prefix: (u8, u8),
    /// Percent of anything that one client alone may hold: places, turns, bytes. The more clients
    /// hold something, the less each may; 100 is no limit.
    pub client_share: u8,
    /// Bytes of memory for bodies that are being read or worked at, and for answers that were not
    /// taken yet.
    pub body_bytes: u64,
    /// Rooms at once, of each kind.
    pub rooms: usize,
    /// Rooms at once that one client has opened.
    pub client_rooms: usize,
    /// What each room puts up with.
    pub room: Limits,
    /// What each live room puts up with.
    pub live: LiveLimits,
    /// Time for a TLS handshake, and for the head of a request.
    pub handshake: Duration,
    /// Time from the start of a WebSocket to its join.
    pub join: Duration,
    /// Time to take one message from the server, or the next bytes of an answer.
    pub write: Duration,
    /// Time without anything from a member, not even the answer to a ping, of which there are three in this time.
    /// More than three minutes would make clients give up on a quiet server.
    pub silence: Duration,
    /// Time for members to leave when the server closes, and for a removed member to read why.
    pub grace: Duration,
    /// Time for which live rooms go on when the server closes, with everybody told; nobody is let in meanwhile.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            client_connections: 1024,
            client_prefix: (32, 64),
            client_share: 50,
            body_bytes: 1 << 30,
            rooms: 64,
            client_rooms: 16,
            room: Limits::default(),
            live: LiveLimits::default(),
            handshake: Duration::from_secs(10),
            join: Duration::from_secs(10),
            write: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            grace: Duration::from_secs(2),
            drain: Duration::ZERO,
        }
    }
}
