//! Commands that have moved to another program. For one release they name that program.

use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;
use tobari_command::output::Failure;

/// What somebody still types.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct MovedArguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Returns an error that names the new command: `program` with the same words.
pub(crate) fn run(verb: &str, program: &str, arguments: &MovedArguments) -> Result<ExitCode, Failure> {
    let words: String = arguments.words.iter().map(|word| format!(" {}", word.to_string_lossy())).collect();
    let get = "build it by cargo build --release -p tobari-bench";
    Err(Failure::Call(format!("`tobari {verb}` is a program of its own now ({get}): run {program}{words}")))
}
