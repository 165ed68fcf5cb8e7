//! The marks of one session.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;

/// Columns of the marks beside the alias `m`, which may have no row.
pub(super) const COLUMNS: &str = "m.results, m.read_results, m.archived_id, m.seen_at";

/// What is known of a session that nobody has a mark on: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionMarks {
    /// Runs that have ended in it.
    pub results: u64,
    /// How many of them somebody has seen.
    pub read: u64,
    /// The transcript that was put away; a session with another one was not.
    pub archived_id: Option<String>,
    /// When somebody last looked into it, in milliseconds since the epoch.
    pub seen_at: u64,
}

impl SessionMarks {
    /// Whether this transcript was put away.
    pub fn is_archived(&self, session_id: &str) -> bool {
        self.archived_id.as_deref() == Some(session_id)
    }

    /// Reads [`COLUMNS`], the first of which is the one with this number.
    pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let number = |at: usize| -> rusqlite::Result<u64> {
            Ok(row.get::<_, Option<i64>>(at)?.map(unsigned).unwrap_or_default())
        };
        Ok(Self {
            results: number(first)?,
            read: number(first + 1)?,
            archived_id: row.get(first + 2)?,
            seen_at: number(first + 3)?,
        })
    }
}

pub(super) fn get(connection: &Connection, key: &str) -> Result<SessionMarks, Fault> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM session_marks m WHERE key = ?1"))?
        .query_row([key], |row| SessionMarks::read(row, 0))
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// Of these sessions, those that have marks.
pub(super) fn of(
    connection: &Connection,
    keys: &[String],
) -> Result<Vec<(String, SessionMarks)>, Fault> {
    let rows = connection
        .prepare_cached(&format!(
            "SELECT m.key, {COLUMNS} FROM session_marks m
             WHERE m.key IN (SELECT value FROM json_each(?1))"
        ))?
        .query_map([serde_json::to_string(keys)?], |row| {
            Ok((row.get(0)?, SessionMarks::read(row, 1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// Of a session that is gone nothing is counted.
pub(super) fn add_result(connection: &Connection, key: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO session_marks (key, results)
             SELECT ?1, 1 WHERE EXISTS (SELECT 1 FROM sessions WHERE key = ?1)
             ON CONFLICT (key) DO UPDATE SET results = results + 1",
        )?
        .execute([key])?;
    Ok(())
}

/// Everything so far was seen; whether something was new.
pub(super) fn mark_read(connection: &Connection, key: &str, now_ms: u64) -> Result<bool, Fault> {
    let before = get(connection, key)?;
    connection
        .prepare_cached(
            "INSERT INTO session_marks (key, seen_at) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE
             SET read_results = results, seen_at = max(seen_at, excluded.seen_at)",
        )?
        .execute(params![key, signed(now_ms)])?;
    Ok(before.results > before.read)
}

/// Puts a transcript away, or takes the one that is there out again.
pub(super) fn archive(
    connection: &Connection,
    key: &str,
    session_id: Option<&str>,
) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO session_marks (key, archived_id) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET archived_id = excluded.archived_id",
        )?
        .execute(params![key, session_id])?;
    Ok(())
}

/// The marks of a session are under its new key.
pub(in crate::store) fn rename(connection: &Connection, key: &str, new: &str) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE OR REPLACE session_marks SET key = ?2 WHERE key = ?1")?
        .execute([key, new])?;
    Ok(())
}

/// The session is no more, and nothing is shown of its transcript.
pub(in crate::store) fn forget(
    connection: &Connection,
    key: &str,
    session_id: Option<&str>,
) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM session_marks WHERE key = ?1")?.execute([key])?;
    if let Some(session_id) = session_id {
        super::shares::revoke(connection, session_id)?;
    }
    Ok(())
}
