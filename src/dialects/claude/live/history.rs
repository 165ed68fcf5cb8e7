//! What was said before.
//!
//! Promises: lines come as they stand in the file, without what is heavy; of a
//! transcript only what is sent is kept in memory. Must not: know who reads.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use uuid::Uuid;

use super::frame::{self, Frame};
use super::teller::lighten;
use crate::dialects::claude::format::{Format, Line, SessionFacts};
use crate::dialects::claude::history::{Histories, facts};
use crate::protocol::message::AgentMessage;
use crate::registry::Services;
use crate::sessions::{
    EntryBody, EntryPlace, SessionEntry, SessionError, SessionKey, StoredTranscript,
};

/// Entries whose news may still be on their way when they were read.
const RECENT: usize = 256;

/// Bytes that are told again after a line; for more, a client begins anew.
pub const AGAIN_MAX: usize = 16 * 1024 * 1024;

/// Whose history.
pub type Of<'a> = (&'a SessionKey, &'a SessionEntry);

/// What a connection is told first.
#[derive(Debug)]
pub struct History {
    /// `session_info`; none when only the rest is told.
    pub first: Option<String>,
    /// The lines, in order.
    pub lines: Vec<Frame>,
}

/// How a transcript ends.
#[derive(Debug)]
pub struct End {
    /// What goes on behind it.
    pub format: Format,
    /// The last entries.
    pub recent: HashSet<String>,
    /// What its answers have cost, in US dollars.
    pub spent: f64,
}

/// What all lines of a session say of it.
///
/// # Errors
/// When the transcript cannot be read.
pub async fn facts_of(services: &Services, of: Of<'_>) -> Result<Arc<SessionFacts>, SessionError> {
    let workspace = services.runs.parts().agent_of(of.0).workspace;
    let mut facts = facts(&services.sessions, of, workspace).await?;
    if let Some(mode) = &of.1.permission_mode {
        facts.permission_mode.clone_from(mode);
    }
    Ok(Arc::new(facts))
}

/// The newest pages; or what comes after the line `from`, if there is that and it is
/// not too much.
///
/// # Errors
/// When the transcript cannot be read.
pub async fn read(
    services: &Services,
    histories: &Histories,
    of: Of<'_>,
    from: Option<Uuid>,
) -> Result<History, SessionError> {
    let facts = facts_of(services, of).await?;
    if let Some(from) = from
        && let Some(lines) = after(services, of, Arc::clone(&facts), from).await?
    {
        return Ok(History { first: None, lines });
    }
    let burst = histories.burst(&services.sessions, of, facts).await?;
    let info = frame::session_info(burst.total_pages, burst.lowest_page).to_string();
    let lines = burst.lines.into_iter().map(of_line).collect();
    Ok(History { first: Some(info), lines })
}

/// The lines after this one; `None` when it is nowhere, or too far away.
async fn after(
    services: &Services,
    (key, entry): Of<'_>,
    facts: Arc<SessionFacts>,
    from: Uuid,
) -> Result<Option<Vec<Frame>>, SessionError> {
    let find = move |transcript: StoredTranscript<'_>| {
        let mut format = Format::new(facts, None);
        let (mut found, mut bytes) = (None::<Vec<Frame>>, 0);
        for entry in transcript.entries(EntryPlace::default())? {
            for line in format.push(&entry?) {
                let is_it = line.uuid == Some(from);
                match &mut found {
                    Some(lines) => {
                        let line = of_line(line);
                        bytes += line.text.len();
                        if bytes > AGAIN_MAX {
                            return Ok(None);
                        }
                        lines.push(line);
                    }
                    None if is_it => found = Some(Vec::new()),
                    None => {}
                }
            }
        }
        Ok(found)
    };
    services.sessions.read_transcript(key, entry, find).await
}

/// Reads to the end.
///
/// # Errors
/// When the transcript cannot be read.
pub async fn end_of(
    services: &Services,
    (key, entry): Of<'_>,
    facts: &Arc<SessionFacts>,
) -> Result<End, SessionError> {
    let begin = Arc::clone(facts);
    let walk = move |transcript: StoredTranscript<'_>| walk(&transcript, begin).map(Some);
    let end = services.sessions.read_transcript(key, entry, walk).await?;
    Ok(end.unwrap_or_else(|| End {
        format: Format::new(Arc::clone(facts), None),
        recent: HashSet::new(),
        spent: 0.0,
    }))
}

fn walk(transcript: &StoredTranscript<'_>, facts: Arc<SessionFacts>) -> io::Result<End> {
    let mut format = Format::new(facts, None);
    let (mut recent, mut spent) = (VecDeque::new(), 0.0);
    for entry in transcript.entries(EntryPlace::default())? {
        let entry = entry?;
        if let EntryBody::Message(AgentMessage::Assistant(message)) = &entry.body {
            spent += message.usage.cost.total;
        }
        format.push(&entry);
        recent.push_back(entry.id);
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }
    Ok(End { format, recent: recent.into_iter().collect(), spent })
}

/// A line as it stands in the file.
fn of_line(line: Line) -> Frame {
    let mut value = line.value;
    lighten(&mut value);
    Frame::line(line.uuid, &value)
}
