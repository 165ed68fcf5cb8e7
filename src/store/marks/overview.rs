//! Pages of sessions, the one in which a person was last at the top.

use rusqlite::{Connection, ToSql};

use super::sql::{COLUMNS, SessionMarks};
use crate::store::column::{signed, unsigned};
use crate::store::error::Fault;
use crate::store::{SessionRow, sessions};

/// Which sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OverviewFilter {
    /// All.
    #[default]
    All,
    /// Those that nobody has put away.
    Active,
    /// Those that somebody has.
    Archived,
}

/// A place in the order: the time in milliseconds, then the id of the session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverviewPlace {
    /// When a person was last active in it.
    pub user_at: u64,
    /// `sessionId`.
    pub session_id: String,
}

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverviewQuery {
    /// Which.
    pub filter: OverviewFilter,
    /// At most so many.
    pub limit: u32,
    /// Only those that come after this place.
    pub after: Option<OverviewPlace>,
    /// Not those in which nothing was said, unless there is something new in them
    /// or their key is in this list.
    pub hides_empty_but: Option<Vec<String>>,
    /// Also `global`.
    pub include_global: bool,
    /// Only the one with this key, whichever it is.
    pub key: Option<String>,
}

/// A session with its marks.
#[derive(Debug, Clone, PartialEq)]
pub struct OverviewRow {
    /// What the index knows.
    pub row: SessionRow,
    /// What people did with it.
    pub marks: SessionMarks,
    /// When a person was last active in it, in milliseconds since the epoch.
    pub user_at: u64,
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overview {
    /// At most as many rows as were wanted.
    pub rows: Vec<OverviewRow>,
    /// How many there are on all pages.
    pub total: u64,
}

const JOINED: &str = "sessions LEFT JOIN session_marks m ON m.key = sessions.key";

pub(super) fn list(connection: &Connection, query: &OverviewQuery) -> Result<Overview, Fault> {
    let (condition, mut values) = condition(query)?;
    let total = {
        let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
        let sql = format!("SELECT COUNT(*) FROM {JOINED} WHERE {condition}");
        unsigned(connection.prepare_cached(&sql)?.query_row(values.as_slice(), |row| row.get(0))?)
    };
    let mut place = "";
    if let Some(after) = &query.after {
        place = " AND (user_at, sessions.session_id) < (?, ?)";
        values.push(Box::new(signed(after.user_at)));
        values.push(Box::new(after.session_id.clone()));
    }
    let sql = format!(
        "SELECT {}, user_at, {COLUMNS} FROM {JOINED} WHERE {condition}{place}
         ORDER BY user_at DESC, sessions.session_id DESC LIMIT {}",
        sessions::columns(),
        query.limit,
    );
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    let rows = connection
        .prepare_cached(&sql)?
        .query_map(values.as_slice(), |row| {
            let next = sessions::COLUMN_COUNT;
            let marks = SessionMarks::read(row, next + 1)?;
            Ok((sessions::RawRow::read(row)?, unsigned(row.get(next)?), marks))
        })?
        .map(|read| {
            let (raw, user_at, marks) = read?;
            Ok(OverviewRow { row: raw.parse()?, marks, user_at })
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    Ok(Overview { rows, total })
}

type Condition = (String, Vec<Box<dyn ToSql>>);

fn condition(query: &OverviewQuery) -> Result<Condition, Fault> {
    let mut clauses = vec!["sessions.session_id <> ''"];
    if query.key.is_none() {
        clauses.push("sessions.key <> 'unknown'");
        clauses.push("sessions.key NOT GLOB 'agent:*:cron:*:run:*'");
        if !query.include_global {
            clauses.push("sessions.key <> 'global'");
        }
    }
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    match query.filter {
        OverviewFilter::All => {}
        OverviewFilter::Active => clauses.push("m.archived_id IS NOT sessions.session_id"),
        OverviewFilter::Archived => clauses.push("m.archived_id IS sessions.session_id"),
    }
    if let Some(spared) = &query.hides_empty_but {
        // What was taken over is not counted before it is read.
        clauses.push(
            "(message_count > 0 OR last_message IS NOT NULL OR m.results > m.read_results
              OR sessions.key IN (SELECT value FROM json_each(?)))",
        );
        values.push(Box::new(serde_json::to_string(spared)?));
    }
    if let Some(key) = &query.key {
        clauses.push("sessions.key = ?");
        values.push(Box::new(key.clone()));
    }
    Ok((clauses.join(" AND "), values))
}
