//! `tobari bench`: a job's numbers, one line each, in the shape that `bench/README.md` fixes.

mod call;
mod lattice;
mod limited;
mod line;
mod memory;
mod peer;
mod plot;
mod queries;
mod rounds;
mod search;
mod table;

use crate::args::BenchJob;
use crate::output::{self, Failure};
use std::process::ExitCode;
use table::Table;

/// Measures and prints.
pub(crate) fn run(job: &BenchJob) -> Result<ExitCode, Failure> {
    match job {
        BenchJob::Call(arguments) => call::run(arguments),
        BenchJob::Lattice(arguments) => lattice::run(arguments),
        BenchJob::Search(arguments) => search::run(arguments),
        BenchJob::Memory(arguments) => memory::run(arguments),
    }
}

/// A table for people.
fn show(table: &Table, json: bool) {
    tell(table.text().trim_end(), json);
}

/// Text for people: on standard output, unless that is for programs.
fn tell(text: &str, json: bool) {
    if json {
        output::say(text);
    } else {
        output::result(text);
    }
}
