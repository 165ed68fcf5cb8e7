//! The events that carry session rows. Members as recorded.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::bus::{Audience, Bus, Event, EventKind};
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::{Clock, json};

use super::models::Models;
use super::rows::SessionRow;

/// Members of a row that events repeat beside `session`.
const SPREAD: [&str; 41] = [
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
    "lastTo",
    "lastAccountId",
    "lastThreadId",
    "inputTokens",
    "outputTokens",
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
    "abortedLastRun",
];

/// Members of a row that are not in events with `reason`.
const ROW_ONLY: [&str; 5] =
    ["key", "thinkingLevels", "thinkingOptions", "thinkingDefault", "agentRuntime"];

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
    /// `phase`. The row says whether something runs, so that a client that came
    /// in the middle of the run hears of its end.
    pub fn phase(&self, key: &SessionKey, entry: &SessionEntry, phase: &str, run_id: &str) {
        let members = json!({"phase": phase, "runId": run_id});
        self.changed(key, members, |payload| {
            self.add_row(payload, key, entry);
            if let Some(Value::Object(row)) = payload.get_mut("session") {
                row.insert("hasActiveRun".into(), json!(phase == "start"));
            }
        });
    }

    /// Whether anybody would get what [`Self::message`] tells.
    pub fn has_watchers(&self, key: &SessionKey) -> bool {
        let of_messages = Audience::MessageWatchers(key.clone());
        self.bus.wants(EventKind::SessionMessage, &of_messages)
            || self.bus.wants(EventKind::SessionsChanged, &Audience::SessionWatchers)
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
        self.changed(key, members, |payload| self.add_row(payload, key, entry));
    }

    /// Somebody gave a command, which no transcript keeps: `session.message`
    /// without an id. `seq` is that of the last message before it.
    pub fn command(&self, key: &SessionKey, entry: &SessionEntry, message: &Value, seq: u64) {
        let audience = Audience::MessageWatchers(key.clone());
        if !self.bus.wants(EventKind::SessionMessage, &audience) {
            return;
        }
        let mut payload = Map::new();
        payload.insert("sessionKey".into(), json!(key.as_str()));
        payload.insert("message".into(), message.clone());
        payload.insert("messageSeq".into(), json!(seq));
        self.add_row(&mut payload, key, entry);
        let event = Event::new(EventKind::SessionMessage, &payload).about(key.clone());
        self.bus.deliver(event, &audience);
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
        self.told(key, entry, json!({"reason": reason}), has_active_run);
    }

    /// The session is gone: `sessions.changed` with `reason`, without a row.
    pub fn deleted(&self, key: &SessionKey, session_id: &str) {
        let audience = Audience::SessionWatchers;
        if self.bus.wants(EventKind::SessionsChanged, &audience) {
            let payload = json!({"sessionKey": key.as_str(), "reason": "delete",
                "ts": self.clock.now_ms()});
            let event = Event::new(EventKind::SessionsChanged, &payload);
            self.bus.deliver(event.about(key.clone()).of_gone(session_id), &audience);
        }
    }

    /// A sub-agent was begun (`create`), or has ended (`subagent-status`).
    pub fn subagent(&self, key: &SessionKey, entry: &SessionEntry, reason: &str) {
        self.changed(key, json!({"reason": reason}), |payload| {
            let row = SessionRow::new(key, entry, &self.models).with_subagent();
            add_plain_row(payload, row);
        });
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
        self.told(key, entry, members, has_active_run);
    }

    fn told(
        &self,
        key: &SessionKey,
        entry: Option<&SessionEntry>,
        members: Value,
        has_active_run: bool,
    ) {
        self.changed(key, members, |payload| {
            let Some(entry) = entry else { return };
            let mut row = SessionRow::new(key, entry, &self.models);
            row.has_active_run = Some(has_active_run);
            add_plain_row(payload, row);
        });
    }

    /// The members of a session's row in tool events.
    pub fn tool_row(&self, key: &SessionKey, entry: &SessionEntry) -> Map<String, Value> {
        let mut members = Map::new();
        self.add_row(&mut members, key, entry);
        members
    }

    fn changed(
        &self,
        key: &SessionKey,
        members: Value,
        add_row: impl FnOnce(&mut Map<String, Value>),
    ) {
        let audience = Audience::SessionWatchers;
        if !self.bus.wants(EventKind::SessionsChanged, &audience) {
            return;
        }
        let mut payload = Map::new();
        payload.insert("sessionKey".into(), json!(key.as_str()));
        if let Value::Object(members) = members {
            payload.extend(members);
        }
        payload.insert("ts".into(), json!(self.clock.now_ms()));
        add_row(&mut payload);
        let event = Event::new(EventKind::SessionsChanged, &payload).about(key.clone());
        self.bus.deliver(event, &audience);
    }

    fn add_row(&self, payload: &mut Map<String, Value>, key: &SessionKey, entry: &SessionEntry) {
        let row = SessionRow::new(key, entry, &self.models);
        let Ok(Value::Object(row)) = serde_json::to_value(row) else { return };
        let spread: Vec<_> = SPREAD
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), row.get(name)?.clone())))
            .collect();
        payload.insert("session".into(), Value::Object(row));
        payload.extend(spread);
    }
}

/// Adds the members of a row that events with `reason` have.
fn add_plain_row(payload: &mut Map<String, Value>, row: SessionRow) {
    let Ok(Value::Object(row)) = serde_json::to_value(row) else { return };
    payload.extend(row.into_iter().filter(|(name, _)| !ROW_ONLY.contains(&name.as_str())));
}
