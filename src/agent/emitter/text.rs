//! What the model says: pieces for those who follow the run, snapshots for chats.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::Emitter;
use crate::agent::feed::RunNews;
use crate::agent::named_files;
use crate::bus::{Audience, ChatMark, Event, EventKind};
use crate::sessions::directives;
use crate::sessions::visible::Visible;
use crate::support::{json, without_nulls};

/// Time between two chat deltas of a run.
pub(super) const DELTA_EVERY: Duration = Duration::from_millis(150);
/// When the pace has used up its allowance, a piece is told when it is this part of the
/// text: all such events together are some nine times the text, which fits into an outbox,
const TOLD_PART: usize = 8;
/// or when the last one was told so long ago.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// What is new of a turn's text, and all of it: the event that there are most of.
#[derive(Serialize)]
struct Piece<'a> {
    text: &'a str,
    delta: &'a str,
}

impl Emitter {
    /// The model said more.
    pub fn text(&mut self, delta: &str) {
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
    pub(super) fn show_rest(&mut self) {
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
        self.visible = Visible::new();
        self.shown = 0;
        // What is said in its place is told though it is shorter.
        self.sent = self.sent.min(self.earlier.len());
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
    pub(super) fn settle(&mut self, is_whole: bool) {
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
        let begins = self.earlier.len();
        self.run.note(|progress| progress.turns.push(begins));
        self.forget_turn();
    }

    /// All text of the run so far.
    pub fn whole_text(&self) -> String {
        format!("{}{}", self.earlier, self.said())
    }

    /// Sends what the pace has held back.
    pub(super) fn flush(&mut self) {
        if self.earlier.len() + self.said().len() > self.sent {
            self.delta();
        }
    }

    fn delta(&mut self) {
        let text = self.whole_text();
        let begins = self.last_delta.is_none();
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
        let event = Event::new(EventKind::Chat, &payload).about(Arc::clone(&self.key)).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    /// Notes what clients are shown of the run, for those who come late.
    pub(super) fn show(&self, text: &str) -> Arc<str> {
        let shown = Arc::<str>::from(text);
        self.run.note(|progress| progress.text = Arc::clone(&shown));
        shown
    }
}
