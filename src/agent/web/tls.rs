//! What clients of tools have in common.
//!
//! Owns: the certificates of the system, read once, when they are needed.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::OnceCell;

use crate::providers::is_loopback;
use crate::support::blocking;

/// How long a connection may take; a whole request has a limit of its own.
const CONNECT: Duration = Duration::from_secs(10);

/// Makes clients.
#[derive(Default)]
pub struct Tls(OnceCell<ClientConfig>);

impl Tls {
    /// A client to be, that follows no redirects and keeps no connections.
    ///
    /// # Errors
    /// When the machine has no certificates and the address needs them.
    pub async fn client(&self, url: &Url) -> Result<ClientBuilder, String> {
        let tls = if url.scheme() == "https" {
            // Reading the system's certificates takes a while.
            let read = || async {
                let built = blocking(secure).await;
                built.unwrap_or_else(|error| Err(error.to_string()))
            };
            let tls = self.0.get_or_try_init(read).await;
            tls.map_err(|error| format!("cannot use TLS: {error}"))?.clone()
        } else {
            plain()?
        };
        Ok(Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0)
            .referer(false)
            .redirect(reqwest::redirect::Policy::none()))
    }

    /// The same for an address of the configuration: the proxies of the
    /// environment are used unless it is on this machine.
    ///
    /// # Errors
    /// As before.
    pub async fn trusted(&self, url: &Url) -> Result<ClientBuilder, String> {
        let builder = self.client(url).await?;
        Ok(if is_loopback(url) { builder.no_proxy() } else { builder })
    }
}

/// Has the system's certificates.
fn secure() -> Result<ClientConfig, String> {
    let builder = begin()?.with_platform_verifier().map_err(|error| error.to_string())?;
    Ok(builder.with_no_client_auth())
}

/// Has no certificates: there may be none installed.
fn plain() -> Result<ClientConfig, String> {
    Ok(begin()?.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

fn begin() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())
}
