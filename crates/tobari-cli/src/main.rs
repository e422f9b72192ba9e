//! The `tobari` command: reads its arguments, calls the rooms that do the work, and says what came of it.
//!
//! With `--json` every result is one JSON object a line on standard output; text for people goes to standard error. Exit
//! status: 0 done, 1 the work failed, 2 the call was wrong.

#![forbid(unsafe_code)]

mod args;
mod blind_server;
mod call_key;
mod cmd;
mod config;
mod day;
mod line;
mod mixing;
mod options;
mod output;
mod parse;
mod randomness;
mod reach;
mod reference;
mod replies;
mod simulated;
mod stop;

use args::Verb;
use cmd::config::ConfigVerb;
use output::LogLevel;
use std::process::ExitCode;

/// What the program calls itself.
const NAME: &str = "tobari";

/// Ciphertexts and keys are large, and come and go.
#[global_allocator]
static MEMORY: tobari_host::memory::Large = tobari_host::memory::Large::new();

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    if tobari_host::enclave::is_inside(tobari_host::enclave::VERB) {
        // first of all: before any thread is started and any file is opened
        let build = |configuration: &_, setup: &[u8], _: &mut dyn tobari_host::enclave::CryptoRng| {
            tobari_apps::infer::guarded::Guarded::build(configuration, setup)
        };
        return tobari_host::enclave::run_inside(build);
    }
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    if tobari_host::enclave::is_inside(tobari_host::dispatch::MODULE_VERB) {
        return tobari_host::dispatch::run_module();
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = tobari_host::process::leave_no_core_file() {
        output::say(format!("tobari: a crash may leave a file of this process's memory: {error}"));
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
        Verb::Bench { job } => cmd::bench::run(&job),
        Verb::Report(report) => cmd::report::run(&report),
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
