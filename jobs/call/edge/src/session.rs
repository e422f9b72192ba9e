//! One member's connection: the join, then packets and messages in, sums and messages out, until
//! one side ends it.

use std::time::Duration;

use axum::{
    Error,
    body::Bytes,
    extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code},
};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tobari_call::messages::{Code, MessageError, RoomName};
use tobari_call::server::Fault;
use tobari_node::{clients::Guest, cpu::Cpu};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};
use tokio_tungstenite::tungstenite;

use crate::{
    kind::{Happening, Intake, Kind, NotAJoin},
    rooms::{Entered, Rooms},
};

type Sink = SplitSink<WebSocket, Message>;
type Stream = SplitStream<WebSocket>;

/// Pings to a member within the permitted silence.
const PINGS: u32 = 3;

/// Serves a WebSocket from its first message to its end.
pub(crate) async fn session<K: Kind>(socket: WebSocket, call: Call<'_>, rooms: Rooms<K>) {
    let (mut sink, mut stream) = socket.split();
    let mut stopped = rooms.stopped();
    let entered = tokio::select! {
        entered = enter(&mut sink, &mut stream, &call, &rooms) => entered,
        () = stopped.wait() => Err(Some((Code::Shutdown, "the server is closing".to_owned()))),
    };
    match entered {
        Ok(entered) => attend(entered, &mut sink, &mut stream, &rooms).await,
        Err(None) => return,
        Err(Some((code, reason))) => {
            tracing::info!(%code, "join refused");
            let _ = part::<K>(&mut sink, &K::refused(code, reason), rooms.limits().house.write).await;
        }
    }
    linger(&mut stream, rooms.limits().house.grace).await;
}

/// The room that a client wants to join, and the client.
pub(crate) struct Call<'a> {
    pub(crate) room: RoomName,
    /// The host of the request.
    pub(crate) host: Option<String>,
    /// Does the client expect a challenge? A client of an earlier protocol does not.
    pub(crate) is_asked: bool,
    pub(crate) guest: &'a Guest,
}

/// Sends the challenge, waits for the join and takes the seat. On failure it sends the reason,
/// unless the client is gone.
async fn enter<K: Kind>(
    sink: &mut Sink,
    stream: &mut Stream,
    call: &Call<'_>,
    rooms: &Rooms<K>,
) -> Result<Entered<K>, Option<(Code, String)>> {
    let internal = || Some((Code::Internal, Fault::Internal.to_string()));
    let (asked, question) = rooms.ask(&call.room, call.host.as_deref()).ok_or_else(internal)?;
    if let Some(question) = question.filter(|_| call.is_asked) {
        let text = Message::Text(Utf8Bytes::from(K::text(&question)));
        send(sink, text, rooms.limits().house.write).await.map_err(|Gone| None)?;
    }
    let limit = rooms.limits().call.join;
    let Ok(first) = timeout(limit, first_message::<K>(stream, &asked)).await else {
        return Err(Some((Code::Timeout, format!("no `join` came within {limit:?}"))));
    };
    let join = first.ok_or(None)?.map_err(Some)?;
    rooms.enter(&call.room, &join, call.guest).await.map_err(|error| Some((error.code(), error.to_string())))
}

async fn first_message<K: Kind>(stream: &mut Stream, asked: &K::Asked) -> Option<Result<K::Join, (Code, String)>> {
    let told = |fault: Fault| (fault.code(), fault.to_string());
    loop {
        return Some(match read::<K>(stream.next().await)? {
            Ok(MemberInput::Alive) => continue,
            Ok(MemberInput::Binary(_)) => Err(told(Fault::NotJoined)),
            Ok(MemberInput::Message(message)) => K::join(message, asked).map_err(|error| match error {
                NotAJoin::Other => told(Fault::NotJoined),
                NotAJoin::Refused(refusal) => (refusal.code(), refusal.to_string()),
            }),
            Err(fault) => Err(told(fault)),
        });
    }
}

/// A message from a member.
enum MemberInput<K: Kind> {
    Binary(Bytes),
    Message(K::FromMember),
    /// A ping or a pong.
    Alive,
}

/// Parses a received message; none at the end of the connection.
fn read<K: Kind>(came: Option<Result<Message, Error>>) -> Option<Result<MemberInput<K>, Fault>> {
    match came? {
        Ok(Message::Binary(bytes)) => Some(Ok(MemberInput::Binary(bytes))),
        Ok(Message::Text(text)) => Some(K::parse(&text).map(MemberInput::Message).map_err(Fault::from)),
        Ok(Message::Ping(_) | Message::Pong(_)) => Some(Ok(MemberInput::Alive)),
        Ok(Message::Close(_)) => None,
        Err(error) => match error.into_inner().downcast_ref::<tungstenite::Error>() {
            Some(tungstenite::Error::Capacity(_)) => Some(Err(Fault::Message(MessageError::TooLong))),
            Some(tungstenite::Error::Utf8(_)) => Some(Err(Fault::Message(MessageError::NotAnObject))),
            _ => None,
        },
    }
}

/// Serves a member in the room: reads and writes concurrently until one of them ends.
async fn attend<K: Kind>(entered: Entered<K>, sink: &mut Sink, stream: &mut Stream, rooms: &Rooms<K>) {
    let (mut seat, room) = entered;
    let (write, silence) = (rooms.limits().house.write, rooms.limits().call.silence);
    let member = K::member(&seat.welcome);
    let mut writing = std::pin::pin!(async {
        let welcome = K::welcome(seat.welcome);
        send(sink, Message::Text(Utf8Bytes::from(K::text(&welcome))), write).await?;
        deliver(sink, &mut seat.queue, write, silence / PINGS).await?;
        let internal = || K::removed(Code::Internal, Fault::Internal.to_string());
        match (&mut seat.farewell).await.unwrap_or_else(|_| Some(internal())) {
            Some(last) => part::<K>(sink, &last, write).await,
            // no last message: the member rejoins
            None => hang_up(sink, close_code::RESTART, write).await,
        }
    });
    let reader = Reader::<K> { member, intake: seat.intake, room: room.clone(), cpu: rooms.cpu().clone() };
    tokio::select! {
        _ = &mut writing => {}
        fault = reader.run(stream, silence) => {
            if let Some(fault) = fault {
                // The room removes the member, and thereby ends the writing.
                let _ = room.send(Happening::Fault { member, fault }).await;
                let _ = writing.await;
            }
        }
    }
    // If the room has removed the member itself, it knows already.
    let _ = room.send(Happening::Left { member }).await;
}

/// Disconnect the member without a last message: it does not take what is sent.
struct Gone;

async fn send(sink: &mut Sink, message: Message, limit: Duration) -> Result<(), Gone> {
    match timeout(limit, sink.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
    }
}

/// Sends messages from the queue until the room closes it, with pings in between.
async fn deliver(
    sink: &mut Sink,
    queue: &mut mpsc::Receiver<Message>,
    limit: Duration,
    ping: Duration,
) -> Result<(), Gone> {
    let ping = ping.max(Duration::from_millis(1));
    let mut pings = interval_at(Instant::now() + ping, ping);
    loop {
        tokio::select! {
            message = queue.recv() => match message {
                Some(message) => send(sink, message, limit).await?,
                None => return Ok(()),
            },
            _ = pings.tick() => send(sink, Message::Ping(Bytes::new()), limit).await?,
        }
    }
}

/// Sends the last message and the closing frame.
async fn part<K: Kind>(sink: &mut Sink, last: &K::ToMember, limit: Duration) -> Result<(), Gone> {
    let code = match K::code(last) {
        None => close_code::NORMAL,
        Some(Code::Shutdown) => close_code::AWAY,
        Some(_) => close_code::POLICY,
    };
    send(sink, Message::Text(Utf8Bytes::from(K::text(last))), limit).await?;
    hang_up(sink, code, limit).await
}

async fn hang_up(sink: &mut Sink, code: u16, limit: Duration) -> Result<(), Gone> {
    send(sink, Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() })), limit).await
}

/// Reads and discards for a while. Closing a socket with unread bytes resets the connection, and
/// the member might miss the reason of its removal.
async fn linger(stream: &mut Stream, limit: Duration) {
    let _ = timeout(limit, async { while let Some(Ok(_)) = stream.next().await {} }).await;
}

/// Passes a member's messages to the room.
struct Reader<K: Kind> {
    member: u16,
    intake: K::Intake,
    room: mpsc::Sender<Happening<K>>,
    cpu: Cpu,
}

impl<K: Kind> Reader<K> {
    /// Runs until the connection ends or the member breaks a rule. It reads one message at a time:
    /// while the room or the cores are busy it reads nothing, which stops the member's sending.
    async fn run(mut self, stream: &mut Stream, silence: Duration) -> Option<Fault> {
        loop {
            let Ok(came) = timeout(silence, stream.next()).await else {
                return Some(Fault::Silent { waited: silence });
            };
            let member = self.member;
            let happening = match read::<K>(came)? {
                Ok(MemberInput::Alive) => continue,
                Ok(MemberInput::Message(message)) => Happening::Message { member, message },
                Ok(MemberInput::Binary(bytes)) => match self.intake.take(bytes, &self.cpu).await {
                    Ok(binary) => Happening::Binary { member, binary },
                    Err(fault) => return Some(fault),
                },
                Err(fault) => return Some(fault),
            };
            if self.room.send(happening).await.is_err() {
                // The room has ended and sent its last message, so this fault is not delivered.
                return Some(Fault::Internal);
            }
        }
    }
}
