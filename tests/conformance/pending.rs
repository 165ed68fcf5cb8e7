//! What the recording had received by now and the replay has not.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::differences;
use super::ids::Learned;
use super::pairing::{Label, run_of};
use super::prelude::is_answer;
use super::replay::{Conn, log_of, received};
use super::setup::is_not_sent;
use super::trace::{Line, Trace, What};
use crate::support::Received;

/// Added to the time that the recording itself took; a machine that does other things as
/// well needs more of it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Events that no later request depends on.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);

/// Counts per connection and label, less what was given up.
#[derive(Default)]
pub struct Pending {
    /// Frames that did not come in time are not waited for again.
    given_up: HashMap<(String, Label), usize>,
}

impl Pending {
    /// Waits until each connection has received as many frames of each label
    /// as the recording had after `before`.
    pub async fn wait(
        &mut self,
        trace: &Trace,
        before: &[Line],
        conns: &HashMap<String, Conn>,
        learned: &Learned,
        deadline: Instant,
    ) {
        let wanted = counts(trace, before, |label| {
            (!label.is_periodic() || label.is_presence()) && !label.is_text()
        });
        let arrived: HashMap<&str, Vec<Label>> =
            conns.iter().map(|(name, conn)| (name.as_str(), labels(conn))).collect();
        // What may be missing comes last: by then the rest has come.
        let (optional, needed): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|((name, label), _)| differences::may_be_missing(&trace.name, name, label));
        let optional_from = needed.len();
        // All are waited for at once: what does not come costs its time once.
        let now = Instant::now();
        for (index, ((name, label), (count, took))) in
            needed.into_iter().chain(optional).enumerate()
        {
            let Some(conn) = conns.get(&name) else { continue };
            if arrived[name.as_str()].iter().filter(|known| **known == label).count() >= count {
                continue;
            }
            let is_brief = label.is_follow_up() || label.is_presence() || index >= optional_from;
            let patience = if is_brief { SHORT_PATIENCE } else { PATIENCE + took };
            let until = deadline.min(now + patience);
            self.wait_label(conn, (name, label), count, until).await;
        }
        for (name, run, length, took) in open_texts(before) {
            let Some(conn) = conns.get(&name) else { continue };
            let until = deadline.min(now + PATIENCE + took);
            wait_text(conn, &learned.apply_text(&run), length, until).await;
        }
    }

    /// Waits for everything that had been received on one connection.
    pub async fn settle(
        &mut self,
        trace: &Trace,
        before: &[Line],
        name: &str,
        conns: &HashMap<String, Conn>,
        until: Instant,
    ) {
        let Some(conn) = conns.get(name) else { return };
        for ((owner, label), (count, _)) in counts(trace, before, Label::is_follow_up) {
            if owner == name {
                self.wait_label(conn, (owner, label), count, until).await;
            }
        }
    }

    async fn wait_label(
        &mut self,
        conn: &Conn,
        key: (String, Label),
        count: usize,
        until: Instant,
    ) {
        let given_up = self.given_up.get(&key).copied().unwrap_or_default();
        let wanted = count.saturating_sub(given_up);
        let mut arrived = 0;
        let limit = until.saturating_duration_since(Instant::now());
        let all_there = conn.client.wait_until(limit, |received| {
            arrived = count_of(&key.1, conn, received);
            (arrived >= wanted).then_some(())
        });
        if all_there.await.is_none() {
            self.given_up.insert(key, count.saturating_sub(arrived));
        }
    }
}

/// What the connection has received of the recording's part.
fn labels(conn: &Conn) -> Vec<Label> {
    log_of(conn).recorded_part().map(Label::of).collect()
}

/// How many frames of this label are in the recording's part of what came.
fn count_of(label: &Label, conn: &Conn, received: &[Received]) -> usize {
    let frames = received.iter().filter_map(|one| one.what.frame()).skip(conn.skipped);
    frames.filter(|frame| !is_answer(frame) && Label::of(frame) == *label).count()
}

type Counts = Vec<((String, Label), (usize, Duration))>;

/// How many frames of each label had come, and how long the last one took
/// after the last thing that was sent before it.
fn counts(trace: &Trace, before: &[Line], wanted: impl Fn(&Label) -> bool) -> Counts {
    let mut counts: Counts = Vec::new();
    let mut sent_at = 0;
    for line in before {
        if matches!(line.what, What::Sent(_) | What::Open { .. }) {
            sent_at = line.at;
        }
        let Some((label, frame)) = received(line) else { continue };
        if !wanted(&label) || trace.leaves_out(frame) || is_not_sent(&trace.name, frame) {
            continue;
        }
        let key = (line.conn.clone(), label);
        let took = Duration::from_millis(line.at - sent_at.min(line.at));
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, (count, last))) => {
                *count += 1;
                *last = took;
            }
            None => counts.push((key, (1, took))),
        }
    }
    counts
}

/// Runs that were still speaking, and how much they had said.
fn open_texts(before: &[Line]) -> Vec<(String, String, usize, Duration)> {
    let mut open: Vec<(String, String, usize, Duration)> = Vec::new();
    let mut sent_at = 0;
    for line in before {
        if matches!(line.what, What::Sent(_)) {
            sent_at = line.at;
        }
        let Some((label, frame)) = received(line) else { continue };
        let Some(run) = run_of(frame).filter(|_| label.name == "chat") else { continue };
        open.retain(|(conn, name, _, _)| *conn != line.conn || name != run);
        if label.is_text() {
            let took = Duration::from_millis(line.at - sent_at.min(line.at));
            open.push((line.conn.clone(), run.to_owned(), length(frame), took));
        }
    }
    open
}

fn length(frame: &Value) -> usize {
    frame["payload"]["message"]["content"][0]["text"].as_str().map_or(0, str::len)
}

/// Until the run has said that much, or has ended.
async fn wait_text(conn: &Conn, run: &str, wanted: usize, until: Instant) {
    let limit = until.saturating_duration_since(Instant::now());
    let has_said = |frame: &Value| {
        let is_mine = frame["event"] == "chat" && run_of(frame) == Some(run);
        is_mine && (frame["payload"]["state"] != "delta" || length(frame) >= wanted)
    };
    conn.client.wait_for(limit, has_said).await;
}
