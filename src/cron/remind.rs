//! A job that tells a session something.
//!
//! Promises: that answers at once, or at its next turn, as the job has it; where nobody can
//! hear that, the log and the run say so.

use crate::protocol::methods::cron::{DeliveryMode, WakeMode};
use crate::sessions::{KeyRules, SessionKey};
use crate::store::Teller;

use super::job::Job;
use super::outcome::Outcome;
use super::scheduler::Worker;
use super::service::Ticket;
use super::target::{Wanted, home_of};

/// The session that a job was made in, if it reminds there at once: as long as that is one
/// that people read. In any other way it reminds in the main session.
pub(super) fn own_session(job: &Job, rules: &KeyRules) -> Option<SessionKey> {
    let home = home_of(job, rules);
    let is_read = !home.is_job() && !home.is_spawned() && !home.is_hook();
    (job.wake_mode == WakeMode::Now && is_read).then_some(home)
}

impl Worker {
    /// Where a job reminds of something.
    async fn reminded_in(&self, job: &Job) -> SessionKey {
        let rules = self.cron.parts.keys.now();
        if let Some(own) = own_session(job, &rules)
            && !matches!(self.cron.parts.sessions.entry(&own).await, Ok(None))
        {
            return own;
        }
        SessionKey::main(&self.cron.agent_of(job), &rules)
    }

    /// Tells a session something: it answers at once, or at its next turn, as the job has
    /// it. A web server that is to hear of the job is told what the session was.
    pub(super) async fn remind(&self, ticket: &Ticket, text: &str) -> Outcome {
        let job = &ticket.job;
        let home = self.reminded_in(job).await;
        // Only the owner makes jobs.
        if let Err(error) = self.runs.parts().remind(&home, text, Teller::Owner).await {
            return Outcome::failed(&error.to_string(), "cron-setup", self.cron.now_ms());
        }
        // A web server may be slow.
        if job.wake_mode == WakeMode::Now {
            // The session may be that of another agent, which answers there.
            let agent = if home.names_agent() {
                home.agent(&self.cron.parts.keys.now())
            } else {
                self.cron.agent_of(job)
            };
            self.cron.heartbeats.remind(agent.as_str(), home.clone());
        }
        let mut outcome = Outcome::ok(text);
        let delivery = job.delivery.clone().unwrap_or_default();
        if delivery.mode() == DeliveryMode::Webhook && outcome.summary.is_some() {
            self.deliver(ticket, &Wanted::of(&delivery), &mut outcome, text, &[]).await;
        } else if job.wake_mode == WakeMode::Now {
            self.note_unheard(job, &home, &mut outcome).await;
        }
        outcome
    }
}
