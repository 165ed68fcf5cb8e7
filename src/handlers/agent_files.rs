//! `agents.files.*`: the files that an agent's prompt is made of.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::workspace::{BootstrapFile, FileEntry, FilesError, Workspaces};
use crate::config::AgentSettings;
use crate::protocol::ErrorShape;
use crate::protocol::methods::agents::{
    AgentsFilesGetParams, AgentsFilesListParams, AgentsFilesSetParams,
};
use crate::registry::{Ctx, Reply};
use crate::sessions::AgentId;
use crate::support::{blocking, json, with_cause, without_nulls};

/// `agents.files.list`: the files of an agent's workspace, and whether they
/// are there. `reason` says why one that is there counts as missing. Dashboards
/// read the texts out of the list.
pub async fn list(cx: Ctx, p: AgentsFilesListParams) -> Reply<Value> {
    let agent = agent(&cx, &p.agent_id)?;
    let has_texts = cx.is_simple() || cx.caller.is_dashboard;
    let list = move |workspaces: &Workspaces, dir: PathBuf| {
        let mut files = workspaces.list(&dir);
        for entry in files.iter_mut().filter(|entry| has_texts && entry.found.is_some()) {
            // One that is too large is listed without its text.
            entry.content = workspaces.get(&dir, entry.file).ok().and_then(|read| read.content);
        }
        Ok(files)
    };
    let files = with_files(&cx, &agent, list).await?;
    let files: Vec<_> = files.iter().map(row).collect();
    Ok(json!({"agentId": agent.id, "workspace": shown(&agent), "files": files}))
}

/// `agents.files.get`: one file with its text.
pub async fn get(cx: Ctx, p: AgentsFilesGetParams) -> Reply<Value> {
    let agent = agent(&cx, &p.agent_id)?;
    let name = file(&p.name)?;
    let read = with_files(&cx, &agent, move |workspaces, dir| workspaces.get(&dir, name)).await?;
    let mut answer = json!({"agentId": agent.id, "workspace": shown(&agent), "file": row(&read)});
    if cx.is_simple() || cx.caller.is_dashboard {
        answer["name"] = json!(name.name());
        answer["content"] = json!(read.content.unwrap_or_default());
    }
    Ok(answer)
}

/// `agents.files.set`: writes one file.
pub async fn set(cx: Ctx, p: AgentsFilesSetParams) -> Reply<Value> {
    let agent = agent(&cx, &p.agent_id)?;
    let name = file(&p.name)?;
    let write = move |workspaces: &Workspaces, dir: PathBuf| workspaces.set(&dir, name, &p.content);
    let written = with_files(&cx, &agent, write).await?;
    Ok(json!({
        "ok": true,
        "agentId": agent.id,
        "workspace": shown(&agent),
        "file": row(&written),
    }))
}

fn agent(cx: &Ctx, id: &str) -> Reply<AgentSettings> {
    let id = AgentId::normalize(id);
    let agent = cx.services.settings.now().agents.agent(id.as_str()).cloned();
    agent.ok_or_else(|| ErrorShape::not_found("unknown agent id"))
}

fn file(name: &str) -> Reply<BootstrapFile> {
    let unsupported = || ErrorShape::invalid(format!("unsupported file \"{name}\""));
    BootstrapFile::named(name.trim()).ok_or_else(unsupported)
}

/// Works with files where that may block.
async fn with_files<T: Send + 'static>(
    cx: &Ctx,
    agent: &AgentSettings,
    work: impl FnOnce(&Workspaces, PathBuf) -> Result<T, FilesError> + Send + 'static,
) -> Reply<T> {
    let workspaces = Arc::clone(&cx.services.runs.parts().workspaces);
    let dir = agent.workspace.clone();
    let worked = blocking(move || work(&workspaces, dir)).await?;
    worked.map_err(|error| match error {
        FilesError::Unsafe(_) | FilesError::Private(_) | FilesError::TooLarge { .. } => {
            ErrorShape::invalid(error.to_string())
        }
        FilesError::Unreadable { .. } | FilesError::Unwritable { .. } => {
            ErrorShape::unavailable(with_cause(&error))
        }
    })
}

fn shown(agent: &AgentSettings) -> String {
    agent.workspace.display().to_string()
}

fn row(entry: &FileEntry) -> Value {
    without_nulls(json!({
        "name": entry.file.name(),
        "path": entry.path.display().to_string(),
        "missing": entry.found.is_none(),
        "size": entry.found.map(|found| found.size),
        "updatedAtMs": entry.found.map(|found| found.updated_at_ms),
        "content": entry.content,
        "reason": entry.trouble,
    }))
}
