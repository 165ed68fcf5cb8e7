//! People who ask to be let in by a channel, and those who were.
//!
//! Promises: a code is worth something for an hour and once; who asks again
//! within that hour gets the same one; few wait at a time, so that strangers
//! cannot fill the list.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;

/// How long a code holds, in milliseconds, as in the original.
pub const CODE_MS: u64 = 60 * 60 * 1000;
/// How many wait for an account at a time, as in the original.
pub const WAITING_MAX: i64 = 3;

const COLUMNS: &str = "channel, account, person, name, code, created_at";

/// Somebody who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingRequest {
    /// Id of the channel.
    pub channel: String,
    /// Which of our accounts there.
    pub account: String,
    /// The channel's id of the person.
    pub person: String,
    /// What the person is called there; proves nothing.
    pub name: Option<String>,
    /// The code that was told.
    pub code: String,
    /// When.
    pub created_at: u64,
}

/// Answer to somebody who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingClaim {
    /// This code is new, and to be told.
    New(String),
    /// This code was told before, and still holds.
    Known(String),
    /// Too many wait already.
    Full,
}

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelPerson {
    /// Id of the channel.
    pub channel: String,
    /// Which of our accounts there.
    pub account: String,
    /// The channel's id of the person.
    pub person: String,
    /// What the person was called when let in.
    pub name: Option<String>,
    /// When.
    pub approved_at: u64,
}

pub(super) fn claim(
    connection: &Connection,
    request: &PairingRequest,
) -> Result<PairingClaim, Fault> {
    let now = request.created_at;
    forget_old(connection, now)?;
    let known: Option<String> = connection
        .prepare_cached(
            "SELECT code FROM channel_pairings
             WHERE channel = ?1 AND account = ?2 AND person = ?3",
        )?
        .query_row([&request.channel, &request.account, &request.person], |row| row.get(0))
        .optional()?;
    if let Some(code) = known {
        return Ok(PairingClaim::Known(code));
    }
    let waiting: i64 = connection
        .prepare_cached(
            "SELECT COUNT(*) FROM channel_pairings WHERE channel = ?1 AND account = ?2",
        )?
        .query_row([&request.channel, &request.account], |row| row.get(0))?;
    if waiting >= WAITING_MAX {
        return Ok(PairingClaim::Full);
    }
    let added = connection
        .prepare_cached(&format!(
            "INSERT INTO channel_pairings ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO NOTHING"
        ))?
        .execute(params![
            request.channel,
            request.account,
            request.person,
            request.name,
            request.code,
            signed(now),
        ])?;
    // The same code for two people: once in a thousand billion times.
    Ok(if added > 0 { PairingClaim::New(request.code.clone()) } else { PairingClaim::Full })
}

/// Those who wait, the oldest first.
pub(super) fn requests(connection: &Connection, now_ms: u64) -> Result<Vec<PairingRequest>, Fault> {
    let rows = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM channel_pairings WHERE created_at >= ?1 ORDER BY created_at"
        ))?
        .query_map([signed(now_ms.saturating_sub(CODE_MS))], read)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// Takes the request with this code away; who made it is let in if `approved`.
pub(super) fn resolve(
    connection: &Connection,
    (channel, code): (&str, &str),
    approved: bool,
    now_ms: u64,
) -> Result<Option<PairingRequest>, Fault> {
    forget_old(connection, now_ms)?;
    let found = connection
        .prepare_cached(&format!(
            "DELETE FROM channel_pairings WHERE channel = ?1 AND code = ?2 RETURNING {COLUMNS}"
        ))?
        .query_row([channel, code], read)
        .optional()?;
    if let Some(request) = found.as_ref().filter(|_| approved) {
        let person = ChannelPerson {
            channel: request.channel.clone(),
            account: request.account.clone(),
            person: request.person.clone(),
            name: request.name.clone(),
            approved_at: now_ms,
        };
        import(connection, &[person])?;
    }
    Ok(found)
}

/// Lets people in who were let in elsewhere; answers how many of them are new.
pub(super) fn import(connection: &Connection, people: &[ChannelPerson]) -> Result<u64, Fault> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO channel_people (channel, account, person, name, approved_at)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?;
    let mut new = 0;
    for it in people {
        let at = signed(it.approved_at);
        new += insert.execute(params![it.channel, it.account, it.person, it.name, at])?;
    }
    Ok(u64::try_from(new).unwrap_or(u64::MAX))
}

/// Whether somebody was let in.
pub(super) fn is_known(
    connection: &Connection,
    (channel, account, person): (&str, &str, &str),
) -> Result<bool, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT 1 FROM channel_people WHERE channel = ?1 AND account = ?2 AND person = ?3",
        )?
        .query_row([channel, account, person], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

/// Everybody who was let in, the oldest first.
pub(super) fn known(connection: &Connection) -> Result<Vec<ChannelPerson>, Fault> {
    let rows = connection
        .prepare_cached(
            "SELECT channel, account, person, name, approved_at FROM channel_people
             ORDER BY approved_at, person",
        )?
        .query_map([], |row| {
            Ok(ChannelPerson {
                channel: row.get(0)?,
                account: row.get(1)?,
                person: row.get(2)?,
                name: row.get(3)?,
                approved_at: unsigned(row.get(4)?),
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// Somebody is not let in any more; whether that was so.
pub(super) fn remove(
    connection: &Connection,
    (channel, account, person): (&str, &str, &str),
) -> Result<bool, Fault> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM channel_people WHERE channel = ?1 AND account = ?2 AND person = ?3",
        )?
        .execute([channel, account, person])?;
    Ok(removed > 0)
}

fn forget_old(connection: &Connection, now_ms: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM channel_pairings WHERE created_at < ?1")?
        .execute([signed(now_ms.saturating_sub(CODE_MS))])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<PairingRequest> {
    Ok(PairingRequest {
        channel: row.get(0)?,
        account: row.get(1)?,
        person: row.get(2)?,
        name: row.get(3)?,
        code: row.get(4)?,
        created_at: unsigned(row.get(5)?),
    })
}
