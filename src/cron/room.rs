//! The session that a run of a job or of a hook takes place in.
//!
//! Promises: while a run has a session of its own, the session in which lists show its job
//! is held for it; what is set on that holds in the run.

use crate::agent::approvals::ExecWords;
use crate::agent::{Hold, RunEnd, RunTerms};
use crate::sessions::{SessionEntry, SessionError, SessionKey};

use super::job::Job;
use super::scheduler::Worker;
use super::service::{Cron, Ticket};

/// The session of a run.
pub(super) struct Room {
    /// Its key.
    pub key: SessionKey,
    /// Its lane, until the run is in it; `None` where nobody else is.
    pub lane: Option<Hold>,
    /// The session in which lists show the job. It has the transcript of the run, so
    /// nothing else runs there meanwhile; who stops it stops the run.
    pub row: Option<Hold>,
}

impl Cron {
    /// The session that a job names for its runs; `None` when each has one of its own.
    pub(super) fn named_session(&self, job: &Job) -> Option<SessionKey> {
        let written = job.session_target.strip_prefix("session:")?;
        Some(SessionKey::parse_for(written, &self.agent_of(job), &self.parts.keys.now()))
    }
}

impl Worker {
    /// The session that a run takes place in, which begins with it unless the
    /// job names one. `hold` is what the run has waited for: the lane of that, or of the
    /// session of the job.
    pub(super) async fn room(
        &self,
        ticket: &Ticket,
        run_id: &str,
        terms: &RunTerms,
        hold: Option<Hold>,
    ) -> Result<Room, SessionError> {
        if let Some(hold) = &hold {
            hold.stand_for(run_id);
        }
        let (job, parts) = (&ticket.job, self.runs.parts());
        if let Some(key) = self.cron.named_session(job) {
            let workspace = parts.agent_of(&key).workspace;
            if parts.sessions.entry(&key).await?.is_none() {
                parts.sessions.begin_as(&key, run_id, &workspace, |_| {}).await?;
            }
            return Ok(Room { key, lane: hold, row: None });
        }
        let agent = self.cron.agent_of(job);
        let base = SessionKey::job(&agent, &job.id);
        let set = parts.sessions.entry(&base).await?.unwrap_or_default();
        let key = SessionKey::job_run(&agent, &job.id, run_id);
        let workspace = parts.agent_of(&key).workspace;
        let (limits, commands) = (terms.tools.clone(), self.commands(ticket));
        let name = format!("Cron: {}", job.name);
        let of_run = name.clone();
        let begun = parts.sessions.begin_as(&key, run_id, &workspace, move |entry| {
            inherit(entry, set, commands);
            // Sub-agents have no tool that this run has not.
            entry.tool_limits = limits;
            entry.display_name = Some(of_run);
        });
        let begun = begun.await?;
        let shown = parts.sessions.follow(&base, &begun, &name).await?;
        parts.events.reason(&base, Some(&shown), "create", true);
        Ok(Room { key, lane: None, row: hold })
    }

    /// What binds the commands of a run: what bound those of the session that made
    /// its job, and another agent's rules where that is of another one.
    fn commands(&self, ticket: &Ticket) -> ExecWords {
        let Some(origin) = &ticket.origin else { return ExecWords::default() };
        let parts = self.runs.parts();
        let maker = SessionKey::from_canonical(origin.session_key.as_str());
        let maker = maker.agent(&parts.keys.now());
        let words = origin.commands.clone();
        if maker == self.cron.agent_of(&ticket.job) {
            return words;
        }
        words.and(ExecWords::of_agent(&parts.settings.now(), maker.as_str()))
    }

    /// Lists show how the run ended, and the session of its job goes on; answers the id
    /// of the run's.
    pub(super) async fn close(&self, room: Room, end: RunEnd) -> Option<String> {
        let ended = self.runs.parts().sessions.entry(&room.key).await.ok().flatten()?;
        let id = ended.session_id.clone();
        if let Some(row) = room.row {
            self.runs.leave_row(row, ended, end).await;
        }
        Some(id)
    }
}

/// What somebody has set on the session of a job holds in its runs, of rules for commands
/// the stricter.
fn inherit(entry: &mut SessionEntry, set: SessionEntry, commands: ExecWords) {
    let of_base = ExecWords {
        security: set.exec_security,
        ask: set.exec_ask,
        host: set.exec_host,
        node: set.exec_node,
    };
    commands.and(of_base).write(entry);
    entry.thinking_level = set.thinking_level;
    entry.verbose_level = set.verbose_level;
    entry.trace_level = set.trace_level;
    entry.reasoning_level = set.reasoning_level;
    entry.elevated_level = set.elevated_level;
    entry.fast_mode = set.fast_mode;
    entry.response_usage = set.response_usage;
    entry.permission_mode = set.permission_mode;
    entry.extra_system_prompt = set.extra_system_prompt;
    entry.provider_override = set.provider_override;
    entry.model_override = set.model_override;
    entry.model_override_source = set.model_override_source;
}
