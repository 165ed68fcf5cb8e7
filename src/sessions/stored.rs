//! Sessions on disk, read beside a gateway or without one.
//!
//! Promises: nothing is written. Must not: know what readers make of it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::Value;

use super::error::{At, SessionError};
use super::transcript::{Birth, Body, Forward, Kept, Line, bare_id, head, header};
use super::{KeyRules, SessionKey, StoredTranscript, TranscriptFormat, paths, rebuild, time};
use crate::store::{SessionEntry, sessions_beside};
use crate::support::{json, sort};

/// Where sessions are looked for.
#[derive(Debug, Clone)]
pub struct Source {
    /// The state folder.
    pub state_dir: PathBuf,
    /// The index; without it the files tell which sessions there are.
    pub database: PathBuf,
    /// How keys become canonical.
    pub rules: KeyRules,
}

/// A session on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    /// Its canonical key.
    pub key: SessionKey,
    /// What is known of it.
    pub entry: SessionEntry,
    /// Its transcript, which need not be there yet.
    pub file: PathBuf,
}

/// All sessions, the last changed first.
pub fn stored_sessions(source: &Source) -> Result<Vec<StoredSession>, SessionError> {
    let Source { state_dir, database, rules } = source;
    let mut found: Vec<(String, SessionEntry)> = Vec::new();
    let index = if database.exists() { sessions_beside(database)? } else { None };
    if let Some(rows) = index {
        found.extend(rows.into_iter().map(|row| (row.key, row.entry)));
    } else {
        let new = rebuild::find(state_dir, rules).at("look for sessions in", state_dir)?;
        found.extend(new.into_iter().map(|new| (new.key, new.entry)));
        sort::by_key(&mut found, |(_, entry)| std::cmp::Reverse(entry.updated_at));
    }
    let stored = |(key, entry): (String, SessionEntry)| {
        let key = SessionKey::from_canonical(key);
        let folder = paths::folder(state_dir, &key.agent(rules));
        let file = paths::transcript(&folder, &key, &entry)?;
        Ok(StoredSession { key, entry, file })
    };
    found.into_iter().map(stored).collect()
}

impl StoredSession {
    /// Opens its transcript; `None` when it has none.
    pub fn open(&self) -> io::Result<Option<File>> {
        match paths::open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }
}

impl StoredTranscript<'_> {
    /// Writes the transcript of `session` in one of our own formats; what is in
    /// that format already is copied, without lines that cannot be read. Answers
    /// how many lines were written.
    pub fn write_as(
        &self,
        format: TranscriptFormat,
        session: &StoredSession,
        to: &mut dyn Write,
    ) -> io::Result<u64> {
        let is_same = head(self.file)?.is_some_and(|(found, _)| found == format);
        let birth = self.birth(session)?;
        let mut lines = Forward::new(self.file, 0, self.length)?;
        let mut written = 0_u64;
        let mut write = |line: &[u8]| {
            to.write_all(line)?;
            to.write_all(b"\n")?;
            written = written.saturating_add(1);
            io::Result::Ok(())
        };
        if format == TranscriptFormat::OpenClaw && !is_same {
            write(header(&birth).as_bytes())?;
        }
        let (mut seq, mut parent) = (0_u64, Value::Null);
        let mut numbers = Numbers::default();
        while let Some(line) = lines.next()? {
            let Some(parsed) = Line::parse(line) else { continue };
            if is_same {
                write(line.trim_ascii_end())?;
                continue;
            }
            let next = seq.saturating_add(1);
            numbers.of_lines.push(next);
            let Line::Entry(entry) = parsed else { continue };
            if entry.body.is_counted() {
                seq = next;
            }
            numbers.of_ids.insert(entry.id.unwrap_or_else(|| bare_id(next)), next);
            match (format, entry.body) {
                (TranscriptFormat::Messages, Body::Message(text)) => write(text.as_bytes())?,
                (_, Body::Compaction { first_kept, .. }) => {
                    let Some(mut whole) = Line::json(line) else { continue };
                    // In a transcript that was cut, its own may be the number of a message.
                    let id = Value::from(bare_id(seq));
                    whole["id"] = id.clone();
                    numbers.keep(&mut whole, first_kept, seq);
                    if format == TranscriptFormat::OpenClaw {
                        whole["parentId"] = std::mem::replace(&mut parent, id);
                    } else if let Value::Object(members) = &mut whole {
                        members.shift_remove("parentId");
                    }
                    write(whole.to_string().as_bytes())?;
                }
                (TranscriptFormat::OpenClaw, Body::Message(text)) => {
                    let Some(message) = super::reading::value(text) else { continue };
                    let millis = message.get("timestamp").and_then(Value::as_u64);
                    let at = time::iso(millis.unwrap_or_default());
                    let id = Value::from(bare_id(seq));
                    let line = json!({"type": "message", "id": id, "parentId": parent,
                        "timestamp": at, "message": message});
                    parent = id;
                    write(line.to_string().as_bytes())?;
                }
                _ => {}
            }
        }
        Ok(written)
    }

    fn birth(&self, session: &StoredSession) -> io::Result<Birth> {
        let entry = &session.entry;
        let began = entry.session_started_at.unwrap_or(entry.updated_at);
        Ok(Birth {
            format: TranscriptFormat::OpenClaw,
            session_id: entry.session_id.clone(),
            session_key: session.key.as_str().to_owned(),
            cwd: self.cwd()?.unwrap_or_default(),
            timestamp: time::iso(began),
            parent: None,
            copied: None,
        })
    }
}

/// Where no message has an id it is called by its number; what is left out, by that of the
/// next one.
#[derive(Default)]
struct Numbers {
    of_ids: HashMap<String, u64>,
    /// Of the lines that can be read.
    of_lines: Vec<u64>,
}

impl Numbers {
    /// Has a summary with the number `own` say by a number from which message on it keeps them:
    /// lines have other places here. What is not there keeps nothing, as the summary itself.
    fn keep(&self, summary: &mut Value, first: Option<Kept>, own: u64) {
        let number = match first {
            None => return,
            Some(Kept::Id(id)) => self.of_ids.get(&id),
            Some(Kept::Line(line)) => {
                usize::try_from(line).ok().and_then(|line| self.of_lines.get(line))
            }
        };
        summary["firstKeptEntryId"] = bare_id(number.copied().unwrap_or(own)).into();
        if let Value::Object(members) = summary {
            members.shift_remove("firstKeptEntryIndex");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context;
    use super::super::transcript::{Position, position};
    use super::*;

    fn file(text: &str) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        (file, u64::try_from(text.len()).unwrap())
    }

    /// The same transcript in this format.
    fn written(text: &str, format: TranscriptFormat) -> String {
        let (file, length) = file(text);
        let session = StoredSession {
            key: SessionKey::from_canonical("agent:main:x"),
            entry: SessionEntry { session_id: "x".into(), ..SessionEntry::default() },
            file: PathBuf::from("x.jsonl"),
        };
        let mut out = Vec::new();
        StoredTranscript::new(&file, length, None).write_as(format, &session, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What the model reads of a transcript.
    fn read(text: &str) -> Vec<String> {
        let (file, length) = file(text);
        let end = position(&file, length, &Position::default()).unwrap();
        let entries = context::read(&file, &end).unwrap();
        entries.iter().map(|entry| entry.message.text()).collect()
    }

    #[test]
    fn a_summary_keeps_the_same_messages_where_they_have_numbers() {
        for (first, expected) in [
            ("b", &["b", "c", "d", "e"][..]),
            ("note", &["c", "d", "e"]),
            ("d", &["d", "e"]),
            ("s", &["e"]),
            ("gone", &["e"]),
        ] {
            let mut parent = Value::Null;
            let mut tree = vec![json!({"type": "session", "version": 3, "id": "x"}).to_string()];
            for id in ["a", "s0", "b", "note", "c", "d", "s", "e"] {
                let mut line = json!({"type": "message", "id": id, "parentId": parent,
                    "message": {"role": "user", "content": id}});
                if id == "note" {
                    line["type"] = "model_change".into();
                } else if id.starts_with('s') {
                    line["type"] = "compaction".into();
                    line["summary"] = "S".into();
                    line["firstKeptEntryId"] = if id == "s" { first } else { "a" }.into();
                }
                tree.push(line.to_string());
                parent = id.into();
            }
            let tree = tree.join("\n") + "\n";
            assert_eq!(read(&tree)[1..], *expected, "{first}");
            let bare = written(&tree, TranscriptFormat::Messages);
            assert_eq!(read(&bare), read(&tree), "{first}: {bare}");
        }
    }

    #[test]
    fn a_summary_that_names_a_line_keeps_the_same_messages_where_lines_have_other_places() {
        let said = |text: &str| {
            json!({"type": "message", "message": {"role": "user", "content": text}}).to_string()
        };
        let bare = |text: &str| json!({"role": "user", "content": text}).to_string();
        let summed = |line: u64| {
            json!({"type": "compaction", "summary": "S", "firstKeptEntryIndex": line}).to_string()
        };
        let header = json!({"type": "session", "id": "x"}).to_string();
        let note = json!({"type": "model_change"}).to_string();
        for (line, kept) in [(1, &["a", "b", "c"][..]), (2, &["b", "c"]), (4, &["c"]), (9, &[])] {
            let lines = [header.clone(), said("a"), note.clone(), said("b"), said("c")];
            let text = [&lines[..], &[summed(line), said("d")]].concat().join("\n") + "\n";
            assert_eq!(read(&text)[1..], [kept, &["d"]].concat(), "{line}");
            let other = written(&text, TranscriptFormat::Messages);
            assert_eq!(read(&other), read(&text), "{line}: {other}");
        }
        // As it was written without another word for the line.
        let mut summary = Line::json(summed(1).as_bytes()).unwrap();
        summary["id"] = "00000003".into();
        let text = [bare("a"), bare("b"), summary.to_string(), bare("c")].join("\n") + "\n";
        assert_eq!(read(&text)[1..], ["b", "c"]);
        let tree = written(&text, TranscriptFormat::OpenClaw);
        assert_eq!(read(&tree), read(&text), "{tree}");
    }

    #[test]
    fn every_entry_has_an_id_of_its_own_also_where_a_summary_has_the_number_of_another() {
        let said = |text: &str| json!({"role": "user", "content": text}).to_string();
        let summed = |id: &str, first: &str| {
            json!({"type": "compaction", "id": id, "summary": "S", "firstKeptEntryId": first})
                .to_string()
        };
        for (first, kept) in [("00000004", &["c", "d"][..]), ("00000009", &[])] {
            // As it is when lines before it were cut off.
            let old = summed("00000004", "00000001");
            let lines = [said("a"), old, said("b"), said("c"), said("d")];
            let text = [&lines[..], &[summed("00000009", first), said("e")]].concat().join("\n");
            let text = text + "\n";
            assert_eq!(read(&text)[1..], [kept, &["e"]].concat(), "{first}");
            let tree = written(&text, TranscriptFormat::OpenClaw);
            assert_eq!(read(&tree), read(&text), "{tree}");
            let ids: Vec<_> = tree.lines().filter_map(|line| Line::json(line.as_bytes())).collect();
            let ids: Vec<_> = ids[1..].iter().map(|it| it["id"].as_str().unwrap()).collect();
            let expected: Vec<_> = (1..=7).map(bare_id).collect();
            assert_eq!(ids, expected);
        }
    }

    #[test]
    fn a_summary_with_half_a_character_is_written_too() {
        let lines = [
            r#"{"role":"user","content":"a","timestamp":1}"#,
            r#"{"type":"compaction","id":"00000002","summary":"so \ud83e far"}"#,
            "",
        ];
        let out = written(&lines.join("\n"), TranscriptFormat::OpenClaw);
        let last = Line::json(out.lines().last().unwrap().as_bytes()).unwrap();
        let expected = json!({"type": "compaction", "id": "00000002",
            "summary": "so \u{fffd} far", "parentId": "00000001"});
        assert_eq!((out.lines().count(), last), (3, expected));
    }
}
