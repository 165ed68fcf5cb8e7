//! The steps that the session service is made of: from an entry to its file,
//! from a file to what the index knows of it.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::display::{HEARTBEAT_KIND, JOB_KIND, is_of_heartbeat};
use super::error::{At, SessionError, TranscriptError};
use super::service::Sessions;
use super::transcript::{Birth, NewEntry, NewKind, Place, Placed, Position, position};
use super::{SessionId, SessionKey, WEBCHAT, digest, import, paths, time};
use crate::protocol::message::{AgentMessage, UserMessage};
use crate::store::{NewSession, SessionEntry, SourceNote};
use crate::support::{self, json, trouble};

/// How long a reader waits until the index knows what he has found: it is no harm
/// when the next one has to find it, too.
const NOTE_LIMIT: Duration = Duration::from_millis(500);
/// Transcripts that are read at a time, of those that are large: each reader holds the longest
/// message some times over, and all clients come at once after a restart.
pub(super) const LARGE_READS: usize = 4;
/// Larger than this is large.
const SMALL_MAX: u64 = 1024 * 1024;

impl Sessions {
    pub(super) async fn existing(&self, key: &SessionKey) -> Result<SessionEntry, SessionError> {
        self.entry(key).await?.ok_or_else(|| SessionError::NotFound(key.clone()))
    }

    pub(super) fn new_file(&self, key: &SessionKey, id: &str) -> Option<String> {
        let path = paths::file(&self.folder(&key.agent(&self.rules())), &SessionId::parse(id)?);
        Some(path.to_string_lossy().into_owned())
    }

    /// A session that begins now.
    pub(super) fn new_session(&self, key: &SessionKey) -> NewSession {
        let now = self.inner.clock.now_ms();
        let id = self.inner.ids.uuid();
        NewSession {
            key: key.as_str().to_owned(),
            agent: key.agent(&self.rules()).as_str().to_owned(),
            entry: SessionEntry {
                session_file: self.new_file(key, &id),
                session_id: id,
                updated_at: now,
                session_started_at: Some(now),
                ..SessionEntry::default()
            },
        }
    }

    pub(super) fn place(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        cwd: Option<&Path>,
    ) -> Result<Place, SessionError> {
        let options = self.inner.options.now();
        let default_workspace = || options.state_dir.join("workspace");
        let cwd = cwd.map_or_else(default_workspace, Path::to_owned);
        Ok(Place {
            path: self.path(key, entry)?,
            birth: Birth {
                format: options.format,
                session_id: entry.session_id.clone(),
                session_key: key.as_str().to_owned(),
                cwd: cwd.to_string_lossy().into_owned(),
                timestamp: time::iso(self.inner.clock.now_ms()),
                parent: None,
                copied: None,
            },
            known: known(entry),
        })
    }

    pub(super) async fn put(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        id: Option<String>,
        kind: NewKind,
    ) -> Result<Placed, SessionError> {
        let id = id.unwrap_or_else(|| self.inner.ids.entry_id());
        let timestamp = time::iso(self.inner.clock.now_ms());
        let place = counted(self.place(key, entry, None)?).await?;
        Ok(self.inner.writer.append(place, NewEntry { id, timestamp, kind }).await?)
    }

    /// Begins the transcript of a session that is in the index. One that cannot be
    /// begun takes nothing back: the first append makes the file.
    pub(super) async fn begin(&self, key: &SessionKey, entry: &SessionEntry, cwd: &Path) {
        let begun = match self.place(key, entry, Some(cwd)) {
            Ok(place) => self.inner.writer.begin(place).await.map_err(SessionError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            let told = "a session has no transcript yet; its first message begins one, once that \
                        can be written";
            tracing::error!(session = %key, %error, "{told}");
        }
    }

    /// Notes that the transcript of a session stays without it, so that no import takes it for
    /// something new; answers the note. Noted before it is so, it is no harm: what a session
    /// has comes anyway.
    pub(super) async fn lets_go(&self, key: &SessionKey, entry: &SessionEntry) -> SourceNote {
        let note = import::kept(self.state_dir(), &entry.session_id, self.inner.clock.now_ms());
        if let Err(error) = self.inner.store.note_sources(vec![note.clone()]).await {
            tracing::warn!(session = %key, %error, "an import may bring back what it had");
        }
        note
    }

    /// Takes an append into the index.
    pub(super) async fn note(
        &self,
        key: &SessionKey,
        before: &SessionEntry,
        placed: &Placed,
        message: Option<AgentMessage>,
        is_quiet: bool,
    ) -> Result<SessionEntry, SessionError> {
        let now = self.inner.clock.now_ms();
        let session_id = before.session_id.clone();
        let end = placed.position.clone();
        let change = move |entry: &mut SessionEntry| {
            if entry.session_id != session_id {
                return;
            }
            if !is_quiet && !message.as_ref().is_some_and(is_asked_quietly) {
                entry.updated_at = entry.updated_at.max(now);
            }
            // Appends that were synced together may come here in any order.
            if end.bytes > entry.transcript.bytes {
                remember(entry, end);
            }
            if let Some(message) = &message {
                digest::note(&mut entry.transcript, message);
                // What the gateway asks by itself is no visit of anybody.
                if matches!(message, AgentMessage::User(user) if !is_by_gateway(user)) {
                    entry.last_interaction_at = Some(now);
                    note_source(entry);
                }
            }
        };
        let entry = self.update(key, change).await?;
        Box::pin(self.note_late(key)).await;
        if entry.session_id == before.session_id {
            Ok(entry)
        } else {
            Err(SessionError::Replaced(key.clone()))
        }
    }

    /// Waits for the turn of whoever reads this transcript, which ends when it is dropped; a
    /// small one needs none.
    pub(super) async fn turn(&self, path: &Path) -> Option<OwnedSemaphorePermit> {
        let length = fs::metadata(path).map(|found| found.len()).unwrap_or_default();
        if length <= SMALL_MAX {
            return None;
        }
        // Nobody closes it.
        Arc::clone(&self.inner.turns).acquire_owned().await.ok()
    }

    /// Reads a transcript up to its end, and notes where that is if the index
    /// did not know.
    pub(super) async fn read<T: Default + Send + 'static>(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        read: impl FnOnce(&File, &Position) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SessionError> {
        let read = move |file: &File, end: &Position| -> io::Result<Found> {
            Ok(Box::new(read(file, end)?))
        };
        let found = self.read_boxed(key, entry, Box::new(read)).await?;
        let found = found.and_then(|found| found.downcast::<T>().ok());
        Ok(found.map(|found| *found).unwrap_or_default())
    }

    /// The same, in the program once for all that is read; `None` where there is no file.
    async fn read_boxed(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        read: Box<Read>,
    ) -> Result<Option<Found>, SessionError> {
        let path = self.path(key, entry)?;
        let known = known(entry);
        let start = known.clone();
        let turn = self.turn(&path).await;
        let reading = blocking(move || {
            // Not given back before, also when nobody waits for what is read.
            let _turn = turn;
            let file = match paths::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened.at("open", &path)?,
            };
            let find = || {
                let end = position(&file, file.metadata()?.len(), &start)?;
                Ok((read(&file, &end)?, end))
            };
            find().at("read", &path).map(Some)
        });
        let Some((found, end)) = reading.await? else { return Ok(None) };
        if end != known && !trouble::disk_hangs() {
            let caught_up = move |entry: &mut SessionEntry| {
                if self::known(entry) == known {
                    remember(entry, end);
                }
            };
            let noting = self.inner.store.update_session(key.as_str(), Box::new(caught_up));
            // What was read is worth as much where it cannot be noted.
            if let Ok(Err(error)) = timeout(NOTE_LIMIT, noting).await {
                tracing::debug!(session = %key, %error, "the end of a transcript is not noted");
            }
        }
        Ok(Some(found))
    }
}

/// What was read of a transcript.
type Found = Box<dyn Any + Send>;
/// What reads a transcript, up to its end.
type Read = dyn FnOnce(&File, &Position) -> io::Result<Found> + Send;

/// Most bytes that the writer of all transcripts may have to count by itself:
/// a millisecond or two.
const UNCOUNTED_MAX: u64 = 1024 * 1024;

/// Counts a long part of a file that the index does not know, so that nobody
/// else's message waits for it.
async fn counted(mut place: Place) -> Result<Place, TranscriptError> {
    let length = fs::metadata(&place.path).map(|found| found.len()).unwrap_or_default();
    // A file that became shorter is counted anew.
    let uncounted = length.checked_sub(place.known.bytes).unwrap_or(length);
    if uncounted > UNCOUNTED_MAX {
        let (path, known) = (place.path.clone(), place.known);
        place.known = blocking(move || {
            let count = || position(&paths::open(&path)?, length, &known);
            count().at("read", &path)
        })
        .await?;
    }
    Ok(place)
}

fn known(entry: &SessionEntry) -> Position {
    let facts = &entry.transcript;
    Position { bytes: facts.bytes, messages: facts.message_count, leaf: facts.leaf_id.clone() }
}

pub(super) fn remember(entry: &mut SessionEntry, end: Position) {
    entry.transcript.bytes = end.bytes;
    entry.transcript.message_count = end.messages;
    entry.transcript.leaf_id = end.leaf;
}

/// Whether a heartbeat or a job asks.
fn is_by_gateway(message: &UserMessage) -> bool {
    let provenance = message.extra.get("provenance").and_then(|provenance| provenance.get("kind"));
    let kind = provenance.and_then(Value::as_str);
    kind.is_some_and(|kind| kind == HEARTBEAT_KIND || kind == JOB_KIND)
}

/// Whether it is the question of a heartbeat, which lifts its session in no list.
fn is_asked_quietly(message: &AgentMessage) -> bool {
    matches!(message, AgentMessage::User(message) if is_of_heartbeat(&message.extra))
}

/// A session that no channel has claimed is a chat of the gateway itself.
fn note_source(entry: &mut SessionEntry) {
    let channel = entry.last_channel.get_or_insert_with(|| WEBCHAT.into()).clone();
    let chat_type = entry.chat_type.get_or_insert_with(|| "direct".into()).clone();
    entry.origin.get_or_insert_with(
        || json!({"provider": channel, "surface": channel, "chatType": chat_type}),
    );
    entry.delivery_context.get_or_insert_with(|| json!({"channel": channel}));
    entry.system_sent.get_or_insert(true);
    entry.aborted_last_run.get_or_insert(false);
}

/// What stays of an entry over a reset is what a person has set.
pub(super) fn renew(entry: &mut SessionEntry, id: String, file: Option<String>, now: u64) {
    let fresh = SessionEntry {
        session_id: id,
        session_file: file,
        session_started_at: Some(now),
        system_sent: Some(false),
        aborted_last_run: Some(false),
        input_tokens: Some(0),
        output_tokens: Some(0),
        total_tokens: Some(0),
        total_tokens_fresh: Some(true),
        ..SessionEntry::default()
    };
    show(entry, fresh);
    entry.updated_at = now;
}

/// Shows the transcript of another session, and what ran in it. What a person has set
/// stays, as over a reset.
pub(super) fn show(entry: &mut SessionEntry, other: SessionEntry) {
    *entry = SessionEntry {
        session_id: other.session_id,
        session_file: other.session_file,
        updated_at: entry.updated_at.max(other.updated_at),
        session_started_at: other.session_started_at,
        last_interaction_at: other.last_interaction_at,
        system_sent: other.system_sent,
        aborted_last_run: other.aborted_last_run,
        status: other.status,
        started_at: other.started_at,
        ended_at: other.ended_at,
        runtime_ms: other.runtime_ms,
        input_tokens: other.input_tokens,
        output_tokens: other.output_tokens,
        cache_read: other.cache_read,
        cache_write: other.cache_write,
        total_tokens: other.total_tokens,
        total_tokens_fresh: other.total_tokens_fresh,
        estimated_cost_usd: other.estimated_cost_usd,
        compaction_count: other.compaction_count,
        compaction_checkpoints: other.compaction_checkpoints,
        model_provider: other.model_provider,
        model: other.model,
        context_tokens: other.context_tokens,
        live_model_switch_pending: other.live_model_switch_pending,
        transcript: other.transcript,
        ..std::mem::take(entry)
    };
}

pub(super) fn marked(mut message: AgentMessage, idempotency_key: &str) -> AgentMessage {
    let extra = match &mut message {
        AgentMessage::User(message) => &mut message.extra,
        AgentMessage::Assistant(message) => &mut message.extra,
        AgentMessage::ToolResult(message) => &mut message.extra,
    };
    extra.insert("idempotencyKey".into(), Value::from(idempotency_key));
    message
}

/// Runs file work off the threads that serve sockets.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TranscriptError> + Send + 'static,
) -> Result<T, TranscriptError> {
    support::blocking(work).await.unwrap_or(Err(TranscriptError::Stopped))
}
