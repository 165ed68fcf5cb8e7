//! `/api/sessions` and what is below.

use serde_json::Value;

use super::super::{book, retention};
use super::{Answered, BODY_MAX, Failed, done, history};
use crate::http::Asked;
use crate::support::json;

const MISSING: Failed = Failed::Missing("Session not found");

/// `GET /api/sessions`: a bare array, the last changed first.
pub async fn list(asked: Asked<'_>) -> Answered {
    let all = book::all(&asked.cx()).await?;
    Ok(all.iter().map(book::Conversation::to_wire).collect())
}

/// `DELETE /api/sessions`.
pub async fn delete_all(asked: Asked<'_>) -> Answered {
    let deleted = book::delete_all(&asked.cx()).await?;
    Ok(json!({"status": "ok", "deleted": deleted}))
}

/// `GET /api/sessions/stats`.
pub async fn stats(asked: Asked<'_>) -> Answered {
    Ok(retention::stats(&asked.cx()).await?)
}

/// `GET /api/sessions/policy`.
pub async fn policy(asked: Asked<'_>) -> Answered {
    let policy = retention::policy(&asked.gateway.services.settings.now());
    Ok(json!({"policy": policy, "options": retention::options()}))
}

/// `PUT /api/sessions/policy`.
pub async fn set_policy(mut asked: Asked<'_>) -> Answered {
    let body = asked.json(BODY_MAX).await?;
    let cx = asked.cx();
    retention::set(&cx, body["policy"].as_str().unwrap_or_default()).await?;
    let mut answer = retention::stats(&cx).await?;
    answer["status"] = json!("ok");
    answer["policy"] = answer["archival_policy"].clone();
    Ok(answer)
}

/// `GET /api/sessions/:id`.
pub async fn get(asked: Asked<'_>) -> Answered {
    let cx = asked.cx();
    let found = book::find(&cx, asked.path.get("id")).await?.ok_or(MISSING)?;
    let mut answer: Value = found.to_wire();
    answer["messages"] = history::messages(&cx, &found.session.key).await?;
    Ok(answer)
}

/// `DELETE /api/sessions/:id`.
pub async fn delete(asked: Asked<'_>) -> Answered {
    let cx = asked.cx();
    let found = book::find(&cx, asked.path.get("id")).await?.ok_or(MISSING)?;
    book::delete(&cx, &found.session).await?;
    Ok(done())
}
