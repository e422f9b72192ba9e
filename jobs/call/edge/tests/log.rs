//! The server's log names events and reasons, but no member and no content.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    io,
    sync::{Arc, Mutex},
};

use support::{Caller, Keys, Server, keys, lockstep, run, shared_keys, shared_lockstep};
use tobari_call::client::{Decrypt, Encrypt};
use tobari_call::messages::Join;
use tobari_curve::Curve;
use tracing_subscriber::fmt::MakeWriter;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A call of two in which one member is removed. The reasons in the log must reveal nothing more.
/// Returns that member's valid packet.
async fn one_is_removed<E: Encrypt, D: Decrypt>(server: &Server, join: &Join, keys: &Keys<E, D>) -> Vec<u8> {
    let mut one = Caller::enter(server, "canary-of-a-name", join, keys).await;
    let mut two = Caller::enter(server, "canary-of-a-name", join, keys).await;
    let packet = one.packet(0, 31_415);
    one.connection.send_packet(packet.clone()).await.unwrap();
    two.say(0, 0).await;
    assert_eq!(one.hear(0).await.1, 31_415);
    let mut damaged = packet.clone();
    damaged.truncate(1000);
    one.connection.send_packet(damaged).await.unwrap();
    one.is_removed().await;
    two.end().await;
    assert_eq!(two.hear(0).await.1, 31_415);
    two.hears_the_end(1).await;
    packet
}

#[test]
fn the_log_tells_what_happens_but_no_name_address_or_point() {
    let log = Log::default();
    let level = tracing_subscriber::filter::LevelFilter::TRACE;
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time().with_writer(log.clone()).init();
    let (packets, port) = run(async {
        let server = Server::start().await;
        let (per_sample, shared) = (keys(Curve::Secp256k1, 2), shared_keys(Curve::Secp256k1, 2));
        let packets = [
            one_is_removed(&server, &lockstep(2), &per_sample).await,
            one_is_removed(&server, &shared_lockstep(2), &shared).await,
        ];
        let port = server.addr.port();
        server.stop().await;
        (packets, port)
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for told in ["room opened", "member removed", "truncated", "room closed"] {
        assert!(log.contains(told), "{told:?} is missing:\n{log}");
    }
    let head = packets[1].len() - (320 + 1) * 32 - 41;
    for point in packets.iter().flat_map(|packet| packet[head..head + 20 * 32].chunks(32)) {
        let hex: String = point[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let decimal: Vec<String> = point[..8].iter().map(u8::to_string).collect();
        assert!(!log.to_lowercase().contains(&hex) && !log.contains(&decimal.join(", ")));
    }
    for secret in ["canary-of-a-name", "127.0.0.1"] {
        assert!(!log.contains(secret), "{secret:?} is in the log:\n{log}");
    }
    // As whole words: the room's random number may hold any digits.
    for word in log.split(|letter: char| !letter.is_alphanumeric()) {
        assert!(word != "31415" && word != port.to_string(), "{word:?} is in the log:\n{log}");
    }
}
