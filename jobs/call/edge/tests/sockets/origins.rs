//! Requests by web pages of other origins.

use super::support::{Server, run};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Opens a WebSocket as a browser does from a page of that origin; the status of the answer.
async fn opened(server: &Server, path: &str, origin: Option<&str>) -> u16 {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let origin = origin.map_or(String::new(), |origin| format!("Origin: {origin}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{origin}\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    std::str::from_utf8(&first[9..]).unwrap().parse().unwrap()
}

#[test]
fn a_page_of_another_origin_may_call_unless_the_server_names_those_that_may() {
    run(async {
        let open = Server::start().await;
        let named = Server::with(|options| options.web_origins = vec!["https://call.example".parse().unwrap()]).await;
        for path in ["/call/v3/room", "/call/v2/room", "/call/v1/room"] {
            for origin in ["https://call.example", "https://other.example", "null"] {
                assert_eq!(opened(&open, path, Some(origin)).await, 101, "{path} {origin}");
                let expected = if origin == "https://call.example" { 101 } else { 403 };
                assert_eq!(opened(&named, path, Some(origin)).await, expected, "{path} {origin}");
            }
            // its own page, without a configured name; and a program
            let own = format!("http://{}", named.addr);
            assert_eq!(
                (opened(&named, path, Some(&own)).await, opened(&named, path, None).await),
                (403, 101),
                "{path}"
            );
        }
    });
}
