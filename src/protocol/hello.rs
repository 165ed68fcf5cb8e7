//! The payload of a successful `connect`.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Role;

/// Largest frame we take from a connected client, in bytes.
pub const MAX_PAYLOAD: usize = 26_214_400;
/// Most bytes that may wait for one client.
pub const MAX_BUFFERED_BYTES: usize = 52_428_800;
/// Bytes of hello-ok beside what its snapshot holds; most are names of methods.
const REST: usize = 12 * 1024;
/// Milliseconds between two `tick` events.
pub const TICK_INTERVAL_MS: u64 = 30_000;

/// `hello-ok`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelloOk<'a> {
    /// Always `hello-ok`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Negotiated protocol version.
    pub protocol: u64,
    /// Who we are.
    pub server: ServerInfo<'a>,
    /// What this connection can call and will hear.
    pub features: Features,
    /// State of the gateway now.
    pub snapshot: Snapshot,
    /// Protocol 4 has this member where 3 may have `canvasHostUrl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_surface_urls: Option<Value>,
    /// What the connection was granted.
    pub auth: Granted,
    /// Limits.
    pub policy: Policy,
}

impl HelloOk<'_> {
    /// How many bytes it will about be.
    pub fn space(&self) -> usize {
        let presence = self.snapshot.presence.iter().map(|told| told.get().len() + 1);
        presence.sum::<usize>() + self.snapshot.health.get().len() + REST
    }
}

/// `server` of hello-ok.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo<'a> {
    /// Version of the gateway.
    pub version: &'a str,
    /// Id of this connection, a UUID.
    pub conn_id: &'a str,
}

/// `features` of hello-ok.
#[derive(Debug, Serialize)]
pub struct Features {
    /// Methods that this connection may call.
    pub methods: Vec<&'static str>,
    /// Events that it may get.
    pub events: Vec<&'static str>,
}

/// `snapshot` of hello-ok.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// As `system-presence` answers.
    pub presence: Vec<Arc<RawValue>>,
    /// As `health` answers.
    pub health: Box<RawValue>,
    /// Counters of both.
    pub state_version: StateVersion,
    /// Milliseconds since the gateway started.
    pub uptime_ms: u64,
    /// How session keys without an agent are read.
    pub session_defaults: SessionDefaults,
    /// Only for `operator.admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_path: Option<String>,
    /// Only for `operator.admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// Only for `operator.admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_mode: Option<&'static str>,
}

/// Counters that grow with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StateVersion {
    /// Of the presence list.
    pub presence: u64,
    /// Of the health snapshot.
    pub health: u64,
}

/// `sessionDefaults` of hello-ok.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionDefaults {
    /// Agent of keys that name none.
    pub default_agent_id: String,
    /// `session.mainKey`.
    pub main_key: String,
    /// Canonical key of the main session.
    pub main_session_key: String,
    /// `per-sender` or `global`.
    pub scope: &'static str,
}

/// `auth` of hello-ok. It has no `Debug`: it holds tokens.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    /// Role of the connection.
    pub role: Role,
    /// Names of its scopes; those of the token for a device that has one.
    pub scopes: Vec<String>,
    /// The device's token for this role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_token: Option<String>,
    /// When that was issued, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued_at_ms: Option<u64>,
    /// Its tokens for other roles, after a setup code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_tokens: Vec<GrantedToken>,
}

/// A token of `auth.deviceTokens`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantedToken {
    /// The token.
    pub device_token: String,
    /// The role it is for.
    pub role: Role,
    /// What it is good for.
    pub scopes: Vec<String>,
    /// When it was issued, in milliseconds since the epoch.
    pub issued_at_ms: u64,
}

/// `policy` of hello-ok.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// See [`MAX_PAYLOAD`].
    pub max_payload: usize,
    /// See [`MAX_BUFFERED_BYTES`].
    pub max_buffered_bytes: usize,
    /// See [`TICK_INTERVAL_MS`].
    pub tick_interval_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_payload: MAX_PAYLOAD,
            max_buffered_bytes: MAX_BUFFERED_BYTES,
            tick_interval_ms: TICK_INTERVAL_MS,
        }
    }
}
