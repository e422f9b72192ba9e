//! A bad line between a browser and the server, with delays, losses and packets that overtake one
//! another.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::sleep_until,
};
use tokio_tungstenite::{accept_async, client_async, tungstenite::Message};

/// The properties of a line.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// How many of a thousand packets and sums are lost.
    pub(crate) lost: u32,
    /// The largest delay, one way; each message has its own delay.
    pub(crate) jitter: Duration,
    /// Whether packets to the server may overtake one another.
    pub(crate) overtaking: bool,
}

impl Line {
    /// A line without any fault.
    pub(crate) const GOOD: Self = Self { lost: 0, jitter: Duration::ZERO, overtaking: false };
}

/// An observer's record of messages to the server: the time and the bytes of each.
pub(crate) type Seen = Arc<Mutex<Vec<(Instant, usize)>>>;

/// Starts a relay; returns its address.
pub(crate) async fn start(server: SocketAddr, line: Line) -> SocketAddr {
    watched(server, line).await.0
}

/// The same, with a record of the messages to the server.
pub(crate) async fn watched(server: SocketAddr, line: Line) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, server, line, Arc::clone(&log)));
        }
    });
    (address, seen)
}

/// A connection that requests a WebSocket, and the requested path. Any other connection is relayed
/// to the server until its end.
pub(crate) async fn web_socket(mut client: TcpStream, server: SocketAddr) -> Option<(TcpStream, String)> {
    let mut head = [0; 2048];
    // here the head of a request arrives in one piece
    let length = client.peek(&mut head).await.ok()?;
    let asks = String::from_utf8_lossy(&head[..length]).into_owned();
    let _ = client.set_nodelay(true);
    if asks.to_lowercase().contains("upgrade: websocket") {
        return Some((client, asks.split(' ').nth(1).unwrap_or("/").to_owned()));
    }
    let mut upstream = TcpStream::connect(server).await.ok()?;
    let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
    None
}

async fn carry(client: TcpStream, server: SocketAddr, line: Line, seen: Seen) {
    let Some((client, path)) = web_socket(client, server).await else { return };
    let Ok(upstream) = TcpStream::connect(server).await else { return };
    let _ = upstream.set_nodelay(true);
    let Ok(client) = accept_async(client).await else { return };
    let Ok((server, _)) = client_async(format!("ws://{server}{path}"), upstream).await else { return };
    let ((to_client, from_client), (to_server, from_server)) = (client.split(), server.split());
    let from_client = from_client.inspect(|came| {
        if let Ok(message) = came {
            seen.lock().unwrap().push((Instant::now(), message.len()));
        }
    });
    let up = pass(from_client, to_server, line, 3);
    let down = pass(from_server, to_client, Line { overtaking: false, ..line }, 5);
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// Packets and sums, of which a room can miss some.
fn is_sound(message: &Message) -> bool {
    matches!(message, Message::Binary(bytes) if bytes.get(1).is_some_and(|kind| (8..=11).contains(kind)))
}

async fn pass<E>(
    mut from: impl StreamExt<Item = Result<Message, E>> + Unpin,
    mut to: impl SinkExt<Message> + Unpin,
    line: Line,
    seed: u64,
) {
    let (sender, mut queue) = mpsc::unbounded_channel::<(Instant, Message)>();
    let taking = async {
        let (mut state, mut last) = (seed, Instant::now());
        while let Some(Ok(message)) = from.next().await {
            let mut draw = |below: u32| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 33) as u32 % below.max(1)
            };
            let sound = is_sound(&message);
            if sound && draw(1000) < line.lost {
                continue;
            }
            let delay = Duration::from_micros(u64::from(draw(line.jitter.as_micros() as u32)));
            let mut due = Instant::now() + delay;
            if !(sound && line.overtaking) {
                due = due.max(last);
                last = due;
            }
            if sender.send((due, message)).is_err() {
                return;
            }
        }
    };
    let giving = async {
        let mut waiting: VecDeque<(Instant, Message)> = VecDeque::new();
        loop {
            let next = waiting.front().map(|(due, _)| *due);
            tokio::select! {
                came = queue.recv() => match came {
                    Some((due, message)) => {
                        let place = waiting.partition_point(|(other, _)| *other <= due);
                        waiting.insert(place, (due, message));
                    }
                    None => return,
                },
                () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {
                    if let Some((_, message)) = waiting.pop_front() && to.send(message).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = taking => {}
        () = giving => {}
    }
}
