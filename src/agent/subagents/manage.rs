//! What a session, or its user, may ask of its sub-agents.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::run::AbortReason;
use crate::agent::runs::Runs;
use crate::auth::Principal;
use crate::sessions::{HistoryOptions, SessionError, SessionKey};
use crate::store::{StoreError, SubagentQuery, SubagentRow, SubagentState};

use super::Outcome;
use super::stop::may_stop;

/// How far back an overview goes when nobody says; as in the original.
pub const RECENT_MINUTES: u64 = 30;
/// Sub-agents that are over, in an overview.
const RECENT_MAX: usize = 20;
const MINUTE_MS: u64 = 60_000;

/// Why no sub-agent is meant.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is none.
    #[error("no sub-agent \"{0}\" in this session")]
    Unknown(String),
    /// There are several.
    #[error("\"{0}\" means several sub-agents; use the run id")]
    Ambiguous(String),
    /// They could not be read.
    #[error("sub-agents not readable: {0}")]
    Store(#[from] StoreError),
}

/// Why a sub-agent is not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Another session has begun it, or another client.
    #[error("Subagents can only control runs spawned from their own session.")]
    NotYours,
    /// It could not be read.
    #[error("sub-agents not readable: {0}")]
    Store(#[from] StoreError),
}

impl Runs {
    /// The sub-agents that a session has begun, the newest first: of each the
    /// run that was asked for last.
    pub async fn subagents_of(&self, parent: &SessionKey) -> Result<Vec<SubagentRow>, StoreError> {
        let query = SubagentQuery::OfParent(parent.to_string());
        let mut found: Vec<SubagentRow> = Vec::new();
        for row in self.parts.store.subagents(query).await?.into_iter().rev() {
            if !found.iter().any(|newer| newer.child_key == row.child_key) {
                found.push(row);
            }
        }
        Ok(found)
    }

    /// The sub-agent of a session that is meant: by its place in the list (`1`,
    /// `#1`), `last`, its label, its session, or the beginning of its run id.
    ///
    /// # Errors
    /// [`TargetError`].
    pub async fn find_subagent(
        &self,
        parent: &SessionKey,
        target: &str,
    ) -> Result<SubagentRow, TargetError> {
        let rows = self.subagents_of(parent).await?;
        let target = target.trim();
        let unknown = || TargetError::Unknown(target.to_owned());
        if target == "last" {
            return rows.into_iter().next().ok_or_else(unknown);
        }
        let place: Option<usize> = target.strip_prefix('#').unwrap_or(target).parse().ok();
        if let Some(row) = place.and_then(|place| rows.get(place.checked_sub(1)?)) {
            return Ok(row.clone());
        }
        let exactly = |row: &&SubagentRow| {
            row.run_id == target || row.child_key == target || row.label.as_deref() == Some(target)
        };
        let begins = |row: &&SubagentRow| !target.is_empty() && row.run_id.starts_with(target);
        let mut found: Vec<_> = rows.iter().filter(exactly).collect();
        if found.is_empty() {
            found = rows.iter().filter(begins).collect();
        }
        match found.as_slice() {
            [] => Err(unknown()),
            [row] => Ok((*row).clone()),
            _ => Err(TargetError::Ambiguous(target.to_owned())),
        }
    }

    /// Stops sub-agents of a session with all below them: one, or all without a
    /// target; with a principal, those that it may stop. Answers those that were
    /// not over.
    ///
    /// # Errors
    /// [`TargetError`].
    pub async fn kill_subagents(
        self: &Arc<Self>,
        parent: &SessionKey,
        target: Option<&str>,
        principal: Option<&Principal>,
    ) -> Result<Vec<SubagentRow>, TargetError> {
        let mut rows = match target {
            Some(target) => vec![self.find_subagent(parent, target).await?],
            None => self.subagents_of(parent).await?,
        };
        rows.retain(|row| principal.is_none_or(|principal| may_stop(principal, row)));
        let mut killed = Vec::new();
        for row in rows {
            if self.stop_subagent(&row.run_id, AbortReason::Rpc).await {
                killed.push(row);
            }
        }
        Ok(killed)
    }

    /// Stops what a sub-agent does, with all below it: the one that has this
    /// session. `by` are a session that wants it and a client that speaks for it;
    /// without them nobody else needs to agree. Answers whether there was something
    /// to stop.
    ///
    /// # Errors
    /// [`StopError`].
    pub async fn stop_session_of_subagent(
        self: &Arc<Self>,
        child: &SessionKey,
        by: Option<(&SessionKey, &Principal)>,
    ) -> Result<bool, StopError> {
        let rows = self.parts.store.subagents(SubagentQuery::OfChild(child.to_string())).await?;
        let Some(row) = rows.into_iter().next_back() else { return Ok(false) };
        if let Some((requester, principal)) = by
            && !(row.parent_key == requester.as_str() && may_stop(principal, &row))
        {
            return Err(StopError::NotYours);
        }
        Ok(self.stop_subagent(&row.run_id, AbortReason::Rpc).await)
    }

    /// The last messages of a sub-agent, as lines of role and text.
    ///
    /// # Errors
    /// When its transcript cannot be read.
    pub async fn subagent_log(
        &self,
        row: &SubagentRow,
        limit: usize,
        has_tools: bool,
    ) -> Result<String, SessionError> {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let options = HistoryOptions { limit, max_chars: 2000, ..HistoryOptions::default() };
        let page = self.parts.sessions.history(&child, options).await?;
        let mut log = String::new();
        for message in &page.messages {
            let role = message["role"].as_str().unwrap_or_default();
            if role == "toolResult" && !has_tools {
                continue;
            }
            let text = words(message, has_tools);
            if !text.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(log, "{role}: {text}");
            }
        }
        Ok(log)
    }
}

/// The text of a shown message, with the names of tools that it calls.
fn words(message: &Value, has_tools: bool) -> String {
    if let Some(text) = message["content"].as_str() {
        return text.trim().to_owned();
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        Some("toolCall") if has_tools => {
            Some(format!("[calls {}]", block["name"].as_str().unwrap_or_default()))
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Sub-agents of a session in an overview, with their places in the list.
#[derive(Debug, Default)]
pub struct Overview<'a> {
    /// Those that wait or run.
    pub active: Vec<(usize, &'a SubagentRow)>,
    /// Those that were over not long ago.
    pub recent: Vec<(usize, &'a SubagentRow)>,
    minutes: u64,
    now_ms: u64,
}

impl<'a> Overview<'a> {
    /// An overview that goes back so many minutes.
    pub fn new(rows: &'a [SubagentRow], minutes: u64, now_ms: u64) -> Self {
        let since = now_ms.saturating_sub(minutes.saturating_mul(MINUTE_MS));
        let mut overview = Self { minutes, now_ms, ..Self::default() };
        for (index, row) in rows.iter().enumerate() {
            if row.state.is_open() {
                overview.active.push((index + 1, row));
            } else if row.ended_at.is_some_and(|at| at >= since)
                && overview.recent.len() < RECENT_MAX
            {
                overview.recent.push((index + 1, row));
            }
        }
        overview
    }

    /// As text, in the form of the original.
    pub fn text(&self) -> String {
        let lines = |rows: &[(usize, &SubagentRow)]| {
            let lines = rows.iter().map(|(place, row)| line(*place, row, self.now_ms));
            let lines = lines.collect::<Vec<_>>().join("\n");
            if lines.is_empty() { "(none)".to_owned() } else { lines }
        };
        format!(
            "active subagents:\n-----\n{}\n\nrecent subagents (last {}m):\n-----\n{}",
            lines(&self.active),
            self.minutes,
            lines(&self.recent)
        )
    }
}

/// A line on a sub-agent, for lists.
fn line(place: usize, row: &SubagentRow, now_ms: u64) -> String {
    let name: String = row.label.as_deref().unwrap_or(&row.task).chars().take(60).collect();
    let seconds = row.ended_at.unwrap_or(now_ms).saturating_sub(row.created_at) / 1000;
    format!("{place}. {name} ({}, {seconds}s, run {})", status(row), row.run_id)
}

/// How far a sub-agent is, in a word: `waiting`, `running`, or how it ended.
pub fn status(row: &SubagentRow) -> String {
    match row.state {
        SubagentState::Waiting => "waiting".into(),
        SubagentState::Active => "running".into(),
        SubagentState::Stopped => "killed".into(),
        SubagentState::Ended | SubagentState::Announced => {
            match Outcome::from_json(row.outcome.as_deref()).status.as_str() {
                "ok" => "done".into(),
                status => status.to_owned(),
            }
        }
    }
}
