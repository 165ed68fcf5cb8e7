//! TLS to a gateway, or to a proxy in front of it, by its certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::WsClient;

const LIMIT: Duration = Duration::from_secs(60);

/// A way to a port of this machine.
pub struct Way<'a> {
    pub port: u16,
    /// Whose certificate is expected.
    pub name: &'a str,
    /// The certificate that is believed, and no other.
    pub trusted: &'a Path,
    /// The address of this machine to come from.
    pub from: Ipv4Addr,
}

impl Way<'_> {
    /// A TLS connection.
    pub async fn connect(&self) -> Result<TlsStream<TcpStream>, String> {
        let mut roots = RootCertStore::empty();
        let pem = std::fs::read(self.trusted).unwrap();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpSocket::new_v4().unwrap();
        tcp.bind((self.from, 0).into()).unwrap();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let tcp = tcp.connect(to).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(self.name.to_owned()).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        let connected = timeout(LIMIT, connecting).await.expect("an answer to TLS");
        connected.map_err(|error| error.to_string())
    }

    /// A WebSocket over it.
    pub async fn open(&self, path: &str, headers: &[(String, String)]) -> Result<WsClient, String> {
        let url = format!("wss://{}:{}{path}", self.name, self.port);
        let opened = WsClient::upgrade(Box::new(self.connect().await?), &url, headers).await;
        opened.map_err(|refusal| format!("{refusal:?}"))
    }
}

/// The way to a gateway that is called `localhost`.
fn near(port: u16, trusted: &Path) -> Way<'_> {
    Way { port, name: "localhost", trusted, from: Ipv4Addr::LOCALHOST }
}

/// TLS with `localhost`; only the certificate in `trusted` is believed.
pub async fn connect(port: u16, trusted: &Path) -> Result<TlsStream<TcpStream>, String> {
    near(port, trusted).connect().await
}

/// A WebSocket over it.
pub async fn open(port: u16, trusted: &Path) -> Result<WsClient, String> {
    near(port, trusted).open("/", &[]).await
}
