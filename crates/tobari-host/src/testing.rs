//! What tests of several rooms share: what a machine may lack.

#![allow(clippy::print_stdout, reason = "what does not run is said where the test's output goes")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Says that a test is not run, and why: to whoever reads its output, and a line to the file that `TOBARI_NOT_RUN_LOG` names, by which it is counted.
pub fn not_run(test: &str, reason: &str) {
    println!("NOT RUN: {test}: {reason}");
    let Some(log) = std::env::var_os("TOBARI_NOT_RUN_LOG") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&log);
    // at once, as other tests write there too
    let written = file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", log.display());
}

/// This file or folder of the data that `TOBARI_DATA` names; where it is not, the test says that it is not run.
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
