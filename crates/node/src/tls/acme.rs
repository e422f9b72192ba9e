//! Certificates of an authority that speaks ACME (RFC 8555), proved by TLS-ALPN-01 (RFC 8737): on
//! the port that serves, which must be reached as port 443 from outside. `rustls-acme` orders and
//! renews them.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use futures_util::StreamExt;
use rustls::{ServerConfig, crypto::ring, server::ResolvesServerCert};
use rustls_acme::{AcmeConfig, AcmeState, EventOk, caches::DirCache};
use tobari_client::{ClientTls, client_config};

use super::TlsError;

/// The protocol by which the authority looks for its challenge.
pub(super) const CHALLENGE: &[u8] = b"acme-tls/1";
/// Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// What an authority is asked for, and where its answers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcmeOptions {
    /// The names of this server, which lead to it.
    pub names: Vec<String>,
    /// Where the account's key and the certificate with its key are kept: a folder that nobody else
    /// may enter.
    pub folder: PathBuf,
    /// An address for the authority's warnings.
    pub contact: Option<String>,
    /// The authority's directory.
    pub directory: String,
    /// Who signs the authority's own certificate, if the system does not know: PEM.
    pub authority: Option<PathBuf>,
}

impl AcmeOptions {
    /// Certificates of Let's Encrypt for these names, kept in this folder.
    pub fn new(names: Vec<String>, folder: PathBuf) -> Self {
        Self { names, folder, contact: None, directory: LETS_ENCRYPT.to_owned(), authority: None }
    }
}

/// Orders certificates as long as it is asked to.
pub(crate) struct Renewal(Box<AcmeState<std::io::Error>>);

impl Renewal {
    /// Orders, waits and renews; never ends. Failures are logged, and tried again later and later.
    pub(crate) async fn keep_up(mut self) {
        while let Some(event) = self.0.next().await {
            match event {
                Ok(EventOk::DeployedNewCert) => tracing::info!("a new certificate is in use"),
                Ok(EventOk::DeployedCachedCert) => tracing::info!("the certificate of the folder is in use"),
                Ok(_) => {}
                Err(error) => tracing::warn!("no certificate: {error}"),
            }
        }
    }
}

/// A configuration that answers with whatever certificate there is, and with the challenge if that
/// is asked for.
pub(super) fn config(options: &AcmeOptions) -> Result<(ServerConfig, Renewal), TlsError> {
    ready(options)?;
    let trust = options.authority.clone().map_or(ClientTls::System, ClientTls::CaFile);
    let mut client = client_config(&trust, &options.directory).map_err(|error| fault(options, error.to_string()))?;
    client.alpn_protocols.clear(); // the authority speaks whatever HTTP it likes
    let state = AcmeConfig::new_with_client_config(&options.names, Arc::new(client))
        .contact(options.contact.iter().map(|address| format!("mailto:{address}")))
        .directory(&options.directory)
        .cache(DirCache::new(options.folder.clone()))
        .state();
    let resolver: Arc<dyn ResolvesServerCert> = state.resolver();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    Ok((config, Renewal(Box::new(state))))
}

fn fault(options: &AcmeOptions, what: String) -> TlsError {
    TlsError::File { path: options.folder.clone(), what }
}

/// Makes the folder, or sees that others may not look into it: the files in it hold private keys
/// and are as readable as the system makes files.
fn ready(options: &AcmeOptions) -> Result<(), TlsError> {
    let system = |error: std::io::Error| fault(options, error.to_string());
    if !options.folder.exists() {
        fs::create_dir_all(&options.folder).map_err(system)?;
        fs::set_permissions(&options.folder, fs::Permissions::from_mode(0o700)).map_err(system)?;
    }
    let mode = fs::metadata(&options.folder).map_err(system)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(fault(options, format!("the folder must be private (chmod 700): its mode is {:o}", mode & 0o777)));
    }
    let bare = |name: &&String| {
        name.is_empty() || name.contains(['/', ':', '*', ' ']) || name.parse::<std::net::IpAddr>().is_ok()
    };
    match options.names.iter().find(bare) {
        Some(name) => Err(fault(options, format!("expected the name of a host, found `{name}`"))),
        None => Ok(()),
    }
}
