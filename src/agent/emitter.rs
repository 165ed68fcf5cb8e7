//! The events of one run.
//!
//! Owns: the run's `seq`, its text so far, the pace of chat deltas. Promises:
//! deltas are cumulative and at most one per 150 ms (but for the one before a
//! tool or the end), nothing comes after the end, the end comes once.

mod ends;
mod pace;
mod quiet;
mod text;
mod tools;

pub use tools::Card;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::bus::{Audience, Bus, Event, EventKind};
use crate::providers::FallbackNotice;
use crate::sessions::SessionKey;
use crate::sessions::visible::Visible;
use crate::support::{Clock, json};

use super::fallback;
use super::feed::{Feed, RunNews};
use super::run::ActiveRun;
use pace::Allowance;

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

/// Sends the events of one run.
pub struct Emitter {
    run: Arc<ActiveRun>,
    /// The run's session, for many events to share.
    key: Arc<SessionKey>,
    bus: Bus,
    feed: Feed,
    clock: Arc<dyn Clock>,
    seq: u64,
    started_at: u64,
    /// What earlier model turns of this run said.
    earlier: String,
    /// What people see of what the current model turn has said.
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
    /// An emitter for a run that begins now, or whose end another one has not told.
    pub fn new(run: Arc<ActiveRun>, bus: Bus, feed: Feed, clock: Arc<dyn Clock>) -> Self {
        Self {
            started_at: clock.now_ms(),
            seq: run.last_seq.load(Ordering::Relaxed),
            key: Arc::new(run.key.clone()),
            run,
            bus,
            feed,
            clock,
            earlier: String::new(),
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
        if self.bus.wants(EventKind::Agent, &Audience::Everyone) {
            let event = Event::new(EventKind::Agent, told).about(Arc::clone(&self.key));
            self.bus.deliver(event, &Audience::Everyone);
        }
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

// Whoever tells of the run after this one, as where its turn has panicked, goes on.
impl Drop for Emitter {
    fn drop(&mut self) {
        self.run.last_seq.store(self.seq, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
