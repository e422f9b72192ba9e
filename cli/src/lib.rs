//! The commands of `tobari`: reads the arguments, calls the crates that do the work, and prints the
//! result.
//!
//! With `--json`, every result and every error (`{"error":"…","status":1}`) is one JSON object a
//! line on standard output; text for people goes to standard error. Exit status: 0 success, 1 the
//! work failed, 2 the command line was wrong.
//!
//! This library serves only the programs `tobari` and `tobari-bench`: its exports may change at any
//! time.

#![forbid(unsafe_code)]

mod absent;
mod args;
mod cmd;
mod config;
#[doc(hidden)]
pub mod pages;

use args::{Arguments, Verb};
use clap::CommandFactory;
use cmd::config::ConfigVerb;
use std::process::ExitCode;
use tobari_command::job::Verbs;
use tobari_command::output::{self, LogLevel};
use tobari_command::start::{OtherLife, begin};

/// The name of the program.
const NAME: &str = "tobari";

/// Other roles of this program, for processes that it starts from its own executable.
const OTHER_LIVES: &[OtherLife] = &[
    tobari_infer_edge::begin,
    #[cfg(linux_64)]
    tobari_seal_edge::begin,
];

/// Runs `tobari`, from its start to its exit status.
#[doc(hidden)]
pub fn run() -> ExitCode {
    if let Some(ended) = begin(NAME, OTHER_LIVES) {
        return ended;
    }
    let as_json = output::wants_json(std::env::args_os());
    let arguments = match config::arguments(as_json) {
        Ok(arguments) => arguments,
        Err(failure) => return failure.report(NAME, as_json),
    };
    // the server logs events, other commands only log problems
    let usual = if matches!(arguments.verb, Verb::Serve(_)) { LogLevel::Info } else { LogLevel::Warn };
    output::start_log(&arguments.log, usual);
    let done = match arguments.verb {
        Verb::Demo(demo) => cmd::demo::run(&demo),
        Verb::Serve(mut serve) => cmd::serve::run(&mut serve),
        Verb::Config { verb: ConfigVerb::Check(check) } => {
            config::of_file(&check.file).and_then(|(serve, settings)| cmd::config::check(&check, &serve, &settings))
        }
        Verb::Healthcheck(check) => cmd::healthcheck::run(&check),
        #[cfg(linux_64)]
        Verb::Backup(backup) => tobari_seal_edge::backup(&backup),
        #[cfg(linux_64)]
        Verb::Restore(restore) => tobari_seal_edge::restore(&restore),
        Verb::Info(info) => cmd::info::run(&info),
        Verb::Completions(completions) => cmd::shell::completions(&completions, Arguments::command()),
        Verb::Man(man) => cmd::shell::man(&man, Arguments::command()),
        Verb::Bench(words) => cmd::moved::run("bench", "tobari-bench", &words),
        Verb::Report(words) => cmd::moved::run("report", "tobari-bench report", &words),
        Verb::Plan { job } => cmd::plan::run(&job),
        Verb::Call { verb } => verb.run(),
        Verb::Search { verb } => verb.run(),
        Verb::Infer { verb } => verb.run(),
        Verb::Sense { verb } => verb.run(),
        #[cfg(linux_64)]
        Verb::Seal(seal) => tobari_seal_edge::run(&seal),
        #[cfg(linux_64)]
        Verb::Unseal(unseal) => tobari_seal_edge::unseal(&unseal),
    };
    match done {
        Ok(code) => output::ended(code),
        Err(failure) => failure.report(NAME, as_json),
    }
}
