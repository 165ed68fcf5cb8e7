//! A transcript that tests append to without the writer's thread.

use std::path::Path;

use serde_json::Map;

use crate::support::json;

use super::file::OpenTranscript;
use super::writer::{Birth, NewEntry, NewKind, Place};
use super::{Position, TranscriptFormat};

/// An open transcript.
pub struct Opened {
    place: Place,
    file: OpenTranscript,
    count: u32,
}

/// Where a message went.
pub struct Appended {
    pub seq: u64,
    pub position: Position,
}

impl Opened {
    /// Opens the file at `path`, of which this is known.
    pub fn new(path: &Path, format: TranscriptFormat, known: Position) -> Self {
        let place = place(path, format, known);
        let file = OpenTranscript::open(&place).unwrap();
        Self { place, file, count: 0 }
    }

    /// Appends what a user says.
    pub fn say(&mut self, text: &str) -> Appended {
        self.append(said(text))
    }

    /// Appends a summary that keeps nothing.
    pub fn sum_up(&mut self, summary: &str) -> Appended {
        let mut members = Map::new();
        members.insert("summary".into(), summary.into());
        self.append(NewKind::Compaction { members })
    }

    fn append(&mut self, kind: NewKind) -> Appended {
        self.count += 1;
        let placed = self.file.append(&self.place, &entry(self.count, kind)).unwrap();
        Appended { seq: placed.position.messages, position: placed.position }
    }
}

/// Where a transcript is, of which this is known.
pub(super) fn place(path: &Path, format: TranscriptFormat, known: Position) -> Place {
    let birth = Birth {
        format,
        session_id: "s".into(),
        session_key: "agent:main:main".into(),
        cwd: "/w".into(),
        timestamp: "2026-11-22T03:35:28.398Z".into(),
        parent: None,
        copied: None,
    };
    Place { path: path.to_owned(), birth, known }
}

/// What a user says.
pub(super) fn said(text: &str) -> NewKind {
    let content = [json!({"type": "text", "text": text})];
    let json = json!({"role": "user", "content": content, "timestamp": 1}).to_string();
    NewKind::Message { json, idempotency_key: None }
}

/// An entry with an id of this number.
pub(super) fn entry(number: u32, kind: NewKind) -> NewEntry {
    let id = format!("{:08x}", 0xe000_0000_u32 + number);
    NewEntry { id, timestamp: "2026-11-22T03:35:29.000Z".into(), kind }
}
