//! Certificates by ACME (RFC 8555), with the challenge TLS-ALPN-01 (RFC 8737). The authority checks
//! the challenge on the server's own port, which must be port 443 from outside. `rustls-acme`
//! orders and renews the certificates.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use futures_util::StreamExt;
use rustls::{ServerConfig, crypto::ring, server::ResolvesServerCert};
use rustls_acme::{AcmeConfig, AcmeState, EventOk, caches::DirCache};
use tobari_client::{ClientTls, client_config};

use super::TlsError;

/// The protocol (ALPN) with which the authority checks its challenge.
pub(super) const CHALLENGE: &[u8] = b"acme-tls/1";
/// Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The order for the authority, and the folder for its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcmeOptions {
    /// The host names of this server, which must resolve to it.
    pub names: Vec<String>,
    /// The private folder (mode 0700) for the account's key and the certificate with its key.
    pub folder: PathBuf,
    /// An address for the authority's warnings.
    pub contact: Option<String>,
    /// The authority's directory.
    pub directory: String,
    /// The root of the authority's own certificate, if the system does not have it: PEM.
    pub authority: Option<PathBuf>,
}

impl AcmeOptions {
    /// Certificates of Let's Encrypt for these names, kept in this folder.
    pub fn new(names: Vec<String>, folder: PathBuf) -> Self {
        Self { names, folder, contact: None, directory: LETS_ENCRYPT.to_owned(), authority: None }
    }
}

/// Orders and renews certificates.
pub(crate) struct Renewal(Box<AcmeState<std::io::Error>>);

impl Renewal {
    /// Orders, waits and renews; never ends. Failures are logged and retried after growing delays.
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

/// A configuration that presents the current certificate, or the challenge if the authority asks
/// for it.
pub(super) fn config(options: &AcmeOptions) -> Result<(ServerConfig, Renewal), TlsError> {
    ready(options)?;
    let trust = options.authority.clone().map_or(ClientTls::System, ClientTls::CaFile);
    let mut client = client_config(&trust, &options.directory).map_err(|error| fault(options, error.to_string()))?;
    client.alpn_protocols.clear(); // the authority may use any version of HTTP
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

/// Makes the folder, or checks that no other user may enter it. Its files hold private keys, and
/// their own permissions are the system's default.
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
