//! The way of a run to its beginning: its place, and the session of its job.
//!
//! Promises: a run that waits for its session keeps no place that another could have; one
//! that waits when the gateway stops does not begin; a run begins with its job as it is by
//! then.

use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::agent::Hold;
use crate::auth::Owner;
use crate::protocol::methods::cron::Payload;
use crate::sessions::SessionKey;

use super::error::CronError;
use super::execute::limit;
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
    /// The session in which lists show the job, if the run is to have one of its own.
    pub base: Option<Hold>,
    /// Its place, which is free again once this is dropped.
    pub place: Option<SemaphorePermit<'a>>,
}

/// Why a run does not begin.
pub(super) enum NotBegun {
    /// The gateway stops.
    Stopping,
    /// This is its end.
    Ended(Box<Outcome>),
}

impl Worker {
    /// Waits until a run may begin.
    pub(super) async fn admit(&self, ticket: &Ticket) -> Result<Begun<'_>, NotBegun> {
        let mut since = None;
        loop {
            let place = tokio::select! {
                biased;
                () = self.cron.stopped.cancelled() => return Err(NotBegun::Stopping),
                // The semaphore is never closed.
                place = self.cron.permits.acquire() => place,
            };
            let job = self.job_now(ticket).await?;
            if self.cron.is_stopped() {
                return Err(NotBegun::Stopping);
            }
            let Some((key, longest)) = self.own_session(&job) else {
                return Ok(Begun { ticket: Ticket { job, ..ticket.clone() }, base: None, place });
            };
            let held = self.runs.hold_if_free(&key, Owner::gateway()).await;
            if let Some(hold) = held.map_err(|_| NotBegun::Stopping)? {
                let ticket = Ticket { job, ..ticket.clone() };
                return Ok(Begun { ticket, base: Some(hold), place });
            }
            // What has the session may itself wait for a place, as a run of a hook does.
            drop(place);
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            self.wait_for(&key, longest.saturating_sub(waited)).await?;
        }
    }

    /// The job of a run as it is now.
    async fn job_now(&self, ticket: &Ticket) -> Result<Job, NotBegun> {
        let ended = |outcome| Err(NotBegun::Ended(Box::new(outcome)));
        match self.cron.job(&ticket.job.id).await {
            // One that was off already is run because somebody wants that.
            Ok((job, _)) if ticket.job.enabled && !job.enabled => ended(Outcome::skipped(OFF)),
            Ok((job, _)) => Ok(job),
            Err(CronError::Unknown(_)) => ended(Outcome::skipped(GONE)),
            Err(error) => ended(self.not_set_up(&error.to_string())),
        }
    }

    /// The session in which lists show a job whose runs have sessions of their own, and how
    /// long a run may wait for it: as long as it may take.
    fn own_session(&self, job: &Job) -> Option<(SessionKey, Duration)> {
        let Payload::AgentTurn(turn) = &job.payload else { return None };
        if job.session_target.starts_with("session:") {
            return None;
        }
        let agents = &self.runs.parts().settings.now().agents;
        let of_agents = Duration::from_secs(agents.defaults.timeout_seconds);
        let key = SessionKey::job(&self.cron.agent_of(job), &job.id);
        Some((key, limit(turn).map_or(of_agents, |limit| limit.min(of_agents))))
    }

    /// Waits until what runs in a session has ended.
    async fn wait_for(&self, key: &SessionKey, longest: Duration) -> Result<(), NotBegun> {
        tokio::select! {
            biased;
            () = self.cron.stopped.cancelled() => Err(NotBegun::Stopping),
            ended = timeout(longest, self.runs.active_ends(key)) => {
                ended.map_err(|_| NotBegun::Ended(Box::new(self.not_set_up(BUSY))))
            }
        }
    }

    fn not_set_up(&self, error: &str) -> Outcome {
        Outcome::failed(error, "cron-setup", self.cron.now_ms())
    }
}
