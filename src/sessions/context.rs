//! What the model gets to read of a transcript.
//!
//! Promises: the path from the root to the last entry, beginning at the latest
//! summary; nothing before it is read that is not kept.

use std::fs::File;
use std::io;

use super::transcript::bare_id;
use super::transcript::{Backward, Body, Entry, Forward, Kept, Line, Parent, Position};
use super::{reading, time};
use crate::protocol::message::AgentMessage;

/// Notes that OpenClaw adds to one turn; later turns must not see them again.
const RUNTIME_CONTEXT: &str = "openclaw.runtime-context";

/// A message for the model, and the transcript entry that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextEntry {
    /// Id of the entry.
    pub id: String,
    /// What the model reads.
    pub message: AgentMessage,
    /// The bare summary, when the entry is one of what came before.
    pub summary: Option<String>,
}

/// Reads the context before `end`.
pub(super) fn read(file: &File, end: &Position) -> io::Result<Vec<ContextEntry>> {
    let mut walk = Walk::new(file, true, end);
    walk.run(end)?;
    if matches!(walk.wanted, Wanted::Entry(_)) {
        // A parent is missing. Its children are worth more than its order, so
        // every line counts as following the one before it.
        walk = Walk::new(file, false, end);
        walk.run(end)?;
    }
    Ok(walk.finish())
}

/// Which entry the path goes on with, seen from its end.
enum Wanted {
    /// Whatever comes before.
    Any,
    /// The entry with this id.
    Entry(String),
    /// None: the root was reached.
    Nothing,
}

/// A walk up the tree.
struct Walk<'f> {
    file: &'f File,
    follows_parents: bool,
    wanted: Wanted,
    /// Number of the next message to be met, which is the id of a bare one.
    seq: u64,
    /// The latest summary.
    summary: Option<ContextEntry>,
    /// Entry from which on messages before the summary are kept.
    keep_from: Option<String>,
    /// Messages from the end: those behind the summary, and those before it.
    after: Vec<ContextEntry>,
    before: Vec<ContextEntry>,
}

impl<'f> Walk<'f> {
    fn new(file: &'f File, follows_parents: bool, end: &Position) -> Self {
        Self {
            file,
            follows_parents,
            wanted: Wanted::Any,
            seq: end.messages,
            summary: None,
            keep_from: None,
            after: Vec::new(),
            before: Vec::new(),
        }
    }

    fn run(&mut self, end: &Position) -> io::Result<()> {
        let mut lines = Backward::new(self.file, end.bytes);
        while !matches!(self.wanted, Wanted::Nothing) {
            let Some(line) = lines.next()? else { break };
            if let Some(Line::Entry(entry)) = Line::parse(line) {
                let is_counted = entry.body.is_counted();
                if self.is_wanted(&entry) {
                    self.take(entry)?;
                }
                self.seq = self.seq.saturating_sub(u64::from(is_counted));
            }
        }
        Ok(())
    }

    fn is_wanted(&self, entry: &Entry<'_>) -> bool {
        match &self.wanted {
            Wanted::Any => true,
            Wanted::Entry(id) => entry.id.as_ref() == Some(id),
            Wanted::Nothing => false,
        }
    }

    fn take(&mut self, entry: Entry<'_>) -> io::Result<()> {
        let Entry { id, parent, timestamp, body } = entry;
        // What has neither an id nor a number of its own goes by that of the message before.
        let is_named = id.is_some() || body.is_counted();
        let id = id.unwrap_or_else(|| bare_id(self.seq));
        let timestamp = timestamp.as_deref();
        self.wanted = match parent {
            Parent::Id(id) if self.follows_parents => Wanted::Entry(id),
            Parent::None if self.follows_parents => Wanted::Nothing,
            _ => Wanted::Any,
        };
        if self.summary.is_some() {
            let is_first_kept = is_named && self.keep_from.as_ref() == Some(&id);
            self.before.extend(said(id, &body, timestamp));
            if is_first_kept {
                self.keep_from = None;
                self.wanted = Wanted::Nothing;
            }
        } else if let Body::Compaction { summary, first_kept, .. } = body {
            // A summary that keeps nothing names itself, or nothing.
            let first_kept = match first_kept {
                Some(Kept::Id(id)) => Some(id),
                Some(Kept::Line(number)) => id_at(self.file, number)?,
                None => None,
            };
            match first_kept {
                Some(first) if first != id => self.keep_from = Some(first),
                _ => self.wanted = Wanted::Nothing,
            }
            let message = reading::compacted(&summary, time(timestamp));
            self.summary = Some(ContextEntry { id, message, summary: Some(summary) });
        } else {
            self.after.extend(said(id, &body, timestamp));
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<ContextEntry> {
        if self.keep_from.is_some() {
            // The entry to keep from is not on the path: all was summed up.
            self.before.clear();
        }
        let before = self.before.into_iter().rev();
        self.summary.into_iter().chain(before).chain(self.after.into_iter().rev()).collect()
    }
}

/// What the entry in a line is called, or the next one that has a name. Lines that cannot
/// be read are not counted.
fn id_at(file: &File, number: u64) -> io::Result<Option<String>> {
    let mut lines = Forward::new(file, 0, u64::MAX)?;
    let (mut at, mut seq) = (0_u64, 0_u64);
    while let Some(line) = lines.next()? {
        let Some(line) = Line::parse(line) else { continue };
        if let Line::Entry(entry) = line {
            let is_counted = entry.body.is_counted();
            seq = seq.saturating_add(u64::from(is_counted));
            if at >= number && (is_counted || entry.id.is_some()) {
                return Ok(Some(entry.id.unwrap_or_else(|| bare_id(seq))));
            }
        }
        at = at.saturating_add(1);
    }
    Ok(None)
}

fn said(id: String, body: &Body<'_>, timestamp: Option<&str>) -> Option<ContextEntry> {
    let message = message(body, timestamp)?;
    Some(ContextEntry { id, message, summary: None })
}

/// What an entry says to the model.
fn message(body: &Body<'_>, timestamp: Option<&str>) -> Option<AgentMessage> {
    match body {
        Body::Message(text) => reading::message(text),
        // Only the latest summary counts, and `take` has it.
        Body::Compaction { .. } | Body::Other => None,
        Body::BranchSummary { summary } => reading::branched(summary, time(timestamp)),
        Body::CustomMessage { custom_type, .. } if custom_type == RUNTIME_CONTEXT => None,
        Body::CustomMessage { content, .. } => {
            let content = serde_json::from_value(reading::value(content)?).ok()?;
            Some(reading::user(content, time(timestamp)))
        }
    }
}

fn time(iso: Option<&str>) -> u64 {
    iso.map(time::millis).unwrap_or_default()
}

#[cfg(test)]
mod any_cut;
#[cfg(test)]
mod tests;
