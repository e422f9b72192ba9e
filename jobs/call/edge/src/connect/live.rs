//! A connection to a live room. [`tobari_call::live`] makes and reads its messages.

use axum::body::Bytes;
use futures_util::{
    FutureExt, SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tobari_call::live::Outgoing;
use tobari_call::live::group::MAX_GROUP_BYTES;
use tobari_call::live::messages::{ClientMessage, Join, Nonce, ServerMessage, VERSION, Welcome};
use tobari_call::messages::RoomName;
use tobari_client::{CONNECT_TIMEOUT, ClientError, ClientTls, SILENCE, Target, Transport, web_socket_config};
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message},
};

use super::ConnectError;

/// The longest message from the server: a roster, and with agreed keys the group messages for it.
const MAX_BYTES: usize = MAX_GROUP_BYTES + 1024;

/// The sending half.
pub struct LiveOutbound {
    sink: SplitSink<WebSocketStream<Box<dyn Transport>>, Message>,
}

/// The receiving half. Pings are answered only while it is read.
pub struct LiveInbound {
    stream: SplitStream<WebSocketStream<Box<dyn Transport>>>,
}

/// A message from the server of a live room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveIncoming {
    /// A sum, a roster or a note.
    Binary(Bytes),
    /// A control message.
    Message(ServerMessage),
}

/// Connects to the server at `url` and joins a live room. `join` answers the server's challenge.
///
/// # Errors
/// [`ConnectError`] if the server cannot be reached or trusted, or does not admit the member.
pub async fn connect_live(
    url: &str,
    room: &RoomName,
    join: impl FnOnce(Nonce) -> Join,
    tls: &ClientTls,
) -> Result<(Welcome, LiveOutbound, LiveInbound), ConnectError> {
    let waited = CONNECT_TIMEOUT;
    let target = Target::trusting(url, tls)?;
    timeout(waited, join_room(&target, room, join, tls))
        .await
        .map_err(|_| ConnectError::Client(ClientError::Timeout { what: "welcome", waited }))?
}

async fn join_room(
    target: &Target,
    room: &RoomName,
    join: impl FnOnce(Nonce) -> Join,
    tls: &ClientTls,
) -> Result<(Welcome, LiveOutbound, LiveInbound), ConnectError> {
    let transport = target.open(tls).await?;
    let request = format!("ws://{}{}/call/v3/{room}", target.authority(), target.path());
    let config = web_socket_config(MAX_BYTES);
    let (socket, _) =
        client_async_with_config(request, transport, Some(config)).await.map_err(|error| match error {
            tungstenite::Error::Http(answer) if answer.status() == 404 => {
                ConnectError::Older { server: target.authority().to_owned(), version: VERSION }
            }
            error => error.into(),
        })?;
    let (sink, stream) = socket.split();
    let (mut outbound, mut inbound) = (LiveOutbound { sink }, LiveInbound { stream });
    let nonce = match inbound.receive().await? {
        LiveIncoming::Message(ServerMessage::Challenge { nonce }) => nonce,
        LiveIncoming::Message(ServerMessage::Refused { code, reason }) => {
            return Err(ConnectError::Refused { code, reason });
        }
        LiveIncoming::Message(_) | LiveIncoming::Binary(_) => return Err(ConnectError::Unexpected),
    };
    outbound.say(Outgoing::Text(ClientMessage::Join(join(nonce)).to_text())).await?;
    match inbound.receive().await? {
        LiveIncoming::Message(ServerMessage::Welcome(welcome)) => Ok((welcome, outbound, inbound)),
        LiveIncoming::Message(ServerMessage::Refused { code, reason }) => Err(ConnectError::Refused { code, reason }),
        LiveIncoming::Message(_) | LiveIncoming::Binary(_) => Err(ConnectError::Unexpected),
    }
}

impl LiveOutbound {
    /// Sends a packet, and waits until the system has taken it.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection is gone; [`LiveInbound::receive`] may say why.
    pub async fn send_packet(&mut self, packet: Vec<u8>) -> Result<(), ConnectError> {
        self.sink.send(Message::binary(packet)).await.map_err(ConnectError::from)
    }

    /// Sends a message that is not a packet.
    ///
    /// # Errors
    /// As [`LiveOutbound::send_packet`].
    pub async fn say(&mut self, out: Outgoing) -> Result<(), ConnectError> {
        let message = match out {
            Outgoing::Text(text) => Message::text(text),
            Outgoing::Binary(bytes) => Message::binary(bytes),
        };
        self.sink.send(message).await.map_err(ConnectError::from)
    }

    /// Leaves the room.
    ///
    /// # Errors
    /// As [`LiveOutbound::send_packet`].
    pub async fn close(&mut self) -> Result<(), ConnectError> {
        self.sink.close().await.map_err(ConnectError::from)
    }
}

impl LiveInbound {
    /// The next message, if one has arrived. It registers no wake-up and does not detect silence,
    /// so call it repeatedly.
    ///
    /// # Errors
    /// As [`LiveInbound::receive`], except silence.
    pub fn receive_now(&mut self) -> Result<Option<LiveIncoming>, ConnectError> {
        loop {
            match self.stream.next().now_or_never().map(read).transpose()? {
                Some(None) => {}
                Some(came) => return Ok(came),
                None => return Ok(None),
            }
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection is gone, the server is silent, or a message is not of
    /// this protocol. A removed or refused member receives the server's message first.
    pub async fn receive(&mut self) -> Result<LiveIncoming, ConnectError> {
        loop {
            let silent = |_| ConnectError::Client(ClientError::Timeout { what: "sign of life", waited: SILENCE });
            if let Some(came) = read(timeout(SILENCE, self.stream.next()).await.map_err(silent)?)? {
                return Ok(came);
            }
        }
    }
}

/// Parses a received message; none if it belongs to the WebSocket itself, such as a ping.
fn read(came: Option<Result<Message, tungstenite::Error>>) -> Result<Option<LiveIncoming>, ConnectError> {
    match came {
        Some(Ok(Message::Binary(bytes))) => Ok(Some(LiveIncoming::Binary(bytes))),
        Some(Ok(Message::Text(text))) => Ok(Some(LiveIncoming::Message(ServerMessage::parse(&text)?))),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Close(_))) | None => Err(ConnectError::Closed),
        Some(Err(error)) => Err(error.into()),
    }
}
