//! Finding sessions by their files.
//!
//! Promises: nothing is written; what cannot be read is left out and named.
//! OpenClaw's `sessions.json` tells the keys; without it the headers of our own
//! transcripts do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::transcript::{Backward, Body, Forward, Line, head};
use super::{AgentId, KeyRules, SessionId, SessionKey, digest, paths, reading};
use crate::store::{NewSession, SessionEntry, TranscriptFacts};

/// How far from either end of a transcript its title and preview are looked for.
const LINES_MAX: usize = 20;

/// What could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// The file, or the entry in it.
    pub what: String,
    /// In words.
    pub why: String,
}

/// Collects what could not be read.
pub(super) type Problems = Vec<Problem>;

/// All sessions below a state folder.
pub(super) fn find(state_dir: &Path, rules: &KeyRules) -> io::Result<Vec<NewSession>> {
    let (mut found, mut problems) = (Vec::new(), Problems::new());
    let (agents, others) = paths::agents(state_dir)?;
    for folder in others {
        tell(&mut problems, &folder, &"not the name of an agent");
    }
    for agent in agents {
        let sessions = paths::folder(state_dir, &agent);
        // One folder that cannot be read must not keep the gateway from starting.
        match of_agent(&sessions, &agent, rules, &mut problems) {
            Ok(sessions) => {
                found.extend(sessions.into_iter().map(|new| at_home(new, &agent, rules)));
            }
            Err(error) => tell(&mut problems, &sessions, &error),
        }
    }
    for Problem { what, why } in problems {
        tracing::warn!(%what, %why, "left out, because it cannot be read");
    }
    Ok(found)
}

/// A transcript is looked for in the folder of the agent that the key names; in
/// the folder of another one it goes under its id.
fn at_home(new: NewSession, agent: &AgentId, rules: &KeyRules) -> NewSession {
    if SessionKey::from_canonical(new.key.as_str()).agent(rules) == *agent {
        return new;
    }
    NewSession { key: key_of_id(agent, &new.entry.session_id).to_string(), ..new }
}

/// The sessions in the folder of an agent.
pub(super) fn of_agent(
    folder: &Path,
    agent: &AgentId,
    rules: &KeyRules,
    problems: &mut Problems,
) -> io::Result<Vec<NewSession>> {
    let listed = listed(folder, rules, problems);
    let mut sessions: BTreeMap<SessionKey, SessionEntry> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (key, mut entry) in listed.clone().unwrap_or_default() {
        let Ok(path) = paths::transcript(folder, &key, &entry) else { continue };
        // To open a pipe would never end.
        if path.is_file()
            && let Ok(file) = File::open(&path)
        {
            entry.transcript = facts(&file).unwrap_or_default();
        }
        taken.insert(path);
        keep_newer(&mut sessions, key, entry, agent);
    }
    for path in paths::children(folder)? {
        if taken.contains(&path) || !path.is_file() {
            continue;
        }
        let Some(id) = path.to_str().and_then(paths::stem) else { continue };
        match orphan(&path, &id, (agent, rules), listed.is_some()) {
            Ok(Some((key, entry))) => keep_newer(&mut sessions, key, entry, agent),
            Ok(None) => {}
            Err(error) => tell(problems, &path, &error),
        }
    }
    let named = |(key, entry): (SessionKey, SessionEntry)| NewSession {
        key: key.as_str().to_owned(),
        agent: agent.as_str().to_owned(),
        entry,
    };
    Ok(sessions.into_iter().map(named).collect())
}

/// A key belongs to one session; an older transcript of it, or one whose key
/// was written in another way, goes under its id.
fn keep_newer(
    sessions: &mut BTreeMap<SessionKey, SessionEntry>,
    key: SessionKey,
    entry: SessionEntry,
    agent: &AgentId,
) {
    let id = entry.session_id.clone();
    let (older, kept) = match sessions.get(&key) {
        Some(other) if other.updated_at >= entry.updated_at => (entry, other.session_id.clone()),
        _ => match sessions.insert(key, entry) {
            Some(replaced) => (replaced, id),
            None => return,
        },
    };
    if older.session_id == kept {
        return;
    }
    sessions.insert(key_of_id(agent, &older.session_id), older);
}

pub(super) fn key_of_id(agent: &AgentId, id: &str) -> SessionKey {
    SessionKey::from_canonical(format!("agent:{agent}:{}", id.to_lowercase()))
}

/// What OpenClaw's index lists; `None` when there is none that can be read.
fn listed(
    folder: &Path,
    rules: &KeyRules,
    problems: &mut Problems,
) -> Option<Vec<(SessionKey, SessionEntry)>> {
    let path = folder.join("sessions.json");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read.map_err(|error| tell(problems, &path, &error)).ok()?,
    };
    let index: Map<String, Value> =
        serde_json::from_slice(&text).map_err(|error| tell(problems, &path, &error)).ok()?;
    let mut parsed = Vec::new();
    for (key, value) in index {
        let mut trouble = |why: &dyn std::fmt::Display| {
            let what = format!("{}: {key}", path.display());
            problems.push(Problem { what, why: why.to_string() });
        };
        match serde_json::from_value::<SessionEntry>(value) {
            Ok(entry) if SessionId::parse(&entry.session_id).is_none() => {
                trouble(&"has no session id that can name a file");
            }
            Ok(mut entry) => {
                // Whatever ran there runs no more.
                if entry.status.as_deref() == Some("running") {
                    entry.status = Some("failed".into());
                }
                parsed.push((SessionKey::parse(&key, rules), entry));
            }
            Err(error) => trouble(&error),
        }
    }
    Some(parsed)
}

fn tell(problems: &mut Problems, path: &Path, why: &dyn std::fmt::Display) {
    problems.push(Problem { what: path.display().to_string(), why: why.to_string() });
}

/// A transcript that no index lists. Beside an index of OpenClaw only our own
/// transcripts count: its old ones were dropped from there on purpose.
fn orphan(
    path: &Path,
    id: &SessionId,
    (agent, rules): (&AgentId, &KeyRules),
    has_index: bool,
) -> io::Result<Option<(SessionKey, SessionEntry)>> {
    let file = File::open(path)?;
    let Some((_, header)) = head(&file)? else { return Ok(None) };
    let written = header.and_then(|header| header.session_key);
    if written.is_none() && has_index {
        return Ok(None);
    }
    let key = written.map(|key| SessionKey::parse(&key, rules)).filter(|key| !key.is_malformed());
    let key = key.unwrap_or_else(|| key_of_id(agent, id.as_str()));
    let entry = SessionEntry {
        session_id: id.as_str().to_owned(),
        session_file: Some(path.to_string_lossy().into_owned()),
        updated_at: paths::modified_ms(&file.metadata()?)?,
        transcript: facts(&file)?,
        ..SessionEntry::default()
    };
    Ok(Some((key, entry)))
}

/// Title and preview, from both ends. Messages are counted when the transcript
/// is used first: with thousands of sessions most never are.
pub(super) fn facts(file: &File) -> io::Result<TranscriptFacts> {
    let mut first = TranscriptFacts::default();
    note_all(&first_lines(file)?, &mut first);
    let mut last = TranscriptFacts::default();
    note_all(&last_lines(file)?, &mut last);
    Ok(TranscriptFacts { derived_title: first.derived_title, opening: first.opening, ..last })
}

fn note_all(lines: &[Vec<u8>], facts: &mut TranscriptFacts) {
    for line in lines {
        if let Some(Line::Entry(entry)) = Line::parse(line)
            && let Body::Message(text) = entry.body
            && let Some(message) = reading::message(text)
        {
            digest::note(facts, &message);
        }
    }
}

fn first_lines(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut forward = Forward::new(file, 0, u64::MAX)?;
    let mut lines = Vec::new();
    while lines.len() < LINES_MAX {
        let Some(line) = forward.next()? else { break };
        lines.push(line.to_vec());
    }
    Ok(lines)
}

fn last_lines(file: &File) -> io::Result<Vec<Vec<u8>>> {
    let mut backward = Backward::new(file, file.metadata()?.len());
    let mut lines = Vec::new();
    while lines.len() < LINES_MAX {
        let Some(line) = backward.next()? else { break };
        lines.push(line.to_vec());
    }
    lines.reverse();
    Ok(lines)
}
