//! System events that wait for a session's next turn, so that a stop does not
//! lose what was acknowledged.

use rusqlite::{Connection, Error, params};

use super::column::unsigned;
use super::error::{Fault, StoreError};

/// Most events that wait in one session: nothing that was acknowledged gives way, so
/// one that comes then is refused.
const WAITING_MAX: i64 = 100;
/// Most characters of them together: they all stand in the prompt of the next turn.
const CHARS_MAX: i64 = 100_000;

/// Whose words an event is; of several the last counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Teller {
    /// The owner's of the gateway, or its own.
    Owner,
    /// Those of nobody who speaks to the agent: a machine has reported something.
    Node,
    /// Somebody else's.
    Other,
}

impl Teller {
    /// The owner, or somebody else.
    pub const fn owner_if(is_owner: bool) -> Self {
        if is_owner { Self::Owner } else { Self::Other }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Node => "node",
            Self::Other => "other",
        }
    }

    /// Whoever is not known is somebody else.
    fn named(name: &str) -> Self {
        let known = [Self::Owner, Self::Node].into_iter().find(|it| it.as_str() == name);
        known.unwrap_or(Self::Other)
    }
}

/// An event that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeRow {
    /// Grows with each event.
    pub id: u64,
    /// Canonical key of the session.
    pub session_key: String,
    /// What happened.
    pub text: String,
    /// Who says so.
    pub teller: Teller,
}

/// Too many of them wait in the session.
#[derive(Debug, thiserror::Error)]
#[error("too many system events wait in the session; send it again after its next turn")]
struct Crowded;

impl StoreError {
    /// Whether a system event was refused because too many wait in its session.
    pub fn is_crowded(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        matches!(&**source, Error::ToSqlConversionFailure(why) if why.is::<Crowded>())
    }
}

/// Adds an event, if there is room for it. Answers its id.
pub(super) fn add(
    connection: &Connection,
    key: &str,
    text: &str,
    teller: Teller,
) -> Result<u64, Fault> {
    let (count, chars): (i64, i64) = connection
        .prepare_cached(
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(text)), 0) FROM notices WHERE session_key = ?1",
        )?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let more = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if count >= WAITING_MAX || chars.saturating_add(more) > CHARS_MAX {
        return Err(Error::ToSqlConversionFailure(Box::new(Crowded)).into());
    }
    connection
        .prepare_cached("INSERT INTO notices (session_key, text, teller) VALUES (?1, ?2, ?3)")?
        .execute([key, text, teller.as_str()])?;
    Ok(unsigned(connection.last_insert_rowid()))
}

/// Forgets these events of a session.
pub(super) fn forget(connection: &Connection, key: &str, ids: &[u64]) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM notices
             WHERE session_key = ?1 AND id IN (SELECT value FROM json_each(?2))",
        )?
        .execute(params![key, serde_json::to_string(ids)?])?;
    Ok(())
}

/// Forgets all events of a session.
pub(super) fn forget_all(connection: &Connection, key: &str) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM notices WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}

/// The events of a session wait under its new key.
pub(super) fn rename(connection: &Connection, key: &str, new: &str) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE notices SET session_key = ?2 WHERE session_key = ?1")?
        .execute([key, new])?;
    Ok(())
}

/// All events that wait, the oldest first.
pub(super) fn list(connection: &Connection) -> Result<Vec<NoticeRow>, Fault> {
    let rows = connection
        .prepare_cached("SELECT id, session_key, text, teller FROM notices ORDER BY id")?
        .query_map([], |row| {
            Ok(NoticeRow {
                id: unsigned(row.get(0)?),
                session_key: row.get(1)?,
                text: row.get(2)?,
                teller: Teller::named(&row.get::<_, String>(3)?),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::migrations::migrate;
    use super::*;

    fn database() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        connection
    }

    fn is_refused(added: Result<u64, Fault>) -> bool {
        added.is_err_and(|fault| fault.at("add", Path::new("x")).is_crowded())
    }

    #[test]
    fn an_event_without_room_is_refused_and_none_gives_way() {
        let connection = database();
        let ids: Vec<_> = (0..WAITING_MAX)
            .map(|n| add(&connection, "a", &format!("event {n}"), Teller::Owner).unwrap())
            .collect();
        assert!(is_refused(add(&connection, "a", "one more", Teller::Owner)));
        add(&connection, "b", "other", Teller::Owner).unwrap();
        let all = list(&connection).unwrap();
        assert_eq!((all.len(), all[0].text.as_str()), (ids.len() + 1, "event 0"));
        forget(&connection, "b", &ids).unwrap();
        forget(&connection, "a", &ids[1..ids.len() - 1]).unwrap();
        let left: Vec<_> = list(&connection).unwrap().into_iter().map(|row| row.text).collect();
        assert_eq!(left, ["event 0", "event 99", "other"]);
        add(&connection, "a", "one more", Teller::Owner).unwrap();
    }

    #[test]
    fn each_event_says_whose_it_is_and_one_of_earlier_is_nobodys_of_ours() {
        let connection = database();
        let all = [Teller::Owner, Teller::Node, Teller::Other];
        for teller in all {
            add(&connection, "a", "event", teller).unwrap();
        }
        // As earlier versions wrote it.
        let earlier = "INSERT INTO notices (session_key, text) VALUES ('a', 'event')";
        connection.execute(earlier, []).unwrap();
        let tellers: Vec<_> = list(&connection).unwrap().iter().map(|row| row.teller).collect();
        assert_eq!(tellers, [&all[..], &[Teller::Other]].concat());
    }

    #[test]
    fn long_events_have_less_room() {
        let connection = database();
        let half = "\u{e4}".repeat(50_000);
        add(&connection, "a", &half, Teller::Owner).unwrap();
        add(&connection, "a", &half, Teller::Owner).unwrap();
        assert!(is_refused(add(&connection, "a", "x", Teller::Owner)));
        add(&connection, "b", "x", Teller::Owner).unwrap();
    }

    #[test]
    fn another_failure_is_no_lack_of_room() {
        let fault = Connection::open_in_memory().unwrap();
        let error = add(&fault, "a", "x", Teller::Owner).unwrap_err().at("add", Path::new("x"));
        assert!(!error.is_crowded(), "{error}");
    }
}
