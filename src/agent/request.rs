//! What somebody wants to be answered.

use std::time::Duration;

use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::providers::ThinkingLevel;
use crate::sessions::{SessionKey, StagedMedia};

use super::report::Family;
use super::terms::RunTerms;

/// A message that wants an answer.
#[derive(Debug)]
pub struct SendRequest {
    /// By which method it comes.
    pub family: Family,
    /// Its session.
    pub key: SessionKey,
    /// The session as the client wrote it.
    pub written_key: String,
    /// Also the run's id.
    pub idempotency_key: String,
    /// What the user says.
    pub message: UserMessage,
    /// The files that it names.
    pub media: Option<StagedMedia>,
    /// How hard to think.
    pub thinking: Option<ThinkingLevel>,
    /// Who says it.
    pub owner: Owner,
    /// The same text again, while it is being answered, is not run again.
    pub dedupe_text: Option<String>,
    /// Its run is stopped after so long.
    pub limit: Option<Duration>,
    /// What the run may do, and who sees it.
    pub terms: RunTerms,
}
