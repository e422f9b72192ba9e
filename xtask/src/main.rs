//! `cargo xtask test`: everything a change must pass. `cargo xtask check`: the quick part of that,
//! on what changed. `cargo xtask soak NAME`: long runs, whose record is committed.
//! `cargo xtask web`: the browser's client, built anew. `cargo xtask book`: the book. `cargo xtask
//! graph`: crates, and circles of modules. `cargo xtask buildcost`: the processor time that the
//! program takes to build, by crate.
//!
//! The runs need Rust and a C compiler. A step that needs more finds it, installs it, or names it.
//! Exit 0 done, 1 something failed, 2 the call was wrong.
//!
//! **For authors of tests.** A test whose data is absent (it looks in the folder that the
//! environment variable `TOBARI_DATA` names) prints `NOT RUN: reason` and returns. cargo swallows
//! the output of a test that returns, so the test also appends one line `test_name: reason` to the
//! file that the environment variable `TOBARI_NOT_RUN_LOG` names, if it is set. The summary prints
//! these lines, and counts each such test as skipped and not as passed.
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
mod graph;
mod json;
mod layout;
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
    // first of all: as the compiler's wrapper this program has another command line
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

/// The root of the repository: the nearest folder with a workspace manifest and this crate, from
/// where cargo says this crate lies, or else from the current folder. Asked at run time, since a
/// build folder may be shared by checkouts.
fn root() -> Option<PathBuf> {
    let start = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
    let is_root = |folder: &&std::path::Path| {
        folder.join("xtask/Cargo.toml").is_file()
            && std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"))
    };
    start.ancestors().find(is_root).map(PathBuf::from)
}
