//! `sessions.compact` and `sessions.compaction.*`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::session_changes::{change, clear, refuse_webchat};
use super::sessions::{told, unavailable};
use crate::agent::compaction::CompactError;
use crate::agent::{CompactionChange, HoldError, RunEnd};
use crate::protocol::ErrorShape;
use crate::protocol::methods::compaction::{SessionsCheckpointParams, SessionsCompactParams};
use crate::protocol::methods::sessions::SessionKeyParams;
use crate::registry::{Ctx, Reply};
use crate::sessions::{CutSession, SessionEntry, SessionError, SessionKey};
use crate::support::json;

/// How long a cut waits for what runs in the session: whoever asks for it has given up
/// then.
const CUT_WAIT: Duration = Duration::from_mins(1);

/// `sessions.compact`: a summary by the session's model in the place of what is
/// long ago, or only the last lines of the transcript. It takes no lane of
/// requests: who writes meanwhile waits behind it as behind a run.
pub async fn compact(cx: Ctx, p: SessionsCompactParams) -> Reply<Value> {
    refuse_webchat(&cx, "compact")?;
    let key = cx.session_key(&p.key);
    let entry = cx.services.sessions.entry(&key).await.map_err(unavailable)?;
    let answer = match (entry, p.max_lines) {
        (None, _) => not_compacted(&key, "no sessionId"),
        (_, Some(lines)) => cut(&cx, &key, usize::try_from(lines).unwrap_or(usize::MAX)).await?,
        (Some(entry), None) => sum_up(&cx, &key, &p, entry).await?,
    };
    Ok(told(&cx, answer))
}

/// Keeps the last lines, once nothing runs in the session: a run would lose its question.
async fn cut(cx: &Ctx, key: &SessionKey, lines: usize) -> Reply<Value> {
    let owner = cx.caller.principal.owner().clone();
    let waited = timeout(CUT_WAIT, cx.services.runs.hold_behind(key, owner)).await;
    let waited = waited.unwrap_or(Err(HoldError::Active));
    let hold = waited.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let cut = cx.services.sessions.cut(key, lines).await;
    hold.end(match &cut {
        Ok(_) => RunEnd::Answered,
        Err(error) => RunEnd::Failed(error.to_string()),
    })
    .await;
    match cut.map_err(unavailable)? {
        CutSession::NoTranscript => Ok(not_compacted(key, "no transcript")),
        CutSession::Short(kept) => {
            Ok(json!({"ok": true, "key": key.as_str(), "compacted": false, "kept": kept}))
        }
        CutSession::Cut { archived, entry } => {
            tell(cx, key, *entry, true);
            Ok(json!({"ok": true, "key": key.as_str(), "compacted": true, "archived": archived,
                "kept": lines}))
        }
    }
}

async fn sum_up(
    cx: &Ctx,
    key: &SessionKey,
    p: &SessionsCompactParams,
    entry: SessionEntry,
) -> Reply<Value> {
    let owner = cx.caller.principal.owner().clone();
    match cx.services.runs.compact(key, &p.key, owner, p.instructions.as_deref()).await {
        Ok(done) => {
            let result = done.to_wire();
            tell(cx, key, done.entry, true);
            Ok(json!({"ok": true, "key": key.as_str(), "compacted": true, "result": result}))
        }
        Err(CompactError::Nothing(nothing)) => {
            tell(cx, key, entry, false);
            Ok(not_compacted(key, nothing.as_str()))
        }
        Err(error) => Err(ErrorShape::unavailable(error.to_string())),
    }
}

fn not_compacted(key: &SessionKey, reason: &str) -> Value {
    json!({"ok": true, "key": key.as_str(), "compacted": false, "reason": reason})
}

fn tell(cx: &Ctx, key: &SessionKey, entry: SessionEntry, compacted: bool) {
    let (runs, key) = (Arc::clone(&cx.services.runs), key.clone());
    cx.after_answer(CompactionChange { runs, key, entry: Some(entry), compacted });
}

/// `sessions.compaction.list`: what can be gone back behind, newest first.
pub async fn list(cx: Ctx, p: SessionKeyParams) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    let checkpoints = cx.services.sessions.checkpoints(&key).await.map_err(unavailable)?;
    Ok(told(&cx, json!({"ok": true, "key": key.as_str(), "checkpoints": checkpoints})))
}

/// `sessions.compaction.get`: one of them.
pub async fn get(cx: Ctx, p: SessionsCheckpointParams) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    let checkpoints = cx.services.sessions.checkpoints(&key).await.map_err(unavailable)?;
    let found = checkpoints.into_iter().find(|it| it.checkpoint_id == p.checkpoint_id);
    let checkpoint = found.ok_or_else(|| no_checkpoint(&p.checkpoint_id))?;
    Ok(told(&cx, json!({"ok": true, "key": key.as_str(), "checkpoint": checkpoint})))
}

/// `sessions.compaction.branch`: a new session with what was there before.
pub async fn branch(cx: Ctx, p: SessionsCheckpointParams) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    let sessions = &cx.services.sessions;
    let branch = sessions.branch(&key, &p.checkpoint_id).await;
    let branch = branch
        .map_err(|error| refused(error, &p, "failed to create checkpoint branch transcript"))?;
    let answer = json!({
        "ok": true,
        "sourceKey": key.as_str(),
        "key": branch.key.as_str(),
        "sessionId": branch.entry.session_id,
        "checkpoint": branch.checkpoint,
        "entry": branch.entry,
    });
    let source = sessions.entry(&key).await.map_err(unavailable)?;
    cx.after_answer(change(&cx, key, source, "checkpoint-branch"));
    cx.after_answer(change(&cx, branch.key, Some(branch.entry), "checkpoint-branch"));
    Ok(told(&cx, answer))
}

/// `sessions.compaction.restore`: the session goes on from there itself.
pub async fn restore(cx: Ctx, p: SessionsCheckpointParams) -> Reply<Value> {
    refuse_webchat(&cx, "restore")?;
    let key = cx.enter_session(&p.key).await;
    let sessions = &cx.services.sessions;
    let failed = |error| refused(error, &p, "failed to restore checkpoint transcript");
    // Nothing is stopped for a checkpoint that there is not.
    sessions.checkpoint_of(&key, &p.checkpoint_id).await.map_err(failed)?;
    let held = clear(&cx, &key, &p.key).await?;
    let restored = sessions.restore(&key, &p.checkpoint_id).await.map_err(failed)?;
    held.end(RunEnd::Answered).await;
    let answer = json!({
        "ok": true,
        "key": key.as_str(),
        "sessionId": restored.entry.session_id,
        "checkpoint": restored.checkpoint,
        "entry": restored.entry,
    });
    cx.after_answer(change(&cx, key, Some(restored.entry), "checkpoint-restore"));
    Ok(told(&cx, answer))
}

fn refused(error: SessionError, p: &SessionsCheckpointParams, failure: &str) -> ErrorShape {
    match error {
        SessionError::NotFound(_) => ErrorShape::not_found(format!("session not found: {}", p.key)),
        SessionError::NoCheckpoint(id) => no_checkpoint(&id),
        error => ErrorShape::unavailable(format!("{failure}: {error}")),
    }
}

fn no_checkpoint(id: &str) -> ErrorShape {
    ErrorShape::not_found(format!("checkpoint not found: {id}"))
}
