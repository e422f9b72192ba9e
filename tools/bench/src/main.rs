//! `tobari-bench`: the costs of the jobs of `tobari` on this machine, and one page that shows them
//! beside the papers' and the peers' figures.
//!
//! With `--json` every figure is one JSON object a line on standard output; text for people goes to
//! standard error. Exit status: 0 done, 1 the work failed, 2 the call was wrong.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod program;
mod report;
mod weak_curves;

use arguments::{Arguments, Verb};
use clap::Parser;
use program::Tobari;
use std::process::ExitCode;
use tobari_command::output::{self, LogLevel};
use tobari_command::start::{OtherLife, begin};

/// The program's name.
const NAME: &str = "tobari-bench";

/// Other roles of this executable: enclaves and modules that are measured.
const OTHER_LIVES: &[OtherLife] = &[
    tobari_infer_edge::begin,
    #[cfg(linux_64)]
    tobari_seal_edge::begin,
];

/// The same allocator as in `tobari`, because the figures are of that program.
#[global_allocator]
static MEMORY: tobari_host::memory::Large = tobari_host::memory::Large::new();

fn main() -> ExitCode {
    if let Some(ended) = begin(NAME, OTHER_LIVES) {
        return ended;
    }
    let arguments = Arguments::parse();
    output::start_log(&arguments.log, LogLevel::Warn);
    let tobari = Tobari::new(arguments.tobari);
    let done = match &arguments.verb {
        Verb::Bench(job) => bench::run(job, &tobari),
        Verb::Report(report) => report::run(report, &tobari),
    };
    match done {
        Ok(code) => output::ended(code),
        Err(failure) => failure.report(NAME, output::wants_json(std::env::args_os())),
    }
}
