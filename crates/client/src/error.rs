//! What can go wrong on the way to a server and back, whatever is asked.

use std::{io, path::PathBuf, time::Duration};

/// Why there is no connection, or no reply.
///
/// A job whose protocol runs over a WebSocket has an error of its own and takes these up in it, so
/// every case can be named from outside.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A URL that does not name a server.
    #[error("server URL {url:?}: {what}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No connection.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// What the system says.
        source: io::Error,
    },
    /// A certificate file that cannot be used.
    #[error("{}: {what}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No TLS with this server, or none that can be trusted.
    #[error("TLS with {server}: {what}")]
    Tls {
        /// Host and port.
        server: String,
        /// What failed.
        what: String,
    },
    /// The server is too slow.
    #[error("no {what} from the server within {waited:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited: Duration,
    },
    /// A request that was not answered.
    #[error("request to the server: {0}")]
    Http(#[from] hyper::Error),
    /// A reply that is too long, or ended too soon.
    #[error("reply of the server: expected at most {most} bytes and an end, found more or none")]
    Reply {
        /// How many there may be.
        most: usize,
    },
}
