//! A run of a job, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::agent::approvals::ExecWords;
use crate::agent::{AbortReason, Family, Hold, RunEnd, RunReport, RunTerms, SendRequest};
use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::protocol::methods::cron::{AgentTurn, DeliveryMode, Payload, WakeMode};
use crate::providers::ThinkingLevel;
use crate::sessions::{JOB_KIND, SessionEntry, SessionError, SessionKey};
use crate::store::StoreError;
use crate::support::json;
use crate::telemetry::metrics::NUMBERS;

use super::admission::{Begun, NotBegun};
use super::alert::Failure;
use super::claim;
use super::job::Job;
use super::outcome::Outcome;
use super::retry;
use super::scheduler::Worker;
use super::service::Ticket;
use super::target::Wanted;
use super::texts;

/// A run that says nothing else is stopped after so long: one that hangs must
/// not keep its job from running for days.
pub(super) const USUAL_LIMIT: Duration = Duration::from_hours(1);
/// Longest time that a job may ask for.
const LIMIT_MAX_SECONDS: f64 = 7.0 * 86_400.0;
/// Why a run does not begin that somebody asked for before the gateway stopped.
const STOPPED: &str = "skipped: the gateway stopped before it began";
/// What is told of a run that took too long, in the words of the original.
const TIMED_OUT: &str = "cron: job execution timed out";

/// The session of a run.
pub(super) struct Room {
    /// Its key.
    pub key: SessionKey,
    /// The session in which lists show the job. It has the transcript of the run, so
    /// nothing else runs there meanwhile; who stops it stops the run.
    pub base: Option<Hold>,
}

impl Worker {
    /// Runs a job whose row is written, to its end.
    pub(super) async fn run(self: &Arc<Self>, ticket: &Ticket) {
        let outcome = match Box::pin(self.admit(ticket)).await {
            Ok(begun) => self.perform(begun).await,
            Err(NotBegun::Stopping) => {
                if self.put_back(ticket).await {
                    return;
                }
                Outcome::skipped(STOPPED)
            }
            Err(NotBegun::Ended(outcome)) => *outcome,
        };
        self.skip_passed(&ticket.job.id).await;
        self.finish(ticket, &outcome).await;
        self.sweep().await;
    }

    /// Does what a job wants.
    async fn perform(self: &Arc<Self>, begun: Begun<'_>) -> Outcome {
        let Begun { ticket, base, place: _place } = begun;
        let job = &ticket.job;
        self.cron.tell("started", job, &json!({"runAtMs": ticket.started_at}));
        // It may have been removed since the job was made.
        let agent = self.cron.check_agent(job.agent_id.as_deref());
        match (agent, &job.payload) {
            (Err(error), _) => {
                Outcome::failed(&error.to_string(), "cron-setup", self.cron.now_ms())
            }
            (Ok(()), Payload::SystemEvent { text }) => Box::pin(self.remind(&ticket, text)).await,
            (Ok(()), Payload::AgentTurn(turn)) => {
                Box::pin(self.ask_agent(&ticket, turn, base)).await
            }
        }
    }

    /// Leaves a run that has not begun to the next process; `false` when it is not
    /// one of an instant, which would come again.
    async fn put_back(&self, ticket: &Ticket) -> bool {
        let (of_ticket, id) = (ticket.clone(), &ticket.job.id);
        let edited = self.cron.edit(id, move |row| claim::put_back(row, &of_ticket)).await;
        let is_back = edited.as_ref().is_ok_and(Option::is_some);
        if let Err(error) = edited {
            tracing::error!(job = %id, %error, "run of a job not left to the next start");
        }
        if is_back {
            self.cron.release(id);
        }
        is_back
    }

    /// Writes down how a run ended, and tells of it.
    pub(super) async fn finish(&self, ticket: &Ticket, outcome: &Outcome) {
        NUMBERS.cron.count(outcome.status);
        let now = self.cron.now_ms();
        let (sender, mut told) = tokio::sync::oneshot::channel();
        let (of_end, of_ticket) = (outcome.clone(), ticket.clone());
        let retry = self.cron.parts.settings.now().cron.retry.clone();
        let edited = self.cron.edit(&ticket.job.id, move |row| {
            let ended = of_end.change(row, &of_ticket, &retry, now)?;
            let change = ended.change.clone();
            // The receiver waits for the commit.
            let _ = sender.send(ended);
            Some(change)
        });
        let store = &self.cron.parts.store;
        let edited = edited.await;
        // Whoever hears of the end may run it again, and it may be due.
        self.cron.release(&ticket.job.id);
        self.cron.changed.notify_one();
        let written = match edited {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                // Somebody has removed it meanwhile.
                let entry = outcome.entry(ticket, now, None);
                self.cron.tell_finished(&ticket.job, &entry);
                store.end_cron_run(outcome.row(ticket, &entry, now)).await.map(drop)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(job = %ticket.job.id, %error,
                "end of a run not written; the next start tells that it was interrupted");
            return;
        }
        if let Ok(ended) = told.try_recv() {
            self.cron.tell_finished(&ended.job, &ended.entry);
            if ended.goes {
                self.cron.tell("removed", &ended.job, &Value::Null);
            }
            if let Some(error) = outcome.error.as_ref().filter(|_| outcome.status == "error") {
                let (job, origin) = (&ended.job, ticket.origin.as_ref());
                self.alert(Failure { job, origin, error, row_id: &ticket.row_id }).await;
            }
        }
        self.cron.prune(&ticket.job.id).await;
    }

    /// Where a job reminds of something: at once in the session that it was made in,
    /// as long as there is one that people read, and otherwise in the main session.
    async fn reminded_in(&self, job: &Job) -> SessionKey {
        let home = self.cron.home_of(job);
        let is_read = !home.is_job() && !home.is_spawned() && !home.is_hook();
        if job.wake_mode == WakeMode::Now
            && is_read
            && !matches!(self.cron.parts.sessions.entry(&home).await, Ok(None))
        {
            return home;
        }
        SessionKey::main(&self.cron.agent_of(job), &self.cron.parts.keys.now())
    }

    /// Tells a session something: it answers at once, or at its next turn, as the job has
    /// it. A web server that is to hear of the job is told what the session was.
    async fn remind(&self, ticket: &Ticket, text: &str) -> Outcome {
        let job = &ticket.job;
        let home = self.reminded_in(job).await;
        if let Err(error) = self.runs.parts().remind(&home, text).await {
            return Outcome::failed(&error.to_string(), "cron-setup", self.cron.now_ms());
        }
        // A web server may be slow.
        if job.wake_mode == WakeMode::Now {
            self.cron.heartbeats.remind(self.cron.agent_of(job).as_str(), home);
        }
        let mut outcome = Outcome::ok(text);
        let delivery = job.delivery.clone().unwrap_or_default();
        if delivery.mode() == DeliveryMode::Webhook && outcome.summary.is_some() {
            self.deliver(ticket, &Wanted::of(&delivery), &mut outcome, text, &[]).await;
        }
        outcome
    }

    /// Asks an agent, and delivers its answer.
    async fn ask_agent(
        self: &Arc<Self>,
        ticket: &Ticket,
        turn: &AgentTurn,
        hold: Option<Hold>,
    ) -> Outcome {
        let now = self.cron.now_ms();
        let run_id = self.cron.parts.ids.uuid();
        let terms = terms(ticket, turn);
        let room = match self.room(ticket, &run_id, &terms, hold).await {
            Ok(room) => room,
            Err(error) => return Outcome::failed(&error.to_string(), "cron-setup", now),
        };
        let request = self.request(ticket, turn, &room, &run_id, terms);
        let wanted = Wanted::of(&ticket.job.delivery.clone().unwrap_or_default());
        self.ask(ticket, room, request, &wanted).await
    }

    /// Runs what is asked in a session, to its end, and delivers the answer.
    pub(super) async fn ask(
        &self,
        ticket: &Ticket,
        room: Room,
        request: SendRequest,
        wanted: &Wanted,
    ) -> Outcome {
        let run_id = request.idempotency_key.clone();
        let sent = self.runs.send(request).await;
        let report = match sent {
            // The run begins as its start goes.
            Ok((_, start)) => {
                drop(start);
                self.end_of(&run_id, &room).await.map_err(|it| it.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let now = self.cron.now_ms();
        let mut outcome = match &report {
            Ok(report) => of_report(report, now),
            Err(error) => Outcome::failed(error, "agent-run", now),
        };
        outcome.session_key = Some(room.key.to_string());
        let end = match &report {
            Ok(report) => report.end.clone(),
            Err(error) => RunEnd::Failed(error.clone()),
        };
        outcome.session_id = self.close(room, end).await;
        if outcome.status == "ok" {
            let said = report.map(|report| report.progress.clone()).unwrap_or_default();
            self.deliver(ticket, wanted, &mut outcome, &said.text, &said.files).await;
        }
        outcome
    }

    /// How a run ends. It is stopped when somebody stops the session of its job.
    async fn end_of(&self, run_id: &str, room: &Room) -> Result<Arc<RunReport>, StoreError> {
        let mut ends = std::pin::pin!(self.runs.ends(Some(Family::Agent), run_id));
        if let Some(base) = &room.base {
            let reason = tokio::select! {
                biased;
                ended = &mut ends => return ended,
                reason = base.stopped() => reason,
            };
            // A stop of the gateway stops the run itself, and leaves its sub-agents to the
            // next process.
            if reason != AbortReason::Shutdown
                && let Err(error) = self.runs.interrupt(&room.key, reason).await
            {
                tracing::warn!(session = %room.key, %error, "run of a job is waited for");
            }
        }
        ends.await
    }

    fn request(
        &self,
        ticket: &Ticket,
        turn: &AgentTurn,
        room: &Room,
        run_id: &str,
        terms: RunTerms,
    ) -> SendRequest {
        let now = self.cron.now_ms();
        let zone = self.cron.zone();
        let text = texts::turn(&ticket.job, turn, &zone, now);
        let mut message = UserMessage::text(text, now);
        let provenance = json!({"kind": JOB_KIND, "jobId": ticket.job.id});
        message.extra.insert("provenance".into(), provenance);
        SendRequest {
            family: Family::Agent,
            key: room.key.clone(),
            written_key: room.key.to_string(),
            idempotency_key: run_id.to_owned(),
            message,
            media: None,
            thinking: turn.thinking.as_deref().and_then(ThinkingLevel::meant_by),
            owner: Owner::gateway(),
            dedupe_text: None,
            limit: limit(turn),
            terms,
        }
    }

    /// The session that a run takes place in, which begins with it unless the
    /// job names one.
    async fn room(
        &self,
        ticket: &Ticket,
        run_id: &str,
        terms: &RunTerms,
        hold: Option<Hold>,
    ) -> Result<Room, SessionError> {
        let (job, parts) = (&ticket.job, self.runs.parts());
        let agent = self.cron.agent_of(job);
        if let Some(written) = job.session_target.strip_prefix("session:") {
            let key = SessionKey::parse_for(written, &agent, &parts.keys.now());
            let workspace = parts.agent_of(&key).workspace;
            if parts.sessions.entry(&key).await?.is_none() {
                parts.sessions.begin_as(&key, run_id, &workspace, |_| {}).await?;
            }
            return Ok(Room { key, base: None });
        }
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
        Ok(Room { key, base: hold })
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
    async fn close(&self, room: Room, end: RunEnd) -> Option<String> {
        let parts = self.runs.parts();
        let ended = parts.sessions.entry(&room.key).await.ok().flatten()?;
        let id = ended.session_id.clone();
        if let Some(hold) = room.base {
            let base = hold.key().clone();
            let closed = parts.sessions.follow_to_end(&base, ended).await;
            hold.end(end).await;
            match closed {
                Ok(shown) => {
                    let has_active_run = self.runs.active(&base).is_some();
                    parts.events.reason(&base, Some(&shown), "patch", has_active_run);
                }
                // Somebody has deleted it meanwhile.
                Err(SessionError::NotFound(_)) => {}
                Err(error) => tracing::warn!(session = %base, %error, "session not updated"),
            }
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

/// What a run may do: the job's tools of those that whoever made it had.
fn terms(ticket: &Ticket, turn: &AgentTurn) -> RunTerms {
    let own = turn.tools_allow.iter().cloned();
    let origin = ticket.origin.iter().filter_map(|origin| origin.tools.clone());
    RunTerms {
        is_owner: true,
        is_heartbeat: false,
        model: turn.model.clone().filter(|model| !model.trim().is_empty()),
        fallbacks: turn.fallbacks.clone(),
        is_light: turn.light_context == Some(true),
        tools: own.chain(origin).collect(),
        ..RunTerms::default()
    }
}

/// How long a run may take; `None` when that is left to the agents.
pub(super) fn limit(turn: &AgentTurn) -> Option<Duration> {
    let Some(seconds) = turn.timeout_seconds.as_ref().and_then(Value::as_f64) else {
        return Some(USUAL_LIMIT);
    };
    let time = Duration::try_from_secs_f64(seconds.min(LIMIT_MAX_SECONDS)).unwrap_or_default();
    (time > Duration::ZERO).then_some(time)
}

fn of_report(report: &RunReport, now: u64) -> Outcome {
    let mut outcome = Outcome::ok(&report.progress.text);
    match &report.end {
        RunEnd::Answered => {}
        RunEnd::Failed(message) => {
            let error = report.failure().unwrap_or_else(|| message.clone());
            outcome.fail(&error, message, "agent-run", now);
            outcome.passing = report.progress.passing.and_then(retry::kind);
        }
        RunEnd::Aborted(AbortReason::Timeout) => {
            outcome.fail(TIMED_OUT, TIMED_OUT, "agent-run", now);
        }
        RunEnd::Aborted(AbortReason::Shutdown) => {
            let error = "stopped with the gateway";
            outcome.fail(error, error, "agent-run", now);
        }
        RunEnd::Aborted(_) => {
            outcome.fail("somebody stopped it", "somebody stopped it", "agent-run", now);
        }
    }
    if outcome.status == "error" && report.progress.text.trim().is_empty() {
        outcome.summary = None;
    }
    if let Some(answer) = &report.progress.answer {
        let used = &answer.used;
        outcome.model = Some(answer.model.clone());
        outcome.provider = Some(answer.provider.clone());
        let read = used.input + used.cache_read + used.cache_write;
        outcome.usage = Some(json!({"input_tokens": read, "output_tokens": used.output,
            "total_tokens": used.total_tokens}));
    }
    outcome
}
