//! The session index as a table.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::column::{signed, unsigned};
use super::error::Fault;
use super::{
    Edited, NewSession, SessionEdit, SessionEntry, SessionPage, SessionQuery, SessionRow,
    TranscriptFacts, marks, notices,
};

const COLUMNS: &str = "key, entry, message_count, transcript_bytes, leaf_id, \
                       derived_title, last_message, opening";
/// How many these are.
pub(super) const COLUMN_COUNT: usize = 8;
/// What stands among the marks once the last session was removed: from then on an index
/// without sessions is as it should be.
const EMPTIED: &str = "sessions emptied";

/// The columns of a row, for queries of more than one table.
pub(super) fn columns() -> String {
    let names: Vec<_> =
        COLUMNS.split(", ").map(|name| format!("sessions.{}", name.trim())).collect();
    names.join(", ")
}

pub(super) fn get(connection: &Connection, key: &str) -> Result<Option<SessionEntry>, Fault> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE key = ?1"))?
        .query_row([key], RawRow::read)
        .optional()?;
    found.map(|raw| Ok(raw.parse()?.entry)).transpose()
}

pub(super) fn by_id(connection: &Connection, id: &str) -> Result<Option<SessionRow>, Fault> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE session_id = ?1
             ORDER BY updated_at DESC LIMIT 1"
        ))?
        .query_row([id], RawRow::read)
        .optional()?;
    found.map(RawRow::parse).transpose()
}

/// Every session, the last changed first.
pub(super) fn all(connection: &Connection) -> Result<Vec<SessionRow>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY updated_at DESC, key");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], RawRow::read)?;
    rows.map(|raw| raw?.parse()).collect()
}

pub(super) fn create_if_absent(
    connection: &Connection,
    new: NewSession,
) -> Result<(SessionEntry, bool), Fault> {
    if let Some(entry) = get(connection, &new.key)? {
        return Ok((entry, false));
    }
    insert(connection, &new.key, &new.agent)?;
    put(connection, &new.key, &new.entry)?;
    Ok((new.entry, true))
}

/// A row that `put` fills in, so that the columns are listed only once.
fn insert(connection: &Connection, key: &str, agent: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO sessions (key, agent_id, session_id, updated_at, message_count,
                transcript_bytes, search, entry) VALUES (?1, ?2, '', 0, 0, 0, '', '')",
        )?
        .execute(params![key, agent])?;
    Ok(())
}

pub(super) fn update(
    connection: &Connection,
    key: &str,
    change: impl FnOnce(&mut SessionEntry),
) -> Result<Option<SessionEntry>, Fault> {
    let Some(mut entry) = get(connection, key)? else { return Ok(None) };
    let before = entry.clone();
    change(&mut entry);
    if entry != before {
        put(connection, key, &entry)?;
    }
    if entry.session_id != before.session_id {
        marks::revoke(connection, &before.session_id)?;
    }
    Ok(Some(entry))
}

pub(super) fn edit(
    connection: &Connection,
    new: NewSession,
    edit: SessionEdit,
) -> Result<Edited, Fault> {
    let NewSession { key, agent, entry } = new;
    let existing = get(connection, &key)?;
    let is_new = existing.is_none();
    let before = existing.as_ref().and_then(|entry| entry.label.clone());
    let mut entry = existing.unwrap_or(entry);
    if let Err(reason) = edit(&mut entry) {
        return Ok(Edited::Refused(reason));
    }
    if entry.label != before
        && let Some(label) = &entry.label
        && label_is_taken(connection, label, &agent, &key)?
    {
        return Ok(Edited::LabelTaken(label.clone()));
    }
    if is_new {
        insert(connection, &key, &agent)?;
    }
    put(connection, &key, &entry)?;
    Ok(Edited::Written { entry: Box::new(entry), is_new })
}

fn label_is_taken(
    connection: &Connection,
    label: &str,
    agent: &str,
    key: &str,
) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions
               WHERE label = ?1 AND agent_id = ?2 AND key <> ?3)";
    Ok(connection.prepare_cached(sql)?.query_row([label, agent, key], |row| row.get(0))?)
}

fn put(connection: &Connection, key: &str, entry: &SessionEntry) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "UPDATE sessions SET session_id = ?2, updated_at = ?3, label = ?4, spawned_by = ?5,
                message_count = ?6, transcript_bytes = ?7, leaf_id = ?8, derived_title = ?9,
                last_message = ?10, search = ?11, entry = ?12, user_at = ?13, opening = ?14
             WHERE key = ?1",
        )?
        .execute(params![
            key,
            entry.session_id,
            signed(entry.updated_at),
            entry.label,
            entry.spawned_by,
            signed(entry.transcript.message_count),
            signed(entry.transcript.bytes),
            entry.transcript.leaf_id,
            entry.transcript.derived_title,
            entry.transcript.last_message,
            search_text(key, entry),
            serde_json::to_string(entry)?,
            signed(user_at(entry)),
            entry.transcript.opening,
        ])?;
    Ok(())
}

/// When a person last said something, or else when it began.
fn user_at(entry: &SessionEntry) -> u64 {
    entry.last_interaction_at.or(entry.session_started_at).unwrap_or(entry.updated_at)
}

pub(super) fn rename(connection: &Connection, key: &str, new: &NewSession) -> Result<bool, Fault> {
    let renamed = connection
        .prepare_cached(
            "UPDATE sessions SET key = ?2, agent_id = ?3 WHERE key = ?1
             AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = ?2)",
        )?
        .execute(params![key, new.key, new.agent])?;
    if renamed == 0 {
        return Ok(false);
    }
    put(connection, &new.key, &new.entry)?;
    marks::rename(connection, key, &new.key)?;
    notices::rename(connection, key, &new.key)?;
    Ok(true)
}

pub(super) fn delete(connection: &Connection, key: &str) -> Result<Option<SessionEntry>, Fault> {
    let found = get(connection, key)?;
    connection.prepare_cached("DELETE FROM sessions WHERE key = ?1")?.execute([key])?;
    marks::forget(connection, key, found.as_ref().map(|entry| entry.session_id.as_str()))?;
    if found.is_some() {
        notices::forget_all(connection, key)?;
        mark_emptied(connection)?;
    }
    Ok(found)
}

/// Marks an index whose last session was removed.
fn mark_emptied(connection: &Connection) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO marks (name) SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM sessions)
             ON CONFLICT DO NOTHING",
        )?
        .execute([EMPTIED])?;
    Ok(())
}

/// Whether there is no session, and not because the last one was removed.
pub(super) fn is_new(connection: &Connection) -> Result<bool, Fault> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM sessions)
               AND NOT EXISTS (SELECT 1 FROM marks WHERE name = ?1)";
    Ok(connection.prepare_cached(sql)?.query_row([EMPTIED], |row| row.get(0))?)
}

pub(super) fn delete_unchanged(
    connection: &Connection,
    key: &str,
    updated_at: u64,
) -> Result<bool, Fault> {
    let deleted: Option<String> = connection
        .prepare_cached(
            "DELETE FROM sessions WHERE key = ?1 AND updated_at = ?2 RETURNING session_id",
        )?
        .query_row(params![key, signed(updated_at)], |row| row.get(0))
        .optional()?;
    if let Some(session_id) = &deleted {
        marks::forget(connection, key, Some(session_id))?;
        notices::forget_all(connection, key)?;
        mark_emptied(connection)?;
    }
    Ok(deleted.is_some())
}

pub(super) fn list(connection: &Connection, query: &SessionQuery) -> Result<SessionPage, Fault> {
    let (condition, values) = condition(query);
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    let limit = query.limit.map_or(-1, i64::from);
    let mut entries = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE {condition}
             ORDER BY updated_at DESC, key LIMIT {limit}"
        ))?
        .query_map(values.as_slice(), RawRow::read)?
        .map(|raw| raw?.parse())
        .collect::<Result<Vec<_>, Fault>>()?;
    add_children(connection, &mut entries)?;
    let found = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    let complete = query.limit.is_none_or(|limit| found < u64::from(limit));
    let total = if complete {
        found
    } else {
        let sql = format!("SELECT COUNT(*) FROM sessions WHERE {condition}");
        unsigned(connection.prepare_cached(&sql)?.query_row(values.as_slice(), |row| row.get(0))?)
    };
    Ok(SessionPage { entries, total })
}

/// Notes who was spawned by the listed sessions, with one query for all.
fn add_children(connection: &Connection, rows: &mut [SessionRow]) -> Result<(), Fault> {
    let keys: Vec<_> = rows.iter().map(|row| row.key.as_str()).collect();
    let pairs = connection
        .prepare_cached(
            "SELECT spawned_by, key FROM sessions
             WHERE spawned_by IS NOT NULL AND spawned_by IN (SELECT value FROM json_each(?1))
             ORDER BY updated_at DESC, key",
        )?
        .query_map([serde_json::to_string(&keys)?], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(String, String)>>>()?;
    let mut children: HashMap<String, Vec<String>> = HashMap::new();
    for (parent, child) in pairs {
        children.entry(parent).or_default().push(child);
    }
    for row in rows {
        row.children = children.remove(&row.key).unwrap_or_default();
    }
    Ok(())
}

pub(super) fn count(connection: &Connection, agent: Option<&str>) -> Result<u64, Fault> {
    let count = connection
        .prepare_cached("SELECT COUNT(*) FROM sessions WHERE ?1 IS NULL OR agent_id = ?1")?
        .query_row([agent], |row| row.get(0))?;
    Ok(unsigned(count))
}

/// The `WHERE` text of a query and its values, in order.
fn condition(query: &SessionQuery) -> (String, Vec<Box<dyn ToSql>>) {
    let mut clauses: Vec<&str> = Vec::new();
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if !query.include_global {
        clauses.push("key <> 'global'");
    }
    if !query.include_unknown {
        clauses.push("key <> 'unknown'");
    }
    if query.hides_job_runs {
        clauses.push("key NOT GLOB 'agent:*:cron:*:run:*'");
    }
    if let Some(until) = query.job_runs_until {
        clauses.push("key GLOB 'agent:*:cron:*:run:*' AND updated_at < ?");
        values.push(Box::new(signed(until)));
    }
    if let Some(since) = query.active_since_ms {
        clauses.push("updated_at >= ?");
        values.push(Box::new(signed(since)));
    }
    if let Some(needle) = query.search.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        clauses.push("instr(search, ?) > 0");
        values.push(Box::new(needle.to_lowercase()));
    }
    // Few sessions share a label or a parent, many an agent: the plus keeps the
    // index of agents out, which would also give the order.
    let is_narrow = query.label.is_some() || query.spawned_by.is_some();
    for (clause, value) in [
        ("key = ?", &query.key),
        (if is_narrow { "+agent_id = ?" } else { "agent_id = ?" }, &query.agent),
        ("label = ?", &query.label),
        ("spawned_by = ?", &query.spawned_by),
    ] {
        if let Some(value) = value {
            clauses.push(clause);
            values.push(Box::new(value.clone()));
        }
    }
    if clauses.is_empty() {
        clauses.push("TRUE");
    }
    (clauses.join(" AND "), values)
}

/// What `search` looks through. SQLite folds only ASCII, so we fold here.
fn search_text(key: &str, entry: &SessionEntry) -> String {
    [
        Some(key),
        Some(entry.session_id.as_str()),
        entry.label.as_deref(),
        entry.display_name.as_deref(),
        entry.transcript.derived_title.as_deref(),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join("\n")
    .to_lowercase()
}

/// A row before its JSON is read, which the database's row mapper cannot fail on.
pub(super) struct RawRow {
    key: String,
    entry: String,
    transcript: TranscriptFacts,
}

impl RawRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            entry: row.get(1)?,
            transcript: TranscriptFacts {
                message_count: unsigned(row.get(2)?),
                bytes: unsigned(row.get(3)?),
                leaf_id: row.get(4)?,
                derived_title: row.get(5)?,
                last_message: row.get(6)?,
                opening: row.get(7)?,
            },
        })
    }

    pub(super) fn parse(self) -> Result<SessionRow, Fault> {
        let mut entry: SessionEntry = serde_json::from_str(&self.entry)?;
        entry.transcript = self.transcript;
        Ok(SessionRow { key: self.key, entry, children: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_sessions_read_no_more_rows_than_their_index_gives() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::migrations::migrate(&mut connection, std::path::Path::new("x")).unwrap();
        let agent = || Some("main".to_owned());
        let some = || Some("x".to_owned());
        for (query, index) in [
            (SessionQuery::default(), "sessions_by_time"),
            (SessionQuery { agent: agent(), ..SessionQuery::default() }, "sessions_by_agent"),
            (
                SessionQuery { agent: agent(), label: some(), ..SessionQuery::default() },
                "sessions_by_label",
            ),
            (
                SessionQuery { agent: agent(), spawned_by: some(), ..SessionQuery::default() },
                "sessions_by_parent",
            ),
        ] {
            let (condition, values) = condition(&query);
            let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
            let sql = format!(
                "EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM sessions WHERE {condition}
                 ORDER BY updated_at DESC, key LIMIT 50"
            );
            let mut plan = connection.prepare(&sql).unwrap();
            let steps = plan.query_map(values.as_slice(), |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<_> = steps.map(Result::unwrap).collect();
            assert!(steps[0].contains(index), "{condition}: {steps:?}");
        }
    }
}
