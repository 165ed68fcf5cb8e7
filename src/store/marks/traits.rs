//! The part of [`Store`](crate::store::Store) that is about these marks.

use super::{Overview, OverviewQuery, SessionMarks, SessionShare, overview, shares, sql};
use crate::store::sqlite::SqliteStore;
use crate::store::traits::StoreFuture;

/// What was read, what was put away, what is shown.
pub trait MarkStore: Send + Sync + 'static {
    /// The marks of a session.
    fn session_marks<'a>(&'a self, key: &'a str) -> StoreFuture<'a, SessionMarks>;

    /// Of these sessions, those that have marks.
    fn marks_of(&self, keys: Vec<String>) -> StoreFuture<'_, Vec<(String, SessionMarks)>>;

    /// A run has ended in a session.
    fn add_result<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()>;

    /// Everything in a session was seen; whether something of it was new.
    fn mark_session_read<'a>(&'a self, key: &'a str, now_ms: u64) -> StoreFuture<'a, bool>;

    /// Puts the transcript of a session away, or, without one, takes it out again.
    fn archive_session<'a>(
        &'a self,
        key: &'a str,
        session_id: Option<String>,
    ) -> StoreFuture<'a, ()>;

    /// A page of sessions, the one in which a person was last at the top.
    fn session_overview(&self, query: OverviewQuery) -> StoreFuture<'_, Overview>;

    /// Adds a link.
    fn add_share(&self, share: SessionShare, now_ms: u64) -> StoreFuture<'_, ()>;

    /// The link whose hash begins like this one; whether it is the same one is to
    /// be looked at.
    fn share<'a>(&'a self, token_hash: &'a str) -> StoreFuture<'a, Option<SessionShare>>;

    /// Ends all links to a transcript; how many there were.
    fn revoke_shares<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, usize>;

    /// Ends all links; how many there were.
    fn revoke_all_shares(&self) -> StoreFuture<'_, usize>;
}

impl MarkStore for SqliteStore {
    fn session_marks<'a>(&'a self, key: &'a str) -> StoreFuture<'a, SessionMarks> {
        self.read_of("look up the marks of a session", key, sql::get)
    }

    fn marks_of(&self, keys: Vec<String>) -> StoreFuture<'_, Vec<(String, SessionMarks)>> {
        let find = move |c: &_| sql::of(c, &keys);
        Box::pin(self.database().read("look up the marks of sessions", find))
    }

    fn add_result<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.write_of("count a result", key, sql::add_result)
    }

    fn mark_session_read<'a>(&'a self, key: &'a str, now_ms: u64) -> StoreFuture<'a, bool> {
        let mark = move |c: &_, key: &_| sql::mark_read(c, key, now_ms);
        self.write_of("mark a session as read", key, mark)
    }

    fn archive_session<'a>(
        &'a self,
        key: &'a str,
        session_id: Option<String>,
    ) -> StoreFuture<'a, ()> {
        let archive = move |c: &_, key: &_| sql::archive(c, key, session_id.as_deref());
        self.write_of("put a session away", key, archive)
    }

    fn session_overview(&self, query: OverviewQuery) -> StoreFuture<'_, Overview> {
        Box::pin(self.database().read("list sessions", move |c| overview::list(c, &query)))
    }

    fn add_share(&self, share: SessionShare, now_ms: u64) -> StoreFuture<'_, ()> {
        let add = move |c: &_| shares::add(c, &share, now_ms);
        Box::pin(self.database().write("share a session", add))
    }

    fn share<'a>(&'a self, token_hash: &'a str) -> StoreFuture<'a, Option<SessionShare>> {
        self.read_of("look up a link", token_hash, shares::find)
    }

    fn revoke_shares<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, usize> {
        self.write_of("end the links to a session", session_id, shares::revoke)
    }

    fn revoke_all_shares(&self) -> StoreFuture<'_, usize> {
        Box::pin(self.database().write("end all links", shares::revoke_all))
    }
}
