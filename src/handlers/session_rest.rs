//! What the paths below `/sessions` read and stop for a caller.
//!
//! Promises: with the rights that the methods of the same purpose ask for. Must
//! not: know in which words the caller asked.

use super::chat::unreadable;
use super::sessions::unavailable;
use crate::agent::subagents::StopError;
use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::sessions::{Between, HistoryOptions, SessionKey, TranscriptPart};

/// The newest of some messages of a session, with the rights of `chat.history`;
/// `None` when there is no such session. A message that waits for its run is in no
/// transcript yet.
///
/// # Errors
/// When the caller may not read, or the transcript cannot be read.
pub async fn messages(
    cx: &Ctx,
    key: &SessionKey,
    limit: Option<usize>,
    between: Between,
) -> Reply<Option<TranscriptPart>> {
    cx.check("chat.history")?;
    let options = HistoryOptions {
        limit: limit.unwrap_or(usize::MAX),
        max_chars: cx.services.settings.now().history_max_chars,
        ..HistoryOptions::default()
    };
    cx.services.sessions.part(key, options, between).await.map_err(unreadable)
}

/// Stops what a sub-agent does; answers whether there was something to stop, and
/// `None` when there is no such session. Without a requester it is done with the
/// rights of `sessions.delete`; a session that has begun it may ask for it with those
/// of `sessions.abort`, where the caller may stop it.
///
/// # Errors
/// When the caller may not, or sessions cannot be read.
pub async fn kill(cx: &Ctx, written: &str, requester: Option<&str>) -> Reply<Option<bool>> {
    cx.check(if requester.is_some() { "sessions.abort" } else { "sessions.delete" })?;
    let key = cx.session_key(written);
    if cx.services.sessions.entry(&key).await.map_err(unavailable)?.is_none() {
        return Ok(None);
    }
    let requester = requester.map(|requester| cx.session_key(requester));
    let by = requester.as_ref().map(|requester| (requester, &*cx.caller.principal));
    let stopped = cx.services.runs.stop_session_of_subagent(&key, by).await;
    stopped.map(Some).map_err(|error| match error {
        StopError::NotYours => ErrorShape::denied(error.to_string()),
        StopError::Store(_) => ErrorShape::unavailable(format!("Error: {error}")),
    })
}
