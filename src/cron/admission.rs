//! The way of a run to its beginning: its place, and its session.
//!
//! Promises: who waits for a session has his turn there before what came later, keeps no
//! place meanwhile that another could have, and is stopped with what runs there; nobody waits
//! for a place while he keeps a session from others; who waits when the gateway stops does
//! not begin; a run begins with its job as it is by then, and waits for no session that its
//! job has left.

use std::time::Duration;

use tokio::sync::{SemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use crate::agent::{Hold, HoldError, InLine};
use crate::auth::Owner;
use crate::protocol::methods::cron::Payload;
use crate::sessions::SessionKey;
use crate::store::StoreError;

use super::ask::limit;
use super::claim;
use super::error::CronError;
use super::job::Job;
use super::outcome::Outcome;
use super::scheduler::Worker;
use super::service::Ticket;

/// Why a run does not begin whose job there is no more.
const GONE: &str = "skipped: its job was removed before it began";
/// Why one does not begin whose job is not to run any more.
const OFF: &str = "skipped: its job was turned off before it began";
/// What is told of one that did not get its session.
const BUSY: &str = "its session was busy for as long as the job may take; it has not begun";

/// A run that begins.
pub(super) struct Begun<'a> {
    /// With its job as it is now.
    pub ticket: Ticket,
    /// The session that it has waited for: the one that its job names, or else the one in
    /// which lists show it. None when no agent is asked.
    pub hold: Option<Hold>,
    /// Its place, which is free again once this is dropped.
    pub place: Option<SemaphorePermit<'a>>,
}

/// What a run waits for that asks an agent.
struct Wait {
    /// The session that its job names, or else the one in which lists show it.
    key: SessionKey,
    /// For how long: for the one in which lists show its job as long as it may take itself,
    /// for any other without end.
    longest: Option<Duration>,
    /// Whether its job names it, and who stops what runs there stops who waits for it.
    is_named: bool,
}

/// What has waited for its session, where it has one to wait for, and for its place.
type Admitted<'a> = (Option<Hold>, Option<SemaphorePermit<'a>>);

/// Why a run does not begin.
pub(super) enum NotBegun {
    /// The gateway stops.
    Stopping,
    /// Its job is due at another instant now, and this one there is no more.
    Moved,
    /// This is its end.
    Ended(Box<Outcome>),
}

impl Worker {
    /// Waits until a run may begin.
    pub(super) async fn admit(&self, ticket: &Ticket) -> Result<Begun<'_>, NotBegun> {
        let mut edits = self.cron.edits.subscribe();
        loop {
            let job = self.job_now(ticket).await?;
            let waited = self.wait_as(ticket, &job, &mut edits).await?;
            let Some((hold, place)) = waited else { continue };
            // Somebody may have changed it meanwhile.
            let job = self.job_now(ticket).await?;
            if hold.as_ref().map(Hold::key) == self.key_of(&job).as_ref() {
                return Ok(Begun { ticket: Ticket { job, ..ticket.clone() }, hold, place });
            }
        }
    }

    /// Waits until a request of another program may begin. It is in line for its session when
    /// others use that as well.
    pub(super) async fn admit_hook(&self, line: Option<InLine>) -> Result<Admitted<'_>, NotBegun> {
        let Some(line) = line else { return Ok((None, self.place().await?)) };
        let place = self.unless_stopped(&line, self.enter(&line, None)).await?;
        Ok((Some(line.hold().await), place))
    }

    /// Stands in line for the session of a request of another program, unless it has a run to
    /// itself, as one of hooks does: while there is one, the next takes another. `Err` when
    /// the gateway stops.
    pub(super) fn line_of_hook(
        &self,
        id: &str,
        key: &SessionKey,
    ) -> Result<Option<InLine>, HoldError> {
        let line = (!key.is_hook()).then(|| self.runs.line_up(key, Owner::gateway(), Some(id)));
        line.transpose()
    }

    /// Waits as a job does that is as it is now: for a place, and for its session if it asks
    /// an agent. Gives up when it is not to begin any more; `None` when it waits for what is
    /// not its session any more.
    async fn wait_as(
        &self,
        ticket: &Ticket,
        job: &Job,
        edits: &mut watch::Receiver<()>,
    ) -> Result<Option<Admitted<'_>>, NotBegun> {
        let Some(Wait { key, longest, is_named }) = self.session_of(job) else {
            return Ok(Some((None, self.place().await?)));
        };
        // The one in which lists show the job is not held for a run before that begins.
        let run_id = is_named.then(|| self.cron.parts.ids.uuid());
        let line = self.runs.line_up(&key, Owner::gateway(), run_id.as_deref());
        let line = line.map_err(|_| NotBegun::Stopping)?;
        let place = tokio::select! {
            biased;
            not = self.is_not_to_begin(ticket, &key, edits) => return not.map_or(Ok(None), Err),
            place = self.unless_stopped(&line, self.enter(&line, longest)) => place?,
        };
        Ok(Some((Some(line.hold().await), place)))
    }

    /// Waits for a place and for a session at once. Who waits for the session keeps no place
    /// meanwhile, and who waits for a place no session: what has the one may wait for the
    /// other, and what runs in the session may do so for as long as it likes.
    async fn enter(
        &self,
        line: &InLine,
        longest: Option<Duration>,
    ) -> Result<Option<SemaphorePermit<'_>>, NotBegun> {
        let busy = |_| self.not_set_up(BUSY);
        let mut since = None;
        loop {
            let place = self.cron.permits.acquire().await;
            if line.take() {
                return Ok(place);
            }
            drop(place);
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            match longest.map(|longest| longest.saturating_sub(waited)) {
                Some(left) => timeout(left, line.turn()).await.map_err(busy)?,
                None => line.turn().await,
            }
            if let Some(place) = self.cron.permits.try_acquire() {
                return Ok(Some(place));
            }
            line.step_back();
        }
    }

    /// What is waited for in line, unless the gateway stops, or somebody stops that.
    async fn unless_stopped<T>(
        &self,
        line: &InLine,
        waiting: impl Future<Output = Result<T, NotBegun>>,
    ) -> Result<T, NotBegun> {
        tokio::select! {
            biased;
            () = self.cron.stopped.cancelled() => Err(NotBegun::Stopping),
            reason = line.stopped() => {
                let stopped = Outcome::stopped(reason, self.cron.now_ms());
                Err(NotBegun::Ended(Box::new(stopped)))
            }
            waited = waiting => waited,
        }
    }

    /// Waits until the job of a run is changed so that the run does not begin; `None` when it
    /// is changed so that this is not the session to wait for.
    async fn is_not_to_begin(
        &self,
        ticket: &Ticket,
        key: &SessionKey,
        edits: &mut watch::Receiver<()>,
    ) -> Option<NotBegun> {
        loop {
            // The sender is there as long as the jobs are.
            let _ = edits.changed().await;
            match self.look_at(ticket).await {
                Ok(Ok(job)) if self.key_of(&job).as_ref() == Some(key) => {}
                Ok(Ok(_)) => return None,
                Ok(Err(not)) => return Some(not),
                // Any change of any job leads here, and it is looked at again before it begins.
                Err(error) => {
                    tracing::warn!(job = %ticket.job.id, %error, "job that waits not looked at");
                }
            }
        }
    }

    /// Waits for a place.
    async fn place(&self) -> Result<Option<SemaphorePermit<'_>>, NotBegun> {
        tokio::select! {
            biased;
            () = self.cron.stopped.cancelled() => Err(NotBegun::Stopping),
            // The semaphore is never closed.
            place = self.cron.permits.acquire() => Ok(place),
        }
    }

    /// The job of a run as it is now, when that is to begin. One that cannot be read is not.
    async fn job_now(&self, ticket: &Ticket) -> Result<Job, NotBegun> {
        let looked = self.look_at(ticket).await;
        looked.unwrap_or_else(|error| Err(self.not_set_up(&error.to_string())))
    }

    /// The job of a run as it is now, or why that is not to begin.
    async fn look_at(&self, ticket: &Ticket) -> Result<Result<Job, NotBegun>, CronError> {
        let skipped = |why| Ok(Err(NotBegun::Ended(Box::new(Outcome::skipped(why)))));
        if self.cron.is_stopped() {
            return Ok(Err(NotBegun::Stopping));
        }
        let job = match self.cron.job(&ticket.job.id).await {
            Err(CronError::Unknown(_)) => return skipped(GONE),
            read => read?.0,
        };
        // One that was off already is run because somebody wants that.
        if ticket.job.enabled && !job.enabled {
            return skipped(OFF);
        }
        let is_moved = self.is_moved(ticket, &job).await?;
        Ok(if is_moved { Err(NotBegun::Moved) } else { Ok(job) })
    }

    /// Gives up the run of a single instant that somebody has moved while it waited;
    /// whether that was so. One that was asked for begins all the same.
    async fn is_moved(&self, ticket: &Ticket, job: &Job) -> Result<bool, StoreError> {
        if ticket.run_id.is_some() || job.schedule == ticket.job.schedule {
            return Ok(false);
        }
        let (of_ticket, id) = (ticket.clone(), &ticket.job.id);
        let edited = self.cron.edit(id, move |row| claim::moved(row, &of_ticket)).await?;
        if edited.is_some() {
            self.cron.tell_now(id, "updated", None).await;
            // At last: whoever is not waited for to here gives it up once more.
            self.cron.release(id);
        }
        Ok(edited.is_some())
    }

    /// The session that a run waits for, unless it asks no agent.
    fn key_of(&self, job: &Job) -> Option<SessionKey> {
        self.session_of(job).map(|wait| wait.key)
    }

    /// What a run waits for, unless it asks no agent.
    fn session_of(&self, job: &Job) -> Option<Wait> {
        let Payload::AgentTurn(turn) = &job.payload else { return None };
        if let Some(key) = self.cron.named_session(job) {
            return Some(Wait { key, longest: None, is_named: true });
        }
        let agents = &self.runs.parts().settings.now().agents;
        let of_agents = Duration::from_secs(agents.defaults.timeout_seconds);
        let longest = Some(limit(turn).map_or(of_agents, |limit| limit.min(of_agents)));
        let key = SessionKey::job(&self.cron.agent_of(job), &job.id);
        Some(Wait { key, longest, is_named: false })
    }

    fn not_set_up(&self, error: &str) -> NotBegun {
        NotBegun::Ended(Box::new(Outcome::failed(error, "cron-setup", self.cron.now_ms())))
    }
}
