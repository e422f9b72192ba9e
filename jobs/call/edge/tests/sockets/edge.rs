//! The edge: TLS, HTTP, and clients that are slow, rude or too many.

use std::{net::SocketAddr, path::Path, time::Duration};

use super::support::{self, Caller, Options, Server, frame, keys, lockstep, raw_socket, read_until, room_name, run};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tobari_call::messages::{ClientMessage, Join, Pace};
use tobari_call_edge::connect::{ConnectError, Connection, connect};
use tobari_client::{ClientError, ClientTls, Fingerprint};
use tobari_curve::Curve;
use tobari_node::{ServerError, bind};
use tobari_node::{Tls, TlsError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const SOON: Duration = Duration::from_millis(200);

async fn enter(server: &Server, tls: ClientTls) -> Result<Connection, ConnectError> {
    connect(&server.url, &room_name("secret"), &lockstep(1), &tls).await
}

async fn refuses(server: &Server, tls: ClientTls) {
    match enter(server, tls).await {
        Err(ConnectError::Client(ClientError::Tls { .. })) => {}
        Err(other) => panic!("not a failure of TLS, but: {other}"),
        Ok(_) => panic!("trusted"),
    }
}

/// One call of one tick: the connection works.
async fn call(connection: Connection) {
    let mut caller = Caller::on(connection, &keys(Curve::Secp256k1, 1));
    caller.say(0, -3).await;
    assert_eq!(caller.hear(0).await, (vec![0], -3));
    caller.end().await;
    caller.hears_the_end(1).await;
}

#[test]
fn a_pinned_certificate_is_trusted_and_no_other() {
    run(async {
        let server = Server::with(|options| options.tls = Tls::SelfSigned).await;
        assert!(server.url.starts_with("https://"));
        let fingerprint = server.fingerprint.unwrap();
        call(enter(&server, ClientTls::Pinned(fingerprint)).await.unwrap()).await;
        refuses(&server, ClientTls::Pinned(Fingerprint::of(b"another certificate"))).await;
        refuses(&server, ClientTls::System).await;
        let another = Server::with(|options| options.tls = Tls::SelfSigned).await;
        assert!(another.fingerprint.unwrap() != fingerprint, "each start makes its own");
        refuses(&another, ClientTls::Pinned(fingerprint)).await;
    });
}

#[test]
fn a_wrong_fingerprint_is_told_with_the_one_found() {
    run(async {
        let server = Server::with(|options| options.tls = Tls::SelfSigned).await;
        let wrong = Fingerprint::of(b"");
        let error = enter(&server, ClientTls::Pinned(wrong)).await.err().unwrap().to_string();
        assert!(
            error.contains(&server.fingerprint.unwrap().to_string()) && error.contains(&wrong.to_string()),
            "{error}"
        );
    });
}

/// A certificate authority, and a certificate from it for these names, in PEM files.
fn authority(folder: &Path, names: &[&str]) -> Tls {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    write("ca.pem", authority.pem());
    Tls::Files { cert: write("cert.pem", certificate.pem()), key: write("key.pem", key.serialize_pem()) }
}

#[test]
fn certificates_from_files_are_trusted_by_their_authority_for_their_name() {
    run(async {
        let [folder, foreign] = [(); 2].map(|()| TempDir::new().unwrap());
        let tls = authority(folder.path(), &["127.0.0.1"]);
        authority(foreign.path(), &["127.0.0.1"]);
        let server = Server::with(|options| options.tls = tls).await;
        call(enter(&server, ClientTls::CaFile(folder.path().join("ca.pem"))).await.unwrap()).await;
        call(enter(&server, ClientTls::Pinned(server.fingerprint.unwrap())).await.unwrap()).await;
        refuses(&server, ClientTls::CaFile(foreign.path().join("ca.pem"))).await;
        let tls = authority(folder.path(), &["elsewhere.example"]);
        let server = Server::with(|options| options.tls = tls).await;
        refuses(&server, ClientTls::CaFile(folder.path().join("ca.pem"))).await;
    });
}

#[test]
fn unusable_certificate_files_are_named() {
    run(async {
        let [folder, other] = [(); 2].map(|()| TempDir::new().unwrap());
        let Tls::Files { cert, key } = authority(folder.path(), &["localhost"]) else { unreachable!() };
        let Tls::Files { key: other_key, .. } = authority(other.path(), &["localhost"]) else { unreachable!() };
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        let absent = folder.path().join("absent.pem");
        let start = async |cert: &Path, key: &Path| {
            let mut options = Options::new();
            options.tls = Tls::Files { cert: cert.to_owned(), key: key.to_owned() };
            bind(options.house()).await.map(|_| ())
        };
        assert!(start(&cert, &key).await.is_ok());
        for (cert, key, named) in
            [(&absent, &key, &absent), (&empty, &key, &empty), (&cert, &empty, &empty), (&cert, &cert, &cert)]
        {
            let error = start(cert, key).await.unwrap_err();
            assert!(matches!(&error, ServerError::Tls(TlsError::File { path, .. }) if path == named), "{error}");
        }
        assert!(matches!(start(&cert, &other_key).await, Err(ServerError::Tls(TlsError::Pair(_)))));
        for file in [&absent, &empty, &key] {
            let server = Server::with(|options| options.tls = Tls::SelfSigned).await;
            let error = enter(&server, ClientTls::CaFile(file.clone())).await.err().unwrap();
            assert!(
                matches!(&error, ConnectError::Client(ClientError::CaFile { path, .. }) if path == file),
                "{error}"
            );
        }
    });
}

#[test]
fn a_taken_address_is_an_error_that_names_it() {
    run(async {
        let server = Server::start().await;
        let error = bind(tobari_node::ServerOptions::new(server.addr)).await.err().unwrap();
        assert!(error.to_string().contains(&server.addr.to_string()), "{error}");
    });
}

#[test]
fn urls_that_name_no_server_are_refused_before_anything_is_sent() {
    run(async {
        for url in [
            "",
            "localhost:80",
            "ftp://localhost",
            "http://",
            "http://user@localhost",
            "http://localhost/?q",
            "http://a b",
        ] {
            let error = connect(url, &room_name("r"), &lockstep(1), &ClientTls::System).await.err().unwrap();
            assert!(matches!(error, ConnectError::Client(ClientError::Url { .. })), "{url}: {error}");
        }
    });
}

#[test]
fn ws_is_another_name_for_http_and_a_slash_at_the_end_does_not_matter() {
    run(async {
        let server = Server::start().await;
        for url in [format!("ws://{}", server.addr), format!("http://{}/", server.addr)] {
            let connection = connect(&url, &room_name("ws"), &lockstep(1), &ClientTls::System).await.unwrap();
            assert_eq!(connection.welcome().tick, 0);
        }
    });
}

/// The whole answer to these bytes, until the server closes the connection.
async fn answer(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // The server may have closed the connection already.
    let _ = stream.write_all(request.as_bytes()).await;
    rest(&mut stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset counts as an end.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn the_plain_pages_answer_and_others_do_not() {
    run(async {
        let server = Server::start().await;
        let get = async |path: &str| {
            answer(server.addr, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
        };
        for path in ["/health", "/healthz"] {
            let health = get(path).await;
            assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("\r\n\r\nok"), "{health}");
        }
        assert!(get("/readyz").await.ends_with("\r\n\r\nready\n"));
        let told = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
        let told = answer(server.addr, told).await;
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        let told: serde_json::Value = serde_json::from_str(told.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(told, serde_json::json!({ "ready": true, "jobs": { "call": { "state": "ready" } } }));
        let root = get("/").await;
        assert!(root.starts_with("HTTP/1.1 200") && root.contains("blind server"), "{root}");
        assert!(get("/elsewhere").await.starts_with("HTTP/1.1 404"));
        assert!(get("/call/v1/room").await.starts_with("HTTP/1.1 4"), "not a WebSocket");
        let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
        for name in ["a%20b", "%2e%2e", &"x".repeat(65)] {
            let request =
                format!("GET /call/v1/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n{upgrade}\r\n\r\n");
            let mut stream = TcpStream::connect(server.addr).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let head = read_until(&mut stream, b"\r\n").await;
            assert!(head.starts_with(b"HTTP/1.1 404"), "{name}");
        }
    });
}

#[test]
fn a_client_that_does_not_join_in_time_is_refused() {
    run(async {
        let server = Server::with(|options| options.calls.limits.join = SOON).await;
        let mut stream = raw_socket(&server, "slow").await;
        let said = rest(&mut stream).await;
        assert!(said.contains(r#"{"type":"refused","code":"timeout""#), "{said}");
    });
}

#[test]
fn whatever_is_not_a_join_is_refused_with_a_reason() {
    run(async {
        let server = Server::start().await;
        for (first, code) in [
            (frame(0x81, b"garbage"), "malformed"),
            (frame(0x81, br#"{"type":"end"}"#), "malformed"),
            (frame(0x81, br#"{"type":"join","version":7}"#), "version"),
            (frame(0x81, &[b' '; 2000]), "malformed"),
            (frame(0x81, &[0xFF; 9]), "malformed"),
            (frame(0x82, &[1; 100]), "malformed"),
            (vec![0x82, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], "malformed"),
        ] {
            let mut stream = raw_socket(&server, "garbage").await;
            stream.write_all(&first).await.unwrap();
            let said = read_until(&mut stream, b"}").await;
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains(&format!(r#"{{"type":"refused","code":"{code}""#)), "{said}");
        }
        // Bytes that are no frame at all end the connection.
        let mut stream = raw_socket(&server, "garbage").await;
        stream.write_all(&[0x00; 64]).await.unwrap();
        rest(&mut stream).await;
    });
}

#[test]
fn half_a_request_and_silence_are_cut_off() {
    run(async {
        let server = Server::with(|options| options.limits.handshake = SOON).await;
        for begun in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
            let said = answer(server.addr, begun).await;
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
        }
        // So is a connection after its answer, and one that announces a body and does not send it.
        let head = "HTTP/1.1\r\nHost: localhost\r\n";
        assert!(answer(server.addr, &format!("GET /health {head}\r\n")).await.ends_with("ok"));
        let promised = answer(server.addr, &format!("POST /health {head}Content-Length: 9\r\n\r\n")).await;
        assert!(promised.starts_with("HTTP/1.1 405"), "{promised}");
        let server = Server::with(|options| {
            options.limits.handshake = SOON;
            options.tls = Tls::SelfSigned;
        })
        .await;
        assert_eq!(answer(server.addr, "").await, "");
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_places_come_free_again() {
    run(async {
        let server = Server::with(|options| options.limits.connections = 2).await;
        let live = Join::new(Pace::Live, Curve::Secp256k1);
        let first = server.enter("limit", &live).await.unwrap();
        let _second = server.enter("limit", &live).await.unwrap();
        assert_eq!(answer(server.addr, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await, "");
        drop(first);
        // The server notices later.
        while server.enter("limit", &live).await.is_err() {}
    });
}

#[test]
fn a_removed_member_that_goes_on_sending_is_cut_off() {
    run(async {
        let server = Server::with(|options| options.limits.grace = SOON).await;
        let mut stream = raw_socket(&server, "deaf").await;
        stream.write_all(&frame(0x81, b"garbage")).await.unwrap();
        while stream.write_all(&frame(0x81, &[b' '; 1000])).await.is_ok() {}
    });
}

/// A hand-written WebSocket through a proxy that forwards the client's address; and the first line
/// of the answer.
async fn through_a_proxy(server: &Server, room: &str, client: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!(
        "GET /call/v1/{room} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         X-Forwarded-For: 203.0.113.200, {client}\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = String::from_utf8_lossy(&read_until(&mut stream, b"\r\n\r\n").await).into_owned();
    (stream, head.lines().next().unwrap().to_owned())
}

/// The server's answer to a join through the proxy.
async fn join_through(server: &Server, room: &str, client: &str) -> (TcpStream, String) {
    let (mut stream, head) = through_a_proxy(server, room, client).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let join = ClientMessage::Join(Join::new(Pace::Live, Curve::Secp256k1)).to_text();
    stream.write_all(&frame(0x81, join.as_bytes())).await.unwrap();
    let said = read_until(&mut stream, b"}").await;
    (stream, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn behind_a_proxy_one_client_takes_neither_all_connections_nor_all_rooms() {
    run(async {
        let server = Server::with(|options| {
            options.behind_proxy = true;
            (options.limits.client_connections, options.calls.limits.client_rooms) = (3, 1);
            options.limits.grace = support::PATIENCE; // refused clients stay connected
        })
        .await;
        let (_one, said) = join_through(&server, "a", "192.0.2.1").await;
        assert!(said.contains("welcome"), "{said}");
        let (_two, said) = join_through(&server, "b", "192.0.2.1").await;
        assert!(said.contains(r#""code":"full""#) && said.contains("one client has 1 rooms open"), "{said}");
        let (_three, said) = join_through(&server, "a", "192.0.2.1").await;
        assert!(said.contains("welcome"), "a room that is open is no new one: {said}");
        let (_four, head) = through_a_proxy(&server, "a", "192.0.2.1").await;
        assert!(head.starts_with("HTTP/1.1 429"), "{head}");
        let (_other, said) = join_through(&server, "b", "192.0.2.2").await;
        assert!(said.contains("welcome"), "another client is not asked: {said}");
    });
}
