//! What the last process left behind.
//!
//! A message is accepted by one commit that holds the message itself. So a
//! crash at any later point loses nothing: what did not reach the transcript
//! is put there at the next start.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::protocol::message::{AgentMessage, StopReason, UserMessage};
use crate::sessions::{
    HistoryOptions, SessionError, SessionKey, SessionQuery, SessionRow, StoredMedia, StoredMessage,
};
use crate::store::{RunRecord, RunState, SessionEntry, StoreError, SubagentQuery};

use super::parts::RunsParts;
use super::run::ActiveRun;
use super::runs::SendError;
use super::subagents::{ID_PREFIX, hears_of_another};

/// A message as the run record keeps it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Packed {
    id: String,
    message: UserMessage,
}

/// The message of a run, for its record.
pub fn pack(run: &ActiveRun) -> Option<String> {
    let packed = Packed { id: run.message_id.clone(), message: run.message.clone() };
    serde_json::to_string(&packed).ok()
}

/// Puts the message of a run whose turn has come into the transcript of its
/// session, which begins anew if it is stale.
pub async fn open_turn(parts: &RunsParts, run: &ActiveRun) -> Result<StoredMessage, SessionError> {
    parts.renew_if_stale(run).await?;
    append_user_message(parts, run).await
}

/// Puts the message of a run into its transcript.
pub async fn append_user_message(
    parts: &RunsParts,
    run: &ActiveRun,
) -> Result<StoredMessage, SessionError> {
    let message = AgentMessage::User(run.message.clone());
    let stored = parts.append_once(&run.key, message, &run.message_id, &run.id).await?;
    run.set_stored();
    Ok(stored)
}

/// Notes that the message of a run needs no place in its record any more. Until then
/// a crash makes the next start look for it in the transcript, and it does not look
/// back for ever.
pub async fn settle(parts: &RunsParts, run: &ActiveRun) {
    if run.is_stored() {
        note(run, parts.store.message_stored(run.family.as_str(), &run.id).await);
    }
}

/// The same for messages that another run has taken in. One whose own turn is still
/// to come keeps its text: sent twice, it is one.
pub async fn settle_taken(parts: &RunsParts, taken: &[Arc<ActiveRun>]) {
    let settled = taken.iter().filter(|run| run.is_stored()).map(|run| async move {
        if run.has_steered() {
            return settle(parts, run).await;
        }
        note(run, parts.store.message_taken(run.family.as_str(), &run.id).await);
    });
    join_all(settled).await;
}

fn note(run: &ActiveRun, noted: Result<(), StoreError>) {
    if let Err(error) = noted {
        tracing::error!(run = %run.id, %error, "record of the run not updated");
    }
}

/// Completes transcripts and sessions, then marks unfinished runs as
/// interrupted: killed in between, the next start does it again. A message
/// whose transcript cannot be written now keeps its place in the run records,
/// and the next start tries again. Answers how many runs were interrupted.
pub async fn recover(parts: &RunsParts) -> Result<usize, SendError> {
    let now_ms = parts.clock.now_ms();
    untell(parts).await?;
    let mut is_whole = true;
    for record in parts.store.unsettled_runs().await? {
        if let Err(error) = complete(parts, &record, now_ms).await {
            is_whole = false;
            tracing::error!(run = %record.run_id, session = %record.session_key, %error,
                "message not in its transcript; the next start tries again");
        }
    }
    Box::pin(end_rows(parts, now_ms)).await?;
    Box::pin(end_unborn(parts, now_ms)).await?;
    let interrupted = parts.store.interrupt_unfinished(now_ms).await?;
    parts.store.let_go_of_node_actions().await?;
    parts.recall_notices().await?;
    Box::pin(parts.tell_cut_commands()).await?;
    let media = parts.sessions.media();
    // What the last process staged may belong to a message that is not complete yet.
    let staged = if is_whole { media.sweep() } else { Ok(0) };
    match staged.and_then(|removed| Ok(removed + media.uploads().sweep()?)) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed files of messages that were not accepted"),
        Err(error) => tracing::warn!(%error, "files of messages that were not accepted stay"),
    }
    parts.tally.count_lost(interrupted);
    Ok(interrupted)
}

/// Takes back that results of sub-agents were told which nobody has answered: whoever waits
/// for the answer asks no second time. So they are told again.
async fn untell(parts: &RunsParts) -> Result<(), StoreError> {
    let mut answered = Vec::new();
    for record in parts.store.unsettled_runs().await? {
        // With its message it has not begun.
        if record.message.is_none()
            && hears_of_another(&record.run_id)
            && is_answered(parts, &record).await
        {
            answered.push(record.run_id);
        }
    }
    parts.store.untell_subagents(ID_PREFIX, answered).await
}

/// Whether a run that was cut off had said already what it had to say.
async fn is_answered(parts: &RunsParts, record: &RunRecord) -> bool {
    let key = SessionKey::from_canonical(record.session_key.as_str());
    let options = HistoryOptions { limit: 1, is_raw: true, ..HistoryOptions::default() };
    let page = parts.sessions.history(&key, options).await;
    let last = page.ok().and_then(|mut page| page.messages.pop());
    last.is_some_and(|last| {
        last["role"] == "assistant" && last["stopReason"] != StopReason::ToolUse.as_str()
    })
}

async fn complete(parts: &RunsParts, record: &RunRecord, now_ms: u64) -> Result<(), SessionError> {
    let key = SessionKey::from_canonical(&record.session_key);
    // A session whose message has no place yet does not run either.
    let placed = place_message(parts, record, &key).await;
    let is_active = record.state == RunState::Active;
    if is_active || record.state == RunState::Interrupted {
        // One that an earlier start has found says nothing of the runs that came since.
        let end = move |entry: &mut SessionEntry| {
            if is_active || entry.status.as_deref() == Some("running") {
                cut_off(entry, now_ms);
            }
        };
        match parts.sessions.update(&key, end).await {
            // Somebody has deleted it meanwhile.
            Err(SessionError::NotFound(_)) => {}
            updated => drop(updated?),
        }
    }
    if is_active {
        tracing::warn!(run = %record.run_id, session = %key, "run was interrupted by the last stop");
    }
    placed
}

async fn place_message(
    parts: &RunsParts,
    record: &RunRecord,
    key: &SessionKey,
) -> Result<(), SessionError> {
    let packed = record.message.as_deref().and_then(|text| serde_json::from_str(text).ok());
    if let Some(Packed { id, message }) = packed {
        let files = StoredMedia::of(&message.extra);
        parts.sessions.media().place(files.iter().filter_map(StoredMedia::name).collect()).await?;
        parts.append_once(key, AgentMessage::User(message), &id, &record.run_id).await?;
        parts.store.message_stored(&record.scope, &record.run_id).await?;
    }
    Ok(())
}

/// Writes into the sessions in which lists show jobs how the runs have ended that go on
/// there: the process that ran them did not come to that.
async fn end_rows(parts: &RunsParts, now_ms: u64) -> Result<(), SessionError> {
    let sessions = &parts.sessions;
    let of_jobs = SessionQuery {
        search: Some(":cron:".into()),
        hides_job_runs: true,
        ..SessionQuery::default()
    };
    for SessionRow { key, entry, .. } in sessions.list(of_jobs).await?.entries {
        let row = SessionKey::from_canonical(key);
        if !row.is_job() || entry.status.as_deref() != Some("running") {
            continue;
        }
        let own = sessions.entry(&row.run_of_row(&entry.session_id)).await?;
        let mut own = own.filter(|own| own.session_id == entry.session_id).unwrap_or(entry);
        // Without a status it had not begun.
        if matches!(own.status.as_deref(), None | Some("running")) {
            cut_off(&mut own, now_ms);
        }
        match sessions.follow_to_end(&row, own).await {
            // Somebody has deleted it meanwhile.
            Err(SessionError::NotFound(_)) => {}
            shown => drop(shown?),
        }
    }
    Ok(())
}

/// Ends the sessions of sub-agents that nobody will begin: the last process did not come to
/// write down their runs.
async fn end_unborn(parts: &RunsParts, now_ms: u64) -> Result<(), SessionError> {
    let spawned = SessionQuery { search: Some(":subagent:".into()), ..SessionQuery::default() };
    for SessionRow { key, entry, .. } in parts.sessions.list(spawned).await?.entries {
        let child = SessionKey::from_canonical(key);
        if !child.is_spawned() || entry.status.as_deref() != Some("running") {
            continue;
        }
        let runs = SubagentQuery::OfChild(child.to_string());
        if parts.store.subagents(runs).await?.is_empty() {
            match parts.sessions.update(&child, move |entry| cut_off(entry, now_ms)).await {
                // Somebody has deleted it meanwhile.
                Err(SessionError::NotFound(_)) => {}
                ended => drop(ended?),
            }
        }
    }
    Ok(())
}

fn cut_off(entry: &mut SessionEntry, now_ms: u64) {
    entry.status = Some("failed".into());
    entry.ended_at = Some(now_ms);
    entry.aborted_last_run = Some(true);
}
