//! The limits of a server, for all clients together and for each one, whatever the job.

use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once. The server closes further ones without reading from them.
    pub connections: usize,
    /// Connections at once from one client: see `client_prefix`. Connections from this machine's
    /// own addresses are not counted.
    pub client_connections: usize,
    /// Bits of an address that identify a client, for IPv4 and for IPv6.
    pub client_prefix: (u8, u8),
    /// Percent of places, turns or bytes that one client alone may hold. The more clients hold
    /// some, the less each may hold; 100 means no limit.
    pub client_share: u8,
    /// Bytes of memory for bodies that are being read or processed, and for answers that clients
    /// have not read yet.
    pub body_bytes: u64,
    /// Time for a TLS handshake, and for the head of a request.
    pub handshake: Duration,
    /// Time for a client to read the next bytes of an answer.
    pub write: Duration,
    /// Time for connections to end when the server closes.
    pub grace: Duration,
    /// Time for which jobs continue when the server closes. Jobs know that it is closing, and no
    /// client can join meanwhile.
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
