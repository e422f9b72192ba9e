//! The limits of a house: what it accepts of all clients and of each one, whatever they come for.

use std::time::Duration;

/// What the house puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; those beyond are closed unheard.
    pub connections: usize,
    /// Connections at once from one client: an address, or the first 64 bits of one of version 6.
    /// This machine's own are not counted.
    pub client_connections: usize,
    /// Bits of an address that are one client, of version 4 and of version 6.
    pub client_prefix: (u8, u8),
    /// Percent of anything that one client alone may hold: places, turns, bytes. The more clients
    /// hold something, the less each may; 100 is no limit.
    pub client_share: u8,
    /// Bytes of memory for bodies that are being read or worked at, and for answers that were not
    /// taken yet.
    pub body_bytes: u64,
    /// Time for a TLS handshake, and for the head of a request.
    pub handshake: Duration,
    /// Time to take the next bytes of an answer.
    pub write: Duration,
    /// Time for connections to end when the house closes.
    pub grace: Duration,
    /// Time for which jobs go on when the house closes, with everybody told; nobody is let in
    /// meanwhile.
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
            handshake: Duration::from_secs(10),
            write: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            drain: Duration::ZERO,
        }
    }
}
