//! TLS to a gateway.
//!
//! Owns: whose certificate is believed: the one that is pinned, or else any
//! that the system trusts, or an authority of `NODE_EXTRA_CA_CERTS`. Promises:
//! with a pin, nothing else about the certificate counts, and nobody without
//! its key passes.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Fingerprint, blocking};

use super::target::Target;

/// Why there is no TLS with a gateway.
#[derive(Debug, thiserror::Error)]
pub enum TlsFailure {
    /// The certificates of the system cannot be used.
    #[error("this machine's certificates cannot be used: {0}")]
    System(String),
    /// The host is no name that a certificate can be for.
    #[error("its name cannot be in a certificate")]
    Name,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[source] io::Error),
}

/// Begins TLS with the host of `target`.
pub(super) async fn connect(
    tcp: TcpStream,
    target: &Target,
) -> Result<TlsStream<TcpStream>, TlsFailure> {
    let host = target.url.host().to_owned();
    let name = ServerName::try_from(host).map_err(|_| TlsFailure::Name)?;
    let (pin, extra) = (target.tls_fingerprint, target.extra_authorities.clone());
    // Reading the system's certificates takes a while.
    let config = blocking(move || config(pin, extra.as_deref())).await;
    let config = config.map_err(|error| TlsFailure::System(error.to_string()))??;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp).await.map_err(TlsFailure::Handshake)
}

fn config(pin: Option<Fingerprint>, extra: Option<&Path>) -> Result<ClientConfig, TlsFailure> {
    let system = |error: rustls::Error| TlsFailure::System(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(system)?;
    let verifier: Arc<dyn ServerCertVerifier> = if let Some(expected) = pin {
        Arc::new(Pinned { expected, provider })
    } else {
        // Without them fewer are believed; whoever named the file has been told.
        let extra = extra.and_then(|path| authorities(path).ok()).unwrap_or_default();
        Arc::new(Verifier::new_with_extra_roots(extra, provider).map_err(system)?)
    };
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The certificates in a file, or what is wrong with it.
pub fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |why: &str| format!("no certificates can be read from {}: {why}", path.display());
    let read = std::fs::read(path).map_err(|error| wrong(&error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| wrong("it has none in PEM"))
}

/// Believes one certificate.
#[derive(Debug)]
struct Pinned {
    expected: Fingerprint,
    provider: Arc<CryptoProvider>,
}

/// The gateway has another certificate than expected.
#[derive(Debug)]
struct OtherCertificate {
    expected: Fingerprint,
    found: Fingerprint,
}

impl fmt::Display for OtherCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(f, "its certificate has the fingerprint {found}, and {expected} is expected")
    }
}

impl std::error::Error for OtherCertificate {}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Fingerprint::of(certificate);
        if found == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        let other = OtherCertificate { expected: self.expected, found };
        Err(rustls::Error::Other(OtherError(Arc::new(other))))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
