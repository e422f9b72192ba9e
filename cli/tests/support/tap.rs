//! A line between clients and a server that records all traffic.

use super::rude::Post;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The bytes of a part that is looked for in other places.
const PART: usize = 16;

/// By connection, the bytes to the server and the bytes to the client.
type Lines = BTreeMap<usize, [Vec<u8>; 2]>;

/// The line.
pub struct Tap {
    /// The address of the line, to use instead of the server's.
    pub url: String,
    lines: Arc<Mutex<Lines>>,
    spoils: Arc<AtomicBool>,
}

/// The recorded traffic.
pub struct Heard(Lines);

impl Tap {
    /// A line in front of a server.
    pub fn to(server: &str) -> Self {
        Self::from([127, 0, 0, 1], server)
    }

    /// A line in front of a server that connects to it from this address of the machine.
    pub fn from(source: [u8; 4], server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tap = Self { url, lines: Arc::default(), spoils: Arc::default() };
        let (server, lines, spoils) = (server.to_owned(), Arc::clone(&tap.lines), Arc::clone(&tap.spoils));
        std::thread::spawn(move || {
            for (number, near) in listener.incoming().map_while(Result::ok).enumerate() {
                let Ok(far) = connect_from(source, &server) else { continue };
                for (way, (from, to)) in [(&near, &far), (&far, &near)].into_iter().enumerate() {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (lines, spoils) = (Arc::clone(&lines), Arc::clone(&spoils));
                    std::thread::spawn(move || carry(from, to, (number, way), &lines, &spoils));
                }
            }
        });
        tap
    }

    /// From now on, or no longer, changes a byte in every long part of a reply.
    pub fn spoil(&self, spoils: bool) {
        self.spoils.store(spoils, Relaxed);
    }

    /// The traffic since the last call.
    pub fn take(&self) -> Heard {
        Heard(std::mem::take(&mut *self.lines.lock().unwrap()))
    }
}

/// A connection from one of this machine's addresses. The system buffers few bytes that the server
/// has not read.
pub fn connect_from(source: [u8; 4], server: &str) -> std::io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_send_buffer_size(32 << 10)?;
        socket.bind((source, 0).into())?;
        socket.connect(server.parse().map_err(std::io::Error::other)?).await?.into_std()
    })?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    (number, way): (usize, usize),
    lines: &Mutex<Lines>,
    spoils: &AtomicBool,
) {
    let _ = to.set_nodelay(true);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        lines.lock().unwrap().entry(number).or_default()[way].extend_from_slice(&buffer[..count]);
        if way == 1 && count > 4096 && spoils.load(Relaxed) {
            buffer[count / 2] ^= 0x55;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

impl Heard {
    /// The bytes that clients sent, by connection.
    pub fn ups(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(|[up, _]| up.as_slice())
    }

    /// The requests: the method, and the rest as a post.
    pub fn requests(&self) -> Vec<(String, Post)> {
        self.0.values().flat_map(|[up, _]| requests(up)).collect()
    }

    /// Parts of the requests that identify a client: of names, headers and bodies.
    pub fn sent(&self) -> BTreeSet<[u8; PART]> {
        let mut sent = BTreeSet::new();
        for (_, Post { path, headers, body }) in self.requests() {
            let words = path.split('/').chain(headers.split(|c: char| c.is_whitespace()));
            sent.extend(words.filter_map(|word| word.as_bytes().first_chunk::<PART>().copied()));
            let parts =
                [body.len() / 4, body.len() / 2, body.len() * 3 / 4].map(|at| body[at..].first_chunk().copied());
            sent.extend(parts.into_iter().flatten().filter(|_| body.len() >= 16 * PART));
        }
        sent
    }

    /// The parts that appear in the server's replies.
    pub fn told<'a>(&self, parts: &'a BTreeSet<[u8; PART]>) -> BTreeSet<&'a [u8; PART]> {
        let mut begins = vec![false; 1 << 16];
        let begin = |part: &[u8]| usize::from(part[0]) << 8 | usize::from(part[1]);
        parts.iter().for_each(|part| begins[begin(part)] = true);
        let windows = self.0.values().flat_map(|[_, down]| down.array_windows::<PART>());
        windows.filter(|window| begins[begin(&window[..])]).filter_map(|window| parts.get(window)).collect()
    }
}

/// The requests of one connection, until it changes the protocol.
fn requests(mut up: &[u8]) -> Vec<(String, Post)> {
    let mut all = Vec::new();
    while let Some(end) = up.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = std::str::from_utf8(&up[..end]).unwrap();
        let (first, lines) = head.split_once("\r\n").unwrap();
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let (mut headers, mut length) = (String::new(), 0);
        for line in lines.lines() {
            match line.to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("host" | "connection", _)) => {}
                _ => headers += &format!("{line}\r\n"),
            }
        }
        up = &up[end + 4..];
        let body;
        (body, up) = up.split_at(length.min(up.len()));
        let upgrades = headers.to_ascii_lowercase().contains("upgrade:");
        all.push((method, Post { path, headers, body: body.to_vec() }));
        if upgrades {
            break;
        }
    }
    all
}
