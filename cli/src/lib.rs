//! The commands of `tobari`: reads its arguments, calls the rooms that do the work, and says what came of it.
//!
//! With `--json` every result is one JSON object a line on standard output; text for people goes to standard error. Exit
//! status: 0 done, 1 the work failed, 2 the call was wrong.
//!
//! This library is for the programs `tobari` and `tobari-bench` and for nobody else: what it exports may change at any time.

#![forbid(unsafe_code)]

mod absent;
mod args;
mod call_key;
mod cmd;
mod config;
mod mixing;
mod options;
#[doc(hidden)]
pub mod simulated;

use args::Verb;
use cmd::config::ConfigVerb;
use std::process::ExitCode;
use tobari_command::output::{self, LogLevel};

/// What of the commands `tobari-bench` measures or begins with, until jobs have crates of their own for it.
#[doc(hidden)]
pub mod shared {
    pub use crate::cmd::call::arguments::KeysName;
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ))]
    pub use crate::cmd::infer::{costs, timed};
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ))]
    pub use crate::cmd::seal::policy;
    pub use crate::cmd::search::{Remote, Wanted};
    pub use crate::cmd::sense::{CloudConnection, KeyFolder, publish};
}

/// What the program calls itself.
const NAME: &str = "tobari";

/// The first thing of all that a program does, before any thread is started and any file is opened. Where this process is an
/// enclave or a module that another of the same executable started, that is all of its life, and its exit status comes back.
#[doc(hidden)]
pub fn begin(program: &str) -> Option<ExitCode> {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    if tobari_host::enclave::is_inside(tobari_host::enclave::VERB) {
        let build = |configuration: &_, setup: &[u8], _: &mut dyn tobari_host::enclave::CryptoRng| {
            tobari_apps::infer::guarded::Guarded::build(configuration, setup)
        };
        return Some(tobari_host::enclave::run_inside(build));
    }
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    if tobari_host::enclave::is_inside(tobari_host::dispatch::MODULE_VERB) {
        return Some(tobari_host::dispatch::run_module());
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = tobari_host::process::leave_no_core_file() {
        output::say(format!("{program}: a crash may leave a file of this process's memory: {error}"));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = program;
    None
}

/// `tobari`, from its first moment to its last.
#[doc(hidden)]
pub fn run() -> ExitCode {
    if let Some(ended) = begin(NAME) {
        return ended;
    }
    let arguments = match config::arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return failure.report(NAME),
    };
    // the server tells what happens, other commands what looks wrong
    let usual = if matches!(arguments.verb, Verb::Serve(_)) { LogLevel::Info } else { LogLevel::Warn };
    output::start_log(&arguments.log, usual);
    let done = match arguments.verb {
        Verb::Demo(demo) => cmd::demo::run(&demo),
        Verb::Serve(mut serve) => cmd::serve::run(&mut serve),
        Verb::Config { verb: ConfigVerb::Check(check) } => {
            config::of_file(&check.file).and_then(|(serve, settings)| cmd::config::check(&check, &serve, &settings))
        }
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        Verb::Backup(backup) => cmd::backup::backup(&backup),
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        Verb::Restore(restore) => cmd::backup::restore(&restore),
        Verb::Info(info) => cmd::info::run(&info),
        Verb::Bench(words) => cmd::moved::run("bench", "tobari-bench", &words),
        Verb::Report(words) => cmd::moved::run("report", "tobari-bench report", &words),
        Verb::Plan { job } => cmd::plan::run(&job),
        Verb::Call { verb } => cmd::call::run(&verb),
        Verb::Search { verb } => cmd::search::run(&verb),
        Verb::Infer { verb } => cmd::infer::run(&verb),
        Verb::Sense { verb } => cmd::sense::run(&verb),
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        Verb::Seal(seal) => cmd::seal::run(&seal),
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        Verb::Unseal(unseal) => cmd::seal::unseal(&unseal),
    };
    match done {
        Ok(code) => output::ended(code),
        Err(failure) => failure.report(NAME),
    }
}
