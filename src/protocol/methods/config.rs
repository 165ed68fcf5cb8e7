//! `config.*`.

use serde_json::{Map, Value};

use crate::protocol::ErrorShape;
use crate::protocol::decode::{
    Fields, Params, Unknown, decode, integer_from, non_empty, object, text, text_or_number,
};

/// The sections that a config has; clients of seed 001 send them as params.
pub const SECTIONS: [&str; 15] = [
    "gateway", "agents", "tools", "bindings", "models", "auth", "secrets", "env", "messages",
    "commands", "session", "cron", "channels", "mcp", "skills",
];
/// What stands beside them when such a client sends back what it got.
const ENVELOPE: [&str; 16] = [
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
    "requiresRestart",
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

/// Params of `config.apply` and `config.patch`. What they say of a restart is
/// checked and of no use: this gateway does not restart itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigApplyParams(pub ConfigWriteParams);

impl Params for ConfigApplyParams {
    fn read(f: &mut Fields) -> Self {
        if let Some(whole) = itself(f) {
            return Self(whole);
        }
        if f.is_empty() {
            return Self(ConfigWriteParams { input: ConfigInput::Nothing, base_hash: None });
        }
        Self(applied(f))
    }
}

fn applied(f: &mut Fields) -> ConfigWriteParams {
    let read = write(f);
    f.optional("sessionKey", text());
    f.optional("deliveryContext", object::<DeliveryContext>());
    f.optional("note", text());
    f.optional("restartDelayMs", integer_from(0));
    read
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

/// Where the original tells of its restart.
#[derive(Debug, Clone, Default)]
struct DeliveryContext;

impl Params for DeliveryContext {
    fn read(f: &mut Fields) -> Self {
        f.optional("channel", text());
        f.optional("to", text());
        f.optional("accountId", text());
        f.optional("threadId", text_or_number());
        Self
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
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./[]-*".contains(&byte))
}
