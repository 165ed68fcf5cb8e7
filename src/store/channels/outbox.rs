//! Parts of messages on their way out.
//!
//! Promises: a part is keyed by what it belongs to, where it goes and its
//! place, and is there once; it is noted as being sent before anybody sends it,
//! so that a crash leaves it uncertain and never makes it go out twice.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;

/// How long parts that are settled are kept.
const RETENTION_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// How many of them are kept at most.
const RETAINED_MAX: u32 = 10_000;

/// What is said of a part that somebody was sending when the gateway stopped. It stands in
/// databases, and is looked for there: it stays as it is.
const CUT_OFF: &str = "the gateway stopped while it was being sent";

const COLUMNS: &str = "id, delivery, channel, account, target, thread, part, body, state, \
                       attempts, due_at, message_id, error, created_at";

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxState {
    /// It is to be sent.
    Waiting,
    /// Somebody is sending it.
    Sending,
    /// The service has it.
    Sent,
    /// Nobody knows whether the service has it; it is not sent again.
    Uncertain,
    /// The service does not take it.
    Failed,
}

impl OutboxState {
    /// The word in the database and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Uncertain => "uncertain",
            Self::Failed => "failed",
        }
    }

    /// A word of a later release is not sent again.
    fn parse(word: &str) -> Self {
        [Self::Waiting, Self::Sending, Self::Sent, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or(Self::Uncertain)
    }

    /// Whether nothing more happens to it.
    pub const fn is_settled(self) -> bool {
        !matches!(self, Self::Waiting | Self::Sending)
    }
}

/// Where parts go; those to one address go one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutboxAddress {
    /// Id of the channel.
    pub channel: String,
    /// Which of our accounts there.
    pub account: String,
    /// The channel's id of the person, group or room.
    pub target: String,
    /// Thread in it; empty when there is none.
    pub thread: String,
}

/// A part that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPart {
    /// What it belongs to: the id of a run, or of a request.
    pub delivery: String,
    /// Where it goes.
    pub address: OutboxAddress,
    /// Its place, counted from 0.
    pub part: u32,
    /// What it is, as JSON.
    pub body: String,
}

/// A part as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPart {
    /// Its number.
    pub id: i64,
    /// What it belongs to.
    pub delivery: String,
    /// Where it goes.
    pub address: OutboxAddress,
    /// Its place, counted from 0.
    pub part: u32,
    /// What it is, as JSON.
    pub body: String,
    /// How far it is.
    pub state: OutboxState,
    /// How often it was tried.
    pub attempts: u32,
    /// Not before this time.
    pub due_at: u64,
    /// The service's id of the message.
    pub message_id: Option<String>,
    /// What went wrong last; of one that was cut off, that.
    pub error: Option<String>,
    /// When it was put here.
    pub created_at: u64,
}

impl OutboxPart {
    /// Whether a gateway stopped while it was being sent: what became of that try is not known,
    /// whatever has become of those after it.
    pub fn was_cut_off(&self) -> bool {
        self.error.as_deref() == Some(CUT_OFF)
    }
}

/// What there is to do for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxNext {
    /// This part; it is noted as being sent.
    Send(Box<OutboxPart>),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing.
    Nothing,
}

/// What became of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSettled {
    /// How far it is now.
    pub state: OutboxState,
    /// The service's id of the message.
    pub message_id: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// When it is tried again, if it waits.
    pub due_at: u64,
}

/// How many parts of an account are how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    /// To be sent, or being sent.
    pub waiting: u64,
    /// Nobody knows.
    pub uncertain: u64,
    /// Not taken.
    pub failed: u64,
}

/// Adds parts, but for those that are there already; answers the numbers of
/// all, in order.
pub(super) fn add(
    connection: &Connection,
    parts: &[NewPart],
    now_ms: u64,
) -> Result<Vec<i64>, Fault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO channel_outbox
            (delivery, channel, account, target, thread, part, body, state, attempts, due_at,
             created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'waiting', 0, ?8, ?8, ?8)
         ON CONFLICT DO NOTHING",
    )?;
    let mut find = connection.prepare_cached(
        "SELECT id FROM channel_outbox
         WHERE delivery = ?1 AND channel = ?2 AND account = ?3 AND target = ?4 AND thread = ?5
            AND part = ?6",
    )?;
    let mut ids = Vec::with_capacity(parts.len());
    for new in parts {
        let NewPart { delivery, address, part, body } = new;
        let OutboxAddress { channel, account, target, thread } = address;
        let now = signed(now_ms);
        insert.execute(params![delivery, channel, account, target, thread, part, body, now])?;
        let key = params![delivery, channel, account, target, thread, part];
        ids.push(find.query_row(key, |row| row.get(0))?);
    }
    Ok(ids)
}

/// Forgets what was to be sent for a run that is done anew under its key.
pub(in crate::store) fn forget(connection: &Connection, delivery: &str) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM channel_outbox WHERE delivery = ?1")?
        .execute([delivery])?;
    Ok(())
}

/// The oldest part of an address that is not settled. One that waits behind
/// another is not looked at: the order of messages is kept.
pub(super) fn next(
    connection: &Connection,
    address: &OutboxAddress,
    now_ms: u64,
) -> Result<OutboxNext, Fault> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM channel_outbox
             WHERE channel = ?1 AND account = ?2 AND target = ?3 AND thread = ?4
                AND state IN ('waiting', 'sending') ORDER BY id LIMIT 1"
        ))?
        .query_row(params![address.channel, address.account, address.target, address.thread], read)
        .optional()?;
    let Some(mut part) = found else { return Ok(OutboxNext::Nothing) };
    if part.state == OutboxState::Sending {
        // Somebody else is at it; there is one sender per address.
        return Ok(OutboxNext::Nothing);
    }
    if part.due_at > now_ms {
        return Ok(OutboxNext::Wait(part.due_at));
    }
    connection
        .prepare_cached(
            "UPDATE channel_outbox SET state = 'sending', attempts = attempts + 1, updated_at = ?2
             WHERE id = ?1",
        )?
        .execute(params![part.id, signed(now_ms)])?;
    part.state = OutboxState::Sending;
    part.attempts = part.attempts.saturating_add(1);
    Ok(OutboxNext::Send(Box::new(part)))
}

/// Notes what became of a try. What waits again after it was cut off stays known for that.
pub(super) fn settle(
    connection: &Connection,
    id: i64,
    settled: &OutboxSettled,
    now_ms: u64,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE channel_outbox SET state = ?2, message_id = ?3, due_at = ?5, updated_at = ?6,
                error = CASE WHEN ?2 = 'waiting' AND error = ?7 THEN error ELSE ?4 END
             WHERE id = ?1 AND state = 'sending'",
        )?
        .execute(params![
            id,
            settled.state.as_str(),
            settled.message_id,
            settled.error,
            signed(settled.due_at),
            signed(now_ms),
            CUT_OFF,
        ])?;
    Ok(())
}

/// What the last process was sending when it stopped is uncertain from now on;
/// answers how many parts that are. A text that takes the place of another may be set again.
pub(super) fn doubt(connection: &Connection, now_ms: u64) -> Result<usize, Fault> {
    // Such a text has `edits` beside it; inside of one the marks are written otherwise.
    connection.execute(
        "UPDATE channel_outbox SET state = 'waiting', updated_at = ?1, error = ?2
         WHERE state = 'sending' AND instr(body, '\"edits\":\"') > 0",
        params![signed(now_ms), CUT_OFF],
    )?;
    let changed = connection.execute(
        "UPDATE channel_outbox SET state = 'uncertain', updated_at = ?1, error = ?2
         WHERE state = 'sending'",
        params![signed(now_ms), CUT_OFF],
    )?;
    Ok(changed)
}

/// The addresses for which something waits.
pub(super) fn waiting(connection: &Connection) -> Result<Vec<OutboxAddress>, Fault> {
    let rows = connection
        .prepare_cached(
            "SELECT DISTINCT channel, account, target, thread FROM channel_outbox
             WHERE state = 'waiting'",
        )?
        .query_map([], |row| address(row, 0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// The parts of a delivery, in order.
pub(super) fn of_delivery(
    connection: &Connection,
    delivery: &str,
) -> Result<Vec<OutboxPart>, Fault> {
    let rows = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM channel_outbox WHERE delivery = ?1 ORDER BY id"
        ))?
        .query_map([delivery], read)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// How many parts of an account are how far.
pub(super) fn counts(
    connection: &Connection,
    channel: &str,
    account: &str,
) -> Result<OutboxCounts, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT state, COUNT(*) FROM channel_outbox
         WHERE channel = ?1 AND account = ?2 AND state <> 'sent' GROUP BY state",
    )?;
    let mut rows = statement.query([channel, account])?;
    let mut counts = OutboxCounts::default();
    while let Some(row) = rows.next()? {
        let (word, count): (String, i64) = (row.get(0)?, row.get(1)?);
        let place = match OutboxState::parse(&word) {
            OutboxState::Failed => &mut counts.failed,
            OutboxState::Uncertain => &mut counts.uncertain,
            _ => &mut counts.waiting,
        };
        *place += unsigned(count);
    }
    Ok(counts)
}

/// Forgets what was settled long ago, and the oldest beyond the most that are
/// kept.
pub(in crate::store) fn prune(connection: &Connection, now_ms: u64) -> Result<(), Fault> {
    // A sender gives up long before; nobody uses the account of these.
    connection.execute(
        "UPDATE channel_outbox SET state = 'failed', updated_at = ?1,
            error = 'given up: its account was not in use'
         WHERE state = 'waiting' AND created_at < ?2",
        [signed(now_ms), signed(now_ms.saturating_sub(RETENTION_MS))],
    )?;
    connection.execute(
        "DELETE FROM channel_outbox
         WHERE state NOT IN ('waiting', 'sending') AND updated_at < ?1",
        [signed(now_ms.saturating_sub(RETENTION_MS))],
    )?;
    connection.execute(
        "DELETE FROM channel_outbox WHERE id IN (
            SELECT id FROM channel_outbox WHERE state NOT IN ('waiting', 'sending')
            ORDER BY id DESC LIMIT -1 OFFSET ?1)",
        [RETAINED_MAX],
    )?;
    Ok(())
}

fn address(row: &Row<'_>, first: usize) -> rusqlite::Result<OutboxAddress> {
    Ok(OutboxAddress {
        channel: row.get(first)?,
        account: row.get(first + 1)?,
        target: row.get(first + 2)?,
        thread: row.get(first + 3)?,
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<OutboxPart> {
    Ok(OutboxPart {
        id: row.get(0)?,
        delivery: row.get(1)?,
        address: address(row, 2)?,
        part: row.get(6)?,
        body: row.get(7)?,
        state: OutboxState::parse(row.get_ref(8)?.as_str()?),
        attempts: row.get(9)?,
        due_at: unsigned(row.get(10)?),
        message_id: row.get(11)?,
        error: row.get(12)?,
        created_at: unsigned(row.get(13)?),
    })
}
