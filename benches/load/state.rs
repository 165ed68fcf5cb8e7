//! Sessions on disk, as the gateway itself leaves them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, json};

use super::gateway::Home;

/// Texts of a conversation are a few sentences.
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog and comes back. ";

/// Where transcripts are.
const FOLDER: &str = "agents/main/sessions";
/// In milliseconds, the time of every message.
const STARTED_AT: u64 = 1_778_155_200_000;

/// Canonical key of a session that [`sessions`] made.
pub fn key(index: usize) -> String {
    format!("agent:main:bench-{index}")
}

/// Writes so many sessions of four messages each.
pub fn sessions(home: &Home, count: usize) -> anyhow::Result<()> {
    (0..count).try_for_each(|index| transcript(&home.state(), index, 1_000))?;
    index(home, count)
}

/// Writes one session with a transcript of about this size, and a short one.
pub fn long_session(home: &Home, mebibytes: u32) -> anyhow::Result<()> {
    transcript(&home.state(), 0, usize::try_from(mebibytes)? * 1024 * 1024)?;
    transcript(&home.state(), 1, 1_000)?;
    index(home, 2)
}

/// The original knows the sessions that its index names. The gateway finds the files.
fn index(home: &Home, count: usize) -> anyhow::Result<()> {
    if !home.is_original() {
        return Ok(());
    }
    let folder = home.state().join(FOLDER);
    let mut entries = Map::new();
    for index in 0..count {
        let entry = json!({
            "sessionId": id(index), "updatedAt": STARTED_AT, "sessionStartedAt": STARTED_AT,
            "sessionFile": folder.join(id(index) + ".jsonl"),
            "modelProvider": "bench", "model": "stream", "contextTokens": 200_000,
        });
        entries.insert(key(index), entry);
    }
    fs::write(folder.join("sessions.json"), serde_json::to_string(&entries)?)?;
    Ok(())
}

fn id(index: usize) -> String {
    format!("00000000-0000-4000-8000-{index:012}")
}

fn transcript(state: &Path, index: usize, bytes: usize) -> anyhow::Result<()> {
    let folder = state.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let id = id(index);
    let mut file = BufWriter::new(File::create(folder.join(format!("{id}.jsonl")))?);
    let timestamp = "2026-05-07T12:00:00.000Z";
    let header = json!({
        "type": "session", "version": 3, "id": id, "timestamp": timestamp,
        "cwd": "/tmp", "sessionKey": key(index),
    });
    writeln!(file, "{header}")?;
    let (mut written, mut number, mut parent) = (0, 0_u32, None);
    while written < bytes || number < 4 {
        let id = format!("{number:08x}");
        let line = json!({
            "type": "message", "id": id, "parentId": parent, "timestamp": timestamp,
            "message": message(index, number),
        })
        .to_string();
        writeln!(file, "{line}")?;
        written += line.len();
        number += 1;
        parent = Some(id);
    }
    file.flush()?;
    Ok(())
}

fn message(index: usize, number: u32) -> serde_json::Value {
    if number.is_multiple_of(2) {
        return json!({"role": "user", "content": format!("Question {number} of {index}?"), "timestamp": STARTED_AT});
    }
    json!({
        "role": "assistant",
        "content": [{"type": "text", "text": SENTENCE.repeat(if number == 1 { 1 } else { 30 })}],
        "api": "openai-completions", "provider": "bench", "model": "stream",
        "usage": {"input": 10, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 30,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
        "stopReason": "stop", "timestamp": STARTED_AT,
    })
}
