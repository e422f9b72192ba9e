//! `tobari-bench`: the figures of a job, one on each line, in the format of `bench/README.md`.

pub(crate) mod arguments;
mod call;
#[cfg(linux_64)]
mod infer;
mod lattice;
mod limited;
pub(crate) mod line;
mod measuring;
mod memory;
mod peer;
mod plot;
mod queries;
mod rounds;
#[cfg(linux_64)]
mod seal;
mod search;
mod sense;
pub(crate) mod table;

use crate::program::Tobari;
use arguments::BenchJob;
use std::process::ExitCode;
use table::Table;
use tobari_command::output::{self, Failure};

/// Measures and prints.
pub(crate) fn run(job: &BenchJob, tobari: &Tobari) -> Result<ExitCode, Failure> {
    match job {
        BenchJob::Call(arguments) => call::run(arguments, tobari),
        #[cfg(linux_64)]
        BenchJob::Infer(arguments) => infer::run(arguments),
        BenchJob::Lattice(arguments) => lattice::run(arguments),
        #[cfg(linux_64)]
        BenchJob::Seal(arguments) => seal::run(arguments, tobari),
        BenchJob::Search(arguments) => search::run(arguments, tobari),
        BenchJob::Sense(arguments) => sense::run(arguments, tobari),
        BenchJob::Memory(arguments) => memory::run(arguments),
    }
}

/// A table for people.
fn show(table: &Table, json: bool) {
    tell(table.text().trim_end(), json);
}

/// Prints text for people: on standard output, or on standard error with `--json`.
fn tell(text: &str, json: bool) {
    if json {
        output::say(text);
    } else {
        output::result(text);
    }
}
