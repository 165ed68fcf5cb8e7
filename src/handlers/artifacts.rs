//! `artifacts.list`, `artifacts.get`, `artifacts.download`.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::hello::MAX_PAYLOAD;
use crate::protocol::methods::artifacts::{ArtifactParams, ArtifactsListParams};
use crate::registry::{Ctx, Reply};
use crate::sessions::{Artifact, ArtifactData, SessionKey};
use crate::store::SubagentQuery;
use crate::support::{json, without_nulls};

use super::chat::unreadable;
use super::sessions::told;

/// Largest data that is answered: base64 makes four bytes of three, and a frame
/// has some bytes around it.
const DATA_MAX: usize = (MAX_PAYLOAD - 8192) / 4 * 3;

/// Where artifacts are looked for.
struct Scope {
    key: SessionKey,
    run_id: Option<String>,
    task_id: Option<String>,
}

/// `artifacts.list`: pictures, recordings and files of a session, of a run or
/// of a task.
pub async fn list(cx: Ctx, p: ArtifactsListParams) -> Reply<Value> {
    let scope = scope(&cx, p).await?.ok_or_else(no_session)?;
    let sessions = &cx.services.sessions;
    let found =
        sessions.artifacts(&scope.key, scope.run_id.as_deref()).await.map_err(unreadable)?;
    let artifacts: Vec<_> = found.iter().map(|artifact| row(artifact, &scope)).collect();
    Ok(told(&cx, json!({"artifacts": artifacts})))
}

/// `artifacts.get`: one of them.
pub async fn get(cx: Ctx, p: ArtifactParams) -> Reply<Value> {
    let missing = || not_found(&p.artifact_id);
    let scope = scope(&cx, p.scope).await?.ok_or_else(missing)?;
    let sessions = &cx.services.sessions;
    let found =
        sessions.artifacts(&scope.key, scope.run_id.as_deref()).await.map_err(unreadable)?;
    let artifact =
        found.iter().find(|artifact| artifact.id == p.artifact_id).ok_or_else(missing)?;
    Ok(told(&cx, json!({"artifact": row(artifact, &scope)})))
}

/// `artifacts.download`: the same with its data, or its address.
pub async fn download(cx: Ctx, p: ArtifactParams) -> Reply<Value> {
    let missing = || not_found(&p.artifact_id);
    let scope = scope(&cx, p.scope).await?.ok_or_else(missing)?;
    let (sessions, run_id) = (&cx.services.sessions, scope.run_id.as_deref());
    let max = u64::try_from(DATA_MAX).unwrap_or(u64::MAX);
    let found = sessions.artifact(&scope.key, run_id, &p.artifact_id, max).await;
    let (artifact, data) = found.map_err(unreadable)?.ok_or_else(missing)?;
    let artifact = row(&artifact, &scope);
    match data {
        ArtifactData::Base64(data) => {
            Ok(told(&cx, json!({"artifact": artifact, "encoding": "base64", "data": data})))
        }
        ArtifactData::Url(url) => Ok(told(&cx, json!({"artifact": artifact, "url": url}))),
        ArtifactData::Missing => {
            Err(unsupported("artifact download is unsupported", &p.artifact_id))
        }
        ArtifactData::TooLarge(size) => {
            let text = format!("artifact of {size} bytes is larger than the {DATA_MAX} of a frame");
            Err(unsupported(&text, &p.artifact_id))
        }
    }
}

/// The session that is meant; `None` when a run or task is not known, or not one
/// of the session.
async fn scope(cx: &Ctx, p: ArtifactsListParams) -> Reply<Option<Scope>> {
    let of_session = p.session_key.as_deref().map(|written| cx.session_key(written));
    let key_of_run = match &p.run_id {
        Some(run_id) => Some(session_of_run(cx, run_id).await?),
        None => None,
    };
    let of_task = match &p.task_id {
        Some(task_id) => Some(session_of_task(cx, task_id).await?),
        None => None,
    };
    if of_session.is_none() && key_of_run.is_none() && of_task.is_none() {
        let text = "artifacts require one of sessionKey, runId, or taskId";
        let details = json!({"type": "artifact_query_unsupported"});
        return Err(ErrorShape::invalid(text).details(details));
    }
    // A task that is a run is one run of its session, a sub-agent is a session.
    let (of_task, run_of_task) = match of_task {
        Some(Some((key, is_run))) => (Some(Some(key)), p.task_id.clone().filter(|_| is_run)),
        Some(None) => (Some(None), None),
        None => (None, None),
    };
    let named = [of_session.map(Some), key_of_run, of_task].into_iter().flatten();
    let mut key: Option<SessionKey> = None;
    for named in named {
        match (&key, named) {
            (_, None) => return Ok(None),
            (Some(known), Some(other)) if *known != other => return Ok(None),
            (_, Some(named)) => key = Some(named),
        }
    }
    let runs = [p.run_id.clone(), run_of_task];
    let mut runs = runs.into_iter().flatten();
    let run_id = runs.next();
    if runs.any(|other| Some(&other) != run_id.as_ref()) {
        return Ok(None);
    }
    Ok(key.map(|key| Scope { key, run_id, task_id: p.task_id }))
}

async fn session_of_run(cx: &Ctx, run_id: &str) -> Reply<Option<SessionKey>> {
    if let Some(key) = cx.services.runs.session_of(run_id) {
        return Ok(Some(key));
    }
    let record = cx.services.runs.parts().store.run(run_id).await;
    let record = record.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    Ok(record.map(|record| SessionKey::from_canonical(&record.session_key)))
}

/// The session of a task, and whether the task is a run of it.
async fn session_of_task(cx: &Ctx, task_id: &str) -> Reply<Option<(SessionKey, bool)>> {
    let store = &cx.services.runs.parts().store;
    let rows = store.subagents(SubagentQuery::Run(task_id.to_owned())).await;
    let rows = rows.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    if let Some(row) = rows.first() {
        return Ok(Some((SessionKey::from_canonical(&row.child_key), false)));
    }
    Ok(session_of_run(cx, task_id).await?.map(|key| (key, true)))
}

fn row(artifact: &Artifact, scope: &Scope) -> Value {
    without_nulls(json!({
        "id": artifact.id,
        "type": artifact.kind,
        "title": artifact.title,
        "mimeType": artifact.mime_type,
        "sizeBytes": artifact.size,
        "sessionKey": scope.key.as_str(),
        "runId": scope.run_id,
        "taskId": scope.task_id,
        "messageSeq": artifact.message_seq,
        "source": "session-transcript",
        "download": {"mode": artifact.download.as_str()},
    }))
}

fn no_session() -> ErrorShape {
    let details = json!({"type": "artifact_scope_not_found"});
    ErrorShape::not_found("no session found for artifact query").details(details)
}

fn not_found(id: &str) -> ErrorShape {
    let details = json!({"type": "artifact_not_found", "artifactId": id});
    ErrorShape::not_found("artifact not found").details(details)
}

fn unsupported(text: &str, id: &str) -> ErrorShape {
    let details = json!({"type": "artifact_download_unsupported", "artifactId": id});
    ErrorShape::invalid(text).details(details)
}
