//! Reading a transcript for its usage, from where the last reading ended. What was
//! copied from another transcript counts there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::transcript::{Body, Forward, Line, Loose, own_begin};
use super::super::{paths, time};
use super::files::TranscriptFile;
use super::range::QUARTER_MS;
use crate::protocol::message::{Cost, Usage};
use crate::store::{Activity, Spending, ToolCalls, UsageFacts, UsageFile, UsageScan};
use crate::support::hex;

/// Bytes that are read in one go; what follows is read in the next.
const SLICE: u64 = 32 * 1024 * 1024;

/// Bytes before the end of what was read by which a rewritten file is told.
const TAIL: u64 = 256;

/// An answer that came later than this is none to the message before it.
const LATENCY_MAX_MS: u64 = 12 * 60 * 60 * 1000;

/// No model call has more tokens; sums of what is written by mistake must fit.
const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Whether there may be something in the file that `known` does not have.
pub(super) fn is_stale(file: &TranscriptFile, known: Option<&UsageFile>) -> bool {
    known.is_none_or(|known| (known.length, known.modified_ms) != (file.length, file.modified_ms))
}

/// Reads the next stretch of a file.
pub(super) fn read_on(file: &TranscriptFile, known: Option<&UsageFile>) -> io::Result<UsageScan> {
    let handle = paths::open(&file.path)?;
    let length = handle.metadata()?.len();
    let goes_on = match known {
        Some(known) if known.read_to <= length => tail(&handle, known.read_to)? == known.tail,
        _ => false,
    };
    let known = known.filter(|_| goes_on);
    let from = match known {
        Some(known) => known.read_to,
        None => own_begin(&handle)?.min(length),
    };
    let mut found =
        Found { last_user_at: known.and_then(|known| known.last_user_at), ..Found::default() };
    let read_to = pass(&handle, from, length, &mut found)?;
    let is_cut = read_to.saturating_sub(from) >= SLICE && read_to < length;
    // A length that is not the file's makes sure that somebody reads on.
    let seen = if is_cut { read_to } else { length };
    Ok(UsageScan {
        file: UsageFile {
            agent: file.agent.as_str().to_owned(),
            name: file.name.clone(),
            length: seen,
            modified_ms: file.modified_ms,
            read_to,
            tail: tail(&handle, read_to)?,
            last_user_at: found.last_user_at,
        },
        starts_over: !goes_on,
        facts: found.into_facts(),
    })
}

/// Takes in whole lines; answers where the last one ends. A line that is torn
/// at the end of the file is left for the next time.
fn pass(file: &File, from: u64, length: u64, found: &mut Found) -> io::Result<u64> {
    let mut lines = Forward::new(file, from, length)?;
    let mut read_to = from;
    while read_to.saturating_sub(from) < SLICE {
        match lines.next()? {
            Some(line) if line.ends_with(b"\n") => found.note(line),
            _ => break,
        }
        read_to = lines.ends();
    }
    Ok(read_to)
}

fn tail(file: &File, end: u64) -> io::Result<String> {
    let size = end.min(TAIL);
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, end.saturating_sub(size))?;
    Ok(hex(Sha256::digest(&bytes)))
}

/// One message, as far as usage goes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Noted {
    pub role: Role,
    pub at: u64,
    pub provider: String,
    pub model: String,
    /// Tokens, and whether a price is with them; `None` when it has none.
    pub usage: Option<(Usage, bool)>,
    pub duration_ms: Option<u64>,
    pub tools: Vec<String>,
    pub results: u64,
    pub errors: u64,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    User,
    #[default]
    Assistant,
    Tool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    role: Loose<String>,
    timestamp: Loose<Value>,
    provider: Loose<String>,
    model: Loose<String>,
    usage: Loose<Value>,
    stop_reason: Loose<String>,
    duration_ms: Loose<Value>,
    is_error: Loose<bool>,
    content: Loose<Vec<Block>>,
}

/// A part of a message; what it carries besides stays unread.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Block {
    #[serde(rename = "type")]
    kind: Loose<String>,
    name: Loose<String>,
    is_error: Loose<bool>,
}

/// A line as a message, with its JSON text; `None` for every other line.
pub(super) fn message(line: &[u8]) -> Option<(Noted, &str)> {
    let Line::Entry(entry) = Line::parse(line)? else { return None };
    let Body::Message(text) = entry.body else { return None };
    let head: Head = serde_json::from_str(text).ok()?;
    let role = match head.role.0?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "toolResult" | "tool" => Role::Tool,
        _ => return None,
    };
    let own_time = head.timestamp.0.as_ref().and_then(count);
    let entry_time = entry.timestamp.as_deref().map(time::millis).filter(|at| *at > 0);
    let mut noted = Noted {
        role,
        at: entry_time.or(own_time)?,
        provider: head.provider.0.unwrap_or_default(),
        model: head.model.0.unwrap_or_default(),
        usage: head.usage.0.as_ref().and_then(usage),
        duration_ms: head.duration_ms.0.as_ref().and_then(count),
        ..Noted::default()
    };
    for block in head.content.0.unwrap_or_default() {
        match block.kind.0.unwrap_or_default().as_str() {
            "toolCall" | "tool_use" | "toolUse" | "tool_call" => {
                noted.tools.push(block.name.0.unwrap_or_else(|| "unknown".into()));
            }
            "tool_result" | "toolResult" => {
                noted.results += 1;
                noted.errors += u64::from(block.is_error.0.unwrap_or_default());
            }
            _ => {}
        }
    }
    if role == Role::Tool {
        noted.results += 1;
        noted.errors += u64::from(head.is_error.0.unwrap_or_default());
    }
    let stop = head.stop_reason.0;
    let failed = stop.is_some_and(|stop| matches!(stop.as_str(), "error" | "aborted" | "timeout"));
    noted.errors += u64::from(failed);
    Some((noted, text))
}

/// A number that is not negative, without its fraction.
fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let text = value.as_f64().filter(|number| *number >= 0.0)?.trunc().to_string();
        text.parse().ok()
    })
}

/// The usage of a message and whether it says what it cost.
fn usage(value: &Value) -> Option<(Usage, bool)> {
    let number = |names: [&str; 3]| {
        let found = names.iter().find_map(|name| count(value.get(name)?));
        found.map(|tokens| tokens.min(TOKENS_MAX))
    };
    let input = number(["input", "inputTokens", "input_tokens"]);
    let output = number(["output", "outputTokens", "output_tokens"]);
    let cache_read = number(["cacheRead", "cacheReadTokens", "cache_read_input_tokens"]);
    let cache_write = number(["cacheWrite", "cacheWriteTokens", "cache_creation_input_tokens"]);
    let total = number(["totalTokens", "total", "total_tokens"]);
    let parts = [input, output, cache_read, cache_write];
    if parts.iter().chain([&total]).all(Option::is_none) {
        return None;
    }
    let sum = parts.iter().flatten().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let dollars = |name: &str| {
        let price = value.get("cost").and_then(|cost| cost.get(name)).and_then(Value::as_f64);
        price.filter(|price| price.is_finite())
    };
    let total_cost = dollars("total").filter(|total| *total >= 0.0);
    let cost = total_cost.map(|total| Cost {
        input: dollars("input").unwrap_or_default(),
        output: dollars("output").unwrap_or_default(),
        cache_read: dollars("cacheRead").unwrap_or_default(),
        cache_write: dollars("cacheWrite").unwrap_or_default(),
        total,
        ..Cost::default()
    });
    let has_cost = cost.is_some();
    let usage = Usage {
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        cache_read: cache_read.unwrap_or_default(),
        cache_write: cache_write.unwrap_or_default(),
        total_tokens: total.unwrap_or(sum),
        cost: cost.unwrap_or_default(),
        ..Usage::default()
    };
    Some((usage, has_cost))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    last_user_at: Option<u64>,
    activity: BTreeMap<u64, Activity>,
    spending: BTreeMap<(u64, String, String, bool), Spending>,
    tools: BTreeMap<(u64, String), u64>,
}

impl Found {
    fn note(&mut self, line: &[u8]) {
        let Some((noted, _)) = message(line) else { return };
        let quarter = noted.at / QUARTER_MS;
        let row = self.activity.entry(quarter).or_insert_with(|| Activity {
            quarter,
            first_at: noted.at,
            ..Activity::default()
        });
        row.first_at = row.first_at.min(noted.at);
        row.last_at = row.last_at.max(noted.at);
        row.tool_results += noted.results;
        row.errors += noted.errors;
        row.tool_calls += u64::try_from(noted.tools.len()).unwrap_or_default();
        match noted.role {
            Role::User => {
                row.user += 1;
                self.last_user_at = Some(noted.at);
            }
            Role::Assistant => {
                row.assistant += 1;
                let waited = self.last_user_at.map(|asked| noted.at.saturating_sub(asked));
                let latency = noted.duration_ms.or(waited);
                row.latencies.extend(latency.filter(|latency| *latency <= LATENCY_MAX_MS));
            }
            Role::Tool => {}
        }
        for name in noted.tools {
            *self.tools.entry((quarter, name)).or_default() += 1;
        }
        if let Some((usage, has_cost)) = noted.usage {
            let key = (quarter, noted.provider.clone(), noted.model.clone(), has_cost);
            let row = self.spending.entry(key).or_insert_with(|| Spending {
                quarter,
                provider: noted.provider,
                model: noted.model,
                has_cost,
                ..Spending::default()
            });
            row.count += 1;
            add(&mut row.usage, &usage);
        }
    }

    fn into_facts(self) -> UsageFacts {
        let tools = self.tools.into_iter();
        UsageFacts {
            activity: self.activity.into_values().collect(),
            spending: self.spending.into_values().collect(),
            tools: tools
                .map(|((quarter, name), count)| ToolCalls { quarter, name, count })
                .collect(),
        }
    }
}

fn add(sum: &mut Usage, more: &Usage) {
    sum.input = sum.input.saturating_add(more.input);
    sum.output = sum.output.saturating_add(more.output);
    sum.cache_read = sum.cache_read.saturating_add(more.cache_read);
    sum.cache_write = sum.cache_write.saturating_add(more.cache_write);
    sum.total_tokens = sum.total_tokens.saturating_add(more.total_tokens);
    sum.cost.input += more.cost.input;
    sum.cost.output += more.cost.output;
    sum.cost.cache_read += more.cost.cache_read;
    sum.cost.cache_write += more.cost.cache_write;
    sum.cost.total += more.cost.total;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::AgentId;
    use std::fs;
    use std::path::Path;

    const QUESTION: &str = r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-11-22T03:35:28.000Z","message":{"role":"user","content":"x","timestamp":1}}"#;
    const ANSWER: &str = r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-11-22T03:35:29.500Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"read","arguments":{}}],"provider":"mock","model":"mock-1","usage":{"input":10,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":12,"cost":{"input":0.5,"output":0.25,"total":0.75}},"stopReason":"toolUse"}}"#;
    const FAILURE: &str = r#"{"role":"toolResult","toolCallId":"c","toolName":"read","content":[],"isError":true,"timestamp":1795318530000}"#;
    const UNPRICED: &str = r#"{"role":"assistant","content":"bare","provider":"mock","model":"mock-1","usage":{"input_tokens":7,"output_tokens":1},"stopReason":"error","timestamp":1795318531000}"#;

    fn look(path: &Path) -> TranscriptFile {
        let agent = AgentId::normalize("main");
        TranscriptFile::look(&agent, path).unwrap().unwrap()
    }

    #[test]
    fn messages_of_both_formats_are_understood() {
        let asked = message(QUESTION.as_bytes()).unwrap().0;
        assert_eq!((asked.role, asked.at, &asked.usage), (Role::User, 1_795_318_528_000, &None));
        let answered = message(ANSWER.as_bytes()).unwrap().0;
        assert_eq!((answered.tools, answered.errors), (vec!["read".to_owned()], 0));
        let (usage, has_cost) = answered.usage.unwrap();
        assert_eq!((usage.input, usage.total_tokens, has_cost), (10, 12, true));
        let failed = message(FAILURE.as_bytes()).unwrap().0;
        assert_eq!((failed.role, failed.results, failed.errors), (Role::Tool, 1, 1));
        let bare = message(UNPRICED.as_bytes()).unwrap().0;
        let (usage, has_cost) = bare.usage.unwrap();
        assert_eq!((usage.input, usage.output, usage.total_tokens, has_cost), (7, 1, 8, false));
        assert_eq!(bare.errors, 1);
        for none in ["", "{", r#"{"type":"session"}"#, r#"{"role":"system","timestamp":1}"#] {
            assert_eq!(message(none.as_bytes()), None, "{none}");
        }
        let absurd = QUESTION.replace("\"content\"", "\"usage\":{\"input\":1e300},\"content\"");
        assert_eq!(message(absurd.as_bytes()).unwrap().0.usage, None);
    }

    #[test]
    fn a_byte_that_is_no_text_costs_no_usage() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let line = ANSWER.replace("read", "?");
        let bytes = line.bytes().map(|byte| if byte == b'?' { 0xff } else { byte });
        fs::write(&path, bytes.chain(*b"\n").collect::<Vec<_>>()).unwrap();
        let scan = read_on(&look(&path), None).unwrap();
        assert_eq!(scan.facts.spending[0].usage.total_tokens, 12);
    }

    #[test]
    fn a_rewritten_file_is_read_from_its_beginning() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        fs::write(&path, format!("{QUESTION}\n{ANSWER}\n")).unwrap();
        let first = read_on(&look(&path), None).unwrap();
        assert!(!is_stale(&look(&path), Some(&first.file)));
        fs::write(&path, format!("{ANSWER}\n{ANSWER}\n{UNPRICED}\n")).unwrap();
        assert!(is_stale(&look(&path), Some(&first.file)));
        let second = read_on(&look(&path), Some(&first.file)).unwrap();
        assert!(second.starts_over);
        assert_eq!(second.facts.activity[0].assistant, 3);
    }

    #[test]
    fn what_was_copied_from_another_transcript_counts_there() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        let copied = format!("{QUESTION}\n{ANSWER}\n");
        let header = |copied: usize| {
            format!("{{\"type\":\"session\",\"id\":\"s\",\"copiedBytes\":{copied}}}\n")
        };
        fs::write(&path, header(copied.len()) + &copied).unwrap();
        let first = read_on(&look(&path), None).unwrap();
        assert_eq!(first.facts, UsageFacts::default());
        assert!(!is_stale(&look(&path), Some(&first.file)));
        fs::write(&path, header(copied.len()) + &copied + UNPRICED + "\n").unwrap();
        let second = read_on(&look(&path), Some(&first.file)).unwrap();
        let at_once = read_on(&look(&path), None).unwrap();
        for scan in [second, at_once] {
            let spent: Vec<_> = scan.facts.spending.iter().map(|row| row.usage.input).collect();
            assert_eq!(spent, [7]);
        }
        // Of a mark that cannot be true the rest of the file is left.
        fs::write(&path, header(1_000_000) + &copied).unwrap();
        assert_eq!(read_on(&look(&path), None).unwrap().facts, UsageFacts::default());
    }

    proptest::proptest! {
        #[test]
        fn reading_a_growing_file_finds_each_message_once(cuts in proptest::collection::vec(0_usize..2000, 0..6)) {
            let whole = [QUESTION, ANSWER, FAILURE, "{broken", UNPRICED, QUESTION, ANSWER, ""].join("\n");
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("a.jsonl");
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.extend([whole.len()]);
            cuts.sort_unstable();
            let (mut known, mut sums) = (None, [0; 6]);
            for cut in cuts {
                fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
                let scan = read_on(&look(&path), known.as_ref()).unwrap();
                proptest::prop_assert_eq!(scan.starts_over, known.is_none());
                for row in &scan.facts.activity {
                    let waits = u64::try_from(row.latencies.len()).unwrap();
                    let counts = [row.user, row.assistant, row.tool_calls, row.errors, waits];
                    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
                sums[5] += scan.facts.spending.iter().map(|row| row.usage.input).sum::<u64>();
                known = Some(scan.file);
            }
            proptest::prop_assert_eq!(sums, [2, 3, 2, 2, 3, 27]);
        }
    }
}
