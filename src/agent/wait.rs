//! Waiting for the end of a run, also of one that ended before.

use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;

use super::report::{Family, Progress, RunReport};
use super::run::RunEnd;
use super::runs::Runs;

impl Runs {
    /// How a run ended, as soon as it has. One that is not known may still
    /// come, so it is waited for as well. `None` when `limit` is over.
    pub async fn wait(
        &self,
        run_id: &str,
        limit: Duration,
    ) -> Result<Option<Arc<RunReport>>, StoreError> {
        // What has ended is told even to those who wait no time at all.
        if let Some(report) = self.ended(None, run_id).await? {
            return Ok(Some(report));
        }
        tokio::time::timeout(limit, self.ends(None, run_id)).await.ok().transpose()
    }

    /// Tells those who wait for a run, and those who ask later, why it will never begin. Where
    /// there is one with this id already, nothing is told.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn never_begins(
        &self,
        family: Family,
        run_id: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        let has_ended = self.ended(Some(family), run_id).await?.is_some();
        if has_ended || self.is_taken(family, run_id).await? {
            return Ok(());
        }
        let now = self.parts.clock.now_ms();
        self.lanes.tell_report(RunReport {
            family,
            run_id: run_id.into(),
            end: RunEnd::Failed(why.to_owned()),
            accepted_at: now,
            ended_at: now,
            progress: Progress::default(),
        });
        Ok(())
    }

    /// When a run was accepted that is active or waits.
    pub fn accepted_at(&self, run_id: &str) -> Option<u64> {
        self.lanes.table().get(run_id).map(|run| run.accepted_at)
    }

    /// What a run has done so far that is active or waits.
    pub fn progress(&self, run_id: &str) -> Option<Progress> {
        self.lanes.table().get(run_id).map(|run| run.progress())
    }

    /// How a run ended, of one family of ids or of any, as soon as it has.
    pub async fn ends(
        &self,
        family: Option<Family>,
        run_id: &str,
    ) -> Result<Arc<RunReport>, StoreError> {
        self.lanes.ends(family, run_id, || self.recorded(family, run_id)).await
    }

    /// How a run ended, if it has.
    pub async fn ended(
        &self,
        family: Option<Family>,
        run_id: &str,
    ) -> Result<Option<Arc<RunReport>>, StoreError> {
        self.lanes.ended(family, run_id, || self.recorded(family, run_id)).await
    }

    /// How a run of this family ended, if this process remembers that: the run records tell
    /// less.
    pub fn remembered(&self, family: Family, run_id: &str) -> Option<Arc<RunReport>> {
        self.lanes.remembered(Some(family), run_id)
    }

    /// What the run records tell. Runs of several families may have one id.
    async fn recorded(
        &self,
        family: Option<Family>,
        run_id: &str,
    ) -> Result<Option<RunReport>, StoreError> {
        let store = &self.parts.store;
        let record = match family {
            // The key of a run is its id.
            Some(family) => store.run_of(family.as_str(), run_id).await?,
            None => store.run(run_id).await?,
        };
        Ok(record.and_then(RunReport::of_record))
    }
}
