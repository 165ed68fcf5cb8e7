//! Going back behind a compaction.
//!
//! Promises: the transcript that was compacted stays as it is; who goes back
//! gets a new one. A compaction only added a line, so what was there before it
//! is the part of the file before that line.

use std::io;
use std::path::{Path, PathBuf};

use super::error::{At, SessionError, TranscriptError};
use super::service::Sessions;
use super::steps::{blocking, remember};
use super::transcript::{Birth, Position, fork, position};
use super::{ForkedSession, SessionKey, TranscriptFacts, paths, rebuild, time};
use crate::store::{CompactionCheckpoint, Edited, NewSession, SessionEntry};
use crate::support::sort;

/// The label of a branch whose session has none.
const BRANCH_LABEL: &str = "Checkpoint branch";

/// Branches of one label that are numbered; further ones have none.
const NUMBERS_MAX: u32 = 100;

impl Sessions {
    /// The compactions of a session, newest first; none for an unknown one.
    pub async fn checkpoints(
        &self,
        key: &SessionKey,
    ) -> Result<Vec<CompactionCheckpoint>, SessionError> {
        self.note_late(key).await;
        let mut found = self.entry(key).await?.unwrap_or_default().compaction_checkpoints;
        found.reverse();
        sort::by_key(&mut found, |checkpoint| std::cmp::Reverse(checkpoint.created_at));
        Ok(found)
    }

    /// Begins a new session with what was there before a compaction.
    pub async fn branch(
        &self,
        key: &SessionKey,
        checkpoint_id: &str,
    ) -> Result<ForkedSession, SessionError> {
        let (source, checkpoint) = self.checkpoint_of(key, checkpoint_id).await?;
        let agent = key.agent(&self.rules());
        let branch_key = format!("agent:{agent}:dashboard:{}", self.inner.ids.uuid());
        let branch_key = SessionKey::from_canonical(branch_key);
        let mut entry = source.clone();
        self.forked(&branch_key, &checkpoint).await?.show_in(&mut entry);
        let label = match source.label.as_deref().map(str::trim) {
            Some(label) if !label.is_empty() => format!("{label} (checkpoint)"),
            _ => BRANCH_LABEL.to_owned(),
        };
        entry.parent_session_key = Some(key.to_string());
        entry.compaction_checkpoints.clear();
        entry.compaction_count = None;
        let mut new =
            NewSession { key: branch_key.to_string(), agent: agent.as_str().into(), entry };
        // A label is given to one session only: further branches are numbered.
        let more = (2..=NUMBERS_MAX).map(|number| Some(format!("{label} {number}")));
        for label in std::iter::once(Some(label.clone())).chain(more).chain([None]) {
            new.entry.label = label;
            let created =
                self.inner.store.edit_session(new.clone(), Box::new(|_: &mut SessionEntry| Ok(())));
            match created.await? {
                Edited::Written { entry, .. } => {
                    return Ok(ForkedSession { key: branch_key, checkpoint, entry: *entry });
                }
                Edited::LabelTaken(_) => {}
                Edited::Refused(reason) => return Err(SessionError::Refused(reason)),
            }
        }
        Err(SessionError::LabelTaken(label))
    }

    /// Puts a session back to what was there before a compaction. Its later
    /// transcript stays on disk, and its checkpoints stay.
    pub async fn restore(
        &self,
        key: &SessionKey,
        checkpoint_id: &str,
    ) -> Result<ForkedSession, SessionError> {
        let (source, checkpoint) = self.checkpoint_of(key, checkpoint_id).await?;
        let forked = self.forked(key, &checkpoint).await?;
        let new_id = forked.id.clone();
        self.lets_go(key, &source).await;
        // What has changed of the session since the copy began stays changed.
        let entry = self
            .update(key, move |entry| {
                if entry.session_id == source.session_id {
                    forked.show_in(entry);
                }
            })
            .await?;
        if entry.session_id != new_id {
            return Err(SessionError::Replaced(key.clone()));
        }
        Ok(ForkedSession { key: key.clone(), checkpoint, entry })
    }

    /// A compaction of a session, with the session.
    pub async fn checkpoint_of(
        &self,
        key: &SessionKey,
        id: &str,
    ) -> Result<(SessionEntry, CompactionCheckpoint), SessionError> {
        self.note_late(key).await;
        let entry = self.existing(key).await?;
        let found = entry.compaction_checkpoints.iter().find(|it| it.checkpoint_id == id);
        let found = found.cloned().ok_or_else(|| SessionError::NoCheckpoint(id.to_owned()))?;
        Ok((entry, found))
    }

    /// Writes the new transcript.
    async fn forked(
        &self,
        key: &SessionKey,
        checkpoint: &CompactionCheckpoint,
    ) -> Result<Forked, SessionError> {
        let gone = || SessionError::CheckpointGone(checkpoint.checkpoint_id.clone());
        let from = self.file_before(key, checkpoint).ok_or_else(gone)?;
        let now = self.inner.clock.now_ms();
        let id = self.inner.ids.uuid();
        let session_file = self.new_file(key, &id);
        let target = PathBuf::from(session_file.clone().ok_or_else(gone)?);
        let birth = Birth {
            format: self.inner.options.now().format,
            session_id: id.clone(),
            session_key: key.to_string(),
            cwd: self.state_dir().join("workspace").to_string_lossy().into_owned(),
            timestamp: time::iso(now),
            parent: Some(from.to_string_lossy().into_owned()),
            copied: None,
        };
        let until = checkpoint.post_compaction.entry_id.clone();
        // The original copies the file before it compacts it.
        let is_copy = checkpoint.pre_compaction.session_file
            != checkpoint.post_compaction.session_file
            && from.to_string_lossy().contains(".checkpoint.");
        let until = until.filter(|_| !is_copy);
        let made_at = checkpoint.created_at;
        let forking =
            blocking(move || find_fork((&from, made_at), until.as_deref(), &target, &birth));
        let (facts, end) = forking.await?.ok_or_else(gone)?;
        Ok(Forked { id, file: session_file, at: now, tokens: checkpoint.tokens_before, facts, end })
    }

    /// The file that has what came before; its folder is never trusted.
    pub(super) fn file_before(
        &self,
        key: &SessionKey,
        checkpoint: &CompactionCheckpoint,
    ) -> Option<PathBuf> {
        let written = checkpoint.pre_compaction.session_file.as_deref()?;
        let name = Path::new(written).file_name()?;
        Some(self.folder(&key.agent(&self.rules())).join(name))
    }
}

/// A new transcript, and what is known of it.
struct Forked {
    id: String,
    file: Option<String>,
    /// When it was begun.
    at: u64,
    /// How long the context was.
    tokens: Option<u64>,
    facts: TranscriptFacts,
    end: Position,
}

impl Forked {
    /// Shows it in a session, of which all else stays as it is.
    fn show_in(self, entry: &mut SessionEntry) {
        *entry = SessionEntry {
            session_id: self.id,
            session_file: self.file,
            updated_at: entry.updated_at.max(self.at),
            session_started_at: Some(self.at),
            system_sent: Some(false),
            aborted_last_run: Some(false),
            status: None,
            started_at: None,
            ended_at: None,
            runtime_ms: None,
            input_tokens: None,
            output_tokens: None,
            cache_read: None,
            cache_write: None,
            estimated_cost_usd: None,
            total_tokens: self.tokens,
            total_tokens_fresh: Some(self.tokens.is_some()),
            transcript: self.facts,
            ..std::mem::take(entry)
        };
        remember(entry, self.end);
    }
}

/// Looks in what was there before the file was cut, if it was since the checkpoint was made: a
/// kill may come between a cut and the note of it, and what is left of the file may still have
/// the summary. Then in the file, and in what was there before other cuts.
fn find_fork(
    (from, made_at): (&Path, u64),
    until: Option<&str>,
    target: &Path,
    birth: &Birth,
) -> Result<Option<(TranscriptFacts, Position)>, TranscriptError> {
    let backups = backups(from).at("look beside", from)?;
    let (since, before): (Vec<_>, Vec<_>) =
        backups.iter().partition(|(archived_at, _)| *archived_at >= made_at);
    let since = since.into_iter().rev().map(|(_, path)| path.as_path());
    let before = before.into_iter().map(|(_, path)| path.as_path());
    for path in since.chain([from]).chain(before) {
        let found = write_fork(path, until, target, birth)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What was put away of a transcript when it was cut, and when; the newest first. What has such
/// a name and is no file was not.
fn backups(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let Some(id) = path.to_str().and_then(paths::stem) else { return Ok(Vec::new()) };
    let of_it = |path: PathBuf| {
        let archive = paths::archive(path.file_name()?.to_str()?)?;
        let is_of_it = archive.reason == "bak" && archive.id == id;
        let seen = is_of_it.then(|| paths::look(path).ok().flatten())??;
        Some((archive.archived_at, seen.path))
    };
    let beside = paths::children(path.parent().unwrap_or(Path::new(".")))?;
    let mut found: Vec<_> = beside.into_iter().filter_map(of_it).collect();
    sort::by_key(&mut found, |(archived_at, _)| std::cmp::Reverse(*archived_at));
    Ok(found)
}

/// `None` when the part of the file cannot be found any more.
fn write_fork(
    from: &Path,
    until: Option<&str>,
    target: &Path,
    birth: &Birth,
) -> Result<Option<(TranscriptFacts, Position)>, TranscriptError> {
    match fork(from, until, target, birth) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("copy", from),
    }
    let look = || {
        let file = paths::open(target)?;
        let end = position(&file, file.metadata()?.len(), &Position::default())?;
        Ok((rebuild::facts(&file)?, end))
    };
    look().at("read", target).map(Some)
}
