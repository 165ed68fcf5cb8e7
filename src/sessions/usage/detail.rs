//! One session in detail: its answers over time, its newest messages.

use std::fs::File;
use std::io;

use serde::Serialize;

use super::super::transcript::{Backward, Forward, own_begin};
use super::super::{directives, reading};
use super::range::QUARTER_MS;
use super::scan::{self, Role};
use super::service::Prices;
use super::tally::{number, priced};
use crate::protocol::message::{AgentMessage, ContentBlock, Usage};
use crate::store::Spending;
use crate::support::sort;

/// Points that a chart needs.
const POINTS_MAX: usize = 200;

/// A transcript up to this size is read for its points, answer by answer; of a
/// longer one the quarter hours have to do.
pub(super) const EXACT_MAX: u64 = 32 * 1024 * 1024;

/// Longest text of a log line, in characters.
const TEXT_MAX: usize = 2000;

/// Most that is read of a transcript for its log.
const READ_MAX: u64 = 256 * 1024 * 1024;

/// What an answer used, and all up to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimePoint {
    timestamp: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
    #[serde(serialize_with = "number")]
    cost: f64,
    cumulative_tokens: u64,
    #[serde(serialize_with = "number")]
    cumulative_cost: f64,
}

/// A message and what it used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogEntry {
    timestamp: u64,
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_number")]
    cost: Option<f64>,
}

#[allow(clippy::ref_option)] // the form that serde asks for
fn maybe_number<S: serde::Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    number(&value.unwrap_or_default(), serializer)
}

/// The answers in a transcript, with their times; not those that were copied from
/// another one.
pub(super) fn answers(file: &File, prices: &Prices) -> io::Result<Vec<(u64, Usage)>> {
    let mut lines = Forward::new(file, own_begin(file)?, u64::MAX)?;
    let mut found = Vec::new();
    while let Some(line) = lines.next()? {
        let Some((noted, _)) = scan::message(line) else { continue };
        let Some((usage, has_cost)) = noted.usage else { continue };
        let (provider, model) = (noted.provider, noted.model);
        let row = Spending { quarter: 0, provider, model, has_cost, count: 1, usage };
        found.push((noted.at, priced(&row, prices).0));
    }
    sort::by_key(&mut found, |(at, _)| *at);
    Ok(found)
}

/// The same by quarter hours, each at its end.
pub(super) fn quarters(spending: &[Spending], prices: &Prices) -> Vec<(u64, Usage)> {
    let at = |row: &Spending| row.quarter.saturating_add(1).saturating_mul(QUARTER_MS);
    spending.iter().map(|row| (at(row), priced(row, prices).0)).collect()
}

/// At most 200 points; where there are more answers, neighbours share one.
pub(super) fn points(answers: &[(u64, Usage)]) -> Vec<TimePoint> {
    let share = answers.len().div_ceil(POINTS_MAX).max(1);
    let (mut tokens, mut dollars) = (0_u64, 0.0);
    let mut points = Vec::with_capacity(answers.len().min(POINTS_MAX));
    for neighbours in answers.chunks(share) {
        let sum = |part: fn(&Usage) -> u64| {
            neighbours.iter().fold(0_u64, |sum, (_, usage)| sum.saturating_add(part(usage)))
        };
        let total_tokens = sum(|usage| usage.total_tokens);
        let cost: f64 = neighbours.iter().map(|(_, usage)| usage.cost.total).sum();
        tokens = tokens.saturating_add(total_tokens);
        dollars += cost;
        points.push(TimePoint {
            timestamp: neighbours.last().map(|(at, _)| *at).unwrap_or_default(),
            input: sum(|usage| usage.input),
            output: sum(|usage| usage.output),
            cache_read: sum(|usage| usage.cache_read),
            cache_write: sum(|usage| usage.cache_write),
            total_tokens,
            cost,
            cumulative_tokens: tokens,
            cumulative_cost: dollars,
        });
    }
    points
}

/// The newest messages with text, in order.
pub(super) fn logs(file: &File, limit: usize, prices: &Prices) -> io::Result<Vec<LogEntry>> {
    let mut lines = Backward::new(file, file.metadata()?.len());
    let mut found = Vec::new();
    while found.len() < limit && lines.consumed() <= READ_MAX {
        let Some(line) = lines.next()? else { break };
        found.extend(log(line, prices));
    }
    found.reverse();
    Ok(found)
}

fn log(line: &[u8], prices: &Prices) -> Option<LogEntry> {
    let (noted, text) = scan::message(line)?;
    let message = reading::message(text)?;
    let content = text_of(&message);
    let content = match &message {
        AgentMessage::User(_) => directives::strip_sent_at(&content).trim(),
        _ => content.trim(),
    };
    if content.is_empty() {
        return None;
    }
    let used = noted.usage.filter(|_| noted.role == Role::Assistant).map(|(usage, has_cost)| {
        let (provider, model) = (noted.provider, noted.model);
        let row = Spending { quarter: 0, provider, model, has_cost, count: 1, usage };
        let (usage, _) = priced(&row, prices);
        (usage.total_tokens, usage.cost.total)
    });
    let mut cut: String = content.chars().take(TEXT_MAX).collect();
    if cut.len() < content.len() {
        cut.push('…');
    }
    Some(LogEntry {
        timestamp: noted.at,
        role: match noted.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "toolResult",
        },
        content: cut,
        tokens: used.map(|(tokens, _)| tokens),
        cost: used.map(|(_, cost)| cost),
    })
}

/// The text of a message; tools by their names.
fn text_of(message: &AgentMessage) -> String {
    let mut parts: Vec<String> = Vec::new();
    match message {
        AgentMessage::User(message) => parts.push(message.content.text()),
        AgentMessage::ToolResult(result) => {
            parts.push(format!("[Tool: {}]", result.tool_name));
            parts.push("[Tool Result]".into());
            parts.push(message.text());
        }
        AgentMessage::Assistant(message) => {
            for block in &message.content {
                match block {
                    ContentBlock::Text(block) => parts.push(block.text.clone()),
                    ContentBlock::ToolCall(call) => parts.push(format!("[Tool: {}]", call.name)),
                    _ => {}
                }
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_shows_what_the_history_shows() {
        let prices: Prices = std::sync::Arc::new(|_, _, _| None);
        for (message, text) in [
            (r#"{"role":"user","content":"half \ud83d","timestamp":1}"#, "half \u{fffd}"),
            (r#"{"role":"assistant","content":"plain","timestamp":1}"#, "plain"),
        ] {
            let line = log(message.as_bytes(), &prices).unwrap();
            assert_eq!(line.content, text);
        }
    }

    #[test]
    fn many_answers_share_two_hundred_points_and_none_is_lost() {
        let answer = |at: u64| (at, Usage { input: 1, total_tokens: 2, ..Usage::default() });
        let answers: Vec<_> = (1..=1001).map(answer).collect();
        let points = points(&answers);
        assert!(points.len() <= POINTS_MAX, "{}", points.len());
        assert_eq!(points.iter().map(|point| point.input).sum::<u64>(), 1001);
        let last = points.last().unwrap();
        assert_eq!((last.timestamp, last.cumulative_tokens), (1001, 2002));
    }
}
