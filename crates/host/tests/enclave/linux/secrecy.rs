//! The secrets of the enclave do not leak.

use super::probe::{ATTEMPT, Attempt, ECHO, configuration, open, options, rng, start};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use tobari_enclave::{Challenge, Connector, Enclave, Nonce, Policy, Protection, SessionId, VerifyError};
use tobari_host::enclave::ProcessEnclave;
use tobari_host::process::process_memory_contains;
use tobari_host::testing::not_run;

pub(crate) const AS_NOBODY: &str = "as-nobody";
pub(crate) const HOST_OF_ANOTHER: &str = "host-of-another-client";
/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// Sends a message between host and client as one line of hexadecimal digits.
fn say(to: &mut impl Write, bytes: &[u8]) {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(to, "{digits}").unwrap();
    to.flush().unwrap();
}

fn hear(from: &mut impl BufRead) -> Vec<u8> {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    let digits = line.trim().as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A host only: passes messages between standard input and an enclave, and keeps all of them.
pub(crate) fn host_of_another_client() -> ExitCode {
    let mut enclave = start(b"setup");
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout());
    let evidence = enclave.report(&Nonce(hear(&mut input).try_into().unwrap())).unwrap();
    say(&mut output, &evidence);
    let session = SessionId(hear(&mut input).try_into().unwrap());
    enclave.open(session, &hear(&mut input).try_into().unwrap()).unwrap();
    let (mut reply, mut kept) = (Vec::new(), vec![evidence]);
    enclave.host(session, ECHO, b"", &mut reply).unwrap();
    enclave.host(session, ATTEMPT, &[Attempt::Memory as u8], &mut reply).unwrap();
    let frame = hear(&mut input);
    enclave.client(session, ECHO, &frame, &mut reply).unwrap();
    say(&mut output, &reply);
    say(&mut output, &enclave.process().to_be_bytes());
    kept.extend([frame, reply.clone()]);
    hear(&mut input);
    enclave.close(session).unwrap();
    say(&mut output, b"closed");
    hear(&mut input);
    // A panic inside with a secret in its message: the host learns only that it happened.
    let (session, _channel) = open(&mut enclave, b"setup");
    enclave.host(session, ECHO, b"", &mut reply).unwrap();
    let error = enclave.host(session, ATTEMPT, &[Attempt::Panic as u8], &mut reply).unwrap_err();
    say(&mut output, format!("{error} {error:?}").as_bytes());
    hear(&mut input);
    drop(kept);
    ExitCode::SUCCESS
}

pub(crate) fn secrets_are_in_no_memory_of_the_host_and_are_wiped_inside_when_a_session_ends() {
    let name = "secrets_are_in_no_memory_of_the_host_and_are_wiped_inside_when_a_session_ends";
    let mut host = Command::new(std::env::current_exe().unwrap());
    let mut host =
        host.arg(HOST_OF_ANOTHER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (host.stdin.take().unwrap(), BufReader::new(host.stdout.take().unwrap()));
    let executable = *start(b"setup").executable();
    let policy = Policy::new(vec![executable], configuration(b"setup")).accepting_simulated();
    let challenge = Challenge::new(&mut rng(), 0);
    say(&mut to, &challenge.nonce().0);
    let attested = challenge.verify(&policy, &hear(&mut from), 0).unwrap();
    let (mut channel, key) = Connector::connect(&attested, &mut rng()).unwrap();
    say(&mut to, &channel.session().0);
    say(&mut to, &key);
    let mut question = [0; 100];
    rng_bytes(&mut question);
    let frame = channel.seal(ECHO, &question).unwrap();
    say(&mut to, &frame);
    let sealed = hear(&mut from);
    let inside = u32::from_be_bytes(hear(&mut from).try_into().unwrap());
    let opened = channel.open(sealed.clone()).unwrap();
    let secret = &opened[..32];
    let found =
        |process: u32| process_memory_contains(process, &[secret, &question, &sealed[..64]]).map(|search| search.found);
    let outside = match found(host.id()) {
        Ok(found) => found,
        Err(error) => {
            host.kill().unwrap();
            host.wait().unwrap();
            return not_run(name, &format!("cannot search a child's memory: {error}"));
        }
    };
    assert_eq!(outside, [2], "the host has the sealed reply, and neither secret nor question");
    // Only root can read the memory. While the session is open, its secret is there; the question
    // was wiped after its answer.
    let open = found(inside);
    match &open {
        Ok(open) => assert!(open.contains(&0) && !open.contains(&1), "{open:?}"),
        Err(_) => not_run(name, "not root: cannot look inside"),
    }
    say(&mut to, b"close");
    assert_eq!(hear(&mut from), b"closed");
    if open.is_ok() {
        assert!(!found(inside).unwrap().contains(&0), "the session has ended, its secret is wiped");
    }
    say(&mut to, b"panic");
    let error = String::from_utf8(hear(&mut from)).unwrap();
    assert!(error.contains("its code panicked") && !error.contains("canary") && !error.contains("115, 101"), "{error}");
    say(&mut to, b"end");
    let output = host.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn rng_bytes(bytes: &mut [u8]) {
    use chacha20::rand_core::Rng;
    rng().fill_bytes(bytes);
}

/// Whether a mapping of the process can be read, by its own user or root.
fn memory_is_readable(process: u32) -> bool {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{process}/maps")) else { return false };
    let Ok(mut memory) = std::fs::File::open(format!("/proc/{process}/mem")) else { return false };
    let start = maps.lines().find(|line| line.contains("[heap]")).and_then(|line| line.split('-').next());
    let Some(start) = start.and_then(|start| u64::from_str_radix(start, 16).ok()) else { return false };
    memory.seek(SeekFrom::Start(start)).is_ok() && memory.read_exact(&mut [0; 64]).is_ok()
}

/// As an ordinary user: starts an enclave and an ordinary child, and tries to read both. Returns 0
/// if only the child can be read.
pub(crate) fn as_nobody() -> ExitCode {
    let Ok(enclave) = ProcessEnclave::start(&configuration(b"setup"), b"setup", &options()) else {
        return ExitCode::from(3);
    };
    for (what, state) in enclave.protections().lacking() {
        println!("note, as an ordinary user: {what}: {state}");
    }
    let own = memory_is_readable(std::process::id());
    match (memory_is_readable(enclave.process()), own) {
        (false, true) => ExitCode::SUCCESS,
        (true, _) => ExitCode::from(1),
        (false, false) => ExitCode::from(2),
    }
}

pub(crate) fn another_process_of_the_same_user_cannot_read_its_memory() {
    let name = "another_process_of_the_same_user_cannot_read_its_memory";
    if !rustix::process::geteuid().is_root() {
        assert_eq!(as_nobody(), ExitCode::SUCCESS);
        return;
    }
    let enclave = start(b"setup");
    if memory_is_readable(enclave.process()) {
        println!("note: root reads the memory of a simulated enclave, as it is documented");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    match command.arg(AS_NOBODY).uid(NOBODY).gid(NOBODY).current_dir("/").status() {
        Ok(status) => assert_eq!(status.code(), Some(0), "1: its memory was read; 2: nothing could be; 3: no start"),
        Err(error) => not_run(name, &format!("cannot run as another user: {error}")),
    }
}

pub(crate) fn evidence_of_this_process_is_accepted_only_where_simulated_evidence_is() {
    let mut enclave = start(b"setup");
    let policy = Policy::new(vec![*enclave.executable()], configuration(b"setup"));
    let mut judge = |policy: &Policy| {
        let challenge = Challenge::new(&mut rng(), 5);
        let evidence = enclave.report(challenge.nonce()).unwrap();
        challenge.verify(policy, &evidence, 6)
    };
    assert_eq!(judge(&policy).err(), Some(VerifyError::Simulated));
    let mut accepting = policy.clone().accepting_simulated();
    accepting.required = vec![Protection::SystemCallFilter];
    let attested = judge(&accepting).unwrap();
    assert!(attested.is_simulated());
    let mut other = policy.accepting_simulated();
    other.executables = vec![tobari_enclave::Digest::of_bytes(b"another executable")];
    assert!(matches!(judge(&other).err(), Some(VerifyError::Measurement { .. })));
    assert_eq!(attested.measurement(), enclave.measurement());
}
