//! The trust of a client: certificate authorities, or one certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

use crate::{ClientError, Fingerprint};

/// The certificates that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTls {
    /// Certificates signed by the authorities of this system.
    System,
    /// Only certificates signed by the authorities in this PEM file.
    CaFile(PathBuf),
    /// Only the certificate with this fingerprint, with any name and date.
    Pinned(Fingerprint),
}

/// The certificate of a client, for servers that ask for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// A PEM file with the client's certificate, and those of the authorities between.
    pub certificates: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}

/// The configuration of TLS for this trust, over HTTP; error messages name `server`.
///
/// # Errors
/// [`ClientError::CaFile`] for a file without a usable certificate, [`ClientError::Tls`] for a
/// system without authorities.
pub fn client_config(tls: &ClientTls, server: &str) -> Result<ClientConfig, ClientError> {
    let mut config = mutual_config(tls, None, server)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The configuration of TLS for this trust, for a client that may have a certificate itself, over
/// any protocol; error messages name `server`.
///
/// # Errors
/// As [`client_config`]; [`ClientError::CaFile`] also for a certificate or key of the client that
/// cannot be used.
pub fn mutual_config(
    tls: &ClientTls,
    identity: Option<&ClientIdentity>,
    server: &str,
) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let fault = |what: String| ClientError::Tls { server: server.to_owned(), what };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(error.to_string()))?;
    let trusting = match tls {
        ClientTls::System => builder.with_root_certificates(system_roots().map_err(fault)?),
        ClientTls::CaFile(path) => builder.with_root_certificates(file_roots(path)?),
        ClientTls::Pinned(expected) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Pinned { expected: *expected, provider }))
        }
    };
    let Some(ClientIdentity { certificates, key }) = identity else { return Ok(trusting.with_no_client_auth()) };
    let of = |path: &PathBuf, what: String| ClientError::CaFile { path: path.clone(), what };
    let chain = CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| of(certificates, error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, error.to_string()))?;
    trusting.with_client_auth_cert(chain, secret).map_err(|error| of(certificates, error.to_string()))
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("this system has no certificate authorities: name a CA file or a fingerprint".to_owned());
    }
    Ok(roots)
}

fn file_roots(path: &Path) -> Result<RootCertStore, ClientError> {
    let fault = |what: String| ClientError::CaFile { path: path.to_owned(), what };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fault(error.to_string()))? {
        let certificate = certificate.map_err(|error| fault(error.to_string()))?;
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fault("the file has no certificate (PEM)".to_owned()));
    }
    Ok(roots)
}

/// Trusts one certificate. Name, date and issuer do not matter: only the holder of that
/// certificate's key can sign the handshake, and the signature is verified.
#[derive(Debug)]
struct Pinned {
    expected: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::of(own);
        if found == self.expected {
            Ok(ServerCertVerified::assertion())
        } else {
            let expected = self.expected;
            Err(Error::General(format!("the server's certificate has fingerprint {found}: expected {expected}")))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
