//! How a server is started.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tobari_apps::call::{live::LiveLimits, server::Limits};
use tobari_core::params::SecurityFloor;

use crate::{infer::InferOptions, search::SearchOptions, sense::SenseOptions};

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
    /// What the server puts up with.
    pub limits: ServerLimits,
    /// Tables to search, if there are any.
    pub search: Option<SearchOptions>,
    /// Models to run, if there are any.
    pub infer: Option<InferOptions>,
    /// Devices' frames, if they are taken.
    pub sense: Option<SenseOptions>,
}

impl ServerOptions {
    /// A server at `addr` without TLS, for curves of standard security, with the usual limits.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            floor: SecurityFloor::Standard,
            tls: Tls::None,
            limits: ServerLimits::default(),
            search: None,
            infer: None,
            sense: None,
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
}

/// What the server puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; those beyond are closed unheard.
    pub connections: usize,
    /// Rooms at once.
    pub rooms: usize,
    /// What each room puts up with.
    pub room: Limits,
    /// What each live room puts up with.
    pub live: LiveLimits,
    /// Time for a TLS handshake, and for the head of a request.
    pub handshake: Duration,
    /// Time from the start of a WebSocket to its join.
    pub join: Duration,
    /// Time to take one message from the server.
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
            rooms: 64,
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
