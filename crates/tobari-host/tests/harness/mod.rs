//! In place of libtest's `main`, for tests whose executable is a process of the product, too: prints what that would.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Runs the tests whose names contain the first argument that is no flag, all without one; with `--list`, lists them all.
pub(crate) fn run(tests: &[Test], arguments: &[String]) -> ExitCode {
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
