//! `agents.create`, `agents.update`, `agents.delete`.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use crate::agent::roster::{
    AgentChange, Created, Discarded, NewAgent, Removed, Roster, RosterError, WouldWork,
    settle_removal,
};
use crate::agent::workspace::FilesError;
use crate::agent::{Deletion, RunEnd};
use crate::protocol::ErrorShape;
use crate::protocol::methods::agents::{
    AgentsCreateParams, AgentsDeleteParams, AgentsUpdateParams,
};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, Remains, SessionKey, SessionQuery};
use crate::store::SourceNote;
use crate::support::{json, with_cause, without_nulls};

use super::config;
use super::session_changes::clear;

/// `agents.create`: adds an agent, with its workspace. Who names no workspace
/// gets the usual one; the original's clients have to name it.
pub async fn create(cx: Ctx, p: AgentsCreateParams) -> Reply<Value> {
    let is_free = cx.is_simple() || cx.caller.is_dashboard;
    if p.workspace.is_none() && !is_free {
        let text = "invalid agents.create params: must have required property 'workspace'";
        return Err(ErrorShape::invalid(text));
    }
    check_model(&cx, "agents.create", p.model.as_deref())?;
    let emoji = p.emoji.clone().filter(|_| is_free);
    let new = NewAgent {
        name: p.name,
        id: None,
        workspace: p.workspace,
        model: p.model,
        emoji: p.emoji,
        avatar: p.avatar,
    };
    let _turn = turn(&cx).await;
    let Created { id, name, workspace, model } =
        work(&cx, "agents.create", move |roster| roster.create(new)).await?;
    tracing::info!(agent = %id, by = %cx.caller.name, "an agent was added");
    Ok(without_nulls(json!({
        "ok": true,
        "agentId": id.as_str(),
        "name": name,
        "workspace": workspace.display().to_string(),
        "model": model,
        "id": is_free.then_some(id.as_str()),
        "emoji": emoji,
    })))
}

/// `agents.update`: changes an agent. What its model's setting says beside the
/// model stays, and so does a model that there is not when it comes back.
pub async fn update(cx: Ctx, p: AgentsUpdateParams) -> Reply<Value> {
    let id = AgentId::normalize(&p.agent_id);
    let model = p.model.filter(|model| !comes_back(&cx, &id, model.trim()));
    check_model(&cx, "agents.update", model.as_deref())?;
    let change = AgentChange {
        name: p.name,
        workspace: p.workspace,
        model,
        emoji: p.emoji,
        avatar: p.avatar,
        ..AgentChange::default()
    };
    let of = id.clone();
    let _turn = turn(&cx).await;
    let agent = work(&cx, "agents.update", move |roster| roster.update(&of, change)).await?;
    tracing::info!(agent = %id, by = %cx.caller.name, "an agent was changed");
    let mut answer = json!({"ok": true, "agentId": id.as_str()});
    if cx.is_simple() || cx.caller.is_dashboard {
        answer["id"] = json!(id.as_str());
        answer["name"] = json!(agent.name);
        answer["model"] = json!(agent.model.map(|model| model.primary));
        answer["emoji"] = json!(agent.identity.emoji);
    }
    Ok(without_nulls(answer))
}

/// `agents.delete`: removes an agent, its bindings and what it was always allowed, ends its
/// sessions and moves its folders to the trash. `kept` names the files that stay.
pub async fn delete(cx: Ctx, p: AgentsDeleteParams) -> Reply<Value> {
    let id = AgentId::normalize(&p.agent_id);
    let of = id.clone();
    let _turn = turn(&cx).await;
    let store = &*cx.services.runs.parts().store;
    let note = note(&cx, &id, p.delete_files).await?;
    // Written and not taken up, the next start completes it.
    let removed = match work(&cx, DELETE, move |roster| Ok(roster.remove(&of))).await? {
        Ok(removed) => removed,
        Err(error) => {
            settle_removal(store, note, true).await;
            return Err(refusal(DELETE, error));
        }
    };
    tracing::info!(agent = %id, by = %cx.caller.name, "an agent was removed");
    let have_ended = end_sessions(&cx, &id).await;
    let bindings = removed.bindings;
    let discarded = if p.delete_files { discard(&cx, removed).await } else { Discarded::default() };
    let mut kept = discarded.kept;
    let forgotten = cx.services.runs.parts().approvals.forget(&id).await;
    settle_removal(store, note, have_ended && forgotten.is_ok()).await;
    if let Err(error) = forgotten {
        tracing::error!(agent = %id, %error, "what a removed agent was always allowed is still written");
        kept.push((cx.services.settings.now().paths.exec_approvals(), error.to_string()));
    }
    let kept: Vec<_> = kept
        .iter()
        .map(|(path, reason)| json!({"path": path.display().to_string(), "reason": reason}))
        .collect();
    Ok(without_nulls(json!({
        "ok": true,
        "agentId": id.as_str(),
        "removedBindings": bindings,
        "kept": (!kept.is_empty()).then_some(kept),
    })))
}

/// Refuses a model that there is not: an agent that has one is answered by another, or not
/// at all.
fn check_model(cx: &Ctx, method: &str, model: Option<&str>) -> Reply<()> {
    let Some(model) = model.map(str::trim).filter(|model| !model.is_empty()) else { return Ok(()) };
    if cx.services.models.catalog().named(model).is_some() {
        return Ok(());
    }
    let text = format!("invalid {method} params: at /model: there is no model \"{model}\"");
    Err(ErrorShape::invalid(text))
}

/// Whether this only repeats a model of an agent that there is not: as it is written, or as
/// `agents.list` shows what is there instead. Whoever sends it along has not chosen it.
fn comes_back(cx: &Ctx, agent: &AgentId, model: &str) -> bool {
    let models = &cx.services.models;
    let is_shown = || models.of_agent(agent).reference().to_string() == model;
    models.missing_of(agent).is_some_and(|it| it.name.trim() == model || is_shown())
}

/// Stops what runs in the sessions of an agent and takes them out of the index,
/// so that nobody can write to them; whether all are. It is gone already: that a
/// session does not end at once is no reason to say otherwise.
async fn end_sessions(cx: &Ctx, id: &AgentId) -> bool {
    let query = SessionQuery { agent: Some(id.to_string()), ..SessionQuery::default() };
    let rows = match cx.services.sessions.list(query).await {
        Ok(page) => page.entries,
        Err(error) => {
            tracing::warn!(agent = %id, %error, "sessions of a removed agent not found");
            return false;
        }
    };
    let mut are_out = true;
    for row in rows {
        let key = SessionKey::from_canonical(&row.key);
        let held = clear(cx, &key, &row.key).await;
        if let Err(error) = &held {
            tracing::warn!(session = %key, error = error.message, "a removed agent still runs");
        }
        match cx.services.sessions.delete(&key, Remains::WithAgent).await {
            Ok(_) => {
                cx.services.runs.parts().session_deleted(&key);
                let (runs, session_id) = (Arc::clone(&cx.services.runs), row.entry.session_id);
                cx.after_answer(Deletion { runs, key, session_id });
            }
            Err(error) => {
                are_out = false;
                tracing::warn!(session = %key, %error, "session not removed");
            }
        }
        if let Ok(held) = held {
            held.end(RunEnd::Answered).await;
        }
    }
    are_out
}

/// Notes that an agent is about to be removed: what a kill comes between, the next start
/// completes.
async fn note(cx: &Ctx, id: &AgentId, with_files: bool) -> Reply<SourceNote> {
    let (env, clock) = (cx.services.env.clone(), Arc::clone(&cx.services.clock));
    let id = id.clone();
    let look = move |would_work: Box<WouldWork>| Roster::new(env, clock, would_work).removal(&id);
    let (found, turn) = config::in_turn(&cx.services, look).await?;
    drop(turn);
    let note = found.map_err(|error| refusal(DELETE, error))?.note(with_files);
    let noted = cx.services.runs.parts().store.note_sources(vec![note.clone()]).await;
    noted.map_err(|error| ErrorShape::unavailable(with_cause(&error)))?;
    Ok(note)
}

/// Moves the folders of a removed agent in the turn of the config file: in no other is it
/// known who uses them.
async fn discard(cx: &Ctx, removed: Removed) -> Discarded {
    let (env, clock) = (cx.services.env.clone(), Arc::clone(&cx.services.clock));
    let work =
        move |would_work: Box<WouldWork>| Roster::new(env, clock, would_work).discard(&removed);
    let moved = config::in_turn(&cx.services, work).await;
    moved.map(|(discarded, _turn)| discarded).unwrap_or_default()
}

/// The method that removes one, in what is told of it.
const DELETE: &str = "agents.delete";

/// The lane of all who add, change and remove agents.
const LANE: &str = "agents of the config";

/// The turn to do so. Who removes one keeps it until its sessions have ended and its folders
/// are away: they are not those of another one with its name.
async fn turn(cx: &Ctx) -> OwnedMutexGuard<()> {
    cx.services.lanes.enter(LANE.to_owned()).await
}

/// Changes agents in the turn of the config file, and has the gateway use them. Not given
/// up when the caller goes away: it is done or it is not.
async fn work<T: Send + 'static>(
    cx: &Ctx,
    method: &str,
    work: impl FnOnce(&Roster) -> Result<T, RosterError> + Send + 'static,
) -> Reply<T> {
    let (env, clock) = (cx.services.env.clone(), Arc::clone(&cx.services.clock));
    let work = move |would_work: Box<WouldWork>| work(&Roster::new(env, clock, would_work));
    let (worked, _turn) = config::in_turn(&cx.services, work).await?;
    let done = worked.map_err(|error| refusal(method, error))?;
    let taken = config::take_up(cx, false).await;
    taken.map_err(|wrong| config::not_in_use(&wrong))?;
    Ok(done)
}

fn refusal(method: &str, error: RosterError) -> ErrorShape {
    match error {
        RosterError::Config(error) => config::refusal(&error),
        RosterError::Folder(_) | RosterError::Identity(FilesError::Unwritable { .. }) => {
            ErrorShape::unavailable(with_cause(&error))
        }
        RosterError::NotFound(_) => ErrorShape::not_found(error.to_string()),
        RosterError::TooLong { .. } | RosterError::Place { .. } => {
            ErrorShape::invalid(format!("invalid {method} params: {error}"))
        }
        _ => ErrorShape::invalid(error.to_string()),
    }
}
