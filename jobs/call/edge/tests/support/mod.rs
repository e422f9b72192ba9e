//! Shared by the tests over real sockets: a server on a free port, keys, and members that speak and
//! listen.

#![allow(dead_code, reason = "each test binary uses its own part")]

#[path = "../../../../../crates/node/tests/support/mod.rs"]
mod house;
pub(crate) mod live;

#[allow(unused_imports, reason = "each test program uses its own part")]
pub(crate) use house::{PATIENCE, Server, read_until, run};

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_call::PACKET_SAMPLES;
use tobari_call::client::{Decrypt, Encrypt, Listener, Speaker};
use tobari_call::messages::{ClientMessage, Code, Join, Pace, RoomName};
use tobari_call_edge::CallOptions;
use tobari_call_edge::connect::{ConnectError, Connection, Incoming, connect};
use tobari_client::ClientTls;
use tobari_curve::{
    Curve, PointEncoding,
    elgamal::{
        Ciphertexts, Decryptor, Encryptor, Mode, SAMPLE_BOUND, SecretKey, SharedDecryptor, SharedEncryptor, SharedKey,
    },
    params::{Parameters, SecurityFloor},
};
use tobari_node::ServerOptions;
use tokio::{io::AsyncWriteExt, net::TcpStream};

/// Options for a server of these tests: a node with calls.
pub(crate) struct Options {
    house: ServerOptions,
    pub(crate) calls: CallOptions,
}

impl Options {
    pub(crate) fn new() -> Self {
        Self { house: house::on_any_port(), calls: CallOptions::default() }
    }

    /// The node's options, with calls.
    pub(crate) fn house(self) -> ServerOptions {
        let Self { mut house, calls } = self;
        house.jobs.push(Box::new(calls));
        house
    }
}

impl Deref for Options {
    type Target = ServerOptions;

    fn deref(&self) -> &ServerOptions {
        &self.house
    }
}

impl DerefMut for Options {
    fn deref_mut(&mut self) -> &mut ServerOptions {
        &mut self.house
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new();
        change(&mut options);
        Self::of(options.house()).await
    }

    pub(crate) async fn enter(&self, room: &str, join: &Join) -> Result<Connection, ConnectError> {
        connect(&self.url, &room_name(room), join, &ClientTls::System).await
    }
}

pub(crate) fn room_name(name: &str) -> RoomName {
    name.parse().unwrap()
}

pub(crate) fn lockstep(members: u16) -> Join {
    Join::new(Pace::Lockstep { members }, Curve::Secp256k1)
}

/// The same in mode `elgamal-shared`.
pub(crate) fn shared_lockstep(members: u16) -> Join {
    Join { mode: Mode::ElgamalShared, ..lockstep(members) }
}

pub(crate) fn parameters(curve: Curve) -> Parameters {
    Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap()
}

/// The key of a call; only its members have it.
pub(crate) struct Keys<E = Encryptor, D = Decryptor> {
    pub(crate) encryptor: Arc<E>,
    pub(crate) decryptor: Arc<D>,
}

pub(crate) fn keys(curve: Curve, speakers: u32) -> Keys {
    let key = SecretKey::generate(parameters(curve), &mut rng(255));
    let decryptor = Decryptor::new(&key, speakers * SAMPLE_BOUND.unsigned_abs());
    Keys { encryptor: Arc::new(Encryptor::new(&key.public_key())), decryptor: Arc::new(decryptor) }
}

/// The key of a call in mode `elgamal-shared`.
pub(crate) fn shared_keys(curve: Curve, speakers: u32) -> Keys<SharedEncryptor, SharedDecryptor> {
    let key = SharedKey::generate(parameters(curve), PACKET_SAMPLES, &mut rng(254));
    let decryptor = SharedDecryptor::new(&key, speakers * SAMPLE_BOUND.unsigned_abs());
    Keys { encryptor: Arc::new(SharedEncryptor::new(&key)), decryptor: Arc::new(decryptor) }
}

pub(crate) fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// A member with its keys.
pub(crate) struct Caller<E = Encryptor, D = Decryptor> {
    pub(crate) connection: Connection,
    pub(crate) speaker: Speaker<E>,
    pub(crate) listener: Listener<D>,
    pub(crate) encryptor: Arc<E>,
    pub(crate) rng: ChaCha20Rng,
}

impl Caller {
    pub(crate) fn ciphertexts(&mut self, level: i32) -> Ciphertexts {
        self.encryptor.encrypt(&[level; PACKET_SAMPLES], &mut self.rng).unwrap()
    }
}

impl<E: Encrypt, D: Decrypt> Caller<E, D> {
    pub(crate) async fn enter(server: &Server, room: &str, join: &Join, keys: &Keys<E, D>) -> Self {
        Self::on(server.enter(room, join).await.unwrap(), keys)
    }

    pub(crate) fn on(connection: Connection, keys: &Keys<E, D>) -> Self {
        let welcome = *connection.welcome();
        Self {
            speaker: Speaker::new(Arc::clone(&keys.encryptor), &welcome, PointEncoding::Compressed),
            listener: Listener::new(Arc::clone(&keys.decryptor), &welcome),
            encryptor: Arc::clone(&keys.encryptor),
            rng: rng(u8::try_from(welcome.member).unwrap()),
            connection,
        }
    }

    /// The bytes of a packet in which every sample has this level.
    pub(crate) fn packet(&mut self, tick: u32, level: i32) -> Vec<u8> {
        self.speaker.packet(tick, &[level; PACKET_SAMPLES], &mut self.rng).unwrap()
    }

    pub(crate) async fn say(&mut self, tick: u32, level: i32) {
        let packet = self.packet(tick, level);
        self.connection.send_packet(packet).await.unwrap();
    }

    pub(crate) async fn end(&mut self) {
        self.connection.send(&ClientMessage::End {}).await.unwrap();
    }

    /// Receives and acknowledges one tick. Returns its speakers and its level.
    pub(crate) async fn hear(&mut self, tick: u32) -> (Vec<u16>, i32) {
        let Incoming::Sum(sum) = self.connection.receive().await.unwrap() else { panic!("no sum for tick {tick}") };
        let mixed = self.listener.open(&sum).unwrap();
        assert_eq!(mixed.header.tick, tick);
        assert!(mixed.samples.iter().all(|sample| *sample == mixed.samples[0]));
        self.connection.send(&ClientMessage::Received { tick }).await.unwrap();
        (mixed.header.speakers.iter().collect(), mixed.samples[0])
    }

    pub(crate) async fn hears_the_end(&mut self, ticks: u32) {
        assert_eq!(self.connection.receive().await.unwrap(), Incoming::Ended { ticks });
    }

    /// Reads until the server sends the reason of this member's removal.
    pub(crate) async fn is_removed(&mut self) -> (Code, String) {
        loop {
            match self.connection.receive().await {
                Ok(_) => {}
                Err(ConnectError::Removed { code, reason }) => return (code, reason),
                Err(other) => panic!("not removed, but: {other}"),
            }
        }
    }
}

/// A hand-written WebSocket: joins, reads the welcome, and returns the raw connection.
pub(crate) async fn raw_member(server: &Server, room: &str, join: &Join) -> TcpStream {
    let mut stream = raw_socket(server, room).await;
    stream.write_all(&frame(0x81, ClientMessage::Join(join.clone()).to_text().as_bytes())).await.unwrap();
    read_until(&mut stream, b"\"window\"").await;
    stream
}

/// A hand-written WebSocket, before its join.
pub(crate) async fn raw_socket(server: &Server, room: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!(
        "GET /call/v1/{room} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut stream, b"\r\n\r\n").await;
    stream
}

/// One masked frame of a short message; the mask is zero.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode, 0xFE];
    frame.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}
