//! Params of `connect`, in both profiles.

use serde_json::value::RawValue;

use crate::support::json;

use super::ErrorShape;
use super::decode::{
    self, Fields, Params, Unknown, boolean, dictionary, integer_from, list, non_empty, object,
    one_of, text,
};
use super::profile::{Profile, Version, is_dashboard};

/// Ids that a standard client may have.
pub const CLIENT_IDS: [&str; 16] = [
    "webchat-ui",
    "openclaw-control-ui",
    "openclaw-tui",
    "webchat",
    "cli",
    "gateway-client",
    "openclaw-macos",
    "openclaw-ios",
    "openclaw-android",
    "node-host",
    "test",
    "fingerprint",
    "openclaw-probe",
    // Since protocol 4.
    "openclaw-browser-copilot",
    "openclaw-linux",
    "openclaw-watchos",
];

/// Modes that a standard client may have; `interactive` is that of dashboards, and is worth
/// as much as `ui`.
pub const CLIENT_MODES: [&str; 8] =
    ["webchat", "cli", "ui", "backend", "node", "probe", "test", "interactive"];

/// What a client says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientInfo {
    /// One of the known ids.
    pub id: String,
    /// Name for people.
    pub display_name: Option<String>,
    /// Version of the client.
    pub version: String,
    /// Operating system or `web`.
    pub platform: String,
    /// Such as `Mac`.
    pub device_family: Option<String>,
    /// Such as `Mac14,2`.
    pub model_identifier: Option<String>,
    /// One of the known modes.
    pub mode: String,
    /// Stable id of this installation.
    pub instance_id: Option<String>,
}

impl Params for ClientInfo {
    fn read(f: &mut Fields) -> Self {
        let client = Self {
            id: f.required("id", one_of(&CLIENT_IDS).untyped()),
            display_name: f.optional("displayName", non_empty()),
            version: f.required("version", non_empty()),
            platform: f.required("platform", non_empty()),
            device_family: f.optional("deviceFamily", non_empty()),
            model_identifier: f.optional("modelIdentifier", non_empty()),
            mode: f.required("mode", one_of(&CLIENT_MODES).untyped()),
            instance_id: f.optional("instanceId", non_empty()),
        };
        // What a newer client says of itself beside that does not lock it out.
        f.ignore_rest_of_newer();
        client
    }
}

/// Proof of a device identity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceProof {
    /// Lowercase hex SHA-256 of the raw public key.
    pub id: String,
    /// Base64url of the 32-byte key.
    pub public_key: String,
    /// Base64url of the 64-byte signature.
    pub signature: String,
    /// Milliseconds since the epoch.
    pub signed_at: u64,
    /// The challenge's nonce.
    pub nonce: String,
}

impl Params for DeviceProof {
    fn read(f: &mut Fields) -> Self {
        Self {
            id: f.required("id", non_empty()),
            public_key: f.required("publicKey", non_empty()),
            signature: f.required("signature", non_empty()),
            signed_at: f.required("signedAt", integer_from(0)),
            nonce: f.required("nonce", non_empty()),
        }
    }
}

/// Credentials; empty texts count as absent.
#[derive(Clone, Default, PartialEq)]
pub struct ConnectAuth {
    /// The gateway's token, or a device token.
    pub token: Option<String>,
    /// One-use token of a setup code.
    pub bootstrap_token: Option<String>,
    /// A device's own token.
    pub device_token: Option<String>,
    /// The gateway's password.
    pub password: Option<String>,
}

impl std::fmt::Debug for ConnectAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectAuth(…)")
    }
}

fn credential(f: &mut Fields, name: &str) -> Option<String> {
    let value = f.optional(name, text())?;
    let trimmed = value.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

impl Params for ConnectAuth {
    fn read(f: &mut Fields) -> Self {
        Self {
            token: credential(f, "token"),
            bootstrap_token: credential(f, "bootstrapToken"),
            device_token: credential(f, "deviceToken"),
            password: credential(f, "password"),
        }
    }
}

/// What a node can be asked to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeOffers {
    /// Names of commands.
    pub commands: Vec<String>,
    /// What its user lets it do, by name.
    pub permissions: Option<Vec<(String, bool)>>,
    /// Where it looks for programs.
    pub path_env: Option<String>,
}

/// `connect` of the standard profile.
#[derive(Debug, Clone, PartialEq)]
pub struct StandardConnect {
    /// Lowest protocol version that the client speaks.
    pub min_protocol: u64,
    /// Highest protocol version that the client speaks.
    pub max_protocol: u64,
    /// Who it says it is. Never a ground for rights by itself
    /// (CVE-2026-41299).
    pub client: ClientInfo,
    /// Such as `tool-events`.
    pub caps: Vec<String>,
    /// What it can be asked to do, when it is a node.
    pub offers: NodeOffers,
    /// `operator` when absent; checked by the handshake.
    pub role: Option<String>,
    /// What it asks for, in its own order.
    pub scopes: Vec<String>,
    /// Proof of a device identity.
    pub device: Option<DeviceProof>,
    /// Credentials.
    pub auth: ConnectAuth,
    /// For clients that are known by it.
    pub user_agent: Option<String>,
}

impl StandardConnect {
    /// Whether it speaks a later protocol than the recorded one.
    pub fn is_newer(&self) -> bool {
        Version::negotiate(self.min_protocol, self.max_protocol).is_some_and(Version::is_newer)
    }

    /// Why a dashboard is refused that shows nothing to be let in by, where that is done by
    /// a token. It knows so by the words `no token`.
    pub fn lacks_token(&self) -> Option<ErrorShape> {
        let auth = &self.auth;
        let credentials = [&auth.token, &auth.bootstrap_token, &auth.device_token, &auth.password];
        let is_bare = self.device.is_none() && credentials.into_iter().all(Option::is_none);
        let is_known = self.user_agent.as_deref().is_some_and(is_dashboard);
        (is_bare && is_known).then(|| {
            let text = "unauthorized: gateway token missing (no token provided)";
            ErrorShape::denied(text).details(json!({
                "code": "AUTH_TOKEN_MISSING",
                "authReason": "token_missing",
                "canRetryWithDeviceToken": false,
                "recommendedNextStep": "update_auth_configuration",
            }))
        })
    }
}

impl Params for StandardConnect {
    fn read(f: &mut Fields) -> Self {
        let connect = Self {
            min_protocol: f.required("minProtocol", integer_from(1)),
            max_protocol: f.required("maxProtocol", integer_from(1)),
            client: f.required("client", object::<ClientInfo>()),
            caps: f.optional("caps", list(non_empty())).unwrap_or_default(),
            offers: NodeOffers {
                commands: f.optional("commands", list(non_empty())).unwrap_or_default(),
                permissions: f.optional("permissions", dictionary(boolean())),
                path_env: f.optional("pathEnv", text()),
            },
            role: None,
            scopes: Vec::new(),
            device: None,
            auth: ConnectAuth::default(),
            user_agent: None,
        };
        let connect = Self {
            role: f.optional("role", non_empty()),
            scopes: f.optional("scopes", list(non_empty())).unwrap_or_default(),
            device: f.optional("device", object::<DeviceProof>()),
            auth: f.optional("auth", object::<ConnectAuth>()).unwrap_or_default(),
            ..connect
        };
        f.optional("locale", text());
        let connect = Self { user_agent: f.optional("userAgent", text()), ..connect };
        f.ignore_rest_of_newer();
        connect
    }
}

/// `connect` of the simple profile.
#[derive(Debug, Clone, PartialEq)]
pub struct SimpleConnect {
    /// Such as `web`.
    pub client_type: Option<String>,
    /// Version of the client.
    pub client_version: Option<String>,
    /// Credentials: `token`, `password` and `deviceToken` at the top or under `auth`.
    pub auth: ConnectAuth,
    /// Proof of a device identity; without a key and a nonce where the gateway
    /// knows them.
    pub device: Option<DeviceProof>,
}

/// `deviceAuth` of the simple profile.
struct SimpleProof(DeviceProof);

impl Params for SimpleProof {
    fn read(f: &mut Fields) -> Self {
        Self(DeviceProof {
            id: f.required("deviceId", non_empty()),
            public_key: f.optional("publicKey", text()).unwrap_or_default(),
            signature: f.required("signature", non_empty()),
            signed_at: f.required("timestamp", integer_from(0)),
            nonce: f.optional("nonce", text()).unwrap_or_default(),
        })
    }
}

impl Params for SimpleConnect {
    fn read(f: &mut Fields) -> Self {
        let nested = f.optional("auth", object::<ConnectAuth>()).unwrap_or_default();
        let connect = Self {
            client_type: f.optional("clientType", text()),
            client_version: f.optional("clientVersion", text()),
            auth: ConnectAuth {
                token: credential(f, "token").or(nested.token),
                password: credential(f, "password").or(nested.password),
                device_token: credential(f, "deviceToken").or(nested.device_token),
                ..ConnectAuth::default()
            },
            device: f.maybe("deviceAuth", object::<SimpleProof>()).map(|SimpleProof(proof)| proof),
        };
        f.ignore_rest();
        connect
    }
}

/// `connect`, after its form has been told apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Connect {
    /// With `minProtocol` or `maxProtocol`.
    Standard(Box<StandardConnect>),
    /// With `clientType` or `clientVersion`, and without those.
    Simple(Box<SimpleConnect>),
}

/// Reads the params of `connect`. What is neither form gets the errors of the
/// standard one.
///
/// # Errors
/// `INVALID_REQUEST` `invalid connect params: …`.
pub fn parse_connect(raw: Option<&RawValue>) -> Result<Connect, ErrorShape> {
    let value = decode::parse("connect", raw)?;
    let has = |name: &str| value.get(name).is_some();
    let simple =
        (has("clientType") || has("clientVersion")) && !has("minProtocol") && !has("maxProtocol");
    if simple {
        return decode::decode("connect", value, Unknown::Ignore)
            .map(|connect| Connect::Simple(Box::new(connect)));
    }
    let version = |name: &str| value[name].as_u64().unwrap_or_default();
    let version = Version::negotiate(version("minProtocol"), version("maxProtocol"));
    let unknown = Profile::Standard(version.unwrap_or(Version::V3)).unknown_params();
    decode::decode("connect", value, unknown).map(|connect| Connect::Standard(Box::new(connect)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use serde_json::value::to_raw_value;

    fn parse(value: &Value) -> Result<Connect, ErrorShape> {
        parse_connect(Some(&to_raw_value(value).unwrap()))
    }

    #[test]
    fn the_form_decides_the_profile() {
        let Connect::Simple(simple) = parse(&json!({
            "clientVersion": "1.0.0", "clientType": "web", "token": " t ", "somethingElse": 1,
        }))
        .unwrap() else {
            panic!("expected the simple profile")
        };
        assert_eq!(simple.auth.token.as_deref(), Some("t"));
        assert!(simple.device.is_none());
        // Recorded.
        let error = parse(&json!({
            "minProtocol": 3, "maxProtocol": 3, "clientType": "web",
            "client": {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"},
        }))
        .unwrap_err();
        assert_eq!(
            error.message,
            "invalid connect params: at root: unexpected property 'clientType'"
        );
        let error = parse(&json!({})).unwrap_err();
        assert_eq!(
            error.message,
            "invalid connect params: must have required property 'minProtocol'; \
             must have required property 'maxProtocol'; must have required property 'client'"
        );
    }

    /// Of the Control UI 2026.9.6.
    #[test]
    fn a_newer_client_may_say_more_of_itself_than_is_known_here() {
        let connect = |protocol: u64| {
            parse(&json!({
                "minProtocol": protocol, "maxProtocol": protocol,
                "client": {"id": "openclaw-control-ui", "version": "2026.9.6", "platform": "web",
                    "mode": "webchat", "buildId": "x", "timeZone": "UTC"},
                "modelCatalog": {"agentId": "main"}, "scopes": ["operator.read"],
            }))
        };
        let Connect::Standard(newer) = connect(4).unwrap() else { panic!("the standard profile") };
        assert_eq!(newer.scopes, ["operator.read"]);
        let error = connect(3).unwrap_err().message;
        assert!(error.contains("at /client: unexpected property 'buildId'"), "{error}");
        // A proof that nobody here can check is not passed over: without it a client may do
        // more than it should. OpenClaw's own stop at these words.
        let error = parse(&json!({
            "minProtocol": 4, "maxProtocol": 4,
            "client": {"id": "gateway-client", "version": "1", "platform": "linux",
                "mode": "backend"},
            "auth": {"token": "t", "agentRuntimeIdentityToken": "of an agent"},
        }))
        .unwrap_err();
        assert_eq!(
            error.message,
            "invalid connect params: at /auth: unexpected property 'agentRuntimeIdentityToken'"
        );
    }

    #[test]
    fn credentials_never_reach_debug_output() {
        let connect = parse(&json!({"clientType": "web", "token": "hunter2"})).unwrap();
        assert!(!format!("{connect:?}").contains("hunter2"));
    }
}
