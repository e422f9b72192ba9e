//! One member's connection: join, then packets and messages in, sums and messages out, until one side has enough.

use std::time::Duration;

use axum::{
    Error,
    extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code},
};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tobari_apps::call::{
    PACKET_SAMPLES,
    messages::{ClientMessage, Code, Join, MAX_CONTROL_BYTES, MessageError, RoomName, ServerMessage},
    server::{Fault, Uplink},
};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};
use tokio_tungstenite::tungstenite;

use crate::{
    cpu::Cpu,
    room_task::{Happening, Seat},
    rooms::Rooms,
};

pub(crate) type Sink = SplitSink<WebSocket, Message>;
pub(crate) type Stream = SplitStream<WebSocket>;

/// The longest message from a member: a packet on the largest curve in mode `elgamal`, two uncompressed points of 96 bytes
/// for each sample.
pub(crate) const MAX_MESSAGE_BYTES: usize = PACKET_SAMPLES * 2 * 96 + MAX_CONTROL_BYTES;
/// How often a member is pinged within the silence that is put up with.
pub(crate) const PINGS: u32 = 3;

/// From the WebSocket's first message to its end.
pub(crate) async fn session(socket: WebSocket, name: RoomName, rooms: Rooms) {
    let (mut sink, mut stream) = socket.split();
    let mut stopped = rooms.stopped();
    let entered = tokio::select! {
        entered = enter(&mut stream, &name, &rooms) => entered,
        () = stopped.wait() => Err(Some((Code::Shutdown, "the server is closing".to_owned()))),
    };
    match entered {
        Ok((seat, room)) => attend(seat, room, &mut sink, &mut stream, &rooms).await,
        Err(None) => return,
        Err(Some((code, reason))) => {
            tracing::info!(%code, "join refused");
            let _ = part(&mut sink, &ServerMessage::Refused { code, reason }, rooms.limits().write).await;
        }
    }
    linger(&mut stream, rooms.limits().grace).await;
}

/// Waits for the join and takes the seat; or says why not, unless nobody is there to hear it.
async fn enter(
    stream: &mut Stream,
    name: &RoomName,
    rooms: &Rooms,
) -> Result<(Seat, mpsc::Sender<Happening>), Option<(Code, String)>> {
    let limit = rooms.limits().join;
    let Ok(first) = timeout(limit, first_message(stream)).await else {
        return Err(Some((Code::Timeout, format!("no `join` came within {limit:?}"))));
    };
    let join = match first.ok_or(None)? {
        Ok(join) => join,
        Err(fault) => return Err(Some((fault.code(), fault.to_string()))),
    };
    rooms.enter(name, &join).await.map_err(|error| Some((error.code(), error.to_string())))
}

async fn first_message(stream: &mut Stream) -> Option<Result<Join, Fault>> {
    loop {
        match read(stream.next().await)? {
            Ok(Said::Message(ClientMessage::Join(join))) => return Some(Ok(join)),
            Ok(Said::Alive) => {}
            Ok(Said::Message(_) | Said::Packet(_)) => return Some(Err(Fault::NotJoined)),
            Err(fault) => return Some(Err(fault)),
        }
    }
}

/// What a member can say.
enum Said {
    Packet(axum::body::Bytes),
    Message(ClientMessage),
    /// A ping or a pong.
    Alive,
}

/// Makes sense of what came; none at the end of the connection.
fn read(came: Option<Result<Message, Error>>) -> Option<Result<Said, Fault>> {
    match came? {
        Ok(Message::Binary(packet)) => Some(Ok(Said::Packet(packet))),
        Ok(Message::Text(text)) => Some(ClientMessage::parse(&text).map(Said::Message).map_err(Fault::from)),
        Ok(Message::Ping(_) | Message::Pong(_)) => Some(Ok(Said::Alive)),
        Ok(Message::Close(_)) => None,
        Err(error) => match error.into_inner().downcast_ref::<tungstenite::Error>() {
            Some(tungstenite::Error::Capacity(_)) => Some(Err(Fault::Message(MessageError::TooLong))),
            Some(tungstenite::Error::Utf8(_)) => Some(Err(Fault::Message(MessageError::NotAnObject))),
            _ => None,
        },
    }
}

/// The member's time in the room: reading and writing go on side by side until one of them ends.
async fn attend(mut seat: Seat, room: mpsc::Sender<Happening>, sink: &mut Sink, stream: &mut Stream, rooms: &Rooms) {
    let (write, silence) = (rooms.limits().write, rooms.limits().silence);
    let member = seat.welcome.member;
    let mut writing = std::pin::pin!(async {
        let welcome = ServerMessage::Welcome(seat.welcome);
        send(sink, Message::Text(Utf8Bytes::from(welcome.to_text())), write).await?;
        deliver(sink, &mut seat.queue, write, silence / PINGS).await?;
        let internal = || ServerMessage::Removed { code: Code::Internal, reason: Fault::Internal.to_string() };
        let last = (&mut seat.farewell).await.unwrap_or_else(|_| internal());
        part(sink, &last, write).await
    });
    let reader = Reader { member, uplink: seat.uplink, room: room.clone(), cpu: rooms.cpu().clone() };
    tokio::select! {
        _ = &mut writing => {}
        fault = reader.run(stream, silence) => {
            if let Some(fault) = fault {
                // The room puts the member out, and thereby ends what is being written.
                let _ = room.send(Happening::Fault { member, fault }).await;
                let _ = writing.await;
            }
        }
    }
    // Where the room has put the member out itself, it knows already.
    let _ = room.send(Happening::Left { member }).await;
}

/// A member is to be disconnected without another word: it does not take what is sent.
pub(crate) struct Gone;

pub(crate) async fn send(sink: &mut Sink, message: Message, limit: Duration) -> Result<(), Gone> {
    match timeout(limit, sink.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Gone),
    }
}

/// Sends what the room puts into the queue, until the room closes it; pings in between.
pub(crate) async fn deliver(
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
            _ = pings.tick() => send(sink, Message::Ping(axum::body::Bytes::new()), limit).await?,
        }
    }
}

/// Sends the last message and the closing frame.
async fn part(sink: &mut Sink, last: &ServerMessage, limit: Duration) -> Result<(), Gone> {
    let code = match last {
        ServerMessage::Ended { .. } => close_code::NORMAL,
        ServerMessage::Removed { code: Code::Shutdown, .. } | ServerMessage::Refused { code: Code::Shutdown, .. } => {
            close_code::AWAY
        }
        _ => close_code::POLICY,
    };
    send(sink, Message::Text(Utf8Bytes::from(last.to_text())), limit).await?;
    send(sink, Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() })), limit).await
}

/// Reads on for a while and forgets what it reads: a socket closed over unread bytes is reset, and the member might
/// never see why it was put out.
pub(crate) async fn linger(stream: &mut Stream, limit: Duration) {
    let _ = timeout(limit, async { while let Some(Ok(_)) = stream.next().await {} }).await;
}

/// What a member sends, on its way to the room.
struct Reader {
    member: u16,
    uplink: Uplink,
    room: mpsc::Sender<Happening>,
    cpu: Cpu,
}

impl Reader {
    /// Until the connection ends, or the member does what is not allowed. One packet at a time: while the room or the
    /// cores are busy nothing more is read, and the member's own sending comes to a halt.
    async fn run(self, stream: &mut Stream, silence: Duration) -> Option<Fault> {
        loop {
            let Ok(came) = timeout(silence, stream.next()).await else {
                return Some(Fault::Silent { waited: silence });
            };
            let member = self.member;
            let happening = match read(came)? {
                Ok(Said::Alive) => continue,
                Ok(Said::Message(message)) => Happening::Message { member, message },
                Ok(Said::Packet(packet)) => match self.decode(packet).await {
                    Ok(happening) => happening,
                    Err(fault) => return Some(fault),
                },
                Err(fault) => return Some(fault),
            };
            if self.room.send(happening).await.is_err() {
                // The room is over, and its last word on the way: this fault will find nobody.
                return Some(Fault::Internal);
            }
        }
    }

    async fn decode(&self, packet: axum::body::Bytes) -> Result<Happening, Fault> {
        // What is wrong on the face of it costs no place at the cores.
        self.uplink.check(&packet)?;
        let uplink = self.uplink;
        let decoded = self.cpu.run(move || uplink.decode(&packet)).await.ok_or(Fault::Internal)?;
        let (tick, ciphertexts) = decoded?;
        Ok(Happening::Packet { member: self.member, tick, ciphertexts })
    }
}

#[cfg(test)]
mod tests {
    use tobari_core::{
        curve::{Curve, PointEncoding},
        elgamal::{Ciphertexts, SharedCiphertexts},
        params::{Parameters, SecurityFloor},
        wire::packet_len,
    };

    use super::*;

    #[test]
    fn the_longest_packet_of_every_curve_and_mode_fits_into_a_message() {
        for curve in Curve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            let longest = packet_len::<Ciphertexts>(parameters, PointEncoding::Uncompressed, PACKET_SAMPLES);
            let shared = packet_len::<SharedCiphertexts>(parameters, PointEncoding::Uncompressed, PACKET_SAMPLES);
            assert!(shared < longest && longest <= MAX_MESSAGE_BYTES, "{curve}: {longest}");
        }
    }
}
