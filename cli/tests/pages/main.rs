//! The pages as the server delivers them: their files, their headers, their fingerprint, and a
//! server with other pages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "../../../crates/node/tests/support/mod.rs"]
mod support;

use std::{collections::HashMap, path::Path};

use support::{Server, on_any_port, run};
use tobari_call_edge::CallOptions;
use tobari_cli::pages::bundle;
use tobari_client::Fingerprint;
use tobari_node::{ServerError, ServerOptions, bind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A server like the program's, with calls.
fn house() -> ServerOptions {
    let mut house = on_any_port();
    house.jobs.push(Box::new(CallOptions::default()));
    house.pages = vec![
        tobari_call_edge::PAGE,
        tobari_infer_edge::serve::PAGE,
        tobari_search_edge::serve::PAGE,
        tobari_sense_edge::serve::PAGE,
    ];
    house.bundle = bundle();
    house
}

async fn with(change: impl FnOnce(&mut ServerOptions)) -> Server {
    let mut house = house();
    change(&mut house);
    Server::of(house).await
}

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

async fn get(server: &Server, path: &str, more: &str) -> Answer {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let (first, rest) = head.split_once("\r\n").unwrap();
    let headers = rest.lines().map(|line| line.split_once(": ").unwrap());
    Answer {
        status: first.split(' ').nth(1).unwrap().parse().unwrap(),
        headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
        body: bytes[end + 4..].to_vec(),
    }
}

/// The fingerprint of the downloaded files, as anybody can compute it.
async fn downloaded(server: &Server) -> Fingerprint {
    let mut lines = String::new();
    for name in bundle().names() {
        let answer = get(server, &format!("/web/{name}"), "").await;
        assert_eq!(answer.status, 200, "{name}");
        lines += &format!("{}  {name}\n", Fingerprint::of(&answer.body));
    }
    Fingerprint::of(lines.as_bytes())
}

#[test]
fn what_is_served_has_the_fingerprint_that_the_program_tells() {
    run(async {
        let server = with(|_| {}).await;
        assert_eq!(downloaded(&server).await, bundle().digest());
        let page = get(&server, "/web/call.html", "").await.body;
        for path in ["/call/", "/call/some-room"] {
            let answer = get(&server, path, "").await;
            assert_eq!((answer.status, &answer.headers["content-type"][..9]), (200, "text/html"));
            assert!(answer.body == page, "{path}: one page for all rooms");
        }
        server.stop().await;
    });
}

#[test]
fn every_answer_keeps_what_is_not_the_pages_own_out() {
    run(async {
        let server = with(|_| {}).await;
        let mut paths: Vec<String> = bundle().names().map(|name| format!("/web/{name}")).collect();
        paths.extend(["/call/room", "/infer/", "/search/", "/sense/", "/jobs", "/web/no-such-file"].map(str::to_owned));
        for path in paths {
            let headers = get(&server, &path, "").await.headers;
            let policy = &headers["content-security-policy"];
            assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
            assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'") && !policy.contains('*'));
            for (name, value) in [
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-embedder-policy", "require-corp"),
                ("cross-origin-resource-policy", "same-origin"),
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
            ] {
                assert_eq!(headers[name], value, "{path}");
            }
        }
        let wasm = get(&server, "/web/dist/tobari.wasm", "").await;
        assert_eq!(wasm.headers["content-type"], "application/wasm");
        assert!(wasm.body.starts_with(b"\0asm") && wasm.body.len() < 2_000_000, "{} bytes", wasm.body.len());
        for (name, most) in [("ask", 1_000_000), ("sense", 1_000_000), ("tobari-mls", 3_000_000)] {
            let asking = get(&server, &format!("/web/dist/{name}.wasm"), "").await;
            assert!(asking.body.starts_with(b"\0asm") && asking.body.len() < most, "{} bytes", asking.body.len());
        }
        for path in ["/web/../Cargo.toml", "/web/%2e%2e/Cargo.toml", "/web/", "/web/dist"] {
            assert_eq!(get(&server, path, "").await.status, 404, "{path}");
        }
        server.stop().await;
    });
}

#[test]
fn the_page_of_live_rooms_may_call_the_servers_that_are_named_and_other_pages_may_not() {
    run(async {
        let named = ["https://call.example", "http://127.0.0.1:7610"].map(|server| server.parse().unwrap());
        let server = with(move |options| options.web_servers = named.to_vec()).await;
        let wide =
            "connect-src 'self' https://call.example wss://call.example http://127.0.0.1:7610 ws://127.0.0.1:7610;";
        for path in ["/call/", "/call/room", "/web/call.html", "/web/worker.js"] {
            let policy = &get(&server, path, "").await.headers["content-security-policy"];
            assert!(
                policy.contains(wide) && policy.contains("script-src 'self' 'wasm-unsafe-eval';"),
                "{path}: {policy}"
            );
        }
        for path in ["/", "/infer/", "/search/", "/sense/", "/jobs", "/web/sense-worker.js", "/web/none"] {
            let policy = &get(&server, path, "Accept: text/html\r\n").await.headers["content-security-policy"];
            assert!(policy.contains("connect-src 'self';"), "{path}: {policy}");
        }
        server.stop().await;
    });
}

#[test]
fn people_are_shown_the_way_to_the_page_and_programs_a_line() {
    run(async {
        let server = with(|_| {}).await;
        let person = get(&server, "/", "Accept: text/html,*/*;q=0.8\r\n").await;
        assert_eq!(person.status, 200);
        assert!(person.body == get(&server, "/web/start.html", "").await.body, "the page of all jobs");
        assert!(person.headers["content-security-policy"].starts_with("default-src 'none'"));
        assert!(get(&server, "/", "").await.body.starts_with(b"Tobari: "), "a line for programs");
        let jobs = get(&server, "/jobs", "").await.body;
        assert_eq!(String::from_utf8(jobs).unwrap(), r#"{"call":true,"infer":false,"search":false,"sense":false}"#);
        assert_eq!(get(&server, "/infer", "").await.headers["location"], "infer/");
        assert_eq!(get(&server, "/call", "").await.headers["location"], "call/");
        let tag = get(&server, "/web/main.js", "").await.headers["etag"].clone();
        assert_eq!(get(&server, "/web/main.js", &format!("If-None-Match: {tag}\r\n")).await.status, 304);
        server.stop().await;
    });
}

fn copy_to(folder: &Path) {
    std::fs::create_dir_all(folder.join("dist")).unwrap();
    for name in bundle().names() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web").join(name);
        std::fs::copy(from, folder.join(name)).unwrap();
    }
}

/// The attack: the server's operator changes the code that holds the keys.
#[test]
fn a_page_with_one_byte_changed_has_another_fingerprint_than_tobari_info_tells() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        copy_to(folder.path());
        let served = |folder: &Path| {
            let folder = folder.to_owned();
            with(move |options| options.web = Some(folder))
        };
        let honest = served(folder.path()).await;
        assert_eq!(downloaded(&honest).await, bundle().digest(), "the same files from a folder");
        for name in bundle().names() {
            let (path, usual) = (folder.path().join(name), std::fs::read(folder.path().join(name)).unwrap());
            let mut changed = usual.clone();
            changed[usual.len() / 2] ^= 1;
            std::fs::write(&path, changed).unwrap();
            let dishonest = served(folder.path()).await;
            assert!(downloaded(&dishonest).await != bundle().digest(), "{name}");
            std::fs::write(&path, usual).unwrap();
        }
        std::fs::remove_file(folder.path().join("worker.js")).unwrap();
        let mut options = house();
        options.web = Some(folder.path().to_owned());
        let Err(error) = bind(options).await else { panic!("a page without its worker is served") };
        assert!(matches!(error, ServerError::Web(_)) && error.to_string().contains("worker.js"), "{error}");
    });
}
