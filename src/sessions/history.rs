//! The newest messages of a transcript, as clients see them.
//!
//! Promises: reads from the end, so the length of a transcript does not matter to
//! whoever wants its newest messages. A page before others reads all that is behind
//! it once more; whoever goes on so gets to the first message.

use std::fs::File;
use std::io;

use serde_json::Value;

use super::display::View;
use super::size::json_size;
use super::transcript::{Backward, Body, Entry, Line, Position, bare_id};
use super::{display, reading, time};
use crate::store::SessionEntry;
use crate::support::json;

/// Messages when nobody says how many.
const DEFAULT_LIMIT: usize = 200;

/// Largest answer in bytes of JSON; the oldest messages go first.
const PAGE_MAX: usize = 6 * 1024 * 1024;

/// Most that is read of a file for one answer, from the newest message on that is
/// wanted; what is passed over behind that does not count. Only transcripts full of
/// images come near it.
const READ_MAX: u64 = 256 * 1024 * 1024;

pub(super) const FAILED_BEFORE_TEXT: &str = "[assistant turn failed before producing content]";

/// What a client wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryOptions {
    /// At most so many messages.
    pub limit: usize,
    /// Characters of a text that are shown.
    pub max_chars: usize,
    /// As they are stored, not in their display form.
    pub is_raw: bool,
    /// With the ids of the runs that they began, as `__openclaw.runId`; as they are stored, as
    /// `idempotencyKey`.
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
    /// Before which one there are older ones that are left out.
    pub older: Option<u64>,
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
    bounded(file, end, options, between, READ_MAX)
}

/// The same, reading about `read_max` bytes.
fn bounded(
    file: &File,
    end: &Position,
    options: HistoryOptions,
    between: Between,
    read_max: u64,
) -> io::Result<TranscriptPart> {
    let mut lines = Backward::new(file, end.bytes);
    let mut seq = end.messages;
    let mut size = 0_usize;
    let (mut messages, mut oldest, mut is_cut) = (Vec::new(), None, false);
    // The first one that is wanted, and the bytes that led to it.
    let mut start = None;
    while between.after == 0 || seq > between.after {
        let is_wanted = between.before.is_none_or(|before| seq < before);
        if is_wanted {
            let (first, skipped) = *start.get_or_insert((seq, lines.consumed()));
            // Nobody may come to where he was: he would never get on.
            if seq < first && lines.consumed().saturating_sub(skipped) > read_max {
                is_cut = true;
                break;
            }
        }
        let Some(line) = lines.next()? else { break };
        let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
        if !entry.body.is_counted() {
            continue;
        }
        if let Some(message) = if is_wanted { show(entry, seq, options) } else { None } {
            size = size.saturating_add(json_size(&message)).saturating_add(1);
            if messages.len() >= options.limit || size > PAGE_MAX {
                is_cut = true;
                break;
            }
            messages.push(message);
            oldest = Some(seq);
        }
        seq = seq.saturating_sub(1);
    }
    messages.reverse();
    let older = is_cut.then(|| oldest.unwrap_or(seq.saturating_add(1)));
    Ok(TranscriptPart { session_id: String::new(), messages, older, count: end.messages })
}

fn show(entry: Entry<'_>, seq: u64, options: HistoryOptions) -> Option<Value> {
    let id = entry.id.unwrap_or_else(|| bare_id(seq));
    match entry.body {
        Body::Message(text) => {
            let message = reading::value(text)?;
            if options.is_raw {
                return display::raw(message, &id, seq, PAGE_MAX / 2, options.has_run_ids);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::io::Write as _;

    /// A transcript of so many messages; each third one, which is long, is hidden.
    fn transcript(count: u64) -> (File, Position) {
        let mut text = String::new();
        for seq in 1..=count {
            let (role, content) = match seq % 3 {
                0 => ("assistant", format!("NO_REPLY{}", " ".repeat(200_000))),
                _ => ("user", format!("m{seq}")),
            };
            writeln!(text, "{}", json!({"role": role, "content": content, "timestamp": 1}))
                .unwrap();
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let bytes = u64::try_from(text.len()).unwrap();
        (file, Position { bytes, messages: count, leaf: None })
    }

    #[test]
    fn page_before_page_leads_to_the_first_message_however_much_is_behind_it() {
        let (file, end) = transcript(12);
        for (limit, read_max) in [(2, u64::MAX), (2, 1000), (9, 1000), (9, 300_000), (9, u64::MAX)]
        {
            let options = HistoryOptions { limit, ..HistoryOptions::default() };
            let (mut between, mut found) = (Between::default(), Vec::<u64>::new());
            for _ in 0..12 {
                let part = bounded(&file, &end, options, between, read_max).unwrap();
                let seqs = part.messages.iter().map(|it| it["__openclaw"]["seq"].as_u64().unwrap());
                found = seqs.chain(found).collect::<Vec<_>>();
                let Some(older) = part.older else { break };
                assert!(between.before.is_none_or(|before| older < before), "{limit} {read_max}");
                between.before = Some(older);
            }
            assert_eq!(found, [1, 2, 4, 5, 7, 8, 10, 11], "{limit} {read_max}");
        }
    }
}
