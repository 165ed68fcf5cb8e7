//! What was said before, in pages.
//!
//! Owns: where pages begin. Promises: the same transcript has the same pages
//! whoever reads it; only what is sent is kept in memory. Must not: know who
//! reads.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::frame::Frame;
use super::teller::lighten;
use crate::dialects::claude::format::{Format, SessionFacts, git_branch};
use crate::protocol::message::AgentMessage;
use crate::registry::Services;
use crate::sessions::{
    Entries, EntryBody, EntryPlace, SessionEntry, SessionError, SessionKey, TranscriptEntry,
};

/// A page has so many lines …
pub const PAGE_LINES: usize = 500;
/// … or so many bytes, and then what was left of the entry.
pub const PAGE_BYTES: usize = 500 * 1024;
/// Pages that a client gets when it connects.
const BURST: usize = 2;
/// Entries whose news may still be on their way when they were read.
const RECENT: usize = 256;

/// Where a page begins.
#[derive(Debug, Clone)]
struct Start {
    place: EntryPlace,
    format: Format,
    /// What was spent before it, in US dollars.
    spent: f64,
}

/// Where the pages of a transcript begin, as far as they are known.
#[derive(Debug, Clone)]
pub struct Pages {
    facts: Arc<SessionFacts>,
    starts: Vec<Start>,
}

/// What was read of a transcript.
#[derive(Debug)]
pub struct History {
    /// How many pages there are.
    pub total: usize,
    /// The first one of which lines are here.
    pub lowest: usize,
    /// Whether they are those after the line that was asked for.
    pub is_rest: bool,
    /// The lines, in order.
    pub lines: Vec<Frame>,
    /// What goes on behind them.
    pub format: Format,
    /// The last entries.
    pub recent: HashSet<String>,
    /// What it has cost, in US dollars.
    pub spent: f64,
    /// Where pages begin.
    pub pages: Pages,
}

impl Pages {
    /// The pages of a session of which nothing was read yet.
    pub fn new(facts: Arc<SessionFacts>) -> Self {
        let format = Format::new(Arc::clone(&facts), None);
        let start = Start { place: EntryPlace::default(), format, spent: 0.0 };
        Self { facts, starts: vec![start] }
    }

    /// Reads the last pages; or, of all of them, what comes after the line
    /// `from`. Where that is nowhere, the last pages.
    ///
    /// # Errors
    /// When the transcript cannot be read.
    pub async fn read(
        self,
        services: &Services,
        key: &SessionKey,
        entry: &SessionEntry,
        from: Option<Uuid>,
    ) -> Result<History, SessionError> {
        let first = if from.is_some() { 0 } else { self.starts.len().saturating_sub(BURST) };
        let start = self.starts.get(first).map_or_else(EntryPlace::default, |it| it.place);
        let empty = self.clone();
        let read =
            move |entries: Entries<'_>| Ok(Some(Reader::new(self, first, from).read(entries)?));
        let history = services.sessions.read_entries(key, entry, start, read).await?;
        Ok(history.unwrap_or_else(|| Reader::new(empty, 0, None).end()))
    }
}

/// A page that is being read.
struct Page {
    number: usize,
    lines: Vec<Frame>,
    bytes: usize,
}

struct Reader {
    pages: Pages,
    format: Format,
    spent: f64,
    /// The last ones; all of them behind the line that is looked for.
    kept: VecDeque<Page>,
    recent: VecDeque<String>,
    from: Option<Uuid>,
    has_found: bool,
}

impl Reader {
    fn new(pages: Pages, first: usize, from: Option<Uuid>) -> Self {
        let start = pages.starts.get(first).cloned();
        let (format, spent) = start.map_or_else(
            || (Format::new(Arc::clone(&pages.facts), None), 0.0),
            |start| (start.format, start.spent),
        );
        let page = Page { number: first, lines: Vec::new(), bytes: 0 };
        let (kept, recent) = (VecDeque::from([page]), VecDeque::new());
        Self { pages, format, spent, kept, recent, from, has_found: false }
    }

    fn read(mut self, mut entries: Entries<'_>) -> io::Result<History> {
        loop {
            let place = entries.place();
            let Some(entry) = entries.next()? else { return Ok(self.end()) };
            self.turn_page(place);
            self.take(&entry);
        }
    }

    /// Begins a new page if the last one is full.
    fn turn_page(&mut self, place: EntryPlace) {
        let Some(last) = self.kept.back() else { return };
        if last.lines.len() < PAGE_LINES && last.bytes < PAGE_BYTES {
            return;
        }
        let number = last.number + 1;
        if number == self.pages.starts.len() {
            let (format, spent) = (self.format.clone(), self.spent);
            self.pages.starts.push(Start { place, format, spent });
        }
        self.kept.push_back(Page { number, lines: Vec::new(), bytes: 0 });
        if !self.has_found && self.kept.len() > BURST {
            self.kept.pop_front();
        }
    }

    fn take(&mut self, entry: &TranscriptEntry) {
        if let EntryBody::Message(AgentMessage::Assistant(message)) = &entry.body {
            self.spent += message.usage.cost.total;
        }
        for line in self.format.push(entry) {
            let is_wanted = line.uuid.is_some() && line.uuid == self.from;
            if let Some(page) = self.kept.back_mut() {
                let frame = of_line(line.uuid, line.value);
                page.bytes += frame.text.len();
                page.lines.push(frame);
            }
            if is_wanted {
                self.has_found = true;
                while self.kept.len() > 1 {
                    self.kept.pop_front();
                }
                self.kept.iter_mut().for_each(|page| page.lines.clear());
            }
        }
        self.recent.push_back(entry.id.clone());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn end(self) -> History {
        History {
            total: self.pages.starts.len(),
            lowest: self.kept.front().map_or(0, |page| page.number),
            is_rest: self.has_found,
            lines: self.kept.into_iter().flat_map(|page| page.lines).collect(),
            format: self.format,
            recent: self.recent.into_iter().collect(),
            spent: self.spent,
            pages: self.pages,
        }
    }
}

/// A line as it stands in the file, without what is heavy.
fn of_line(uuid: Option<Uuid>, mut value: Value) -> Frame {
    lighten(&mut value);
    Frame::line(uuid, &value)
}

/// What all lines of a session say of it.
pub async fn facts_of(services: &Services, key: &SessionKey, entry: &SessionEntry) -> SessionFacts {
    let folder = folder_of(services, key);
    let branch_of = folder.clone();
    let branch = tokio::task::spawn_blocking(move || git_branch(&branch_of)).await;
    let mut facts = SessionFacts::new(&entry.session_id, folder.display().to_string());
    if let Ok(branch) = branch {
        facts.git_branch = branch;
    }
    if let Some(mode) = &entry.permission_mode {
        facts.permission_mode.clone_from(mode);
    }
    facts
}

/// The folder that a session works in.
pub fn folder_of(services: &Services, key: &SessionKey) -> PathBuf {
    services.runs.parts().agent_of(key).workspace
}
