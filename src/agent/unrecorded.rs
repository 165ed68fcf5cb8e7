//! Ends of runs that the database did not take.
//!
//! Promises: each is written as soon as the database takes it, and who comes with the key
//! of such a run, or with its text, is not sent to one that is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::store::{RunOutcome, Store, StoreError};
use crate::support::Tasks;

/// How long the database is left alone after it has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// What the record of a run says of its end.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How.
    pub outcome: RunOutcome,
    /// Whether its message needs no place in the record any more.
    pub is_stored: bool,
    /// When, in milliseconds since the epoch.
    pub now_ms: u64,
}

/// Writes down how runs end; clones share it.
#[derive(Clone)]
pub struct Unrecorded {
    store: Arc<dyn Store>,
    tasks: Tasks,
    /// By scope and id of the run.
    ends: Arc<Mutex<HashMap<(String, String), Ended>>>,
}

impl Unrecorded {
    /// Nothing is left to be written.
    pub fn new(store: Arc<dyn Store>, tasks: Tasks) -> Self {
        Self { store, tasks, ends: Arc::default() }
    }

    /// Writes down how a run ended, again and again until the database takes it.
    ///
    /// # Errors
    /// When it does not take it now.
    pub async fn record(&self, scope: &str, run_id: &str, ended: Ended) -> Result<(), StoreError> {
        let Err(error) = self.write(scope, run_id, &ended).await else { return Ok(()) };
        let (scope, run_id) = (scope.to_owned(), run_id.to_owned());
        self.ends.lock().await.insert((scope.clone(), run_id.clone()), ended);
        let unrecorded = self.clone();
        self.tasks.spawn("end of a run", async move {
            loop {
                tokio::time::sleep(PAUSE).await;
                if unrecorded.catch_up(&scope, &run_id).await.is_ok() {
                    return;
                }
            }
        });
        Err(error)
    }

    /// Writes down the end of a run that could not be; `false` when there is none.
    ///
    /// # Errors
    /// When the database still does not take it.
    pub async fn catch_up(&self, scope: &str, run_id: &str) -> Result<bool, StoreError> {
        // Locked until it is written: the end of one run must not end the next that has
        // its key.
        let mut ends = self.ends.lock().await;
        let key = (scope.to_owned(), run_id.to_owned());
        let Some(ended) = ends.get(&key) else { return Ok(false) };
        self.write(scope, run_id, ended).await?;
        ends.remove(&key);
        Ok(true)
    }

    async fn write(&self, scope: &str, run_id: &str, ended: &Ended) -> Result<(), StoreError> {
        let Ended { outcome, is_stored, now_ms } = ended.clone();
        self.store.finish_run(scope, run_id, outcome, is_stored, now_ms).await.map(drop)
    }
}
