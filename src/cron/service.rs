//! What jobs, the scheduler and heartbeats have in common.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::tz::TimeZone;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::web::{GuardedClient, Tls};
use crate::bus::{Audience, Bus, EventKind};
use crate::config::{Env, Settings};
use crate::sessions::{KeyRules, Sessions};
use crate::store::{CronChange, CronEdited, CronJobRow, Store, StoreError};
use crate::support::{Clock, Ids, Live, Permits, Tasks, json};
use crate::telemetry::metrics::NUMBERS;

use super::claim::Claim;
use super::error::CronError;
use super::heartbeat::Heartbeats;
use super::job::{Job, Origin};
use super::missed::Usual;
use super::outlet::Outlet;
use super::run_log;
use super::scheduler::BROKEN;

/// What the service works with.
pub struct CronParts {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// How session keys are read.
    pub keys: Live<KeyRules>,
    /// Conversations.
    pub sessions: Sessions,
    /// Jobs and their runs.
    pub store: Arc<dyn Store>,
    /// Where events go.
    pub bus: Bus,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// The way to chats of channels.
    pub outlet: Arc<dyn Outlet>,
    /// Background tasks.
    pub tasks: Tasks,
}

/// Jobs and heartbeats, as far as they need no agent to run.
pub struct Cron {
    pub(super) parts: CronParts,
    /// The way to web servers.
    pub(super) client: Live<GuardedClient>,
    /// How the agents' heartbeats are.
    pub heartbeats: Heartbeats,
    /// Something is due at another time, or somebody wants a run.
    pub(super) changed: Notify,
    // Never held across an await; see docs/locks.md.
    pub(super) state: Mutex<State>,
    /// Held from before a change of a job is written until it is told, so that clients hear
    /// of changes in their order.
    pub(super) telling: AsyncMutex<()>,
    /// How many runs may be under way.
    pub(super) permits: Arc<Permits>,
    /// Rung when a job is changed or removed, for its runs that wait.
    pub(super) edits: watch::Sender<()>,
    env: Env,
    /// Whether the gateway stops: what is due then is for the next one.
    pub(super) stopped: CancellationToken,
}

/// What runs, and what is about to.
#[derive(Default)]
pub(super) struct State {
    /// Jobs that run, and since when.
    pub running: BTreeMap<String, u64>,
    /// Runs whose rows are written.
    pub waiting: VecDeque<Ticket>,
    /// Requests of other programs that this process runs: their ids.
    pub hooks: BTreeSet<String>,
    /// The sessions of those that run.
    pub hook_rooms: BTreeSet<String>,
    /// Jobs that are due, and that the database did not take the last time.
    pub stuck: Vec<String>,
    /// How many runs somebody has asked for.
    pub asked: u64,
    /// When old sessions of runs were last looked for.
    pub swept_at: u64,
}

/// A run whose row is written and that is to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticket {
    /// The job as it was then.
    pub job: Job,
    /// Who made it, unless a client did.
    pub origin: Option<Origin>,
    /// Its row.
    pub row_id: String,
    /// What it is called on the wire, when somebody asked for it.
    pub run_id: Option<String>,
    /// When it was due.
    pub instant: u64,
    /// When its row was written.
    pub started_at: u64,
}

/// What became of the instants of a job that were due.
pub(super) enum Claimed {
    /// The last one begins.
    Begins(Ticket),
    /// None begins.
    Skipped(Skipped),
    /// There were none, or they have their rows already.
    Nothing,
}

/// Instants at which a job did not begin.
pub(super) struct Skipped {
    /// The job as it is then.
    pub job: Job,
    /// Who made it, unless a client did.
    pub origin: Option<Origin>,
    /// Why it did not, the last time.
    pub error: String,
    /// The row of that.
    pub row_id: String,
}

/// What became of a wish to run a job now.
pub enum Asked {
    /// It begins when this is dropped.
    Enqueued(String, Enqueued),
    /// It is not due.
    NotDue,
    /// It runs already.
    Running,
}

/// A run that begins when this is dropped.
pub struct Enqueued {
    cron: Arc<Cron>,
    ticket: Option<Box<Ticket>>,
}

impl Drop for Enqueued {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.cron.state.lock().waiting.push_back(*ticket);
            self.cron.changed.notify_one();
        }
    }
}

/// The way to web servers, as the configuration lets it be.
fn client(settings: &Settings, env: &Env) -> GuardedClient {
    GuardedClient::of(&settings.web.fetch, env, Arc::<Tls>::default())
}

impl Cron {
    /// The service. Nothing is read and nothing runs before the scheduler does.
    pub fn new(parts: CronParts, env: &Env) -> Arc<Self> {
        let settings = parts.settings.now();
        let permits = Arc::new(Permits::new(settings.cron.max_concurrent));
        let client = Live::new(client(&settings, env));
        Arc::new(Self {
            client,
            heartbeats: Heartbeats::default(),
            changed: Notify::new(),
            state: Mutex::default(),
            telling: AsyncMutex::default(),
            permits,
            edits: watch::Sender::default(),
            env: env.clone(),
            stopped: CancellationToken::new(),
            parts,
        })
    }

    /// Takes the configuration as it is now: jobs and heartbeats are looked at
    /// again.
    pub fn reconfigure(&self, tasks: &Tasks) {
        let settings = self.parts.settings.now();
        self.permits.resize(settings.cron.max_concurrent, tasks);
        self.client.set(client(&settings, &settings.environment(&self.env)));
        self.changed.notify_one();
        self.heartbeats.look_again();
    }

    /// Where the user lives.
    pub(super) fn zone(&self) -> TimeZone {
        self.parts.settings.now().workspace.zone()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.parts.clock.now_ms()
    }

    /// Begins no more runs and asks nobody by the clock; those that are under
    /// way end like others.
    pub fn stop(&self) {
        self.stopped.cancel();
        self.changed.notify_one();
        self.heartbeats.set_enabled(false);
    }

    /// Whether the gateway stops.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// Marks a job as running; false when it does already.
    pub(super) fn begin(&self, id: &str, now: u64) -> bool {
        let mut state = self.state.lock();
        let is_free = !state.running.contains_key(id);
        if is_free {
            state.running.insert(id.to_owned(), now);
        }
        is_free
    }

    /// Whether a job runs, or is about to.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.state.lock().running.contains_key(id)
    }

    /// Whether a job runs since this moment, or is about to.
    pub(super) fn is_running_since(&self, id: &str, moment: u64) -> bool {
        self.state.lock().running.get(id) == Some(&moment)
    }

    /// The job does not run any more.
    pub(super) fn release(&self, id: &str) {
        self.state.lock().running.remove(id);
        // Once it is stopped the scheduler waits for the last one.
        if self.is_stopped() {
            self.changed.notify_one();
        }
    }

    /// Changes a job; `None` when there is no such job, or nothing is wanted.
    pub(super) async fn edit(
        &self,
        id: &str,
        edit: impl FnOnce(&CronJobRow) -> Option<CronChange> + Send + 'static,
    ) -> Result<Option<CronEdited>, StoreError> {
        self.parts.store.edit_cron_job(id, Box::new(edit)).await
    }

    /// Claims the instants of a job that are due, with one commit. The last of
    /// them begins unless it is too old or the job still runs.
    pub(super) async fn claim_due(&self, id: &str) -> Result<Claimed, StoreError> {
        let turn = self.telling.lock().await;
        let now = self.now_ms();
        let is_free = self.begin(id, now);
        let usual = Usual::of(&self.parts.settings.now().cron);
        let keep = self.kept_rows();
        let (sender, mut wanted) = tokio::sync::oneshot::channel();
        let edited = self.edit(id, move |row| {
            let claim = Claim::of(row, now, usual, is_free, keep)?;
            let change = claim.change.clone();
            // The receiver waits for the commit.
            let _ = sender.send(claim);
            Some(change)
        });
        let edited = edited.await.inspect_err(|_| {
            if is_free {
                self.release(id);
            }
        })?;
        let claim = edited.zip(wanted.try_recv().ok());
        let is_passed = claim.as_ref().is_some_and(|(edited, _)| !edited.is_new.is_empty());
        let claimed = claim.map_or(Claimed::Nothing, |(edited, claim)| self.take(&edited, claim));
        drop(turn);
        if matches!(claimed, Claimed::Begins(_)) {
            return Ok(claimed);
        }
        if is_free {
            self.release(id);
        }
        // Clients that were told when it runs next hear that it does not. A job that cannot
        // be read would still say that it does.
        if is_passed && matches!(claimed, Claimed::Nothing) {
            self.tell_now(id, "updated", None).await;
        }
        Ok(claimed)
    }

    /// Tells of what does not run; answers what became of it.
    fn take(&self, edited: &CronEdited, mut claim: Claim) -> Claimed {
        let is_last_new = edited.is_new.last() == Some(&true);
        let begins = is_last_new && claim.ticket.is_some();
        let count = edited.is_new.iter().filter(|is_new| **is_new).count();
        let skipped = count.saturating_sub(usize::from(begins));
        NUMBERS.cron.add("skipped", u64::try_from(skipped).unwrap_or(u64::MAX));
        if !is_last_new {
            return Claimed::Nothing;
        }
        if let Some(ticket) = claim.ticket {
            return Claimed::Begins(ticket);
        }
        self.tell_finished(&claim.job, &claim.entry);
        let error = claim.entry["error"].as_str().unwrap_or_default().to_owned();
        let row_id = claim.change.added.pop().map(|row| row.id).unwrap_or_default();
        let origin = super::claim::origin(&edited.before);
        Claimed::Skipped(Skipped { job: claim.job, origin, error, row_id })
    }

    /// How many rows of a job its log keeps.
    fn kept_rows(&self) -> usize {
        usize::try_from(self.parts.settings.now().cron.keep_lines).unwrap_or(usize::MAX)
    }

    /// Forgets the oldest runs of a job beyond those that are kept.
    pub(super) async fn prune(&self, id: &str) {
        let kept = self.parts.settings.now().cron.keep_lines;
        if let Err(error) = self.parts.store.prune_cron_runs(id, kept).await {
            tracing::warn!(job = %id, %error, "old runs of a job not forgotten");
        }
    }

    /// Does something with a job to its end, though who asks goes away: what is written
    /// down is told and looked at as well.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, CronError>> + Send + 'static,
    ) -> Result<T, CronError> {
        let done = self.parts.tasks.result_of(name, work).await;
        done.unwrap_or_else(|| Err(CronError::Refused(BROKEN.into())))
    }

    /// Claims a run that somebody wants now. Who asks may go away: what has been
    /// claimed begins all the same, or the job would count as running for ever.
    ///
    /// # Errors
    /// When there is no such job, or it cannot be written down.
    pub async fn ask(self: &Arc<Self>, id: &str, only_due: bool) -> Result<Asked, CronError> {
        let (cron, id) = (Arc::clone(self), id.to_owned());
        self.to_its_end("cron ask", async move { cron.claim_asked(&id, only_due).await }).await
    }

    async fn claim_asked(self: &Arc<Self>, id: &str, only_due: bool) -> Result<Asked, CronError> {
        let row = self.parts.store.cron_job(id).await?;
        let row = row.ok_or_else(|| CronError::Unknown(id.to_owned()))?;
        Job::of_row(&row)?;
        let now = self.now_ms();
        if only_due && row.due_at.is_none_or(|due_at| due_at > now) {
            return Ok(Asked::NotDue);
        }
        if !self.begin(id, now) {
            return Ok(Asked::Running);
        }
        // Not before: what counts as running by now is begun or put back at a stop.
        if self.is_stopped() {
            self.release(id);
            return Err(CronError::Refused("the gateway is stopping; ask again after that".into()));
        }
        let run_id = {
            let mut state = self.state.lock();
            state.asked += 1;
            format!("manual:{id}:{now}:{}", state.asked)
        };
        let (sender, mut claimed) = tokio::sync::oneshot::channel();
        let (wanted, keep) = (run_id.clone(), only_due.then(|| self.kept_rows()));
        let edited = self.edit(id, move |row| {
            let (ticket, change) = super::claim::asked(row, &wanted, now, keep)?;
            let _ = sender.send(ticket);
            Some(change)
        });
        let edited = edited.await.inspect_err(|_| self.release(id))?;
        let is_new = edited.as_ref().is_some_and(|edited| edited.is_new.last() == Some(&true));
        if let Some(ticket) = claimed.try_recv().ok().filter(|_| is_new) {
            let enqueued = Enqueued { cron: Arc::clone(self), ticket: Some(Box::new(ticket)) };
            return Ok(Asked::Enqueued(run_id, enqueued));
        }
        self.release(id);
        // Its row was there: that instant has had its run.
        if edited.is_some() {
            self.tell_now(id, "updated", None).await;
        }
        Ok(Asked::NotDue)
    }

    /// Whether anybody listens to what happens to jobs.
    pub(super) fn is_heard(&self) -> bool {
        self.parts.bus.wants(EventKind::Cron, &Audience::Everyone)
    }

    /// Tells everybody what happened to a job.
    pub(super) fn tell(&self, action: &str, job: &Job, more: &Value) {
        if !self.is_heard() {
            return;
        }
        let mut payload = json!({"jobId": job.id, "action": action, "job": job});
        if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
            payload.extend(more.clone());
        }
        self.parts.bus.publish(EventKind::Cron, &Audience::Everyone, &payload);
    }

    /// Tells everybody how a run ended, as its entry says.
    pub(super) fn tell_finished(&self, job: &Job, entry: &Value) {
        self.tell("finished", job, &run_log::without_place(entry));
    }
}
