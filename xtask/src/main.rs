//! The project's own commands:
//!
//! - `cargo xtask test`: everything that a change must pass.
//! - `cargo xtask check`: the quick part of that, for changed packages.
//! - `cargo xtask soak NAME`: long runs, whose record is committed.
//! - `cargo xtask ct`: looks for branches and addresses that depend on secrets.
//! - `cargo xtask web`: builds the browser's clients.
//! - `cargo xtask book`: builds the book.
//! - `cargo xtask dist`: builds and tests the artefacts.
//! - `cargo xtask graph`: crates, and circles of modules.
//! - `cargo xtask buildcost`: the processor time of a build of the program, by crate.
//!
//! The runs need Rust and a C compiler. A step that needs another program finds it, installs it, or
//! names it. The exit status is 0 for success, 1 for a failure, and 2 for a wrong call.
//!
//! **For authors of tests.** A test without its data (in the folder of the environment variable
//! `TOBARI_DATA`) prints `NOT RUN: reason` and returns. cargo hides the output of a test that
//! returns, so the test also appends a line `test_name: reason` to the file of the environment
//! variable `TOBARI_NOT_RUN_LOG`, if it is set. The summary prints these lines, and counts each
//! such test as skipped and not as passed.
//!
//! The last line of standard output of `test` is `N passed, N failed, N skipped`, whether or not
//! the run passed.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a build tool reports by printing")]

mod aarch64;
mod args;
mod book;
mod buildcost;
mod changes;
mod check;
mod child;
mod companions;
mod device;
mod dist;
mod graph;
mod json;
mod layout;
mod package;
mod python;
mod record;
mod soak;
mod steps;
mod summary;
mod tally;
mod tools;
mod web;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    // first: as the compiler's wrapper this program has another command line
    if let Some(code) = buildcost::wrapped() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let call = match args::parse(&words) {
        Ok(call) => call,
        Err(error) => {
            eprintln!("{error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let Some(root) = root() else {
        eprintln!("expected to be inside the repository, found no Cargo.toml with [workspace] above this folder");
        return ExitCode::from(2);
    };
    match call {
        args::Call::Test { without, only } => exit(steps::run(&root, &without, &only)),
        args::Call::Check { since } => match check::run(&root, since.as_deref()) {
            Ok(passed) => exit(passed),
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        },
        args::Call::Soak { name, minutes } => exit(soak::run(&root, &name, minutes)),
        args::Call::Web => told(&web::renew(&root)),
        args::Call::Book => told(&book::build(&root).map(|page| println!("{}", page.display()))),
        args::Call::Dist { targets, only } => told(&dist::run(&root, &targets, &only)),
        args::Call::Graph { json } => told(&graph::run(&root, json)),
        args::Call::BuildCost { json, package } => told(&buildcost::run(&root, json, package.as_deref())),
        args::Call::ListSoaks => {
            soak::list();
            ExitCode::SUCCESS
        }
        args::Call::Help => {
            println!("{}\n\nsteps: {}\nparts: {}", args::USAGE, steps::names().join(", "), tools::parts().join(", "));
            ExitCode::SUCCESS
        }
    }
}

fn told(result: &Result<(), String>) -> ExitCode {
    if let Err(error) = result {
        eprintln!("{error}");
    }
    exit(result.is_ok())
}

fn exit(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the repository: the nearest folder with a workspace manifest and this crate, upwards
/// from this crate's folder (from cargo) or else from the current folder. It is determined at run
/// time, because checkouts may share a build folder.
fn root() -> Option<PathBuf> {
    let start = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    let is_root = |folder: &&std::path::Path| {
        folder.join("xtask/Cargo.toml").is_file()
            && std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"))
    };
    start.ancestors().find(is_root).map(PathBuf::from)
}
