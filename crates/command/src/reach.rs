//! The server that a command asks, the server's certificate, and the client's token.

use crate::output::Failure;
use clap::Args;
use std::path::{Path, PathBuf};
use tobari_client::{ClientTls, Fingerprint};
use tobari_host::files;
use zeroize::Zeroizing;

/// The server's certificate and the client's token.
pub struct Reach {
    /// The certificates to trust.
    pub tls: ClientTls,
    /// The token of the client that asks, if it has one.
    pub token: Option<Zeroizing<String>>,
}

/// The server, its certificate, and the client's token.
#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct ReachArguments {
    /// Use this server, such as https://host:7610.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Read the client's token from this file.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Use this token. Other users of this machine may see the command line: prefer --token-file.
    #[arg(long, value_name = "TOKEN", env = "TOBARI_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Trust only the server whose certificate has this SHA-256 fingerprint. `tobari serve` prints
    /// the fingerprint.
    #[arg(long, conflicts_with = "tls_ca", value_name = "HEX")]
    tls_fingerprint: Option<Fingerprint>,
    /// Trust only servers whose certificates are signed by an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

impl ReachArguments {
    /// The certificates to trust and the token, read from their files.
    pub fn reach(&self) -> Result<Reach, Failure> {
        let tls = match (&self.tls_fingerprint, &self.tls_ca) {
            (Some(fingerprint), _) => ClientTls::Pinned(*fingerprint),
            (None, Some(file)) => ClientTls::CaFile(file.clone()),
            (None, None) => ClientTls::System,
        };
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(Zeroizing::new(token.clone())),
            (None, Some(path)) => {
                let bytes = Zeroizing::new(files::read_bounded(path, 4096)?);
                let text = std::str::from_utf8(&bytes).map(str::trim).ok().filter(|text| !text.is_empty());
                let text = text.ok_or_else(|| Failure::Work(format!("{}: expected a token", path.display())))?;
                Some(Zeroizing::new(text.to_owned()))
            }
            (None, None) => None,
        };
        Ok(Reach { tls, token })
    }
}

/// A user's name and a password, from a file with a colon between.
///
/// # Errors
/// [`Failure::Work`] if the file cannot be read, or has no colon.
pub fn login(path: &Path) -> Result<(String, Zeroizing<String>), Failure> {
    let bytes = Zeroizing::new(files::read_bounded(path, 4096)?);
    let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().split_once(':'));
    let wrong = || Failure::Work(format!("{}: expected a name and a password with a colon between", path.display()));
    let (user, password) = text.ok_or_else(wrong)?;
    Ok((user.to_owned(), Zeroizing::new(password.to_owned())))
}
