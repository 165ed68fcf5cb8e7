//! Conversations as the action chat names them: by the id of their transcript.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey, SessionQuery, SessionRow};
use crate::support::json;

/// Characters of a title.
const TITLE_MAX: usize = 60;

/// A session, by both of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its key.
    pub key: SessionKey,
    /// The id of its transcript: what the dialect calls it by.
    pub id: String,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Which session it is.
    pub session: Session,
    /// The beginning of what was said first, or the name that somebody gave it.
    pub title: String,
    /// The model that answers, `provider/model`.
    pub model: String,
    /// How many messages it has.
    pub messages: u64,
    /// When it began, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it changed last, in milliseconds since the epoch.
    pub updated_at: u64,
}

impl Conversation {
    fn of(cx: &Ctx, row: SessionRow) -> Self {
        let SessionRow { key, entry, .. } = row;
        let key = SessionKey::from_canonical(key);
        let model = cx.services.models.shown(&key, &entry).name.to_string();
        let facts = entry.transcript;
        let title = facts.derived_title.or(entry.label).or(entry.display_name).unwrap_or_default();
        Self {
            session: Session { key, id: entry.session_id },
            title: title.chars().take(TITLE_MAX).collect(),
            model,
            messages: facts.message_count,
            created_at: entry.session_started_at.unwrap_or(entry.updated_at),
            updated_at: entry.updated_at,
        }
    }

    /// The row of `GET /api/sessions`.
    pub fn to_wire(&self) -> Value {
        json!({
            "id": self.session.id,
            "title": self.title,
            "model": self.model,
            "message_count": self.messages,
            "created_at": seconds(self.created_at),
            "updated_at": seconds(self.updated_at),
        })
    }
}

/// Milliseconds as the seconds of the dialect.
pub fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

/// All conversations, the last changed first.
///
/// # Errors
/// When the caller may not see them, or they cannot be read.
pub async fn all(cx: &Ctx) -> Reply<Vec<Conversation>> {
    cx.check("sessions.list")?;
    let query = SessionQuery {
        hides_job_runs: true,
        include_global: cx.services.keys.now().global_scope,
        ..SessionQuery::default()
    };
    let page = cx.services.sessions.list(query).await.map_err(unreadable)?;
    Ok(page.entries.into_iter().map(|row| Conversation::of(cx, row)).collect())
}

/// The conversation with this id; `None` when there is none.
///
/// # Errors
/// When the caller may not see it, or it cannot be read.
pub async fn find(cx: &Ctx, id: &str) -> Reply<Option<Conversation>> {
    cx.check("sessions.resolve")?;
    let row = cx.services.sessions.by_id(id).await.map_err(unreadable)?;
    Ok(row.map(|row| Conversation::of(cx, row)))
}

/// Begins a conversation, with a model of its own if one is named.
///
/// # Errors
/// Those of `sessions.create`.
pub async fn begin(cx: &Ctx, model: Option<&str>) -> Reply<Session> {
    begin_of(cx, None, model).await
}

/// The same for an agent that is not the default one.
///
/// # Errors
/// Those of `sessions.create`.
pub async fn begin_of(cx: &Ctx, agent: Option<AgentId>, model: Option<&str>) -> Reply<Session> {
    let agent = agent.unwrap_or_else(|| cx.services.keys.now().default_agent.clone());
    let mut params = json!({"key": format!("agent:{agent}:chat:{}", cx.services.ids.uuid())});
    if let Some(model) = model {
        params["model"] = model.into();
    }
    let begun = cx.call("sessions.create", &params).await?;
    let text = |name: &str| begun[name].as_str().unwrap_or_default().to_owned();
    Ok(Session { key: SessionKey::from_canonical(text("key")), id: text("sessionId") })
}

/// Deletes one; the main session, which is always there, begins anew.
///
/// # Errors
/// Those of `sessions.delete` and `sessions.reset`.
pub async fn delete(cx: &Ctx, session: &Session) -> Reply<()> {
    let keys = cx.services.keys.now();
    let key = session.key.as_str();
    if session.key == SessionKey::main(&keys.default_agent, &keys) {
        cx.call("sessions.reset", &json!({"key": key, "reason": "reset"})).await?;
    } else {
        let params = json!({"key": key, "deleteTranscript": true});
        cx.call("sessions.delete", &params).await?;
    }
    Ok(())
}

/// Deletes all of them; answers how many there were. The main session counts if
/// anything was said in it.
///
/// # Errors
/// Those of [`delete`]; those before it are deleted then.
pub async fn delete_all(cx: &Ctx) -> Reply<usize> {
    // Who may not delete deletes none.
    cx.check("sessions.delete")?;
    let keys = cx.services.keys.now();
    let main = SessionKey::main(&keys.default_agent, &keys);
    let mut deleted = 0;
    for conversation in all(cx).await? {
        if conversation.session.key == main && conversation.messages == 0 {
            continue;
        }
        // Whoever kept the lanes of all of them might wait for somebody who does so, too.
        delete(&cx.apart(), &conversation.session).await?;
        deleted += 1;
    }
    Ok(deleted)
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
fn unreadable(error: crate::sessions::SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
