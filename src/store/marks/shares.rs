//! Links to single transcripts.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::column::signed;
use crate::store::error::Fault;

/// Most links to one transcript: with one more the oldest ends.
pub const MAX_SHARES: usize = 8;

/// Digits of the hash by which a link is looked up. The rest is compared by whoever
/// asks, in constant time.
pub(super) const HANDLE: usize = 16;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionShare {
    /// SHA-256 of its token, in hexadecimal digits.
    pub token_hash: String,
    /// The transcript that it shows.
    pub session_id: String,
}

pub(super) fn add(connection: &Connection, share: &SessionShare, now_ms: u64) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO session_shares (handle, token_hash, session_id, created_at)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            handle(&share.token_hash),
            share.token_hash,
            share.session_id,
            signed(now_ms)
        ])?;
    connection
        .prepare_cached(
            "DELETE FROM session_shares WHERE session_id = ?1 AND id NOT IN
                 (SELECT id FROM session_shares WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2)",
        )?
        .execute(params![share.session_id, i64::try_from(MAX_SHARES).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// The link whose hash begins like this one.
pub(super) fn find(connection: &Connection, hash: &str) -> Result<Option<SessionShare>, Fault> {
    let found = connection
        .prepare_cached("SELECT token_hash, session_id FROM session_shares WHERE handle = ?1")?
        .query_row([handle(hash)], |row| {
            Ok(SessionShare { token_hash: row.get(0)?, session_id: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}

/// Ends all links to a transcript; how many there were.
pub(in crate::store) fn revoke(connection: &Connection, session_id: &str) -> Result<usize, Fault> {
    let mut delete =
        connection.prepare_cached("DELETE FROM session_shares WHERE session_id = ?1")?;
    Ok(delete.execute([session_id])?)
}

/// Ends all links; how many there were.
pub(super) fn revoke_all(connection: &Connection) -> Result<usize, Fault> {
    Ok(connection.prepare_cached("DELETE FROM session_shares")?.execute([])?)
}

fn handle(hash: &str) -> &str {
    hash.get(..HANDLE).unwrap_or(hash)
}
