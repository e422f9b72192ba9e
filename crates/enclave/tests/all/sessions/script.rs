//! Order, ends and limits of sessions.

use crate::sessions::job::{ASK, END, WORK, configuration, open, rng, start};
use tobari_enclave::{Digest, Enclave, EnclaveError, InProcess, Nonce, Operation, Refused, Request, SessionId, Status};

#[test]
fn anything_but_the_next_step_ends_the_session() {
    let order = Err(EnclaveError::Refused(Status::OutOfOrder));
    for (operation, kind) in [
        (Operation::Host, WORK),
        (Operation::Host, ASK),
        (Operation::Client, END),
        (Operation::Client, WORK),
        (Operation::Client, 200),
        (Operation::Open, 0),
    ] {
        let (mut enclave, alive) = start();
        let (session, mut channel) = open(&mut enclave, 1);
        let frame = channel.seal(ASK, b"hello").unwrap();
        let request = Request { operation, session, kind };
        assert_eq!(enclave.request(request, &frame, &mut Vec::new()), order, "{operation:?} {kind}");
        assert_eq!(alive.get(), 0);
    }
}

#[test]
fn a_session_that_no_client_opened_takes_no_message() {
    let (mut enclave, alive) = start();
    let evidence = enclave.report(&Nonce([3; 32])).unwrap();
    let session = tobari_enclave::Evidence::decode(&evidence).unwrap().statement.session;
    let early = enclave.host(session, WORK, b"", &mut Vec::new());
    assert_eq!(early, Err(EnclaveError::Refused(Status::OutOfOrder)));
    assert_eq!(alive.get(), 0, "and no key was born");
}

#[test]
fn a_handler_that_refuses_ends_the_session_and_says_no_more_than_a_broken_frame() {
    let (mut enclave, alive) = start();
    let (session, mut channel) = open(&mut enclave, 1);
    let mut reply = Vec::new();
    let refused = enclave.client(session, ASK, &channel.seal(ASK, b"refuse").unwrap(), &mut reply);
    assert_eq!((refused, reply.len()), (Err(EnclaveError::Refused(Status::Refused)), 0));
    assert_eq!(alive.get(), 0);
}

#[test]
fn sessions_are_capped_independent_and_closed_one_by_one() {
    let (mut enclave, alive) = start();
    let (first, _) = open(&mut enclave, 1);
    let (second, mut channel) = open(&mut enclave, 2);
    assert_ne!(first, second);
    assert_eq!(enclave.report(&Nonce([0; 32])), Err(EnclaveError::Refused(Status::TooManySessions)));
    enclave.close(first).unwrap();
    assert_eq!(alive.get(), 1);
    assert_eq!(enclave.close(first), Err(EnclaveError::Refused(Status::UnknownSession)));
    enclave.client(second, ASK, &channel.seal(ASK, b"goes on").unwrap(), &mut Vec::new()).unwrap();
    assert!(enclave.report(&Nonce([0; 32])).is_ok());
    enclave.stop();
    assert_eq!(alive.get(), 0, "the end of the enclave ends them all");
    assert!(matches!(enclave.close(second), Err(EnclaveError::Gone(_))));
}

#[test]
fn requests_that_make_no_sense_are_refused_and_harm_nobody() {
    let (mut enclave, alive) = start();
    let (session, _) = open(&mut enclave, 1);
    let mut reply = vec![1, 2, 3];
    for body in [[0; 31].as_slice(), &[0; 33], &[]] {
        let request = Request { operation: Operation::Report, session, kind: 0 };
        assert_eq!(enclave.request(request, body, &mut reply), Err(EnclaveError::Refused(Status::Malformed)));
        assert!(reply.is_empty());
    }
    let close = Request { operation: Operation::Close, session, kind: 0 };
    assert_eq!(enclave.request(close, b"why", &mut reply), Err(EnclaveError::Refused(Status::Malformed)));
    let nobody = SessionId([7; 16]);
    assert_eq!(enclave.open(nobody, &[1; 32]), Err(EnclaveError::Refused(Status::UnknownSession)));
    assert_eq!(alive.get(), 1);
    for number in 0..=255 {
        assert_eq!(Operation::from_number(number).map(Operation::to_number).unwrap_or(number), number);
        assert_eq!(Status::from_number(number).map(Status::to_number).unwrap_or(number), number);
    }
}

#[test]
fn an_enclave_does_not_start_with_other_bytes_than_its_configuration_names() {
    let start = |setup: &[u8], refuse: bool| {
        let build = move |_: &_, _: &[u8], _: &mut _| {
            if refuse { Err(Refused) } else { Ok(crate::sessions::job::Sum { alive: std::rc::Rc::default() }) }
        };
        InProcess::start(&configuration(), setup, &Digest::of_bytes(b""), build, rng(1)).err()
    };
    assert_eq!(start(b"setup", false), None);
    assert!(matches!(start(b"setup", true), Some(EnclaveError::Start(_))));
    let Some(EnclaveError::Start(reason)) = start(b"set up", false) else { panic!("it starts") };
    assert!(reason.starts_with("expected setup bytes with digest"), "{reason}");
}

#[test]
fn a_host_that_says_anything_breaks_nothing() {
    use chacha20::rand_core::Rng;
    let (mut enclave, alive) = start();
    let (mut rng, mut reply, mut known) = (rng(42), Vec::new(), vec![SessionId([0; 16])]);
    let mut done = 0;
    for _ in 0..30_000 {
        let operation = Operation::from_number((rng.next_u32() % 5 + 1) as u8).unwrap();
        let session = known[rng.next_u32() as usize % known.len()];
        let lengths = [0, 1, 10, 28, 32, 52, 2000];
        let mut body = vec![0; lengths[rng.next_u32() as usize % lengths.len()]];
        rng.fill_bytes(&mut body);
        let request = Request { operation, session, kind: (rng.next_u32() % 4) as u8 };
        if enclave.request(request, &body, &mut reply).is_ok() {
            done += 1;
            if operation == Operation::Report {
                known.push(tobari_enclave::Evidence::decode(&reply).unwrap().statement.session);
                known.drain(..known.len().saturating_sub(3));
            }
        } else {
            assert!(reply.is_empty(), "a refusal says nothing");
        }
        assert!(alive.get() <= 2, "never more sessions than allowed");
    }
    assert!(done > 500, "{done}: some of it made sense");
}
