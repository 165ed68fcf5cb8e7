//! `sessions.*`.

use crate::protocol::decode::{Fields, Params, boolean, integer_from, non_empty, text};

/// Longest session label, in characters.
const LABEL_MAX: usize = 512;

/// Params of `sessions.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionsListParams {
    /// Most rows; 100 when absent.
    pub limit: Option<u64>,
    /// Only sessions that were used within so many minutes.
    pub active_minutes: Option<u64>,
    /// Whether the `global` session is listed; yes when absent.
    pub include_global: Option<bool>,
    /// Whether the `unknown` session is listed; yes when absent.
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
        Self { key: f.required("key", non_empty()) }
    }
}
