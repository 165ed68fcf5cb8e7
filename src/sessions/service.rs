//! The session service: the one door to conversations.
//!
//! Owns: which transcript belongs to which key. Promises: what `append`,
//! `ensure` and `update` answered is on disk; two who begin a session at the
//! same time get the same one. Must not: interpret what is said.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::context::{self, ContextEntry};
use super::error::{At, SessionError};
use super::history::{self, Between, HistoryOptions, HistoryPage, TranscriptPart};
use super::steps::{LARGE_READS, blocking, marked, remember, renew};
use super::transcript::{NewKind, Position, Writer};
use super::{
    AgentId, AppendOptions, DeletedSession, KeyRules, Media, Remains, SessionKey, SessionsOptions,
    StoredMessage, paths, rebuild,
};
use crate::protocol::message::AgentMessage;
use crate::store::{
    CompactionCheckpoint, SessionEntry, SessionPage, SessionQuery, SessionRow, Store,
};
use crate::support::{Clock, Ids, Live, trouble};

/// What `health` calls an index that was lost.
const PART: &str = "sessions";

/// The service; clones share it.
#[derive(Clone)]
pub struct Sessions {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    state_dir: PathBuf,
    pub(super) options: Live<SessionsOptions>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) writer: Writer,
    /// Turns of those who read large transcripts.
    pub(super) turns: Arc<Semaphore>,
    /// Of compactions that the index did not take.
    pub(super) unnoted: Mutex<HashMap<SessionKey, Vec<CompactionCheckpoint>>>,
}

impl Sessions {
    /// Starts the service. An index that is new or was lost is filled from the
    /// transcripts, or from OpenClaw's `sessions.json`, which stays as it is.
    pub async fn open(
        options: SessionsOptions,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, SessionError> {
        let writer = Writer::start()?;
        let (state_dir, options) = (options.state_dir.clone(), Live::new(options));
        let (unnoted, turns) = (Mutex::default(), Arc::new(Semaphore::new(LARGE_READS)));
        let inner =
            Arc::new(Inner { state_dir, options, store, clock, ids, writer, turns, unnoted });
        let sessions = Self { inner };
        sessions.put_away_rest(None).await?;
        if sessions.inner.store.is_index_new().await? {
            let found = sessions.rebuild_index().await?;
            if found > 0 {
                tracing::info!(sessions = found, "filled the session index from the files");
                sessions.tell_loss().await?;
            }
        }
        Ok(sessions)
    }

    /// Adds the sessions that have files and no place in the index; answers how
    /// many. Files are only read.
    pub async fn rebuild_index(&self) -> Result<usize, SessionError> {
        let options = self.inner.options.now();
        let found = blocking(move || {
            rebuild::find(&options.state_dir, &options.rules)
                .at("look for sessions in", &options.state_dir)
        });
        let created = self.inner.store.create_sessions_if_absent(found.await?).await?;
        Ok(created.iter().filter(|(_, is_new)| *is_new).count())
    }

    /// Tells, until the process ends, that the index was lost where the files show that it
    /// was not new.
    async fn tell_loss(&self) -> Result<(), SessionError> {
        let state_dir = self.inner.state_dir.clone();
        let lost = blocking(move || Ok(rebuild::lost_with_database(&state_dir))).await?;
        if let Some(lost) = lost {
            let told = format!(
                "there was no database, or an empty one, beside conversations that were begun \
                 here: they are listed again, and what else was in it is gone ({lost}); \
                 docs/operations.md, Backup"
            );
            tracing::warn!("{told}");
            trouble::tell(PART, Some(told));
        }
        Ok(())
    }

    /// How many sessions an agent has, and the `limit` that changed last.
    pub async fn summary(
        &self,
        agent: &str,
        limit: u32,
    ) -> Result<(u64, Vec<SessionRow>), SessionError> {
        let count = self.inner.store.count_sessions(Some(agent)).await?;
        let recent = self.inner.store.recent_sessions(Some(agent), limit).await?;
        Ok((count, recent))
    }

    /// Looks whether transcripts can be written where the last one could not.
    ///
    /// # Errors
    /// Why not.
    pub async fn look_again(&self) -> Result<(), SessionError> {
        Ok(self.inner.writer.look_again().await?)
    }

    /// How keys become canonical.
    pub fn rules(&self) -> Arc<KeyRules> {
        Arc::clone(&self.inner.options.now().rules)
    }

    /// These rules, with the main sessions of these agents that began under others.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn with_kept(
        &self,
        rules: KeyRules,
        agents: &[AgentId],
    ) -> Result<KeyRules, SessionError> {
        let mut kept = BTreeSet::new();
        for key in agents.iter().flat_map(|agent| rules.kept_of(agent)) {
            if self.entry(&key).await?.is_some() {
                kept.insert(key);
            }
        }
        Ok(KeyRules { kept, ..rules })
    }

    /// Other terms from now on. The state folder stays the same.
    pub fn reconfigure(&self, options: SessionsOptions) {
        self.inner.options.set(options);
    }

    /// Other rules from now on: what `change` makes of those of now.
    pub fn change_rules(&self, change: impl Fn(&KeyRules) -> KeyRules) {
        self.inner.options.change(|options| {
            let rules = Arc::new(change(&options.rules));
            SessionsOptions { rules, ..options.clone() }
        });
    }

    /// The session with this key.
    pub async fn entry(&self, key: &SessionKey) -> Result<Option<SessionEntry>, SessionError> {
        Ok(self.inner.store.session(key.as_str()).await?)
    }

    /// The session whose current transcript has this id.
    pub async fn by_id(&self, id: &str) -> Result<Option<SessionRow>, SessionError> {
        Ok(self.inner.store.session_by_id(id).await?)
    }

    /// The sessions that a query asks for.
    pub async fn list(&self, query: SessionQuery) -> Result<SessionPage, SessionError> {
        Ok(self.inner.store.list_sessions(query).await?)
    }

    /// Changes what the index knows of a session.
    pub async fn update(
        &self,
        key: &SessionKey,
        change: impl FnOnce(&mut SessionEntry) + Send + 'static,
    ) -> Result<SessionEntry, SessionError> {
        let changed = self.inner.store.update_session(key.as_str(), Box::new(change)).await?;
        changed.ok_or_else(|| SessionError::NotFound(key.clone()))
    }

    /// The session with this key, begun if there is none; `cwd` is noted in a
    /// new transcript.
    pub async fn ensure(&self, key: &SessionKey, cwd: &Path) -> Result<SessionEntry, SessionError> {
        if let Some(entry) = self.entry(key).await? {
            return Ok(entry);
        }
        let new = self.new_session(key);
        // The row decides who was first. A crash before the file exists is
        // harmless: the first append makes it.
        let created = self.inner.store.create_sessions_if_absent(vec![new]).await?;
        let entry = created.into_iter().next().map(|(entry, _)| entry);
        let entry = entry.ok_or_else(|| SessionError::NotFound(key.clone()))?;
        self.begin(key, &entry, cwd).await;
        Ok(entry)
    }

    /// Appends a message. It is on disk when this returns.
    pub async fn append(
        &self,
        key: &SessionKey,
        message: AgentMessage,
        options: AppendOptions,
    ) -> Result<StoredMessage, SessionError> {
        let entry = self.existing(key).await?;
        self.append_to(key, &entry, message, options).await
    }

    /// The same, for whoever has just read the session's entry.
    pub async fn append_to(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        message: AgentMessage,
        options: AppendOptions,
    ) -> Result<StoredMessage, SessionError> {
        let is_quiet = options.is_quiet;
        let message = match &options.idempotency_key {
            Some(idempotency_key) => marked(message, idempotency_key),
            None => message,
        };
        let json =
            serde_json::to_string(&message).map_err(|error| SessionError::Encode(error.into()))?;
        let kind = NewKind::Message { json, idempotency_key: options.idempotency_key };
        let mut placed = self.put(key, entry, options.id, kind).await?;
        let (id, seq) = (placed.id.clone(), placed.position.messages);
        let first = placed.repeated.take();
        let is_repeated = first.is_some();
        let first = first.and_then(|first| serde_json::from_value(first).ok());
        let message = first.unwrap_or(message);
        // A kill may have come between its line and the note of it.
        if is_repeated && placed.position.bytes <= entry.transcript.bytes {
            let session = entry.clone();
            return Ok(StoredMessage { id, seq, message, session, is_repeated });
        }
        let session = match self.note(key, entry, &placed, Some(message.clone()), is_quiet).await {
            Err(SessionError::Store(error)) => {
                // It is stored. Whoever reads the transcript finds where it ends.
                tracing::error!(session = %key, %error, "index of a stored message not updated");
                let mut session = entry.clone();
                remember(&mut session, placed.position.clone());
                session
            }
            noted => noted?,
        };
        Ok(StoredMessage { id, seq, message, session, is_repeated })
    }

    /// The newest messages as clients see them; empty for an unknown session.
    pub async fn history(
        &self,
        key: &SessionKey,
        options: HistoryOptions,
    ) -> Result<HistoryPage, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(HistoryPage::default()) };
        let read = move |file: &File, end: &Position| history::newest(file, end, options);
        let messages = self.read(key, &entry, read).await?;
        Ok(HistoryPage { session_id: Some(entry.session_id.clone()), messages, entry: Some(entry) })
    }

    /// The newest of some messages of a session; `None` when there is no such session.
    ///
    /// # Errors
    /// When the transcript cannot be read.
    pub async fn part(
        &self,
        key: &SessionKey,
        options: HistoryOptions,
        between: Between,
    ) -> Result<Option<TranscriptPart>, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(None) };
        let read = move |file: &File, end: &Position| history::part(file, end, options, between);
        let part = self.read(key, &entry, read).await?;
        Ok(Some(TranscriptPart { session_id: entry.session_id, ..part }))
    }

    /// How many messages a session has. Where the index has found its transcript by itself, they
    /// are counted now.
    ///
    /// # Errors
    /// When the transcript cannot be read.
    pub async fn message_count(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
    ) -> Result<u64, SessionError> {
        if entry.transcript.bytes > 0 {
            return Ok(entry.transcript.message_count);
        }
        self.read(key, entry, |_: &File, end: &Position| Ok(end.messages)).await
    }

    /// What the model reads: the latest summary and what follows it.
    pub async fn context(&self, key: &SessionKey) -> Result<Vec<AgentMessage>, SessionError> {
        let entries = self.context_entries(key).await?;
        Ok(entries.into_iter().map(|entry| entry.message).collect())
    }

    /// The context with the ids of its entries, for compaction.
    pub async fn context_entries(
        &self,
        key: &SessionKey,
    ) -> Result<Vec<ContextEntry>, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(Vec::new()) };
        self.read(key, &entry, context::read).await
    }

    /// Puts the transcript away and begins a new one; settings stay. A session
    /// that does not exist is begun. It has happened once the index says so, and
    /// is answered then, whatever becomes of the files.
    pub async fn reset(&self, key: &SessionKey, cwd: &Path) -> Result<SessionEntry, SessionError> {
        let Some(old) = self.entry(key).await? else {
            let new = self.ensure(key, cwd).await?;
            let (id, file, now) = (new.session_id, new.session_file, new.updated_at);
            return self.update(key, move |entry| renew(entry, id, file, now)).await;
        };
        let now = self.inner.clock.now_ms();
        let id = self.inner.ids.uuid();
        let file = self.new_file(key, &id);
        let noted = self.leaving(key, &old, "reset").await?;
        let entry = self.update(key, move |entry| renew(entry, id, file, now)).await?;
        self.archive(key, &old, "reset", noted).await;
        self.begin(key, &entry, cwd).await;
        Ok(entry)
    }

    /// Takes a session out of the index; its transcript is put away, or left
    /// where it is, also when it cannot be put away: [`Self::put_away_rest`] completes
    /// that. `None` when there is no such session.
    pub async fn delete(
        &self,
        key: &SessionKey,
        remains: Remains,
    ) -> Result<Option<DeletedSession>, SessionError> {
        let mut noted = None;
        if remains != Remains::WithAgent
            && let Some(entry) = self.entry(key).await?
        {
            if remains == Remains::PutAway {
                noted = self.leaving(key, &entry, "deleted").await?;
            } else {
                self.lets_go(key, &entry).await;
            }
        }
        let Some(entry) = self.inner.store.delete_session(key.as_str()).await? else {
            return Ok(None);
        };
        let mut archived = Vec::new();
        if remains == Remains::PutAway {
            archived.extend(self.archive(key, &entry, "deleted", noted).await);
        }
        Ok(Some(DeletedSession { entry, archived }))
    }

    /// The state folder.
    pub fn state_dir(&self) -> &Path {
        &self.inner.state_dir
    }

    /// The files that came with messages.
    pub fn media(&self) -> Media {
        Media::new(self.state_dir())
    }

    /// The folder of an agent's transcripts.
    pub fn folder(&self, agent: &AgentId) -> PathBuf {
        paths::folder(self.state_dir(), agent)
    }

    /// The transcript of a session.
    pub fn path(&self, key: &SessionKey, entry: &SessionEntry) -> Result<PathBuf, SessionError> {
        paths::transcript(&self.folder(&key.agent(&self.rules())), key, entry)
    }
}
