//! The trust of a client: certificate authorities, or one certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
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

/// The configuration of TLS for this trust; error messages name `server`.
///
/// # Errors
/// [`ClientError::CaFile`] for a file without a usable certificate, [`ClientError::Tls`] for a
/// system without authorities.
pub fn client_config(tls: &ClientTls, server: &str) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(ring::default_provider());
    let fault = |what: String| ClientError::Tls { server: server.to_owned(), what };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(error.to_string()))?;
    let mut config = match tls {
        ClientTls::System => builder.with_root_certificates(system_roots().map_err(fault)?).with_no_client_auth(),
        ClientTls::CaFile(path) => builder.with_root_certificates(file_roots(path)?).with_no_client_auth(),
        ClientTls::Pinned(expected) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { expected: *expected, provider }))
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
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
