//! Hostile clients: broken, slow, deaf, or gone in the middle of a request.

use super::noise;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tobari_call::{live, messages};
use tobari_curve::Curve;

/// How long such a client waits for any reply.
const SHORT: Duration = Duration::from_millis(500);

/// A route that takes a body.
pub struct Post {
    /// The path of the route.
    pub path: String,
    /// Further headers, each with its line end.
    pub headers: String,
    /// A valid body.
    pub body: Vec<u8>,
}

/// A server under attack by hostile clients.
pub struct Target {
    /// The server's address.
    pub address: String,
    /// The routes that take a body.
    pub posts: Vec<Post>,
    /// The paths of all routes.
    pub routes: Vec<String>,
    /// Set when the clients are to stop.
    pub done: AtomicBool,
    /// How many connections the clients have made.
    pub connections: AtomicUsize,
}

/// The work of one client in one round, with the round's number; rounds repeat until the end.
pub type Rude = fn(&Target, u64);

/// All hostile clients.
pub const ALL: [Rude; 8] = [malformed, astray, garbage, boasting, endless, slow, vanishing, sockets];
/// Hostile clients that hold nothing for long.
pub const BRIEF: [Rude; 4] = [malformed, astray, garbage, vanishing];

impl Target {
    /// A server with these posts and routes.
    pub fn new(address: String, posts: Vec<Post>, routes: Vec<String>) -> Self {
        let (done, connections) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { address, posts, routes, done, connections }
    }

    /// Whether the clients are to stop.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(SHORT)).unwrap();
        stream.set_write_timeout(Some(SHORT)).unwrap();
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    /// Sends bytes on a connection of its own; returns the status of the reply, if there is one
    /// soon. An internal error of the server fails the test.
    fn send(&self, bytes: &[u8]) -> Option<u16> {
        let mut stream = self.connect()?;
        // the server may cut the connection when it rejects a request
        let _ = stream.write_all(bytes);
        let mut head = [0; 12];
        stream.read_exact(&mut head).ok()?;
        let status = std::str::from_utf8(&head[9..]).unwrap().parse().unwrap();
        assert!(![500, 501, 502].contains(&status), "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
        Some(status)
    }

    fn head(&self, post: &Post, length: &str) -> Vec<u8> {
        format!("POST {} HTTP/1.1\r\nHost: localhost\r\n{}{length}\r\n\r\n", post.path, post.headers).into_bytes()
    }

    fn request(&self, post: &Post, body: &[u8]) -> Vec<u8> {
        [self.head(post, &format!("Content-Length: {}", body.len())), body.to_vec()].concat()
    }

    fn post(&self, round: u64) -> &Post {
        &self.posts[round as usize % self.posts.len()]
    }
}

/// Meaningless bytes.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    noise(seed, length).iter().map(|sample| *sample as u8).collect()
}

/// Requests much, and reads nothing.
pub fn deaf(target: &Target) -> Option<TcpStream> {
    let mut stream = target.connect()?;
    let _ = stream.write_all("GET /web/dist/tobari.wasm HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(32).as_bytes());
    Some(stream)
}

fn malformed(target: &Target, round: u64) {
    let long = "x".repeat(200_000);
    let requests = [
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        "\0\0\0\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "GET  /  HTTP/1.1\r\n\r\n".to_owned(),
        "GET /%%%%\u{7f} HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
        "POST /search/v1/queries HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "POST /search/v1/queries HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        "POST /search/v1/queries HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
        "POST /search/v1/queries HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000)),
        format!("GET /sense/v1/fleets/{}/held HTTP/1.1\r\nHost: localhost\r\n\r\n", "../".repeat(50)),
    ];
    match requests.get(round as usize % (2 * requests.len())) {
        Some(request) => target.send(request.as_bytes()),
        None => target.send(&bytes(round, 1 + (round as usize * 977) % 60_000)),
    };
}

/// Sends every route things that it does not accept: wrong methods, paths that are too long or not
/// text, floods of headers, and unexpected bodies.
fn astray(target: &Target, round: u64) {
    let [route, turn] = [round as usize % target.routes.len(), round as usize / target.routes.len()];
    let drawn: String = bytes(round, 7).iter().map(|byte| char::from(b'A' + byte % 26)).collect();
    let methods = ["DELETE", "GET", "POST", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", &drawn];
    let (route, method) = (&target.routes[route], methods[(route + turn) % methods.len()]);
    let parent = route.rsplit_once('/').map_or("", |(parent, _)| parent);
    let (mut path, mut headers, mut body) = (route.clone(), String::new(), Vec::new());
    match turn % 6 {
        0 => {}
        1 => path = format!("{parent}/{}", "x".repeat(5_000)),
        2 => {
            let odd = ["%", "%2", "%zz", "%00", "%ff%fe", "..%2f..%2fCargo.toml", "%2e%2e", "%c0%ae", ""];
            path = format!("{parent}/{}", odd[round as usize % odd.len()]);
        }
        3 => path += &format!("?{}", "a=%ff&".repeat(2_000)),
        4 => headers = (0..45).map(|i| format!("x-{i}: {}\r\nTobari-Client: {i}\r\n", "y".repeat(200))).collect(),
        _ => body = bytes(round, round as usize * 31 % 3_000),
    }
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    target.send(&[head.as_bytes(), &body].concat());
}

/// Bodies that are random, that begin correctly, or that have one wrong bit.
fn garbage(target: &Target, round: u64) {
    let (post, turn) = (target.post(round), round / target.posts.len() as u64);
    let mut body = match turn % 8 {
        0 => bytes(round, [0, 1, 57, 300, 5_000, 100_000][round as usize % 6]),
        2 => bytes(round, post.body.len()),
        4 => [&post.body[..post.body.len() / 2], &bytes(round, post.body.len() / 2)].concat(),
        6 => post.body[..post.body.len() * 9 / 10].to_vec(),
        _ => post.body.clone(),
    };
    // in the head, or anywhere; a bit, or a byte
    let drawn = noise(round, 3).iter().fold(0, |drawn, sample| drawn << 16 | usize::from(sample.unsigned_abs()));
    let at = if turn % 4 == 1 { drawn % 61 } else { drawn % body.len().max(1) };
    if let Some(byte) = body.get_mut(at) {
        *byte ^= if turn % 8 < 4 { 1 << (drawn % 8) } else { 1 + (drawn % 255) as u8 };
    }
    target.send(&target.request(post, &body));
}

/// Announces a body of four terabytes.
fn boasting(target: &Target, round: u64) {
    let post = target.post(round);
    target.send(&[target.head(post, "Content-Length: 4398046511104"), bytes(round, 100_000)].concat());
}

/// A body in chunks, without an end.
fn endless(target: &Target, round: u64) {
    let Some(mut stream) = target.connect() else { return };
    let chunk = [&b"10000\r\n"[..], &bytes(round, 0x10000), b"\r\n"].concat();
    let _ = stream.write_all(&target.head(target.post(round), "Transfer-Encoding: chunked"));
    for _ in 0..128 {
        if stream.write_all(&chunk).is_err() || target.is_done() {
            return;
        }
    }
}

/// A byte now and then, on many connections, in heads and in bodies.
fn slow(target: &Target, _: u64) {
    let mut begun: Vec<Vec<u8>> =
        target.posts.iter().map(|post| target.head(post, &format!("Content-Length: {}", post.body.len()))).collect();
    begun.extend([&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "].map(<[u8]>::to_vec));
    let open = |begun: &Vec<u8>| {
        let mut stream = target.connect()?;
        stream.write_all(begun).ok().map(|()| stream)
    };
    let mut held: Vec<Option<TcpStream>> = begun.iter().map(open).collect();
    while !target.is_done() {
        std::thread::sleep(SHORT / 5);
        for (stream, begun) in held.iter_mut().zip(&begun) {
            if stream.as_mut().is_none_or(|stream| stream.write_all(b"a").is_err()) {
                *stream = open(begun);
            }
        }
    }
}

/// Disconnects in the middle of a request.
fn vanishing(target: &Target, round: u64) {
    let post = target.post(round);
    let request = target.request(post, &post.body);
    if let Some(mut stream) = target.connect() {
        let _ = stream.write_all(&request[..request.len() * (1 + round as usize % 7) / 8]);
    }
    // without waiting, this client would take all of the server's places
    std::thread::sleep(SHORT / 500);
}

/// One masked frame of a short message; the mask is zero.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    [&[opcode, 0xfe][..], &(payload.len() as u16).to_be_bytes(), &[0; 4], payload].concat()
}

/// WebSockets that begin correctly, some of them with a seat in a room.
fn sockets(target: &Target, round: u64) {
    let upgrade = format!(
        "GET /call/v{}/rude-{round} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        1 + 2 * (round % 2)
    );
    let join = frame(0x81, join(round.is_multiple_of(2)).as_bytes());
    let follow = match round / 2 % 8 {
        0 => bytes(round, 4_000),
        1 => frame(0x81, b"garbage"),
        2 => [join, frame(0x82, &bytes(round, 9_000))].concat(),
        3 => [&[0x82, 0xff][..], &[0xff; 8], &[0; 4], &bytes(round, 9_000)].concat(),
        4 => frame(0x01, &[b' '; 100]).repeat(200),
        5 => frame(0x89, &[7; 125]).repeat(500),
        6 => [join, frame(0x81, br#"{"type":"end"}"#).repeat(50)].concat(),
        _ => [join, frame(0x8b, &[0xff; 99])].concat(),
    };
    let Some(mut stream) = target.connect() else { return };
    let _ = stream.write_all(&[upgrade.into_bytes(), follow].concat());
    let mut reply = [0; 4096];
    while stream.read(&mut reply).is_ok_and(|count| count > 0) {}
}

/// The first message in a room of either kind.
fn join(of_points: bool) -> String {
    if of_points {
        return messages::ClientMessage::Join(messages::Join::new(messages::Pace::Live, Curve::Secp256k1)).to_text();
    }
    let settings = live::Settings::default();
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let link = live::RoomLink::new("http://x", "rude".parse().unwrap(), settings, &mut rng);
    // answers a challenge that the server did not send
    let join = live::LiveMember::join(&link, true, live::messages::Nonce([0; 16]));
    live::messages::ClientMessage::Join(join).to_text()
}
