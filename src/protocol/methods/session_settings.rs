//! The methods of `sessions.*` that make sessions and change their settings.

use serde_json::Value;

use super::sessions::LABEL_MAX;
use crate::protocol::decode::{
    Fields, Params, Setting, any, boolean, integer_from, literal, non_empty, text,
};

/// Longest text that a session may add to the system prompt, in characters.
/// Every call of the model carries it.
const EXTRA_PROMPT_MAX: usize = 100_000;

/// Params of `sessions.create`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsCreateParams {
    /// As the client wrote it; a new one when absent.
    pub key: Option<String>,
    /// Whose session; the default agent's when absent.
    pub agent_id: Option<String>,
    /// Name for people.
    pub label: Option<String>,
    /// Model of the session.
    pub model: Option<String>,
    /// The session that it was branched off.
    pub parent_session_key: Option<String>,
    /// First message, if it is not blank: `task`, else `message`.
    pub message: Option<String>,
    /// Whether it takes the place of its parent, so that hooks of `/new` are told of that one.
    pub emits_command_hooks: bool,
}

impl Params for SessionsCreateParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        let params = Self {
            key: f.optional("key", non_empty()),
            agent_id: f.optional("agentId", non_empty()),
            label: f.optional("label", non_empty().max(LABEL_MAX)),
            model: f.optional("model", non_empty()),
            parent_session_key: f.optional("parentSessionKey", non_empty()),
            message: None,
            emits_command_hooks: f.optional("emitCommandHooks", boolean()) == Some(true),
        };
        let said = [f.optional("task", text()), f.optional("message", text())];
        let message = said.into_iter().flatten().find(|text| !text.trim().is_empty());
        Self { message, ..params }
    }
}

/// Params of `sessions.spawn`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsSpawnParams {
    /// Whose session.
    pub agent_id: String,
    /// Model of the session.
    pub model: Option<String>,
    /// As the client wrote it; a new one when absent.
    pub session_key: Option<String>,
    /// Added to the system prompt of the session.
    pub system_prompt: Option<String>,
}

impl Params for SessionsSpawnParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            agent_id: f.required("agentId", non_empty()),
            model: f.optional("model", non_empty()),
            session_key: f.optional("sessionKey", non_empty()),
            system_prompt: f.optional("systemPrompt", text().max(EXTRA_PROMPT_MAX)),
        }
    }
}

/// Params of `sessions.patch`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsPatchParams {
    /// As the client wrote it.
    pub key: String,
    /// What is to be changed.
    pub settings: SessionSettings,
}

/// What can be set of a session; the values are not looked at yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // named as in the session's entry
pub struct SessionSettings {
    pub label: Setting<String>,
    pub thinking_level: Setting<String>,
    pub fast_mode: Setting<bool>,
    pub verbose_level: Setting<String>,
    pub trace_level: Setting<String>,
    pub reasoning_level: Setting<String>,
    pub response_usage: Setting<String>,
    pub elevated_level: Setting<String>,
    pub exec_host: Setting<String>,
    pub exec_security: Setting<String>,
    pub exec_ask: Setting<String>,
    pub exec_node: Setting<String>,
    pub permission_mode: Setting<String>,
    pub model: Setting<String>,
    pub spawned_by: Setting<String>,
    pub spawned_workspace_dir: Setting<String>,
    pub spawn_depth: Setting<u64>,
    pub subagent_role: Setting<String>,
    pub subagent_control_scope: Setting<String>,
    pub send_policy: Setting<String>,
    pub group_activation: Setting<String>,
}

impl Params for SessionsPatchParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        // Dashboards name the level like the row that they show.
        f.alias("thinkingLevel", "thinking");
        Self {
            key: f.required("key", non_empty()),
            settings: SessionSettings {
                label: f.setting("label", non_empty().max(LABEL_MAX)),
                thinking_level: f.setting("thinkingLevel", non_empty()),
                fast_mode: f.setting("fastMode", boolean()),
                verbose_level: f.setting("verboseLevel", non_empty()),
                trace_level: f.setting("traceLevel", non_empty()),
                reasoning_level: f.setting("reasoningLevel", non_empty()),
                response_usage: f
                    .setting("responseUsage", literal(&["off", "tokens", "full", "on"])),
                elevated_level: f.setting("elevatedLevel", non_empty()),
                exec_host: f.setting("execHost", non_empty()),
                exec_security: f.setting("execSecurity", non_empty()),
                exec_ask: f.setting("execAsk", non_empty()),
                exec_node: f.setting("execNode", non_empty()),
                permission_mode: f.setting("permissionMode", non_empty()),
                model: f.setting("model", non_empty()),
                spawned_by: f.setting("spawnedBy", non_empty()),
                spawned_workspace_dir: f.setting("spawnedWorkspaceDir", non_empty()),
                spawn_depth: f.setting("spawnDepth", integer_from(0)),
                subagent_role: f.setting("subagentRole", literal(&["orchestrator", "leaf"])),
                subagent_control_scope: f
                    .setting("subagentControlScope", literal(&["children", "none"])),
                send_policy: f.setting("sendPolicy", literal(&["allow", "deny"])),
                group_activation: f.setting("groupActivation", literal(&["mention", "always"])),
            },
        }
    }
}

/// Params of `sessions.pluginPatch`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionsPluginPatchParams {
    /// As the client wrote it.
    pub key: String,
    /// The plugin.
    pub plugin_id: String,
    /// Which of its values.
    pub namespace: String,
    /// What it is to be.
    pub value: Option<Value>,
    /// Whether it is taken away.
    pub unset: bool,
}

impl Params for SessionsPluginPatchParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        Self {
            key: f.required("key", non_empty()),
            plugin_id: f.required("pluginId", non_empty()),
            namespace: f.required("namespace", non_empty()),
            value: f.optional("value", any()),
            unset: f.optional("unset", boolean()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Unknown, decode_value};
    use crate::support::json;

    #[test]
    fn the_first_message_is_the_task_or_else_the_message() {
        let read = |value| decode_value::<SessionsCreateParams>(value, Unknown::Refuse).unwrap();
        assert_eq!(read(json!({"task": "t", "message": "m"})).message.as_deref(), Some("t"));
        assert_eq!(read(json!({"task": " ", "message": "m"})).message.as_deref(), Some("m"));
        assert_eq!(read(json!({"message": "", "emitCommandHooks": true})).message, None);
    }

    #[test]
    fn patches_read_null_apart_from_absent_and_refuse_what_no_setting_is_called() {
        let read = |value| decode_value::<SessionsPatchParams>(value, Unknown::Refuse);
        let patch = read(json!({"key": "k", "label": null, "thinking": "low"})).unwrap();
        assert_eq!(patch.settings.label, Setting::Clear);
        assert_eq!(patch.settings.thinking_level, Setting::Set("low".into()));
        assert_eq!(patch.settings.model, Setting::Keep);
        assert_eq!(
            read(json!({"key": "k", "unknownField": 1, "spawnDepth": -1})).unwrap_err(),
            [
                "at root: unexpected property 'unknownField'",
                "at /spawnDepth: must be >= 0",
                "at /spawnDepth: must be null",
                "at /spawnDepth: must match a schema in anyOf",
            ]
        );
    }
}
