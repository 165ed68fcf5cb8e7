//! Finding sessions by their files.
//!
//! Promises: nothing is written; what cannot be read is left out and named.
//! OpenClaw's `sessions.json` tells the keys; without it the headers of our own
//! transcripts do. Of an index that is there and cannot be read nothing is guessed:
//! a session under another key would stand in the way of the right one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::transcript::{Backward, Body, Forward, Line, head};
use super::{AgentId, KeyRules, SessionId, SessionKey, digest, paths, reading};
use crate::store::{NewSession, SessionEntry, TranscriptFacts};
use crate::support::reading::by_text;
use crate::support::{in_shell, json_file_of_javascript, open_file};

/// How far from either end of a transcript its title and preview are looked for.
const LINES_MAX: usize = 20;
/// What a database has that no transcript tells.
const ONLY_IN_DATABASE: &str = "jobs, settings and labels of sessions, paired devices and nodes, \
    people of channels and what waits to be sent to them, links to sessions, counts of tokens";

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
        let index = paths::index(state_dir, &agent);
        // One folder that cannot be read must not keep the gateway from starting.
        match of_agent(&index, (&agent, rules), Files::Stay, &mut problems) {
            Ok(sessions) => found.extend(sessions),
            Err(error) => tell(&mut problems, &paths::folder(state_dir, &agent), &error),
        }
    }
    for Problem { what, why } in problems {
        tracing::warn!(%what, %why, "left out, because it cannot be read");
    }
    Ok(found)
}

/// What else was in the database that a new one, or none, stands in the place of; `None` when
/// no transcript tells that there was one: none was begun here. Blocks.
pub fn lost_with_database(state_dir: &Path) -> Option<&'static str> {
    let (agents, _) = paths::agents(state_dir).unwrap_or_default();
    let folders = agents.iter().map(|agent| paths::folder(state_dir, agent));
    let mut files = folders.flat_map(|folder| paths::children(&folder).unwrap_or_default());
    files.any(|path| is_begun_here(&path)).then_some(ONLY_IN_DATABASE)
}

/// Whether a transcript has the key in its header that only we write there.
fn is_begun_here(path: &Path) -> bool {
    let is_transcript = path.to_str().and_then(paths::stem).is_some();
    let key = || head(&paths::open(path).ok()?).ok()??.1?.session_key;
    is_transcript && key().is_some()
}

/// What becomes of the files of sessions that are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// They stay in the folder where they are.
    Stay,
    /// They may go to the folder of another agent.
    Move,
}

/// The sessions of the index of an agent, and of the folder that it is in. Those whose keys
/// name another one keep them where files can move there; all others are of this agent.
pub(super) fn of_agent(
    index: &Path,
    (agent, rules): (&AgentId, &KeyRules),
    files: Files,
    problems: &mut Problems,
) -> io::Result<Vec<NewSession>> {
    let folder = index.parent().unwrap_or(index);
    let listed = listed(index, agent, rules, problems);
    let has_index = listed.is_some();
    let mut sessions: BTreeMap<SessionKey, SessionEntry> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (key, mut entry) in listed.unwrap_or_default() {
        let Ok(path) = paths::transcript(folder, &key, &entry) else { continue };
        let is_here = is_there(&path, files);
        // One index may list the sessions of several agents; those of others are in theirs.
        let is_others = key.names_agent() && key.agent(rules) != *agent;
        if files == Files::Stay && is_others && !is_here {
            continue;
        }
        if is_here && let Ok(file) = open(&path, files) {
            entry.transcript = facts(&file).unwrap_or_default();
        }
        taken.insert(path);
        let key = at_home(key, &entry, (agent, rules), files, problems);
        keep_newer(&mut sessions, key, entry, agent);
    }
    for path in paths::children(folder)? {
        if taken.contains(&path) || !is_there(&path, files) {
            continue;
        }
        let Some(id) = path.to_str().and_then(paths::stem) else { continue };
        let found = open(&path, files)
            .and_then(|file| orphan((&path, &file), &id, (agent, rules), has_index));
        match found {
            Ok(Some((key, entry))) => {
                let key = at_home(key, &entry, (agent, rules), files, problems);
                keep_newer(&mut sessions, key, entry, agent);
            }
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

/// Whether it is a file that may be opened: where files stay, no link is one.
fn is_there(path: &Path, files: Files) -> bool {
    path.is_file() && (files == Files::Move || !path.is_symlink())
}

/// Opens such a file, if it is still one.
fn open(path: &Path, files: Files) -> io::Result<File> {
    match files {
        Files::Stay => paths::open(path),
        Files::Move => open_file(path),
    }
}

/// A transcript is looked for in the folder of the agent that the key names; one that
/// stays in the folder of another agent goes under its id.
fn at_home(
    key: SessionKey,
    entry: &SessionEntry,
    (agent, rules): (&AgentId, &KeyRules),
    files: Files,
    problems: &mut Problems,
) -> SessionKey {
    let is_moved = files == Files::Move;
    if key.agent(rules) == *agent || is_moved && key.names_agent() {
        return key;
    }
    let by_id = key_of_id(agent, &entry.session_id);
    // At a start nothing is lost by that: what is told there is what was left out.
    if is_moved {
        let why = format!("is in the folder of another agent; this one is now {by_id}");
        problems.push(Problem { what: key.to_string(), why });
    }
    by_id
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

/// What OpenClaw's index lists: nothing when it cannot be read; `None` when there
/// is none.
fn listed(
    path: &Path,
    agent: &AgentId,
    rules: &KeyRules,
    problems: &mut Problems,
) -> Option<Vec<(SessionKey, SessionEntry)>> {
    let index = match read_index(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tell(problems, path, &format!("{error}; {}", remedy(path)));
            return Some(Vec::new());
        }
        Ok(index) => index,
    };
    let mut parsed = Vec::new();
    for (key, value) in index {
        let mut trouble = |of: &str, why: &dyn std::fmt::Display| {
            let what = format!("{}: {key}{of}", path.display());
            problems.push(Problem { what, why: why.to_string() });
        };
        let read = read_entry(value, &mut |member, why| trouble(&format!(": {member}"), why));
        match read {
            Ok(entry) if SessionId::parse(&entry.session_id).is_none() => {
                trouble("", &"has no session id that can name a file");
            }
            Ok(mut entry) => {
                // Whatever ran there runs no more.
                if entry.status.as_deref() == Some("running") {
                    entry.status = Some("failed".into());
                }
                parsed.push((SessionKey::parse_for(&key, agent, rules), entry));
            }
            Err(error) => trouble("", &error),
        }
    }
    Some(parsed)
}

pub(super) fn read_index(path: &Path) -> io::Result<Map<String, Value>> {
    match json_file_of_javascript(path)? {
        Value::Object(index) => Ok(index),
        _ => Err(io::Error::other("it is no list of sessions")),
    }
}

/// What to do about an index that cannot be read. Only one of ours that is new is
/// filled at a start.
pub(super) fn remedy(index: &Path) -> String {
    let agents = index.ancestors().nth(3).filter(|folder| folder.ends_with("agents"));
    let state_dir = agents.and_then(Path::parent).map(in_shell);
    let state_dir = state_dir.as_deref().unwrap_or("<state dir>");
    format!(
        "the sessions that only this file names are not known: mend it or move it away, stop the \
         gateway and run `clawgate import --from {state_dir}`"
    )
}

/// An entry; a member of another kind than ours costs only itself, and is told.
fn read_entry(
    value: Value,
    tell: &mut dyn FnMut(&str, &dyn std::fmt::Display),
) -> Result<SessionEntry, String> {
    let error = match by_text(&value) {
        Ok(entry) => return Ok(entry),
        Err(error) => error,
    };
    let Value::Object(mut members) = value else { return Err(error) };
    members.retain(|name, value| {
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        let read = by_text::<SessionEntry>(&alone);
        read.inspect_err(|error| tell(name.as_str(), error)).is_ok()
    });
    by_text(&Value::Object(members))
}

fn tell(problems: &mut Problems, path: &Path, why: &dyn std::fmt::Display) {
    problems.push(Problem { what: path.display().to_string(), why: why.to_string() });
}

/// A transcript that no index lists. Beside an index of OpenClaw only our own
/// transcripts count: its old ones were dropped from there on purpose.
fn orphan(
    (path, file): (&Path, &File),
    id: &SessionId,
    (agent, rules): (&AgentId, &KeyRules),
    has_index: bool,
) -> io::Result<Option<(SessionKey, SessionEntry)>> {
    let Some((_, header)) = head(file)? else { return Ok(None) };
    let written = header.and_then(|header| header.session_key);
    if written.is_none() && has_index {
        return Ok(None);
    }
    let key = written.map(|key| SessionKey::parse_for(&key, agent, rules));
    let key = key.filter(|key| !key.is_malformed());
    let key = key.unwrap_or_else(|| key_of_id(agent, id.as_str()));
    let entry = SessionEntry {
        session_id: id.as_str().to_owned(),
        session_file: Some(path.to_string_lossy().into_owned()),
        updated_at: paths::modified_ms(&file.metadata()?)?,
        transcript: facts(file)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The keys that an index gives beside these transcripts, and what is told of it.
    fn told(index: &str, transcripts: &[&str], files: Files) -> (Vec<String>, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("agents/ops/sessions");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("sessions.json"), index).unwrap();
        for id in transcripts {
            fs::write(folder.join(format!("{id}.jsonl")), "").unwrap();
        }
        let (agent, rules) = (AgentId::normalize("ops"), KeyRules::default());
        let mut problems = Problems::new();
        let index = folder.join("sessions.json");
        let found = of_agent(&index, (&agent, &rules), files, &mut problems).unwrap();
        let tell = |Problem { what, why }: Problem| {
            let text = format!("{what}: {why}");
            text.replace(&home.path().display().to_string(), "~")
        };
        (found.into_iter().map(|new| new.key).collect(), problems.into_iter().map(tell).collect())
    }

    #[test]
    fn a_member_of_another_kind_is_named_and_its_session_stays() {
        let (keys, said) = told(
            r#"{"main": {"sessionId": "a", "updatedAt": "soon", "label": 7, "odd": [1]},
            "agent:main:x": {"sessionId": "b"}, "lost": {"sessionId": 5}, "none": 5}"#,
            &["b"],
            Files::Stay,
        );
        assert_eq!(keys, ["agent:ops:b", "agent:ops:main"]);
        let at = "~/agents/ops/sessions/sessions.json";
        let expected = [
            ("main: updatedAt", "invalid type: string \"soon\""),
            ("main: label", "invalid type: integer `7`, expected a string"),
            ("lost: sessionId", "invalid type: integer `5`, expected a string"),
            ("lost", "has no session id that can name a file"),
            ("none", "invalid type: integer `5`, expected struct SessionEntry"),
        ];
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (said, (what, why)) in said.iter().zip(expected) {
            assert!(said.starts_with(&format!("{at}: {what}: {why}")), "{said}");
        }
    }

    #[test]
    fn a_session_of_another_agent_keeps_its_key_where_its_file_can_move() {
        let index = r#"{"agent:main:x": {"sessionId": "a"}, "agent:ops:x": {"sessionId": "b"},
            "global": {"sessionId": "c"}, "main": {"sessionId": "d"}}"#;
        let (keys, said) = told(index, &[], Files::Move);
        assert_eq!(keys, ["agent:main:x", "agent:ops:c", "agent:ops:main", "agent:ops:x"]);
        assert_eq!(
            said,
            ["global: is in the folder of another agent; this one is now agent:ops:c"]
        );
        let own = ["agent:ops:a", "agent:ops:c", "agent:ops:main", "agent:ops:x"];
        for (transcripts, expected) in [(&["a"][..], &own[..]), (&[][..], &own[1..])] {
            let (keys, said) = told(index, transcripts, Files::Stay);
            assert_eq!(keys, expected);
            assert_eq!(said, [""; 0]);
        }
    }

    #[test]
    fn a_transcript_that_was_begun_here_tells_of_a_database_and_others_do_not() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("agents/ops/sessions");
        assert_eq!(lost_with_database(home.path()), None);
        fs::create_dir_all(folder.join("folder.jsonl")).unwrap();
        fs::write(folder.join("bare.jsonl"), "{\"role\":\"user\"}\n").unwrap();
        fs::write(folder.join("torn.jsonl"), "{\"type\":").unwrap();
        fs::write(folder.join("theirs.jsonl"), "{\"type\":\"session\",\"id\":\"a\"}\n").unwrap();
        let ours = "{\"type\":\"session\",\"id\":\"a\",\"sessionKey\":\"agent:ops:x\"}\n";
        fs::write(folder.join("a.jsonl.deleted.x"), ours).unwrap();
        assert_eq!(lost_with_database(home.path()), None);
        fs::write(folder.join("a.jsonl"), ours).unwrap();
        assert_eq!(lost_with_database(home.path()), Some(ONLY_IN_DATABASE));
    }

    #[test]
    fn of_an_index_that_cannot_be_read_it_is_told_what_to_do() {
        let (keys, said) = told("{ no json", &[], Files::Stay);
        assert_eq!(keys, [""; 0]);
        let what = "~/agents/ops/sessions/sessions.json: key must be a string";
        let remedy = "mend it or move it away, stop the gateway and run `clawgate import --from ~`";
        assert!(said[0].starts_with(what) && said[0].ends_with(remedy), "{said:?}");
        assert_eq!(said.len(), 1);
    }
}
