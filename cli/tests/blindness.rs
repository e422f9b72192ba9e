//! The server sees points and nothing else: tests of its wire, its log and its memory.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::HashSet;
use support::tap::Tap;
use support::{Server, exact_samples, noise, record, stderr, tobari};
use tempfile::tempdir;
use tobari_curve::elgamal::{Ciphertexts, SharedCiphertexts};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{self, Payload};
use tobari_curve::{Curve, PointEncoding};

/// The binary messages of a WebSocket client, unmasked (RFC 6455, section 5.2; fragments are not
/// expected).
fn binary_messages(stream: &[u8]) -> Vec<Vec<u8>> {
    let start = stream.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let (mut rest, mut messages) = (&stream[start..], Vec::new());
    while rest.len() >= 6 {
        let (fin, opcode, short) = (rest[0] & 0x80 != 0, rest[0] & 15, u64::from(rest[1] & 0x7f));
        assert!(fin && rest[1] & 0x80 != 0, "whole and masked");
        let (length, head) = match short {
            126 => (u64::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
            127 => (u64::from_be_bytes(rest[2..10].try_into().unwrap()), 10),
            length => (length, 2),
        };
        let (mask, end) = (&rest[head..head + 4], head + 4 + length as usize);
        let payload = rest[head + 4..end].iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]).collect();
        if opcode == 2 {
            messages.push(payload);
        }
        rest = &rest[end..];
    }
    messages
}

/// Eight consecutive samples in every encoding in which a program could have left them.
fn plain_forms(samples: &[i16]) -> Vec<Vec<u8>> {
    let window = &samples[..8];
    vec![
        window.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        window.iter().flat_map(|sample| sample.to_be_bytes()).collect(),
        window.iter().flat_map(|sample| i32::from(*sample).to_le_bytes()).collect(),
        window.iter().flat_map(|sample| i32::from(*sample).to_be_bytes()).collect(),
        window.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into_bytes(),
        window.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ").into_bytes(),
    ]
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn the_wire_holds_two_fresh_points_a_sample_and_no_plain_sample() {
    the_wire_holds_fresh_points_only::<Ciphertexts>(640);
}

#[test]
fn the_wire_holds_one_fresh_point_a_sample_and_one_more_in_mode_elgamal_shared() {
    the_wire_holds_fresh_points_only::<SharedCiphertexts>(321);
}

/// Two speakers send two packets each, with this number of points.
fn the_wire_holds_fresh_points_only<P: Payload>(packet_points: usize) {
    let folder = tempdir().unwrap();
    let server = Server::start(&[]);
    let tap = Tap::to(&server.address());
    let speakers = [noise(21, 640), noise(22, 640)];
    let inputs = [record(folder.path(), "a.wav", &speakers[0]), record(folder.path(), "b.wav", &speakers[1])];
    let output = folder.path().join("mix.wav");
    let done = tobari(&[
        "call",
        "mix",
        "--exact",
        "--mode",
        P::MODE.name(),
        "-o",
        output.to_str().unwrap(),
        "--server",
        &tap.url,
        "--points",
        "uncompressed",
        inputs[0].to_str().unwrap(),
        inputs[1].to_str().unwrap(),
    ]);
    assert!(done.status.success(), "{}", stderr(&done));
    let mixed = exact_samples(&output);
    assert!(mixed.iter().zip(&speakers[0]).zip(&speakers[1]).all(|((m, a), b)| *m == i32::from(*a) + i32::from(*b)));

    let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
    let (mut packets, mut points) = (0, HashSet::new());
    for stream in tap.take().ups() {
        for message in binary_messages(stream) {
            let (header, ciphertexts) = wire::decode_packet::<P>(&message, parameters).unwrap();
            assert_eq!((header.encoding, ciphertexts.messages()), (PointEncoding::Uncompressed, 320));
            packets += 1;
            let body = &message[message.len() - packet_points * 64..];
            assert!(body.chunks_exact(64).all(|point| points.insert(point.to_vec())), "a point came twice");
            for speaker in &speakers {
                for offset in (0..speaker.len() - 8).step_by(4) {
                    let forms = plain_forms(&speaker[offset..]);
                    assert!(forms.iter().all(|form| !holds(&message, form)), "a plain sample on the wire");
                }
            }
        }
    }
    assert_eq!((packets, points.len()), (4, 4 * packet_points));
}

#[test]
fn no_key_and_no_sample_is_in_any_log_or_in_the_servers_memory() {
    for mode in ["elgamal", "elgamal-shared"] {
        server_stays_blind(mode);
    }
}

/// The 32 bytes of the secret, and in mode `elgamal-shared` the first key of the places, as it lies
/// in memory.
fn secrets(mode: &str, key_file: &[u8]) -> Vec<Vec<u8>> {
    use chacha20::rand_core::{Rng, SeedableRng};
    let secret = key_file[9..41].to_vec();
    if mode == "elgamal" {
        return vec![secret];
    }
    let mut first = vec![0; 32];
    chacha20::ChaCha20Rng::from_seed(secret.as_slice().try_into().unwrap()).fill_bytes(&mut first);
    vec![secret, first]
}

fn server_stays_blind(mode: &str) {
    let folder = tempdir().unwrap();
    let key = folder.path().join("canary");
    let made = tobari(&["call", "keygen", "-o", key.to_str().unwrap(), "--mode", mode, "--log", "debug", "--json"]);
    assert!(made.status.success());
    let secrets = secrets(mode, &std::fs::read(&key).unwrap());
    let speech = noise(23, 960);
    let input = record(folder.path(), "voice.wav", &speech);
    let server = Server::start(&["--log", "debug"]);
    let output = folder.path().join("mix.wav");
    let done = tobari(&[
        "call",
        "mix",
        input.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
        "--server",
        &server.url,
        "--key",
        key.to_str().unwrap(),
        "--log",
        "debug",
        "--json",
    ]);
    assert!(done.status.success(), "{}", stderr(&done));
    let mut canaries = plain_forms(&speech);
    for secret in secrets {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        canaries.push(format!("{secret:?}").into_bytes());
        canaries.extend([secret, hex.clone().into_bytes(), hex.to_uppercase().into_bytes()]);
    }

    #[cfg(target_os = "linux")]
    {
        let needles: Vec<&[u8]> = canaries.iter().map(Vec::as_slice).collect();
        let found = support::memory::found_in_memory(&server, &needles);
        assert_eq!(found, [] as [usize; 0], "{mode}: secrets in the memory of the server");
    }
    let log = server.stop();
    assert!(!log.is_empty(), "at this level the server logs something");
    for (place, said) in [
        ("the server's log", log.as_bytes()),
        ("keygen's output", &made.stdout),
        ("keygen's log", &made.stderr),
        ("mix's output", &done.stdout),
        ("mix's log", &done.stderr),
    ] {
        assert!(canaries.iter().all(|canary| !holds(said, canary)), "{mode}: a secret in {place}");
    }
}
