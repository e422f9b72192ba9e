//! The server's side of TLS: rustls with the ring provider, TLS 1.2 and 1.3, HTTP/1.1 only.

#[cfg(feature = "acme")]
pub(crate) mod acme;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use tobari_client::Fingerprint;

/// The protocol inside TLS.
const HTTP: &[u8] = b"http/1.1";

/// Whether and how connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not encrypted: for one machine, a trusted network, or behind a proxy that encrypts.
    None,
    /// With a certificate chain and its key from PEM files.
    Files {
        /// The chain, the server's own certificate first.
        cert: PathBuf,
        /// The private key: PKCS #8, PKCS #1 or SEC 1.
        key: PathBuf,
    },
    /// With a new certificate, whose key stays in memory only: clients pin its fingerprint.
    SelfSigned,
    /// With certificates that an authority signs and renews by ACME.
    #[cfg(feature = "acme")]
    Acme(acme::AcmeOptions),
}

/// The reason why TLS cannot start with these options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file of the certificate cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        what: String,
    },
    /// Certificate and key do not belong together, or TLS cannot use them.
    #[error("certificate: {0}")]
    Pair(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// The acceptor of TLS connections, and the fingerprint that clients may pin.
pub(crate) struct ServerTls {
    pub(crate) acceptor: Acceptor,
    /// None for a certificate that an authority renews.
    pub(crate) fingerprint: Option<Fingerprint>,
    #[cfg(feature = "acme")]
    pub(crate) renewal: Option<acme::Renewal>,
}

/// Accepts TLS connections. It can be replaced while the server runs; existing connections
/// continue.
#[derive(Clone)]
pub(crate) struct Acceptor(Arc<RwLock<TlsAcceptor>>);

impl Acceptor {
    /// The current acceptor, for one connection.
    pub(crate) fn now(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over the other's acceptor.
    pub(crate) fn become_as(&self, other: &Self) {
        let other = other.now();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = other;
    }
}

/// TLS as the options say; `addr` goes into a self-signed certificate.
pub(crate) fn server_tls(options: &Tls, addr: SocketAddr) -> Result<Option<ServerTls>, TlsError> {
    let (chain, key) = match options {
        Tls::None => return Ok(None),
        Tls::Files { cert, key } => (read_chain(cert)?, read_key(key)?),
        Tls::SelfSigned => self_signed(addr)?,
        #[cfg(feature = "acme")]
        Tls::Acme(options) => {
            let (mut config, renewal) = acme::config(options)?;
            config.alpn_protocols = vec![HTTP.to_vec(), acme::CHALLENGE.to_vec()];
            return Ok(Some(ServerTls { acceptor: acceptor(config), fingerprint: None, renewal: Some(renewal) }));
        }
    };
    let fingerprint = chain.first().map(|own| Fingerprint::of(own)).ok_or(rustls::Error::NoCertificatesPresented)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(Some(ServerTls {
        acceptor: acceptor(config),
        fingerprint: Some(fingerprint),
        #[cfg(feature = "acme")]
        renewal: None,
    }))
}

fn acceptor(config: ServerConfig) -> Acceptor {
    Acceptor(Arc::new(RwLock::new(TlsAcceptor::from(Arc::new(config)))))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = |what: String| TlsError::File { path: path.to_owned(), what };
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| fault(error.to_string()))?;
    if chain.is_empty() {
        return Err(fault("the file has no certificate (PEM)".to_owned()));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| TlsError::File { path: path.to_owned(), what: error.to_string() })
}

/// A certificate for the local names of this machine; its key is never written to the disk.
fn self_signed(addr: SocketAddr) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let own = addr.ip().to_string();
    if !addr.ip().is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "tobari blind server");
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}
