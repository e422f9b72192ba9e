//! `tobari config check`.

use super::serve;
use crate::args::CheckArguments;
use crate::config::{self, Setting};
use crate::output::{self, Failure};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tobari_server::{ServerOptions, Tls};

/// Says each setting and where it is from, and whether what they name is there.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let (serve, settings) = config::of_file(&arguments.file)?;
    let options = serve::options(&serve)?;
    for setting in &settings {
        tell(setting, arguments.json)?;
    }
    let mut missing: Vec<&Path> = named(&options).into_iter().filter(|path| !path.is_file()).collect();
    missing.extend(options.web.as_deref().filter(|folder| !folder.is_dir()));
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let missing: Vec<String> = missing.into_iter().map(|path| path.display().to_string()).collect();
    Err(Failure::Work(format!("expected these files, found none: {}", missing.join(", "))))
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

/// The files that the server could not start without. What is in them it reads when it starts.
fn named(options: &ServerOptions) -> Vec<&Path> {
    let mut files: Vec<&Path> = Vec::new();
    if let Tls::Files { cert, key } = &options.tls {
        files.extend([cert.as_path(), key.as_path()]);
    }
    if let Some(search) = &options.search {
        files.extend(search.tables.iter().map(PathBuf::as_path));
        files.extend(search.tokens.as_deref());
    }
    if let Some(infer) = &options.infer {
        files.extend(infer.models.iter().filter_map(|model| model.path.as_deref()));
        files.extend(infer.tokens.as_deref());
    }
    files.extend(options.sense.iter().filter_map(|sense| sense.tokens.as_deref()));
    files
}
