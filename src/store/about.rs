//! Reads and writes about one thing, which a text names.

use rusqlite::Connection;

use super::SqliteStore;
use super::error::Fault;
use super::traits::StoreFuture;

impl SqliteStore {
    /// Reads what is known of `id`.
    pub(super) fn read_of<'a, T: Send + 'static>(
        &'a self,
        operation: &'static str,
        id: &str,
        look: impl FnOnce(&Connection, &str) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let id = id.to_owned();
        Box::pin(self.database.read(operation, move |c| look(c, &id)))
    }

    /// Changes what is known of `id`.
    pub(super) fn write_of<'a, T: Send + 'static>(
        &'a self,
        operation: &'static str,
        id: &str,
        change: impl FnOnce(&Connection, &str) -> Result<T, Fault> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let id = id.to_owned();
        Box::pin(self.database.write(operation, move |c| change(c, &id)))
    }
}
