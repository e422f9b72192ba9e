//! The client's half of a connection: moves bytes between a member and the blind server, and holds
//! no key.
//!
//! `http` and `ws` name the same unencrypted transport, `https` and `wss` the same TLS one. A
//! [`ClientTls`] says which certificates a TLS connection trusts. [`tobari_call::client`] encrypts
//! packets and decrypts sums.
//!
//! ```
//! use tobari_call::messages::{ClientMessage, Join, Pace};
//! use tobari_curve::Curve;
//! use tobari_call_edge::{CallOptions, connect::{Incoming, connect}};
//! use tobari_client::ClientTls;
//! use tobari_node::{ServerOptions, Tls, bind};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let mut options = ServerOptions::new(([127, 0, 0, 1], 0).into());
//! options.tls = Tls::SelfSigned;
//! options.jobs.push(Box::new(CallOptions::default()));
//! let server = bind(options).await?;
//! let (url, fingerprint) = (server.url(), server.certificate_fingerprint().ok_or("no certificate")?);
//! tokio::spawn(server.run(std::future::pending()));
//!
//! let join = Join::new(Pace::Lockstep { members: 1 }, Curve::Secp256k1);
//! let mut connection = connect(&url, &"monday".parse()?, &join, &ClientTls::Pinned(fingerprint)).await?;
//! connection.send(&ClientMessage::End {}).await?; // nothing to say
//! assert_eq!(connection.receive().await?, Incoming::Ended { ticks: 0 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod live;

use std::time::Duration;

use axum::body::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tobari_call::messages::{ClientMessage, Code, Join, MessageError, RoomName, ServerMessage, Welcome};
use tobari_client::{CONNECT_TIMEOUT, ClientError, SILENCE, Target, Transport, web_socket_config};
use tobari_curve::wire::MAX_MEMBERS;
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message},
};

use crate::{
    door::{CLOSING, REFUSAL},
    room_task::MAX_MESSAGE_BYTES,
};

pub use live::{LiveInbound, LiveIncoming, LiveOutbound, connect_live};
pub use tobari_client::{ClientTls, HttpClient, HttpConnection, HttpReply, HttpRequest};

/// The longest message from the server: a sum has the points of a packet, and two sets of members.
const MAX_SUM_BYTES: usize = MAX_MESSAGE_BYTES + MAX_MEMBERS / 4;

/// Time with nothing but pings. It is longer than a server waits for the members of a room to
/// gather, or for a speaker to continue.
const PATIENCE: Duration = Duration::from_secs(600);

/// A member's connection.
pub struct Connection {
    welcome: Welcome,
    outbound: Outbound,
    inbound: Inbound,
}

/// The sending half of a [`Connection`].
pub struct Outbound {
    sink: SplitSink<WebSocketStream<Box<dyn Transport>>, Message>,
}

/// The receiving half of a [`Connection`]. Pings are answered only while it is read.
pub struct Inbound {
    stream: SplitStream<WebSocketStream<Box<dyn Transport>>>,
}

/// A message from the server after its welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// An encrypted sum, for [`tobari_call::client::Listener`].
    Sum(Bytes),
    /// The end of a tick without a sum: this member does not listen, or there was nothing to hear.
    Closed {
        /// The tick.
        tick: u32,
    },
    /// The end of the room, and the last message.
    Ended {
        /// Number of ticks of the room.
        ticks: u32,
    },
}

/// A message from the server.
enum Arrival {
    Sum(Bytes),
    Message(ServerMessage),
}

/// Connects to the server at `url` and joins a room.
///
/// # Errors
/// [`ConnectError`] if the server cannot be reached or trusted, or does not admit the member.
pub async fn connect(url: &str, room: &RoomName, join: &Join, tls: &ClientTls) -> Result<Connection, ConnectError> {
    let waited = CONNECT_TIMEOUT;
    let target = Target::trusting(url, tls)?;
    timeout(waited, join_room(&target, room, join, tls))
        .await
        .map_err(|_| ConnectError::Client(ClientError::Timeout { what: "welcome", waited }))?
}

async fn join_room(target: &Target, room: &RoomName, join: &Join, tls: &ClientTls) -> Result<Connection, ConnectError> {
    let transport = target.open(tls).await?;
    let request = format!("ws://{}{}/call/v1/{room}", target.authority(), target.path());
    let (socket, _) = client_async_with_config(request, transport, Some(web_socket_config(MAX_SUM_BYTES))).await?;
    let (sink, stream) = socket.split();
    let (mut outbound, mut inbound) = (Outbound { sink }, Inbound { stream });
    outbound.send(&ClientMessage::Join(join.clone())).await?;
    match inbound.message().await? {
        Arrival::Message(ServerMessage::Welcome(welcome)) => Ok(Connection { welcome, outbound, inbound }),
        Arrival::Message(ServerMessage::Refused { code, reason }) => Err(ConnectError::Refused { code, reason }),
        _ => Err(ConnectError::Unexpected),
    }
}

impl Connection {
    /// The server's answer to the join.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Sends a packet. See [`Outbound::send_packet`].
    ///
    /// # Errors
    /// [`ConnectError`] if the connection is gone; [`Connection::receive`] may say why.
    pub async fn send_packet(&mut self, packet: Vec<u8>) -> Result<(), ConnectError> {
        self.outbound.send_packet(packet).await
    }

    /// Sends a control message.
    ///
    /// # Errors
    /// As [`Connection::send_packet`].
    pub async fn send(&mut self, message: &ClientMessage) -> Result<(), ConnectError> {
        self.outbound.send(message).await
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// See [`Inbound::receive`].
    pub async fn receive(&mut self) -> Result<Incoming, ConnectError> {
        self.inbound.receive().await
    }

    /// The two halves, for a member that sends and receives at the same time.
    pub fn split(self) -> (Outbound, Inbound) {
        (self.outbound, self.inbound)
    }
}

impl Outbound {
    /// Sends a packet made by [`tobari_call::client::Speaker`], and waits until the system has
    /// taken it.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection is gone; [`Inbound::receive`] may say why.
    pub async fn send_packet(&mut self, packet: Vec<u8>) -> Result<(), ConnectError> {
        self.sink.send(Message::binary(packet)).await.map_err(ConnectError::from)
    }

    /// Sends a control message.
    ///
    /// # Errors
    /// As [`Outbound::send_packet`].
    pub async fn send(&mut self, message: &ClientMessage) -> Result<(), ConnectError> {
        self.sink.send(Message::text(message.to_text())).await.map_err(ConnectError::from)
    }

    /// Leaves without waiting for the room to end.
    ///
    /// # Errors
    /// As [`Outbound::send_packet`].
    pub async fn close(&mut self) -> Result<(), ConnectError> {
        self.sink.close().await.map_err(ConnectError::from)
    }
}

impl Inbound {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`ConnectError::Removed`] if the server removed this member; other variants if the
    /// connection is gone, the server is silent, or a message is not of this protocol.
    pub async fn receive(&mut self) -> Result<Incoming, ConnectError> {
        match self.message().await? {
            Arrival::Sum(sum) => Ok(Incoming::Sum(sum)),
            Arrival::Message(ServerMessage::Closed { tick }) => Ok(Incoming::Closed { tick }),
            Arrival::Message(ServerMessage::Ended { ticks }) => Ok(Incoming::Ended { ticks }),
            Arrival::Message(ServerMessage::Removed { code, reason }) => Err(ConnectError::Removed { code, reason }),
            Arrival::Message(ServerMessage::Welcome(_) | ServerMessage::Refused { .. }) => {
                Err(ConnectError::Unexpected)
            }
        }
    }

    /// The next message that is not a ping.
    async fn message(&mut self) -> Result<Arrival, ConnectError> {
        let tired = |_| ConnectError::Client(ClientError::Timeout { what: "message", waited: PATIENCE });
        timeout(PATIENCE, self.message_among_pings()).await.map_err(tired)?
    }

    async fn message_among_pings(&mut self) -> Result<Arrival, ConnectError> {
        loop {
            let silent = |_| ConnectError::Client(ClientError::Timeout { what: "sign of life", waited: SILENCE });
            match timeout(SILENCE, self.stream.next()).await.map_err(silent)? {
                Some(Ok(Message::Binary(sum))) => return Ok(Arrival::Sum(sum)),
                Some(Ok(Message::Text(text))) => return Ok(Arrival::Message(ServerMessage::parse(&text)?)),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err(ConnectError::Closed),
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }
}

/// Why a member is not connected, or not any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection to the server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server does not admit the member.
    #[error("refused by the server ({code}): {reason}")]
    Refused {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
    /// The server does not support this version of the protocol.
    #[error(
        "{server} does not know protocol {version} of live rooms: update the server, or use the client that fits it"
    )]
    Older {
        /// Host and port.
        server: String,
        /// The version of this client.
        version: u32,
    },
    /// The server is shutting down and admits no member.
    #[error("{CLOSING}: try again in {seconds} s")]
    Closing {
        /// Seconds until the server has ended. A later attempt reaches its successor, if there is
        /// one.
        seconds: u64,
    },
    /// The server, or a proxy in front of it, answers with something other than a WebSocket.
    #[error("expected a WebSocket of the server, found the answer {status}{text}")]
    Answered {
        /// The HTTP status.
        status: u16,
        /// The first line of the answer's body, after a colon; empty without a body.
        text: String,
    },
    /// The server removed the member.
    #[error("removed by the server ({code}): {reason}")]
    Removed {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
    /// The connection ended without a reason.
    #[error("the connection ended before the room did")]
    Closed,
    /// The WebSocket failed.
    #[error("connection to the server: {0}")]
    WebSocket(Box<tungstenite::Error>),
    /// A message that is not of this protocol.
    #[error("message from the server: {0}")]
    Message(#[from] MessageError),
    /// A message of this protocol that is not valid here.
    #[error("message from the server: not expected at this point")]
    Unexpected,
}

/// The longest text of a refusal that is shown.
const MAX_TOLD: usize = 300;

impl ConnectError {
    /// The error for an answer that is not a WebSocket.
    fn answered(answer: &tungstenite::http::Response<Option<Vec<u8>>>) -> Self {
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        if answer.status().as_u16() == 503 && header(REFUSAL) == Some(Code::Shutdown.to_string().as_str()) {
            let seconds = header("retry-after").and_then(|seconds| seconds.parse().ok());
            return Self::Closing { seconds: seconds.unwrap_or(1) };
        }
        let said = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let line: String = said.lines().next().unwrap_or_default().chars().take(MAX_TOLD).collect();
        // a proxy's page is useless, and control characters must not reach a terminal
        let is_text = !line.is_empty() && !line.starts_with('<') && !line.contains(char::is_control);
        Self::Answered {
            status: answer.status().as_u16(),
            text: if is_text { format!(": {line}") } else { String::new() },
        }
    }
}

impl From<tungstenite::Error> for ConnectError {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Http(answer) => Self::answered(&answer),
            error => Self::WebSocket(Box::new(error)),
        }
    }
}
