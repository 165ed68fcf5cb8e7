//! Making a conversation shorter.
//!
//! Promises: a summary is appended and nothing removed; a transcript that is
//! cut is kept beside the new one, and not one message that was acknowledged
//! meanwhile is missing in both.

use std::io;
use std::path::Path;

use serde_json::Map;

use super::error::{At, SessionError};
use super::service::Sessions;
use super::steps::{blocking, remember};
use super::transcript::{NewKind, Placed, Position, Tail, position, tail};
use super::{CompactedSession, Compaction, CutSession, SessionKey, paths, time};
use crate::store::{CheckpointPlace, CompactionCheckpoint, SessionEntry};

/// Checkpoints that a session keeps; the original keeps as many.
const CHECKPOINTS_MAX: usize = 25;

/// How often a cut is tried again, because a message came meanwhile.
const TRIES_MAX: usize = 8;

impl Sessions {
    /// Appends a summary: the model reads it instead of what came before. It is one of the
    /// conversation with this id, and no other gets it.
    pub async fn compact(
        &self,
        key: &SessionKey,
        session_id: &str,
        compaction: Compaction,
    ) -> Result<CompactedSession, SessionError> {
        let entry = self.existing(key).await?;
        if entry.session_id != session_id {
            return Err(SessionError::Replaced(key.clone()));
        }
        let id = self.inner.ids.entry_id();
        // The original's session manager expects an entry; a summary that
        // keeps nothing names itself.
        let first_kept = compaction.first_kept_entry_id.clone().unwrap_or_else(|| id.clone());
        let mut members = Map::new();
        members.insert("summary".into(), compaction.summary.as_str().into());
        members.insert("firstKeptEntryId".into(), first_kept.into());
        members.insert("tokensBefore".into(), compaction.tokens_before.into());
        let files = serde_json::to_value(&compaction.files);
        members.insert("details".into(), files.map_err(|e| SessionError::Encode(e.into()))?);
        members.insert("fromHook".into(), false.into());
        let placed = self.put(key, &entry, Some(id), NewKind::Compaction { members }).await?;
        let checkpoint = self.checkpoint(key, &entry, &placed, &compaction)?;
        let (now, session_id) = (self.inner.clock.now_ms(), entry.session_id.clone());
        let (end, added) = (placed.position, checkpoint.clone());
        let change = move |entry: &mut SessionEntry| {
            if entry.session_id != session_id {
                return;
            }
            if end.bytes > entry.transcript.bytes {
                remember(entry, end);
            }
            entry.updated_at = entry.updated_at.max(now);
            (entry.input_tokens, entry.output_tokens) = (None, None);
            entry.total_tokens = Some(compaction.tokens_after);
            entry.total_tokens_fresh = Some(true);
            add(entry, added);
        };
        let entry = match self.update(key, change.clone()).await {
            Err(SessionError::Store(error)) => {
                // It is summed up, and who reads the transcript finds the summary. The way back
                // behind it is noted later.
                tracing::error!(session = %key, %error, "index of a compaction not updated");
                let late = checkpoint.clone();
                push(self.inner.unnoted.lock().entry(key.clone()).or_default(), late);
                let mut entry = entry;
                change(&mut entry);
                entry
            }
            updated => updated?,
        };
        if entry.session_id != checkpoint.session_id {
            return Err(SessionError::Replaced(key.clone()));
        }
        Ok(CompactedSession { entry_id: placed.id, checkpoint, entry })
    }

    /// Notes the compactions of a session that the index did not take when they were made; it
    /// is tried again where it still does not.
    pub(super) async fn note_late(&self, key: &SessionKey) {
        let Some(late) = self.inner.unnoted.lock().get(key).cloned() else { return };
        let added = late.clone();
        let change = move |entry: &mut SessionEntry| {
            for checkpoint in added {
                // Another one who looks may have noted it.
                let is_new = !entry.compaction_checkpoints.contains(&checkpoint);
                if is_new && entry.session_id == checkpoint.session_id {
                    add(entry, checkpoint);
                }
            }
        };
        if let Err(SessionError::Store(error)) = self.update(key, change).await {
            tracing::warn!(session = %key, %error, "compactions are still not in the index");
            return;
        }
        let mut unnoted = self.inner.unnoted.lock();
        if let Some(left) = unnoted.get_mut(key) {
            left.retain(|checkpoint| !late.contains(checkpoint));
            if left.is_empty() {
                unnoted.remove(key);
            }
        }
    }

    fn checkpoint(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        placed: &Placed,
        compaction: &Compaction,
    ) -> Result<CompactionCheckpoint, SessionError> {
        let file = self.path(key, entry)?.to_string_lossy().into_owned();
        let place = |leaf: Option<&String>, entry_id| CheckpointPlace {
            session_id: entry.session_id.clone(),
            session_file: Some(file.clone()),
            leaf_id: leaf.cloned(),
            entry_id,
        };
        Ok(CompactionCheckpoint {
            checkpoint_id: self.inner.ids.uuid(),
            session_key: key.to_string(),
            session_id: entry.session_id.clone(),
            created_at: self.inner.clock.now_ms(),
            reason: compaction.reason,
            tokens_before: Some(compaction.tokens_before),
            tokens_after: Some(compaction.tokens_after),
            summary: Some(compaction.summary.clone()),
            first_kept_entry_id: compaction.first_kept_entry_id.clone(),
            pre_compaction: place(placed.parent.as_ref(), None),
            post_compaction: place(Some(&placed.id), Some(placed.id.clone())),
        })
    }

    /// Keeps the last lines of a transcript; the whole one is put beside it.
    pub async fn cut(&self, key: &SessionKey, lines: usize) -> Result<CutSession, SessionError> {
        self.note_late(key).await;
        for _ in 0..TRIES_MAX {
            let entry = self.existing(key).await?;
            let place = self.place(key, &entry, None)?;
            let (path, birth) = (place.path.clone(), place.birth);
            let tailing = blocking(move || match tail(&path, lines, &birth) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                tail => tail.at("cut", &path).map(Some),
            });
            let (file, length) = match tailing.await? {
                None => return Ok(CutSession::NoTranscript),
                Some(Tail::All(count)) => return Ok(CutSession::Short(count)),
                Some(Tail::Cut { file, length }) => (file, length),
            };
            let now = self.inner.clock.now_ms();
            let archived = paths::archived(&place.path, "bak", &time::iso(now));
            let (path, backup) = (place.path, archived.clone());
            if self.inner.writer.replace(path.clone(), length, file, backup).await? {
                let entry = self.note_cut(key, &entry, &path, &archived).await?;
                return Ok(CutSession::Cut { archived, entry: Box::new(entry) });
            }
        }
        Err(SessionError::Busy(key.clone()))
    }

    async fn note_cut(
        &self,
        key: &SessionKey,
        before: &SessionEntry,
        path: &Path,
        archived: &Path,
    ) -> Result<SessionEntry, SessionError> {
        let now = self.inner.clock.now_ms();
        let counted = path.to_owned();
        let end = blocking(move || {
            let count = || {
                let file = paths::open(&counted)?;
                position(&file, file.metadata()?.len(), &Position::default())
            };
            count().at("read", &counted)
        });
        let end = end.await?;
        let session_id = before.session_id.clone();
        let (path, archived) =
            (path.to_string_lossy().into_owned(), archived.to_string_lossy().into_owned());
        self.update(key, move |entry| {
            if entry.session_id != session_id {
                return;
            }
            remember(entry, end);
            entry.updated_at = entry.updated_at.max(now);
            (entry.input_tokens, entry.output_tokens) = (None, None);
            // What was counted is longer than what is left.
            entry.total_tokens_fresh = Some(false);
            // What came before the compactions is now in the other file.
            for checkpoint in &mut entry.compaction_checkpoints {
                let file = &mut checkpoint.pre_compaction.session_file;
                if file.as_deref() == Some(path.as_str()) {
                    *file = Some(archived.clone());
                }
            }
        })
        .await
    }
}

/// Takes a compaction into what the index knows of its session.
fn add(entry: &mut SessionEntry, checkpoint: CompactionCheckpoint) {
    entry.compaction_count = Some(entry.compaction_count.unwrap_or_default() + 1);
    push(&mut entry.compaction_checkpoints, checkpoint);
}

fn push(checkpoints: &mut Vec<CompactionCheckpoint>, checkpoint: CompactionCheckpoint) {
    checkpoints.push(checkpoint);
    let surplus = checkpoints.len().saturating_sub(CHECKPOINTS_MAX);
    checkpoints.drain(..surplus);
}
