//! The methods of `sessions.*` that change something.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::chat;
use super::sessions::{told, unavailable};
use super::stopping;
use crate::agent::{AbortReason, Change, Deletion, Family, Hold, HoldError, RunEnd};
use crate::protocol::ErrorShape;
use crate::protocol::methods::chat::ChatSendParams;
use crate::protocol::methods::sessions::{
    SessionsAbortParams, SessionsDeleteParams, SessionsResetParams, SessionsSendParams,
};
use crate::registry::{Ctx, Reply};
use crate::sessions::{Remains, SessionEntry, SessionKey, WEBCHAT};
use crate::support::json;

/// `sessions.send`: `chat.send` for a session that exists.
pub async fn send(cx: Ctx, p: SessionsSendParams) -> Reply<Value> {
    let key = cx.enter_session(&p.key).await;
    say(cx, key, p, Saying::Send).await
}

/// `sessions.steer`: stops what runs in the session, whoever began it, then
/// sends. A message that is not taken stops nothing.
pub async fn steer(cx: Ctx, p: SessionsSendParams) -> Reply<Value> {
    let key = cx.enter_session(&p.key).await;
    say(cx, key, p, Saying::Steer).await
}

async fn existing(cx: &Ctx, key: &SessionKey, written: &str) -> Reply<SessionEntry> {
    let entry = cx.services.sessions.entry(key).await.map_err(unavailable)?;
    entry.ok_or_else(|| ErrorShape::not_found(format!("session not found: {written}")))
}

/// How something is said in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saying {
    /// Like any message.
    Send,
    /// In the place of what runs there.
    Steer,
}

/// Says something in a session that exists and whose lane the request is in.
pub(super) async fn say(
    cx: Ctx,
    key: SessionKey,
    p: SessionsSendParams,
    saying: Saying,
) -> Reply<Value> {
    let mut entry = existing(&cx, &key, &p.key).await?;
    let run_id = p.idempotency_key.unwrap_or_else(|| cx.services.ids.uuid());
    let request = ChatSendParams {
        session_key: key.to_string(),
        message: p.message,
        thinking: p.thinking,
        attachments: p.attachments,
        timeout_ms: p.timeout_ms,
        deliver: false,
        route: None,
        provenance: None,
        provenance_receipt: None,
        idempotency_key: run_id.clone(),
    };
    let message = chat::check(&cx, key.clone(), request, None).await?;
    let runs = &cx.services.runs;
    let mut interrupted = false;
    // One that was taken before is told what became of it, and stops nothing.
    let is_taken = runs.is_taken(Family::Chat, &run_id).await;
    let is_taken = is_taken.map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
    if saying == Saying::Steer && !is_taken {
        let stopped = runs.make_room(&key, AbortReason::Rpc).await;
        interrupted =
            stopped.map_err(|_| ErrorShape::unavailable("failed to interrupt active session"))?;
        entry = existing(&cx, &key, &p.key).await?;
    }
    let is_stale = cx.services.sessions.is_stale(&key, &entry, cx.now_ms(), Some(WEBCHAT));
    let begins_anew = is_stale.await.map_err(unavailable)? && runs.active(&key).is_none();
    // Its run says what is wrong with a transcript that cannot be read.
    let count = cx.services.sessions.message_count(&key, &entry).await.unwrap_or_default();
    let next = if begins_anew { 1 } else { count + 1 };
    let mut answer = chat::deliver(&cx, message).await?;
    if let Value::Object(members) = &mut answer {
        if members.get("status").is_some_and(|status| status == "started") {
            members.insert("messageSeq".into(), json!(next));
        }
        // The recorded order: the change, then the message. A repeated message
        // is told of as well.
        let reason = match saying {
            Saying::Send => "send",
            Saying::Steer => "steer",
        };
        cx.first_after_answer(change(&cx, key, Some(entry), reason));
        if interrupted {
            members.insert("interruptedActiveRun".into(), json!(true));
        }
    }
    Ok(answer)
}

/// `sessions.abort`: stops what the caller may stop in a session, or one run.
pub async fn abort(cx: Ctx, p: SessionsAbortParams) -> Reply<Value> {
    let runs = &cx.services.runs;
    let key = match (&p.key, &p.run_id) {
        (Some(written), _) => Some(cx.session_key(written)),
        (None, Some(run_id)) => runs.session_of(run_id),
        (None, None) => return Err(ErrorShape::invalid("key required")),
    };
    let mut aborted = None;
    if let Some(key) = key {
        let stopped = stopping::stop(&cx, &key, p.run_id.as_deref(), AbortReason::Rpc).await?;
        aborted = stopped.into_iter().next();
        if aborted.is_some() {
            let entry = cx.services.sessions.entry(&key).await.map_err(unavailable)?;
            cx.after_answer(change(&cx, key, entry, "abort"));
        }
    }
    let status = if aborted.is_some() { "aborted" } else { "no-active-run" };
    Ok(json!({"ok": true, "abortedRunId": aborted, "status": status}))
}

/// `sessions.reset`: a new, empty transcript under the same key. Its commands
/// end.
pub async fn reset(cx: Ctx, p: SessionsResetParams) -> Reply<Value> {
    let key = cx.enter_session(&p.key).await;
    let held = clear(&cx, &key, &p.key).await?;
    let parts = cx.services.runs.parts();
    parts.remember_session(&key).await;
    let workspace = parts.agent_of(&key).workspace;
    let entry = cx.services.sessions.reset(&key, &workspace).await.map_err(unavailable)?;
    parts.processes.end_of_session(&key);
    held.end(RunEnd::Answered).await;
    let mut answer = json!({"ok": true, "key": key.as_str(), "entry": entry});
    // Which model will answer, though none has yet.
    let model = cx.services.models.of_session(&key, Some(&entry)).name;
    answer["entry"]["modelProvider"] = json!(model.provider);
    answer["entry"]["model"] = json!(model.model);
    cx.after_answer(change(&cx, key, Some(entry), p.reason.as_deref().unwrap_or("reset")));
    Ok(told(&cx, answer))
}

/// `sessions.delete`: forgets a session and puts its transcript away. Its
/// commands end, and nobody is told the system events that wait there.
pub async fn delete(cx: Ctx, p: SessionsDeleteParams) -> Reply<Value> {
    refuse_webchat(&cx, "delete")?;
    let key = cx.enter_session(&p.key).await;
    let keys = &cx.services.keys.now();
    let main = SessionKey::main(&keys.default_agent, keys);
    if key == main {
        return Err(ErrorShape::invalid(format!("Cannot delete the main session ({main}).")));
    }
    let held = clear(&cx, &key, &p.key).await?;
    let remains = if p.delete_transcript { Remains::PutAway } else { Remains::Kept };
    let deleted = cx.services.sessions.delete(&key, remains).await.map_err(unavailable)?;
    let session_id = deleted.as_ref().map(|deleted| deleted.entry.session_id.clone());
    let archived = match deleted {
        Some(deleted) => deleted.archived,
        // A kill may have come between its end and this, or the disk did not let it be done.
        None if p.delete_transcript => rest_of(&cx, &key).await?,
        None => Vec::new(),
    };
    let is_deleted = session_id.is_some();
    let answer =
        json!({"ok": true, "key": key.as_str(), "deleted": is_deleted, "archived": archived});
    if let Some(session_id) = session_id {
        cx.services.runs.parts().session_deleted(&key);
        cx.after_answer(Deletion { runs: Arc::clone(&cx.services.runs), key, session_id });
    }
    held.end(RunEnd::Answered).await;
    Ok(told(&cx, answer))
}

/// Puts away what is left of a session that was deleted before.
async fn rest_of(cx: &Ctx, key: &SessionKey) -> Reply<Vec<PathBuf>> {
    cx.services.sessions.put_away_rest(Some(key)).await.map_err(unavailable)
}

/// Takes a session that is to be another one: what runs there is stopped, and nothing begins
/// before what is answered ends.
pub(super) async fn clear(cx: &Ctx, key: &SessionKey, written: &str) -> Reply<Hold> {
    let owner = cx.caller.principal.owner().clone();
    let held = cx.services.runs.hold_cleared(key, written, owner).await;
    held.map_err(|error| {
        ErrorShape::unavailable(match error {
            HoldError::Active => {
                format!("Session {written} is still active; try again in a moment.")
            }
            HoldError::Stopping => error.to_string(),
        })
    })
}

/// Chats of the web are no place to manage sessions from.
pub(super) fn refuse_webchat(cx: &Ctx, action: &str) -> Reply<()> {
    if cx.caller.is_webchat {
        return Err(ErrorShape::invalid(format!(
            "webchat clients cannot {action} sessions; use chat.send for session-scoped updates"
        )));
    }
    Ok(())
}

/// What is told of a session once the caller has its answer.
pub(super) fn change(
    cx: &Ctx,
    key: SessionKey,
    entry: Option<SessionEntry>,
    reason: &str,
) -> Change {
    Change { runs: Arc::clone(&cx.services.runs), key, entry, reason: reason.into() }
}
