//! Tokens that an operator changes while the server runs.

use std::time::{Duration, Instant};

use super::{
    Server, served,
    support::{self, run},
};
use tempfile::TempDir;
use tobari_node::token_hash;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

/// Sends one request on a connection that stays open, and returns its status.
async fn ask(stream: &mut TcpStream, token: &str) -> u16 {
    let request = format!("GET /sense/v1/metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = String::from_utf8(support::read_until(stream, b"\r\n\r\n").await).unwrap().to_ascii_lowercase();
    let length = head.split_once("content-length: ").unwrap().1.lines().next().unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head[9..12].parse().unwrap()
}

/// Repeats the request until the answer has this status.
async fn becomes(stream: &mut TcpStream, token: &str, status: u16) {
    let begun = Instant::now();
    while ask(stream, token).await != status {
        assert!(begun.elapsed() < Duration::from_secs(8), "{token}: never {status}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn fault_28_a_removed_token_is_refused_on_the_connection_that_it_has_and_a_bad_file_removes_nobody() {
    run(async {
        let folder = TempDir::new().unwrap();
        let tokens = folder.path().join("tokens");
        let (alice, bob) = (format!("alice {}\n", token_hash("a")), format!("bob {}\n", token_hash("b")));
        std::fs::write(&tokens, format!("{alice}{bob}")).unwrap();
        let server: Server = served(&folder.path().join("sense"), |sense| sense.tokens = Some(tokens.clone())).await;
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        assert_eq!((ask(&mut stream, "a").await, ask(&mut stream, "b").await), (200, 200));
        // alice is removed
        std::fs::write(&tokens, &bob).unwrap();
        becomes(&mut stream, "a", 401).await;
        assert_eq!(ask(&mut stream, "b").await, 200);
        // a mistake in the file, and then no file: bob keeps access, and alice does not get it back
        for bad in [Some("bob\n"), None] {
            bad.map_or_else(|| std::fs::remove_file(&tokens).unwrap(), |bad| std::fs::write(&tokens, bad).unwrap());
            sleep(Duration::from_millis(2500)).await;
            assert_eq!((ask(&mut stream, "a").await, ask(&mut stream, "b").await), (401, 200));
        }
        // corrected, with a new name
        std::fs::write(&tokens, format!("{bob}carol {}\n", token_hash("c"))).unwrap();
        becomes(&mut stream, "c", 200).await;
        assert_eq!((ask(&mut stream, "a").await, ask(&mut stream, "b").await), (401, 200));
    });
}
