//! Calls over real sockets with real encryption: members hear the plaintext sum, and a bad member
//! harms only itself.

use std::time::Duration;

use super::support::{self, Caller, Keys, Server, keys, lockstep, parameters, run};
use tobari_call::PACKET_SAMPLES;
use tobari_call::messages::{ClientMessage, Code, Join, Pace};
use tobari_call::program::mix;
use tobari_call_edge::connect::{ConnectError, Incoming, connect};
use tobari_client::{ClientError, ClientTls};
use tobari_curve::{
    Curve, PointEncoding,
    elgamal::Ciphertexts,
    wire::{self, RoomId},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

const K1: Curve = Curve::Secp256k1;

/// One speaker's whole call: sends its recording, and returns the decrypted sums.
async fn call(mut caller: Caller, recording: Vec<i16>) -> Vec<i32> {
    let (mut outbound, mut inbound) = {
        let Caller { connection, .. } = caller;
        connection.split()
    };
    let mut speaker = caller.speaker;
    let window = 32;
    let sending = async {
        // The window is wider than these recordings.
        for (tick, frame) in (0..window).zip(recording.chunks(PACKET_SAMPLES)) {
            let frame: Vec<i32> = frame.iter().map(|&sample| sample.into()).collect();
            outbound.send_packet(speaker.packet(tick, &frame, &mut caller.rng).unwrap()).await.unwrap();
        }
        outbound.send(&ClientMessage::End {}).await.unwrap();
    };
    let hearing = async {
        let mut heard = Vec::new();
        loop {
            match inbound.receive().await.unwrap() {
                Incoming::Sum(sum) => heard.extend_from_slice(&caller.listener.open(&sum).unwrap().samples),
                Incoming::Ended { ticks } => {
                    assert_eq!(ticks as usize * PACKET_SAMPLES, heard.len());
                    return heard;
                }
                Incoming::Closed { .. } => panic!("a listener gets sums"),
            }
        }
    };
    tokio::join!(sending, hearing).1
}

fn recording(speaker: i32, packets: i32) -> Vec<i16> {
    let samples = 0..packets * 320;
    samples.map(|i| i16::try_from((i * i * 7 + speaker * 9973 + i * 131) % 65_536 - 32_768).unwrap()).collect()
}

#[test]
fn two_and_three_speakers_hear_the_exact_sum() {
    run(async {
        let server = Server::start().await;
        for count in [2, 3] {
            let keys = keys(K1, 3);
            let voices: Vec<_> = (0..count).map(|speaker| recording(speaker, 4 - speaker)).collect();
            let mut calls = Vec::new();
            for voice in &voices {
                let members = u16::try_from(count).unwrap();
                let caller = Caller::enter(&server, "sum", &lockstep(members), &keys).await;
                calls.push(tokio::spawn(call(caller, voice.clone())));
            }
            let expected = mix(&voices.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for call in calls {
                assert_eq!(call.await.unwrap(), expected, "{count} speakers");
            }
        }
    });
}

#[test]
fn both_encodings_up_and_down_carry_the_same_sum() {
    run(async {
        let server = Server::start().await;
        let keys = keys(K1, 2);
        let wide = Join { downlink: PointEncoding::Uncompressed, ..lockstep(2) };
        let mut one = Caller::enter(&server, "encodings", &wide, &keys).await;
        let mut two = Caller::enter(&server, "encodings", &lockstep(2), &keys).await;
        let packet =
            wire::encode_packet(one.connection.welcome().room, 0, 0, PointEncoding::Uncompressed, &one.ciphertexts(-5));
        one.connection.send_packet(packet).await.unwrap();
        two.say(0, 12).await;
        assert_eq!(one.hear(0).await, (vec![0, 1], 7));
        assert_eq!(two.hear(0).await, (vec![0, 1], 7));
    });
}

#[test]
fn a_speaker_that_does_not_listen_and_a_listener_that_does_not_speak_have_their_call() {
    run(async {
        let server = Server::start().await;
        let keys = keys(K1, 1);
        let mut ear = Caller::enter(&server, "halves", &Join { speak: false, ..lockstep(1) }, &keys).await;
        let mut mouth = Caller::enter(&server, "halves", &Join { listen: false, ..lockstep(1) }, &keys).await;
        // More ticks than the window: neither can continue without the other.
        for tick in 0..40 {
            mouth.say(tick, 3).await;
            assert_eq!(mouth.connection.receive().await.unwrap(), Incoming::Closed { tick });
            assert_eq!(ear.hear(tick).await, (vec![1], 3));
        }
        mouth.end().await;
        mouth.hears_the_end(40).await;
        ear.hears_the_end(40).await;
    });
}

/// Two members in a room. One misbehaves by `mischief` and is removed with `code`. The other
/// finishes its call and does not hear the rejected packet.
async fn one_misbehaves(server: &Server, keys: &Keys, what: &str, code: Code, mischief: impl AsyncFnOnce(&mut Caller)) {
    let room = what.replace(' ', "-");
    let mut bad = Caller::enter(server, &room, &lockstep(2), keys).await;
    let mut good = Caller::enter(server, &room, &lockstep(2), keys).await;
    bad.say(0, 1000).await;
    good.say(0, 1).await;
    assert_eq!(bad.hear(0).await, (vec![0, 1], 1001), "{what}");
    assert_eq!(good.hear(0).await, (vec![0, 1], 1001), "{what}");
    mischief(&mut bad).await;
    let (found, reason) = bad.is_removed().await;
    assert_eq!(found, code, "{what}: {reason}");
    good.say(1, 2).await;
    assert_eq!(good.hear(1).await, (vec![1], 2), "{what}");
    good.end().await;
    good.hears_the_end(2).await;
}

fn misbehave(what: &str, code: Code, mischief: impl AsyncFnOnce(&mut Caller)) {
    run(async {
        let server = Server::start().await;
        one_misbehaves(&server, &keys(K1, 2), what, code, mischief).await;
    });
}

/// A packet for tick 1 with one byte changed.
async fn send_damaged(caller: &mut Caller, change: impl FnOnce(&mut Vec<u8>)) {
    let ciphertexts = caller.ciphertexts(4000);
    let welcome = *caller.connection.welcome();
    let encoding = PointEncoding::Uncompressed;
    let mut packet = wire::encode_packet(welcome.room, welcome.member, 1, encoding, &ciphertexts);
    change(&mut packet);
    caller.connection.send_packet(packet).await.unwrap();
}

#[test]
fn an_off_curve_point_is_refused() {
    misbehave("off curve", Code::Point, async |bad| {
        send_damaged(bad, |packet| *packet.last_mut().unwrap() ^= 1).await;
    });
}

#[test]
fn a_packet_on_another_curve_is_refused() {
    misbehave("other curve", Code::Curve, async |bad| {
        let other = Ciphertexts::zero(parameters(Curve::NistP256), PACKET_SAMPLES);
        let packet = wire::encode_packet(bad.connection.welcome().room, 0, 1, PointEncoding::Compressed, &other);
        bad.connection.send_packet(packet).await.unwrap();
    });
}

#[test]
fn a_truncated_packet_is_refused() {
    misbehave("truncated", Code::Packet, async |bad| {
        send_damaged(bad, |packet| packet.truncate(packet.len() - 1)).await;
    });
}

#[test]
fn an_empty_packet_is_refused() {
    misbehave("empty", Code::Packet, async |bad| send_damaged(bad, Vec::clear).await);
}

#[test]
fn a_packet_of_another_room_is_refused() {
    misbehave("other room", Code::Room, async |bad| {
        let ciphertexts = bad.ciphertexts(4000);
        let packet = wire::encode_packet(RoomId([7; 8]), 0, 1, PointEncoding::Compressed, &ciphertexts);
        bad.connection.send_packet(packet).await.unwrap();
    });
}

#[test]
fn a_packet_of_another_version_is_refused() {
    misbehave("version", Code::Version, async |bad| send_damaged(bad, |packet| packet[0] = 2).await);
}

#[test]
fn a_packet_of_another_length_is_refused() {
    misbehave("length", Code::Packet, async |bad| {
        let short = bad.encryptor.encrypt(&[4000; 319], &mut bad.rng).unwrap();
        let packet = wire::encode_packet(bad.connection.welcome().room, 0, 1, PointEncoding::Compressed, &short);
        bad.connection.send_packet(packet).await.unwrap();
    });
}

#[test]
fn a_second_sender_with_the_same_id_is_refused() {
    misbehave("same id", Code::Member, async |bad| {
        let ciphertexts = bad.ciphertexts(4000);
        let packet = wire::encode_packet(bad.connection.welcome().room, 1, 1, PointEncoding::Compressed, &ciphertexts);
        bad.connection.send_packet(packet).await.unwrap();
    });
}

#[test]
fn a_tick_that_goes_backwards_is_refused() {
    misbehave("backwards", Code::Backwards, async |bad| {
        let ciphertexts = bad.ciphertexts(4000);
        let packet = wire::encode_packet(bad.connection.welcome().room, 0, 0, PointEncoding::Compressed, &ciphertexts);
        bad.connection.send_packet(packet).await.unwrap();
    });
}

#[test]
fn a_message_longer_than_any_packet_is_refused() {
    misbehave("oversized", Code::Malformed, async |bad| {
        // The server stops reading it half way; whether the rest could be sent does not matter.
        let _ = bad.connection.send_packet(vec![0; 1 << 20]).await;
    });
}

#[test]
fn control_messages_out_of_place_are_refused() {
    for (what, code, message) in [
        ("second join", Code::Malformed, ClientMessage::Join(lockstep(2))),
        ("acknowledges the future", Code::Acknowledgement, ClientMessage::Received { tick: 9 }),
    ] {
        misbehave(what, code, async |bad| bad.connection.send(&message).await.unwrap());
    }
}

#[test]
fn a_flooding_member_is_removed_while_the_others_finish() {
    run(async {
        let server = Server::with(|options| options.limits.grace = support::PATIENCE).await;
        let keys = keys(K1, 2);
        let mut bad = Caller::enter(&server, "flood", &lockstep(2), &keys).await;
        let mut good = Caller::enter(&server, "flood", &lockstep(2), &keys).await;
        let window = bad.connection.welcome().window;
        let (room, ciphertexts) = (bad.connection.welcome().room, bad.ciphertexts(10));
        let mut failed = false;
        for tick in 0..4 * window {
            let packet = wire::encode_packet(room, 0, tick, PointEncoding::Uncompressed, &ciphertexts);
            failed |= bad.connection.send_packet(packet).await.is_err();
        }
        assert!(!failed, "the server reads on, so that the reason arrives");
        let (code, reason) = bad.is_removed().await;
        assert_eq!(code, Code::Flood, "{reason}");
        // Packets within the window count; then the good member is alone.
        for tick in 0..window + 2 {
            good.say(tick, 1).await;
            let expected = if tick < window { (vec![0, 1], 11) } else { (vec![1], 1) };
            assert_eq!(good.hear(tick).await, expected);
        }
        good.end().await;
        good.hears_the_end(window + 2).await;
    });
}

#[test]
fn a_client_that_vanishes_inside_a_packet_leaves_the_others_their_call() {
    run(async {
        let server = Server::start().await;
        let keys = keys(K1, 2);
        let mut good = Caller::enter(&server, "vanish", &lockstep(2), &keys).await;
        let mut raw = support::raw_member(&server, "vanish", &lockstep(2)).await;
        // The head of a masked binary frame of 20,000 bytes, and only some of them.
        let mut half = vec![0x82, 0xFE];
        half.extend_from_slice(&20_000u16.to_be_bytes());
        half.extend_from_slice(&[0; 4 + 5_000]);
        raw.write_all(&half).await.unwrap();
        good.say(0, 6).await;
        drop(raw);
        assert_eq!(good.hear(0).await, (vec![0], 6));
        good.end().await;
        good.hears_the_end(1).await;
    });
}

#[test]
fn a_member_that_sends_nothing_is_removed_after_the_time_limit_and_the_others_go_on() {
    run(async {
        let server = Server::with(|options| options.calls.limits.room.idle = Duration::from_secs(1)).await;
        let keys = keys(K1, 2);
        let mut good = Caller::enter(&server, "idle", &lockstep(2), &keys).await;
        good.say(0, 6).await;
        let mut idle = Caller::enter(&server, "idle", &lockstep(2), &keys).await;
        assert_eq!(good.hear(0).await, (vec![0], 6));
        assert_eq!(idle.is_removed().await.0, Code::Timeout);
    });
}

#[test]
fn a_connection_that_is_not_even_alive_is_removed() {
    run(async {
        let server = Server::with(|options| {
            options.calls.limits.silence = Duration::from_millis(200);
            options.limits.grace = Duration::from_millis(200);
        })
        .await;
        let live = Join::new(Pace::Live, K1);
        let mut dead = support::raw_member(&server, "dead", &Join { listen: false, ..live }).await;
        let mut rest = Vec::new();
        dead.read_to_end(&mut rest).await.unwrap();
        let text = String::from_utf8_lossy(&rest);
        assert!(text.contains(r#"{"type":"removed","code":"timeout""#), "{text}");
    });
}

#[test]
fn a_member_that_has_nothing_to_say_stays_as_long_as_it_answers_pings() {
    run(async {
        let silence = Duration::from_secs(1);
        let server = Server::with(|options| options.calls.limits.silence = silence).await;
        let live = Join::new(Pace::Live, K1);
        let mut ear = server.enter("quiet", &Join { speak: false, ..live.clone() }).await.unwrap();
        assert!(timeout(silence * 3 / 2, ear.receive()).await.is_err(), "there is nothing to hear yet");
        let _speaker = server.enter("quiet", &live).await.unwrap();
        assert_eq!(ear.receive().await.unwrap(), Incoming::Closed { tick: 0 });
    });
}

#[test]
fn a_live_room_drops_late_packets_and_lists_them() {
    run(async {
        let server = Server::with(|options| options.calls.limits.room.window = 500).await;
        let keys = keys(K1, 2);
        let live = Join::new(Pace::Live, K1);
        let mut late = Caller::enter(&server, "late", &live, &keys).await;
        let mut ear = Caller::enter(&server, "late", &Join { speak: false, ..live.clone() }, &keys).await;
        // When the sum of a tick arrives, a packet for that tick is too late.
        let over = loop {
            if let Incoming::Closed { tick } = ear.connection.receive().await.unwrap() {
                break tick;
            }
        };
        late.say(over, 4000).await;
        let sum = loop {
            if let Incoming::Sum(sum) = ear.connection.receive().await.unwrap() {
                break ear.listener.open(&sum).unwrap();
            }
        };
        assert!(sum.header.tick > over && sum.header.speakers.is_empty());
        assert_eq!(sum.header.late.iter().collect::<Vec<_>>(), [0]);
        assert_eq!(*sum.samples, [0; PACKET_SAMPLES]);
        // A packet ahead is held for its tick.
        let ahead = sum.header.tick + 60;
        late.say(ahead, 5).await;
        let sum = loop {
            if let Incoming::Sum(sum) = ear.connection.receive().await.unwrap() {
                break ear.listener.open(&sum).unwrap();
            }
        };
        assert_eq!((sum.header.tick, sum.header.speakers.contains(0), sum.samples[0]), (ahead, true, 5));
        late.end().await;
        while !matches!(ear.connection.receive().await.unwrap(), Incoming::Ended { .. }) {}
    });
}

#[test]
fn one_name_is_one_room_at_a_time_and_another_one_afterwards() {
    run(async {
        let server = Server::start().await;
        let keys = keys(K1, 1);
        let mut rooms = Vec::new();
        for _ in 0..3 {
            let mut caller = Caller::enter(&server, "again", &lockstep(1), &keys).await;
            rooms.push(caller.connection.welcome().room);
            let member = caller.connection.welcome().member;
            assert_eq!(member, 0);
            caller.end().await;
            caller.hears_the_end(0).await;
        }
        assert!(rooms[0] != rooms[1] && rooms[1] != rooms[2] && rooms[0] != rooms[2]);
    });
}

#[test]
fn a_join_that_does_not_fit_is_refused_with_its_reason() {
    run(async {
        let server = Server::with(|options| options.calls.limits.rooms = 1).await;
        let first = server.enter("fits", &lockstep(2)).await.unwrap();
        for (room, join, code) in [
            ("fits", Join { curve: Curve::NistP256, ..lockstep(2) }, Code::Curve),
            ("fits", lockstep(3), Code::Pace),
            ("fits", Join::new(Pace::Live, K1), Code::Pace),
            ("fits", Join { speak: false, listen: false, ..lockstep(2) }, Code::Idler),
            ("fits", Join { version: 2, ..lockstep(2) }, Code::Version),
            ("other", lockstep(2), Code::Full),
        ] {
            match server.enter(room, &join).await {
                Err(ConnectError::Refused { code: found, .. }) => assert_eq!(found, code, "{join:?}"),
                Err(other) => panic!("{join:?}: {other}"),
                Ok(_) => panic!("{join:?}: let in"),
            }
        }
        drop(first);
    });
}

#[test]
#[cfg(feature = "paper")]
fn weak_curves_are_for_a_server_that_was_started_for_them() {
    run(async {
        let weak = Join { curve: Curve::Secp160k1, ..lockstep(1) };
        let server = Server::start().await;
        assert!(matches!(server.enter("weak", &weak).await, Err(ConnectError::Refused { code: Code::Curve, .. })));
        // A refusal leaves no room behind.
        let keys = keys(Curve::Secp160k1, 1);
        let server =
            Server::with(|options| options.calls.floor = tobari_curve::params::SecurityFloor::InsecurePaper).await;
        let mut caller = Caller::enter(&server, "weak", &weak, &keys).await;
        caller.say(0, -9).await;
        assert_eq!(caller.hear(0).await, (vec![0], -9));
    });
}

#[test]
fn a_closing_server_tells_its_members() {
    run(async {
        let server = Server::with(|options| options.limits.grace = Duration::from_millis(200)).await;
        let keys = keys(K1, 1);
        let (url, room) = (server.url.clone(), support::room_name("closing"));
        let mut caller = Caller::enter(&server, "closing", &lockstep(2), &keys).await;
        let (removed, ()) = tokio::join!(caller.is_removed(), server.stop());
        assert_eq!(removed.0, Code::Shutdown);
        let next = connect(&url, &room, &lockstep(2), &ClientTls::System).await;
        assert!(matches!(next, Err(ConnectError::Client(ClientError::Connect { .. }))), "nobody is there any more");
    });
}
