//! Which transcripts a report is about, and whose they are.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use super::super::error::{At, SessionError};
use super::super::steps::blocking;
use super::super::{SessionEntry, SessionId, SessionKey, SessionQuery, WEBCHAT, paths};
use super::files::{self, TranscriptFile};
use super::report::SessionUsage;
use super::service::{ListedUsage, UsageError, UsageQuery, UsageReports};
use super::tally::Tally;
use crate::support::sort;

/// A transcript and the session that it belongs to.
pub(super) struct Candidate {
    pub file: TranscriptFile,
    key: SessionKey,
    entry: Option<SessionEntry>,
    updated_at: u64,
}

impl Candidate {
    fn of_session(file: TranscriptFile, key: SessionKey, entry: SessionEntry) -> Self {
        Self { file, key, updated_at: entry.updated_at, entry: Some(entry) }
    }

    /// A transcript that no session has.
    fn alone(file: TranscriptFile) -> Self {
        let key = SessionKey::from_canonical(format!("agent:{}:{}", file.agent, file.id));
        Self { key, updated_at: file.modified_ms, entry: None, file }
    }

    pub fn session_id(&self) -> String {
        let of_entry = self.entry.as_ref().map(|entry| entry.session_id.clone());
        of_entry.unwrap_or_else(|| self.file.id.to_string())
    }

    pub fn into_listed(self, tally: &Tally) -> ListedUsage {
        let session_id = self.session_id();
        let path = self.file.path.to_string_lossy().into_owned();
        ListedUsage {
            agent: self.file.agent.to_string(),
            usage: SessionUsage::new(session_id.clone(), path, tally),
            session_id,
            key: self.key,
            updated_at: self.updated_at,
            channel: self.entry.as_ref().and_then(channel),
            entry: self.entry,
        }
    }
}

/// The channel that is noted in an entry; what people said without one came by
/// the gateway's own.
fn channel(entry: &SessionEntry) -> Option<String> {
    let origin = || Some(entry.origin.as_ref()?.get("provider")?.as_str()?.to_owned());
    let own = || entry.last_interaction_at.map(|_| WEBCHAT.to_owned());
    entry.channel.clone().or_else(origin).or_else(|| entry.last_channel.clone()).or_else(own)
}

impl UsageReports {
    /// All transcripts there are, the last changed first.
    pub(super) async fn files(&self) -> Result<Vec<TranscriptFile>, SessionError> {
        let state_dir = self.inner.sessions.state_dir().to_owned();
        let found = blocking(move || files::all(&state_dir).at("look into", &state_dir));
        Ok(found.await?)
    }

    /// Forgets what is known of transcripts that are no more.
    pub(super) async fn forget_vanished(
        &self,
        files: &[TranscriptFile],
    ) -> Result<(), SessionError> {
        let there: HashSet<_> = files.iter().map(TranscriptFile::key).collect();
        let known = self.inner.refresher.known().await?;
        let gone: Vec<_> = known.into_keys().filter(|key| !there.contains(key)).collect();
        if !gone.is_empty() {
            self.inner.store.forget_usage(gone).await?;
        }
        Ok(())
    }

    /// The sessions that changed last within the days, and transcripts that no
    /// session has (any more).
    pub(super) async fn newest(&self, query: &UsageQuery) -> Result<Vec<Candidate>, SessionError> {
        let sessions = &self.inner.sessions;
        let mut files = self.files().await?;
        files.retain(|file| file.modified_ms >= query.range.start_ms());
        let by_path: HashMap<PathBuf, TranscriptFile> =
            files.iter().map(|file| (file.path.clone(), file.clone())).collect();
        let listed = SessionQuery {
            limit: Some(u32::try_from(query.limit).unwrap_or(u32::MAX)),
            include_global: true,
            include_unknown: true,
            ..SessionQuery::default()
        };
        let (mut found, mut taken) = (Vec::new(), HashSet::new());
        for row in sessions.list(listed).await?.entries {
            let key = SessionKey::from_canonical(row.key);
            let Ok(path) = sessions.path(&key, &row.entry) else { continue };
            let Some(file) = by_path.get(&path) else { continue };
            if taken.insert(path) {
                found.push(Candidate::of_session(file.clone(), key, row.entry));
            }
        }
        let others = files.into_iter().filter(|file| !taken.contains(&file.path));
        for file in others.take(query.limit) {
            let row = sessions.by_id(file.id.as_str()).await?;
            // A session that is not among the newest has this transcript.
            let is_elsewhere = row.is_some_and(|row| {
                let key = SessionKey::from_canonical(row.key);
                sessions.path(&key, &row.entry).is_ok_and(|path| path == file.path)
            });
            if !is_elsewhere {
                found.push(Candidate::alone(file));
            }
        }
        sort::by_key(&mut found, |candidate| std::cmp::Reverse(candidate.updated_at));
        found.truncate(query.limit);
        Ok(found)
    }

    /// The transcript of one session, or the one whose id the key ends with.
    pub(super) async fn of_key(
        &self,
        key: &SessionKey,
        written: &str,
    ) -> Result<Option<Candidate>, UsageError> {
        let sessions = &self.inner.sessions;
        if let Some(entry) = sessions.entry(key).await? {
            return Ok(self.of_entry(key.clone(), entry).await?);
        }
        let last = key.as_str().splitn(3, ':').last().unwrap_or_default();
        let id = SessionId::parse(last).ok_or_else(|| UsageError::BadKey(written.to_owned()))?;
        if let Some(row) = sessions.by_id(id.as_str()).await? {
            let key = SessionKey::from_canonical(row.key);
            return Ok(self.of_entry(key, row.entry).await?);
        }
        let agent = key.agent(&sessions.rules());
        let folder = sessions.folder(&agent);
        let looking = blocking(move || {
            let current = TranscriptFile::look(&agent, &paths::file(&folder, &id));
            let found = match current {
                Ok(None) => files::newest_archive(&folder, &agent, &id),
                current => current,
            };
            found.at("look into", &folder)
        });
        Ok(looking.await.map_err(SessionError::from)?.map(Candidate::alone))
    }

    async fn of_entry(
        &self,
        key: SessionKey,
        entry: SessionEntry,
    ) -> Result<Option<Candidate>, SessionError> {
        let sessions = &self.inner.sessions;
        let path = sessions.path(&key, &entry)?;
        let agent = key.agent(&sessions.rules());
        let looking = blocking(move || TranscriptFile::look(&agent, &path).at("look at", &path));
        let file = looking.await?;
        Ok(file.map(|file| Candidate::of_session(file, key, entry)))
    }
}

/// `chatType` of a session, as noted or by its origin.
pub fn chat_type(entry: &SessionEntry) -> Option<String> {
    let of_origin = || entry.origin.as_ref()?.get("chatType").and_then(Value::as_str);
    entry.chat_type.clone().or_else(|| of_origin().map(str::to_owned))
}
