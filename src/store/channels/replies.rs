//! Replies that a channel is to get when a run has ended.
//!
//! Promises: the row is there before its run is accepted, and goes in the same
//! commit that puts the reply into the outbox; so a crash at any point leaves
//! the one or the other.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::outbox::{self, NewPart, OutboxAddress};
use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;

const COLUMNS: &str = "run_id, scope, session_key, channel, account, target, thread, reply_to, \
                       preview, created_at";

/// A reply that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedReply {
    /// The run that makes it.
    pub run_id: String,
    /// By which method that run came.
    pub scope: String,
    /// Its session.
    pub session_key: String,
    /// Where the reply goes.
    pub address: OutboxAddress,
    /// The message that it answers, in the channel's own words.
    pub reply_to: Option<String>,
    /// The message that shows it while it is written, in the same words.
    pub preview: Option<String>,
    /// Since when it is expected.
    pub created_at: u64,
}

/// Adds one; `false` when this run's reply is expected already.
pub(super) fn expect(connection: &Connection, reply: &ExpectedReply) -> Result<bool, Fault> {
    let address = &reply.address;
    let added = connection
        .prepare_cached(&format!(
            "INSERT INTO channel_replies ({COLUMNS})
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING"
        ))?
        .execute(params![
            reply.run_id,
            reply.scope,
            reply.session_key,
            address.channel,
            address.account,
            address.target,
            address.thread,
            reply.reply_to,
            reply.preview,
            signed(reply.created_at),
        ])?;
    Ok(added > 0)
}

/// All of them, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<ExpectedReply>, Fault> {
    let rows = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM channel_replies ORDER BY created_at, rowid"
        ))?
        .query_map([], read)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// That of one run.
pub(super) fn of_run(
    connection: &Connection,
    run_id: &str,
) -> Result<Option<ExpectedReply>, Fault> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM channel_replies WHERE run_id = ?1"))?
        .query_row([run_id], read)
        .optional()?;
    Ok(found)
}

/// Notes which message shows a reply while it is written.
pub(super) fn set_preview(
    connection: &Connection,
    run_id: &str,
    preview: &str,
) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE channel_replies SET preview = ?2 WHERE run_id = ?1")?
        .execute([run_id, preview])?;
    Ok(())
}

/// The reply of the run that was accepted then is there: these parts go out, and nothing is
/// expected any more. Nothing happens when it was not expected, or is that of a later run of this
/// key; answers whether something did.
pub(super) fn settle(
    connection: &Connection,
    (run_id, accepted_at): (&str, Option<u64>),
    parts: &[NewPart],
    now_ms: u64,
) -> Result<bool, Fault> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM channel_replies WHERE run_id = ?1 AND NOT EXISTS (
                SELECT 1 FROM runs WHERE runs.scope = channel_replies.scope AND runs.key = ?1
                    AND runs.created_at > ?2 AND runs.state <> 'aborted')",
        )?
        .execute(params![run_id, accepted_at.map(signed)])?;
    if removed > 0 {
        outbox::add(connection, parts, now_ms)?;
    }
    Ok(removed > 0)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ExpectedReply> {
    Ok(ExpectedReply {
        run_id: row.get(0)?,
        scope: row.get(1)?,
        session_key: row.get(2)?,
        address: OutboxAddress {
            channel: row.get(3)?,
            account: row.get(4)?,
            target: row.get(5)?,
            thread: row.get(6)?,
        },
        reply_to: row.get(7)?,
        preview: row.get(8)?,
        created_at: unsigned(row.get(9)?),
    })
}
