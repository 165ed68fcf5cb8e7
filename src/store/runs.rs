//! Runs and the idempotency keys that started them.
//!
//! Promises: of many claims of one key exactly one is new, also across a
//! restart. An aborted run gives its key back, as in the original, and so does
//! a message whose run has failed, after a while.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::column::{signed, unsigned};
use super::error::Fault;

/// How long the record of an ended run is kept.
const RETENTION_MS: u64 = 24 * 60 * 60 * 1000;

/// How long the key of a message is taken whose run has failed, as in the original: who
/// sends it again later wants another try.
const FAILED_MS: u64 = 6 * 60 * 1000;

/// Whose keys are messages of clients; what the gateway asks by itself, it asks once.
const MESSAGES: &str = "chat";

/// How many records of ended runs are kept at most.
const RETAINED_MAX: u32 = 10_000;

const COLUMNS: &str =
    "scope, key, run_id, session_key, text_hash, state, error, created_at, ended_at, message";

/// A run that wants to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Whose keys these are, so that families of methods do not collide.
    pub scope: String,
    /// The idempotency key.
    pub key: String,
    /// Id that the run will have.
    pub run_id: String,
    /// Canonical key of its session.
    pub session_key: String,
    /// Hash of a text that must not run twice at once in that session; an
    /// active run with the same hash is then answered instead.
    pub text_hash: Option<String>,
    /// What is to be answered, so that a crash cannot lose it.
    pub message: Option<String>,
    /// Now, in milliseconds.
    pub now_ms: u64,
}

/// Answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The key was free and is yours.
    New,
    /// This run has it, or was started by the same text.
    Existing(RunRecord),
}

/// What is known about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// Whose key it is.
    pub scope: String,
    /// The idempotency key.
    pub key: String,
    /// Id of the run.
    pub run_id: String,
    /// Canonical key of its session.
    pub session_key: String,
    /// Hash of the text that started it.
    pub text_hash: Option<String>,
    /// How far it is.
    pub state: RunState,
    /// Why it failed; the word of the reason when somebody stopped it.
    pub error: Option<String>,
    /// Start in milliseconds.
    pub created_at: u64,
    /// End in milliseconds.
    pub ended_at: Option<u64>,
    /// What is to be answered; kept until it is in the transcript.
    pub message: Option<String>,
}

impl RunRecord {
    /// Whether its key is still taken then.
    pub fn holds_key(&self, now_ms: u64) -> bool {
        if self.state == RunState::Aborted {
            return false;
        }
        let ended = self.ended_at.filter(|_| self.state == RunState::Failed);
        self.scope != MESSAGES || ended.is_none_or(|ended| now_ms < ended.saturating_add(FAILED_MS))
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Waiting or running.
    Active,
    /// It ended well.
    Done,
    /// It failed.
    Failed,
    /// Somebody stopped it.
    Aborted,
    /// The gateway stopped under it.
    Interrupted,
}

impl RunState {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
        }
    }

    /// A word of a later release counts as ended.
    fn parse(word: &str) -> Self {
        [Self::Active, Self::Done, Self::Failed, Self::Aborted]
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or(Self::Interrupted)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// Well.
    Done,
    /// With this error.
    Failed(String),
    /// Somebody stopped it, for this reason; its key is free again.
    Aborted(&'static str),
}

impl RunOutcome {
    fn parts(&self) -> (RunState, Option<&str>) {
        match self {
            Self::Done => (RunState::Done, None),
            Self::Failed(error) => (RunState::Failed, Some(error)),
            Self::Aborted(reason) => (RunState::Aborted, Some(reason)),
        }
    }
}

/// Takes a key for a run. Where it was that of a run which has failed or was stopped, `forget` is
/// called with the id of that one first.
pub(super) fn claim(
    connection: &Connection,
    run: &NewRun,
    forget: impl FnOnce(&Connection, &str) -> Result<(), Fault>,
) -> Result<Claim, Fault> {
    let existing = by_key(connection, &run.scope, &run.key)?;
    let earlier = match existing {
        Some(existing) if existing.holds_key(run.now_ms) => return Ok(Claim::Existing(existing)),
        ended => ended,
    };
    if let Some(existing) = by_text(connection, run)? {
        return Ok(Claim::Existing(existing));
    }
    // What chats were told of it would stand where the answer has its place.
    if let Some(earlier) = earlier {
        forget(connection, &earlier.run_id)?;
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO runs (scope, key, run_id, session_key, text_hash, state, created_at, message)
             VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?7)",
        )?
        .execute(params![
            run.scope, run.key, run.run_id, run.session_key, run.text_hash, signed(run.now_ms), run.message
        ])?;
    Ok(Claim::New)
}

pub(super) fn by_key(
    connection: &Connection,
    scope: &str,
    key: &str,
) -> rusqlite::Result<Option<RunRecord>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE scope = ?1 AND key = ?2"))?
        .query_row([scope, key], record)
        .optional()
}

fn by_text(connection: &Connection, run: &NewRun) -> rusqlite::Result<Option<RunRecord>> {
    let Some(hash) = &run.text_hash else { return Ok(None) };
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs
             WHERE session_key = ?1 AND state = 'active' AND scope = ?2 AND text_hash = ?3 LIMIT 1"
        ))?
        .query_row(params![run.session_key, run.scope, hash], record)
        .optional()
}

pub(super) fn finish(
    connection: &Connection,
    (scope, run_id): (&str, &str),
    outcome: &RunOutcome,
    is_stored: bool,
    now_ms: u64,
) -> Result<bool, Fault> {
    let (state, error) = outcome.parts();
    let changed = connection
        .prepare_cached(
            "UPDATE runs SET state = ?2, error = ?3, ended_at = ?4,
                message = CASE WHEN ?5 THEN NULL ELSE message END
             WHERE run_id = ?1 AND scope = ?6 AND state = 'active'",
        )?
        .execute(params![run_id, state.as_str(), error, signed(now_ms), is_stored, scope])?;
    Ok(changed > 0)
}

pub(super) fn by_id(connection: &Connection, run_id: &str) -> Result<Option<RunRecord>, Fault> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs WHERE run_id = ?1 ORDER BY created_at DESC LIMIT 1"
        ))?
        .query_row([run_id], record)
        .optional()?;
    Ok(found)
}

pub(super) fn unsettled(connection: &Connection) -> Result<Vec<RunRecord>, Fault> {
    let records = connection
        .prepare(&format!(
            "SELECT {COLUMNS} FROM runs
             WHERE message IS NOT NULL OR state = 'active' ORDER BY rowid"
        ))?
        .query_map([], record)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(records)
}

pub(super) fn message_stored(
    connection: &Connection,
    (scope, run_id): (&str, &str),
) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE runs SET message = NULL WHERE scope = ?1 AND run_id = ?2")?
        .execute([scope, run_id])?;
    Ok(())
}

pub(super) fn message_taken(
    connection: &Connection,
    (scope, run_id): (&str, &str),
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE runs SET message = NULL, text_hash = NULL WHERE scope = ?1 AND run_id = ?2",
        )?
        .execute([scope, run_id])?;
    Ok(())
}

pub(super) fn interrupt(connection: &Connection, now_ms: u64) -> Result<usize, Fault> {
    let interrupted = connection.execute(
        "UPDATE runs SET state = 'interrupted', ended_at = ?1 WHERE state = 'active'",
        [signed(now_ms)],
    )?;
    Ok(interrupted)
}

pub(super) fn prune(connection: &Connection, now_ms: u64) -> Result<u64, Fault> {
    let expired = connection.execute(
        "DELETE FROM runs WHERE ended_at < ?1 AND message IS NULL",
        [signed(now_ms.saturating_sub(RETENTION_MS))],
    )?;
    let surplus = connection.execute(
        "DELETE FROM runs WHERE rowid IN (
            SELECT rowid FROM runs WHERE ended_at IS NOT NULL AND message IS NULL
            ORDER BY ended_at DESC LIMIT -1 OFFSET ?1)",
        [RETAINED_MAX],
    )?;
    Ok(u64::try_from(expired.saturating_add(surplus)).unwrap_or(u64::MAX))
}

fn record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    Ok(RunRecord {
        scope: row.get(0)?,
        key: row.get(1)?,
        run_id: row.get(2)?,
        session_key: row.get(3)?,
        text_hash: row.get(4)?,
        state: RunState::parse(row.get_ref(5)?.as_str()?),
        error: row.get(6)?,
        created_at: unsigned(row.get(7)?),
        ended_at: row.get::<_, Option<i64>>(8)?.map(unsigned),
        message: row.get(9)?,
    })
}
