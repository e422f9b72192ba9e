//! Temporary fleets over HTTP: the rights to have one, its limits, and that nothing of it stays.

use super::{
    served,
    support::{self, Server, run},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tobari_node::token_hash;
use tobari_sense_edge::serve::SenseOptions;
use tobari_sense_files::FrameStore;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

struct Answer {
    status: u16,
    word: Option<String>,
    body: Vec<u8>,
}

/// The header with a visitor's secret.
fn secret(byte: u8) -> String {
    format!("Tobari-Passing: {}\r\n", format!("{byte:02x}").repeat(32))
}

async fn ask(server: &Server, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let length = body.len();
    let head = format!(
        "{method} /sense/v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // a server that rejects a request need not read all of it
    let _ = stream.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Answer { status: 0, word: None, body: Vec::new() }; // it closed the connection
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        word: head.lines().find_map(|line| line.strip_prefix("tobari-refusal: ")).map(str::to_owned),
        body: bytes[end + 4..].to_vec(),
    }
}

fn fleet(number: u8) -> String {
    format!("/fleets/{number:016x}")
}

fn bundle(number: u8, profile: &str) -> Vec<u8> {
    let bundle =
        json!({ "fleet": format!("{number:016x}"), "profile": profile, "devices": [], "cohorts": [], "keys": {} });
    bundle.to_string().into_bytes()
}

/// Makes a fleet, and returns status and word.
async fn make(server: &Server, number: u8, headers: &str) -> (u16, Option<String>) {
    let answer = ask(server, "POST", &fleet(number), headers, &bundle(number, "u25")).await;
    (answer.status, answer.word)
}

async fn status(server: &Server, method: &str, path: &str, headers: &str) -> u16 {
    ask(server, method, path, headers, b"").await.status
}

fn word(status: u16, word: &str) -> (u16, Option<String>) {
    (status, Some(word.to_owned()))
}

/// The number of fleets in a folder.
fn kept(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.len() == 16).count()
}

/// Waits until the tasks of a stopped server have released a fleet's store. Normally the end of the
/// process releases it.
async fn closed(folder: &Path, number: u8) {
    let name = fleet(number).rsplit_once('/').unwrap().1.to_owned();
    let begun = Instant::now();
    while let Err(error) = FrameStore::open(&folder.join(&name).join("frames.redb")) {
        assert!(begun.elapsed() < support::PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_fleet_of_a_visitors_is_whose_secret_made_it_and_is_gone_when_it_ends() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(folder.path(), |_| ()).await;
        assert_eq!(make(&server, 1, &secret(1)).await, (201, None));
        assert_eq!(make(&server, 1, &secret(2)).await, word(404, "fleet"), "a name that is taken");
        let at = fleet(1);
        for (headers, expected) in [(secret(1), 200), (secret(2), 404), (String::new(), 404)] {
            assert_eq!(status(&server, "GET", &at, &headers).await, expected);
            let object = format!("{at}/objects/{}", "0".repeat(64));
            assert_eq!(status(&server, "GET", &object, &headers).await, 404);
        }
        // anybody with the name may see the server's data of the fleet
        let held: Value =
            serde_json::from_slice(&ask(&server, "GET", &format!("{at}/held"), "", b"").await.body).unwrap();
        assert_eq!(
            (&held["frames"], &held["devices"], &held["up"]),
            (&json!(0), &json!(0), &json!(bundle(1, "u25").len()))
        );
        let offered: Value = serde_json::from_slice(&ask(&server, "GET", "", "", b"").await.body).unwrap();
        assert_eq!((&offered["passing"]["room"], &offered["passing"]["places"]), (&json!(7), &json!(8)));
        // neither another visitor nor a key holder can end it
        for (headers, expected) in [(secret(2), 404), (String::new(), 404), (secret(1), 204), (secret(1), 404)] {
            assert_eq!(status(&server, "DELETE", &at, &headers).await, expected);
        }
        assert_eq!(status(&server, "GET", &format!("{at}/held"), "").await, 404);
        assert_eq!((kept(&folder.path().join("passing")), kept(folder.path())), (0, 0), "nothing is left");
        // a permanent fleet is not a temporary one
        assert_eq!(make(&server, 2, "").await, (201, None));
        assert_eq!(make(&server, 2, &secret(1)).await, word(404, "fleet"));
        assert_eq!(
            status(&server, "GET", &format!("{}/held", fleet(2)), "").await,
            404,
            "nobody sees what is held of it"
        );
        let stays = ask(&server, "DELETE", &fleet(2), "", b"").await;
        assert_eq!((stays.status, stays.word.as_deref()), (409, Some("stays")));
        // a start removes leftovers
        assert_eq!(make(&server, 3, &secret(1)).await, (201, None));
        assert_eq!(kept(&folder.path().join("passing")), 1);
        server.stop().await;
        closed(folder.path(), 2).await;
        let again = served(folder.path(), |_| ()).await;
        assert_eq!(kept(&folder.path().join("passing")), 0);
        assert_eq!(status(&again, "GET", &fleet(3), &secret(1)).await, 404);
        assert_eq!(status(&again, "GET", &fleet(2), "").await, 200);
        again.stop().await;
    });
}

/// The attack: a web page, of this origin or another, makes its visitor's browser register fleets.
#[test]
fn no_page_makes_a_fleet_that_stays() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(folder.path(), |_| ()).await;
        for origin in [format!("http://{}", server.addr), "https://other.example".to_owned(), "null".to_owned()] {
            let origin = format!("Origin: {origin}\r\n");
            assert_eq!(make(&server, 1, &origin).await, word(403, "page"));
            let object = ask(&server, "POST", &format!("{}/objects/{}", fleet(1), "0".repeat(64)), &origin, b"x").await;
            assert_eq!(object.word.as_deref(), Some("page"));
            // a browser does not send this header to another origin without asking first, and the
            // server does not answer that request
            let asked = ask(&server, "OPTIONS", &fleet(1), &origin, b"").await;
            assert_eq!(asked.status, 405);
            assert_eq!(make(&server, 2, &(secret(1) + &origin)).await, (201, None));
        }
        assert_eq!((kept(folder.path()), kept(&folder.path().join("passing"))), (0, 1));
        server.stop().await;
    });
}

#[test]
fn what_a_visitors_fleet_may_be_and_send_is_bounded() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(folder.path(), |_| ()).await;
        for number in 1..=8 {
            assert_eq!(make(&server, number, &secret(number)).await, (201, None));
        }
        assert_eq!(make(&server, 9, &secret(9)).await, word(507, "quota"));
        assert_eq!(make(&server, 9, "").await, (201, None), "those that stay have room of their own");
        assert_eq!(status(&server, "DELETE", &fleet(8), &secret(8)).await, 204);
        let p1 = ask(&server, "POST", &fleet(9), &secret(1), &bundle(9, "p1")).await;
        assert_eq!(p1.word.as_deref(), Some("message"), "what takes seconds is not for visitors");
        let question = |more: Value| {
            let mut order = json!({ "profile": "u25", "length_ms": 1000, "every_ms": 1000, "groups": [[1]], "frames": 1, "least_devices": 1 });
            order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            order.to_string().into_bytes()
        };
        let at = format!("{}/questions/{}", fleet(1), "0".repeat(16));
        for more in [
            json!({ "part": 1 }),
            json!({ "frames": 17 }),
            json!({ "length_ms": 999 }),
            json!({ "every_ms": 10 }),
            json!({ "groups": [[1], [2], [3], [4], [5]] }),
        ] {
            let refused = ask(&server, "POST", &at, &secret(1), &question(more.clone())).await;
            assert_eq!((refused.status, refused.word.as_deref()), (422, Some("message")), "{more}");
        }
        assert_eq!(ask(&server, "POST", &at, &secret(1), &question(json!({}))).await.status, 201);
        // limits in bytes: for one message, and for all
        let object = |byte: u8, length: usize| {
            let bytes = vec![byte; length];
            (format!("{}/objects/{}", fleet(1), token_hash_of(&bytes)), bytes)
        };
        let (path, bytes) = object(0, (1 << 20) + 1);
        assert!(matches!(ask(&server, "POST", &path, &secret(1), &bytes).await.status, 0 | 413));
        assert_eq!(status(&server, "GET", &path, &secret(1)).await, 404);
        let spaces = [bundle(1, "u25"), vec![b' '; 1 << 16]].concat();
        assert!(matches!(ask(&server, "POST", &fleet(1), &secret(1), &spaces).await.status, 0 | 413));
        for byte in 0..16 {
            let (path, bytes) = object(byte, 1 << 20);
            let kept = ask(&server, "POST", &path, &secret(1), &bytes).await;
            // the bundle and the question use part of the sixteenth
            let expected = if byte < 15 { (201, None) } else { (507, Some("spent".to_owned())) };
            assert_eq!((kept.status, kept.word), expected, "object {byte}");
        }
        server.stop().await;
    });
}

/// SHA-256 as hexadecimal digits.
fn token_hash_of(bytes: &[u8]) -> String {
    tobari_client::Fingerprint::of(bytes).to_string()
}

#[test]
fn visitors_need_a_token_where_key_holders_do_unless_they_are_let_in() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens");
        std::fs::write(&tokens, format!("alice {}\n", token_hash("a"))).unwrap();
        let token = "Authorization: Bearer a\r\n";
        for visitors in [false, true] {
            let data = folder.path().join(format!("data-{visitors}"));
            let server = served(&data, |sense| {
                (sense.tokens, sense.visitors) = (Some(tokens.clone()), visitors);
            })
            .await;
            let expected = if visitors { 200 } else { 401 };
            assert_eq!(status(&server, "GET", "", "").await, expected);
            assert_eq!(make(&server, 1, &secret(1)).await.0, if visitors { 201 } else { 401 });
            assert_eq!(make(&server, 2, &(secret(1) + token)).await.0, 201);
            assert_eq!((make(&server, 3, "").await.0, make(&server, 3, token).await.0), (401, 201), "those that stay");
            server.stop().await;
        }
        // reachable by others, and for visitors only
        let mut sense = SenseOptions::new(folder.path().join("open"));
        sense.visitors = true;
        let mut house = support::on_any_port();
        house.addr = ([0, 0, 0, 0], 0).into();
        house.jobs.push(Box::new(sense));
        let mut server = Server::of(house).await;
        server.addr = ([127, 0, 0, 1], server.addr.port()).into();
        assert_eq!((make(&server, 1, &secret(1)).await.0, make(&server, 2, "").await.0), (201, 401));
        server.stop().await;
    });
}
