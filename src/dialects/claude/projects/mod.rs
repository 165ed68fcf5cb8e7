//! Sessions that Claude Code itself has on this machine: `~/.claude/projects`.
//!
//! Owns: finding them, reading them in pages, telling what is added to them.
//! Promises: nothing is written, nothing outside of the folder is read; a line is
//! passed on as it is; a file may be of any length; nothing is watched, and no
//! task runs, while nobody follows anything. Must not: know sockets.

mod files;
mod follow;
mod lines;
mod list;
mod read;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub use follow::{Follow, FollowList, Followed};
pub use lines::RawLine;
pub use list::{Head, ProjectSession};
pub use read::{RawBurst, RawPage};

use crate::support::{Tasks, blocking};
use files::Folder;
use read::Known;
use watch::Feed;

/// The folder of Claude Code's sessions; clones share what is known of it.
#[derive(Clone)]
pub struct Projects {
    folder: PathBuf,
    tasks: Tasks,
    known: Arc<Known>,
    feed: Arc<Mutex<std::sync::Weak<Feed>>>,
}

impl Projects {
    /// The sessions in this folder, which need not be there. Touches nothing.
    pub fn new(folder: PathBuf, tasks: Tasks) -> Self {
        Self { folder, tasks, known: Arc::default(), feed: Arc::default() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Which sessions there are, the last changed first; none when there is no
    /// folder.
    pub async fn heads(&self) -> io::Result<Vec<Head>> {
        self.work(|folder, _| list::heads(folder)).await.map(Option::unwrap_or_default)
    }

    /// What there is to say of these sessions. What has gone away meanwhile is
    /// left out.
    pub async fn describe(&self, heads: Vec<Head>) -> io::Result<Vec<ProjectSession>> {
        let describe = move |folder: &Folder, known: &Known| {
            let mut indexes = read::Indexes::new();
            let describe = |head| read::describe(folder, known, head, &mut indexes);
            Ok(heads.iter().filter_map(describe).collect())
        };
        self.work(describe).await.map(Option::unwrap_or_default)
    }

    /// All sessions, the last changed first. For folders with many, see
    /// [`Self::heads`].
    pub async fn list(&self) -> io::Result<Vec<ProjectSession>> {
        self.describe(self.heads().await?).await
    }

    /// The session with this id; `None` when there is none, and for what is no id.
    pub async fn find(&self, id: &str) -> io::Result<Option<ProjectSession>> {
        let Some(head) = self.head(id).await? else { return Ok(None) };
        Ok(self.describe(vec![head]).await?.pop())
    }

    /// The newest pages of a session, and where to go on from; `None` when there
    /// is no such session.
    pub async fn burst(&self, id: &str) -> io::Result<Option<RawBurst>> {
        let Some(head) = self.head(id).await? else { return Ok(None) };
        let read = move |folder: &Folder, known: &Known| read::burst(folder, known, &head);
        self.work(read).await.map(Option::flatten)
    }

    /// One page of a session, from 0; `None` when there is no such session or no
    /// such page.
    pub async fn page(&self, id: &str, page: usize) -> io::Result<Option<RawPage>> {
        let Some(head) = self.head(id).await? else { return Ok(None) };
        let read = move |folder: &Folder, known: &Known| read::page(folder, known, &head, page);
        self.work(read).await.map(Option::flatten)
    }

    /// Follows a session from the byte `from` on ([`RawBurst::end`]); `None` when
    /// there is no such session.
    pub async fn follow(&self, id: &str, from: u64) -> io::Result<Option<Follow>> {
        let feed = self.feed().await?;
        let Some(head) = self.head(id).await? else { return Ok(None) };
        Ok(Some(Follow::new(self.clone(), feed, &head, from)))
    }

    /// Follows which sessions there are and which change.
    pub async fn follow_list(&self) -> io::Result<FollowList> {
        Ok(FollowList::new(self.feed().await?))
    }

    async fn head(&self, id: &str) -> io::Result<Option<Head>> {
        let Some(id) = files::session_id(id) else { return Ok(None) };
        let find = move |folder: &Folder, _: &Known| list::head(folder, &id);
        self.work(find).await.map(Option::flatten)
    }

    /// Does something in the folder, where it may wait for the disk; `None` when
    /// there is no folder.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder, &Known) -> io::Result<T> + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (place, known) = (self.folder.clone(), Arc::clone(&self.known));
        let work = move || Folder::open(&place)?.map(|folder| work(&folder, &known)).transpose();
        blocking(work).await.map_err(io::Error::other)?
    }

    /// What happens in the folder, to all who follow something in it.
    async fn feed(&self) -> io::Result<Arc<Feed>> {
        let works = |feed: &Arc<Feed>| !feed.is_over();
        if let Some(feed) = self.feed.lock().upgrade().filter(works) {
            return Ok(feed);
        }
        let place = self.folder.clone();
        let watch = blocking(move || watch::Watch::start(&place));
        let watch = watch.await.map_err(io::Error::other)??;
        let mut running = self.feed.lock();
        if let Some(feed) = running.upgrade().filter(works) {
            return Ok(feed);
        }
        let feed = Arc::new(Feed::start(watch, &self.tasks));
        *running = Arc::downgrade(&feed);
        Ok(feed)
    }
}

#[cfg(test)]
mod tests;
