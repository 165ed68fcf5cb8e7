//! The list of jobs: made, changed, removed, shown.
//!
//! Promises: a change is on disk before it is answered; one that is on disk is told, and
//! the scheduler hears of it, though who asked for it has gone. Changes are told in their
//! order.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::protocol::decode::Setting;
use crate::protocol::methods::cron::{CronListParams, JobPatch, NewJob, Payload};
use crate::sessions::AgentId;
use crate::store::{CronChange, CronJobChange};
use crate::support::{json, reading, sort};

use super::error::CronError;
use super::job::{Job, Origin};
use super::run_log::add_place;
use super::service::Cron;

/// Most jobs: each one is looked at when one of them changes, and lists show
/// all of them.
pub const JOBS_MAX: u64 = 1000;

/// A page of the list of jobs.
#[derive(Debug)]
pub struct JobPage {
    /// As `cron.list` answers it.
    pub page: Value,
    /// What it is a page of: another text once a job of the list is another, or at another
    /// place.
    pub revision: String,
}

impl Cron {
    /// Makes a job.
    ///
    /// # Errors
    /// When it asks for what there is not, or cannot be written down.
    pub async fn add(
        self: &Arc<Self>,
        new: NewJob,
        origin: Option<Origin>,
    ) -> Result<Job, CronError> {
        self.put_down(self.draft(new)?, origin).await
    }

    /// The job that is asked for, which is not written down yet.
    ///
    /// # Errors
    /// When it asks for what there is not.
    pub fn draft(&self, new: NewJob) -> Result<Job, CronError> {
        self.check_agent(new.agent_id.as_deref())?;
        Job::new(new, self.parts.ids.uuid(), self.now_ms())
    }

    /// Writes down a job that was drafted, without checking it again.
    ///
    /// # Errors
    /// When that fails, or there are too many.
    pub async fn put_down(
        self: &Arc<Self>,
        job: Job,
        origin: Option<Origin>,
    ) -> Result<Job, CronError> {
        let cron = Arc::clone(self);
        self.to_its_end("cron add", async move { cron.write_down(job, origin).await }).await
    }

    async fn write_down(&self, job: Job, origin: Option<Origin>) -> Result<Job, CronError> {
        let origin = origin.and_then(|origin| serde_json::to_string(&origin).ok());
        let row = job.to_row(job.state.next_run_at_ms, origin);
        let _turn = self.telling.lock().await;
        if !self.parts.store.add_cron_job(row, Vec::new(), JOBS_MAX).await? {
            return Err(CronError::TooMany(JOBS_MAX));
        }
        self.tell("added", &job, &next(&job));
        self.changed.notify_one();
        Ok(job)
    }

    /// Changes a job.
    ///
    /// # Errors
    /// When there is no such job, when it asks for what there is not, or cannot
    /// be written down.
    pub async fn update(self: &Arc<Self>, id: &str, patch: JobPatch) -> Result<Job, CronError> {
        if let Setting::Set(agent) = &patch.agent_id {
            self.check_agent(Some(agent))?;
        }
        let (cron, id) = (Arc::clone(self), id.to_owned());
        self.to_its_end("cron update", async move { cron.change(&id, patch).await }).await
    }

    async fn change(&self, id: &str, patch: JobPatch) -> Result<Job, CronError> {
        let _turn = self.telling.lock().await;
        let now = self.now_ms();
        if patch.enabled == Some(true) {
            // It may have been off when a clock that was ahead was set back.
            self.parts.store.forget_cron_misses(id, now).await?;
        }
        let (sender, mut changed) = tokio::sync::oneshot::channel();
        let edited = self.edit(id, move |row| {
            let patched = Job::as_written(row).and_then(|mut job| {
                let before = job.state.next_run_at_ms;
                job.patch(patch, now)?;
                let is_moved = job.state.next_run_at_ms != before;
                Ok((job, is_moved))
            });
            let change = patched.as_ref().ok().map(|(job, is_moved)| {
                // Claimed already, an instant is not due again by a change of
                // something else.
                let due_at = if *is_moved { job.state.next_run_at_ms } else { row.due_at };
                let row = job.to_row(due_at.filter(|_| job.enabled), row.origin.clone());
                CronChange::of_job(CronJobChange::Put(row))
            });
            // The receiver waits for the commit.
            let _ = sender.send(patched);
            change
        });
        edited.await?;
        let changed = changed.try_recv().map_err(|_| CronError::Unknown(id.to_owned()))?;
        let (job, _) = changed?;
        self.tell("updated", &job, &next(&job));
        self.edits.send_replace(());
        self.changed.notify_one();
        Ok(job)
    }

    /// Removes a job; answers whether there was one. Its runs stay in the log.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn remove(self: &Arc<Self>, id: &str) -> Result<bool, CronError> {
        let (cron, id) = (Arc::clone(self), id.to_owned());
        self.to_its_end("cron remove", async move { cron.strike(&id).await }).await
    }

    async fn strike(&self, id: &str) -> Result<bool, CronError> {
        let _turn = self.telling.lock().await;
        let remove = |_: &_| Some(CronChange::of_job(CronJobChange::Remove));
        let Some(edited) = self.edit(id, remove).await? else { return Ok(false) };
        let job = Job::of_row(&edited.before).unwrap_or_else(|_| Job::nameless(id));
        self.tell("removed", &job, &Value::Null);
        self.edits.send_replace(());
        self.changed.notify_one();
        Ok(true)
    }

    /// Tells of a job as it is by now, if it still is: when it runs next, unless there is
    /// something else to say. Where nobody listens it is not read.
    pub(super) async fn tell_now(&self, id: &str, action: &str, more: Option<Value>) {
        if !self.is_heard() {
            return;
        }
        let _turn = self.telling.lock().await;
        match self.job(id).await {
            Ok((job, _)) => self.tell(action, &job, &more.unwrap_or_else(|| next(&job))),
            Err(CronError::Unknown(_)) => {}
            Err(error) => tracing::warn!(job = %id, %error, action, "job not told of"),
        }
    }

    /// The job with this id, and which session made it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn job(&self, id: &str) -> Result<(Job, Option<Origin>), CronError> {
        let row = self.parts.store.cron_job(id).await?;
        let row = row.ok_or_else(|| CronError::Unknown(id.to_owned()))?;
        let origin = row.origin.as_deref().and_then(|text| reading::text(text).ok());
        Ok((Job::of_row(&row)?, origin))
    }

    /// All jobs that can be read, the newest last.
    pub(super) async fn all_jobs(&self) -> Result<Vec<Job>, CronError> {
        let rows = self.parts.store.cron_jobs().await?;
        Ok(rows.iter().filter_map(|row| Job::of_row(row).ok()).collect())
    }

    /// A page of the list: `cron.list`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn list(self: &Arc<Self>, p: CronListParams) -> Result<JobPage, CronError> {
        let mut jobs = self.all_jobs().await?;
        let wants = match p.enabled.as_deref() {
            Some("enabled") => Some(true),
            Some("disabled") => Some(false),
            Some(_) => None,
            None => (!p.include_disabled).then_some(true),
        };
        let query = p.query.as_deref().map(|text| text.trim().to_lowercase());
        let query = query.filter(|text| !text.is_empty());
        let of_agent = p.agent_id.as_deref().map(AgentId::normalize);
        jobs.retain(|job| {
            of_agent.as_ref().is_none_or(|wanted| self.agent_of(job) == *wanted)
                && wants.is_none_or(|wanted| job.enabled == wanted)
                && query.as_deref().is_none_or(|query| is_about(job, query))
        });
        // Of equal ones the newest first, like the original shows them.
        jobs.reverse();
        match p.sort_by.as_deref() {
            Some("name") => sort::by_key(&mut jobs, |job| job.name.to_lowercase()),
            Some("updatedAtMs") => sort::by_key(&mut jobs, |job| job.updated_at_ms),
            _ => sort::by_key(&mut jobs, |job| job.state.next_run_at_ms.unwrap_or(u64::MAX)),
        }
        if p.descending {
            jobs.reverse();
        }
        let revision = revision_of(&jobs);
        let total = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        let limit = p.limit.unwrap_or(if total == 0 { 50 } else { total });
        let skipped = usize::try_from(p.offset).unwrap_or(usize::MAX);
        let shown = usize::try_from(limit).unwrap_or(usize::MAX);
        let jobs: Vec<_> = jobs.into_iter().skip(skipped).take(shown).collect();
        let mut previews = Map::new();
        for job in &jobs {
            previews.insert(job.id.clone(), self.preview(job).await);
        }
        let mut page = json!({"jobs": jobs});
        add_place(&mut page, total, p.offset, limit, jobs.len());
        page["deliveryPreviews"] = Value::Object(previews);
        Ok(JobPage { page, revision })
    }

    /// How the scheduler is: `cron.status`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn status(&self) -> Result<Value, CronError> {
        let jobs = self.parts.store.cron_jobs().await?;
        let settings = &self.parts.settings.now();
        let is_enabled = settings.cron.enabled;
        let next = jobs.iter().filter_map(|row| row.due_at).min().filter(|_| is_enabled);
        // Where the original keeps them, and where they are imported from.
        let path = settings.paths.state_dir.join("cron").join("jobs.json");
        Ok(json!({"enabled": is_enabled, "storePath": path.display().to_string(),
            "jobs": jobs.len(), "nextWakeAtMs": next}))
    }

    /// How many jobs there are, and those whose last runs failed: their names,
    /// and how many runs in a row.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn failing(&self) -> Result<(usize, Vec<(String, u64)>), CronError> {
        let jobs = self.all_jobs().await?;
        let fails = jobs.iter().filter(|job| job.enabled).filter_map(|job| {
            let times = job.state.consecutive_errors.filter(|times| *times > 0)?;
            Some((job.name.clone(), times))
        });
        Ok((jobs.len(), fails.collect()))
    }

    /// How many jobs run.
    pub fn running(&self) -> usize {
        self.state.lock().running.len()
    }

    /// The ids of jobs that are due and that the database did not take the last time.
    pub fn stuck(&self) -> Vec<String> {
        self.state.lock().stuck.clone()
    }

    /// Whether the agent that is named exists.
    pub(super) fn check_agent(&self, written: Option<&str>) -> Result<(), CronError> {
        let Some(written) = written.filter(|id| !id.trim().is_empty()) else { return Ok(()) };
        let agent = AgentId::normalize(written);
        if self.parts.settings.now().agents.has(agent.as_str()) {
            return Ok(());
        }
        Err(CronError::Invalid(format!("unknown agent id \"{written}\"")))
    }
}

/// What an event tells of a job that was made or changed.
fn next(job: &Job) -> Value {
    job.state.next_run_at_ms.map_or(Value::Null, |next| json!({"nextRunAtMs": next}))
}

fn revision_of(jobs: &[Job]) -> String {
    let places: Vec<_> = jobs.iter().map(|job| (&job.id, job.updated_at_ms)).collect();
    format!("sha256:{}", URL_SAFE_NO_PAD.encode(Sha256::digest(json!(places).to_string())))
}

fn is_about(job: &Job, query: &str) -> bool {
    let payload = match &job.payload {
        Payload::SystemEvent { text } => text.as_str(),
        Payload::AgentTurn(turn) => turn.message.as_str(),
    };
    let parts = [job.name.as_str(), job.id.as_str(), payload];
    let optional = [job.description.as_deref(), job.agent_id.as_deref()];
    parts
        .into_iter()
        .chain(optional.into_iter().flatten())
        .any(|text| text.to_lowercase().contains(query))
}
