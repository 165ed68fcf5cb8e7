//! What was said in the session, as it is shown.
//!
//! Owns: the entries, those of the session's history (`message`) and those that are only here:
//! what is being said now (`live`), what was just typed, notices. Promises: whatever is in the
//! history is shown once, also when it was seen live before. Must not: draw, or ask the gateway.

mod entry;
mod live;
mod message;

use std::collections::VecDeque;

pub use entry::{Body, Entry, Level, Tool, ToolState};
pub use live::{Live, Phase};
pub use message::{Page, Usage, text_of};

use message::Active;

use super::text::clean;
use crate::sessions::{OVERSIZED, TRUNCATED};

/// Notices beyond this are old.
const MAX_NOTICES: usize = 100;
/// Runs whose end is remembered: an answer that was under way may still call them active.
const MAX_ENDED: usize = 64;

/// A session on the screen.
#[derive(Debug, Default)]
pub struct Transcript {
    entries: Vec<Entry>,
    live: Option<Live>,
    ended: VecDeque<String>,
    /// Tokens and cost of the last run.
    usage: Usage,
    /// Names entries that are only here.
    counter: u64,
}

impl Transcript {
    /// All entries, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The run that is under way.
    pub const fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// Whether this run has told its end.
    pub fn has_ended(&self, run_id: &str) -> bool {
        self.ended.iter().any(|ended| ended == run_id)
    }

    /// Tokens and cost of the last run.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    fn id(&mut self, kind: &str) -> String {
        self.counter += 1;
        format!("{kind}:{}", self.counter)
    }

    fn push(&mut self, id: String, body: Body) -> usize {
        self.entries.push(Entry { id, rev: 0, body });
        self.entries.len() - 1
    }

    fn change(&mut self, at: usize, body: Body) {
        if let Some(entry) = self.entries.get_mut(at)
            && entry.body != body
        {
            entry.body = body;
            entry.rev += 1;
        }
    }

    /// Begins with another session.
    pub fn clear(&mut self) {
        let counter = self.counter;
        *self = Self { counter, ..Self::default() };
    }

    /// Something that is not a part of the conversation.
    pub fn notice(&mut self, level: Level, text: &str) {
        let id = self.id("n");
        self.push(id, Body::Notice { level, text: clean(text) });
        self.limit_notices();
    }

    /// The answer to a question that is not a part of the conversation.
    pub fn aside(&mut self, text: &str) {
        let id = self.id("n");
        self.push(id, Body::Aside(clean(text)));
        self.limit_notices();
    }

    fn limit_notices(&mut self) {
        let count = self.entries.iter().filter(|entry| entry.is_only_here()).count();
        let mut surplus = count.saturating_sub(MAX_NOTICES);
        self.retain(|entry| {
            let goes = surplus > 0 && entry.is_only_here();
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// Takes the others away. What is being said at the moment goes on where it is.
    fn retain(&mut self, stays: impl FnMut(&Entry) -> bool) {
        let places = self.live.as_ref().map(|live| [live.text_at, live.thought_at]);
        let ids = places.unwrap_or_default().map(|at| Some(self.entries.get(at?)?.id.clone()));
        self.entries.retain(stays);
        let [text_at, thought_at] =
            ids.map(|id| self.entries.iter().position(|entry| Some(&entry.id) == id.as_ref()));
        if let Some(live) = &mut self.live {
            (live.text_at, live.thought_at) = (text_at, thought_at);
        }
    }

    /// What was just typed; `key` names its run.
    pub fn echo(&mut self, key: &str, text: &str) {
        let is_command = text.starts_with('/');
        self.push(
            format!("e:{key}"),
            Body::User { text: clean(text), is_waiting: true, is_command },
        );
    }

    /// The gateway has it.
    pub fn taken(&mut self, key: &str) {
        let id = format!("e:{key}");
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id)
            && let Body::User { is_waiting, .. } = &mut entry.body
        {
            *is_waiting = false;
            entry.rev += 1;
        }
    }

    /// The gateway refused it.
    pub fn refused(&mut self, key: &str) {
        let id = format!("e:{key}");
        self.retain(|entry| entry.id != id);
    }

    /// Somebody said something in the session, maybe here.
    pub fn user_said(&mut self, text: &str) {
        let text = clean(text);
        let is_known = self.entries.iter().rev().take_while(|entry| !entry.is_of_history()).any(|entry| {
            matches!(&entry.body, Body::User { text: known, .. } if known.trim() == text.trim())
        });
        if is_known {
            return;
        }
        if let Some(live) = &mut self.live {
            live.end_turn();
        }
        let id = self.id("u");
        self.push(id, Body::User { text, is_waiting: false, is_command: false });
    }

    /// Puts the history in the place of what is shown. What `covers` names, and is no
    /// command, is a part of it by now.
    pub fn load(&mut self, mut page: Page, covers: &[String]) {
        let active = page.active.filter(|active| !self.has_ended(&active.run_id));
        self.keep_whole(&mut page.entries, active.is_some());
        let (said, is_same) = self.said_now(active.as_ref());
        let kept = self.kept(covers);
        self.usage = page.usage;
        self.entries = page.entries;
        for (after, entry) in kept {
            let place = match &after {
                None => Some(self.entries.len()),
                Some(after) if after.is_empty() => Some(0),
                Some(after) => {
                    self.entries.iter().rposition(|entry| entry.id == *after).map(|at| at + 1)
                }
            };
            // Behind what was put there before.
            let Some(mut place) = place else { continue };
            while self.entries.get(place).is_some_and(Entry::is_only_here) {
                place += 1;
            }
            self.entries.insert(place, entry);
        }
        let Some(active) = active else {
            self.live = None;
            return;
        };
        let live = match self.live.take().filter(|_| is_same) {
            Some(mut live) => {
                live.end_turn();
                live
            }
            None => Live::new(&active.run_id, active.started_at),
        };
        self.live = Some(live);
        let rest = active.rest();
        let text = match said {
            Some(said) if said.starts_with(&rest) && !active.is_stored(&said) => said,
            _ => rest,
        };
        if !text.trim().is_empty() {
            self.say(&text);
        }
        let waits =
            |body: &Body| matches!(body, Body::Tool(tool) if tool.state == ToolState::Waiting);
        if self.entries.iter().any(|entry| waits(&entry.body)) {
            self.phase(Phase::Approval);
        }
    }

    /// An answer that the history cuts or leaves out stays as it was seen: from the end on,
    /// it is the last one that was said here before what follows it there.
    fn keep_whole(&self, entries: &mut [Entry], is_active: bool) {
        let is_cut = |it: &Entry| match &it.body {
            Body::Answer(text) => begin_of(text).is_some(),
            _ => false,
        };
        if !entries.iter().any(is_cut) {
            return;
        }
        // What is being said is not in the history yet.
        let saying = self.live.as_ref().and_then(|live| live.text_at).filter(|_| is_active);
        let mut end = saying.unwrap_or(self.entries.len());
        for entry in entries.iter_mut().rev() {
            let Some(at) = self.seen(entry, end) else { continue };
            end = end.min(at);
            let Body::Answer(text) = &entry.body else { continue };
            let Some(begin) = begin_of(text) else { continue };
            if let Some(seen) = self.entries.get(at).and_then(|it| whole(&it.body, begin)) {
                entry.body = Body::Answer(seen.to_owned());
            }
        }
    }

    /// Where an entry of the history was seen here, before what follows it there.
    fn seen(&self, entry: &Entry, end: usize) -> Option<usize> {
        let known = self.entries.iter().position(|it| it.id == entry.id);
        let last = |is_it: &dyn Fn(&Body) -> bool| {
            let is_new = |it: &Entry| !it.is_of_history() && is_it(&it.body);
            (known.unwrap_or(0)..end).rev().find(|at| self.entries.get(*at).is_some_and(is_new))
        };
        match &entry.body {
            // Its turn comes later, wherever it was typed.
            Body::User { is_waiting: true, .. } => None,
            Body::User { text, .. } => {
                let is_it = |body: &Body| match body {
                    Body::User { text: typed, .. } => typed.trim() == text.trim(),
                    _ => false,
                };
                // What was answered before a question that nobody saw was not seen either.
                known.or_else(|| last(&is_it)).or(Some(0))
            }
            Body::Answer(text) => {
                let begin = begin_of(text);
                let is_it = |body: &Body| match begin {
                    Some(begin) => whole(body, begin).is_some(),
                    None => *body == entry.body,
                };
                let is_kept = |at: &usize| {
                    begin.is_none() || self.entries.get(*at).is_some_and(|it| is_it(&it.body))
                };
                known.filter(is_kept).or_else(|| last(&is_it)).or(known)
            }
            _ => known,
        }
    }

    /// What the run says at the moment, and whether it is this one.
    fn said_now(&self, active: Option<&Active>) -> (Option<String>, bool) {
        let live = self.live.as_ref();
        let is_same = live.zip(active).is_some_and(|(live, active)| live.run_id == active.run_id);
        let at = live.filter(|_| is_same).and_then(|live| live.text_at);
        let said = at.and_then(|at| self.entries.get(at)).and_then(|entry| match &entry.body {
            Body::Answer(text) => Some(text.clone()),
            _ => None,
        });
        (said, is_same)
    }

    /// Entries that the history does not have, each with the one that it follows: `None`
    /// is the last one, an empty name none.
    fn kept(&mut self, covers: &[String]) -> Vec<(Option<String>, Entry)> {
        let mut after = Some(String::new());
        let mut kept = Vec::new();
        for mut entry in self.entries.drain(..) {
            if entry.is_of_history() {
                after = Some(entry.id);
                continue;
            }
            let is_covered = entry
                .id
                .strip_prefix("e:")
                .is_some_and(|key| covers.iter().any(|covered| covered == key));
            match &entry.body {
                // A command is in no history, so it stays where it was typed.
                Body::User { is_command: true, .. } if is_covered => {
                    entry.id = entry.id.replacen("e:", "c:", 1);
                    kept.push((after.clone(), entry));
                }
                Body::User { .. } if entry.id.starts_with("e:") && !is_covered => {
                    kept.push((None, entry));
                }
                _ if entry.is_only_here() => kept.push((after.clone(), entry)),
                // What is said now comes behind everything that is known.
                _ => after = None,
            }
        }
        kept
    }
}

/// The begin of an answer, if the gateway gave no more of it than that, or nothing.
fn begin_of(text: &str) -> Option<&str> {
    if text == OVERSIZED { Some("") } else { text.strip_suffix(TRUNCATED) }
}

/// The whole answer that begins like this.
fn whole<'a>(body: &'a Body, begin: &str) -> Option<&'a str> {
    match body {
        Body::Answer(text) if begin_of(text).is_none() && text.starts_with(begin) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
