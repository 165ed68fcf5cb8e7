//! `sessions.*`.

use serde_json::Value;

use super::chat::SESSION_KEY_MAX;
use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, list, literal, non_empty, text,
};

/// Longest session label, in characters.
pub const LABEL_MAX: usize = 512;

/// Params of `sessions.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionsListParams {
    /// Most rows; 100 when absent.
    pub limit: Option<u64>,
    /// Only sessions that were used within so many minutes.
    pub active_minutes: Option<u64>,
    /// Whether the `global` session is listed; only where it is the main session
    /// when absent.
    pub include_global: Option<bool>,
    /// Whether the `unknown` session is listed; no when absent.
    pub include_unknown: Option<bool>,
    /// Adds `derivedTitle`.
    pub include_derived_titles: bool,
    /// Adds `lastMessagePreview`.
    pub include_last_message: bool,
    /// Only the session with this label.
    pub label: Option<String>,
    /// Only sub-agents of this session.
    pub spawned_by: Option<String>,
    /// Only sessions of this agent.
    pub agent_id: Option<String>,
    /// Only sessions in which this occurs.
    pub search: Option<String>,
}

impl Params for SessionsListParams {
    fn read(f: &mut Fields) -> Self {
        // Sessions of agents that were removed are in the list as well.
        f.newer(&["configuredAgentsOnly"]);
        Self {
            limit: f.optional("limit", integer_from(1)),
            active_minutes: f.optional("activeMinutes", integer_from(1)),
            include_global: f.optional("includeGlobal", boolean()),
            include_unknown: f.optional("includeUnknown", boolean()),
            include_derived_titles: f
                .optional("includeDerivedTitles", boolean())
                .unwrap_or_default(),
            include_last_message: f.optional("includeLastMessage", boolean()).unwrap_or_default(),
            label: f.optional("label", non_empty().max(LABEL_MAX)),
            spawned_by: f.optional("spawnedBy", non_empty()),
            agent_id: f.optional("agentId", non_empty()),
            search: f.optional("search", text()),
        }
    }
}

/// Params of `sessions.messages.subscribe` and `sessions.messages.unsubscribe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKeyParams {
    /// As the client wrote it.
    pub key: String,
}

impl Params for SessionKeyParams {
    fn read(f: &mut Fields) -> Self {
        // Approvals come by events of their own.
        f.newer(&["includeApprovals"]);
        Self { key: f.required("key", non_empty().max(SESSION_KEY_MAX)) }
    }
}

/// Params of `sessions.preview`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsPreviewParams {
    /// As the client wrote them.
    pub keys: Vec<String>,
    /// Whether it asked for one session, by `key`, as dashboards do.
    pub is_single: bool,
    /// Most lines of each session.
    pub limit: Option<u64>,
    /// Most characters of a line.
    pub max_chars: Option<u64>,
}

impl Params for SessionsPreviewParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        let is_single = f.has("key") && !f.has("keys");
        let keys = if is_single {
            vec![f.required("key", non_empty())]
        } else {
            f.required("keys", list(non_empty()).min(1))
        };
        Self {
            keys,
            is_single,
            limit: f.optional("limit", integer_from(1)),
            max_chars: f.optional("maxChars", integer_from(20)),
        }
    }
}

/// Params of `sessions.describe`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionsDescribeParams {
    /// As the client wrote it.
    pub key: String,
    /// Adds `derivedTitle`.
    pub include_derived_titles: bool,
    /// Adds `lastMessagePreview`.
    pub include_last_message: bool,
}

impl Params for SessionsDescribeParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        Self {
            key: f.required("key", non_empty()),
            include_derived_titles: f
                .optional("includeDerivedTitles", boolean())
                .unwrap_or_default(),
            include_last_message: f.optional("includeLastMessage", boolean()).unwrap_or_default(),
        }
    }
}

/// Params of `sessions.resolve`; one of the first three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsResolveParams {
    /// As the client wrote it.
    pub key: Option<String>,
    /// Id of the current transcript.
    pub session_id: Option<String>,
    /// Name that a user gave it.
    pub label: Option<String>,
    /// Only sessions of this agent, for labels.
    pub agent_id: Option<String>,
    /// Only sub-agents of this session, for labels.
    pub spawned_by: Option<String>,
    /// Whether the `global` session may be found by its label.
    pub include_global: bool,
    /// Whether the `unknown` session may be found by its label.
    pub include_unknown: bool,
}

impl Params for SessionsResolveParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        Self {
            key: f.optional("key", non_empty()),
            session_id: f.optional("sessionId", non_empty()),
            label: f.optional("label", non_empty().max(LABEL_MAX)),
            agent_id: f.optional("agentId", non_empty()),
            spawned_by: f.optional("spawnedBy", non_empty()),
            include_global: f.optional("includeGlobal", boolean()).unwrap_or_default(),
            include_unknown: f.optional("includeUnknown", boolean()).unwrap_or_default(),
        }
    }
}

/// Params of `sessions.get`, which the original reads without a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsGetParams {
    /// `key` or `sessionKey`, as the client wrote it; empty when absent.
    pub key: String,
    /// Most messages.
    pub limit: Option<u64>,
}

impl Params for SessionsGetParams {
    fn read(f: &mut Fields) -> Self {
        let mut word = |name: &str| {
            let value = f.optional(name, any())?;
            value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (key, alias) = (word("key"), word("sessionKey"));
        let limit = f.optional("limit", any()).and_then(|limit| limit.as_u64());
        f.ignore_rest();
        Self { key: key.or(alias).unwrap_or_default(), limit: limit.filter(|limit| *limit > 0) }
    }
}

/// Params of `sessions.send` and `sessions.steer`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionsSendParams {
    /// As the client wrote it.
    pub key: String,
    /// What the user says.
    pub message: String,
    /// Thinking level for this run.
    pub thinking: Option<String>,
    /// Pictures and files.
    pub attachments: Vec<Value>,
    /// Milliseconds after which a stuck run may be swept.
    pub timeout_ms: Option<u64>,
    /// The run's id as well; made up when absent.
    pub idempotency_key: Option<String>,
}

impl Params for SessionsSendParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            key: f.required("key", non_empty()),
            message: f.required("message", text()),
            thinking: f.optional("thinking", text()),
            attachments: f.optional("attachments", list(any())).unwrap_or_default(),
            timeout_ms: f.optional("timeoutMs", integer_from(0)),
            idempotency_key: f.optional("idempotencyKey", non_empty()),
        }
    }
}

/// Params of `sessions.abort`; one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsAbortParams {
    /// As the client wrote it.
    pub key: Option<String>,
    /// Only this run.
    pub run_id: Option<String>,
}

impl Params for SessionsAbortParams {
    fn read(f: &mut Fields) -> Self {
        Self { key: f.optional("key", non_empty()), run_id: f.optional("runId", non_empty()) }
    }
}

/// Params of `sessions.reset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsResetParams {
    /// As the client wrote it.
    pub key: String,
    /// `new` or `reset`; goes into the event.
    pub reason: Option<String>,
}

impl Params for SessionsResetParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        Self {
            key: f.required("key", non_empty()),
            reason: f.optional("reason", literal(&["new", "reset"])),
        }
    }
}

/// Params of `sessions.delete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsDeleteParams {
    /// As the client wrote it.
    pub key: String,
    /// Whether the transcript is put away too; yes when absent.
    pub delete_transcript: bool,
}

impl Params for SessionsDeleteParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        let key = f.required("key", non_empty());
        let delete_transcript = f.optional("deleteTranscript", boolean()).unwrap_or(true);
        f.optional("emitLifecycleHooks", boolean());
        Self { key, delete_transcript }
    }
}

/// Params of `sessions.cleanup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsCleanupParams {
    /// Only this agent's sessions; the default agent's when absent.
    pub agent: Option<String>,
    /// The sessions of all agents.
    pub all_agents: bool,
    /// Does what the configuration only warns of.
    pub enforce: bool,
    /// A session that stays whatever its age, as the client wrote it.
    pub active_key: Option<String>,
    /// Also removes sessions without transcripts.
    pub fix_missing: bool,
}

impl Params for SessionsCleanupParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            agent: f.optional("agent", non_empty()),
            all_agents: f.optional("allAgents", boolean()).unwrap_or_default(),
            enforce: f.optional("enforce", boolean()).unwrap_or_default(),
            active_key: f.optional("activeKey", non_empty()),
            fix_missing: f.optional("fixMissing", boolean()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Unknown, decode_value};
    use crate::support::json;

    #[test]
    fn a_key_that_is_followed_is_no_longer_than_one_that_is_sent_to() {
        let read = |length| {
            let params = json!({"key": "k".repeat(length)});
            decode_value::<SessionKeyParams>(params, Unknown::Refuse)
        };
        assert!(read(SESSION_KEY_MAX).is_ok());
        assert_eq!(
            read(SESSION_KEY_MAX + 1).unwrap_err(),
            ["at /key: must NOT have more than 512 characters"]
        );
    }

    #[test]
    fn simple_clients_may_say_session_key() {
        let params = json!({"sessionKey": "main"});
        let read = decode_value::<SessionsResetParams>(params.clone(), Unknown::Ignore).unwrap();
        assert_eq!(read.key, "main");
        assert_eq!(
            decode_value::<SessionsDeleteParams>(params, Unknown::Refuse).unwrap_err(),
            ["must have required property 'key'", "at root: unexpected property 'sessionKey'"]
        );
    }
}
