//! The client's half of a connection to a server: addresses, trust, TLS, and requests over HTTP.
//!
//! `http` and `ws` name the same unencrypted transport, `https` and `wss` the same TLS one. A
//! [`ClientTls`] says which certificates a TLS connection trusts. This crate moves bytes and
//! depends on no job. The messages of a job, and their WebSocket, belong to the job, which gets a
//! [`Transport`] from [`Target::open`].
//!
//! ```no_run
//! use std::time::Duration;
//! use tobari_client::{ClientTls, HttpClient, HttpRequest};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let mut connection = HttpClient::new("https://call.example", &ClientTls::System)?.connection();
//! let reply = connection
//!     .send(HttpRequest {
//!         body: None,
//!         path: "/readyz".to_owned(),
//!         headers: Vec::new(),
//!         most: 1 << 10,
//!         patience: Duration::from_secs(5),
//!     })
//!     .await?;
//! assert_eq!(reply.status, 200);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod fingerprint;
mod http;
mod target;
mod trust;

pub use error::ClientError;
pub use fingerprint::{Fingerprint, NotAFingerprint};
pub use http::{HttpClient, HttpConnection, HttpReply, HttpRequest};
pub use target::{CONNECT_TIMEOUT, READ_BYTES, SILENCE, Target, Transport, open_tls, web_socket_config};
pub use trust::{ClientIdentity, ClientTls, client_config, mutual_config};
