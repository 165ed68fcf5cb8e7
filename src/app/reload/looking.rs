//! When the files of the configuration are looked at, and what is read of them.
//!
//! Promises: files that change are looked at once they are left alone; what is read while it
//! is written is read again; what is wrong is looked at again by itself, ever less often.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::Reloader;
use super::news::News;
use crate::config::ReloadMode;
use crate::config::document::ConfigIssue;
use crate::config::watch::{MOST_READS, Seen, UNKNOWN, Watch, fingerprint};
use crate::support::blocking;

/// A file that is written again and again is looked at after so long all the
/// same.
const PATIENCE: Duration = Duration::from_secs(5);
/// A configuration that is not taken up is looked at again after so long: what is wrong
/// may be a file or a program that it refers to.
const AGAIN: Duration = Duration::from_secs(2);
/// The wait doubles each time, up to this.
const AGAIN_MAX: Duration = Duration::from_mins(1);
/// What programs have told for a text that was looked at counts for so long for the file: who
/// was content with it has written it by then.
const FRESH: Duration = Duration::from_mins(1);

impl Reloader {
    /// The files have changed, or are watched no more.
    pub(super) async fn note_change(&mut self, is_well: bool) {
        if !is_well {
            tracing::error!("the config file is watched no more; config.apply takes it up");
            self.watch = None;
            return;
        }
        self.due = Some(self.soon());
        // The way to the file may be another one now.
        self.follow().await;
    }

    /// Since when the files change, and when they are looked at: once they are left alone.
    pub(super) fn soon(&self) -> (Instant, Instant) {
        let (now, wait) = (Instant::now(), self.services().settings.now().gateway.reload.debounce);
        let since = self.due.map_or(now, |(since, _)| since);
        (since, (now + wait).min(since + PATIENCE.max(wait)))
    }

    /// Watches the files that there are now, unless the configuration says no.
    pub(super) async fn follow(&mut self) {
        let is_wanted = self.services().settings.now().gateway.reload.mode != ReloadMode::Off
            || self.services().repair.is_some();
        if !is_wanted {
            self.watch = None;
            return;
        }
        let (files, watch) = (self.files(), self.watch.take());
        // It asks the file system, which may be slow.
        let watched = blocking(move || match watch {
            Some(mut watch) => watch.follow(&files).map(|()| watch),
            None => Watch::start(&files),
        });
        match watched.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                tracing::error!(%error, "the config file cannot be watched; config.apply takes it up");
            }
        }
    }

    /// What stands for these files as they are now.
    pub(super) async fn print(&self, files: Vec<PathBuf>) -> [u8; 32] {
        blocking(move || fingerprint(&files)).await.unwrap_or(self.seen)
    }

    /// Reads them, again where others are meant since, or they have changed meanwhile, also
    /// where they say again what they said: what is written while it is read may be half of
    /// it. What stands for what was read, and what that says.
    pub(super) async fn read(&self) -> ([u8; 32], Result<News, ConfigIssue>) {
        let mut seen = look(self.files()).await;
        let checked = self.checked.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
        let checked = checked.map(|(_, settings)| settings);
        let mut reads = 1;
        loop {
            let given = (&self.overrides, self.gave_up);
            let news = News::of_file(self.services(), &self.env, given, checked).await;
            let files = news.as_ref().map_or_else(|_| self.files(), |it| it.settings.files());
            let after = look(files).await;
            if after == seen {
                return (seen.print, news);
            }
            if reads == MOST_READS {
                // Whatever is there when it is looked at next is something else.
                return (UNKNOWN, news);
            }
            (seen, reads) = (after, reads + 1);
        }
    }

    /// Looks at it again without being asked, where the files are watched.
    pub(super) fn look_again_later(&mut self, is_wrong: bool, is_other: bool) {
        let last = self.again.filter(|_| !is_other);
        let next = last.map_or(AGAIN, |last| last.saturating_mul(2).min(AGAIN_MAX));
        self.again = is_wrong.then_some(next);
        let is_watched = self.watch.is_some();
        self.again_at = self.again.filter(|_| is_watched).map(|wait| Instant::now() + wait);
    }

    /// A file that changes is left alone for a moment, whatever was to be looked at again.
    fn next_look(&self) -> Option<Instant> {
        self.due.map(|(_, due)| due).or(self.again_at)
    }

    /// Waits for it. Whoever writes the file has it taken up himself, in his own name.
    pub(super) async fn until_next_look(&self) {
        match self.next_look() {
            Some(due) => {
                tokio::time::sleep_until(due).await;
                self.services().reload.written().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// These files as they are now.
async fn look(files: Vec<PathBuf>) -> Seen {
    blocking(move || Seen::of(&files)).await.unwrap_or_default()
}

/// Waits for a change; `false` when nothing is to be heard any more.
pub(super) async fn changed(watch: Option<&Watch>) -> bool {
    match watch {
        Some(watch) => match watch.changed().await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "watching the config file failed");
                false
            }
        },
        None => std::future::pending().await,
    }
}
