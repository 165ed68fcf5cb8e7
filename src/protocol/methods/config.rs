//! `config.*`.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::protocol::ErrorShape;
use crate::protocol::decode::{
    Fields, Params, Unknown, decode, integer_from, non_empty, object, text, text_or_number,
};
use crate::protocol::methods::chat::SESSION_KEY_MAX;
use crate::support::{json, without_nulls};

/// The sections that a config has; clients of seed 001 send them as params.
pub const SECTIONS: [&str; 15] = [
    "gateway", "agents", "tools", "bindings", "models", "auth", "secrets", "env", "messages",
    "commands", "session", "cron", "channels", "mcp", "skills",
];
/// What stands beside them when such a client sends back what it got.
const ENVELOPE: [&str; 19] = [
    "path",
    "exists",
    "raw",
    "parsed",
    "sourceConfig",
    "resolved",
    "valid",
    "runtimeConfig",
    "config",
    "hash",
    "baseHash",
    "issues",
    "warnings",
    "legacyIssues",
    "ok",
    "noop",
    "requiresRestart",
    "restart",
    "sentinel",
];

/// What a client wants the config to be, or to be merged into it.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigInput {
    /// JSON5.
    Text(String),
    /// All that was sent, with the config itself in it, where a text is meant; of clients of
    /// seed 001 and of the simple profile, and nobody else. See [`config_in`].
    Object(Map<String, Value>),
    /// Nothing: the config as it is; of the same clients, and nobody else.
    Nothing,
}

/// Params of `config.set`, and what `config.apply` and `config.patch` have as well.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigWriteParams {
    /// What is to be written, or merged into what is there.
    pub input: ConfigInput,
    /// Hash of the config that the client has read.
    pub base_hash: Option<String>,
}

/// Params of `config.set`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSetParams(pub ConfigWriteParams);

impl Params for ConfigSetParams {
    fn read(f: &mut Fields) -> Self {
        Self(itself(f).unwrap_or_else(|| write(f)))
    }
}

/// Params of `config.apply` and `config.patch`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigApplyParams {
    /// What is written.
    pub write: ConfigWriteParams,
    /// For when the gateway restarts for it.
    pub restart: RestartWishes,
}

/// What the writer of a config wants of the restart that it may lead to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RestartWishes {
    /// The session that is told of it afterwards, and asked at once; when absent, the main
    /// session hears of it in its next turn.
    pub session_key: Option<String>,
    /// The chat in which it is said; when absent, that of the session that is named.
    pub delivery_context: Option<DeliveryContext>,
    /// What is told beside the fact.
    pub note: Option<String>,
    /// How long it waits, in milliseconds.
    pub delay_ms: Option<u64>,
}

/// A restart does not wait longer than this, as in the original.
const DELAY_MAX_MS: u64 = 60_000;

impl RestartWishes {
    /// How long the restart waits.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.unwrap_or_default().min(DELAY_MAX_MS))
    }
}

impl Params for ConfigApplyParams {
    fn read(f: &mut Fields) -> Self {
        let no_wishes = |write| Self { write, restart: RestartWishes::default() };
        if let Some(whole) = itself(f) {
            return no_wishes(whole);
        }
        if f.is_empty() {
            return no_wishes(ConfigWriteParams { input: ConfigInput::Nothing, base_hash: None });
        }
        applied(f)
    }
}

fn applied(f: &mut Fields) -> ConfigApplyParams {
    ConfigApplyParams {
        write: write(f),
        restart: RestartWishes {
            session_key: f
                .optional("sessionKey", text().max(SESSION_KEY_MAX))
                .filter(|text| is_said(text)),
            delivery_context: f.optional("deliveryContext", object()),
            note: f.optional("note", text()).filter(|text| is_said(text)),
            delay_ms: f.optional("restartDelayMs", integer_from(0)),
        },
    }
}

/// Whether a text says anything; clients send empty ones for what nobody has filled in.
fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

fn write(f: &mut Fields) -> ConfigWriteParams {
    ConfigWriteParams {
        input: ConfigInput::Text(f.required("raw", non_empty())),
        base_hash: f.optional("baseHash", non_empty()),
    }
}

/// The params as a config, when they are one.
fn itself(f: &mut Fields) -> Option<ConfigWriteParams> {
    let is_answer = f.has("sourceConfig");
    if f.has("raw") && !is_answer || !SECTIONS.iter().any(|section| f.has(section)) {
        return None;
    }
    let sent: Map<String, Value> = f.rest();
    let hash = |name: &str| match sent.get(name) {
        Some(Value::String(hash)) if !hash.is_empty() => Some(hash.clone()),
        _ => None,
    };
    let base_hash = hash("baseHash").or_else(|| hash("hash").filter(|_| is_answer));
    Some(ConfigWriteParams { input: ConfigInput::Object(sent), base_hash })
}

/// The config in what a client sent that sends the config itself.
pub fn config_in(mut sent: Map<String, Value>) -> Map<String, Value> {
    sent.retain(|name, _| !ENVELOPE.contains(&name.as_str()));
    sent
}

/// What the original answers to such params, which has them as a text only.
pub fn not_a_text(method: &str, sent: Map<String, Value>) -> ErrorShape {
    let sent = Value::Object(sent);
    let refused = if method == "config.set" {
        decode::<SetByText>(method, sent, Unknown::Refuse).err()
    } else {
        decode::<ApplyByText>(method, sent, Unknown::Refuse).err()
    };
    // Without a text, or with more beside it, there is always something to refuse.
    refused.unwrap_or_else(|| ErrorShape::invalid(format!("invalid {method} params")))
}

/// Params of `config.set` as the original has them.
#[derive(Debug)]
struct SetByText;

impl Params for SetByText {
    fn read(f: &mut Fields) -> Self {
        write(f);
        Self
    }
}

/// The same of `config.apply` and `config.patch`.
#[derive(Debug)]
struct ApplyByText;

impl Params for ApplyByText {
    fn read(f: &mut Fields) -> Self {
        applied(f);
        Self
    }
}

/// A chat.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryContext {
    /// Id of a channel.
    pub channel: Option<String>,
    /// Person, group or room.
    pub to: Option<String>,
    /// Which of our accounts there.
    pub account_id: Option<String>,
    /// Thread in it: text or number.
    pub thread_id: Option<Value>,
}

impl DeliveryContext {
    /// As it is sent.
    pub fn shown(&self) -> Value {
        without_nulls(json!({
            "channel": self.channel,
            "to": self.to,
            "accountId": self.account_id,
            "threadId": self.thread_id,
        }))
    }
}

impl Params for DeliveryContext {
    fn read(f: &mut Fields) -> Self {
        Self {
            channel: f.optional("channel", text()),
            to: f.optional("to", text()),
            account_id: f.optional("accountId", text()),
            thread_id: f.optional("threadId", text_or_number()),
        }
    }
}

/// Params of `config.schema.lookup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLookupParams {
    /// A path such as `gateway.port` or `agents.list[].model`.
    pub path: String,
}

impl Params for ConfigLookupParams {
    fn read(f: &mut Fields) -> Self {
        Self { path: f.required("path", non_empty().max(PATH_MAX).pattern(PATH, is_path)) }
    }
}

/// As in the original.
const PATH_MAX: usize = 1024;
const PATH: &str = r"^[A-Za-z0-9_./\[\]\-*]+$";

fn is_path(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_./[]-*".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}
