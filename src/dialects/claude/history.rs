//! What was said in a session, in pages of lines.
//!
//! Owns: what is known of the pages of sessions that somebody looked at lately.
//! Promises: reads only the pages that are asked for; nothing of a transcript
//! stays in memory. Must not: know sockets or what is being said just now.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::format::{Line, SessionFacts, git_branch};
use super::pages::Pages;
use crate::sessions::{
    CompactionReason, SessionEntry, SessionError, SessionKey, Sessions, StoredTranscript,
};

/// Sessions whose pages are remembered; finding them again takes seconds for a
/// gigabyte.
const KNOWN_MAX: usize = 32;

/// A page of lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// In order, whole; see [`super::format::strip`].
    pub lines: Vec<Line>,
    /// Whether nothing is added to it any more.
    pub is_sealed: bool,
    /// How many pages there are.
    pub total: usize,
}

/// What one who connects is given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Burst {
    /// The lines of the newest pages, in order.
    pub lines: Vec<Line>,
    /// The first page of those.
    pub lowest_page: usize,
    /// How many pages there are.
    pub total_pages: usize,
}

/// Reads histories; clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    /// The one that was used last is the last one.
    known: Arc<Mutex<Vec<(String, Pages)>>>,
}

impl Histories {
    /// The newest pages.
    pub async fn burst(
        &self,
        sessions: &Sessions,
        (key, entry): (&SessionKey, &SessionEntry),
        facts: Arc<SessionFacts>,
    ) -> Result<Burst, SessionError> {
        let read = move |pages: &Pages, transcript: &StoredTranscript<'_>| {
            let (lowest_page, total_pages) = (pages.lowest_burst_page(), pages.total());
            let mut lines = Vec::new();
            for page in lowest_page..total_pages {
                lines.extend(pages.read(page, transcript, &facts)?.unwrap_or_default());
            }
            Ok(Burst { lines, lowest_page, total_pages })
        };
        let burst = self.read(sessions, (key, entry), read).await?;
        // A session without a transcript has one page, and nothing is in it.
        let total_pages = burst.total_pages.max(1);
        Ok(Burst { total_pages, ..burst })
    }

    /// One page, from 0; `None` when there is no such page.
    pub async fn page(
        &self,
        sessions: &Sessions,
        (key, entry): (&SessionKey, &SessionEntry),
        facts: Arc<SessionFacts>,
        page: usize,
    ) -> Result<Option<Page>, SessionError> {
        let read = move |pages: &Pages, transcript: &StoredTranscript<'_>| {
            let lines = pages.read(page, transcript, &facts)?;
            let (is_sealed, total) = (pages.is_sealed(page), pages.total());
            Ok(Some(lines.map(|lines| Page { lines, is_sealed, total })))
        };
        let found = self.read(sessions, (key, entry), read).await?;
        let empty = || (page == 0).then(|| Page { total: 1, ..Page::default() });
        Ok(found.unwrap_or_else(empty))
    }

    async fn read<T: Default + Send + 'static>(
        &self,
        sessions: &Sessions,
        (key, entry): (&SessionKey, &SessionEntry),
        read: impl FnOnce(&Pages, &StoredTranscript<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (this, id) = (self.clone(), entry.session_id.clone());
        let work = move |transcript: StoredTranscript<'_>| {
            let mut pages = this.take(&id);
            pages.catch_up(&id, &transcript)?;
            let answer = read(&pages, &transcript);
            this.keep(id, pages);
            answer
        };
        sessions.read_transcript(key, entry, work).await
    }

    fn take(&self, id: &str) -> Pages {
        let known = self.known.lock();
        let found = known.iter().find(|(known, _)| known == id);
        found.map(|(_, pages)| pages.clone()).unwrap_or_default()
    }

    fn keep(&self, id: String, pages: Pages) {
        let mut known = self.known.lock();
        known.retain(|(known, _)| *known != id);
        known.push((id, pages));
        let surplus = known.len().saturating_sub(KNOWN_MAX);
        known.drain(..surplus);
    }
}

/// What is known of a session. `workspace` is where its agent works, for
/// transcripts that do not say so.
pub async fn facts(
    sessions: &Sessions,
    (key, entry): (&SessionKey, &SessionEntry),
    workspace: PathBuf,
) -> Result<SessionFacts, SessionError> {
    let (known, home) = (entry.clone(), workspace.clone());
    let told =
        move |transcript: StoredTranscript<'_>| facts_of(&known, &transcript, &home).map(Some);
    let facts = sessions.read_transcript(key, entry, told).await?;
    Ok(facts.unwrap_or_else(|| {
        SessionFacts::new(entry.session_id.as_str(), workspace.to_string_lossy())
    }))
}

/// The same, where one may wait for a disk.
pub fn facts_of(
    entry: &SessionEntry,
    transcript: &StoredTranscript<'_>,
    workspace: &Path,
) -> io::Result<SessionFacts> {
    let cwd = transcript.cwd()?.filter(|cwd| !cwd.is_empty());
    let cwd = cwd.unwrap_or_else(|| workspace.to_string_lossy().into_owned());
    let git_branch = git_branch(Path::new(&cwd));
    let manual_compactions = manual_compactions(entry);
    let facts = SessionFacts::new(entry.session_id.as_str(), cwd);
    Ok(SessionFacts { git_branch, manual_compactions, ..facts })
}

/// The entries of the compactions that a person asked for.
fn manual_compactions(entry: &SessionEntry) -> Vec<String> {
    let checkpoints = entry.compaction_checkpoints.iter();
    checkpoints
        .filter(|checkpoint| checkpoint.reason == CompactionReason::Manual)
        .filter_map(|checkpoint| checkpoint.post_compaction.entry_id.clone())
        .collect()
}
