//! Rooms of mode `elgamal-shared` over real sockets, beside rooms of mode `elgamal` on the same
//! server.

use super::support::{self, Caller, Server, keys, lockstep, run, shared_keys, shared_lockstep};
use tobari_call::messages::{ClientMessage, Code, Join};
use tobari_call_edge::connect::ConnectError;
use tobari_curve::elgamal::{Ciphertexts, SharedCiphertexts, SharedDecryptor, SharedEncryptor};
use tobari_curve::wire;
use tobari_curve::{Curve, PointEncoding};
use tokio::io::AsyncWriteExt;

const K1: Curve = Curve::Secp256k1;

type SharedCaller = Caller<SharedEncryptor, SharedDecryptor>;

#[test]
fn rooms_of_both_modes_go_on_side_by_side_and_each_hears_its_exact_sum() {
    run(async {
        let server = Server::start().await;
        let (keys, shared) = (keys(K1, 2), shared_keys(K1, 2));
        let wide = Join { downlink: PointEncoding::Uncompressed, ..shared_lockstep(2) };
        let mut one = SharedCaller::enter(&server, "shared", &wide, &shared).await;
        let mut first = Caller::enter(&server, "per-sample", &lockstep(2), &keys).await;
        let mut two = SharedCaller::enter(&server, "shared", &shared_lockstep(2), &shared).await;
        let mut second = Caller::enter(&server, "per-sample", &lockstep(2), &keys).await;
        for (tick, levels, sum) in [(0, [-32_768, -32_768], -65_536), (1, [32_767, 1], 32_768), (2, [0, 0], 0)] {
            one.say(tick, levels[0]).await;
            first.say(tick, levels[1]).await;
            two.say(tick, levels[1]).await;
            second.say(tick, levels[0]).await;
            for heard in [one.hear(tick).await, two.hear(tick).await] {
                assert_eq!(heard, (vec![0, 1], sum));
            }
            for heard in [first.hear(tick).await, second.hear(tick).await] {
                assert_eq!(heard, (vec![0, 1], sum));
            }
        }
        for caller in [&mut one, &mut two] {
            caller.end().await;
        }
        one.hears_the_end(3).await;
        two.hears_the_end(3).await;
    });
}

#[test]
fn a_member_of_another_mode_than_the_rooms_is_refused_with_its_reason() {
    run(async {
        let server = Server::start().await;
        for (room, opens, comes, reason) in [
            ("a", lockstep(2), shared_lockstep(2), "mode elgamal-shared: expected elgamal, as the room has"),
            ("b", shared_lockstep(2), lockstep(2), "mode elgamal: expected elgamal-shared, as the room has"),
        ] {
            let inside = server.enter(room, &opens).await.unwrap();
            match server.enter(room, &comes).await {
                Err(ConnectError::Refused { code, reason: found }) => {
                    assert_eq!((code, found.as_str()), (Code::Mode, reason));
                }
                _ => panic!("{room}: not refused"),
            }
            assert_eq!(inside.welcome().member, 0);
            assert_eq!(server.enter(room, &opens).await.unwrap().welcome().member, 1, "the room goes on");
        }
    });
}

/// The join of a client from before there were modes.
const OLD_JOIN: &str = r#"{"type":"join","version":1,"pace":{"lockstep":{"members":2}},"curve":"secp256k1","speak":true,"listen":true,"downlink":"compressed"}"#;

#[test]
fn a_client_that_knows_of_no_modes_has_its_call_in_mode_elgamal_and_no_other() {
    run(async {
        let server = Server::start().await;
        let keys = keys(K1, 2);
        let mut new = Caller::enter(&server, "old", &lockstep(2), &keys).await;
        let mut old = support::raw_socket(&server, "old").await;
        old.write_all(&support::frame(0x81, OLD_JOIN.as_bytes())).await.unwrap();
        support::read_until(&mut old, br#""member":1,"tick":0,"window":32}"#).await;
        let welcome = *new.connection.welcome();
        let packet = wire::encode_packet(welcome.room, 1, 0, PointEncoding::Compressed, &new.ciphertexts(-3));
        old.write_all(&support::frame(0x82, &packet)).await.unwrap();
        new.say(0, 10).await;
        assert_eq!(new.hear(0).await, (vec![0, 1], 7));

        let _inside = server.enter("new", &shared_lockstep(2)).await.unwrap();
        let mut old = support::raw_socket(&server, "new").await;
        old.write_all(&support::frame(0x81, OLD_JOIN.as_bytes())).await.unwrap();
        support::read_until(&mut old, br#"{"type":"refused","code":"mode""#).await;
    });
}

/// One of two members in a room of mode `elgamal-shared` sends `bad` for tick 1 and is removed with
/// `code`; the other continues.
async fn one_sends(server: &Server, room: &str, code: Code, bad: impl FnOnce(&mut SharedCaller) -> Vec<u8>) {
    let keys = shared_keys(K1, 2);
    let mut one = SharedCaller::enter(server, room, &shared_lockstep(2), &keys).await;
    let mut two = SharedCaller::enter(server, room, &shared_lockstep(2), &keys).await;
    one.say(0, 5).await;
    two.say(0, 6).await;
    assert_eq!(two.hear(0).await, (vec![0, 1], 11), "{room}");
    let packet = bad(&mut one);
    one.connection.send_packet(packet).await.unwrap();
    let (found, reason) = one.is_removed().await;
    assert_eq!(found, code, "{room}: {reason}");
    two.say(1, 7).await;
    assert_eq!(two.hear(1).await, (vec![1], 7), "{room}");
    two.connection.send(&ClientMessage::End {}).await.unwrap();
    two.hears_the_end(2).await;
}

#[test]
fn a_bad_packet_in_mode_elgamal_shared_removes_its_sender_only() {
    run(async {
        let server = Server::start().await;
        let parameters = support::parameters(K1);
        let encoding = PointEncoding::Compressed;
        one_sends(&server, "cut", Code::Packet, |bad| {
            let mut packet = bad.packet(1, 9);
            packet.pop();
            packet
        })
        .await;
        one_sends(&server, "off-curve", Code::Point, |bad| {
            let mut packet = wire::encode_packet(
                bad.connection.welcome().room,
                0,
                1,
                PointEncoding::Uncompressed,
                &bad.encryptor.encrypt(&[1; 320], &mut bad.rng).unwrap(),
            );
            *packet.last_mut().unwrap() ^= 1;
            packet
        })
        .await;
        one_sends(&server, "length", Code::Packet, |bad| {
            let longer = SharedCiphertexts::zero(parameters, 321);
            wire::encode_packet(bad.connection.welcome().room, 0, 1, encoding, &longer)
        })
        .await;
        one_sends(&server, "mode", Code::Packet, |bad| {
            let other = Ciphertexts::zero(parameters, 320);
            wire::encode_packet(bad.connection.welcome().room, 0, 1, encoding, &other)
        })
        .await;
        one_sends(&server, "twice", Code::Backwards, |bad| {
            let again = SharedCiphertexts::zero(parameters, 320);
            wire::encode_packet(bad.connection.welcome().room, 0, 0, encoding, &again)
        })
        .await;
    });
}
