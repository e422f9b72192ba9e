//! Messages that were changed, repeated, reordered, truncated or moved.

use crate::sessions::job::{ASK, END, Enclosed, WORK, open, policy, rng, start};
use tobari_enclave::{Challenge, ClientChannel, Connector, Enclave, EnclaveError, SessionId, Status};

const REFUSED: Result<(), EnclaveError> = Err(EnclaveError::Refused(Status::Refused));
const UNKNOWN: Result<(), EnclaveError> = Err(EnclaveError::Refused(Status::UnknownSession));

/// Goes to the last step of the first round.
fn to_end(enclave: &mut Enclosed, session: SessionId, channel: &mut ClientChannel) {
    let mut reply = Vec::new();
    enclave.client(session, ASK, &channel.seal(ASK, b"first").unwrap(), &mut reply).unwrap();
    channel.open(reply.clone()).unwrap();
    enclave.host(session, WORK, b"w", &mut reply).unwrap();
}

#[test]
fn a_session_runs_through_its_script_and_its_lengths_tell_nothing() {
    let (mut enclave, alive) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    let mut reply = Vec::new();
    let mut answers = Vec::new();
    for round in 0..2 {
        let frame = channel.seal(ASK, &vec![1; 5 + 20 * round]).unwrap();
        assert_eq!(frame.len(), 32 + 20);
        enclave.client(session, ASK, &frame, &mut reply).unwrap();
        assert_eq!(reply.len(), 16 + 20);
        answers.push(channel.open(reply.clone()).unwrap().to_vec());
        enclave.host(session, WORK, &[10], &mut reply).unwrap();
        assert!(reply.is_empty());
        enclave.client(session, END, &channel.seal(END, &[100]).unwrap(), &mut reply).unwrap();
        answers.push(channel.open(reply.clone()).unwrap().to_vec());
    }
    let value = |at: usize| u64::from_be_bytes(answers[at].clone().try_into().unwrap());
    // Totals 5, 115, 140 and 250, each under the session's secret.
    assert_eq!([value(0) ^ value(1), value(0) ^ value(2), value(0) ^ value(3)], [5 ^ 115, 5 ^ 140, 5 ^ 250]);
    assert_eq!(alive.get(), 0, "after the last round the session's part of the handler is dropped");
    assert_eq!(enclave.client(session, ASK, &[0; 52], &mut reply), UNKNOWN);
    assert!(channel.seal(ASK, b"more").is_err());
}

#[test]
fn every_changed_bit_of_a_frame_ends_the_session() {
    for bit in (0..8 * 52).step_by(3) {
        let (mut enclave, alive) = start();
        let (session, mut channel) = open(&mut enclave, 1);
        let mut frame = channel.seal(ASK, b"hello").unwrap();
        frame[bit / 8] ^= 1 << (bit % 8);
        let mut reply = Vec::new();
        assert_eq!(enclave.client(session, ASK, &frame, &mut reply), REFUSED, "bit {bit}");
        assert_eq!((alive.get(), reply.len()), (0, 0));
        frame[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(enclave.client(session, ASK, &frame, &mut reply), UNKNOWN, "the right one is too late");
    }
}

#[test]
fn cut_and_long_frames_end_the_session() {
    for length in [0, 1, 15, 16, 19, 20, 51, 53, 1000] {
        let (mut enclave, alive) = start();
        let (session, mut channel) = open(&mut enclave, 1);
        let mut frame = channel.seal(ASK, b"hello").unwrap();
        frame.resize(length, 0);
        assert_eq!(enclave.client(session, ASK, &frame, &mut Vec::new()), REFUSED, "{length}");
        assert_eq!(alive.get(), 0);
    }
    let (mut enclave, alive) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    enclave.client(session, ASK, &channel.seal(ASK, b"a").unwrap(), &mut Vec::new()).unwrap();
    assert_eq!(enclave.host(session, WORK, &[0; 11], &mut Vec::new()), REFUSED, "longer than the script allows");
    assert_eq!(alive.get(), 0);
}

#[test]
fn a_replayed_or_early_frame_ends_the_session() {
    let (mut enclave, _) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    let first = channel.seal(ASK, b"a").unwrap();
    enclave.client(session, ASK, &first, &mut Vec::new()).unwrap();
    let again = enclave.client(session, ASK, &first, &mut Vec::new());
    assert_eq!(again, Err(EnclaveError::Refused(Status::OutOfOrder)), "the script asks for something else");
    let (mut enclave, alive) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    to_end(&mut enclave, session, &mut channel);
    let (_, mut twin) = open(&mut enclave, 2);
    let early = twin.seal(ASK, b"again").unwrap();
    assert_eq!(enclave.client(session, END, &early[..28], &mut Vec::new()), REFUSED, "of another session and step");
    assert_eq!(alive.get(), 1, "the other session goes on");
}

#[test]
fn a_frame_of_the_first_round_does_not_open_in_the_second() {
    let (mut enclave, _) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    let mut reply = Vec::new();
    let first = channel.seal(ASK, b"once").unwrap();
    enclave.client(session, ASK, &first, &mut reply).unwrap();
    channel.open(reply.clone()).unwrap();
    enclave.host(session, WORK, b"", &mut reply).unwrap();
    enclave.client(session, END, &channel.seal(END, b"").unwrap(), &mut reply).unwrap();
    assert_eq!(enclave.client(session, ASK, &first, &mut reply), REFUSED);
}

#[test]
fn a_frame_sent_to_another_session_is_refused_there() {
    let (mut enclave, _) = start();
    let (_, mut mine) = open(&mut enclave, 1);
    let (theirs, _) = open(&mut enclave, 2);
    let frame = mine.seal(ASK, b"for my session").unwrap();
    assert_eq!(enclave.client(theirs, ASK, &frame, &mut Vec::new()), REFUSED);
}

#[test]
fn a_changed_swapped_or_missing_reply_ends_the_channel_of_the_client() {
    for how in 0..4 {
        let (mut enclave, _) = start();
        let (session, mut channel) = open(&mut enclave, 1);
        let mut reply = Vec::new();
        let frame = channel.seal(ASK, b"hello").unwrap();
        enclave.client(session, ASK, &frame, &mut reply).unwrap();
        match how {
            0 => reply[7] ^= 1,
            1 => reply.truncate(30),
            2 => reply.push(0),
            _ => reply = frame[..36].to_vec(),
        }
        assert!(channel.open(reply).is_err());
        assert!(channel.open(Vec::new()).is_err() && channel.seal(END, b"").is_err(), "for good");
    }
    let (mut enclave, _) = start();
    let (_, mut channel) = open(&mut enclave, 1);
    channel.seal(ASK, b"x").unwrap();
    assert!(channel.seal(ASK, b"y").is_err(), "a reply is awaited first");
}

#[test]
fn a_channel_is_bound_to_the_evidence_that_was_seen() {
    let (mut enclave, _) = start();
    let first = Challenge::new(&mut rng(1), 0);
    let evidence = enclave.report(first.nonce()).unwrap();
    let attested = first.verify(&policy(), &evidence, 0).unwrap();
    let (mut channel, key) = Connector::connect(&attested, &mut rng(2)).unwrap();
    // The host connects the client to another session of the same enclave.
    let other = Challenge::new(&mut rng(3), 0);
    let evidence = enclave.report(other.nonce()).unwrap();
    let other = other.verify(&policy(), &evidence, 0).unwrap().statement().session;
    enclave.open(other, &key).unwrap();
    assert_eq!(enclave.client(other, ASK, &channel.seal(ASK, b"hello").unwrap(), &mut Vec::new()), REFUSED);
}

#[test]
fn keys_of_small_order_open_no_channel() {
    let (mut enclave, alive) = start();
    let challenge = Challenge::new(&mut rng(1), 0);
    let evidence = enclave.report(challenge.nonce()).unwrap();
    let session = challenge.verify(&policy(), &evidence, 0).unwrap().statement().session;
    assert_eq!(enclave.open(session, &[0; 32]), REFUSED);
    assert_eq!(alive.get(), 0);
}
