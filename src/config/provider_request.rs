//! `models.providers.<id>.request`: how a server is reached.
//!
//! Owns: that section as OpenClaw writes it, and what it comes to once its
//! secrets are known. Promises: what cannot be done as it is asked for is an
//! error, never left out; no key, password or token shows up in `Debug`. Must
//! not: read files or open connections.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::secrets::{ResolvedSecrets, SecretInput, SecretRef};
use crate::support::Secret;

/// The section as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderRequest {
    /// Headers to send with each request; they win over the provider's.
    pub headers: BTreeMap<String, SecretInput>,
    /// What lets us in, instead of the provider's own way.
    pub auth: RequestAuth,
    /// A proxy on the way; that of the environment when nothing is said.
    pub proxy: Option<ProxyConfig>,
    /// Whom to believe, and who we are.
    pub tls: RequestTls,
}

/// `request.auth`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum RequestAuth {
    /// As the provider's API wants it.
    #[default]
    ProviderDefault,
    /// `Authorization: Bearer <token>`.
    AuthorizationBearer {
        /// The token.
        token: SecretInput,
    },
    /// A header of any name.
    Header {
        /// Its name.
        header_name: String,
        /// The credential.
        value: SecretInput,
        /// What stands before it, with the space between them if there is one.
        #[serde(default)]
        prefix: String,
    },
}

/// `request.proxy`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum ProxyConfig {
    /// That of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    EnvProxy {
        /// Certificates on the way to it.
        #[serde(default, deserialize_with = "no_proxy_tls")]
        tls: (),
    },
    /// This one.
    ExplicitProxy {
        /// `http://host:port`, also with user and password.
        url: ProxyUrl,
        /// Certificates on the way to it.
        #[serde(default, deserialize_with = "no_proxy_tls")]
        tls: (),
    },
}

/// The address of a proxy, which may hold a password.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// All of it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyUrl(…)")
    }
}

/// `request.tls`. Certificates and keys are PEM, or the path of a file of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestTls {
    /// Authorities beside the system's.
    pub ca: Option<SecretInput>,
    /// Our own certificate, with those between it and the authority.
    pub cert: Option<SecretInput>,
    /// Its key.
    pub key: Option<SecretInput>,
    /// Whether to believe any certificate.
    pub insecure_skip_verify: bool,
    #[serde(deserialize_with = "no_passphrase")]
    passphrase: (),
    #[serde(deserialize_with = "no_server_name")]
    server_name: (),
}

fn refused<'de, D: Deserializer<'de>>(from: D, why: &str) -> Result<(), D::Error> {
    IgnoredAny::deserialize(from)?;
    Err(D::Error::custom(why))
}

fn no_passphrase<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    refused(from, "encrypted keys cannot be used: decrypt the key and leave the passphrase out")
}

fn no_server_name<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    refused(from, "another server name cannot be asked for: put the name into baseUrl")
}

fn no_proxy_tls<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    refused(from, "tls of a proxy cannot be used: name its authority in request.tls.ca")
}

/// Which credential goes into which header.
#[derive(Debug, Clone)]
pub struct AuthHeader {
    /// Name of the header.
    pub name: String,
    /// What stands before the credential.
    pub prefix: String,
    /// The credential.
    pub value: Secret,
}

/// Certificates or a key: PEM, or the path of a file of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PemSource(String);

impl PemSource {
    /// All of it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for PemSource {
    fn from(text: &str) -> Self {
        Self(text.trim().to_owned())
    }
}

impl fmt::Debug for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PemSource(…)")
    }
}

/// The way to a server: what one client has in common for all its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Transport {
    /// A proxy on the way; that of the environment when there is none.
    pub proxy: Option<ProxyConfig>,
    /// Authorities beside the system's.
    pub ca: Option<PemSource>,
    /// The file of `NODE_EXTRA_CA_CERTS`.
    pub extra_ca: Option<PemSource>,
    /// Our own certificate, and its key.
    pub identity: Option<(PemSource, PemSource)>,
    /// Whether any certificate is believed.
    pub insecure_skip_verify: bool,
}

impl ProviderRequest {
    /// Every reference to a secret, with its path below `request`.
    pub fn references(&self) -> impl Iterator<Item = (String, &SecretRef)> {
        let auth = match &self.auth {
            RequestAuth::ProviderDefault => None,
            RequestAuth::AuthorizationBearer { token } => Some(("auth.token", token)),
            RequestAuth::Header { value, .. } => Some(("auth.value", value)),
        };
        let tls = [("ca", &self.tls.ca), ("cert", &self.tls.cert), ("key", &self.tls.key)];
        let tls = tls
            .into_iter()
            .filter_map(|(name, input)| Some((format!("tls.{name}"), input.as_ref()?)));
        let headers = self.headers.iter().map(|(name, input)| (format!("headers.{name}"), input));
        let auth = auth.into_iter().map(|(path, input)| (path.to_owned(), input));
        let all = headers.chain(auth).chain(tls);
        all.filter_map(|(path, input)| Some((path, input.reference()?)))
    }

    /// What lets us in, where the provider's own way does not.
    pub fn auth_header(&self, secrets: &ResolvedSecrets) -> Option<AuthHeader> {
        let (name, prefix, value) = match &self.auth {
            RequestAuth::ProviderDefault => return None,
            RequestAuth::AuthorizationBearer { token } => ("authorization", "Bearer ", token),
            RequestAuth::Header { header_name, value, prefix } => {
                (header_name.as_str(), prefix.as_str(), value)
            }
        };
        let value = value.resolve(secrets).unwrap_or_else(|| Secret::new(""));
        Some(AuthHeader { name: name.to_owned(), prefix: prefix.to_owned(), value })
    }

    /// The way to the server.
    pub fn transport(&self, secrets: &ResolvedSecrets, extra_ca: Option<&str>) -> Transport {
        let pem = |input: &Option<SecretInput>| {
            let secret = input.as_ref()?.resolve(secrets)?;
            Some(PemSource::from(secret.expose()))
        };
        Transport {
            proxy: self.proxy.clone(),
            ca: pem(&self.tls.ca),
            extra_ca: extra_ca.map(PemSource::from),
            identity: pem(&self.tls.cert).zip(pem(&self.tls.key)),
            insecure_skip_verify: self.tls.insecure_skip_verify,
        }
    }

    /// What is wrong with it, and where below `request`.
    ///
    /// # Errors
    /// For a half of what needs another half, or a credential that is empty.
    pub fn check(&self, secrets: &ResolvedSecrets) -> Result<(), (&'static str, &'static str)> {
        match (&self.tls.cert, &self.tls.key) {
            (Some(_), None) => return Err(("tls.key", "the certificate in cert needs its key")),
            (None, Some(_)) => return Err(("tls.cert", "the key in key needs its certificate")),
            _ => {}
        }
        match self.auth_header(secrets) {
            Some(header) if header.value.is_empty() => Err(("auth", "the credential is empty")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn read(value: serde_json::Value) -> Result<ProviderRequest, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    fn transport(request: &ProviderRequest) -> Transport {
        request.transport(&ResolvedSecrets::default(), None)
    }

    #[test]
    fn the_section_is_read_whole_and_its_secrets_are_hidden() {
        let request = read(json!({
            "headers": {"X-Team": "s3cret"},
            "auth": {"mode": "header", "headerName": "X-Key", "value": "s3cret", "prefix": "Key "},
            "proxy": {"mode": "explicit-proxy", "url": "http://me:s3cret@proxy:1"},
            "tls": {"ca": "/s3cret.pem", "cert": "c", "key": "s3cret", "insecureSkipVerify": true},
            "allowPrivateNetwork": true,
        }))
        .unwrap();
        let header = request.auth_header(&ResolvedSecrets::default()).unwrap();
        assert_eq!((header.name.as_str(), header.prefix.as_str()), ("X-Key", "Key "));
        let way = transport(&request);
        let (cert, key) = way.identity.as_ref().unwrap();
        assert_eq!((cert.expose(), key.expose()), ("c", "s3cret"));
        assert!(way.insecure_skip_verify);
        assert!(!format!("{request:?} {way:?} {header:?}").contains("s3cret"));
        let env = read(json!({"proxy": {"mode": "env-proxy"}})).unwrap();
        assert_eq!(env.proxy, Some(ProxyConfig::EnvProxy { tls: () }));
        assert_eq!(transport(&read(json!({})).unwrap()), Transport::default());
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (written, why) in [
            (json!({"proxy": {"mode": "socks"}}), "unknown variant `socks`"),
            (json!({"proxy": {"mode": "env-proxy", "tls": {}}}), "tls of a proxy"),
            (json!({"tls": {"passphrase": "x"}}), "encrypted keys"),
            (json!({"tls": {"serverName": "x"}}), "another server name"),
            (json!({"auth": {"mode": "basic"}}), "unknown variant `basic`"),
            (json!({"auth": {"mode": "authorization-bearer"}}), "missing field `token`"),
            (json!({"auth": {"mode": "header", "value": "x"}}), "missing field `headerName`"),
        ] {
            let error = read(written).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let secrets = ResolvedSecrets::default();
        let wrong = |value| read(value).unwrap().check(&secrets).unwrap_err().0;
        assert_eq!(wrong(json!({"tls": {"cert": "x"}})), "tls.key");
        assert_eq!(wrong(json!({"tls": {"key": "x"}})), "tls.cert");
        assert_eq!(wrong(json!({"auth": {"mode": "authorization-bearer", "token": ""}})), "auth");
    }

    #[test]
    fn references_are_told_with_their_paths() {
        let env = |id: &str| json!({"source": "env", "id": id});
        let request = read(json!({
            "headers": {"x": env("H"), "y": "literal"},
            "auth": {"mode": "authorization-bearer", "token": env("T")},
            "tls": {"ca": "literal", "key": env("K")},
        }))
        .unwrap();
        let told: Vec<_> =
            request.references().map(|(path, found)| format!("{path}={}", found.id)).collect();
        assert_eq!(told, ["headers.x=H", "auth.token=T", "tls.key=K"]);
    }
}
