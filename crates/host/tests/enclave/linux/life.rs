//! Sessions, and the end of the process.

use super::probe::{ATTEMPT, Attempt, ECHO, ask, configuration, eventually, open, options, start};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tobari_enclave::{Enclave, EnclaveError, Nonce, Protection, SessionId, State, Status};
use tobari_host::enclave::{OVER_PIPES, Options, ProcessEnclave};

pub(crate) const HOST_THAT_IS_KILLED: &str = "host-that-is-killed";

fn exists(process: u32) -> bool {
    // A process that has ended and was not waited for yet is still listed, as a zombie.
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    !status.is_empty() && !status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

pub(crate) fn a_session_ends_with_its_script_and_gives_the_right_answers() {
    let mut enclave = start(b"the setup");
    let (session, mut channel) = open(&mut enclave, b"the setup");
    let mut reply = Vec::new();
    let mut secrets = Vec::new();
    for round in 0..3_u8 {
        enclave.host(session, ECHO, &[round; 1000], &mut reply).unwrap();
        assert_eq!(reply, [round; 1000]);
        enclave.host(session, ATTEMPT, &[Attempt::Memory as u8], &mut reply).unwrap();
        let frame = channel.seal(ECHO, &[round; 9]).unwrap();
        assert_eq!(frame.len(), 256 + 20, "padded");
        enclave.client(session, ECHO, &frame, &mut reply).unwrap();
        assert_eq!(reply.len(), 1024 + 20, "padded");
        let opened = channel.open(reply.clone()).unwrap();
        assert_eq!(&opened[32..], [b"the setup".as_slice(), &[round; 9]].concat());
        secrets.push(opened[..32].to_vec());
    }
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "one session, one secret");
    let gone = Err(EnclaveError::Refused(Status::UnknownSession));
    assert_eq!(enclave.host(session, ECHO, b"more", &mut reply), gone, "the script is at its end");
    let (session, mut channel) = open(&mut enclave, b"the setup");
    enclave.host(session, ECHO, b"", &mut reply).unwrap();
    enclave.host(session, ATTEMPT, &[Attempt::Memory as u8], &mut reply).unwrap();
    enclave.client(session, ECHO, &channel.seal(ECHO, b"").unwrap(), &mut reply).unwrap();
    assert_ne!(channel.open(reply).unwrap()[..32], secrets[0], "another session, another secret");
    enclave.stop();
    assert_eq!(enclave.report(&Nonce([0; 32])), Err(EnclaveError::Gone("stopped".to_owned())));
}

pub(crate) fn messages_longer_than_the_ring_come_back_whole() {
    let mut small = options();
    small.ring_bytes = 8192;
    let mut enclave = ProcessEnclave::start(&configuration(b"x"), b"x", &small).unwrap();
    let (session, _channel) = open(&mut enclave, b"x");
    let message: Vec<u8> = (0..(2_u32 << 20) - 3).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut reply = vec![1; 10];
    enclave.host(session, ECHO, &message, &mut reply).unwrap();
    assert!(reply == message, "two megabytes through rings of eight kilobytes");
    let (session, _channel) = open(&mut enclave, b"x");
    let long = vec![0; (2 << 20) + 1];
    let refused = Err(EnclaveError::Refused(Status::Refused));
    assert_eq!(enclave.host(session, ECHO, &long, &mut reply), refused, "longer than the script allows");
    let (found, limit) = (65 << 20, (64 << 20) + 4096);
    let too_long = enclave.host(session, ECHO, &vec![0; found], &mut reply);
    assert_eq!(too_long, Err(EnclaveError::TooLong { found, limit }));
}

pub(crate) fn an_enclave_over_pipes_is_confined_as_one_over_shared_memory() {
    let verb = format!("{}{OVER_PIPES}", super::probe::VERB);
    let launched = || Options::launched(super::probe::VERB, ["/proc/self/exe", &verb].map(Into::into).to_vec());
    let begin = |options: &Options| ProcessEnclave::start(&configuration(b"setup"), b"setup", options);
    let mut enclave = begin(&launched()).unwrap();
    let (session, mut channel) = open(&mut enclave, b"setup");
    let message: Vec<u8> = (0..(2_u32 << 20) - 3).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut reply = Vec::new();
    enclave.host(session, ECHO, &message, &mut reply).unwrap();
    assert!(reply == message, "two megabytes through pipes");
    enclave.host(session, ATTEMPT, &[Attempt::Memory as u8], &mut reply).unwrap();
    enclave.client(session, ECHO, &channel.seal(ECHO, b"hello").unwrap(), &mut reply).unwrap();
    assert_eq!(&channel.open(reply.clone()).unwrap()[37..], b"hello");
    let states = [Protection::SystemCallFilter, Protection::NothingInherited, Protection::ProcessNamespace]
        .map(|one| enclave.protections().state(one));
    assert_eq!(states, [State::Applied, State::Partly, State::NotAsked], "what is read and written stays open");
    let process = enclave.process();
    enclave.stop();
    assert!(eventually(|| !exists(process)), "it stopped");
    let mut enclave = begin(&launched()).unwrap();
    let killed = EnclaveError::Gone("killed for a system call outside its list".to_owned());
    assert_eq!(ask(&mut enclave, Attempt::OpenFile), Err(killed));
    let mut nowhere = launched();
    nowhere.launcher = vec!["/nowhere/launcher".into()];
    assert!(matches!(begin(&nowhere), Err(EnclaveError::Start(_))), "no such launcher");
    nowhere.launcher = vec!["/bin/true".into()];
    assert!(matches!(begin(&nowhere), Err(EnclaveError::Gone(_))), "one that says nothing");
    nowhere.launcher = ["/bin/sh", "-c", "cat /dev/zero"].map(Into::into).to_vec();
    assert_eq!(begin(&nowhere).err(), Some(EnclaveError::Malformed), "one that says what is no message");
    nowhere.launcher = ["/bin/sleep", "60"].map(Into::into).to_vec();
    nowhere.start_timeout = Duration::from_millis(300);
    assert_eq!(begin(&nowhere).err(), Some(EnclaveError::TimedOut { limit_ms: 300 }), "one that is silent");
    let mut strict = launched();
    strict.required = vec![Protection::NothingInherited];
    assert!(matches!(begin(&strict), Err(EnclaveError::Start(_))), "what is required is required of a launcher too");
}

pub(crate) fn a_handler_that_panics_ends_the_enclave_with_a_clear_error() {
    let mut enclave = start(b"setup");
    assert_eq!(ask(&mut enclave, Attempt::Panic), Err(EnclaveError::Gone("its code panicked".to_owned())));
    let mut enclave = start(b"setup");
    let Err(EnclaveError::Gone(how)) = ask(&mut enclave, Attempt::Abort) else { panic!("it goes on") };
    assert!(how.starts_with("killed by signal"), "{how}");
    let mut enclave = start(b"setup");
    assert_eq!(ask(&mut enclave, Attempt::Refuse), Err(EnclaveError::Refused(Status::Refused)));
    assert!(enclave.report(&Nonce([1; 32])).is_ok(), "a refusal ends the session, not the enclave");
}

pub(crate) fn an_enclave_killed_in_the_middle_of_a_call_is_noticed_at_once() {
    let mut enclave = start(b"setup");
    let process = enclave.process();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        let process = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        Instant::now()
    });
    let ended = ask(&mut enclave, Attempt::Hang);
    let late = killer.join().unwrap().elapsed();
    assert_eq!(ended, Err(EnclaveError::Gone("killed by signal 9".to_owned())));
    assert!(late < Duration::from_secs(5), "{late:?}");
    assert!(!exists(process));
}

pub(crate) fn an_enclave_that_hangs_is_killed_at_its_time_limit() {
    let mut short = options();
    short.call_timeout = Duration::from_millis(700);
    let mut enclave = ProcessEnclave::start(&configuration(b"setup"), b"setup", &short).unwrap();
    let process = enclave.process();
    assert_eq!(ask(&mut enclave, Attempt::Hang), Err(EnclaveError::TimedOut { limit_ms: 700 }));
    assert!(eventually(|| !exists(process)), "it was killed");
    assert!(matches!(enclave.report(&Nonce([0; 32])), Err(EnclaveError::Gone(_))));
}

/// Starts an enclave, prints its process identifier, and waits to be killed.
pub(crate) fn host_that_is_killed() -> ExitCode {
    let enclave = start(b"setup");
    println!("{}", enclave.process());
    std::thread::sleep(Duration::from_secs(60));
    ExitCode::FAILURE
}

pub(crate) fn an_enclave_dies_with_its_host() {
    let mut host = Command::new(std::env::current_exe().unwrap());
    let mut host = host.arg(HOST_THAT_IS_KILLED).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let process: u32 = line.trim().parse().unwrap();
    assert!(exists(process));
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(eventually(|| !exists(process)), "nobody is left");
}

pub(crate) fn a_refused_setup_or_configuration_does_not_start() {
    let refused = |configuration, setup: &[u8]| match ProcessEnclave::start(&configuration, setup, &options()) {
        Err(EnclaveError::Start(reason)) => reason,
        other => panic!("{:?}", other.err()),
    };
    assert_eq!(refused(configuration(b"refuse"), b"refuse"), "the handler refused its setup");
    assert!(refused(configuration(b"one"), b"another").starts_with("expected setup bytes with digest"));
    let mut none = configuration(b"x");
    none.rounds = 0;
    assert_eq!(refused(none, b"x"), "expected at least one round");
}

pub(crate) fn sessions_are_capped_and_come_free_again() {
    let mut enclave = start(b"setup");
    let sessions: Vec<SessionId> = (0..3).map(|_| open(&mut enclave, b"setup").0).collect();
    let full = Err(EnclaveError::Refused(Status::TooManySessions));
    assert_eq!(enclave.report(&Nonce([0; 32])), full);
    enclave.close(sessions[1]).unwrap();
    assert!(enclave.report(&Nonce([0; 32])).is_ok());
    let mut reply = Vec::new();
    enclave.host(sessions[0], ECHO, b"others go on", &mut reply).unwrap();
    assert_eq!(reply, b"others go on");
}

pub(crate) fn an_enclave_survives_the_thread_that_started_it() {
    let mut enclave = std::thread::spawn(|| start(b"setup")).join().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let (session, _channel) = open(&mut enclave, b"setup");
    enclave.host(session, ECHO, b"here", &mut Vec::new()).unwrap();
}

pub(crate) fn tampered_messages_end_their_session_and_no_other() {
    let mut enclave = start(b"setup");
    let (other, _channel) = open(&mut enclave, b"setup");
    let mut reply = Vec::new();
    for place in [0, 100, 275] {
        let (session, mut channel) = open(&mut enclave, b"setup");
        enclave.host(session, ECHO, b"", &mut reply).unwrap();
        enclave.host(session, ATTEMPT, &[Attempt::Memory as u8], &mut reply).unwrap();
        let mut frame = channel.seal(ECHO, b"message").unwrap();
        frame[place] ^= 1;
        let refused = enclave.client(session, ECHO, &frame, &mut reply);
        assert_eq!((refused, reply.len()), (Err(EnclaveError::Refused(Status::Refused)), 0));
        frame[place] ^= 1;
        let gone = enclave.client(session, ECHO, &frame, &mut reply);
        assert_eq!(gone, Err(EnclaveError::Refused(Status::UnknownSession)), "no second try");
    }
    enclave.host(other, ECHO, b"still here", &mut reply).unwrap();
    assert_eq!(reply, b"still here");
}
