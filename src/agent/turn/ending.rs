//! How a run ends: what is written down, and what is told.

use crate::protocol::message::{AgentMessage, AssistantMessage, Usage};
use crate::sessions::HEARTBEAT_KIND;
use crate::store::SessionEntry;
use crate::support::json;

use super::Turn;
use crate::agent::parts::RunsParts;
use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::agent::spent::pay;

impl Turn<'_> {
    /// The answer and the row are on disk before anybody hears that it is final.
    pub(super) async fn finish(mut self, message: &AssistantMessage) -> RunEnd {
        let mut wire = message.clone();
        let is_quiet = self.emitter.ends_quietly(message.stop_reason.ended_by_itself());
        if is_quiet {
            wire.extra.insert("provenance".into(), json!({"kind": HEARTBEAT_KIND}));
        }
        let wire = AgentMessage::Assistant(wire);
        let mut stored = match self.parts.append_step(self.run, wire, self.answer_id.clone()).await
        {
            Ok(stored) => stored,
            Err(error) => {
                return self.fail(format!("transcript not writable: {error}"), "unknown").await;
            }
        };
        let usage = message.usage.clone();
        let (provider, model) = (message.provider.clone(), message.model.clone());
        let is_bare = self.run.terms.is_bare();
        self.is_quiet = is_quiet;
        // As in the original, events tell the tokens of the last answer from the next run on.
        let (input_tokens, output_tokens) =
            (stored.session.input_tokens, stored.session.output_tokens);
        let row = self
            .close(&RunEnd::Answered, "done", move |entry| {
                // Who answered, which may be a fallback.
                (entry.model_provider, entry.model) = (Some(provider), Some(model));
                take_call(entry, &usage, is_bare);
                take_last(entry, &usage);
            })
            .await
            .map(|row| SessionEntry { input_tokens, output_tokens, ..row });
        self.emitter.finish(&self.spent(), message.stop_reason);
        self.tell(row.as_ref(), "end");
        if let Some(row) = row {
            stored.session = row;
        }
        self.parts.announce(&self.run.key, &stored);
        RunEnd::Answered
    }

    /// Ends with calls that whoever asked has to do. They are on disk, and counted.
    pub(super) async fn hand_over(mut self, message: &AssistantMessage) -> RunEnd {
        let (provider, model) = (message.provider.clone(), message.model.clone());
        let usage = message.usage.clone();
        let change = move |entry: &mut SessionEntry| {
            (entry.model_provider, entry.model) = (Some(provider), Some(model));
            take_last(entry, &usage);
        };
        let row = self.close(&RunEnd::Answered, "done", change).await;
        self.emitter.finish(&self.spent(), message.stop_reason);
        self.tell(row.as_ref(), "end");
        RunEnd::Answered
    }

    pub(super) async fn fail(mut self, message: String, kind: &str) -> RunEnd {
        let end = RunEnd::Failed(message.clone());
        let row = self.close(&end, "failed", |_| {}).await;
        self.emitter.fail(&message, kind);
        self.tell(row.as_ref(), "error");
        end
    }

    pub(super) async fn abort(mut self, reason: AbortReason) -> RunEnd {
        let status = if reason == AbortReason::Timeout { "timeout" } else { "killed" };
        let end = RunEnd::Aborted(reason);
        let row = self.close(&end, status, |entry| entry.aborted_last_run = Some(true)).await;
        match reason {
            AbortReason::Interrupt => self.emitter.interrupt(),
            _ => self.emitter.abort(reason),
        }
        self.tell(row.as_ref(), "end");
        if let Some(mut kept) = self.kept.take() {
            if let Some(row) = row {
                kept.session = row;
            }
            self.parts.announce(&self.run.key, &kept);
        }
        end
    }

    /// Writes into the session's row and the run's record that it has ended,
    /// so that nobody who hears of the end finds them behind.
    async fn close(
        &self,
        end: &RunEnd,
        status: &'static str,
        change: impl FnOnce(&mut SessionEntry) + Send + 'static,
    ) -> Option<SessionEntry> {
        let (started_at, ended_at) = (self.emitter.started_at(), self.parts.clock.now_ms());
        let (models, key) = (self.parts.models.clone(), self.run.key.clone());
        let is_quiet = self.is_quiet;
        let update = self.update(move |entry| {
            let model = models.of_session(&key, Some(entry));
            entry.status = Some(status.into());
            entry.ended_at = Some(ended_at);
            entry.runtime_ms = Some(ended_at.saturating_sub(started_at));
            if !is_quiet {
                entry.updated_at = ended_at;
            }
            entry.context_tokens = model.context_window();
            entry.model_provider = Some(model.name.provider);
            entry.model = Some(model.name.model);
            change(entry);
        });
        // Asked for together, they are one commit.
        tokio::join!(update, self.parts.record_end(self.run, end)).0
    }

    /// Changes the session's row.
    pub(super) async fn update(
        &self,
        change: impl FnOnce(&mut SessionEntry) + Send + 'static,
    ) -> Option<SessionEntry> {
        update(self.parts, self.run, change).await
    }

    pub(super) fn tell(&self, row: Option<&SessionEntry>, phase: &str) {
        if let Some(row) = row {
            self.parts.events.phase(&self.run.key, row, phase, &self.run.id);
        }
    }
}

/// Closes the session's row after a run that broke before it could. `None`
/// when the row needs nothing, or cannot be written.
pub async fn close_broken(parts: &RunsParts, run: &ActiveRun) -> Option<SessionEntry> {
    let entry = parts.sessions.entry(&run.key).await.ok().flatten();
    entry.filter(|entry| entry.status.as_deref() == Some("running"))?;
    let ended_at = parts.clock.now_ms();
    let close = move |entry: &mut SessionEntry| {
        entry.status = Some("failed".into());
        entry.ended_at = Some(ended_at);
        entry.runtime_ms = entry.started_at.map(|began| ended_at.saturating_sub(began));
        entry.updated_at = ended_at;
    };
    update(parts, run, close).await
}

/// Changes the session's row. The index can be rebuilt, so a failure here does
/// not end the run.
async fn update(
    parts: &RunsParts,
    run: &ActiveRun,
    change: impl FnOnce(&mut SessionEntry) + Send + 'static,
) -> Option<SessionEntry> {
    let updated = parts.sessions.update(&run.key, change).await;
    updated
        .inspect_err(|error| {
            tracing::error!(session = %run.key, %error, "session not updated");
        })
        .ok()
}

/// Takes any model call into the session's row. A bare one does not tell how long the
/// conversation is, and makes it longer.
pub(super) fn take_call(entry: &mut SessionEntry, usage: &Usage, is_bare: bool) {
    let input = usage.input + usage.cache_read + usage.cache_write;
    if is_bare {
        entry.total_tokens = entry.total_tokens.map(|before| before + input + usage.output);
    } else {
        entry.total_tokens = Some(input);
        entry.total_tokens_fresh = Some(true);
    }
    pay(entry, usage);
}

/// What the row says of the last model call alone.
fn take_last(entry: &mut SessionEntry, usage: &Usage) {
    entry.input_tokens = Some(usage.input);
    entry.output_tokens = Some(usage.output);
    entry.cache_read = Some(usage.cache_read);
    entry.cache_write = Some(usage.cache_write);
}
