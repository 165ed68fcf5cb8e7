//! Finding sessions by their files.
//!
//! Promises: nothing is written; what cannot be read is left out and named in
//! the log. OpenClaw's `sessions.json` tells the keys; without it the headers
//! of our own transcripts do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value};

use super::transcript::{Backward, Body, Line, head};
use super::{AgentId, KeyRules, SessionId, SessionKey, digest, paths, reading};
use crate::store::{NewSession, SessionEntry, TranscriptFacts};

/// How far from either end of a transcript its title and preview are looked for.
const LINES_MAX: usize = 20;

/// All sessions below a state folder.
pub(super) fn find(state_dir: &Path, rules: &KeyRules) -> io::Result<Vec<NewSession>> {
    let mut found = Vec::new();
    let (agents, others) = paths::agents(state_dir)?;
    for folder in others {
        tracing::warn!(folder = %folder.display(), "not the name of an agent; left out");
    }
    for agent in agents {
        let sessions = paths::folder(state_dir, &agent);
        // One folder that cannot be read must not keep the gateway from starting.
        match of_agent(&sessions, &agent, rules) {
            Ok(sessions) => found.extend(sessions),
            Err(error) => warn(&sessions, &error),
        }
    }
    Ok(found)
}

fn of_agent(folder: &Path, agent: &AgentId, rules: &KeyRules) -> io::Result<Vec<NewSession>> {
    let listed = listed(folder, rules);
    let mut sessions: BTreeMap<SessionKey, SessionEntry> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (key, mut entry) in listed.clone().unwrap_or_default() {
        let Ok(path) = paths::transcript(folder, &key, &entry) else { continue };
        if let Ok(file) = File::open(&path) {
            entry.transcript = facts(&file).unwrap_or_default();
        }
        taken.insert(path);
        sessions.insert(key, entry);
    }
    for path in paths::children(folder)? {
        if taken.contains(&path) {
            continue;
        }
        let Some(id) = path.to_str().and_then(paths::stem) else { continue };
        match orphan(&path, &id, agent, listed.is_some()) {
            Ok(Some((key, entry))) => keep_newer(&mut sessions, key, entry, agent),
            Ok(None) => {}
            Err(error) => warn(&path, &error),
        }
    }
    let named = |(key, entry): (SessionKey, SessionEntry)| NewSession {
        key: key.as_str().to_owned(),
        agent: agent.as_str().to_owned(),
        entry,
    };
    Ok(sessions.into_iter().map(named).collect())
}

/// A key belongs to one session; an older transcript of it goes under its id.
fn keep_newer(
    sessions: &mut BTreeMap<SessionKey, SessionEntry>,
    key: SessionKey,
    entry: SessionEntry,
    agent: &AgentId,
) {
    let older = match sessions.get(&key) {
        Some(other) if other.updated_at >= entry.updated_at => entry,
        _ => match sessions.insert(key, entry) {
            Some(replaced) => replaced,
            None => return,
        },
    };
    sessions.insert(key_of_id(agent, &older.session_id), older);
}

fn key_of_id(agent: &AgentId, id: &str) -> SessionKey {
    SessionKey::from_canonical(format!("agent:{agent}:{}", id.to_lowercase()))
}

/// What OpenClaw's index lists; `None` when there is none that can be read.
fn listed(folder: &Path, rules: &KeyRules) -> Option<Vec<(SessionKey, SessionEntry)>> {
    let path = folder.join("sessions.json");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read.map_err(|error| warn(&path, &error)).ok()?,
    };
    let index: Map<String, Value> =
        serde_json::from_slice(&text).map_err(|error| warn(&path, &error)).ok()?;
    let parsed = index.into_iter().filter_map(|(key, value)| {
        let entry: SessionEntry =
            serde_json::from_value(value).map_err(|error| warn(&path, &error)).ok()?;
        SessionId::parse(&entry.session_id)?;
        Some((SessionKey::parse(&key, rules), entry))
    });
    Some(parsed.collect())
}

fn warn(path: &Path, error: &dyn std::error::Error) {
    tracing::warn!(path = %path.display(), %error, "sessions left out, because this cannot be read");
}

/// A transcript that no index lists. Beside an index of OpenClaw only our own
/// transcripts count: its old ones were dropped from there on purpose.
fn orphan(
    path: &Path,
    id: &SessionId,
    agent: &AgentId,
    has_index: bool,
) -> io::Result<Option<(SessionKey, SessionEntry)>> {
    let file = File::open(path)?;
    let Some((_, header)) = head(&file)? else { return Ok(None) };
    let key = header.and_then(|header| header.session_key).map(SessionKey::from_canonical);
    if key.is_none() && has_index {
        return Ok(None);
    }
    let key = key.unwrap_or_else(|| key_of_id(agent, id.as_str()));
    let since_epoch = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let entry = SessionEntry {
        session_id: id.as_str().to_owned(),
        session_file: Some(path.to_string_lossy().into_owned()),
        updated_at: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
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
    Ok(TranscriptFacts { derived_title: first.derived_title, ..last })
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
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0))?;
    reader.split(b'\n').take(LINES_MAX).collect()
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
