//! The records of runs as they are: the gateway's own statements on a database of its
//! own schema, in memory. There, as in the gateway, one writer does one thing at a time.
#![allow(dead_code, reason = "parts of the gateway")]

#[path = "../../src/store/column.rs"]
mod column;
#[path = "../../src/store/error.rs"]
mod error;
#[path = "../../src/store/runs.rs"]
mod runs;

use std::sync::OnceLock;

use rusqlite::Connection;

use crate::store::SqliteStore;
use crate::sync::Mutex;

pub use runs::{Claim, NewRun, RunOutcome, RunState};

/// What `runs` looks like in a database that the gateway made.
fn schema() -> &'static str {
    static SCHEMA: OnceLock<String> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("schema.sqlite");
        drop(SqliteStore::open(&path).unwrap());
        let made = Connection::open(&path).unwrap();
        let mut rows = made
            .prepare("SELECT sql FROM sqlite_master WHERE tbl_name = 'runs' AND sql IS NOT NULL")
            .unwrap();
        let texts = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        texts.map(Result::unwrap).collect::<Vec<_>>().join(";\n")
    })
}

pub struct Records(Mutex<Connection>);

impl Records {
    pub fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema()).unwrap();
        Self(Mutex::new(connection))
    }

    pub fn claim(&self, run: &NewRun) -> Claim {
        // Chats are told nothing here, so that there is nothing to forget.
        runs::claim(&self.0.lock(), run, |_, _| Ok(())).unwrap()
    }

    pub fn finish(&self, scope: &str, run_id: &str, outcome: &RunOutcome) {
        assert!(runs::finish(&self.0.lock(), (scope, run_id), outcome, true, 1).unwrap());
    }

    pub fn state(&self, run_id: &str) -> Option<RunState> {
        runs::by_id(&self.0.lock(), run_id).unwrap().map(|record| record.state)
    }
}
