//! TLS to a gateway, by its certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::WsClient;

const LIMIT: Duration = Duration::from_secs(10);

/// TLS with `localhost`; only the certificate in `trusted` is believed.
pub async fn connect(port: u16, trusted: &Path) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(trusted).unwrap();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    let connected = tokio::time::timeout(LIMIT, connecting).await.expect("an answer to TLS");
    connected.map_err(|error| error.to_string())
}

/// A WebSocket over it.
pub async fn open(port: u16, trusted: &Path) -> Result<WsClient, String> {
    let stream = connect(port, trusted).await?;
    let url = format!("wss://localhost:{port}/");
    WsClient::upgrade(Box::new(stream), &url, &[]).await.map_err(|refusal| format!("{refusal:?}"))
}
