//! A session as clients see it: whole, or as a line of the long list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::state::Bustle;
use crate::dialects::claude::format::git_branch;
use crate::dialects::claude::projects::ProjectSession;
use crate::registry::Services;
use crate::sessions::{SessionKey, iso_time};
use crate::store::{OverviewRow, SessionMarks};
use crate::support::{blocking, json};

/// What a session is called that has no name and in which nothing was said.
const UNTITLED: &str = "Untitled";
/// What Claude Code calls the branch where there is none.
const NO_BRANCH: &str = "HEAD";

/// What is told of a session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub id: String,
    pub title: String,
    pub working_dir: PathBuf,
    pub created_at: u64,
    pub last_activity: u64,
    pub user_at: u64,
    pub message_count: u64,
    pub is_sidechain: bool,
    pub state: &'static str,
    pub permission_mode: String,
}

impl Shape {
    /// One of our own sessions.
    pub(super) fn own(listed: OverviewRow, bustle: &Bustle, folders: &mut Folders) -> Self {
        let OverviewRow { row, marks, user_at } = listed;
        let state = bustle.of(&row.key, &row.entry.session_id, &marks);
        let (key, entry) = (SessionKey::from_canonical(row.key), row.entry);
        let facts = entry.transcript;
        let title = [entry.label, entry.display_name, facts.opening, facts.derived_title]
            .into_iter()
            .flatten()
            .find(|title| !title.trim().is_empty());
        Self {
            working_dir: folders.of(&key, entry.spawned_workspace_dir),
            id: entry.session_id,
            title: title.unwrap_or_else(|| UNTITLED.into()),
            created_at: entry.session_started_at.unwrap_or(entry.updated_at),
            last_activity: entry.updated_at,
            user_at,
            message_count: facts.message_count,
            is_sidechain: entry.spawned_by.is_some(),
            state,
            permission_mode: entry.permission_mode.unwrap_or_else(|| "default".into()),
        }
    }

    /// One of Claude Code's own.
    pub(super) fn theirs(session: ProjectSession, marks: &SessionMarks) -> Self {
        let state = if marks.is_archived(&session.id) {
            "archived"
        } else if marks.seen_at > 0 && session.modified_ms > marks.seen_at {
            "unread"
        } else {
            // One that nobody has looked at here is no news: it was read elsewhere.
            "idle"
        };
        Self {
            state,
            id: session.id,
            title: session.title,
            working_dir: session.cwd.into(),
            created_at: session.created_ms,
            last_activity: session.modified_ms,
            user_at: session.modified_ms,
            message_count: session.messages,
            is_sidechain: session.is_sidechain,
            permission_mode: "default".into(),
        }
    }

    /// `S`: what a request for one session is answered with.
    pub(super) fn whole(&self, branches: &Branches) -> Value {
        let mut whole = json!({
            "id": self.id,
            "workingDir": self.working_dir.display().to_string(),
            "createdAt": iso_time(self.created_at),
            "lastActivity": iso_time(self.last_activity),
            "lastUserActivity": iso_time(self.user_at),
            "status": "active",
            "title": self.title,
            "permissionMode": self.permission_mode,
        });
        self.add_git(&mut whole, branches);
        whole
    }

    /// `L`: a line of the long list.
    pub(super) fn line(&self, branches: &Branches) -> Value {
        let mut line = json!({
            "id": self.id,
            "title": self.title,
            "workingDir": self.working_dir.display().to_string(),
            "createdAt": self.created_at,
            "lastActivity": self.last_activity,
            "lastUserActivity": self.user_at,
            "messageCount": self.message_count,
            "isSidechain": self.is_sidechain,
            "sessionState": self.state,
            "permissionMode": self.permission_mode,
        });
        self.add_git(&mut line, branches);
        line
    }

    fn add_git(&self, told: &mut Value, branches: &Branches) {
        if let Some(branch) = branches.0.get(&self.working_dir) {
            told["git"] = json!({"isRepo": true, "branch": branch});
        }
    }
}

/// Which folder each agent works in; asked once for all sessions of one answer.
pub(super) struct Folders<'s> {
    services: &'s Services,
    known: HashMap<String, PathBuf>,
}

impl<'s> Folders<'s> {
    pub(super) fn new(services: &'s Services) -> Self {
        Self { services, known: HashMap::new() }
    }

    fn of(&mut self, key: &SessionKey, own: Option<String>) -> PathBuf {
        if let Some(own) = own {
            return own.into();
        }
        let agent = key.agent(&self.services.keys.now()).to_string();
        let agents = || &self.services.settings;
        let find = |agent: &String| agents().now().agents.agent_or_default(agent).workspace;
        self.known.entry(agent).or_insert_with_key(find).clone()
    }
}

/// The branches that folders are on, those that are in a repository.
#[derive(Debug, Default)]
pub(super) struct Branches(HashMap<PathBuf, String>);

impl Branches {
    /// Of the folders of these sessions. Reads the few files that say it, runs
    /// nothing.
    pub(super) async fn of(shapes: &[Shape]) -> Self {
        let folders: std::collections::HashSet<PathBuf> = shapes
            .iter()
            .map(|shape| shape.working_dir.clone())
            .filter(|it| it.is_absolute())
            .collect();
        let look = move || folders.into_iter().filter_map(|it| Some((branch(&it)?, it))).collect();
        let found: Vec<(String, PathBuf)> = blocking(look).await.unwrap_or_default();
        Self(found.into_iter().map(|(branch, folder)| (folder, branch)).collect())
    }
}

fn branch(folder: &Path) -> Option<String> {
    let branch = git_branch(folder);
    (branch != NO_BRANCH).then_some(branch)
}
