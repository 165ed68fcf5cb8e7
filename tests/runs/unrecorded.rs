//! Ends of runs that the database does not take at once.

use std::sync::Arc;

use clawgate::agent::{Ended, Unrecorded};
use clawgate::store::{Claim, NewRun, RunOutcome, RunState, SqliteStore, Store};
use clawgate::support::Tasks;
use rusqlite::Connection;
use tokio::time::{Duration, sleep};

fn run(key: &str) -> NewRun {
    NewRun {
        scope: "chat".into(),
        key: key.into(),
        run_id: key.into(),
        session_key: "agent:main:main".into(),
        text_hash: None,
        message: Some("{}".into()),
        now_ms: 1,
    }
}

#[tokio::test]
async fn an_end_that_the_database_did_not_take_is_written_once_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sqlite");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
    let unrecorded = Unrecorded::new(Arc::clone(&store), Tasks::default());
    let other = Connection::open(&path).unwrap();
    let ended = Ended { outcome: RunOutcome::Done, is_stored: true, now_ms: 2 };
    for key in ["a", "b"] {
        assert_eq!(store.claim_run(run(key)).await.unwrap(), Claim::New);
    }
    other.execute_batch("ALTER TABLE runs RENAME TO away").unwrap();
    for key in ["a", "b"] {
        unrecorded.record("chat", key, ended.clone()).await.unwrap_err();
    }
    unrecorded.catch_up("chat", "a").await.unwrap_err();
    other.execute_batch("ALTER TABLE away RENAME TO runs").unwrap();
    // Somebody asks for one; the other is written without that.
    unrecorded.catch_up("chat", "a").await.unwrap();
    for key in ["a", "b"] {
        let record = loop {
            let record = store.run(key).await.unwrap().unwrap();
            if record.state != RunState::Active {
                break record;
            }
            sleep(Duration::from_millis(10)).await;
        };
        assert_eq!((record.state, record.message), (RunState::Done, None));
    }
    assert!(!unrecorded.catch_up("chat", "a").await.unwrap());
}
