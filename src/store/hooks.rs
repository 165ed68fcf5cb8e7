//! Requests of other programs that were taken up, until they are done, and for
//! a while after that so that the same one is known again.
//!
//! Promises: of requests with one claim the first has a row; a row ends once, and
//! with its end the news of it are written.

use rusqlite::{Connection, OptionalExtension, params};

use super::column::signed;
use super::error::Fault;
use super::notices::{self, Teller};
use super::sqlite::SqliteStore;
use super::traits::StoreFuture;

/// How long a request is known again, in milliseconds: senders give up trying
/// within a day.
const KNOWN_MS: u64 = 24 * 60 * 60 * 1000;
/// Most requests that are done and still known.
const KNOWN_MAX: u32 = 10_000;
/// Most requests that wait or run; a sender that is told so comes again.
const OPEN_MAX: i64 = 1000;

/// A request that was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRow {
    /// The id of its run.
    pub id: String,
    /// The same for a request that is sent again; none when nobody can know.
    pub claim: Option<String>,
    /// What is to be done, as JSON.
    pub ask: String,
}

/// A system event for a session, of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookNews {
    /// Canonical key of the session.
    pub session_key: String,
    /// What happened.
    pub text: String,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAccepted {
    /// It is taken up.
    New,
    /// Its event is written under this id, and nothing is left to do.
    Told(u64),
    /// It was taken up before, with this id.
    Known(String),
    /// Too many wait.
    Full,
}

/// The part of [`Store`](super::Store) that is about them.
pub trait HookStore: Send + Sync + 'static {
    /// Takes a request up; one that is only an event is done with it.
    fn accept_hook(
        &self,
        row: HookRow,
        event: Option<HookNews>,
        now_ms: u64,
    ) -> StoreFuture<'_, HookAccepted>;

    /// The request is done. The id of the news, if there are any and it was not
    /// done before.
    fn end_hook<'a>(&'a self, id: &'a str, news: Option<HookNews>) -> StoreFuture<'a, Option<u64>>;

    /// The ids of those that are not done, the oldest first.
    fn open_hooks(&self) -> StoreFuture<'_, Vec<String>>;

    /// What is to be done, as JSON, of one that is not.
    fn open_hook<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<String>>;
}

impl HookStore for SqliteStore {
    fn accept_hook(
        &self,
        row: HookRow,
        event: Option<HookNews>,
        now_ms: u64,
    ) -> StoreFuture<'_, HookAccepted> {
        let accept = move |c: &_| accept(c, &row, event.as_ref(), now_ms);
        Box::pin(self.database().write("take a hook up", accept))
    }

    fn end_hook<'a>(&'a self, id: &'a str, news: Option<HookNews>) -> StoreFuture<'a, Option<u64>> {
        self.write_of("end a hook", id, move |c, id| end(c, id, news.as_ref()))
    }

    fn open_hooks(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(self.database().read("list open hooks", open))
    }

    fn open_hook<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<String>> {
        self.read_of("look up a hook", id, ask)
    }
}

fn accept(
    connection: &Connection,
    row: &HookRow,
    event: Option<&HookNews>,
    now_ms: u64,
) -> Result<HookAccepted, Fault> {
    let known = connection
        .prepare_cached("SELECT id FROM hooks WHERE claim = ?1")?
        .query_row([&row.claim], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(HookAccepted::Known(id));
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT COUNT(*) FROM hooks WHERE is_open = 1")?
        .query_row([], |row| row.get(0))?;
    if waiting >= OPEN_MAX && event.is_none() {
        return Ok(HookAccepted::Full);
    }
    connection
        .prepare_cached(
            "INSERT INTO hooks (id, claim, ask, is_open, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![row.id, row.claim, row.ask, event.is_none(), signed(now_ms)])?;
    match event {
        Some(event) => Ok(HookAccepted::Told(tell(connection, event)?)),
        None => Ok(HookAccepted::New),
    }
}

fn end(connection: &Connection, id: &str, news: Option<&HookNews>) -> Result<Option<u64>, Fault> {
    let ended = connection
        .prepare_cached("UPDATE hooks SET is_open = 0, ask = '' WHERE id = ?1 AND is_open = 1")?
        .execute([id])?;
    let news = news.filter(|_| ended > 0);
    news.map(|news| tell(connection, news)).transpose()
}

fn tell(connection: &Connection, news: &HookNews) -> Result<u64, Fault> {
    notices::add(connection, &news.session_key, &news.text, Teller::Other)
}

fn open(connection: &Connection) -> Result<Vec<String>, Fault> {
    let ids = connection
        .prepare_cached("SELECT id FROM hooks WHERE is_open = 1 ORDER BY at, rowid")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(ids)
}

fn ask(connection: &Connection, id: &str) -> Result<Option<String>, Fault> {
    let sql = "SELECT ask FROM hooks WHERE id = ?1 AND is_open = 1";
    Ok(connection.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
}

/// Forgets requests that were done long ago.
pub(super) fn prune(connection: &Connection, now_ms: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM hooks WHERE is_open = 0 AND at < ?1")?
        .execute([signed(now_ms.saturating_sub(KNOWN_MS))])?;
    connection
        .prepare_cached(
            "DELETE FROM hooks WHERE rowid IN (
                SELECT rowid FROM hooks WHERE is_open = 0
                ORDER BY at DESC, rowid DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute([KNOWN_MAX])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::migrations::database;
    use super::*;

    fn row(id: &str, claim: Option<&str>) -> HookRow {
        HookRow { id: id.into(), claim: claim.map(str::to_owned), ask: "{}".into() }
    }

    fn news() -> HookNews {
        HookNews { session_key: "agent:main:main".into(), text: "done".into() }
    }

    #[test]
    fn of_requests_with_one_claim_the_first_is_taken_up() {
        let database = database();
        let take = |row: HookRow| accept(&database, &row, None, 1).unwrap();
        assert_eq!(take(row("a", Some("x"))), HookAccepted::New);
        assert_eq!(take(row("b", Some("x"))), HookAccepted::Known("a".into()));
        assert_eq!(take(row("c", None)), HookAccepted::New);
        assert_eq!(take(row("d", None)), HookAccepted::New);
        assert_eq!(open(&database).unwrap(), ["a", "c", "d"]);
        assert_eq!(ask(&database, "a").unwrap().as_deref(), Some("{}"));
        // Also when it is done.
        assert!(end(&database, "a", None).unwrap().is_none());
        assert_eq!(ask(&database, "a").unwrap(), None);
        assert_eq!(take(row("e", Some("x"))), HookAccepted::Known("a".into()));
    }

    #[test]
    fn a_row_ends_once_and_with_its_news() {
        let database = database();
        accept(&database, &row("a", None), None, 1).unwrap();
        assert!(end(&database, "a", Some(&news())).unwrap().is_some());
        assert!(end(&database, "a", Some(&news())).unwrap().is_none());
        assert_eq!(notices::list(&database).unwrap().len(), 1);
        assert!(open(&database).unwrap().is_empty());
    }

    #[test]
    fn an_event_is_told_once_and_done() {
        let database = database();
        let tell = || accept(&database, &row("a", Some("x")), Some(&news()), 1).unwrap();
        assert!(matches!(tell(), HookAccepted::Told(_)));
        assert_eq!(tell(), HookAccepted::Known("a".into()));
        assert!(open(&database).unwrap().is_empty());
        assert_eq!(notices::list(&database).unwrap().len(), 1);
    }

    #[test]
    fn those_that_wait_are_bounded_and_those_that_are_done_are_forgotten() {
        let database = database();
        for index in 0..OPEN_MAX {
            accept(&database, &row(&format!("r{index}"), None), None, 1).unwrap();
        }
        assert_eq!(accept(&database, &row("x", None), None, 1).unwrap(), HookAccepted::Full);
        end(&database, "r0", None).unwrap();
        assert_eq!(accept(&database, &row("x", None), None, 1).unwrap(), HookAccepted::New);
        prune(&database, KNOWN_MS).unwrap();
        let left = |database: &Connection| -> i64 {
            database.query_row("SELECT COUNT(*) FROM hooks", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(left(&database), OPEN_MAX + 1);
        prune(&database, KNOWN_MS + 2).unwrap();
        assert_eq!(left(&database), OPEN_MAX);
    }
}
