//! `tobari completions` and `tobari man`: completions for shells and pages for `man`, generated
//! from the program's clap definitions.

use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;
use tobari_command::output::Failure;

/// `tobari completions`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari completions bash > tobari.bash
    tobari completions zsh > _tobari")]
pub(crate) struct CompletionsArguments {
    /// Write the completions of this shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// `tobari man`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari man -o man1
    tobari man --output /tmp/man/man1")]
pub(crate) struct ManArguments {
    /// Write the pages into this folder, one for each command. The folder is made if it is missing.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Prints the completion script for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, crate::NAME, &mut script);
    tobari_command::output::text(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `tobari.1`, `tobari-serve.1` and so on.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<ExitCode, Failure> {
    let folder = &arguments.output;
    let failed = |error: std::io::Error| Failure::Work(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
