//! Clients, by where they go and what the configuration says of the way.
//!
//! Owns: when one is built, its certificates and its proxy. Promises: nothing
//! is built before the first call; calls to this machine never take a proxy;
//! redirects are not followed, since they would carry the key to another host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Certificate, Client, ClientBuilder, Identity, Proxy, Url};

use super::super::error::{ProviderError, ProviderErrorKind};
use crate::config::provider_request::{PemSource, ProxyConfig, Transport};
use crate::support::blocking;

/// The variable that names more authorities.
const EXTRA_CA: &str = "NODE_EXTRA_CA_CERTS";

/// What a client is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    /// `https`: needs certificates, which take a while to read.
    secure: bool,
    /// On this machine.
    local: bool,
    transport: Transport,
}

/// The clients built so far. A configuration has a few ways at most, and what
/// an older one had goes with the process.
pub struct Clients {
    connect: Duration,
    built: Mutex<HashMap<Way, Client>>,
}

impl Clients {
    /// None yet; each may take `connect` for a connection.
    pub fn new(connect: Duration) -> Self {
        Self { connect, built: Mutex::new(HashMap::new()) }
    }

    /// The client for this address.
    ///
    /// # Errors
    /// When certificates or proxy of the configuration cannot be used, or the
    /// machine has no certificates.
    pub async fn get(&self, url: &Url, transport: &Transport) -> Result<Client, ProviderError> {
        let way = Way {
            secure: url.scheme() == "https",
            local: is_loopback(url),
            transport: transport.clone(),
        };
        if let Some(client) = self.built.lock().get(&way) {
            return Ok(client.clone());
        }
        let client = if way.secure {
            let (way, connect) = (way.clone(), self.connect);
            blocking(move || build_secure(&way, connect))
                .await
                .unwrap_or_else(|error| Err(error.to_string()))
        } else {
            build_plain(&way, self.connect)
        };
        let client = client.map_err(|error| {
            ProviderError::new(ProviderErrorKind::Network, format!("Connection error: {error}"))
        })?;
        self.built.lock().insert(way, client.clone());
        Ok(client)
    }
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an address is on this machine or in a network around it, tailnets included.
pub(super) fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>().map(|address| address.to_canonical()) {
        Ok(std::net::IpAddr::V4(address)) => {
            // 100.64.0.0/10 is what tailnets use.
            let is_shared = matches!(address.octets(), [100, 64..=127, _, _]);
            is_shared || address.is_loopback() || address.is_private() || address.is_unspecified()
        }
        Ok(std::net::IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => host == "localhost" || host.split('.').next_back() == Some("local"),
    }
}

/// Has the system's certificates and those of the configuration.
fn build_secure(way: &Way, connect: Duration) -> Result<Client, String> {
    // Refused when some other part of the program was first, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut builder = proxied(Client::builder(), way)?;
    let transport = &way.transport;
    let mut certificates = Vec::new();
    if let Some(source) = &transport.ca {
        certificates.extend(authorities(source, "request.tls.ca")?);
    }
    match transport.extra_ca.as_ref().map(|file| (file, authorities(file, EXTRA_CA))) {
        Some((_, Ok(more))) => certificates.extend(more),
        // As Node does: fewer are believed then, which is no reason to stop.
        Some((file, Err(error))) => {
            tracing::warn!(file = file.expose(), "{EXTRA_CA} is left out: {error}");
        }
        None => {}
    }
    if let Some((certificate, key)) = &transport.identity {
        builder = builder.identity(identity(certificate, key)?);
    }
    if transport.insecure_skip_verify {
        tracing::warn!("request.tls.insecureSkipVerify: a provider's certificate is not checked");
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    built(builder.tls_certs_merge(certificates), connect)
        .map_err(|error| format!("cannot use TLS on this machine: {error}"))
}

/// Needs no certificates: there may be none installed.
fn build_plain(way: &Way, connect: Duration) -> Result<Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    built(proxied(Client::builder(), way)?.tls_backend_preconfigured(tls), connect)
}

fn built(builder: ClientBuilder, connect: Duration) -> Result<Client, String> {
    builder
        .connect_timeout(connect)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| super::root_cause(&error))
}

/// Without more words, reqwest takes the proxy of the environment.
fn proxied(builder: ClientBuilder, way: &Way) -> Result<ClientBuilder, String> {
    match &way.transport.proxy {
        _ if way.local => Ok(builder.no_proxy()),
        None | Some(ProxyConfig::EnvProxy { .. }) => Ok(builder),
        Some(ProxyConfig::ExplicitProxy { url, .. }) => {
            // The address may hold a password, so it is not repeated.
            let proxy =
                Proxy::all(url.expose()).map_err(|_| "request.proxy.url is not an address")?;
            Ok(builder.no_proxy().proxy(proxy))
        }
    }
}

/// The PEM itself, or what the file holds.
fn pem(source: &PemSource) -> std::io::Result<Vec<u8>> {
    let source = source.expose();
    if source.contains("-----BEGIN") {
        return Ok(source.as_bytes().to_vec());
    }
    std::fs::read(source)
}

fn authorities(source: &PemSource, name: &str) -> Result<Vec<Certificate>, String> {
    let read = pem(source)
        .map_err(|error| format!("cannot read the certificates in {}: {error}", source.expose()))?;
    let certificates = Certificate::from_pem_bundle(&read);
    let certificates = certificates.unwrap_or_default();
    if certificates.is_empty() {
        return Err(format!("{name} has no certificate in PEM"));
    }
    Ok(certificates)
}

/// Our own certificate. What is wrong with a key is not told in its words: one without the
/// lines that PEM has around it is taken for a path.
fn identity(certificate: &PemSource, key: &PemSource) -> Result<Identity, String> {
    let read = |source: &PemSource, name: &str| {
        pem(source).map_err(|error| format!("cannot read the file of request.tls.{name}: {error}"))
    };
    let mut both = read(certificate, "cert")?;
    both.push(b'\n');
    both.extend(read(key, "key")?);
    let wrong = "request.tls.cert and request.tls.key are no certificate with its key in PEM";
    Identity::from_pem(&both).map_err(|_| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::provider_request::ProviderRequest;
    use crate::config::secrets::ResolvedSecrets;
    use crate::support::json;
    use serde_json::Value;

    fn transport(written: Value) -> Transport {
        let request: ProviderRequest = serde_json::from_value(written).unwrap();
        request.transport(&ResolvedSecrets::default(), None)
    }

    #[tokio::test]
    async fn a_client_is_built_once_for_each_way() {
        let clients = Clients::new(Duration::from_secs(1));
        assert!(clients.built.lock().is_empty());
        let get = async |url: &str, transport: &Transport| {
            clients.get(&Url::parse(url).unwrap(), transport).await
        };
        let usual = Transport::default();
        get("http://127.0.0.1/", &usual).await.unwrap();
        get("http://localhost:1/x", &usual).await.unwrap();
        assert_eq!(clients.built.lock().len(), 1);
        get("http://elsewhere/", &usual).await.unwrap();
        assert_eq!(clients.built.lock().len(), 2);
        // With or without certificates on this machine: an answer, no panic.
        drop(get("https://localhost/", &usual).await);
    }

    #[tokio::test]
    async fn what_is_wrong_with_certificates_and_proxies_is_said() {
        let clients = Clients::new(Duration::from_secs(1));
        let error = async |written: Value| {
            let url = Url::parse("https://elsewhere/").unwrap();
            clients.get(&url, &transport(written)).await.unwrap_err().message
        };
        let missing = error(json!({"tls": {"ca": "/nowhere/ca.pem"}})).await;
        assert!(missing.contains("cannot read the certificates in /nowhere/ca.pem"), "{missing}");
        let empty = error(json!({"tls": {"ca": "-----BEGIN nothing"}})).await;
        assert!(empty.contains("request.tls.ca has no certificate in PEM"), "{empty}");
        let proxy = json!({"proxy": {"mode": "explicit-proxy", "url": "http://user:password@"}});
        let proxied = error(proxy).await;
        assert_eq!(proxied, "Connection error: request.proxy.url is not an address");
        let half = json!({"tls": {"cert": "-----BEGIN", "key": "-----BEGIN s3cret"}});
        let half = error(half).await;
        assert!(half.contains("are no certificate with its key") && !half.contains("s3cret"));
        let bare = error(json!({"tls": {"cert": "-----BEGIN", "key": "MIIEs3cret"}})).await;
        assert!(bare.contains("cannot read the file of request.tls.key"), "{bare}");
        assert!(!bare.contains("s3cret"), "{bare}");
    }
}
