//! A session as a file of Claude Code.
//!
//! Owns: which lines such a file has, and what it is called. Promises: one entry
//! in memory at a time. Must not: open or make files.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::format::{Format, Ids, Line, SessionFacts, Sidechain, slug, summary_line, title_line};
use crate::sessions::{EntryPlace, SessionEntry, SessionKey, StoredTranscript};

/// The file of a session, below the folder `projects`.
pub fn file(facts: &SessionFacts) -> PathBuf {
    let folder = PathBuf::from(slug(&facts.cwd));
    match &facts.sidechain {
        None => folder.join(format!("{}.jsonl", facts.session_id)),
        Some(side) => {
            let folder = folder.join(&facts.session_id).join("subagents");
            folder.join(format!("agent-{}.jsonl", side.agent_id))
        }
    }
}

/// What is known of a sub-agent with this key, of a session that is known.
pub fn sidechain(of: &SessionFacts, key: &SessionKey, entry: &SessionEntry) -> SessionFacts {
    let sidechain = Sidechain {
        own_session_id: entry.session_id.clone(),
        agent_id: Ids::agent(key.as_str()),
        parent_tool_use_id: None,
    };
    SessionFacts { sidechain: Some(sidechain), ..of.clone() }
}

/// Writes all lines of a session; answers how many.
pub fn write(
    transcript: &StoredTranscript<'_>,
    facts: &Arc<SessionFacts>,
    entry: &SessionEntry,
    to: &mut dyn Write,
) -> io::Result<u64> {
    let mut format = Format::new(Arc::clone(facts), None);
    let mut written = 0_u64;
    let mut write = |line: Line| {
        written = written.saturating_add(1);
        serde_json::to_writer(&mut *to, &line.value)?;
        to.write_all(b"\n")
    };
    for stored in transcript.entries(EntryPlace::default())? {
        format.push(&stored?).into_iter().try_for_each(&mut write)?;
    }
    if facts.sidechain.is_none() {
        if let (Some(name), Some(leaf)) = (&entry.display_name, format.last()) {
            write(summary_line(name, leaf))?;
        }
        if let Some(label) = &entry.label {
            write(title_line(&facts.session_id, label))?;
        }
    }
    Ok(written)
}
