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

/// What follows a text that the gateway has cut.
const CUT: &str = "\n...(truncated)...";
/// What stands for a message that is too large for it.
const OMITTED: &str = "[chat.history omitted: message too large]";
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
        self.entries.retain(|entry| {
            let goes = surplus > 0 && entry.is_only_here();
            surplus -= usize::from(goes);
            !goes
        });
        if count > MAX_NOTICES
            && let Some(live) = &mut self.live
        {
            // Places have changed.
            live.end_turn();
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
        self.entries.retain(|entry| entry.id != id);
        if let Some(live) = &mut self.live {
            live.end_turn();
        }
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
        self.keep_whole(&mut page.entries);
        let active = page.active.filter(|active| !self.ended.contains(&active.run_id));
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

    /// An answer that the history cuts or leaves out stays as it was seen.
    fn keep_whole(&self, entries: &mut [Entry]) {
        for entry in entries {
            let Body::Answer(text) = &entry.body else { continue };
            let begin = text.strip_suffix(CUT);
            if begin.is_none() && text != OMITTED {
                continue;
            }
            let before = self.entries.iter().find(|known| known.id == entry.id);
            let here = || self.entries.iter().rev().find(|known| known.is_said_live());
            let seen = before.or_else(here).map(|known| &known.body);
            let Some(Body::Answer(seen)) = seen else { continue };
            if begin.is_none_or(|begin| seen.starts_with(begin)) {
                entry.body = Body::Answer(seen.clone());
            }
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

#[cfg(test)]
mod tests;
