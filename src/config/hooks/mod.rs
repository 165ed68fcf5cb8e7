//! The `hooks` section: other programs tell or ask an agent something by HTTP.
//!
//! Owns: which paths there are, who may ask, and what a request comes to; which hooks of the
//! gateway's own events there are.
//! Promises: what would open more than was meant is refused when the config is
//! read; nothing of a request is ever run or filled in twice.

mod internal;
mod mapping;
mod template;
mod transform;

use std::collections::BTreeSet;

use serde::Deserialize;

use super::agent_id::id_of;
use super::schema::Node;
use super::secrets::{self, SecretInput, SecretsConfig};
use super::{AuthSettings, ConfigError, Env};
use crate::support::Secret;

pub use mapping::{Fields, HookAction, HookMapping, bare_path};
pub use template::{Field, Source, Template, shown, value_at};
pub use transform::{Case, Condition, Transform};

/// As in the original.
const DEFAULT_PATH: &str = "/hooks";
/// As in the original.
const DEFAULT_BODY_MAX: u64 = 256 * 1024;
/// More is no message: models do not read it.
const BODY_MAX: u64 = 16 * 1024 * 1024;
/// Each is looked at for each request.
const MAPPINGS_MAX: usize = 256;
/// What sessions begin with that a request chooses, where nothing else is said.
const USUAL_PREFIX: &str = "hook:";
/// First parts of paths that belong to others.
const TAKEN: [&str; 12] = [
    "api",
    "avatar",
    "clawgate",
    "health",
    "healthz",
    "metrics",
    "openapi.json",
    "ready",
    "readyz",
    "sessions",
    "tools",
    "v1",
];
const REUSED: &str =
    "must not match gateway auth token or password; set a distinct token for hooks";

/// How hooks are.
#[derive(Debug, Clone, Default)]
pub struct HooksSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// Where; begins with a slash and does not end with one.
    pub path: String,
    /// What proves who sent a request.
    pub token: Option<SecretInput>,
    /// Most bytes of a body.
    pub max_body_bytes: u64,
    /// Agents that a request may name; all when absent.
    pub allowed_agent_ids: Option<BTreeSet<String>>,
    /// The session of requests that name none.
    pub default_session_key: Option<String>,
    /// Whether a request may name a session.
    pub allow_request_session_key: bool,
    /// What the sessions of all requests begin with, in small letters.
    pub allowed_session_key_prefixes: Option<Vec<String>>,
    /// Requests to other paths, the first that is meant.
    pub mappings: Vec<HookMapping>,
    /// How many messages of a conversation that ends are kept as a memory of its agent;
    /// `None` when nothing of it is.
    pub session_memory: Option<usize>,
    /// What is wrong with the references to tokens, once they were followed.
    pub trouble: Option<String>,
    /// Whether one of them leads to the secret of the gateway itself.
    pub is_any_reused: bool,
}

/// What of `hooks.gmail` has a meaning here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Gmail {
    allow_unsafe_external_content: Option<bool>,
    model: Option<String>,
    thinking: Option<String>,
}

/// Reads the section.
pub(super) fn read(node: &Node<'_>, env: &Env) -> Result<HooksSettings, ConfigError> {
    let prefixes = node.member("allowedSessionKeyPrefixes")?.texts()?.map(|all| {
        let all = all.into_iter().map(|prefix| prefix.trim().to_lowercase());
        all.filter(|prefix| !prefix.is_empty()).collect::<Vec<_>>()
    });
    let agents = node.member("allowedAgentIds")?.texts()?;
    let size = node.member("maxBodyBytes")?.bounded(1, BODY_MAX)?;
    let settings = HooksSettings {
        enabled: node.member("enabled")?.boolean()? == Some(true),
        path: path(&node.member("path")?)?,
        token: node.member("token")?.secret(env)?,
        max_body_bytes: size.unwrap_or(DEFAULT_BODY_MAX),
        allowed_agent_ids: agents.as_deref().and_then(allowed_agents),
        default_session_key: mapping::said(node.member("defaultSessionKey")?.text()?),
        allow_request_session_key: node.member("allowRequestSessionKey")?.boolean()? == Some(true),
        allowed_session_key_prefixes: prefixes.filter(|all| !all.is_empty()),
        mappings: mappings(node)?,
        session_memory: internal::session_memory(&node.member("internal")?)?,
        trouble: None,
        is_any_reused: false,
    };
    // It means nothing here.
    node.member("transformsDir")?.text()?;
    if settings.enabled {
        settings.check(node)?;
    }
    Ok(settings)
}

/// `*` among them is all.
fn allowed_agents(written: &[String]) -> Option<BTreeSet<String>> {
    if written.iter().any(|id| id.trim() == "*") {
        return None;
    }
    // An empty one names nobody, and not `main`.
    Some(written.iter().filter(|id| !id.trim().is_empty()).map(|id| id_of(id)).collect())
}

fn path(node: &Node<'_>) -> Result<String, ConfigError> {
    let Some(written) = mapping::said(node.text()?) else { return Ok(DEFAULT_PATH.into()) };
    let path = format!("/{}", written.trim_matches('/'));
    if path == "/" {
        return Err(node.wrong("may not be '/'"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !path.chars().all(is_plain) || path.contains("//") {
        return Err(node.wrong("must be a path of letters, digits and -_.~"));
    }
    if is_taken(&path) {
        return Err(node.wrong("is a path that the gateway has for something else"));
    }
    Ok(path)
}

/// Whether a path is one of the gateway's own, or below one.
fn is_taken(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    TAKEN.contains(&first) || first.starts_with("__openclaw")
}

fn mappings(node: &Node<'_>) -> Result<Vec<HookMapping>, ConfigError> {
    let list = node.member("mappings")?;
    let items = list.items()?;
    if items.len() > MAPPINGS_MAX {
        return Err(list.wrong(&format!("must have at most {MAPPINGS_MAX} items")));
    }
    let numbered = items.iter().zip(1..);
    let mut mappings = numbered
        .map(|(item, number)| HookMapping::read(item, number))
        .collect::<Result<Vec<_>, _>>()?;
    let gmail: Gmail = node.member("gmail")?.deserialize()?;
    for preset in node.member("presets")?.texts()?.unwrap_or_default() {
        if preset.trim() == "gmail" {
            mappings.push(HookMapping::gmail(&gmail));
        }
    }
    Ok(mappings)
}

impl HooksSettings {
    /// What goes together, in the words of the original where it has some.
    fn check(&self, node: &Node<'_>) -> Result<(), ConfigError> {
        if self.token.is_none() {
            return Err(node.inside("enabled").wrong("requires hooks.token"));
        }
        if let Some(prefixes) = &self.allowed_session_key_prefixes {
            let is_allowed = |key: &str| begins_with_one(key, prefixes);
            let (key, rule) = match &self.default_session_key {
                Some(key) if !is_allowed(key) => {
                    ("defaultSessionKey", "must match hooks.allowedSessionKeyPrefixes")
                }
                None if !is_allowed("hook:example") => (
                    "allowedSessionKeyPrefixes",
                    "must include 'hook:' when hooks.defaultSessionKey is unset",
                ),
                _ => ("", ""),
            };
            if !key.is_empty() {
                return Err(node.inside(key).wrong(rule));
            }
            let own = self.mappings.iter().filter_map(|it| it.session_key_prefix.as_deref());
            if let Some(prefix) = own.into_iter().find(|prefix| !is_allowed(prefix)) {
                let rule = format!("must hold what \"{prefix}\" of a mapping begins with");
                return Err(node.inside("allowedSessionKeyPrefixes").wrong(&rule));
            }
        } else if self.mappings.iter().any(HookMapping::chooses_session) {
            return Err(node.inside("allowedSessionKeyPrefixes").wrong(
                "is required when a hook mapping sessionKey uses templates, even if \
                 hooks.allowRequestSessionKey=true; or give the mapping a sessionKeyPrefix",
            ));
        }
        Ok(())
    }

    /// Refuses a token that opens the gateway itself.
    pub(super) fn check_distinct(
        &self,
        node: &Node<'_>,
        auth: &AuthSettings,
    ) -> Result<(), ConfigError> {
        if self.enabled && self.tokens().any(|token| is_reused(token, auth)) {
            return Err(node.inside("token").wrong(REUSED));
        }
        Ok(())
    }

    fn tokens(&self) -> impl Iterator<Item = &SecretInput> {
        let own = self.mappings.iter().filter_map(|mapping| mapping.token.as_ref());
        self.token.iter().chain(own)
    }

    /// Follows the references to tokens. One that leads nowhere, or to the secret
    /// of the gateway itself, lets nobody in, and is told of; nothing waits when there are
    /// none.
    pub async fn follow(&mut self, config: &SecretsConfig, env: &Env, auth: &AuthSettings) {
        let wanted: BTreeSet<_> =
            self.tokens().filter_map(SecretInput::reference).cloned().collect();
        if wanted.is_empty() || !self.enabled {
            return;
        }
        let (found, lost) = secrets::resolve(&wanted, config, env).await;
        let mut wrong = Vec::new();
        for (reference, error) in lost {
            tracing::error!(%reference, %error, "a token of hooks cannot be had; nobody gets in by it");
            wrong
                .push(format!("a token of hooks cannot be had, and nobody gets in by it: {error}"));
        }
        let own = self.mappings.iter_mut().filter_map(|mapping| mapping.token.as_mut());
        for token in self.token.iter_mut().chain(own) {
            let Some(secret) = token.resolve(&found) else { continue };
            let followed = SecretInput::Text(secret);
            if is_reused(&followed, auth) {
                tracing::error!("a token of hooks {REUSED}; nobody gets in by it");
                self.is_any_reused = true;
            } else {
                *token = followed;
            }
        }
        if self.is_any_reused {
            wrong.push(format!("a token of hooks {REUSED}; nobody gets in by it"));
        }
        self.trouble = (!wrong.is_empty()).then(|| wrong.join("; "));
    }

    /// What the session of a request may begin with that chooses it.
    pub fn request_prefixes(&self) -> Vec<String> {
        self.allowed_session_key_prefixes.clone().unwrap_or_else(|| vec![USUAL_PREFIX.into()])
    }
}

/// Whether a key begins with one of these, in any letters.
pub fn begins_with_one(key: &str, prefixes: &[String]) -> bool {
    let key = key.trim().to_lowercase();
    prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
}

/// Whether a token proves what was shown. A reference that was not followed
/// proves nothing.
pub fn proves(token: &SecretInput, shown: &str) -> bool {
    match token {
        SecretInput::Text(secret) => !secret.is_empty() && secret.matches(shown),
        SecretInput::Ref(_) => false,
    }
}

fn is_reused(token: &SecretInput, auth: &AuthSettings) -> bool {
    let own: [Option<&Secret>; 2] = [auth.token.as_ref(), auth.password.as_ref()];
    own.into_iter().flatten().any(|secret| !secret.is_empty() && proves(token, secret.expose()))
}
