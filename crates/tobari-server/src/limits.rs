//! The limits of a server: what it accepts of all clients and of each one.

use std::time::Duration;

use tobari_apps::call::{live::LiveLimits, server::Limits};

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

impl ServerLimits {
    /// Those that are no room's.
    pub(crate) fn of_house(&self) -> tobari_node::ServerLimits {
        tobari_node::ServerLimits {
            connections: self.connections,
            client_connections: self.client_connections,
            client_prefix: self.client_prefix,
            client_share: self.client_share,
            body_bytes: self.body_bytes,
            handshake: self.handshake,
            write: self.write,
            grace: self.grace,
            drain: self.drain,
        }
    }
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
