//! Live rooms over real sockets and the real clock.

use std::time::{Duration, Instant};

use super::support::{
    Server,
    live::{Caller, asked},
    rng, run,
};
use tobari_call::live::messages::ServerMessage;
use tobari_call::live::{Keys, LiveMember, LiveMode, News, OpenedTick, Outgoing, RoomLink, Settings};
use tobari_call::messages::Code;
use tobari_call_edge::connect::{ConnectError, LiveIncoming, connect_live};
use tobari_client::ClientTls;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

fn link(server: &str, settings: Settings) -> RoomLink {
    RoomLink::new(server, "canary-room".parse().unwrap(), settings, &mut rng(1))
}

#[test]
fn three_callers_hear_one_another_exactly_over_sockets() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let mut callers = Vec::new();
        for (seed, level) in [(2, 1000), (3, -40), (4, 7)] {
            callers.push(Caller::enter(&link, seed, level).await.unwrap());
        }
        let mut calls = callers.iter_mut();
        let (one, two, three) = (calls.next().unwrap(), calls.next().unwrap(), calls.next().unwrap());
        tokio::join!(one.call(150), two.call(150), three.call(150));
        for (caller, others) in callers.iter().zip([-33, 1007, 960]) {
            assert_eq!(caller.alarms(), 0, "{:?}", caller.news);
            let whole = caller.heard.iter().filter(|heard| heard.speakers.len() == 3).collect::<Vec<_>>();
            assert!(whole.len() > 40, "{} sums of three", whole.len());
            assert!(whole.iter().all(|heard| heard.samples.iter().all(|sample| *sample == others)));
        }
    });
}

/// The caller's sums that contain another member.
fn of_others(caller: &Caller) -> impl Iterator<Item = &OpenedTick> {
    let own = caller.member.number();
    caller.heard.iter().filter(move |heard| heard.speakers.iter().any(|speaker| speaker != own))
}

#[test]
fn in_the_modes_of_points_two_callers_hear_each_other_over_sockets() {
    run(async {
        let server = Server::start().await;
        for (mode, seed) in [(LiveMode::ElgamalShared, 2), (LiveMode::Elgamal, 4)] {
            let mut link = link(&server.url, Settings { mode, speakers: 2, ..Settings::default() });
            link.room = mode.name().parse().unwrap();
            let said: [i16; 2] = [700, -9];
            let mut one = Caller::enter(&link, seed, said[0]).await.unwrap();
            let mut two = Caller::enter(&link, seed + 1, said[1]).await.unwrap();
            // A slow processor takes longer than a tick to decrypt points. Skipped ticks give it
            // time, and the lead of packets grows until they are in time.
            let pace = Duration::from_millis(100);
            for _ in 0..10 {
                tokio::join!(one.call_every(pace, 20), two.call_every(pace, 20));
                if [&one, &two].iter().all(|caller| of_others(caller).count() > 5) {
                    break;
                }
            }
            for (caller, other) in [(&one, i32::from(said[1])), (&two, i32::from(said[0]))] {
                assert_eq!(caller.alarms(), 0, "{mode}: {:?}", caller.news);
                assert!(of_others(caller).count() > 5, "{mode}: {} sums", of_others(caller).count());
                assert!(of_others(caller).all(|heard| heard.samples.iter().all(|sample| *sample == other)), "{mode}");
            }
        }
    });
}

#[test]
fn callers_agree_on_keys_over_sockets_and_one_comes_and_one_goes_in_the_middle() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings { speakers: 8, keys: Keys::Group, ..Settings::default() });
        let mut one = Caller::enter(&link, 2, 1000).await.unwrap();
        let mut two = Caller::enter(&link, 3, -40).await.unwrap();
        tokio::join!(one.call(150), two.call(150));
        let early = one.member.words();
        assert!(early.is_some() && early == two.member.words(), "{early:?}");
        let mut three = Caller::enter(&link, 4, 7).await.unwrap();
        tokio::join!(one.call(150), two.call(150), three.call(150));
        for (caller, others) in [(&one, -33), (&two, 1007), (&three, 960)] {
            assert_eq!(caller.alarms(), 0, "{:?}", caller.news);
            let whole = caller.heard.iter().filter(|heard| heard.speakers.len() == 3).collect::<Vec<_>>();
            assert!(whole.len() > 20, "{} sums of three", whole.len());
            assert!(whole.iter().all(|heard| heard.samples.iter().all(|sample| *sample == others)));
            assert_eq!(caller.member.words(), one.member.words());
        }
        assert!(one.member.words() != early, "a new member, new keys");
        // the founder leaves: another member makes the commit
        one.outbound.close().await.unwrap();
        drop(one);
        tokio::join!(two.call(150), three.call(150));
        assert!(two.member.words().is_some() && two.member.words() == three.member.words());
        for (caller, other) in [(&two, 7), (&three, -40)] {
            assert_eq!(caller.alarms(), 0, "{:?}", caller.news);
            let last = caller.heard.last().unwrap();
            assert_eq!((last.speakers.len(), last.samples[0]), (2, other));
        }
    });
}

#[test]
fn another_room_under_the_same_name_is_refused_and_so_is_what_is_no_join() {
    run(async {
        let server = Server::start().await;
        let first = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let _inside = Caller::enter(&first, 2, 0).await.unwrap();
        let other = link(&server.url, Settings { speakers: 9, ..Settings::default() });
        match Caller::enter(&other, 3, 0).await {
            Err(ConnectError::Refused { code: Code::Settings, .. }) => {}
            _ => panic!("not refused"),
        }
    });
}

/// The whole answer to a WebSocket request at a closing server.
async fn upgraded(addr: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[test]
fn fault_28_a_closing_server_lets_the_call_go_on_for_a_while_and_tells_newcomers_when_to_come() {
    run(async {
        let server = Server::with(|options| options.limits.drain = Duration::from_secs(1)).await;
        let link = link(&server.url, Settings::default());
        let mut one = Caller::enter(&link, 2, 5).await.unwrap();
        one.call(60).await;
        let (url, addr) = (server.url.clone(), server.addr);
        assert!(asked(addr, "/readyz").await.starts_with("HTTP/1.1 200"));
        let stopping = tokio::spawn(server.stop());
        one.call(20).await;
        assert!(one.is_over().is_none(), "{:?}", one.news);
        let ready = asked(addr, "/readyz").await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("closing\n"), "{ready}");
        assert!(asked(addr, "/healthz").await.starts_with("HTTP/1.1 200"), "it still lives");
        assert!(one.news.iter().any(|news| matches!(news, News::Closing { .. })));
        // check status and text: a broken handshake would also be an error
        let late = Caller::enter(&RoomLink { server: url, ..link.clone() }, 3, 5).await;
        let late = late.err().expect("nobody is let in");
        assert!(matches!(late, ConnectError::Closing { seconds: 1 }), "{late}");
        let words = "the server is shutting down or restarting, and lets nobody in: try again in 1 s";
        assert_eq!(late.to_string(), words);
        for version in ["v1", "v2"] {
            let answer = upgraded(addr, &format!("/call/{version}/canary-room")).await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
            assert!(answer.ends_with(&format!("{words}\n")), "{answer}");
        }
        one.call(60).await;
        assert_eq!(one.is_over(), Some(Some(Code::Shutdown)));
        timeout(Duration::from_secs(4), stopping).await.unwrap().unwrap();
    });
}

#[test]
fn counters_are_served_and_name_nobody() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings::default());
        let mut one = Caller::enter(&link, 2, 5).await.unwrap();
        one.call(70).await;
        let text = asked(server.addr, "/metrics").await;
        assert!(text.contains("tobari_call_rooms 1\n") && text.contains("tobari_call_members 1\n"), "{text}");
        assert!(!text.contains("canary") && !text.contains("127.0.0.1"), "{text}");
    });
}

/// A tapped connection: each chunk towards the server, with its time and length.
async fn tapped(server: std::net::SocketAddr) -> (String, mpsc::UnboundedReceiver<(Instant, usize)>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, tap) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        client.set_nodelay(true).unwrap();
        let upstream = TcpStream::connect(server).await.unwrap();
        upstream.set_nodelay(true).unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), upstream.into_split());
        let down = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count) = from_client.read(&mut buffer).await {
            if count == 0 || to_server.write_all(&buffer[..count]).await.is_err() {
                break;
            }
            let _ = seen.send((Instant::now(), count));
        }
        down.abort();
    });
    (url, tap)
}

#[test]
fn a_wire_that_is_listened_to_does_not_tell_who_speaks() {
    run(async {
        let server = Server::start().await;
        let [(loud_url, mut loud_tap), (still_url, mut still_tap)] =
            [tapped(server.addr).await, tapped(server.addr).await];
        let link = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let at = |url: String| RoomLink { server: url, ..link.clone() };
        let mut loud = Caller::enter(&at(loud_url), 2, 12_000).await.unwrap();
        let mut still = Caller::enter(&at(still_url), 3, 0).await.unwrap();
        tokio::join!(loud.call(80), still.call(80));
        for tap in [&mut loud_tap, &mut still_tap] {
            while tap.try_recv().is_ok() {}
        }
        tokio::join!(loud.call(150), still.call(150));
        assert_eq!((loud.alarms(), still.alarms()), (0, 0));
        let bytes = |tap: &mut mpsc::UnboundedReceiver<(Instant, usize)>| -> Vec<(Instant, usize)> {
            std::iter::from_fn(|| tap.try_recv().ok()).collect()
        };
        let (loud, still) = (bytes(&mut loud_tap), bytes(&mut still_tap));
        // in mode `mask` with eight speakers: 19 bits a word, and the frame of a WebSocket around
        // it
        let packet = 24 + 16 + (321 * 19usize).div_ceil(8) + 8;
        for (who, seen) in [("loud", &loud), ("still", &still)] {
            let whole: usize = seen.iter().map(|(_, count)| count).sum();
            let packets = whole / packet;
            assert!((140..=152).contains(&packets), "{who}: {packets}");
            // whole packets only, except one or two notes
            let rest = whole - packets * packet;
            assert!(rest.is_multiple_of(150) || rest.is_multiple_of(packet), "{who}: {rest} bytes besides");
            let lengths: std::collections::HashSet<usize> =
                seen.iter().map(|(_, count)| count % packet).filter(|rest| *rest != 0).collect();
            assert!(lengths.len() <= 1, "{who}: {lengths:?}");
        }
        let mean_gap = |seen: &[(Instant, usize)]| {
            let span = seen.last().unwrap().0 - seen[0].0;
            span.as_secs_f64() * 1000.0 / (seen.len() - 1) as f64
        };
        let (loud, still) = (mean_gap(&loud), mean_gap(&still));
        assert!(
            (loud - still).abs() < 1.0 && (loud - 20.0).abs() < 2.0,
            "one packet in {loud:.2} ms and in {still:.2} ms"
        );
    });
}

#[test]
fn a_member_that_floods_is_put_out_and_the_others_go_on() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let mut one = Caller::enter(&link, 2, 5).await.unwrap();
        let mut bad = Caller::enter(&link, 3, 6).await.unwrap();
        tokio::join!(one.call(80), bad.call(80));
        let packet = bad.member.frame(&[6; 320], true, &mut bad.rng).unwrap();
        for _ in 0..2000 {
            if bad.outbound.send_packet(packet.clone()).await.is_err() {
                break;
            }
        }
        let removed = loop {
            match bad.inbound.receive().await {
                Ok(LiveIncoming::Message(ServerMessage::Removed { code, .. })) => break Some(code),
                Ok(_) => {}
                Err(_) => break None,
            }
        };
        assert_eq!(removed, Some(Code::Note), "too many messages");
        one.heard.clear();
        one.call(60).await;
        assert!(one.is_over().is_none() && one.heard.iter().any(|heard| heard.speakers.len() == 1));
    });
}

/// The reason why a join is refused.
async fn refused(
    link: &RoomLink,
    join: impl FnOnce(tobari_call::live::messages::Nonce) -> tobari_call::live::messages::Join,
) -> (Code, String) {
    match connect_live(&link.server, &link.room, join, &ClientTls::System).await {
        Err(ConnectError::Refused { code, reason }) => (code, reason),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn fault_21_a_recorded_join_lets_nobody_in() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let (mut recorded, mut rng) = (None, rng(30));
        let join = |nonce| recorded.insert(LiveMember::join(&link, true, nonce)).clone();
        let (welcome, mut outbound, _inbound) =
            connect_live(&link.server, &link.room, join, &ClientTls::System).await.unwrap();
        let mut member = LiveMember::new(&link, "seen", true, &welcome, &mut rng).unwrap();
        while let Some(out) = member.poll_outgoing() {
            outbound.say(out).await.unwrap();
        }
        let recorded = recorded.unwrap();
        // while its room is open, and in a room that an eavesdropper opens
        let other = RoomLink { room: "another".parse().unwrap(), ..link.clone() };
        for link in [&link, &other] {
            let (code, reason) = refused(link, |_| recorded.clone()).await;
            assert!(code == Code::Secret && reason.contains("this connection's challenge"), "{code}: {reason}");
        }
        // nor does its own nonce help in another member's connection
        let mut caller = Caller::enter(&link, 31, 5).await.unwrap();
        caller.call(150).await;
        assert!(caller.heard.len() > 40 && caller.alarms() == 0, "{:?}", caller.news);
    });
}

#[test]
fn fault_21_a_proof_for_another_server_is_refused() {
    run(async {
        // a server without a configured name uses the request's host; one with a name also accepts
        // that name
        let (nameless, named) = (
            Server::start().await,
            Server::with(|options| options.host_names = vec!["Call.Example".parse().unwrap()]).await,
        );
        let of = |server: &str| link(server, Settings { speakers: 8, ..Settings::default() });
        let evil = of("http://evil.example");
        for server in [&nameless, &named] {
            let (code, reason) = refused(&of(&server.url), |nonce| LiveMember::join(&evil, true, nonce)).await;
            assert!(code == Code::Server && reason.contains("evil.example"), "{code}: {reason}");
        }
        let by_name = of("https://call.example:7610/behind");
        let join = |nonce| LiveMember::join(&by_name, true, nonce);
        let (code, _) = refused(&of(&nameless.url), join).await;
        assert_eq!(code, Code::Server, "a name that it does not know");
        connect_live(&named.url, &by_name.room, join, &ClientTls::System).await.unwrap();
        // and an intermediate server cannot make this one answer for the intermediate's name
        let told = answered_as(&named, "evil.example", "/call/v3/room", "").await;
        assert!(told.starts_with("HTTP/1.1 421"), "{told}");
    });
}

/// The server's answer to the first message of a WebSocket at this path.
async fn answered(server: &Server, path: &str, first: &str) -> String {
    answered_as(server, "localhost", path, first).await
}

/// The same with a named host; the refusal if there is no WebSocket.
async fn answered_as(server: &Server, host: &str, path: &str, first: &str) -> String {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = super::support::read_until(&mut stream, b"\r\n\r\n").await;
    if !head.starts_with(b"HTTP/1.1 101") {
        return String::from_utf8_lossy(&head).into_owned();
    }
    stream.write_all(&super::support::frame(0x81, first.as_bytes())).await.unwrap();
    String::from_utf8_lossy(&super::support::read_until(&mut stream, b"}").await).into_owned()
}

#[test]
fn fault_21_whoever_is_older_is_told_to_update() {
    const JOIN: &str = r#"{"type":"join","version":2,"settings":{"mode":"mask","sending":"constant","lobby":false,"speakers":8},"speak":true,"proof":"00000000000000000000000000000000"}"#;
    run(async {
        let server = Server::start().await;
        let told = answered(&server, "/call/v2/room", JOIN).await;
        assert!(told.contains("\"code\":\"version\"") && told.contains("expected 3. Update"), "{told}");
        let asked = answered(&server, "/call/v3/room", "").await;
        assert!(asked.contains("\"type\":\"challenge\",\"nonce\":"), "{asked}");
        // an older server does not have this path
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            super::support::read_until(&mut stream, b"\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        });
        let link = link(&url, Settings::default());
        let join = |nonce| LiveMember::join(&link, true, nonce);
        let error = connect_live(&url, &link.room, join, &ClientTls::System).await.err().unwrap();
        assert!(matches!(error, ConnectError::Older { version: 3, .. }), "{error}");
        assert!(error.to_string().contains("update the server"), "{error}");
    });
}

#[test]
fn fault_20_a_hello_of_noise_puts_its_sender_out_over_sockets_and_the_others_go_on() {
    run(async {
        let server = Server::start().await;
        let link = link(&server.url, Settings { speakers: 8, ..Settings::default() });
        let (mut one, mut two) =
            (Caller::enter(&link, 40, 9).await.unwrap(), Caller::enter(&link, 41, 5).await.unwrap());
        tokio::join!(one.call(100), two.call(100));
        let join = |nonce| LiveMember::join(&link, true, nonce);
        let (welcome, mut outbound, mut inbound) =
            connect_live(&link.server, &link.room, join, &ClientTls::System).await.unwrap();
        let mut noise = vec![7; tobari_call::live::NOTE_BYTES];
        noise[..2].copy_from_slice(&[1, 0x0d]);
        noise[2..10].copy_from_slice(&welcome.room.0);
        let mut member = LiveMember::new(&link, "mallory", true, &welcome, &mut rng(42)).unwrap();
        let Some(Outgoing::Binary(mut hello)) = member.poll_outgoing() else { panic!("no hello") };
        hello[170] ^= 1;
        outbound.say(Outgoing::Binary(hello)).await.unwrap();
        let told = loop {
            match inbound.receive().await.unwrap() {
                LiveIncoming::Message(ServerMessage::Removed { code, reason }) => break (code, reason),
                LiveIncoming::Message(_) | LiveIncoming::Binary(_) => {}
            }
        };
        assert!(told.0 == Code::Hello && told.1.contains("has signed this hello"), "{told:?}");
        // the same for the 142 bytes that silenced rooms of protocol 2
        let join = |nonce| LiveMember::join(&link, true, nonce);
        let (_, mut outbound, mut inbound) =
            connect_live(&link.server, &link.room, join, &ClientTls::System).await.unwrap();
        outbound.say(Outgoing::Binary(noise)).await.unwrap();
        let told = loop {
            match inbound.receive().await.unwrap() {
                LiveIncoming::Message(ServerMessage::Removed { code, .. }) => break code,
                LiveIncoming::Message(_) | LiveIncoming::Binary(_) => {}
            }
        };
        assert_eq!(told, Code::Note);
        tokio::join!(one.call(100), two.call(100));
        let mut three = Caller::enter(&link, 43, 3).await.unwrap();
        tokio::join!(one.call(120), two.call(120), three.call(120));
        for (caller, others) in [(&one, 8), (&two, 12), (&three, 14)] {
            assert_eq!(caller.alarms(), 0, "{:?}", caller.news);
            let heard = caller.heard.last().unwrap();
            assert_eq!((heard.speakers.len(), heard.samples[0]), (3, others));
        }
    });
}
