//! The events of one run (`reference/behaviour.md` §13).
//!
//! Owns: the run's `seq`, its text so far, the pace of chat deltas. Promises:
//! deltas are cumulative and at most one per 150 ms, nothing comes after the
//! end, the end comes once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::bus::{Audience, Bus, ChatMark, Event, EventKind};
use crate::protocol::message::{ToolCall, Usage};
use crate::support::Clock;

use super::run::{AbortReason, ActiveRun};
use super::silent;

/// Time between two chat deltas of a run.
const DELTA_EVERY: Duration = Duration::from_millis(150);

/// Sends the events of one run.
pub struct Emitter {
    run: Arc<ActiveRun>,
    bus: Bus,
    clock: Arc<dyn Clock>,
    seq: u64,
    started_at: u64,
    /// What earlier model turns of this run said.
    earlier: String,
    /// What the current model turn has said, as it came.
    raw: String,
    /// Bytes of the current turn's text that `agent` events have shown.
    shown: usize,
    /// Bytes of the whole text that `chat` deltas have shown.
    sent: usize,
    last_delta: Option<Instant>,
}

impl Emitter {
    /// An emitter for a run that begins now.
    pub fn new(run: Arc<ActiveRun>, bus: Bus, clock: Arc<dyn Clock>) -> Self {
        Self {
            started_at: clock.now_ms(),
            run,
            bus,
            clock,
            seq: 0,
            earlier: String::new(),
            raw: String::new(),
            shown: 0,
            sent: 0,
            last_delta: None,
        }
    }

    /// When the run began, in milliseconds since the epoch.
    pub const fn started_at(&self) -> u64 {
        self.started_at
    }

    /// The run begins.
    pub fn start(&mut self) {
        self.run.note(|progress| progress.started_at = Some(self.started_at));
        self.agent("lifecycle", &json!({"phase": "start", "startedAt": self.started_at}));
    }

    /// The provider failed and is asked again.
    pub fn retry(&mut self, attempt: u32, max_attempts: u32, delay_ms: u64, error: &str) {
        let data = json!({"phase": "retry", "attempt": attempt, "maxAttempts": max_attempts,
            "delayMs": delay_ms, "error": error});
        self.agent("lifecycle", &data);
    }

    /// The conversation is being summed up.
    pub fn compaction_start(&mut self) {
        self.agent("compaction", &json!({"phase": "start"}));
    }

    /// That has ended, well or not; the model may be asked again.
    pub fn compaction_end(&mut self, will_retry: bool, completed: bool) {
        let data = json!({"phase": "end", "willRetry": will_retry, "completed": completed});
        self.agent("compaction", &data);
    }

    /// The model said more.
    pub fn text(&mut self, delta: &str) {
        self.raw.push_str(delta);
        let visible = self.raw.trim_end();
        if visible.len() <= self.shown || silent::may_become_silent(visible) {
            return;
        }
        let delta = visible.get(self.shown..).unwrap_or_default();
        let data = json!({"text": visible, "delta": delta});
        self.shown = visible.len();
        self.agent("assistant", &data);
        let is_due = self.last_delta.is_none_or(|last| last.elapsed() >= DELTA_EVERY);
        if is_due {
            self.delta();
        }
    }

    /// A tool call begins.
    pub fn tool_start(&mut self, call: &ToolCall) {
        self.flush();
        let started_at = self.clock.now_ms();
        let data = json!({"phase": "start", "name": call.name, "toolCallId": call.id, "args": call.arguments});
        self.tool(&data);
        self.item(call, "start", "running", started_at, None);
    }

    /// A tool call has ended.
    pub fn tool_end(&mut self, call: &ToolCall, result: &Value, is_error: bool, started_at: u64) {
        let data = json!({"phase": "result", "name": call.name, "toolCallId": call.id,
            "isError": is_error, "result": result});
        self.tool(&data);
        let status = if is_error { "failed" } else { "completed" };
        self.item(call, "end", status, started_at, Some(self.clock.now_ms()));
    }

    /// The model's turn is over, and another one follows.
    pub fn next_turn(&mut self) {
        self.earlier.push_str(self.raw.trim_end());
        self.raw.clear();
        self.shown = 0;
    }

    /// All text of the run so far.
    pub fn whole_text(&self) -> String {
        format!("{}{}", self.earlier, self.raw.trim_end())
    }

    /// What the current model turn has said, as it came.
    pub fn turn_text(&self) -> &str {
        &self.raw
    }

    /// The run ends with its answer.
    pub fn finish(&mut self, usage: &Usage, stop_reason: &str) {
        let data =
            json!({"phase": "end", "livenessState": "working", "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", &data);
        let text = self.whole_text();
        let is_shown = !text.is_empty() && !silent::is_silent(&text);
        self.show(if is_shown { &text } else { "" });
        if is_shown {
            self.flush();
        }
        let message = is_shown.then(|| self.message(&text));
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "seq": self.seq,
            "state": "final",
            "message": message,
            "usage": usage,
            "stopReason": stop_reason,
        }));
    }

    /// The run ends with an error.
    pub fn fail(&mut self, message: &str, kind: &str) {
        let data = json!({"phase": "error", "error": message, "livenessState": "blocked",
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", &data);
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "seq": self.seq,
            "state": "error",
            "errorMessage": message,
            "errorKind": kind,
            // What a dashboard of seed 001 reads.
            "error": {"code": kind, "message": message},
        }));
    }

    /// Somebody stopped the run.
    pub fn abort(&mut self, reason: AbortReason) {
        self.seq += 1;
        let text = self.whole_text();
        self.show(&text);
        let message = (!text.is_empty()).then(|| self.message(&text));
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.written_key,
            "seq": self.seq,
            "state": "aborted",
            "stopReason": reason.as_str(),
            "message": message,
        }));
        self.seq -= 1;
        let data = json!({"phase": "end", "status": "cancelled", "aborted": true,
            "stopReason": reason.as_str(), "startedAt": self.started_at,
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", &data);
    }

    /// Sends what the pace has held back.
    fn flush(&mut self) {
        if self.earlier.len() + self.raw.trim_end().len() > self.sent {
            self.delta();
        }
    }

    fn delta(&mut self) {
        let text = self.whole_text();
        let begins = self.sent == 0;
        self.sent = text.len();
        self.last_delta = Some(Instant::now());
        let shown = self.show(&text);
        if !self.bus.wants(EventKind::Chat, &Audience::Everyone) {
            return;
        }
        let payload = json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "seq": self.seq,
            "state": "delta",
            "message": self.message(&text),
        });
        let mark = ChatMark { run_id: Arc::clone(&self.run.id), text: Some(shown), begins };
        let event = Event::new(EventKind::Chat, &payload).about(self.run.key.clone()).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    /// Notes what clients are shown of the run, for those who come late.
    fn show(&self, text: &str) -> Arc<str> {
        let shown = Arc::<str>::from(text);
        self.run.note(|progress| progress.text = Arc::clone(&shown));
        shown
    }

    fn chat_end(&self, mut payload: Value) {
        self.run.set_over();
        if let Value::Object(members) = &mut payload {
            members.retain(|_, value| !value.is_null());
        }
        let mark = ChatMark { run_id: Arc::clone(&self.run.id), text: None, begins: false };
        let event = Event::new(EventKind::Chat, &payload).about(self.run.key.clone()).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    fn message(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": [{"type": "text", "text": text}],
            "timestamp": self.clock.now_ms()})
    }

    fn item(
        &mut self,
        call: &ToolCall,
        phase: &str,
        status: &str,
        started_at: u64,
        ended_at: Option<u64>,
    ) {
        let mut data = json!({"itemId": format!("tool:{}", call.id), "phase": phase, "kind": "tool",
            "title": call.name, "status": status, "name": call.name, "toolCallId": call.id,
            "startedAt": started_at});
        if let (Some(ended_at), Value::Object(members)) = (ended_at, &mut data) {
            members.insert("endedAt".into(), json!(ended_at));
        }
        self.agent("item", &data);
    }

    fn tool(&mut self, data: &Value) {
        let payload = self.payload("tool", data);
        let to = Audience::ToolWatchers(Arc::clone(&self.run.owner));
        self.bus.publish(EventKind::Agent, &to, &payload);
        self.bus.publish(EventKind::SessionTool, &Audience::SessionWatchers, &payload);
    }

    fn agent(&mut self, stream: &str, data: &Value) {
        let payload = self.payload(stream, data);
        self.bus.publish(EventKind::Agent, &Audience::Everyone, &payload);
    }

    fn payload(&mut self, stream: &str, data: &Value) -> Value {
        self.seq += 1;
        json!({
            "runId": *self.run.id,
            "stream": stream,
            "data": data,
            "sessionKey": self.run.key.as_str(),
            "seq": self.seq,
            "ts": self.clock.now_ms(),
        })
    }
}
