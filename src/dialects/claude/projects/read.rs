//! Sessions in pages, and what is remembered of them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;

use parking_lot::Mutex;

use super::files::{Folder, identity, path};
use super::lines::{Lines, RawLine, Read, about};
use super::list::{Head, Indexed, ProjectSession, ends, index};
use crate::dialects::claude::pages::Pages;
use crate::sessions::EntryPlace;

/// Sessions that are remembered; a gigabyte takes seconds to look through.
const KNOWN_MAX: usize = 512;

/// A page of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawPage {
    /// In order.
    pub lines: Vec<RawLine>,
    /// Whether nothing is added to it any more.
    pub is_sealed: bool,
    /// How many pages there are.
    pub total: usize,
}

/// What one who connects is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBurst {
    /// The lines of the newest pages, in order, each uuid once.
    pub lines: Vec<RawLine>,
    /// The first page of those.
    pub lowest_page: usize,
    /// How many pages there are.
    pub total_pages: usize,
    /// Where they end in the file.
    pub end: u64,
}

/// What is remembered of the folder.
#[derive(Default)]
pub(super) struct Known(Mutex<Table>);

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Session>,
    /// Which of them was looked at when; the first one is forgotten first.
    order: VecDeque<String>,
}

/// What is remembered of a session.
#[derive(Debug, Clone, Default)]
struct Session {
    pages: Pages,
    /// Messages of users and answers in those.
    messages: u64,
    /// What was said of it when its file was like this.
    described: Option<(Head, ProjectSession)>,
}

impl Known {
    fn take(&self, id: &str) -> Session {
        self.0.lock().sessions.get(id).cloned().unwrap_or_default()
    }

    fn keep(&self, id: &str, session: Session) {
        let mut table = self.0.lock();
        if table.sessions.insert(id.to_owned(), session).is_none() {
            table.order.push_back(id.to_owned());
        }
        while table.order.len() > KNOWN_MAX {
            if let Some(oldest) = table.order.pop_front() {
                table.sessions.remove(&oldest);
            }
        }
    }
}

/// What there is to say of a session; `None` when it is not there any more.
pub(super) fn describe(folder: &Folder, known: &Known, head: Head) -> Option<ProjectSession> {
    let mut session = known.take(&head.id);
    if let Some((then, described)) = &session.described
        && *then == head
    {
        return Some(described.clone());
    }
    let indexed = index(folder, &head.project).remove(&head.id);
    let described = match indexed.and_then(|indexed| Indexed::describe(indexed, &head)) {
        Some(described) => described,
        None => {
            let mut read = || {
                let Some(file) = folder.file(&path(&head.project, &head.id))? else {
                    return Ok(None);
                };
                session.catch_up(&file, &head.id)?;
                ends(&file, &head, session.messages).map(Some)
            };
            let read: io::Result<Option<ProjectSession>> = read();
            let read = read.inspect_err(|error| {
                tracing::warn!(session = head.id, %error, "left out, because it cannot be read");
            });
            read.ok()??
        }
    };
    session.described = Some((head.clone(), described.clone()));
    known.keep(&head.id, session);
    Some(described)
}

/// The newest pages.
pub(super) fn burst(folder: &Folder, known: &Known, head: &Head) -> io::Result<Option<RawBurst>> {
    let Some((file, session)) = open(folder, known, head)? else { return Ok(None) };
    let pages = &session.pages;
    let (lowest_page, total_pages) = (pages.lowest_burst_page(), pages.total());
    let from = pages.range(lowest_page).map(|(from, _)| from).unwrap_or_default();
    let end = pages.end();
    let mut lines = read(&file, from, end)?;
    let mut seen = HashSet::new();
    lines.retain(|line| line.uuid.as_ref().is_none_or(|uuid| seen.insert(uuid.clone())));
    Ok(Some(RawBurst { lines, lowest_page, total_pages, end: end.bytes }))
}

/// One page.
pub(super) fn page(
    folder: &Folder,
    known: &Known,
    head: &Head,
    page: usize,
) -> io::Result<Option<RawPage>> {
    let Some((file, session)) = open(folder, known, head)? else { return Ok(None) };
    let pages = &session.pages;
    let Some((from, to)) = pages.range(page) else { return Ok(None) };
    let lines = read(&file, from, to)?;
    Ok(Some(RawPage { lines, is_sealed: pages.is_sealed(page), total: pages.total() }))
}

fn open(folder: &Folder, known: &Known, head: &Head) -> io::Result<Option<(File, Session)>> {
    let Some(file) = folder.file(&path(&head.project, &head.id))? else { return Ok(None) };
    let mut session = known.take(&head.id);
    session.catch_up(&file, &head.id)?;
    known.keep(&head.id, session.clone());
    Ok(Some((file, session)))
}

impl Session {
    /// Looks at what was added to the file since.
    fn catch_up(&mut self, file: &File, id: &str) -> io::Result<()> {
        self.pages.begin(id, identity(file)?, file.metadata()?.len());
        if self.pages.end() == EntryPlace::default() {
            self.messages = 0;
        }
        let mut lines = Lines::new(file, self.pages.end().bytes)?;
        let mut before = lines.end();
        loop {
            let seen = match lines.next()? {
                None => return Ok(()),
                Some(Read::TooLong) => None,
                Some(Read::Line(line)) => {
                    about(line).map(|about| matches!(&*about.kind, "user" | "assistant"))
                }
            };
            self.messages = self.messages.saturating_add(u64::from(seen == Some(true)));
            let end = lines.end();
            let seq = self.pages.end().seq.saturating_add(1);
            let bytes = if seen.is_some() { end.saturating_sub(before) } else { 0 };
            self.pages.add(usize::from(seen.is_some()), bytes, EntryPlace { bytes: end, seq });
            before = end;
        }
    }
}

/// The lines between two places.
fn read(file: &File, from: EntryPlace, to: EntryPlace) -> io::Result<Vec<RawLine>> {
    let mut lines = Lines::new(file, from.bytes)?;
    let mut found = Vec::new();
    while lines.end() < to.bytes {
        match lines.next()? {
            None => break,
            Some(Read::TooLong) => {}
            Some(Read::Line(line)) => found.extend(RawLine::read(line)),
        }
    }
    Ok(found)
}
