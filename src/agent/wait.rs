//! Waiting for the end of a run, also of one that ended before.

use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;

use super::report::{Family, Progress, RunReport};
use super::run::{ActiveRun, RunEnd};
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

    /// When a run was accepted that is active or waits.
    pub fn accepted_at(&self, run_id: &str) -> Option<u64> {
        self.state.lock().lanes.get(run_id).map(|run| run.accepted_at)
    }

    /// What a run has done so far that is active or waits.
    pub fn progress(&self, run_id: &str) -> Option<Progress> {
        self.state.lock().lanes.get(run_id).map(|run| run.progress())
    }

    /// How a run ended, of one family of ids or of any, as soon as it has.
    pub async fn ends(
        &self,
        family: Option<Family>,
        run_id: &str,
    ) -> Result<Arc<RunReport>, StoreError> {
        let listener = self.calls.listen(run_id);
        loop {
            // Listening before looking, so nothing that happens between is missed.
            let mut called = std::pin::pin!(listener.bell.notified());
            called.as_mut().enable();
            let run = self.state.lock().lanes.get(run_id);
            if let Some(run) = run {
                run.ended().await;
            } else if let Some(report) = self.ended(family, run_id).await? {
                return Ok(report);
            } else {
                called.await;
            }
        }
    }

    /// How a run ended, if it has.
    pub async fn ended(
        &self,
        family: Option<Family>,
        run_id: &str,
    ) -> Result<Option<Arc<RunReport>>, StoreError> {
        if self.state.lock().lanes.get(run_id).is_some() {
            return Ok(None);
        }
        let kept = match family {
            Some(family) => self.reports.get(family, run_id),
            None => self.reports.newest(run_id),
        };
        if kept.is_some() {
            return Ok(kept);
        }
        let record = self.parts.store.run(run_id).await?;
        let report = record.and_then(RunReport::of_record);
        Ok(report
            .filter(|report| family.is_none_or(|family| family == report.family))
            .map(Arc::new))
    }

    /// Keeps how a run ends. Comes before it leaves its lane, so that it is
    /// always found in one of the two places.
    pub(super) fn keep_report(&self, run: &ActiveRun, end: &RunEnd) {
        self.reports.add(RunReport::of(run, end.clone(), self.parts.clock.now_ms()));
    }

    /// Tells those who wait for this run, and those who wait for its id.
    pub(super) fn tell_ended(&self, run: &ActiveRun, end: RunEnd) {
        run.set_ended(end);
        self.calls.call(&run.id);
    }
}
