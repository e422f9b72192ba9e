//! Shared code of the benchmark's tests: running it.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(unreachable_pub, reason = "a module of test files")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the benchmark. It uses the program `tobari` in its own folder, which must be built.
pub fn bench(args: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_tobari-bench"));
    let tobari = program.with_file_name(format!("tobari{}", std::env::consts::EXE_SUFFIX));
    assert!(tobari.is_file(), "{}: build the program tobari first: cargo build -p tobari-cli", tobari.display());
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

/// The program's text for people.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON lines of a benchmark that must succeed.
pub fn lines(args: &[&str]) -> Vec<serde_json::Value> {
    let done = bench(args);
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
