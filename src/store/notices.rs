//! System events that wait for a session's next turn, so that a stop does not
//! lose what was acknowledged.

use rusqlite::{Connection, params};

use super::column::{signed, unsigned};
use super::error::Fault;

/// Most events that wait in one session, as in memory.
const WAITING_MAX: u32 = 20;

/// An event that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeRow {
    /// Grows with each event.
    pub id: u64,
    /// Canonical key of the session.
    pub session_key: String,
    /// What happened.
    pub text: String,
}

/// Adds an event; the oldest of its session give way. Answers its id.
pub(super) fn add(connection: &Connection, key: &str, text: &str) -> Result<u64, Fault> {
    connection
        .prepare_cached("INSERT INTO notices (session_key, text) VALUES (?1, ?2)")?
        .execute([key, text])?;
    let id = connection.last_insert_rowid();
    connection
        .prepare_cached(
            "DELETE FROM notices WHERE id IN (
                SELECT id FROM notices WHERE session_key = ?1
                ORDER BY id DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![key, WAITING_MAX])?;
    Ok(unsigned(id))
}

/// Forgets the events of a session up to one.
pub(super) fn forget(connection: &Connection, key: &str, last: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM notices WHERE session_key = ?1 AND id <= ?2")?
        .execute(params![key, signed(last)])?;
    Ok(())
}

/// Forgets all events of a session.
pub(super) fn forget_all(connection: &Connection, key: &str) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM notices WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}

/// All events that wait, the oldest first.
pub(super) fn list(connection: &Connection) -> Result<Vec<NoticeRow>, Fault> {
    let rows = connection
        .prepare_cached("SELECT id, session_key, text FROM notices ORDER BY id")?
        .query_map([], |row| {
            Ok(NoticeRow { id: unsigned(row.get(0)?), session_key: row.get(1)?, text: row.get(2)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::migrations::migrate;
    use super::*;

    #[test]
    fn events_are_bounded_by_session_and_forgotten_up_to_one() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        let ids: Vec<_> =
            (0..25).map(|n| add(&connection, "a", &format!("event {n}")).unwrap()).collect();
        add(&connection, "b", "other").unwrap();
        let all = list(&connection).unwrap();
        assert_eq!((all.len(), all[0].text.as_str()), (21, "event 5"));
        forget(&connection, "a", ids[23]).unwrap();
        let left: Vec<_> = list(&connection).unwrap().into_iter().map(|row| row.text).collect();
        assert_eq!(left, ["event 24", "other"]);
    }
}
