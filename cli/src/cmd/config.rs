//! `tobari config check`.

use super::serve::{self, ServeArguments};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};

/// Commands about the settings file.
#[derive(Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print each setting with its source, and check whether the server could start.
    Check(CheckArguments),
}

/// `tobari config check`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari config check
    tobari config check tobari.toml --json")]
pub(crate) struct CheckArguments {
    /// The settings file.
    #[arg(default_value = "tobari.toml", value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One setting.
pub(crate) struct Setting {
    /// The long name of the option.
    pub(crate) name: String,
    /// The values; empty if the setting is not given and has no default.
    pub(crate) values: Vec<String>,
    /// `file`, `environment`, `command line` or `default`.
    pub(crate) source: &'static str,
}

/// Prints each setting with its source, and checks that every file and folder that the settings
/// name exists. `serve` holds the arguments of a server with these settings.
pub(crate) fn check(
    arguments: &CheckArguments,
    serve: &ServeArguments,
    settings: &[Setting],
) -> Result<ExitCode, Failure> {
    let options = serve::options(serve)?;
    for setting in settings {
        tell(setting, arguments.json)?;
    }
    let mut needed = serve.files();
    needed.extend(serve.tls_cert.as_deref());
    needed.extend(serve.tls_key.as_deref());
    let mut missing: Vec<&Path> = needed.into_iter().filter(|path| !path.is_file()).collect();
    missing.extend(options.web.as_deref().filter(|folder| !folder.is_dir()));
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let missing: Vec<String> = missing.into_iter().map(|path| path.display().to_string()).collect();
    Err(Failure::Work(format!("the settings name files that do not exist: {}", missing.join(", "))))
}

fn tell(setting: &Setting, json: bool) -> Result<(), Failure> {
    let Setting { name, values, source } = setting;
    if json {
        return output::json(&json!({ "setting": name, "values": values, "source": source }));
    }
    if !values.is_empty() {
        output::result(format!("{name} = {}  ({source})", values.join(", ")));
    }
    Ok(())
}
