//! Session rows, and the events that carry them. Members as recorded.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::bus::{Audience, Bus, Event, EventKind};
use crate::providers::ThinkingLevel;
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::Clock;

use super::models::Models;

/// Members of a row that events repeat beside `session`.
const SPREAD: [&str; 35] = [
    "updatedAt",
    "sessionId",
    "kind",
    "channel",
    "spawnedBy",
    "spawnedWorkspaceDir",
    "spawnDepth",
    "subagentRole",
    "subagentControlScope",
    "parentSessionKey",
    "label",
    "displayName",
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "traceLevel",
    "reasoningLevel",
    "elevatedLevel",
    "sendPolicy",
    "responseUsage",
    "chatType",
    "origin",
    "deliveryContext",
    "systemSent",
    "lastChannel",
    "totalTokens",
    "totalTokensFresh",
    "contextTokens",
    "estimatedCostUsd",
    "modelProvider",
    "model",
    "status",
    "startedAt",
    "endedAt",
    "runtimeMs",
];

/// Members of a row that are not in events with `reason`.
const ROW_ONLY: [&str; 5] =
    ["key", "thinkingLevels", "thinkingOptions", "thinkingDefault", "agentRuntime"];

#[derive(Debug, Clone, Copy, Serialize)]
struct ThinkingOption {
    id: &'static str,
    label: &'static str,
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
    thinking_levels: Vec<ThinkingOption>,
    thinking_options: Vec<&'static str>,
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
    agent_runtime: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction_checkpoint_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_compaction_checkpoint: Option<Value>,
    /// Only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_active_run: Option<bool>,
}

/// The levels that a model offers.
fn thinking_levels() -> [ThinkingLevel; 5] {
    [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
    ]
}

/// `thinkingLevels`, `thinkingOptions` and `thinkingDefault` of a row or of
/// the defaults of `sessions.list`.
fn thinking_members() -> (Vec<ThinkingOption>, Vec<&'static str>) {
    let names: Vec<_> = thinking_levels().into_iter().map(ThinkingLevel::as_str).collect();
    (names.iter().map(|name| ThinkingOption { id: name, label: name }).collect(), names)
}

/// What runs an agent's turns here.
pub fn agent_runtime() -> Value {
    json!({"id": "pi", "source": "implicit"})
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
        let model = models.of_session(key, Some(entry));
        let (thinking_levels, thinking_options) = thinking_members();
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
            channel: entry.channel.clone(),
            chat_type: entry.chat_type.clone(),
            origin: entry.origin.clone(),
            updated_at: entry.updated_at,
            session_id: entry.session_id.clone(),
            system_sent: entry.system_sent,
            aborted_last_run: entry.aborted_last_run,
            thinking_level: entry.thinking_level.clone(),
            thinking_levels,
            thinking_options,
            thinking_default: Some(ThinkingLevel::Off.as_str()),
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
            started_at: entry.started_at,
            ended_at: entry.ended_at,
            runtime_ms: entry.runtime_ms,
            parent_session_key: entry.parent_session_key.clone(),
            child_sessions: Vec::new(),
            response_usage: entry.response_usage.clone(),
            context_tokens: model.context_window(),
            model_provider: model.name.provider,
            model: model.name.model,
            agent_runtime: agent_runtime(),
            delivery_context: entry.delivery_context.clone(),
            last_channel: entry.last_channel.clone(),
            compaction_count: entry.compaction_count.filter(|count| *count > 0),
            compaction_checkpoint_count: Some(entry.compaction_checkpoints.len())
                .filter(|count| *count > 0),
            latest_compaction_checkpoint: latest_checkpoint(entry),
            has_active_run: None,
        }
    }

    /// `defaults` of `sessions.list`.
    pub fn defaults(models: &Models) -> Value {
        let model = &models.default_choice().model;
        let (levels, options) = thinking_members();
        json!({
            "modelProvider": model.provider,
            "model": model.id,
            "contextTokens": model.context_window,
            "thinkingLevels": levels,
            "thinkingOptions": options,
            "thinkingDefault": ThinkingLevel::Off.as_str(),
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

/// Publishes what happens to sessions.
#[derive(Clone)]
pub struct SessionEvents {
    bus: Bus,
    models: Models,
    clock: Arc<dyn Clock>,
}

impl SessionEvents {
    /// A publisher over this bus.
    pub fn new(bus: Bus, models: Models, clock: Arc<dyn Clock>) -> Self {
        Self { bus, models, clock }
    }

    /// A run of the session started, ended or failed: `sessions.changed` with
    /// `phase`.
    pub fn phase(&self, key: &SessionKey, entry: &SessionEntry, phase: &str, run_id: &str) {
        let members = json!({"phase": phase, "runId": run_id});
        self.changed(key, entry, members);
    }

    /// A message was added: `session.message`, then `sessions.changed`.
    /// `message` is in its display form.
    pub fn message(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        message: &Value,
        id: &str,
        seq: u64,
    ) {
        let audience = Audience::MessageWatchers(key.clone());
        if self.bus.wants(EventKind::SessionMessage, &audience) {
            let mut payload = Map::new();
            payload.insert("sessionKey".into(), json!(key.as_str()));
            payload.insert("message".into(), message.clone());
            payload.insert("messageId".into(), json!(id));
            payload.insert("messageSeq".into(), json!(seq));
            self.add_row(&mut payload, key, entry);
            let event = Event::new(EventKind::SessionMessage, &payload).about(key.clone());
            self.bus.deliver(event, &audience);
        }
        let members = json!({"phase": "message", "messageId": id, "messageSeq": seq});
        self.changed(key, entry, members);
    }

    /// Somebody changed the session: `sessions.changed` with `reason`; without
    /// a row when it is gone.
    pub fn reason(
        &self,
        key: &SessionKey,
        entry: Option<&SessionEntry>,
        reason: &str,
        has_active_run: bool,
    ) {
        self.told(key, entry, &json!({"reason": reason}), has_active_run);
    }

    /// A compaction of the session was tried.
    pub fn compacted(
        &self,
        key: &SessionKey,
        entry: Option<&SessionEntry>,
        compacted: bool,
        has_active_run: bool,
    ) {
        let members = json!({"reason": "compact", "compacted": compacted});
        self.told(key, entry, &members, has_active_run);
    }

    fn told(
        &self,
        key: &SessionKey,
        entry: Option<&SessionEntry>,
        members: &Value,
        has_active_run: bool,
    ) {
        if !self.bus.wants(EventKind::SessionsChanged, &Audience::SessionWatchers) {
            return;
        }
        let mut payload = Map::new();
        payload.insert("sessionKey".into(), json!(key.as_str()));
        payload.extend(members.as_object().cloned().unwrap_or_default());
        payload.insert("ts".into(), json!(self.clock.now_ms()));
        if let Some(entry) = entry {
            let mut row = SessionRow::new(key, entry, &self.models);
            row.has_active_run = Some(has_active_run);
            if let Ok(Value::Object(row)) = serde_json::to_value(row) {
                payload
                    .extend(row.into_iter().filter(|(name, _)| !ROW_ONLY.contains(&name.as_str())));
            }
        }
        let event = Event::new(EventKind::SessionsChanged, &payload).about(key.clone());
        self.bus.deliver(event, &Audience::SessionWatchers);
    }

    /// The members of a session's row in tool events, which have the tokens of
    /// the last answer as well.
    pub fn tool_row(&self, key: &SessionKey, entry: &SessionEntry) -> Map<String, Value> {
        let mut members = Map::new();
        self.add_row(&mut members, key, entry);
        for (name, tokens) in
            [("inputTokens", entry.input_tokens), ("outputTokens", entry.output_tokens)]
        {
            let Some(tokens) = tokens else { continue };
            if let Some(Value::Object(row)) = members.get_mut("session") {
                row.insert(name.into(), json!(tokens));
            }
            members.insert(name.into(), json!(tokens));
        }
        members
    }

    fn changed(&self, key: &SessionKey, entry: &SessionEntry, members: Value) {
        if !self.bus.wants(EventKind::SessionsChanged, &Audience::SessionWatchers) {
            return;
        }
        let mut payload = Map::new();
        payload.insert("sessionKey".into(), json!(key.as_str()));
        if let Value::Object(members) = members {
            payload.extend(members);
        }
        payload.insert("ts".into(), json!(self.clock.now_ms()));
        self.add_row(&mut payload, key, entry);
        let event = Event::new(EventKind::SessionsChanged, &payload).about(key.clone());
        self.bus.deliver(event, &Audience::SessionWatchers);
    }

    fn add_row(&self, payload: &mut Map<String, Value>, key: &SessionKey, entry: &SessionEntry) {
        let mut row = SessionRow::new(key, entry, &self.models);
        (row.input_tokens, row.output_tokens) = (None, None);
        let Ok(Value::Object(row)) = serde_json::to_value(row) else { return };
        let spread: Vec<_> = SPREAD
            .into_iter()
            .chain(["abortedLastRun"])
            .filter_map(|name| Some((name.to_owned(), row.get(name)?.clone())))
            .collect();
        payload.insert("session".into(), Value::Object(row));
        payload.extend(spread);
    }
}
