//! Session rows, as lists and events have them. Members as recorded.

use serde::Serialize;
use serde_json::Value;

use crate::providers::ThinkingLevel;
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::json;

use super::models::Models;

#[derive(Debug, Clone, Copy, Serialize)]
struct ThinkingOption {
    id: &'static str,
    label: &'static str,
}

impl ThinkingOption {
    const fn of(level: ThinkingLevel) -> Self {
        Self { id: level.as_str(), label: level.as_str() }
    }
}

/// A session as clients see it in lists and events.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawned_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawned_workspace_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawn_depth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subagent_role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subagent_control_scope: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Only in lists that ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived_title: Option<String>,
    /// Only in lists that ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_preview: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Value>,
    updated_at: u64,
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_sent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aborted_last_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
    thinking_levels: &'static [ThinkingOption],
    thinking_options: &'static [&'static str],
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_default: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fast_mode: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbose_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elevated_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    total_tokens_fresh: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// `active` or `historical`; only where sub-agents are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_run_state: Option<&'static str>,
    /// The same as yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_active_subagent_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_key: Option<String>,
    /// Only in lists: who was spawned by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_usage: Option<String>,
    model_provider: String,
    model: String,
    agent_runtime: AgentRuntime,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_to: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_account_id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_thread_id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction_checkpoint_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_compaction_checkpoint: Option<Value>,
    /// Only in lists, and in events that say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_active_run: Option<bool>,
}

/// The levels that a model offers; the last one only where it is the default, or set.
static LEVELS: [&str; 6] = [
    ThinkingLevel::Off.as_str(),
    ThinkingLevel::Minimal.as_str(),
    ThinkingLevel::Low.as_str(),
    ThinkingLevel::Medium.as_str(),
    ThinkingLevel::High.as_str(),
    ThinkingLevel::XHigh.as_str(),
];

/// The same as clients choose among them.
static OPTIONS: [ThinkingOption; 6] = [
    ThinkingOption::of(ThinkingLevel::Off),
    ThinkingOption::of(ThinkingLevel::Minimal),
    ThinkingOption::of(ThinkingLevel::Low),
    ThinkingOption::of(ThinkingLevel::Medium),
    ThinkingOption::of(ThinkingLevel::High),
    ThinkingOption::of(ThinkingLevel::XHigh),
];

/// What is offered of all where a session thinks this hard, or would.
fn offered<T>(all: &'static [T], level: ThinkingLevel) -> &'static [T] {
    match all {
        [usual @ .., _] if level != ThinkingLevel::XHigh => usual,
        all => all,
    }
}

/// What runs an agent's turns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AgentRuntime {
    id: &'static str,
    source: &'static str,
}

/// What runs an agent's turns here.
pub const fn agent_runtime() -> AgentRuntime {
    AgentRuntime { id: "pi", source: "implicit" }
}

/// A chat that a channel calls a group is one, whatever its key.
fn kind(key: &SessionKey, entry: &SessionEntry) -> &'static str {
    match entry.chat_type.as_deref() {
        Some("group" | "channel") => "group",
        _ => key.kind(),
    }
}

impl SessionRow {
    /// The row of a session.
    pub fn new(key: &SessionKey, entry: &SessionEntry, models: &Models) -> Self {
        let model = models.shown(key, entry);
        let thinking_default = models.usual_thinking(key, model.info.as_deref());
        let is_most = entry.thinking_level.as_deref() == Some(ThinkingLevel::XHigh.as_str());
        let most = if is_most { ThinkingLevel::XHigh } else { thinking_default };
        // Nothing is known of a context that holds nothing yet.
        let total_tokens = entry.total_tokens.filter(|total| *total > 0);
        Self {
            key: key.to_string(),
            spawned_by: entry.spawned_by.clone(),
            spawned_workspace_dir: entry.spawned_workspace_dir.clone(),
            spawn_depth: entry.spawn_depth,
            subagent_role: entry.subagent_role.clone(),
            subagent_control_scope: entry.subagent_control_scope.clone(),
            kind: kind(key, entry),
            label: entry.label.clone(),
            display_name: entry.display_name.clone().or_else(|| entry.label.clone()),
            derived_title: None,
            last_message_preview: None,
            channel: entry.channel.as_deref().or_else(|| key.group_channel()).map(str::to_owned),
            chat_type: entry.chat_type.clone(),
            origin: entry.origin.clone(),
            updated_at: entry.updated_at,
            session_id: entry.session_id.clone(),
            system_sent: entry.system_sent,
            aborted_last_run: entry.aborted_last_run,
            thinking_level: entry.thinking_level.clone(),
            thinking_levels: offered(&OPTIONS, most),
            thinking_options: offered(&LEVELS, most),
            thinking_default: Some(thinking_default.as_str()),
            fast_mode: entry.fast_mode,
            verbose_level: entry.verbose_level.clone(),
            trace_level: entry.trace_level.clone(),
            reasoning_level: entry.reasoning_level.clone(),
            elevated_level: entry.elevated_level.clone(),
            send_policy: entry.send_policy.clone(),
            input_tokens: entry.input_tokens,
            output_tokens: entry.output_tokens,
            total_tokens,
            total_tokens_fresh: total_tokens.is_some()
                && entry.total_tokens_fresh.unwrap_or_default(),
            estimated_cost_usd: entry.estimated_cost_usd,
            status: entry.status.clone(),
            subagent_run_state: None,
            has_active_subagent_run: None,
            started_at: entry.started_at,
            ended_at: entry.ended_at,
            runtime_ms: entry.runtime_ms,
            parent_session_key: entry
                .parent_session_key
                .clone()
                .or_else(|| entry.spawned_by.clone()),
            child_sessions: Vec::new(),
            response_usage: entry.response_usage.clone(),
            context_tokens: model.context_window().or(entry.context_tokens),
            model_provider: model.name.provider,
            model: model.name.model,
            agent_runtime: agent_runtime(),
            delivery_context: entry.delivery_context.clone(),
            last_channel: entry.last_channel.clone(),
            last_to: entry.extra.get("lastTo").cloned(),
            last_account_id: entry.extra.get("lastAccountId").cloned(),
            last_thread_id: entry.extra.get("lastThreadId").cloned(),
            compaction_count: entry.compaction_count.filter(|count| *count > 0),
            compaction_checkpoint_count: Some(entry.compaction_checkpoints.len())
                .filter(|count| *count > 0),
            latest_compaction_checkpoint: latest_checkpoint(entry),
            has_active_run: None,
        }
    }

    /// The row with what a sub-agent does, if it is one.
    #[must_use]
    pub fn with_subagent(mut self) -> Self {
        if self.spawned_by.is_some() {
            let is_active = self.status.as_deref() == Some("running");
            self.subagent_run_state = Some(if is_active { "active" } else { "historical" });
            self.has_active_subagent_run = Some(is_active);
        }
        self
    }

    /// `defaults` of `sessions.list`.
    pub fn defaults(models: &Models) -> Value {
        let model = models.catalog().known(&models.default_choice().model);
        let thinking_default = models.thinking_default(&model);
        json!({
            "modelProvider": model.provider,
            "model": model.id,
            "contextTokens": model.context_window,
            "thinkingLevels": offered(&OPTIONS, thinking_default),
            "thinkingOptions": offered(&LEVELS, thinking_default),
            "thinkingDefault": thinking_default.as_str(),
        })
    }
}

/// The newest compaction, without the summary.
fn latest_checkpoint(entry: &SessionEntry) -> Option<Value> {
    let newest = entry.compaction_checkpoints.iter().max_by_key(|it| it.created_at)?;
    Some(json!({
        "checkpointId": newest.checkpoint_id,
        "createdAt": newest.created_at,
        "reason": newest.reason,
        "tokensBefore": newest.tokens_before,
        "tokensAfter": newest.tokens_after,
    }))
}
