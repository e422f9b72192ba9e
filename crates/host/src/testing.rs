//! Shared by the tests of several crates: requirements that a machine may lack.

#![allow(clippy::print_stdout, reason = "what does not run is said where the test's output goes")]

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

/// Reports that a test is not run, and why: on standard output, and as a line in the file that
/// `TOBARI_NOT_RUN_LOG` names. The lines of this file are counted.
pub fn not_run(test: &str, reason: &str) {
    println!("NOT RUN: {test}: {reason}");
    let Some(log) = std::env::var_os("TOBARI_NOT_RUN_LOG") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&log);
    // One write for the whole line, as other tests write there, too.
    let written = file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", log.display());
}

/// A file or folder in the folder that `TOBARI_DATA` names. If it is missing, reports that the test
/// is not run.
pub fn data(test: &str, path: &str) -> Option<PathBuf> {
    let Some(data) = std::env::var_os("TOBARI_DATA") else {
        not_run(test, "TOBARI_DATA is not set");
        return None;
    };
    let found = PathBuf::from(data).join(path);
    if !found.exists() {
        not_run(test, &format!("there is no {path} in TOBARI_DATA"));
        return None;
    }
    Some(found)
}

/// A test and its name.
pub type Test = (&'static str, fn());

/// Replaces libtest's `main`, with the same output, for test executables that also run as a process
/// of the product.
///
/// Runs the tests whose names contain the first argument that is not a flag, or all without one.
/// With `--list`, lists them all.
pub fn run_tests(tests: &[Test], arguments: &[String]) -> ExitCode {
    if arguments.first().map(String::as_str) == Some("--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen: Vec<&Test> =
        tests.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str()))).collect();
    println!("\nrunning {} tests", chosen.len());
    let mut failed = 0;
    for (name, test) in &chosen {
        let passed = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, chosen.len() - failed);
    let left_out = tests.len() - chosen.len();
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
