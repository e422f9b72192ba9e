//! Shared code for tests of servers over real sockets: a server on a free port. The jobs' tests use
//! it, too.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::{future::Future, net::SocketAddr, time::Duration};

use tobari_client::Fingerprint;
use tobari_node::{ServerOptions, bind};
use tokio::{io::AsyncReadExt, net::TcpStream, runtime::Runtime, sync::oneshot, task::JoinHandle, time::timeout};

/// Far longer than anything here takes: a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on two threads, and fails it if it hangs.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(async { timeout(PATIENCE, test).await.expect("the test hangs") })
}

/// Options of a server on a free port of this machine, without a job.
pub(crate) fn on_any_port() -> ServerOptions {
    ServerOptions::new(([127, 0, 0, 1], 0).into())
}

/// A server in this process; tests use it over its sockets only.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) addr: SocketAddr,
    pub(crate) fingerprint: Option<Fingerprint>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn of(options: ServerOptions) -> Self {
        let server = bind(options).await.unwrap();
        let (url, addr, fingerprint) = (server.url(), server.local_addr(), server.certificate_fingerprint());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { url, addr, fingerprint, stop, running }
    }

    /// Asks the server to close and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

/// Reads up to and including these bytes, and not beyond.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.windows(end.len()).any(|window| window == end) {
        read.push(stream.read_u8().await.unwrap());
    }
    read
}
