//! Jobs of the scheduler, and a row for each of their runs.
//!
//! Promises: what one change says of a job and of its runs is one commit; a
//! run's id is taken once, so who adds it first is the only one who runs it.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::column::{signed, unsigned};
use super::error::Fault;

/// Runs of jobs that are gone of which the log still tells.
pub(super) const ORPHANS_MAX: u32 = 10_000;

const JOB: &str = "id, job, due_at, origin";
const RUN: &str = "id, job_id, instant, status, delivery, entry, at";

/// A job. What it is stays text here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronJobRow {
    /// Its id.
    pub id: String,
    /// The job, as JSON.
    pub job: String,
    /// When it is to run next, in milliseconds since the epoch.
    pub due_at: Option<u64>,
    /// Which session made it and what that may use, as JSON; none when a
    /// client made it.
    pub origin: Option<String>,
}

/// A run of a job: one instant that was due, or one that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronRunRow {
    /// Its id; made of job and instant when the schedule wants it.
    pub id: String,
    /// Whose run it is.
    pub job_id: String,
    /// When it was due, in milliseconds since the epoch.
    pub instant: u64,
    /// `started` until it has ended, then `ok`, `error`, `skipped` or `missed`.
    pub status: String,
    /// `delivered`, `not-delivered`, `unknown` or `not-requested`.
    pub delivery: String,
    /// What is told of it, as JSON.
    pub entry: String,
    /// When this was written, in milliseconds since the epoch.
    pub at: u64,
}

/// What becomes of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronJobChange {
    /// It stays as it is.
    Keep,
    /// It is this now.
    Put(CronJobRow),
    /// It goes; its runs stay.
    Remove,
}

/// A change of a job and of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronChange {
    /// What becomes of the job.
    pub job: CronJobChange,
    /// Runs that are new; those whose ids are taken stay as they are.
    pub added: Vec<CronRunRow>,
    /// Runs that are there already, as they are now: they begin to run, or have ended.
    pub changed: Vec<CronRunRow>,
    /// The run that has not begun after all.
    pub undone: Option<String>,
    /// What the job is instead when the last of those in `added` was there already.
    pub not_again: Option<CronJobRow>,
}

impl CronChange {
    /// A change of the job alone.
    pub const fn of_job(job: CronJobChange) -> Self {
        Self { job, added: Vec::new(), changed: Vec::new(), undone: None, not_again: None }
    }
}

/// Makes a change out of a job as it is inside the transaction; none leaves all
/// as it is.
pub type CronEdit = Box<dyn FnOnce(&CronJobRow) -> Option<CronChange> + Send>;

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronEdited {
    /// The job as it was.
    pub before: CronJobRow,
    /// The job as it is, unless it was removed.
    pub after: Option<CronJobRow>,
    /// Which of the added runs are really new, in their order.
    pub is_new: Vec<bool>,
}

/// Which runs are wanted, the last written first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CronRunQuery {
    /// Only those of this job.
    pub job_id: Option<String>,
    /// Only the one that was asked for with this id.
    pub run_id: Option<String>,
    /// Only with one of these statuses; all that have ended when empty.
    pub statuses: Vec<String>,
    /// Only with one of these delivery statuses.
    pub deliveries: Vec<String>,
    /// Only those in whose entry this text is, in any case.
    pub search: Option<String>,
    /// The first written first.
    pub oldest_first: bool,
    /// At most so many.
    pub limit: u32,
    /// After so many.
    pub offset: u32,
}

/// The jobs, in the order they were made.
pub(super) fn jobs(connection: &Connection) -> Result<Vec<CronJobRow>, Fault> {
    let rows = connection
        .prepare_cached(&format!("SELECT {JOB} FROM cron_jobs ORDER BY rowid"))?
        .query_map([], read_job)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// The job with this id.
pub(super) fn job(connection: &Connection, id: &str) -> Result<Option<CronJobRow>, Fault> {
    let sql = format!("SELECT {JOB} FROM cron_jobs WHERE id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([id], read_job).optional()?)
}

/// Ids of the jobs that are due at a time, the earliest first.
pub(super) fn due(connection: &Connection, now_ms: u64) -> Result<Vec<String>, Fault> {
    let rows = connection
        .prepare_cached("SELECT id FROM cron_jobs WHERE due_at <= ?1 ORDER BY due_at, rowid")?
        .query_map([signed(now_ms)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// When the next job is due, but for these.
pub(super) fn next_due(connection: &Connection, except: &[String]) -> Result<Option<u64>, Fault> {
    let next: Option<i64> = connection
        .prepare_cached(
            "SELECT MIN(due_at) FROM cron_jobs
             WHERE due_at IS NOT NULL AND id NOT IN (SELECT value FROM json_each(?1))",
        )?
        .query_row([serde_json::to_string(except)?], |row| row.get(0))?;
    Ok(next.map(unsigned))
}

/// Adds a job with runs that it had elsewhere, unless there are `max` jobs already or its id
/// is taken.
pub(super) fn add(
    connection: &Connection,
    row: &CronJobRow,
    runs: &[CronRunRow],
    max: u64,
) -> Result<bool, Fault> {
    let count: i64 = connection
        .prepare_cached("SELECT COUNT(*) FROM cron_jobs")?
        .query_row([], |row| row.get(0))?;
    if unsigned(count) >= max {
        return Ok(false);
    }
    let added = connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO cron_jobs ({JOB}) VALUES (?1, ?2, ?3, ?4)"
        ))?
        .execute(params![row.id, row.job, row.due_at.map(signed), row.origin])?;
    if added == 0 {
        return Ok(false);
    }
    for run in runs {
        add_run(connection, run)?;
    }
    Ok(true)
}

/// Changes a job and its runs; `None` when there is no such job or the edit
/// wants nothing.
pub(super) fn edit(
    connection: &Connection,
    id: &str,
    edit: CronEdit,
) -> Result<Option<CronEdited>, Fault> {
    let Some(before) = job(connection, id)? else { return Ok(None) };
    let Some(change) = edit(&before) else { return Ok(None) };
    let is_new: Vec<bool> =
        change.added.iter().map(|run| add_run(connection, run)).collect::<Result<_, _>>()?;
    for run in &change.changed {
        change_run(connection, run)?;
    }
    if let Some(id) = &change.undone {
        connection
            .prepare_cached("DELETE FROM cron_runs WHERE id = ?1 AND status = 'started'")?
            .execute([id])?;
    }
    let not_again = change.not_again.filter(|_| is_new.last() == Some(&false));
    let after = match not_again.map_or(change.job, CronJobChange::Put) {
        CronJobChange::Keep => Some(before.clone()),
        CronJobChange::Put(row) => {
            connection
                .prepare_cached("UPDATE cron_jobs SET job = ?2, due_at = ?3 WHERE id = ?1")?
                .execute(params![id, row.job, row.due_at.map(signed)])?;
            Some(row)
        }
        CronJobChange::Remove => {
            connection.prepare_cached("DELETE FROM cron_jobs WHERE id = ?1")?.execute([id])?;
            None
        }
    };
    Ok(Some(CronEdited { before, after, is_new }))
}

/// Adds a run, unless its id is taken; answers whether it did.
fn add_run(connection: &Connection, run: &CronRunRow) -> Result<bool, Fault> {
    let added = connection
        .prepare_cached(&format!(
            "INSERT OR IGNORE INTO cron_runs ({RUN}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        ))?
        .execute(params![
            run.id,
            run.job_id,
            signed(run.instant),
            run.status,
            run.delivery,
            run.entry,
            signed(run.at),
        ])?;
    Ok(added > 0)
}

/// Notes what has become of a run that is not over.
pub(super) fn change_run(connection: &Connection, run: &CronRunRow) -> Result<bool, Fault> {
    let changed = connection
        .prepare_cached(
            "UPDATE cron_runs SET status = ?2, delivery = ?3, entry = ?4, at = ?5
             WHERE id = ?1 AND status = 'started'",
        )?
        .execute(params![run.id, run.status, run.delivery, run.entry, signed(run.at)])?;
    Ok(changed > 0)
}

/// The runs that have begun and not ended.
pub(super) fn open_runs(connection: &Connection) -> Result<Vec<CronRunRow>, Fault> {
    let rows = connection
        .prepare_cached(&format!("SELECT {RUN} FROM cron_runs WHERE status = 'started'"))?
        .query_map([], read_run)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// The runs that are wanted, and how many there are of them.
pub(super) fn runs(
    connection: &Connection,
    query: &CronRunQuery,
) -> Result<(Vec<CronRunRow>, u64), Fault> {
    let mut conditions = vec!["status <> 'started'"];
    let mut values: Vec<SqlValue> = Vec::new();
    if let Some(job) = &query.job_id {
        conditions.push("job_id = ?");
        values.push(job.clone().into());
    }
    if let Some(run) = &query.run_id {
        conditions.push("json_extract(entry, '$.runId') = ?");
        values.push(run.clone().into());
    }
    if !query.statuses.is_empty() {
        conditions.push("status IN (SELECT value FROM json_each(?))");
        values.push(serde_json::to_string(&query.statuses)?.into());
    }
    if !query.deliveries.is_empty() {
        conditions.push("delivery IN (SELECT value FROM json_each(?))");
        values.push(serde_json::to_string(&query.deliveries)?.into());
    }
    let condition = conditions.join(" AND ");
    let order = if query.oldest_first { "at, rowid" } else { "at DESC, rowid DESC" };
    if let Some(text) = &query.search {
        let sql = format!("SELECT {RUN} FROM cron_runs WHERE {condition} ORDER BY {order}");
        return holding(connection, &sql, &values, (text, query.limit, query.offset));
    }
    let sql = format!("SELECT COUNT(*) FROM cron_runs WHERE {condition}");
    let total: i64 =
        connection.prepare_cached(&sql)?.query_row(params_from_iter(&values), |row| row.get(0))?;
    let sql = format!(
        "SELECT {RUN} FROM cron_runs WHERE {condition} ORDER BY {order} LIMIT {} OFFSET {}",
        query.limit, query.offset
    );
    let rows = connection
        .prepare_cached(&sql)?
        .query_map(params_from_iter(&values), read_run)?
        .collect::<rusqlite::Result<_>>()?;
    Ok((rows, unsigned(total)))
}

/// Those of the runs that `sql` finds in whose entry a text is, and how many there
/// are of them. SQLite folds only ASCII, so we look here.
fn holding(
    connection: &Connection,
    sql: &str,
    values: &[SqlValue],
    (text, limit, offset): (&str, u32, u32),
) -> Result<(Vec<CronRunRow>, u64), Fault> {
    let needle = text.to_lowercase();
    let wanted = u64::from(offset)..u64::from(offset).saturating_add(u64::from(limit));
    let (mut rows, mut total) = (Vec::new(), 0_u64);
    let mut statement = connection.prepare_cached(sql)?;
    for run in statement.query_map(params_from_iter(values), read_run)? {
        let run = run?;
        if run.entry.to_lowercase().contains(&needle) {
            if wanted.contains(&total) {
                rows.push(run);
            }
            total = total.saturating_add(1);
        }
    }
    Ok((rows, total))
}

/// Whether a file of jobs was taken over.
pub(super) fn is_imported(connection: &Connection, path: &str) -> Result<bool, Fault> {
    let noted = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM cron_imports WHERE path = ?1)")?
        .query_row([path], |row| row.get(0))?;
    Ok(noted)
}

/// Notes that a file of jobs is taken over.
pub(super) fn note_import(connection: &Connection, path: &str, at: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO cron_imports (path, at) VALUES (?1, ?2)")?
        .execute(params![path, signed(at)])?;
    Ok(())
}

/// Forgets the oldest runs of jobs that are gone, beyond the `kept` newest: each
/// reminder is a job of its own.
pub(super) fn prune_orphans(connection: &Connection, kept: u32) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM cron_runs WHERE rowid IN (
                SELECT rowid FROM cron_runs
                WHERE status <> 'started' AND job_id NOT IN (SELECT id FROM cron_jobs)
                ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([kept])?;
    Ok(())
}

/// Forgets the oldest runs of a job beyond the `kept` newest.
pub(super) fn prune(connection: &Connection, job_id: &str, kept: u32) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM cron_runs WHERE rowid IN (
                SELECT rowid FROM cron_runs WHERE job_id = ?1 AND status <> 'started'
                ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![job_id, kept])?;
    Ok(())
}

/// Forgets that a job missed instants that are still to come.
pub(super) fn forget_misses(connection: &Connection, id: &str, now_ms: u64) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "DELETE FROM cron_runs WHERE job_id = ?1 AND status = 'missed' AND instant > ?2",
        )?
        .execute(params![id, signed(now_ms)])?;
    Ok(())
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<CronJobRow> {
    Ok(CronJobRow {
        id: row.get(0)?,
        job: row.get(1)?,
        due_at: row.get::<_, Option<i64>>(2)?.map(unsigned),
        origin: row.get(3)?,
    })
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<CronRunRow> {
    Ok(CronRunRow {
        id: row.get(0)?,
        job_id: row.get(1)?,
        instant: unsigned(row.get(2)?),
        status: row.get(3)?,
        delivery: row.get(4)?,
        entry: row.get(5)?,
        at: unsigned(row.get(6)?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::migrations::database;
    use super::*;

    fn row(id: &str, due_at: Option<u64>) -> CronJobRow {
        CronJobRow { id: id.into(), job: "{}".into(), due_at, origin: None }
    }

    fn run(id: &str, job_id: &str, status: &str, at: u64) -> CronRunRow {
        CronRunRow {
            id: id.into(),
            job_id: job_id.into(),
            instant: at,
            status: status.into(),
            delivery: "not-requested".into(),
            entry: format!("{{\"id\":\"{id}\"}}"),
            at,
        }
    }

    #[test]
    fn jobs_are_bounded_and_the_earliest_is_due_first() {
        let database = database();
        assert!(add(&database, &row("a", Some(7)), &[], 3).unwrap());
        assert!(add(&database, &row("b", Some(5)), &[], 3).unwrap());
        assert!(!add(&database, &row("b", Some(1)), &[], 3).unwrap());
        assert!(add(&database, &row("c", None), &[], 3).unwrap());
        assert!(!add(&database, &row("d", None), &[], 3).unwrap());
        assert_eq!(next_due(&database, &[]).unwrap(), Some(5));
        assert_eq!(next_due(&database, &["b".to_owned()]).unwrap(), Some(7));
        assert_eq!(next_due(&database, &["b".to_owned(), "a".to_owned()]).unwrap(), None);
        assert_eq!(due(&database, 4).unwrap(), Vec::<String>::new());
        assert_eq!(due(&database, 9).unwrap(), ["b", "a"]);
        assert_eq!(jobs(&database).unwrap().len(), 3);
    }

    #[test]
    fn the_id_of_a_run_is_taken_once_and_an_end_is_told_once() {
        let database = database();
        add(&database, &row("a", Some(5)), &[], 9).unwrap();
        let claim = || {
            let take = |before: &CronJobRow| {
                let job = CronJobChange::Put(CronJobRow { due_at: Some(9), ..before.clone() });
                let added = vec![run("a@5", "a", "started", 5)];
                let not_again = Some(CronJobRow { due_at: Some(7), ..before.clone() });
                Some(CronChange { added, not_again, ..CronChange::of_job(job) })
            };
            edit(&database, "a", Box::new(take)).unwrap().unwrap()
        };
        let first = claim();
        assert_eq!(first.is_new, [true]);
        assert_eq!(first.after.unwrap().due_at, Some(9));
        let again = claim();
        assert_eq!((again.is_new, again.after.unwrap().due_at), (vec![false], Some(7)));
        assert_eq!(due(&database, 8).unwrap(), ["a"], "written with the claim");
        assert_eq!(open_runs(&database).unwrap().len(), 1);
        assert!(change_run(&database, &run("a@5", "a", "ok", 6)).unwrap());
        assert!(!change_run(&database, &run("a@5", "a", "error", 7)).unwrap());
        let (found, total) =
            runs(&database, &CronRunQuery { limit: 9, ..Default::default() }).unwrap();
        assert_eq!((found[0].status.as_str(), total), ("ok", 1));
    }

    #[test]
    fn runs_are_found_by_what_is_asked_and_the_oldest_are_forgotten() {
        let database = database();
        for (index, status) in ["ok", "error", "ok", "missed"].into_iter().enumerate() {
            let at = u64::try_from(index).unwrap();
            add_run(&database, &run(&format!("r{index}"), "a", status, at)).unwrap();
        }
        add_run(&database, &run("x", "b", "ok", 9)).unwrap();
        let found = |query: CronRunQuery| {
            let (rows, total) = runs(&database, &query).unwrap();
            (rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), total)
        };
        let of_a = CronRunQuery { job_id: Some("a".into()), limit: 2, ..Default::default() };
        assert_eq!(found(of_a.clone()), (vec!["r3".into(), "r2".into()], 4));
        assert_eq!(found(CronRunQuery { offset: 3, ..of_a.clone() }).0, ["r0"]);
        let oldest = CronRunQuery { oldest_first: true, ..of_a.clone() };
        assert_eq!(found(oldest).0, ["r0", "r1"]);
        let ok = CronRunQuery { statuses: vec!["ok".into()], limit: 9, ..Default::default() };
        assert_eq!(found(ok).1, 3);
        let text = CronRunQuery { search: Some("R1".into()), limit: 9, ..Default::default() };
        assert_eq!(found(text).0, ["r1"]);
        let large = CronRunRow {
            entry: r#"{"summary":"Ärger mit Ökostrom"}"#.into(),
            ..run("r9", "a", "ok", 1)
        };
        add_run(&database, &large).unwrap();
        for search in ["ärger MIT ö", "ÄRGER"] {
            let umlauts = CronRunQuery { search: Some(search.into()), limit: 9, ..of_a.clone() };
            assert_eq!(found(umlauts), (vec!["r9".into()], 1), "{search}");
        }
        let second = CronRunQuery { search: Some("\"ID\"".into()), offset: 1, ..of_a.clone() };
        assert_eq!(found(second), (vec!["r2".into(), "r1".into()], 4));
        database.execute("DELETE FROM cron_runs WHERE id = 'r9'", []).unwrap();
        prune(&database, "a", 1).unwrap();
        let all = || found(CronRunQuery { limit: 9, ..Default::default() }).0;
        assert_eq!(all(), ["x", "r3"]);
        let row = CronJobRow { id: "a".into(), job: "{}".into(), due_at: None, origin: None };
        add(&database, &row, &[], 9).unwrap();
        add_run(&database, &run("y", "gone", "ok", 10)).unwrap();
        prune_orphans(&database, 1).unwrap();
        assert_eq!(all(), ["y", "r3"]);
    }
}
