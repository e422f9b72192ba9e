//! A server by its URL, and the connection to it.

use std::{sync::Arc, time::Duration};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::tungstenite::{http::Uri, protocol::WebSocketConfig};

use crate::{ClientError, ClientTls, client_config};

/// Time for the connection, the TLS handshake and the first answer of a protocol, in total.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time without any message from the server on a WebSocket. A server pings more often than this.
pub const SILENCE: Duration = Duration::from_secs(60);
/// Bytes that a WebSocket reads at once, on either side. It clears this many bytes before each
/// read, and packets of most modes are smaller.
pub const READ_BYTES: usize = 8 << 10;

/// Bytes in both directions, encrypted or not.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// The settings of a WebSocket for messages of at most `most` bytes.
pub fn web_socket_config(most: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most)).read_buffer_size(READ_BYTES)
}

/// The server of a URL.
#[derive(Debug)]
pub struct Target {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
}

impl Target {
    /// The server at this URL, for a client with this trust.
    ///
    /// # Errors
    /// [`ClientError::Url`] for a URL that names no server, or for an unencrypted one together with
    /// a certificate to trust: such a client does not expect an unauthenticated server.
    pub fn trusting(url: &str, tls: &ClientTls) -> Result<Self, ClientError> {
        let target = Self::parse(url)?;
        if !target.tls && *tls != ClientTls::System {
            return Err(ClientError::Url {
                url: url.to_owned(),
                what: "expected https or wss beside a certificate to trust",
            });
        }
        Ok(target)
    }

    fn parse(url: &str) -> Result<Self, ClientError> {
        let fault = |what| ClientError::Url { url: url.to_owned(), what };
        let uri: Uri = url.parse().map_err(|_| fault("not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(fault("expected http, https, ws or wss")),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or(fault("expected a host, without a user"))?;
        if uri.query().is_some() {
            return Err(fault("expected no query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match (authority.port_u16(), tls) {
            (Some(port), _) => port,
            (None, false) => 80,
            (None, true) => 443,
        };
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, authority: authority.to_string(), path })
    }

    /// Host and port as in the URL.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The prefix of a job's path, for a server behind a proxy; without a slash at its end.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Connects, with TLS if the URL asks for it. There is no time limit: see [`CONNECT_TIMEOUT`].
    ///
    /// # Errors
    /// [`ClientError`] if the server cannot be reached, or its certificate is not trusted.
    pub async fn open(&self, tls: &ClientTls) -> Result<Box<dyn Transport>, ClientError> {
        let server = || format!("{}:{}", self.host, self.port);
        let fault = |source| ClientError::Connect { server: server(), source };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        if !self.tls {
            return Ok(Box::new(stream));
        }
        let config = client_config(tls, &server())?;
        let stream = open_tls(&self.host, stream, config).await;
        Ok(Box::new(stream.map_err(|what| ClientError::Tls { server: server(), what })?))
    }
}

/// Begins TLS on a connection with the server of this name or address.
///
/// # Errors
/// A text with the remedy, for a name that is none and for a failed handshake.
pub async fn open_tls(host: &str, stream: TcpStream, config: ClientConfig) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.map_err(|error| with_remedy(&error.to_string()))
}

/// Adds a remedy to the error for an untrusted certificate, which rustls calls an unknown issuer.
fn with_remedy(error: &str) -> String {
    const REMEDY: &str = "no authority that this machine trusts has signed the server's certificate. If the server \
                          made it (`tobari serve --tls-self-signed`), give --tls-fingerprint with the fingerprint that \
                          the server printed. Else give --tls-ca with the certificate of its authority";
    let unknown = error.contains("UnknownIssuer") || error.contains("CaUsedAsEndEntity");
    if unknown { REMEDY.to_owned() } else { error.to_owned() }
}
