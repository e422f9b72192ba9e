//! Strangers who take scarce things: places for keys, turns, memory, connections. All other clients
//! are served during the attack, after a restart, and afterwards.

use super::load::{posts, status, target};
use super::*;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use support::rude::Post;
use support::tables::files;
use support::tap::{Tap, connect_from};

/// An address of this machine. A server counts each address as another client.
pub(super) type Address = [u8; 4];
pub(super) const ATTACKER: Address = [127, 0, 0, 1];

/// Sends a request from an address; returns the status, the word of a refusal, and the text.
fn send(from: Address, server: &str, request: &[u8]) -> (u16, String, String) {
    let mut stream = connect_from(from, server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(request);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let text = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no reply to {from:?}: {text:?}"));
    let word = head.lines().find_map(|line| line.strip_prefix("tobari-refusal: ")).unwrap_or_default();
    (head[9..12].parse().unwrap(), word.to_owned(), body.trim().to_owned())
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A key for questions, as a client sends it.
pub(super) struct Registration(Vec<u8>);

impl Registration {
    /// The key of a client that has just registered it with the server, and the client's query.
    pub(super) fn of(server: &Server, queries: &str) -> (Self, Post) {
        let (tap, place) = (Tap::to(&server.address()), Tables::new());
        let asked = place.query(&tap.url, &["--queries", queries]);
        assert!(asked.status.success(), "{}", stderr(&asked));
        let mut posts = posts(&tap.take());
        let at = |posts: &[Post], part: &str| posts.iter().position(|post| post.path.contains(part)).unwrap();
        let key = posts.remove(at(&posts, "/keys/"));
        let query = posts.remove(at(&posts, "/queries"));
        (Self(key.body), query)
    }

    /// Registers the key under the name of this number.
    pub(super) fn send(&self, from: Address, server: &str, number: u32) -> (u16, String, String) {
        let name = format!("Tobari-Client: {number:032x}\r\n");
        send(from, server, &post("/search/v1/keys/search", &name, &self.0))
    }
}

/// The number of clients in a data folder.
fn kept(data: &str) -> usize {
    let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.len() == 32).count()
}

/// Queries the server from an address, as in a terminal, with the key in `place` or a new one.
pub(super) fn asks(place: &Tables, from: Address, server: &str, queries: &str) {
    let tap = Tap::from(from, server);
    let asked = place.query(&tap.url, &["--queries", queries]);
    assert!(asked.status.success(), "{from:?}: {}", stderr(&asked));
}

#[test]
fn fault_26_registrations_from_one_address_leave_places_to_others_before_and_after_a_restart() {
    let _alone = alone();
    let (place, folder) = (Tables::new(), tempdir().unwrap());
    let (table, queries) = (place.variants("panel", SITES, '|'), place.write("queries", &questions(5, 3)));
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let args = ["--search", &table, "--data", &data, "--max-clients", "20", "--client-idle", "8"];
    let server = Server::start(&args);
    let (key, _) = Registration::of(&server, &queries);
    // the attack: registrations under ever new names, until the server rejects one
    let taken = (1..200).take_while(|number| key.send(ATTACKER, &server.address(), *number).0 == 204).count();
    assert!((5..=10).contains(&taken), "{taken}");
    let (status, word, text) = key.send(ATTACKER, &server.address(), 999);
    assert_eq!((status, word.as_str()), (429, "clients"), "{text}");
    assert!(text.contains("This address or token already has 10 clients") && text.contains("try again in"), "{text}");
    // the attacker keeps his places in use during the whole test, and tries for more
    let (over, address) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(server.address())));
    let keeping = {
        let (over, address, body) = (Arc::clone(&over), Arc::clone(&address), key.0.clone());
        thread::spawn(move || {
            let key = Registration(body);
            while !over.load(Ordering::Relaxed) {
                for number in (1..=taken as u32).chain([1_000, 1_001]) {
                    let server = address.lock().unwrap().clone();
                    if connect_from(ATTACKER, &server).is_ok() {
                        let _ = std::panic::catch_unwind(|| key.send(ATTACKER, &server, number));
                    }
                }
                thread::sleep(Duration::from_millis(500));
            }
        })
    };
    let honest = [Tables::new(), Tables::new(), Tables::new()];
    asks(&honest[0], [127, 0, 0, 2], &server.address(), &queries);
    asks(&honest[1], [127, 0, 0, 3], &server.address(), &queries);
    let mut server = server;
    server.kill();
    server = Server::start(&args);
    *address.lock().unwrap() = server.address();
    let before = kept(&data);
    asks(&honest[0], [127, 0, 0, 2], &server.address(), &queries);
    assert_eq!(kept(&data), before, "his place is there after the restart");
    assert_eq!(key.send(ATTACKER, &server.address(), 998).0, 429, "and so are the attacker's, which are still his");
    asks(&honest[2], [127, 0, 0, 4], &server.address(), &queries);
    // the attacker keeps his other places; after he stops, new clients get them, but never more
    // than there are
    over.store(true, Ordering::Relaxed);
    keeping.join().unwrap();
    thread::sleep(Duration::from_secs(9));
    for number in 1..=20 {
        let (status, _, text) = key.send([127, 0, 1, number], &server.address(), 2_000 + u32::from(number));
        assert_eq!(status, 204, "{number}: {text}");
    }
    assert_eq!(kept(&data), 20);
    // all places are in use now
    let (status, word, text) = key.send([127, 0, 2, 1], &server.address(), 3_000);
    assert_eq!((status, word.as_str()), (503, "clients"), "{text}");
    assert!(
        text.starts_with("This server already has 20 clients. Ask the server's operator to raise --max-clients"),
        "{text}"
    );
    // a client that lost its place registers again by itself as soon as there is a free place
    thread::sleep(Duration::from_secs(9));
    asks(&honest[0], [127, 0, 0, 2], &server.address(), &queries);
}

#[test]
fn fault_26_whose_place_was_given_away_is_told_and_registers_again() {
    let place = Tables::new();
    let (table, queries) = (place.variants("panel", SITES, '|'), place.write("queries", &questions(5, 3)));
    let server = Server::start(&["--search", &table, "--max-clients", "1", "--client-idle", "1"]);
    let (key, query) = Registration::of(&server, &queries);
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(key.send([127, 0, 0, 2], &server.address(), 5).0, 204, "the one place is somebody else's now");
    let asked = post(&query.path, &query.headers, &query.body);
    let (status, word, text) = send(ATTACKER, &server.address(), &asked);
    assert_eq!((status, word.as_str()), (409, "key"), "{text}");
    thread::sleep(Duration::from_millis(1_500));
    asks(&place, ATTACKER, &server.address(), &queries);
}

/// Folders as all earlier releases wrote them: keys, without their owner and the time of their last
/// use.
#[test]
fn fault_26_places_of_an_earlier_release_are_read_and_given_away() {
    let place = Tables::new();
    let (table, queries) = (place.variants("panel", SITES, '|'), place.write("queries", &questions(5, 3)));
    let (folder, first) = (tempdir().unwrap(), Server::start(&["--search", &table]));
    let (key, _) = Registration::of(&first, &queries);
    first.stop();
    let data = folder.path().join("data");
    let aged = std::time::SystemTime::now() - Duration::from_secs(7_200);
    for number in 0..40 {
        let client = data.join(format!("{number:032x}"));
        std::fs::create_dir_all(&client).unwrap();
        let file = std::fs::File::create(client.join("search.key")).unwrap();
        (&file).write_all(&key.0).unwrap();
        file.set_modified(aged).unwrap();
    }
    let data = data.to_str().unwrap();
    let server = Server::start(&["--search", &table, "--data", data, "--max-clients", "20"]);
    assert_eq!(kept(data), 40);
    asks(&place, [127, 0, 0, 2], &server.address(), &queries);
    assert_eq!(kept(data), 20, "as many as there may be, and the new one is among them");
}

/// A budget keeps a client from reading a whole table: losing a key does not restore the budget.
#[test]
fn fault_26_a_token_has_one_place_and_a_budget_that_outlives_it() {
    let (place, folder) = (Tables::new(), tempdir().unwrap());
    let (table, queries) = (place.variants("panel", SITES, '|'), place.write("queries", &questions(5, 3)));
    let clients = ["mallory", "alice", "bob"].map(|name| place.token(name));
    let tokens = place.write("tokens", &clients.iter().map(|(_, line)| format!("{line}\n")).collect::<String>());
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let args = ["--search", &table, "--tokens", &tokens, "--data", &data, "--max-clients", "2", "--client-idle", "2"];
    let mut server = Server::start(&[&args[..], &["--budget", "4"]].concat());
    let asked = |server: &Server, client: usize, from: Address| {
        let tap = Tap::from(from, &server.address());
        let key = place.path(&format!("key of {client}"));
        if !Path::new(&key).exists() {
            place.good(&["search", "keygen", "-o", &key]);
        }
        place.run(&[
            "search",
            "query",
            "--server",
            &tap.url,
            "--key",
            &key,
            "--token",
            &clients[client].0,
            "--queries",
            &queries,
            "--public",
        ])
    };
    assert!(asked(&server, 0, ATTACKER).status.success(), "three of four tests");
    let left = |server: &Server| {
        let headers = format!("Authorization: Bearer {}\r\nConnection: close\r\n", clients[0].0);
        let (_, _, list) = send(
            ATTACKER,
            &server.address(),
            format!("GET /search/v1 HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes(),
        );
        serde_json::from_str::<Value>(&list).unwrap()["tests_left"].as_u64()
    };
    assert_eq!(left(&server), Some(1));
    thread::sleep(Duration::from_millis(2_500));
    // both places belong to other clients now
    for client in [1, 2] {
        let done = asked(&server, client, [127, 0, 0, 2]);
        assert!(done.status.success(), "{}", stderr(&done));
    }
    assert!(
        !files(Path::new(&data))
            .iter()
            .any(|path| path.ends_with("search.key") && !path.with_file_name("account").exists())
    );
    assert_eq!(left(&server), Some(1), "what was used stays used");
    server.kill();
    server = Server::start(&[&args[..], &["--budget", "4"]].concat());
    assert_eq!(left(&server), Some(1), "after a restart too");
    thread::sleep(Duration::from_millis(2_500));
    let done = asked(&server, 0, ATTACKER);
    assert!(stderr(&done).contains("budget"), "{}", stderr(&done));
}

/// The attack: 64 connections that begin valid requests and send 300 bytes a second each. Returns
/// the server's maximum memory in kB, and those of 24 honest requests that were not answered as
/// without an attack.
fn siege(attackers: &[Address]) -> (usize, Vec<String>) {
    let _alone = alone();
    let house = TestServer::open("info");
    let target = target(&house);
    let address = house.server.address();
    let right = |post_: &Post| post(&post_.path, &post_.headers, &post_.body);
    let usual: Vec<_> = target.posts.iter().map(|post| send(ATTACKER, &address, &right(post)).0).collect();
    let over = AtomicBool::new(false);
    let before = status(house.server.pid(), "VmRSS");
    let wrong = thread::scope(|scope| {
        for number in 0..64 {
            let (post, over, address) = (&target.posts[number % target.posts.len()], &over, &address);
            let from = attackers[number % attackers.len()];
            scope.spawn(move || {
                let length = post.body.len().max(4_000);
                let head = format!(
                    "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{}\r\n",
                    post.path, post.headers
                );
                let begin = || {
                    let mut stream = connect_from(from, address).ok()?;
                    stream.write_all(head.as_bytes()).ok().map(|()| stream)
                };
                let mut stream = begin();
                while !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(100));
                    if stream.as_mut().is_none_or(|stream| stream.write_all(&[7; 30]).is_err()) {
                        stream = begin();
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(2));
        let honest: Vec<_> = (0..24)
            .map(|number: usize| {
                let at = number % target.posts.len();
                let (post, usual, address) = (&target.posts[at], usual[at], &address);
                scope.spawn(move || {
                    let (status, word, text) = send([127, 0, 0, 2 + number as u8], address, &right(post));
                    (status != usual).then(|| format!("{}: {status} and not {usual} ({word}: {text})", post.path))
                })
            })
            .collect();
        let answered: Vec<_> = honest.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // before any result is judged: the senders must end in either case
        over.store(true, Ordering::Relaxed);
        answered.into_iter().filter_map(Result::unwrap).collect::<Vec<String>>()
    });
    let most = status(house.server.pid(), "VmHWM");
    println!("{} of 24 were answered; memory {before} kB before, {most} kB at most", 24 - wrong.len());
    (most, wrong)
}

#[test]
fn fault_27_sixty_four_slow_senders_of_one_address_shut_nobody_out() {
    let (memory, wrong) = siege(&[ATTACKER]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(memory < 768 << 10, "{memory} kB");
}

#[test]
fn fault_27_slow_senders_of_a_few_addresses_shut_nobody_out() {
    let (memory, wrong) = siege(&[[127, 1, 0, 1], [127, 1, 0, 2], [127, 1, 0, 3], [127, 1, 0, 4]]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(memory < 768 << 10, "{memory} kB");
}

/// Sends 60 MB to every route with a body, without a token and without a client's name: the server
/// rejects each request before it has taken more than a little.
#[test]
fn fault_27_sixty_megabytes_of_nobodys_are_refused_unread() {
    let _alone = alone();
    let house = TestServer::open("info");
    let target = target(&house);
    let (_, line) = house._tables.token("alice");
    let tokens = house._tables.write("tokens", &line);
    // folders of its own, and no visitors
    let data = tempdir().unwrap();
    let at = |name: &str| data.path().join(name).to_str().unwrap().to_owned();
    let jobs = ["--search", &house.panel, "--search", &house.keys, "--infer", "digits", "--sense", &at("sense")];
    let rest = ["--hidden", "5,keys", "--hidden-memory", "64MiB", "--data", &at("data"), "--tokens", &tokens];
    let strict = Server::start(&[&jobs[..], &rest].concat());
    for (server, named) in [(&strict, true), (&house.server, false)] {
        for post in &target.posts {
            // where everybody on this machine counts as the key holder, a fleet's own messages may
            // be as long
            if !named && post.path.starts_with("/sense") && !post.path.ends_with("/frames") {
                continue;
            }
            let headers = if named { &post.headers } else { "" };
            let mut stream = connect_from([127, 0, 0, 9], &server.address()).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let length = 60 << 20;
            let head =
                format!("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n", post.path);
            stream.write_all(head.as_bytes()).unwrap();
            let (mut sent, part) = (0, vec![7; 16 << 10]);
            while sent < length
                && let Ok(count @ 1..) = stream.write(&part)
            {
                sent += count;
            }
            let mut reply = [0; 12];
            stream.read_exact(&mut reply).unwrap_or_else(|error| panic!("{}: {error}", post.path));
            let reply = std::str::from_utf8(&reply[9..]).unwrap();
            assert!(["401", "404", "409", "413", "422"].contains(&reply), "{}: {reply}", post.path);
            assert!(sent < 2 << 20, "{}: {sent} bytes were taken", post.path);
        }
    }
}

/// Handshakes that never finish, request heads that trickle in, and answers that nobody reads, many
/// of each: other clients are served.
#[test]
fn fault_27_connections_that_never_get_anywhere_shut_nobody_out() {
    let _alone = alone();
    let house = TestServer::open("info");
    let address = house.server.address();
    let begun: [&[u8]; 4] = [
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        b"GET /call/v3/room HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"GET /web/dist/tobari.wasm HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    let mut held: Vec<_> =
        (0..400).map(|number| connect_from(ATTACKER, &address).map(|stream| (number, stream)).unwrap()).collect();
    for (number, stream) in &mut held {
        let _ = stream.write_all(begun[*number % begun.len()]);
    }
    let began = Instant::now();
    for number in 2..26 {
        let (status, _, text) = send(
            [127, 0, 0, number],
            &address,
            b"GET /search/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(status, 200, "{text}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // no connection outlives its time limit by much
    let ended = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        let mut bytes = vec![0; 1 << 20];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    };
    thread::sleep(Duration::from_secs(12));
    assert!(held.iter_mut().all(|(_, stream)| ended(stream)));
}

/// Unfinished uploads hold memory of their sender's share, and no turn. Every client is served as
/// long as there is memory; a client that finds none tries again.
///
/// In earlier releases, four unfinished uploads took all memory, and this test expected that.
#[test]
fn fault_27_begun_uploads_hold_their_senders_memory_alone_and_a_busy_server_is_asked_again() {
    let _alone = alone();
    let first = Server::start(&["--infer", "digits"]);
    let models: Value = serde_json::from_str(&get(&first.address(), "/infer/v1")).unwrap();
    let length = models["models"][0]["key_bytes"].as_u64().unwrap() as usize;
    let digest = models["models"][0]["digest"].as_str().unwrap().to_owned();
    first.stop();
    let server = Server::start(&["--infer", "digits", "--max-body-memory", &(4 * length).to_string()]);
    let address = server.address();
    let path = format!("/infer/v1/models/{digest}/keys");
    let begin = |_| {
        let mut stream = connect_from(ATTACKER, &address).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &rude::bytes(5, length - 1_000)].concat()).unwrap();
        stream
    };
    // one client may hold a little more than two of four uploads
    let held: Vec<TcpStream> = (0..2).map(begin).collect();
    thread::sleep(Duration::from_secs(1));
    let own = Images::new(&server.url);
    let image = draw(4, &STYLES[2]);
    own.encrypt(&image);
    let other = Tap::from([127, 0, 0, 2], &address);
    let elsewhere = Images::new(&other.url);
    elsewhere.encrypt(&image);
    let came = tobari(&elsewhere.run().iter().map(String::as_str).collect::<Vec<_>>());
    assert!(came.status.success(), "another address: {}", stderr(&came));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tobari"));
    let mut coming = command.args(own.run()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // longer than a request waits before it is rejected
    thread::sleep(Duration::from_secs(4));
    assert!(coming.try_wait().unwrap().is_none(), "the same address waits");
    drop(held);
    let came = coming.wait_with_output().unwrap();
    assert!(came.status.success(), "{}", stderr(&came));
    assert_eq!(own.label(), plain_label(&image));
}
