//! The newest messages of a transcript, as clients see them.
//!
//! Promises: reads from the end, so the length of a transcript does not matter.

use std::fs::File;
use std::io;

use serde_json::{Value, json};

use super::display::View;
use super::size::json_size;
use super::transcript::{Backward, Body, Entry, Line, Position, bare_id};
use super::{display, reading, time};
use crate::store::SessionEntry;

/// Messages when nobody says how many.
const DEFAULT_LIMIT: usize = 200;

/// Largest answer in bytes of JSON; the oldest messages go first.
const PAGE_MAX: usize = 6 * 1024 * 1024;

/// Most that is read of a file for one answer. Only transcripts full of images
/// come near it.
const READ_MAX: u64 = 256 * 1024 * 1024;

const FAILED_BEFORE_TEXT: &str = "[assistant turn failed before producing content]";

/// What a client wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryOptions {
    /// At most so many messages.
    pub limit: usize,
    /// Characters of a text that are shown.
    pub max_chars: usize,
    /// As they are stored, not in their display form.
    pub is_raw: bool,
    /// With the ids of the runs that they began, as `__openclaw.runId`.
    pub has_run_ids: bool,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            max_chars: display::DEFAULT_MAX_CHARS,
            is_raw: false,
            has_run_ids: false,
        }
    }
}

/// The newest messages of a session, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryPage {
    /// `None` when there is no such session.
    pub session_id: Option<String>,
    /// In display form.
    pub messages: Vec<Value>,
    /// What the index knows of the session.
    pub entry: Option<SessionEntry>,
}

/// Between which messages of a transcript some are wanted. The first one is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Between {
    /// Behind this one; 0 for all of them.
    pub after: u64,
    /// Before this one; the end where there is none.
    pub before: Option<u64>,
}

/// Messages of a transcript, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TranscriptPart {
    /// The id that the transcript has.
    pub session_id: String,
    /// The newest of those that were wanted, in display form.
    pub messages: Vec<Value>,
    /// Whether older ones are left out.
    pub has_more: bool,
    /// How many messages the transcript has, also of those that are not shown.
    pub count: u64,
}

/// Reads the messages before `end`.
pub(super) fn newest(
    file: &File,
    end: &Position,
    options: HistoryOptions,
) -> io::Result<Vec<Value>> {
    Ok(part(file, end, options, Between::default())?.messages)
}

/// Reads the newest of some messages.
pub(super) fn part(
    file: &File,
    end: &Position,
    options: HistoryOptions,
    between: Between,
) -> io::Result<TranscriptPart> {
    let mut lines = Backward::new(file, end.bytes);
    let mut seq = end.messages;
    let mut size = 0_usize;
    let (mut messages, mut has_more) = (Vec::new(), false);
    while between.after == 0 || seq > between.after {
        if lines.consumed() > READ_MAX {
            has_more = true;
            break;
        }
        let Some(line) = lines.next()? else { break };
        let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
        if !entry.body.is_counted() {
            continue;
        }
        let is_wanted = between.before.is_none_or(|before| seq < before);
        if let Some(message) = if is_wanted { show(entry, seq, options) } else { None } {
            size = size.saturating_add(json_size(&message)).saturating_add(1);
            if messages.len() >= options.limit || size > PAGE_MAX {
                has_more = true;
                break;
            }
            messages.push(message);
        }
        seq = seq.saturating_sub(1);
    }
    messages.reverse();
    Ok(TranscriptPart { session_id: String::new(), messages, has_more, count: end.messages })
}

fn show(entry: Entry<'_>, seq: u64, options: HistoryOptions) -> Option<Value> {
    let id = entry.id.unwrap_or_else(|| bare_id(seq));
    match entry.body {
        Body::Message(text) => {
            let message = reading::value(text)?;
            if options.is_raw {
                return display::raw(message, &id, seq, PAGE_MAX / 2);
            }
            let view = View { has_run_id: options.has_run_ids, ..View::list(options.max_chars) };
            display::show(message, &id, seq, &view).map(told_as_failed)
        }
        Body::Compaction { .. } => {
            let timestamp = entry.timestamp.as_deref().map(time::millis).unwrap_or_default();
            Some(display::compaction(&id, seq, timestamp))
        }
        _ => None,
    }
}

/// An answer that failed before it said anything says so in place of a text.
fn told_as_failed(mut message: Value) -> Value {
    let is_empty = message["content"].as_array().is_some_and(Vec::is_empty);
    if is_empty && message["role"] == "assistant" && message["stopReason"] == "error" {
        message["content"] = json!([{"type": "text", "text": FAILED_BEFORE_TEXT}]);
    }
    message
}
