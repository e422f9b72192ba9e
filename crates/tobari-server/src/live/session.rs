//! One member's connection to a live room.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use axum::{
    Error,
    body::Bytes,
    extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code},
};
use futures_util::StreamExt;
use tobari_apps::call::{
    live::{
        NOTE_BYTES,
        messages::{ClientMessage, Join, ServerMessage},
    },
    messages::{Code, MessageError, RoomName},
    server::Fault,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_tungstenite::tungstenite;

use super::{
    rooms::LiveRooms,
    task::{Happening, Seat},
};
use crate::session::{Gone, PINGS, Sink, Stream, deliver, linger, send};

/// Packets of one member at once and in the long run in a second: fifty are sent, and after a standstill some more.
const PACKETS: Fault = Fault::Chatter { burst: 150, a_second: 60 };

/// From the WebSocket's first message to its end.
pub(super) async fn session(socket: WebSocket, name: RoomName, rooms: LiveRooms) {
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
    rooms: &LiveRooms,
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
            Ok(Said::Message(_) | Said::Binary(_)) => return Some(Err(Fault::NotJoined)),
            Err(fault) => return Some(Err(fault)),
        }
    }
}

/// What a member can say.
enum Said {
    Binary(Bytes),
    Message(ClientMessage),
    /// A ping or a pong.
    Alive,
}

/// Makes sense of what came; none at the end of the connection.
fn read(came: Option<Result<Message, Error>>) -> Option<Result<Said, Fault>> {
    match came? {
        Ok(Message::Binary(bytes)) => Some(Ok(Said::Binary(bytes))),
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
async fn attend(
    mut seat: Seat,
    room: mpsc::Sender<Happening>,
    sink: &mut Sink,
    stream: &mut Stream,
    rooms: &LiveRooms,
) {
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
    let reader = Reader { member, seat: seat.uplink, room: room.clone(), rooms: rooms.clone(), budget: Budget::new() };
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

/// How many packets a member may still send now.
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { left: 150.0, at: Instant::now() }
    }

    fn spend(&mut self) -> Result<(), Fault> {
        let Fault::Chatter { burst, a_second } = PACKETS else { return Ok(()) };
        let now = Instant::now();
        let earned = now.duration_since(self.at).as_secs_f64() * f64::from(a_second);
        (self.left, self.at) = ((self.left + earned).min(burst.into()), now);
        if self.left < 1.0 {
            return Err(PACKETS);
        }
        self.left -= 1.0;
        Ok(())
    }
}

/// What a member sends, on its way to the room.
struct Reader {
    member: u16,
    seat: tobari_apps::call::live::LiveUplink,
    room: mpsc::Sender<Happening>,
    rooms: LiveRooms,
    budget: Budget,
}

impl Reader {
    /// Until the connection ends, or the member does what is not allowed. One message at a time: while the room is busy nothing more is
    /// read, and the member's own sending comes to a halt.
    async fn run(mut self, stream: &mut Stream, silence: Duration) -> Option<Fault> {
        loop {
            let Ok(came) = timeout(silence, stream.next()).await else {
                return Some(Fault::Silent { waited: silence });
            };
            let member = self.member;
            let happening = match read(came)? {
                Ok(Said::Alive) => continue,
                Ok(Said::Message(message)) => Happening::Message { member, message },
                Ok(Said::Binary(note)) if note.len() == NOTE_BYTES => Happening::Note { member, note },
                Ok(Said::Binary(packet)) => match self.decode(packet).await {
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

    async fn decode(&mut self, packet: Bytes) -> Result<Happening, Fault> {
        self.budget.spend()?;
        self.rooms.metrics().received_bytes.fetch_add(packet.len() as u64, Relaxed);
        // What is wrong on the face of it costs no place at the cores.
        self.seat.check(&packet)?;
        let seat = self.seat;
        let packet = if seat.is_costly() {
            self.rooms.cpu().run(move || seat.decode(&packet)).await.ok_or(Fault::Internal)??
        } else {
            seat.decode(&packet)?
        };
        Ok(Happening::Packet { packet: Box::new(packet) })
    }
}
