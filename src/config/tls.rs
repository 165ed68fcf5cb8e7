//! `gateway.tls` and `gateway.remote`: the gateway's certificate, and the
//! gateway that this machine is a client of.
//!
//! Must not: open the files that are named here.

use std::path::{Path, PathBuf};

use super::explain::{Choice, Ledger, Origin};
use super::gateway::Sources;
use super::schema::Node;
use super::secrets::{self, SecretError, SecretInput, SecretsConfig};
use super::{ConfigError, Env};
use crate::support::{Fingerprint, Secret};

/// `gateway.tls`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether the port speaks TLS, and nothing else.
    pub enabled: bool,
    /// Make a certificate and its key when neither is there.
    pub auto_generate: bool,
    /// The certificate, PEM; more of them are its chain.
    pub cert_path: PathBuf,
    /// Its private key, PEM.
    pub key_path: PathBuf,
    /// Whether both are where the gateway keeps what it has made.
    pub is_own: bool,
    /// Certificates of the authorities between ours and the root, PEM.
    pub ca_path: Option<PathBuf>,
}

/// `gateway.remote`: used by client commands when `gateway.mode` is `remote`.
#[derive(Debug, Clone, Default)]
pub struct RemoteSettings {
    /// Its address.
    pub url: Option<String>,
    /// Its token.
    pub token: Option<SecretInput>,
    /// Its password.
    pub password: Option<SecretInput>,
    /// The certificate that it must have.
    pub tls_fingerprint: Option<Fingerprint>,
}

impl RemoteSettings {
    /// Token and password, looked up where they are only referred to.
    ///
    /// # Errors
    /// For a reference that leads nowhere.
    pub async fn credentials(
        &self,
        config: &SecretsConfig,
        env: &Env,
    ) -> Result<[Option<Secret>; 2], SecretError> {
        let inputs = [&self.token, &self.password];
        let references = inputs.iter().filter_map(|input| input.as_ref()?.reference().cloned());
        let (found, lost) = secrets::resolve(&references.collect(), config, env).await;
        if let Some((_, error)) = lost.into_iter().next() {
            return Err(error);
        }
        Ok(inputs.map(|input| input.as_ref()?.resolve(&found)))
    }
}

pub(super) fn read(
    gateway: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<TlsSettings, ConfigError> {
    let node = gateway.member("tls")?;
    let own = from.paths.state_dir.join("gateway").join("tls");
    let mut switch = |name: &str, default| -> Result<bool, ConfigError> {
        let choice = Choice::file(from.file, node.member(name)?.boolean()?);
        Ok(ledger.settle(&format!("gateway.tls.{name}"), choice, default))
    };
    let enabled = switch("enabled", false)?;
    let auto_generate = switch("autoGenerate", true)?;
    let mut place = |name: &str, default: Option<PathBuf>| -> Result<_, ConfigError> {
        let path = node.member(name)?.path(from.paths)?;
        let origin = if path.is_some() { file_origin(from.file) } else { Origin::Default };
        let path = path.or(default);
        let shown =
            path.as_ref().map_or_else(|| "not set".into(), |path| path.display().to_string());
        ledger.note(&format!("gateway.tls.{name}"), shown, origin);
        Ok(path)
    };
    let [own_cert, own_key] = ["gateway-cert.pem", "gateway-key.pem"].map(|name| own.join(name));
    let cert_path = place("certPath", Some(own_cert.clone()))?.unwrap_or_default();
    let key_path = place("keyPath", Some(own_key.clone()))?.unwrap_or_default();
    Ok(TlsSettings {
        enabled,
        auto_generate,
        is_own: cert_path == own_cert && key_path == own_key,
        cert_path,
        key_path,
        ca_path: place("caPath", None)?,
    })
}

pub(super) fn remote(
    gateway: &Node<'_>,
    from: &Sources<'_>,
    ledger: &mut Ledger,
) -> Result<RemoteSettings, ConfigError> {
    let node = gateway.member("remote")?;
    let url = Choice::file(from.file, node.member("url")?.text()?);
    let url = ledger.settle_optional("gateway.remote.url", url);
    let mut secret = |name: &str| -> Result<Option<SecretInput>, ConfigError> {
        let choice = Choice::file(from.file, node.member(name)?.secret(from.env)?);
        Ok(ledger.settle_secret(&format!("gateway.remote.{name}"), choice))
    };
    let (token, password) = (secret("token")?, secret("password")?);
    let pin = node.member("tlsFingerprint")?;
    let tls_fingerprint = match pin.text()? {
        Some(text) => Some(text.parse::<Fingerprint>().map_err(|rule| pin.wrong(&rule))?),
        None => None,
    };
    let choice = Choice::file(from.file, tls_fingerprint);
    let tls_fingerprint = ledger.settle_optional("gateway.remote.tlsFingerprint", choice);
    Ok(RemoteSettings { url, token, password, tls_fingerprint })
}

fn file_origin(file: &Path) -> Origin {
    Origin::File(file.to_owned())
}
