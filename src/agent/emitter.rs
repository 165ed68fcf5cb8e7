//! The events of one run.
//!
//! Owns: the run's `seq`, its text so far, the pace of chat deltas. Promises:
//! deltas are cumulative and at most one per 150 ms (but for the one before a
//! tool or the end), nothing comes after the end, the end comes once.

mod pace;
mod quiet;
mod tools;

pub use tools::Card;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::bus::{Audience, Bus, ChatMark, Event, EventKind};
use crate::protocol::message::{StopReason, Usage};
use crate::providers::{FallbackNotice, text_for_people};
use crate::sessions::directives;
use crate::sessions::visible::Visible;
use crate::support::{Clock, json, without_nulls};

use super::fallback;
use super::feed::{Ending, Feed, RunNews};
use super::named_files;
use super::run::{AbortReason, ActiveRun};
use pace::Allowance;

/// Time between two chat deltas of a run.
const DELTA_EVERY: Duration = Duration::from_millis(150);
/// When the pace has used up its allowance, a piece is told when it is this part of the
/// text: all such events together are some nine times the text, which fits into an outbox,
const TOLD_PART: usize = 8;
/// or when the last one was told so long ago.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// An `agent` event, with its members in the order of the recordings.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a, D> {
    run_id: &'a str,
    stream: &'a str,
    data: D,
    session_key: &'a str,
    seq: u64,
    ts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    spawned_by: Option<&'a str>,
}

/// What is new of a turn's text, and all of it: the event that there are most of.
#[derive(Serialize)]
struct Piece<'a> {
    text: &'a str,
    delta: &'a str,
}

/// Sends the events of one run.
pub struct Emitter {
    run: Arc<ActiveRun>,
    bus: Bus,
    feed: Feed,
    clock: Arc<dyn Clock>,
    seq: u64,
    started_at: u64,
    /// What earlier model turns of this run said.
    earlier: String,
    /// What the current model turn has said, as it came.
    raw: String,
    /// What people see of it.
    visible: Visible,
    /// Bytes of the current turn's text that `agent` events have shown.
    shown: usize,
    /// When they last did.
    last_piece: Option<Instant>,
    /// What they may have of it.
    allowance: Allowance,
    /// Bytes of the whole text that `chat` deltas have shown.
    sent: usize,
    last_delta: Option<Instant>,
    /// Whether a tool has done something, so that the turn cannot be played again.
    has_changed: bool,
    /// Whether the model was kept from asking for tools that are not there.
    is_abandoned: bool,
}

impl Emitter {
    /// An emitter for a run that begins now.
    pub fn new(run: Arc<ActiveRun>, bus: Bus, feed: Feed, clock: Arc<dyn Clock>) -> Self {
        Self {
            started_at: clock.now_ms(),
            run,
            bus,
            feed,
            clock,
            seq: 0,
            earlier: String::new(),
            raw: String::new(),
            visible: Visible::new(),
            shown: 0,
            last_piece: None,
            allowance: Allowance::new(),
            sent: 0,
            last_delta: None,
            has_changed: false,
            is_abandoned: false,
        }
    }

    /// When the run began, in milliseconds since the epoch.
    pub const fn started_at(&self) -> u64 {
        self.started_at
    }

    /// Tells those inside of the gateway who follow the session.
    pub fn tell(&self, news: impl FnOnce() -> RunNews) {
        self.feed.of_run(&self.run, news);
    }

    /// The run begins.
    pub fn start(&mut self) {
        // Who looks in between finds a run that has begun, and misses nothing.
        self.run.note(|progress| progress.started_at = Some(self.started_at));
        self.tell(|| RunNews::Begins);
        self.agent("lifecycle", json!({"phase": "start", "startedAt": self.started_at}));
    }

    /// The provider failed and is asked again.
    pub fn retry(&mut self, attempt: u32, max_attempts: u32, delay_ms: u64, error: &str) {
        let data = json!({"phase": "retry", "attempt": attempt, "maxAttempts": max_attempts,
            "delayMs": delay_ms, "error": error});
        self.agent("lifecycle", data);
    }

    /// The conversation is being summed up.
    pub fn compaction_start(&mut self) {
        self.agent("compaction", json!({"phase": "start"}));
    }

    /// That has ended, well or not; the model may be asked again.
    pub fn compaction_end(&mut self, will_retry: bool, completed: bool) {
        let data = json!({"phase": "end", "willRetry": will_retry, "completed": completed});
        self.agent("compaction", data);
    }

    /// Another model is asked, or answers.
    pub fn fallback(&mut self, notice: &FallbackNotice) {
        self.agent("lifecycle", fallback::data(notice));
    }

    /// The model said more.
    pub fn text(&mut self, delta: &str) {
        self.raw.push_str(delta);
        self.visible.push(delta);
        if directives::may_become_silent(self.visible.text()) {
            return;
        }
        let is_due = self.last_delta.is_none_or(|last| last.elapsed() >= DELTA_EVERY);
        if self.is_worth_telling() && self.show_piece() && is_due {
            self.delta();
        }
    }

    /// Whether what is new is told before more comes.
    fn is_worth_telling(&mut self) -> bool {
        let length = self.visible.text().len();
        self.allowance.covers(length)
            || length.saturating_sub(self.shown) >= length / TOLD_PART
            || self.last_piece.is_none_or(|last| last.elapsed() >= TOLD_EVERY)
    }

    /// Tells what was held back of a long text: the run ends where it is.
    fn show_rest(&mut self) {
        if !directives::may_become_silent(self.visible.text()) {
            self.show_piece();
        }
    }

    /// Something is said for the model, in the place of what it said itself.
    pub fn say(&mut self, text: &str) {
        self.forget_turn();
        self.text(text);
    }

    /// What the current model turn has said does not count.
    pub fn forget_turn(&mut self) {
        self.raw.clear();
        self.visible = Visible::new();
        self.shown = 0;
    }

    /// Sends what is new of the current turn's text, if anything is.
    fn show_piece(&mut self) -> bool {
        let text = self.said();
        let Some(delta) = text.get(self.shown..).filter(|delta| !delta.is_empty()) else {
            return false;
        };
        self.feed.of_run(&self.run, || RunNews::Says(delta.to_owned()));
        let seq = self.seq + 1;
        // With nobody there the whole text need not be written again each time.
        if self.is_watched() {
            self.publish(&self.told("assistant", Piece { text, delta }, seq));
        }
        self.shown = text.len();
        self.allowance.spend(self.shown);
        self.seq = seq;
        self.last_piece = Some(Instant::now());
        true
    }

    /// What people see of the current model turn.
    fn said(&self) -> &str {
        let text = self.visible.text();
        if directives::is_silent(text) { "" } else { directives::strip_glued(text) }
    }

    /// The model's turn is over: what could have become a mark did not. `is_whole` tells
    /// that it ended by itself, and was not cut, nor calls a tool.
    fn settle(&mut self, is_whole: bool) {
        self.visible.finish(is_whole);
        let files = self.visible.take_files();
        if !files.is_empty() {
            self.run.note(|progress| named_files::add(&mut progress.files, files));
        }
        self.show_piece();
    }

    /// The model's turn is over, by itself or not, and another one follows.
    pub fn next_turn(&mut self, is_whole: bool) {
        self.settle(is_whole);
        self.earlier = self.whole_text();
        self.forget_turn();
    }

    /// All text of the run so far.
    pub fn whole_text(&self) -> String {
        format!("{}{}", self.earlier, self.said())
    }

    /// What the current model turn has said, as it came.
    pub fn turn_text(&self) -> &str {
        &self.raw
    }

    /// The run ends with its answer.
    pub fn finish(&mut self, usage: &Usage, stop_reason: StopReason) {
        self.settle(stop_reason.ended_by_itself());
        let liveness = if self.is_abandoned { "abandoned" } else { "working" };
        let data = json!({"phase": "end", "livenessState": liveness,
            "replayInvalid": self.has_changed.then_some(true), "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", without_nulls(data));
        let text = self.whole_text();
        self.show(&text);
        self.flush();
        let message = (!text.is_empty()).then(|| self.message(&text));
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "final",
            "message": message,
            "usage": usage,
            "stopReason": stop_reason.as_str(),
        }));
        self.tell(|| {
            let (usage, stop_reason) = (usage.clone(), stop_reason.as_str().to_owned());
            RunNews::Ends(Ending::Answered { usage, stop_reason })
        });
    }

    /// The run ends with an error.
    pub fn fail(&mut self, message: &str, kind: &str) {
        self.show_rest();
        let told = text_for_people(message, kind);
        let data = json!({"phase": "error", "error": told, "livenessState": "blocked",
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "error",
            "errorMessage": told,
            "errorKind": kind,
            // What dashboards read, in the words of the provider.
            "error": {"code": kind, "message": message},
        }));
        self.tell(|| {
            let (message, kind) = (message.to_owned(), kind.to_owned());
            RunNews::Ends(Ending::Failed { message, told: told.to_owned(), kind })
        });
    }

    /// The message went into another run, which tells the rest. Names that run.
    pub fn taken_into(&mut self, run_id: &str) {
        self.seq += 1;
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "final",
            "takenInto": run_id,
        }));
        self.tell(|| RunNews::Ends(Ending::TakenInto(run_id.to_owned())));
    }

    /// A newer message takes the place of the run, which ends with what it has.
    pub fn interrupt(&mut self) {
        self.show_rest();
        let data = json!({"phase": "end", "aborted": true, "livenessState": "blocked",
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        self.flush();
        let text = self.whole_text();
        self.show(&text);
        let message = (!text.is_empty()).then(|| self.message(&text));
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "final",
            "stopReason": AbortReason::Interrupt.as_str(),
            "message": message,
        }));
        self.tell(|| RunNews::Ends(Ending::Aborted(AbortReason::Interrupt)));
    }

    /// Somebody stopped the run.
    pub fn abort(&mut self, reason: AbortReason) {
        self.show_rest();
        self.seq += 1;
        let text = self.whole_text();
        self.show(&text);
        let message = (!text.is_empty()).then(|| self.message(&text));
        self.chat_end(json!({
            "runId": *self.run.id,
            "sessionKey": self.run.written_key,
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "aborted",
            "stopReason": reason.as_str(),
            "message": message,
        }));
        self.seq -= 1;
        let data = json!({"phase": "end", "status": "cancelled", "aborted": true,
            "stopReason": reason.as_str(), "startedAt": self.started_at,
            "endedAt": self.clock.now_ms()});
        self.agent("lifecycle", data);
        self.tell(|| RunNews::Ends(Ending::Aborted(reason)));
    }

    /// Sends what the pace has held back.
    fn flush(&mut self) {
        if self.earlier.len() + self.said().len() > self.sent {
            self.delta();
        }
    }

    fn delta(&mut self) {
        let text = self.whole_text();
        let begins = self.sent == 0;
        self.sent = text.len();
        self.last_delta = Some(Instant::now());
        let shown = self.show(&text);
        if self.run.terms.is_heartbeat || !self.bus.wants(EventKind::Chat, &Audience::Everyone) {
            return;
        }
        let payload = json!({
            "runId": *self.run.id,
            "sessionKey": self.run.key.as_str(),
            "spawnedBy": self.run.spawned_by,
            "seq": self.seq,
            "state": "delta",
            "message": self.message(&text),
        });
        let mark = ChatMark { run_id: Arc::clone(&self.run.id), text: Some(shown), begins };
        let payload = without_nulls(payload);
        let event = Event::new(EventKind::Chat, &payload).about(self.run.key.clone()).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    /// Notes what clients are shown of the run, for those who come late.
    fn show(&self, text: &str) -> Arc<str> {
        let shown = Arc::<str>::from(text);
        self.run.note(|progress| progress.text = Arc::clone(&shown));
        shown
    }

    fn chat_end(&self, payload: Value) {
        self.run.set_over();
        // Of a heartbeat only an answer is told that says something.
        let is_heartbeat = self.run.terms.is_heartbeat;
        if is_heartbeat && (payload["state"] != "final" || self.says_nothing()) {
            return;
        }
        let payload = without_nulls(payload);
        let mark = ChatMark { run_id: Arc::clone(&self.run.id), text: None, begins: false };
        let event = Event::new(EventKind::Chat, &payload).about(self.run.key.clone()).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    fn message(&self, text: &str) -> Value {
        json!({"role": "assistant", "content": [{"type": "text", "text": text}],
            "timestamp": self.clock.now_ms()})
    }

    fn agent(&mut self, stream: &str, data: Value) {
        self.seq += 1;
        if !self.run.terms.is_heartbeat {
            self.publish(&self.told(stream, data, self.seq));
        }
    }

    fn publish(&self, told: &Told<'_, impl Serialize>) {
        self.bus.publish(EventKind::Agent, &Audience::Everyone, told);
    }

    /// Whether anybody gets what the run says.
    fn is_watched(&self) -> bool {
        !self.run.terms.is_heartbeat && self.bus.wants(EventKind::Agent, &Audience::Everyone)
    }

    fn told<'a, D>(&'a self, stream: &'a str, data: D, seq: u64) -> Told<'a, D> {
        Told {
            run_id: &self.run.id,
            stream,
            data,
            session_key: self.run.key.as_str(),
            seq,
            ts: self.clock.now_ms(),
            spawned_by: self.run.spawned_by.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;
