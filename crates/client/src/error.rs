//! Errors of connections and requests to a server, for all kinds of requests.

use std::{io, path::PathBuf, time::Duration};

/// Why a connection or a request failed.
///
/// A job with a WebSocket protocol has its own error type, which contains this one. So all variants
/// are public.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A URL that does not name a server.
    #[error("server URL {url:?}: {what}")]
    Url {
        /// The URL.
        url: String,
        /// The problem.
        what: &'static str,
    },
    /// The connection failed.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// Host and port.
        server: String,
        /// The system's error.
        source: io::Error,
    },
    /// A certificate file that cannot be used.
    #[error("{}: {what}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// TLS with this server failed, or its certificate is not trusted.
    #[error("TLS with {server}: {what}")]
    Tls {
        /// Host and port.
        server: String,
        /// The failed part.
        what: String,
    },
    /// The server is too slow.
    #[error("no {what} from the server within {waited:?}")]
    Timeout {
        /// The awaited event.
        what: &'static str,
        /// The time waited.
        waited: Duration,
    },
    /// A request without an answer.
    #[error("request to the server: {0}")]
    Http(#[from] hyper::Error),
    /// A reply that is too long, or was cut off.
    #[error("reply of the server: expected at most {most} bytes and an end, found more or none")]
    Reply {
        /// The largest allowed number of bytes.
        most: usize,
    },
}
