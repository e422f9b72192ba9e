//! A search of a child's memory finds its data, but not the executable's constants.
#![cfg(target_os = "linux")]

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tobari_host::process::process_memory_contains;

/// A constant of this executable, and so of every process that runs it. The child never copies it.
static CONSTANT: &[u8] = b"a constant of the executable that no child ever copies: 6b1f0e93";

/// Text that occurs nowhere else: in no argument, environment or file.
fn unheard_of() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut state = now.as_nanos() as u64 | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 32) as u8 % 26)
    };
    (0..640).map(|_| step()).collect()
}

/// A process that keeps the last line of its input and prints "kept" on its standard error.
struct Keeper {
    child: Child,
    answers: BufReader<ChildStderr>,
}

impl Keeper {
    fn shell() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "while read -r line; do kept=$line; echo kept >&2; done"]);
        Self::start(command)
    }

    /// A second process of this test executable that runs only [`keep_lines`].
    fn this_executable() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "memory::keep_lines"]).env("TOBARI_TEST_KEEPER", "1");
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stderr.take().unwrap());
        Self { child, answers }
    }

    fn keep(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "kept\n");
    }

    fn found(&self, needles: &[&[u8]]) -> Vec<usize> {
        let search = process_memory_contains(self.child.id(), needles).unwrap();
        assert!(search.searched_bytes > 100_000 && search.skipped_bytes > 100_000, "{search:?}");
        search.found
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the child of another test"]
fn keep_lines() {
    if std::env::var_os("TOBARI_TEST_KEEPER").is_none() {
        return;
    }
    let mut kept = String::new();
    for line in io::stdin().lines() {
        kept.clone_from(&line.unwrap());
        writeln!(io::stderr(), "kept").unwrap();
    }
    std::hint::black_box(kept);
}

#[test]
fn what_a_child_holds_is_found_and_what_it_never_had_is_not() {
    for mut keeper in [Keeper::shell(), Keeper::this_executable()] {
        keeper.keep("nothing yet");
        let (planted, absent) = (unheard_of(), unheard_of());
        let needles = [absent.as_bytes(), planted.as_bytes(), &planted.as_bytes()[100..116]];
        assert_eq!(keeper.found(&needles), [] as [usize; 0], "before it was planted");
        keeper.keep(&planted);
        assert_eq!(keeper.found(&needles), [1, 2]);
    }
}

#[test]
fn constants_of_the_executable_are_not_taken_for_what_a_child_holds() {
    let mut keeper = Keeper::this_executable();
    keeper.keep("nothing yet");
    assert_eq!(keeper.found(&[CONSTANT]), [] as [usize; 0]);
    // The search finds the constant once the child has a copy in its own memory.
    keeper.keep(std::str::from_utf8(CONSTANT).unwrap());
    assert_eq!(keeper.found(&[CONSTANT]), [0]);
}

#[test]
fn a_search_that_could_see_nothing_is_an_error_and_not_a_clean_bill() {
    let mut dead = Command::new("/bin/true").spawn().unwrap();
    let pid = dead.id();
    // Ended but not reaped: the process still has an identifier, but no memory.
    let maps = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let ended = (0..2000).any(|_| {
        maps().is_empty() || {
            sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(ended);
    assert!(process_memory_contains(pid, &[b"12345678"]).is_err());
    dead.wait().unwrap();
    assert!(process_memory_contains(pid, &[b"12345678"]).is_err());
}

#[test]
fn needles_too_short_to_mean_anything_are_refused() {
    let error = process_memory_contains(std::process::id(), &[b"12345678", b"1234567"]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("needle 1: expected at least 8 bytes, found 7"), "{error}");
}
