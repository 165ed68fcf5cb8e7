//! Transcripts that their sessions let go, and that are put away.
//!
//! Promises: one that is to be put away is noted before its session lets it go, until it is:
//! what a kill or a disk came between, the next start completes, and no import takes it for
//! something new. Must not: touch the transcript that a session has.

use std::path::PathBuf;

use super::error::SessionError;
use super::service::Sessions;
use super::{SessionKey, import, paths, time};
use crate::store::{SessionEntry, SourceNote};

impl Sessions {
    /// Notes that the transcript of a session is about to be put away. Noted before it is so,
    /// it is no harm: what a session has is not put away. `None` where it can have no file.
    pub(super) async fn leaving(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        reason: &str,
    ) -> Result<Option<SourceNote>, SessionError> {
        let Ok(file) = self.path(key, entry) else { return Ok(None) };
        let now = self.inner.clock.now_ms();
        let note = import::leaving(&file, &format!("{reason} {key}"), &entry.session_id, now);
        self.inner.store.note_sources(vec![note.clone()]).await?;
        Ok(Some(note))
    }

    /// Takes such a note out: the transcript is put away, or stays where it is.
    pub(super) async fn forget_leaving(&self, key: &SessionKey, noted: Option<SourceNote>) {
        let Some(note) = noted else { return };
        if let Err(error) = self.inner.store.drop_sources(vec![note]).await {
            tracing::debug!(session = %key, %error, "the next start looks for what it had");
        }
    }

    /// Puts away what was to be, where a kill came first or the disk did not let it: of one
    /// session, or of all. Answers where it is.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn put_away_rest(
        &self,
        key: Option<&SessionKey>,
    ) -> Result<Vec<PathBuf>, SessionError> {
        let mut archived = Vec::new();
        for note in self.inner.store.sources().await? {
            let Some((reason, of, id)) = import::read_leaving(&note) else { continue };
            let of = SessionKey::from_canonical(of);
            if key.is_some_and(|key| *key != of) {
                continue;
            }
            let (reason, session_file) = (reason.to_owned(), Some(note.path.clone()));
            let session_id = id.to_owned();
            let had = SessionEntry { session_id, session_file, ..SessionEntry::default() };
            if let Some(to) = Box::pin(self.archive(&of, &had, &reason, Some(note))).await {
                tracing::info!(session = %of, to = %to.display(), "a transcript is put away late");
                archived.push(to);
            }
        }
        Ok(archived)
    }

    /// Puts the transcript that a session had away, unless another one has it
    /// too, as the jobs and their runs of the original do. Answers where it is.
    /// The index has let go of it before: a failure takes nothing back.
    pub(super) async fn archive(
        &self,
        key: &SessionKey,
        had: &SessionEntry,
        reason: &str,
        noted: Option<SourceNote>,
    ) -> Option<PathBuf> {
        match Box::pin(self.no_longer_needed(key, had)).await {
            Ok(Some(from)) => self.set_aside(key, from, reason, noted).await,
            Ok(None) => {
                self.forget_leaving(key, noted).await;
                None
            }
            Err(error) => {
                tell_left(key, &error);
                None
            }
        }
    }

    /// The transcript that a session had; `None` when it has it still, or another one has it.
    async fn no_longer_needed(
        &self,
        key: &SessionKey,
        had: &SessionEntry,
    ) -> Result<Option<PathBuf>, SessionError> {
        let from = self.path(key, had)?;
        let own = self.entry(key).await?.map(|entry| (key.clone(), entry));
        let other = self.by_id(&had.session_id).await?;
        let other = other.map(|row| (SessionKey::from_canonical(row.key), row.entry));
        let has_it = |key: &SessionKey, entry: &SessionEntry| {
            self.path(key, entry).is_ok_and(|path| path == from)
        };
        let is_needed = own.into_iter().chain(other).any(|(key, entry)| has_it(&key, &entry));
        Ok((!is_needed).then_some(from))
    }

    /// Gives a transcript that no session has any more the name of one that was put
    /// away, and answers it; `None` when there is no such file, or it stays.
    pub(super) async fn set_aside(
        &self,
        key: &SessionKey,
        from: PathBuf,
        reason: &str,
        noted: Option<SourceNote>,
    ) -> Option<PathBuf> {
        let to = paths::archived(&from, reason, &time::iso(self.inner.clock.now_ms()));
        match self.inner.writer.archive(from, to.clone()).await {
            Ok(is_archived) => {
                self.forget_leaving(key, noted).await;
                is_archived.then_some(to)
            }
            Err(error) => {
                tell_left(key, &error.into());
                None
            }
        }
    }
}

fn tell_left(key: &SessionKey, error: &SessionError) {
    let told = "a transcript that its session no longer has could not be put away; it stays \
                where it is, and the next start tries again";
    tracing::error!(session = %key, %error, "{told}");
}
