//! `tobari search keygen`, `tobari search token`, and the key file.

use super::arguments::{KeygenArguments, TokenArguments};
use chacha20::rand_core::Rng;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files;
use tobari_search::identity::{IDENTITY_BYTES, Identity};
use zeroize::Zeroizing;

/// Makes a key.
pub(crate) fn keygen(arguments: &KeygenArguments) -> Result<ExitCode, Failure> {
    let identity = Identity::generate(&mut randomness::generator()?);
    files::write_secret(&arguments.output, &identity.encode())?;
    let path = arguments.output.display().to_string();
    if arguments.json {
        output::json(&json!({ "secret_key": path }))?;
    } else {
        output::result(format!("secret key: {path} (keep it: it opens answers, and tells the true places of queries)"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a key.
pub(crate) fn read(path: &Path) -> Result<Identity, Failure> {
    let bytes = Zeroizing::new(files::read_bounded(path, IDENTITY_BYTES as u64 + 1)?);
    Identity::decode(&bytes).map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}

/// Makes a token of 256 random bits.
pub(crate) fn token(arguments: &TokenArguments) -> Result<ExitCode, Failure> {
    let name = &arguments.name;
    if name.is_empty() || name.len() > 64 || name.starts_with('#') || name.contains(char::is_whitespace) {
        return Err(Failure::Call("expected a name of 1 to 64 bytes without white space or # before it".to_owned()));
    }
    let mut bytes = Zeroizing::new([0; 32]);
    randomness::generator()?.fill_bytes(&mut *bytes);
    let token = Zeroizing::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let line = format!("{name} {}", tobari_node::token_hash(&token));
    if arguments.json {
        output::json(&json!({ "name": name, "token": *token, "line": line }))?;
    } else {
        output::result(format!("token, for the client: {}\nline, for the server's file: {line}", *token));
    }
    Ok(ExitCode::SUCCESS)
}
