//! Children with and without an announcement.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tobari_host::process::{ChildServer, ProcessError, StderrMode};

const LONG: Duration = Duration::from_secs(30);
const ANNOUNCE: &str = r#"echo '{"listening":"http://127.0.0.1:43211"}'"#;

fn start(script: &str, timeout: Duration) -> Result<ChildServer, ProcessError> {
    ChildServer::start_program(Path::new("/bin/sh"), ["-c", script], StderrMode::Capture, timeout)
}

/// Waits until `condition` holds; false if it does not in time.
fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        if condition() {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    false
}

fn exists(pid: u32) -> bool {
    Command::new("/bin/sh")
        .args(["-c", &format!("kill -0 {pid}")])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_child_that_announces_itself_runs_until_it_is_dropped() {
    let mut server = start(&format!("{ANNOUNCE}; exec sleep 600"), LONG).expect("it announces itself");
    assert_eq!(server.announced_line(), r#"{"listening":"http://127.0.0.1:43211"}"#);
    assert!(server.exit_status().is_ok_and(|status| status.is_none()));
    let pid = server.pid();
    assert!(exists(pid));
    drop(server);
    assert!(!exists(pid), "neither running nor waiting to be reaped");
}

#[test]
fn a_child_that_ends_early_is_reported_with_its_status_and_last_words() {
    let error = start("echo 'port 43211 is taken' >&2; exit 3", LONG).expect_err("it ends");
    assert!(matches!(&error, ProcessError::Ended { status, .. } if status.code() == Some(3)), "{error}");
    let message = error.to_string();
    assert!(message.starts_with("/bin/sh: ") && message.contains("port 43211 is taken"), "{message}");
}

#[test]
fn a_silent_child_is_killed_when_the_time_is_over() {
    let error = start("echo $$ >&2; exec sleep 600", Duration::from_millis(300)).expect_err("it is silent");
    let ProcessError::Silent { timeout_ms: 300, stderr, .. } = &error else { panic!("{error}") };
    let pid = stderr.split_whitespace().last().and_then(|word| word.parse().ok()).expect("it said its number");
    assert!(!exists(pid));
}

#[test]
fn a_child_that_says_something_else_is_killed() {
    let error = start("echo hello; exec sleep 600", LONG).expect_err("it says hello");
    assert!(matches!(&error, ProcessError::Unexpected { found, .. } if found == "hello"), "{error}");
}

#[test]
fn an_announcement_cut_short_is_not_believed() {
    let error = start(r#"printf '{"listening":"http://127.0.0.1:4'"#, LONG).expect_err("it is cut");
    assert!(matches!(error, ProcessError::Unexpected { .. }), "{error}");
    let error = start(r#"printf '{"listening":"'; yes | tr -d '\n'"#, LONG).expect_err("it never ends");
    assert!(matches!(&error, ProcessError::Unexpected { found, .. } if found.len() == 4096), "{error}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let missing = Path::new("/nonexistent/tobari");
    let error = ChildServer::start_program(missing, [""; 0], StderrMode::Inherit, LONG).expect_err("there is none");
    assert!(matches!(&error, ProcessError::Start { .. }), "{error}");
    assert!(error.to_string().starts_with("/nonexistent/tobari: "), "{error}");
}

#[test]
fn a_talkative_child_never_blocks_and_only_its_last_words_are_kept() {
    let noise = "dd if=/dev/zero bs=1000 count=1000 2>/dev/null";
    let script = format!("{ANNOUNCE}; {noise}; {noise} | tr '\\0' x >&2; echo the end >&2; exec sleep 600");
    let server = start(&script, LONG).expect("it announces itself");
    assert!(soon(|| server.captured_stderr().ends_with("xthe end\n")), "{} bytes", server.captured_stderr().len());
    assert_eq!(server.captured_stderr().len(), 1 << 16);
}

#[test]
fn the_child_keeps_its_parents_environment_and_an_open_standard_input() {
    let script = r#"echo "{\"listening\":\"$PATH\"}"; read -r line; echo input ended >&2"#;
    let server = start(script, LONG).expect("it announces itself");
    let path = std::env::var("PATH").expect("a path");
    assert_eq!(server.announced_line(), format!(r#"{{"listening":"{path}"}}"#));
    sleep(Duration::from_millis(100));
    assert_eq!(server.captured_stderr(), "");
}

#[test]
fn start_runs_this_very_executable() {
    // A test executable prints the list of its tests. This is no announcement, so it is an error.
    let error = ChildServer::start(["--list"], StderrMode::Inherit, LONG).expect_err("a list is no announcement");
    assert!(matches!(&error, ProcessError::Unexpected { found, .. } if found.ends_with(": test")), "{error}");
}
