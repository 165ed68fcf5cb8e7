//! What the last process left behind.
//!
//! A message is accepted by one commit that holds the message itself. So a
//! crash at any later point loses nothing: what did not reach the transcript
//! is put there at the next start.

use serde::{Deserialize, Serialize};

use crate::protocol::message::{AgentMessage, UserMessage};
use crate::sessions::{SessionError, SessionKey, StoredMessage};

use super::parts::RunsParts;
use super::run::ActiveRun;
use super::runs::SendError;

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

/// Puts the message of a run into its transcript.
pub async fn append_user_message(
    parts: &RunsParts,
    run: &ActiveRun,
) -> Result<StoredMessage, SessionError> {
    let message = AgentMessage::User(run.message.clone());
    parts.append_once(&run.key, message, &run.message_id, &run.id).await
}

/// Marks unfinished runs as interrupted and completes their transcripts;
/// answers how many there were.
pub async fn recover(parts: &RunsParts) -> Result<usize, SendError> {
    let now_ms = parts.clock.now_ms();
    let interrupted = parts.store.interrupt_unfinished(now_ms).await?;
    for record in &interrupted {
        let key = SessionKey::from_canonical(&record.session_key);
        let packed = record.message.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if let Some(Packed { id, message }) = packed {
            parts.append_once(&key, AgentMessage::User(message), &id, &record.run_id).await?;
        }
        parts
            .sessions
            .update(&key, move |entry| {
                entry.status = Some("failed".into());
                entry.ended_at = Some(now_ms);
                entry.aborted_last_run = Some(true);
            })
            .await?;
        tracing::warn!(run = %record.run_id, session = %key, "run was interrupted by the last stop");
    }
    parts.tally.count_lost(interrupted.len());
    Ok(interrupted.len())
}
