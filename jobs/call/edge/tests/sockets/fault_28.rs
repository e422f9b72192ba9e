//! An operator's actions on a running server, and attempts by strangers and web pages.

use std::path::Path;

use super::support::{self, Options, Server, run};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tobari_client::Fingerprint;
use tobari_node::Tls;
use tobari_node::bind;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Writes a new self-signed certificate. Returns its fingerprint.
fn certificate(folder: &Path) -> Fingerprint {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.join("cert.pem"), own.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    Fingerprint::of(own.der())
}

#[test]
fn fault_28_a_new_certificate_is_taken_up_and_a_bad_one_leaves_the_old() {
    use tobari_call_edge::connect::connect;
    use tobari_client::ClientTls;
    run(async {
        let folder = TempDir::new().unwrap();
        let first = certificate(folder.path());
        let mut options = Options::new();
        options.tls = Tls::Files { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        let server = bind(options.house()).await.unwrap();
        let (url, reloader) = (server.url(), server.reloader());
        tokio::spawn(server.run(std::future::pending()));
        let is_served = async |fingerprint| {
            let (room, join) = (support::room_name("renewed"), support::lockstep(1));
            connect(&url, &room, &join, &ClientTls::Pinned(fingerprint)).await.is_ok()
        };
        assert!(is_served(first).await);
        let second = certificate(folder.path());
        assert!(is_served(first).await, "not before it is told");
        reloader.reload();
        assert!(is_served(second).await && !is_served(first).await);
        std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
        reloader.reload();
        assert!(is_served(second).await, "the old one goes on");
        let third = certificate(folder.path());
        reloader.reload();
        assert!(is_served(third).await);
    });
}

/// The answer to a request for this host, with further headers.
async fn answered(server: &Server, path: &str, host: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = support::read_until(&mut stream, b"\r\n\r\n").await;
    if more.contains("close") {
        stream.read_to_end(&mut text).await.unwrap();
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn fault_28_a_page_whose_name_leads_here_gets_no_answer_and_no_web_socket() {
    run(async {
        let own = Server::start().await;
        let behind_proxy = Server::with(|options| options.host_names = vec!["call.example".parse().unwrap()]).await;
        let open = Server::with(|options| options.addr = ([0, 0, 0, 0], 0).into()).await;
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let asked = async |server: &Server, host: &str| {
            let page = answered(server, "/jobs", host, "Connection: close\r\n").await;
            [page, answered(server, "/call/v2/canary", host, upgrade).await]
        };
        let is_served =
            |[page, socket]: &[String; 2]| page.starts_with("HTTP/1.1 200") && socket.starts_with("HTTP/1.1 101");
        for host in ["localhost:7610", "127.0.0.1", "127.3.2.1:9", "[::1]:80"] {
            assert!(is_served(&asked(&own, host).await) && is_served(&asked(&behind_proxy, host).await), "{host}");
        }
        assert!(is_served(&asked(&behind_proxy, "call.example").await));
        assert!(is_served(&asked(&open, "anything.example").await), "reached by others, under names of their own");
        for (server, host) in [(&own, "evil.example"), (&own, "call.example"), (&behind_proxy, "evil.example:443")] {
            let page = answered(server, "/jobs", host, "Connection: close\r\n").await;
            assert!(page.starts_with("HTTP/1.1 421") && page.contains("--host-name"), "{page}");
            let socket = answered(server, "/call/v2/canary", host, upgrade).await;
            assert!(socket.starts_with("HTTP/1.1 421"), "{socket}");
        }
    });
}
