//! What clients change of sessions: by methods, with their own rights.

use std::collections::BTreeSet;

use axum::response::Response;
use serde_json::{Map, Value};

use super::find::unavailable;
use super::list::whole_by_id;
use super::read_state::tell;
use super::who::Who;
use crate::http::{Asked, ok};
use crate::protocol::ErrorKind;
use crate::protocol::methods::sessions::LABEL_MAX;
use crate::sessions::{AgentId, SessionKey, SessionQuery};
use crate::support::json;

/// Most bytes of a body; a title and a few words are all that is in one.
const BODY_MAX: u64 = 64 * 1024;
const INVALID: &str = "Invalid request body";
/// So often somebody else may be faster to take a title; nobody gives so many at once.
const TRIES: usize = 100;
/// Characters of the largest number behind a title.
const NUMBER_MAX: usize = 24;
/// The permission modes of `sessions.patch`, looked at before a session is made.
const MODES: [&str; 4] = ["default", "acceptEdits", "plan", "bypassPermissions"];

type Answer = Result<Response, Response>;

/// `POST /api/claude/sessions`: begins a session, or goes on with one that there
/// is.
pub(in crate::dialects::claude) async fn create(mut asked: Asked<'_>) -> Answer {
    let body = Body::read(&mut asked).await?;
    let who = Who::of(&asked);
    let wish = Wish::of(&body).ok_or_else(|| who.bad(INVALID))?;
    if let Some(mode) = wish.mode {
        // Before anything is made.
        if !MODES.contains(&mode) {
            let why = "permissionMode must be default, acceptEdits, plan or bypassPermissions";
            return Err(who.bad(why));
        }
        who.check("sessions.patch")?;
    }
    let agent = wish.folder.map(|folder| agent_in(&who, folder)).transpose()?;
    let (key, id) = match wish.resumes {
        Some(id) => (who.own(id).await?.row.key, id.to_owned()),
        None => begin(&who, agent, wish.title).await?,
    };
    let title = wish.title.filter(|_| wish.resumes.is_some());
    let mut settings = Map::new();
    settings.extend(wish.mode.map(|mode| ("permissionMode".to_owned(), json!(mode))));
    if title.is_some() || !settings.is_empty() {
        settings.insert("key".into(), json!(key));
        titled(&who, "sessions.patch", settings, title).await?;
    }
    Ok(ok(&whole_by_id(&who, &id).await?))
}

/// Key and id of a new session.
async fn begin(
    who: &Who,
    agent: Option<String>,
    title: Option<&str>,
) -> Result<(String, String), Response> {
    let mut params = Map::new();
    params.extend(agent.map(|agent| ("agentId".to_owned(), json!(agent))));
    let made = titled(who, "sessions.create", params, title).await?;
    let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
    Ok((text("key"), text("sessionId")))
}

/// Calls a method that names a session, if there is a title. Clients give several the
/// same one; a label is given to one only, so the others get a number behind it.
async fn titled(
    who: &Who,
    method: &str,
    mut params: Map<String, Value>,
    title: Option<&str>,
) -> Result<Value, Response> {
    let Some(title) = title else { return who.call(method, &Value::Object(params)).await };
    // Before all sessions are looked through for one who may not.
    who.check(method)?;
    let mut label = free_label(who, &params, title).await?;
    let mut tries = 1;
    loop {
        params.insert("label".into(), json!(label));
        let error = match who.reply(method, &Value::Object(params.clone())).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        // Somebody else may have taken it meanwhile.
        if error.kind != ErrorKind::Taken || tries == TRIES {
            return Err(who.manner.of_error(&error));
        }
        label = free_label(who, &params, title).await?;
        tries += 1;
    }
}

/// The title, with the first number behind it that no other session of the agent has.
async fn free_label(
    who: &Who,
    params: &Map<String, Value>,
    title: &str,
) -> Result<String, Response> {
    let named = |name: &str| params.get(name).and_then(Value::as_str);
    let (rules, own) = (who.services.keys.now(), named("key"));
    let agent = match (own, named("agentId")) {
        (Some(key), _) => SessionKey::from_canonical(key).agent(&rules),
        (None, Some(id)) => AgentId::normalize(id),
        (None, None) => rules.default_agent.clone(),
    };
    let query = SessionQuery {
        agent: Some(agent.to_string()),
        // What all of them have in common.
        search: Some(title.chars().take(LABEL_MAX - NUMBER_MAX).collect()),
        include_global: true,
        include_unknown: true,
        ..SessionQuery::default()
    };
    let found = who.services.runs.parts().store.list_sessions(query).await;
    let found = found.map_err(|error| unavailable(who.manner, &error))?;
    let others = found.entries.iter().filter(|row| Some(row.key.as_str()) != own);
    let taken: BTreeSet<_> = others.filter_map(|row| row.entry.label.as_deref()).collect();
    let mut labels = (1..=taken.len()).map(|number| numbered(title, number));
    let free = labels.find(|label| !taken.contains(label.as_str()));
    Ok(free.unwrap_or_else(|| numbered(title, taken.len() + 1)))
}

/// Of a long title as much as leaves room for the number.
fn numbered(title: &str, number: usize) -> String {
    if number == 1 {
        return title.to_owned();
    }
    let end = format!(" ({number})");
    title.chars().take(LABEL_MAX.saturating_sub(end.len())).chain(end.chars()).collect()
}

/// `PATCH /api/claude/sessions/:id`: its title.
pub(in crate::dialects::claude) async fn patch(mut asked: Asked<'_>) -> Answer {
    let body = Body::read(&mut asked).await?;
    let who = Who::of(&asked);
    let title = match body.0.get("title") {
        Some(Value::String(title)) => title.trim().to_owned(),
        _ => return Err(who.bad(INVALID)),
    };
    let listed = who.session().await?;
    let mut params = Map::from_iter([("key".to_owned(), json!(listed.row.key))]);
    let title = Some(title.as_str()).filter(|title| !title.is_empty());
    if title.is_none() {
        params.insert("label".into(), Value::Null);
    }
    titled(&who, "sessions.patch", params, title).await?;
    Ok(ok(&json!({"success": true})))
}

/// `DELETE /api/claude/sessions/:id`: out of the index; what was said stays on
/// disk.
pub(in crate::dialects::claude) async fn delete(asked: Asked<'_>) -> Answer {
    let who = Who::of(&asked);
    let listed = who.session().await?;
    let params = json!({"key": listed.row.key, "deleteTranscript": false});
    who.call("sessions.delete", &params).await?;
    Ok(ok(&json!({"success": true})))
}

/// `POST …/deactivate`: stops what runs.
pub(in crate::dialects::claude) async fn deactivate(asked: Asked<'_>) -> Answer {
    let who = Who::of(&asked);
    let listed = who.session().await?;
    who.call("sessions.abort", &json!({"key": listed.row.key})).await?;
    told(&who, &listed.row.key, "deactivate").await
}

/// `POST …/archive`.
pub(in crate::dialects::claude) async fn archive(asked: Asked<'_>) -> Answer {
    put_away(asked, true).await
}

/// `POST …/unarchive`.
pub(in crate::dialects::claude) async fn unarchive(asked: Asked<'_>) -> Answer {
    put_away(asked, false).await
}

async fn put_away(asked: Asked<'_>, is_archived: bool) -> Answer {
    let who = Who::of(&asked);
    let (key, id) = who.marked().await?;
    let store = &who.services.runs.parts().store;
    let written = store.archive_session(&key, is_archived.then_some(id)).await;
    written.map_err(|error| unavailable(who.manner, &error))?;
    told(&who, &key, if is_archived { "archive" } else { "unarchive" }).await
}

async fn told(who: &Who, key: &str, reason: &str) -> Answer {
    let key = SessionKey::from_canonical(key);
    if let Err(error) = tell(&who.services, &key, reason).await {
        tracing::warn!(%error, session = %key, "nobody was told of a change");
    }
    Ok(ok(&json!({"success": true})))
}

/// The agent that works in this folder. A session works in the folder of its agent
/// and in no other.
fn agent_in(who: &Who, folder: &str) -> Result<String, Response> {
    let settings = who.services.settings.now();
    let agents = &settings.agents;
    let default = agents.agent_or_default(&agents.default_id);
    let wanted = std::path::Path::new(folder);
    let found = std::iter::once(&default).chain(&agents.list).find(|it| it.workspace == wanted);
    found.map(|agent| agent.id.clone()).ok_or_else(|| {
        let why = "workingDir must be the workspace of an agent: sessions work in no other \
                   folder. See agents.list[].workspace in the configuration.";
        who.bad(why)
    })
}

/// The members of a body.
struct Body(Map<String, Value>);

impl Body {
    async fn read(asked: &mut Asked<'_>) -> Result<Self, Response> {
        match asked.json(BODY_MAX).await? {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(Who::of(asked).bad(INVALID)),
        }
    }

    /// The text of a member; nothing where it is blank or absent.
    ///
    /// # Errors
    /// When it is something else.
    fn text(&self, name: &str) -> Result<Option<&str>, ()> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(_) => Err(()),
        }
    }
}

/// What a new session is to be.
struct Wish<'b> {
    folder: Option<&'b str>,
    title: Option<&'b str>,
    resumes: Option<&'b str>,
    mode: Option<&'b str>,
}

impl<'b> Wish<'b> {
    fn of(body: &'b Body) -> Option<Self> {
        Some(Self {
            folder: body.text("workingDir").ok()?,
            title: body.text("title").ok()?,
            resumes: body.text("resumeSessionId").ok()?,
            mode: body.text("permissionMode").ok()?,
        })
    }
}
