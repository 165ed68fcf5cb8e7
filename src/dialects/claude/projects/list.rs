//! Which sessions there are, and what is said of them in short.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::files::{Folder, path};
use crate::dialects::claude::format::INTERRUPTED;
use crate::sessions::millis_of_iso;
use crate::support::{reading, sort};

/// What is read of either end of a file for its title and its folder.
const END: u64 = 64 * 1024;
/// Characters of a first prompt that are a title.
const TITLE_MAX: usize = 120;
/// What a session without words is called.
const UNTITLED: &str = "Untitled";
/// The list that Claude Code keeps of the sessions of a project.
const INDEX: &str = "sessions-index.json";
/// No list is as long.
const INDEX_MAX: u64 = 16 * 1024 * 1024;

/// A session that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its id.
    pub id: String,
    /// The name of its folder.
    pub project: String,
    /// When it was changed last, in milliseconds since the epoch.
    pub modified_ms: u64,
    /// Bytes of its file.
    pub length: u64,
}

/// What there is to say of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSession {
    /// Its id.
    pub id: String,
    /// The name of its folder.
    pub project: String,
    /// The name that a person gave it, else its summary, else what was said first,
    /// else `Untitled`.
    pub title: String,
    /// Where it works; empty when it does not say so.
    pub cwd: String,
    /// The branch that it was on when it began.
    pub git_branch: Option<String>,
    /// When it began, in milliseconds since the epoch.
    pub created_ms: u64,
    /// When it was changed last.
    pub modified_ms: u64,
    /// Messages of users and answers.
    pub messages: u64,
    /// Whether it is beside another one.
    pub is_sidechain: bool,
}

/// All sessions, the last changed first.
pub(super) fn heads(folder: &Folder) -> io::Result<Vec<Head>> {
    let mut found = Vec::new();
    for project in folder.projects()? {
        let ids = folder.sessions(&project);
        found.extend(ids.into_iter().filter_map(|id| look(folder, &project, id)));
    }
    sort::by(&mut found, |a, b| b.modified_ms.cmp(&a.modified_ms).then_with(|| a.id.cmp(&b.id)));
    // A session may be in two projects when its folder was moved.
    let mut seen = HashSet::new();
    found.retain(|head| seen.insert(head.id.clone()));
    Ok(found)
}

/// The session with this id, the last changed one if there are two.
pub(super) fn head(folder: &Folder, id: &str) -> io::Result<Option<Head>> {
    let projects = folder.projects()?;
    let found = projects.iter().filter_map(|project| look(folder, project, id.to_owned()));
    Ok(found.max_by_key(|head| head.modified_ms))
}

fn look(folder: &Folder, project: &str, id: String) -> Option<Head> {
    let seen = folder.look(&path(project, &id))?;
    let (length, modified_ms) = (seen.length, seen.modified_ms);
    Some(Head { id, project: project.to_owned(), modified_ms, length })
}

/// What the list of a project says of its sessions, by their ids.
pub(super) fn index(folder: &Folder, project: &str) -> HashMap<String, Indexed> {
    let read = || {
        let file = folder.file(&Path::new(project).join(INDEX)).ok()??;
        let mut text = String::new();
        file.take(INDEX_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str::<Index>(&text).ok()
    };
    let entries = read().map(|index| index.entries).unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| reading::of::<Indexed>(entry).ok());
    entries.map(|entry| (entry.session_id.clone(), entry)).collect()
}

#[derive(Deserialize)]
struct Index {
    entries: Vec<Value>,
}

/// An entry of that list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Indexed {
    session_id: String,
    file_mtime: f64,
    first_prompt: Option<String>,
    summary: Option<String>,
    custom_title: Option<String>,
    message_count: u64,
    created: String,
    git_branch: Option<String>,
    project_path: Option<String>,
    #[serde(default)]
    is_sidechain: bool,
}

impl Indexed {
    /// What it says, unless the session has changed since.
    pub(super) fn describe(self, head: &Head) -> Option<ProjectSession> {
        // Whole milliseconds, and a fraction that another system has.
        let noted = self.file_mtime.floor().to_string().parse::<u64>().ok()?;
        if noted.abs_diff(head.modified_ms) > 1 {
            return None;
        }
        let texts = Texts {
            custom: self.custom_title,
            summary: self.summary,
            first: self.first_prompt.filter(|text| text != "No prompt"),
        };
        Some(ProjectSession {
            title: texts.title(),
            cwd: self.project_path.unwrap_or_default(),
            git_branch: self.git_branch.filter(|branch| !branch.is_empty()),
            created_ms: millis_of_iso(&self.created),
            messages: self.message_count,
            is_sidechain: self.is_sidechain,
            id: head.id.clone(),
            project: head.project.clone(),
            modified_ms: head.modified_ms,
        })
    }
}

/// What may be a title.
#[derive(Debug, Default)]
struct Texts {
    custom: Option<String>,
    summary: Option<String>,
    first: Option<String>,
}

impl Texts {
    fn title(self) -> String {
        let said = |text: &String| !text.trim().is_empty();
        let own = self.custom.filter(said).or(self.summary.filter(said));
        own.or_else(|| self.first.filter(said).map(|first| prompt(&first)))
            .unwrap_or_else(|| UNTITLED.to_owned())
    }
}

/// What was said first, in a line.
fn prompt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(TITLE_MAX).collect()
}

/// What both ends of a file say of its session.
pub(super) fn ends(file: &File, head: &Head, messages: u64) -> io::Result<ProjectSession> {
    let mut session = ProjectSession {
        id: head.id.clone(),
        project: head.project.clone(),
        title: String::new(),
        cwd: String::new(),
        git_branch: None,
        created_ms: 0,
        modified_ms: head.modified_ms,
        messages,
        is_sidechain: false,
    };
    let mut texts = Texts::default();
    for line in part(file, 0, head.length)? {
        first_lines(&mut session, &mut texts, &line);
    }
    let tail = head.length.saturating_sub(END);
    for line in part(file, tail, head.length)? {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        match line.get("type").and_then(Value::as_str) {
            Some("custom-title") => texts.custom = text("customTitle").or(texts.custom),
            Some("summary") => texts.summary = text("summary").or(texts.summary),
            _ => {}
        }
    }
    session.title = texts.title();
    if session.created_ms == 0 {
        session.created_ms = head.modified_ms;
    }
    Ok(session)
}

fn first_lines(session: &mut ProjectSession, texts: &mut Texts, line: &Value) {
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    match text("type") {
        Some("custom-title") => texts.custom = text("customTitle").map(str::to_owned),
        Some("summary") => texts.summary = text("summary").map(str::to_owned),
        _ => {}
    }
    if session.created_ms == 0 {
        session.created_ms = text("timestamp").map(millis_of_iso).unwrap_or_default();
    }
    if let Some(cwd) = text("cwd").filter(|_| session.cwd.is_empty()) {
        cwd.clone_into(&mut session.cwd);
        session.git_branch = text("gitBranch").filter(|it| !it.is_empty()).map(str::to_owned);
        session.is_sidechain = line.get("isSidechain") == Some(&Value::Bool(true));
    }
    if texts.first.is_none() {
        texts.first = said_first(line);
    }
}

/// What a person said, unless it is what commands say in his name.
fn said_first(line: &Value) -> Option<String> {
    let is_user = line.get("type").is_some_and(|kind| kind == "user");
    if !is_user || line.get("isMeta") == Some(&Value::Bool(true)) {
        return None;
    }
    let content = line.pointer("/message/content")?;
    let text = match content {
        Value::String(text) => Some(text.as_str()),
        Value::Array(blocks) => {
            blocks.iter().find_map(|block| block.get("text").and_then(Value::as_str))
        }
        _ => None,
    }?;
    let text = text.trim();
    let interrupted = INTERRUPTED.trim_end_matches(']');
    let is_own = !text.is_empty() && !text.starts_with('<') && !text.starts_with(interrupted);
    is_own.then(|| text.to_owned())
}

/// The lines that are whole in a part of a file.
fn part(file: &File, from: u64, length: u64) -> io::Result<Vec<Value>> {
    let size = usize::try_from(END.min(length.saturating_sub(from))).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    let mut read = 0;
    while let Some(room) = bytes.get_mut(read..).filter(|room| !room.is_empty()) {
        let at = from.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        match file.read_at(room, at)? {
            0 => break,
            more => read = read.saturating_add(more),
        }
    }
    bytes.truncate(read);
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}
