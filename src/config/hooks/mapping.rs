//! What a request to a path of its own comes to.

use serde::Deserialize;

use super::template::Template;
use super::transform::Transform;
use crate::config::ConfigError;
use crate::config::schema::Node;
use crate::config::secrets::SecretInput;
use crate::protocol::methods::cron::WakeMode;

/// Longest time that a run may be given, in seconds: a week, as for jobs.
const TIMEOUT_MAX: u64 = 7 * 86_400;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookAction {
    /// The main session is told something.
    Wake,
    /// An agent is asked in a session of its own.
    Agent,
}

/// Requests that are taken up in one way.
#[derive(Debug, Clone)]
pub struct HookMapping {
    /// Its name.
    pub id: String,
    /// Only requests to this path below that of the hooks.
    pub path: Option<String>,
    /// Only those whose body has this `source`.
    pub source: Option<String>,
    /// What proves who sent them, in the place of `hooks.token`.
    pub token: Option<SecretInput>,
    /// Sessions begin with this.
    pub session_key_prefix: Option<String>,
    /// What is done with them.
    pub fields: Fields,
    /// Whether what they say is told as if the gateway's owner had said it.
    pub allow_unsafe: bool,
    /// Rules for them.
    pub transform: Transform,
    /// Whether nothing is done, since its rules are a program that is not run.
    pub is_off: bool,
}

/// What is done with a request; what is absent is as elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// Whether somebody is told or asked.
    pub action: Option<HookAction>,
    /// Whether the main session answers at once.
    pub wake_mode: Option<WakeMode>,
    /// What the main session is told.
    pub text: Option<Template>,
    /// What the agent is asked.
    pub message: Option<Template>,
    /// What the run is called.
    pub name: Option<Template>,
    /// Which agent.
    pub agent_id: Option<String>,
    /// In which session.
    pub session_key: Option<Template>,
    /// Whether the answer is sent to a chat.
    pub deliver: Option<bool>,
    /// Of which channel.
    pub channel: Option<String>,
    /// To which chat.
    pub to: Option<Template>,
    /// With which model.
    pub model: Option<Template>,
    /// How hard it thinks.
    pub thinking: Option<Template>,
    /// Stopped after so many seconds.
    pub timeout_seconds: Option<u64>,
}

/// [`Fields`] as they are written.
#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct WrittenFields {
    action: Option<HookAction>,
    wake_mode: Option<WakeMode>,
    #[serde(alias = "textTemplate")]
    text: Option<String>,
    #[serde(alias = "messageTemplate")]
    message: Option<String>,
    name: Option<String>,
    agent_id: Option<String>,
    session_key: Option<String>,
    deliver: Option<bool>,
    channel: Option<String>,
    to: Option<String>,
    pub(super) model: Option<String>,
    pub(super) thinking: Option<String>,
    timeout_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    id: Option<String>,
    r#match: Match,
    token: Option<SecretInput>,
    session_key_prefix: Option<String>,
    allow_unsafe_external_content: Option<bool>,
    action: Option<HookAction>,
    wake_mode: Option<WakeMode>,
    name: Option<String>,
    agent_id: Option<String>,
    session_key: Option<String>,
    message_template: Option<String>,
    text_template: Option<String>,
    deliver: Option<bool>,
    channel: Option<String>,
    to: Option<String>,
    model: Option<String>,
    thinking: Option<String>,
    timeout_seconds: Option<u64>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Match {
    path: Option<String>,
    source: Option<String>,
}

/// A text that says something.
pub(super) fn said(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A path below that of the hooks, without slashes around it.
pub fn bare_path(path: &str) -> &str {
    path.trim().trim_matches('/')
}

impl WrittenFields {
    /// Checks them.
    pub(super) fn read(self, node: &Node<'_>) -> Result<Fields, ConfigError> {
        let template = |text: Option<String>| said(text).map(|text| Template::parse(&text));
        if self.timeout_seconds == Some(0) {
            return Err(node.inside("timeoutSeconds").wrong("must be a positive integer"));
        }
        Ok(Fields {
            action: self.action,
            wake_mode: self.wake_mode,
            text: template(self.text),
            message: template(self.message),
            name: template(self.name),
            agent_id: said(self.agent_id),
            session_key: template(self.session_key),
            deliver: self.deliver,
            channel: said(self.channel),
            to: template(self.to),
            model: template(self.model),
            thinking: template(self.thinking),
            timeout_seconds: self.timeout_seconds.map(|seconds| seconds.min(TIMEOUT_MAX)),
        })
    }
}

impl Fields {
    /// These, and what they do not say as in the others.
    #[must_use]
    pub fn over(&self, others: &Self) -> Self {
        let text = |own: &Option<Template>, other: &Option<Template>| {
            own.clone().or_else(|| other.clone())
        };
        Self {
            action: self.action.or(others.action),
            wake_mode: self.wake_mode.or(others.wake_mode),
            text: text(&self.text, &others.text),
            message: text(&self.message, &others.message),
            name: text(&self.name, &others.name),
            agent_id: self.agent_id.clone().or_else(|| others.agent_id.clone()),
            session_key: text(&self.session_key, &others.session_key),
            deliver: self.deliver.or(others.deliver),
            channel: self.channel.clone().or_else(|| others.channel.clone()),
            to: text(&self.to, &others.to),
            model: text(&self.model, &others.model),
            thinking: text(&self.thinking, &others.thinking),
            timeout_seconds: self.timeout_seconds.or(others.timeout_seconds),
        }
    }
}

impl HookMapping {
    /// Reads one; `number` counts from 1.
    pub(super) fn read(node: &Node<'_>, number: usize) -> Result<Self, ConfigError> {
        let written: Written = node.deserialize()?;
        let fields = WrittenFields {
            action: written.action.or(Some(HookAction::Agent)),
            wake_mode: written.wake_mode,
            text: written.text_template,
            message: written.message_template,
            name: written.name,
            agent_id: written.agent_id,
            session_key: written.session_key,
            deliver: written.deliver,
            channel: written.channel,
            to: written.to,
            model: written.model,
            thinking: written.thinking,
            timeout_seconds: written.timeout_seconds,
        };
        if matches!(&written.token, Some(SecretInput::Text(token)) if token.is_empty()) {
            return Err(node.inside("token").wrong("must not be empty"));
        }
        let prefix = written.session_key_prefix.map(|prefix| prefix.trim().to_lowercase());
        if prefix.as_deref() == Some("") {
            return Err(node.inside("sessionKeyPrefix").wrong("must not be empty"));
        }
        let path = written.r#match.path.map(|path| bare_path(&path).to_owned());
        let transform = Transform::read(&node.member("transform")?)?;
        Ok(Self {
            id: said(written.id).unwrap_or_else(|| format!("mapping-{number}")),
            path: path.filter(|path| !path.is_empty()),
            source: said(written.r#match.source),
            token: written.token,
            session_key_prefix: prefix,
            fields: fields.read(node)?,
            allow_unsafe: written.allow_unsafe_external_content == Some(true),
            is_off: transform.is_none(),
            transform: transform.unwrap_or_default(),
        })
    }

    /// The original's preset for the mails that `gog gmail watch` posts.
    pub(super) fn gmail(gmail: &super::Gmail) -> Self {
        let template = |text: &str| Some(Template::parse(text));
        let optional = |text: &Option<String>| said(text.clone()).map(|it| Template::parse(&it));
        Self {
            id: "gmail".into(),
            path: Some("gmail".into()),
            source: None,
            token: None,
            // So that no rule about sessions has to be written for it.
            session_key_prefix: Some("hook:gmail:".into()),
            fields: Fields {
                action: Some(HookAction::Agent),
                wake_mode: Some(WakeMode::Now),
                name: template("Gmail"),
                session_key: template("hook:gmail:{{messages[0].id}}"),
                message: template(
                    "New email from {{messages[0].from}}\nSubject: {{messages[0].subject}}\n\
                     {{messages[0].snippet}}\n{{messages[0].body}}",
                ),
                model: optional(&gmail.model),
                thinking: optional(&gmail.thinking),
                ..Fields::default()
            },
            allow_unsafe: gmail.allow_unsafe_external_content == Some(true),
            transform: Transform::default(),
            is_off: false,
        }
    }

    /// Whether a request to this path may be meant.
    pub fn has_path(&self, path: &str) -> bool {
        self.path.as_deref().is_none_or(|own| own == bare_path(path))
    }

    /// Whether a request chooses its session, at least in part. What is written is asked for
    /// the same by `of_sessions` of `config/foreign.rs`.
    pub(super) fn chooses_session(&self) -> bool {
        let all = [&self.fields].into_iter().chain(self.transform.all_fields());
        let mut keys = all.filter_map(|fields| fields.session_key.as_ref());
        !self.is_off && self.session_key_prefix.is_none() && keys.any(Template::has_values)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use crate::support::json;

    use super::*;

    fn read(written: &Value) -> Result<HookMapping, String> {
        let node = Node::root(written, Path::new("f"));
        HookMapping::read(&node, 1).map_err(|error| error.to_string())
    }

    #[test]
    fn a_mapping_that_a_program_decides_on_is_off() {
        let written = json!({"match": {"path": "x"}, "sessionKey": "{{id}}",
            "transform": {"module": "x.mjs", "export": "run"}});
        let mapping = read(&written).unwrap();
        assert!(mapping.is_off && mapping.has_path("x") && !mapping.chooses_session());
        let rules = json!({"match": {"path": "x"}, "transform": {"when": []}});
        let mapping = read(&rules).unwrap();
        assert!(!mapping.is_off && mapping.has_path("x"));
        for (transform, why) in [
            (json!({"module": 5}), "transform.module: must be a string"),
            (json!({"export": "run"}), "unknown field `export`"),
        ] {
            let error = read(&json!({"transform": transform})).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
