//! What is added to a session, and which sessions change.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::sleep;

use super::Projects;
use super::files::{Folder, identity, path, session_id};
use super::lines::{Lines, RawLine, Read};
use super::list::Head;
use super::watch::{Changes, Feed};
use crate::support::sort;

/// How long a change is waited out: one answer is several writes.
const QUIET: Duration = Duration::from_millis(100);
/// Most bytes of lines that are told at once.
const TOLD_MAX: u64 = 4 * 1024 * 1024;

/// What has happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Lines were added.
    Lines(Vec<RawLine>),
    /// The file is another one, or was cut: what comes now begins at its start.
    Restarted,
    /// The file is gone. It may come back.
    Gone,
}

/// Follows one session.
pub struct Follow {
    projects: Projects,
    heard: Heard,
    file: PathBuf,
    place: Place,
}

/// How far a file was told.
#[derive(Debug, Clone, Copy)]
struct Place {
    identity: Option<(u64, u64)>,
    offset: u64,
    is_gone: bool,
}

impl Follow {
    pub(super) fn new(projects: Projects, feed: Arc<Feed>, head: &Head, from: u64) -> Self {
        let place = Place { identity: None, offset: from, is_gone: false };
        // What was added since that place was found is told at once.
        let due = Heard { is_due: true, ..Heard::new(feed) };
        Self { projects, heard: due, file: path(&head.project, &head.id), place }
    }

    /// Waits for what happens next. May be dropped at any time and asked again.
    ///
    /// # Errors
    /// When the folder cannot be watched or the file cannot be read any more.
    pub async fn next(&mut self) -> io::Result<Followed> {
        loop {
            let file = &self.file;
            self.heard.wait(|changed| changed == file).await?;
            let (place, file) = (self.place, self.file.clone());
            let read = self.projects.work(move |folder, _| step(folder, &file, place)).await?;
            let (place, happened) = read.unwrap_or_else(|| gone(place));
            // There may be more of it, also behind lines that say nothing.
            let has_more =
                place.offset > self.place.offset || matches!(happened, Some(Followed::Restarted));
            self.place = place;
            self.heard.settle(has_more);
            if let Some(happened) = happened {
                return Ok(happened);
            }
        }
    }
}

/// Follows all sessions.
pub struct FollowList {
    heard: Heard,
}

impl FollowList {
    pub(super) fn new(feed: Arc<Feed>) -> Self {
        Self { heard: Heard::new(feed) }
    }

    /// Waits until sessions came, went or changed; answers their ids, or none when
    /// any may have. May be dropped at any time and asked again.
    ///
    /// # Errors
    /// When the folder cannot be watched any more.
    pub async fn changed(&mut self) -> io::Result<Vec<String>> {
        let id = |file: &Path| {
            let name = file.file_name()?.to_str()?.strip_suffix(".jsonl")?;
            session_id(name)
        };
        self.heard.wait(|file| id(file).is_some()).await?;
        let files = self.heard.settle(false);
        let mut ids: Vec<_> = files.into_iter().flatten().filter_map(|file| id(&file)).collect();
        sort::plain(&mut ids);
        ids.dedup();
        Ok(ids)
    }
}

/// What was heard of changes and nobody has acted on.
struct Heard {
    changes: Receiver<Changes>,
    /// The files; `None` when anything may have changed.
    files: Option<Vec<PathBuf>>,
    /// Whether there is something to act on, and whether more may be on its way.
    is_due: bool,
    is_restless: bool,
    /// Keeps the watch going.
    _feed: Arc<Feed>,
}

impl Heard {
    fn new(feed: Arc<Feed>) -> Self {
        let (changes, files) = (feed.listen(), Some(Vec::new()));
        Self { changes, files, is_due: false, is_restless: false, _feed: feed }
    }

    /// Waits for a change of one of the files that are wanted, and for quiet after
    /// it. May be dropped at any time: what was heard stays.
    async fn wait(&mut self, is_wanted: impl Fn(&Path) -> bool) -> io::Result<()> {
        while !self.is_due {
            let told = match self.changes.recv().await {
                Ok(told) => told,
                Err(RecvError::Lagged(_)) => Arc::default(),
                Err(RecvError::Closed) => {
                    return Err(io::Error::other("the folder is not watched any more"));
                }
            };
            self.is_due = told.is_empty() || told.iter().any(|file| is_wanted(file));
            self.is_restless = self.is_due;
            self.take(&told);
        }
        if self.is_restless {
            sleep(QUIET).await;
            self.is_restless = false;
        }
        loop {
            match self.changes.try_recv() {
                Ok(told) => self.take(&told),
                Err(TryRecvError::Lagged(_)) => self.files = None,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            }
        }
    }

    fn take(&mut self, told: &Changes) {
        if told.is_empty() {
            self.files = None;
        } else if let Some(files) = &mut self.files
            && self.is_due
        {
            files.extend(told.iter().cloned());
        }
    }

    /// All of it was acted on; answers the files.
    fn settle(&mut self, has_more: bool) -> Option<Vec<PathBuf>> {
        self.is_due = has_more;
        self.files.replace(Vec::new())
    }
}

/// What has happened to a file since.
fn step(folder: &Folder, file: &Path, place: Place) -> io::Result<(Place, Option<Followed>)> {
    let Some(open) = folder.file(file)? else { return Ok(gone(place)) };
    let found = identity(&open)?;
    let is_other = place.is_gone || place.identity.is_some_and(|known| known != found);
    let place = Place { identity: Some(found), is_gone: false, ..place };
    if is_other || open.metadata()?.len() < place.offset {
        return Ok((Place { offset: 0, ..place }, Some(Followed::Restarted)));
    }
    let (lines, offset) = added(&open, place.offset)?;
    let happened = (!lines.is_empty()).then_some(Followed::Lines(lines));
    Ok((Place { offset, ..place }, happened))
}

/// It is told once that a file is gone.
fn gone(place: Place) -> (Place, Option<Followed>) {
    let happened = (!place.is_gone).then_some(Followed::Gone);
    (Place { identity: None, offset: 0, is_gone: true }, happened)
}

/// The whole lines behind a place, and where they end.
fn added(file: &File, from: u64) -> io::Result<(Vec<RawLine>, u64)> {
    let mut lines = Lines::new(file, from)?;
    let mut found = Vec::new();
    while lines.end().saturating_sub(from) < TOLD_MAX {
        match lines.next()? {
            None => break,
            Some(Read::TooLong) => {}
            Some(Read::Line(line)) => found.extend(RawLine::read(line)),
        }
    }
    Ok((found, lines.end()))
}
