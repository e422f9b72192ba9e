//! The restrictions of the process.

use super::probe::{Attempt, ECHO, VERB, ask, configuration, open, options, start};
use tobari_enclave::{Enclave, EnclaveError, Protection, State};
use tobari_host::enclave::ProcessEnclave;

const FORBIDDEN: [Attempt; 11] = [
    Attempt::OpenFile,
    Attempt::Socket,
    Attempt::Execute,
    Attempt::Trace,
    Attempt::ReadHost,
    Attempt::Fork,
    Attempt::Thread,
    Attempt::KillHost,
    Attempt::CodeMemory,
    Attempt::WriteFile,
    Attempt::Unshare,
];

fn killed() -> EnclaveError {
    EnclaveError::Gone("killed for a system call outside its list".to_owned())
}

pub(crate) fn a_forbidden_system_call_kills_the_enclave_and_ends_the_session() {
    let _ = std::fs::remove_file("/tmp/tobari-enclave-attempt"); // of an earlier run that failed
    for attempt in FORBIDDEN {
        let mut enclave = start(b"setup");
        assert_eq!(ask(&mut enclave, attempt), Err(killed()), "{attempt:?}");
        let (mut reply, session) = (Vec::new(), tobari_enclave::SessionId([0; 16]));
        assert_eq!(enclave.host(session, ECHO, b"", &mut reply), Err(killed()), "{attempt:?}: for good");
    }
    assert!(!std::path::Path::new("/tmp/tobari-enclave-attempt").exists());
}

pub(crate) fn what_memory_and_randomness_need_is_allowed() {
    assert_eq!(ask(&mut start(b"setup"), Attempt::Memory).as_deref(), Ok(b"it went on".as_slice()));
}

pub(crate) fn what_could_not_be_had_is_reported_and_what_is_required_is_enforced() {
    let enclave = start(b"setup");
    for (what, state) in enclave.protections().lacking() {
        println!("note: {what}: {state}");
    }
    for sure in
        [Protection::OwnProcess, Protection::SystemCallFilter, Protection::NoNewPrivileges, Protection::NotDumpable]
    {
        assert_eq!(enclave.protections().state(sure), State::Applied, "{sure}");
    }
    let mut strict = options();
    strict.namespaces = false;
    strict.required = vec![Protection::NetworkNamespace];
    let refused = ProcessEnclave::start(&configuration(b"x"), b"x", &strict).err();
    let expected = "expected own network namespace, found it not asked for".to_owned();
    assert_eq!(refused, Some(EnclaveError::Start(expected)));
}

pub(crate) fn without_namespaces_the_rest_still_holds() {
    let mut plain = options();
    plain.namespaces = false;
    for attempt in [Attempt::OpenFile, Attempt::Socket, Attempt::Execute] {
        let mut enclave = ProcessEnclave::start(&configuration(b"setup"), b"setup", &plain).unwrap();
        assert_eq!(enclave.protections().state(Protection::UserNamespace), State::NotAsked);
        assert_eq!(ask(&mut enclave, attempt), Err(killed()), "{attempt:?}");
    }
}

pub(crate) fn the_process_has_no_file_no_environment_and_its_own_namespaces() {
    let mut enclave = start(b"setup");
    let (session, _channel) = open(&mut enclave, b"setup");
    let folder = format!("/proc/{}", enclave.process());
    // Only root may read the description of a process that is not dumpable.
    let Ok(files) = std::fs::read_dir(format!("{folder}/fd")) else {
        return tobari_host::testing::not_run(
            "the_process_has_no_file_no_environment_and_its_own_namespaces",
            "not root",
        );
    };
    assert_eq!(files.count(), 0, "no descriptor is open");
    let Ok(environment) = std::fs::read(format!("{folder}/environ")) else {
        return tobari_host::testing::not_run(
            "the_process_has_no_file_no_environment_and_its_own_namespaces",
            "not privileged",
        );
    };
    assert!(environment.is_empty(), "no environment");
    let arguments = std::fs::read_to_string(format!("{folder}/cmdline")).unwrap();
    assert!(arguments.contains(VERB));
    let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
    assert_eq!(field("Threads:").as_deref(), Some("1"));
    assert_eq!(field("NoNewPrivs:").as_deref(), Some("1"));
    assert_eq!(field("Seccomp:").as_deref(), Some("2"), "a filter");
    assert_eq!(field("CapEff:").as_deref(), Some("0000000000000000"));
    let namespace = |process: &str, name: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}")).ok();
    let inside = enclave.process().to_string();
    for (protection, name) in [
        (Protection::UserNamespace, "user"),
        (Protection::ProcessNamespace, "pid"),
        (Protection::NetworkNamespace, "net"),
        (Protection::EmptyRoot, "mnt"),
    ] {
        if enclave.protections().state(protection) == State::Applied {
            assert_ne!(namespace(&inside, name), namespace("self", name), "{protection}");
        } else {
            tobari_host::testing::not_run("the_process_has_its_own_namespaces", name);
        }
    }
    if enclave.protections().state(Protection::EmptyRoot) == State::Applied {
        let entries = std::fs::read_dir(format!("{folder}/root")).map(Iterator::count);
        assert_eq!(entries.ok(), Some(0), "its root directory is empty");
    }
    let mut reply = Vec::new();
    enclave.host(session, ECHO, b"and it still works", &mut reply).unwrap();
    assert_eq!(reply, b"and it still works");
}
