//! How a run of a job ended, and what becomes of the job.

use serde_json::Value;

use crate::agent::{AbortReason, RunEnd, RunReport};
use crate::config::{CronRetryOn, CronRetrySettings};
use crate::store::{CronChange, CronJobChange, CronJobRow, CronRunRow};
use crate::support::{json, without_nulls};

use super::job::Job;
use super::retry;
use super::run_log::{NOT_REQUESTED, row_id};
use super::schedule::Timing;
use super::service::Ticket;

/// Most characters of an answer that the log keeps; the transcript has all.
const SUMMARY_MAX: usize = 2000;

/// What is told of a run that took too long, in the words of the original.
const TIMED_OUT: &str = "cron: job execution timed out";

/// `status` of a run that did not begin.
const SKIPPED: &str = "skipped";

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// `ok`, `error`, or `skipped` when it did not begin.
    pub status: &'static str,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether the gateway has ended it, which says nothing of the job.
    pub is_cut: bool,
    /// The failure, when it may pass.
    pub passing: Option<CronRetryOn>,
    /// What it said.
    pub summary: Option<String>,
    /// What went wrong, step by step.
    pub diagnostics: Option<Value>,
    /// What was to be told to whom, and whether it was.
    pub delivery: Option<Value>,
    /// `delivered`, `not-delivered`, `unknown` or `not-requested`.
    pub delivery_status: &'static str,
    /// Why it was not.
    pub delivery_error: Option<String>,
    /// The session that it ran in.
    pub session_id: Option<String>,
    /// The key of that.
    pub session_key: Option<String>,
    /// Who answered.
    pub provider: Option<String>,
    /// With which model.
    pub model: Option<String>,
    /// What that took.
    pub usage: Option<Value>,
}

impl Outcome {
    /// One that went well.
    pub fn ok(summary: &str) -> Self {
        let summary = summary.trim();
        Self {
            status: "ok",
            error: None,
            is_cut: false,
            passing: None,
            summary: (!summary.is_empty()).then(|| summary.chars().take(SUMMARY_MAX).collect()),
            diagnostics: None,
            delivery: None,
            delivery_status: NOT_REQUESTED,
            delivery_error: None,
            session_id: None,
            session_key: None,
            provider: None,
            model: None,
            usage: None,
        }
    }

    /// One that failed; `source` is the step.
    pub fn failed(error: &str, source: &str, now: u64) -> Self {
        let mut outcome = Self::ok("");
        outcome.fail(error, error, source, now);
        outcome
    }

    /// That of a run of an agent.
    pub fn of_report(report: &RunReport, now: u64) -> Self {
        let mut outcome = Self::ok(&report.progress.paragraphs());
        match &report.end {
            RunEnd::Answered => {}
            RunEnd::Failed(message) => {
                let error = report.failure().unwrap_or_else(|| message.clone());
                outcome.fail(&error, message, "agent-run", now);
                outcome.passing = report.progress.passing.and_then(retry::kind);
            }
            RunEnd::Aborted(reason) => outcome.stop(*reason, now),
        }
        if outcome.status == "error" && report.progress.shown().trim().is_empty() {
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

    /// One that was stopped before its agent was asked.
    pub fn stopped(reason: AbortReason, now: u64) -> Self {
        let mut outcome = Self::ok("");
        outcome.stop(reason, now);
        outcome
    }

    fn stop(&mut self, reason: AbortReason, now: u64) {
        let error = match reason {
            AbortReason::Timeout => TIMED_OUT,
            AbortReason::Shutdown => "stopped with the gateway",
            AbortReason::Rpc | AbortReason::Stop | AbortReason::Interrupt => "somebody stopped it",
        };
        self.fail(error, error, "agent-run", now);
        self.is_cut = reason == AbortReason::Shutdown;
    }

    /// One that did not begin, and was not to.
    pub fn skipped(why: &str) -> Self {
        Self { status: SKIPPED, error: Some(why.to_owned()), ..Self::ok("") }
    }

    /// It has failed after all.
    pub fn fail(&mut self, error: &str, message: &str, source: &str, now: u64) {
        self.status = "error";
        self.error = Some(error.to_owned());
        self.diagnostics = Some(json!({"summary": message, "entries": [
            {"ts": now, "source": source, "severity": "error", "message": message}]}));
    }

    /// The entry of the log.
    pub fn entry(&self, ticket: &Ticket, now: u64, next: Option<u64>) -> Value {
        let delivered = self.delivery.as_ref().and_then(|it| it.get("delivered")).cloned();
        // Nobody knows, where there was no way.
        let delivered = delivered.filter(|_| self.delivery_status != "unknown");
        without_nulls(json!({
            "ts": now,
            "jobId": ticket.job.id,
            "action": "finished",
            "status": self.status,
            "error": self.error,
            "summary": self.summary,
            "runId": ticket.run_id,
            "diagnostics": self.diagnostics,
            "runAtMs": ticket.started_at,
            "durationMs": now.saturating_sub(ticket.started_at),
            "nextRunAtMs": next,
            "model": self.model,
            "provider": self.provider,
            "usage": self.usage,
            "delivered": delivered,
            "deliveryStatus": self.delivery_status,
            "deliveryError": self.delivery_error,
            "delivery": self.delivery,
            "sessionId": self.session_id,
            "sessionKey": self.session_key,
            "jobName": ticket.job.name,
        }))
    }

    /// The job after this run: as it is now in the database, with this end. The
    /// second says whether it goes.
    fn of_job(
        &self,
        row: &CronJobRow,
        ticket: &Ticket,
        retry: &CronRetrySettings,
        now: u64,
    ) -> Option<(Job, bool)> {
        let mut job = Job::of_row(row).ok()?;
        let is_as_begun = job.schedule == ticket.job.schedule;
        let is_once = job.timing().is_ok_and(|timing| timing.is_once());
        let skipped = job.state.consecutive_skipped.unwrap_or_default();
        if self.status == SKIPPED {
            // Neither a failure nor a run: its instants stay as they are. A single one has its
            // row, and does not come again.
            if is_once && is_as_begun && ticket.row_id == row_id(&job.id, ticket.instant) {
                job.state.consecutive_skipped = Some(skipped.saturating_add(1));
            }
            job.updated_at_ms = now;
            job.state.running_at_ms = None;
            job.state.last_run_status = Some(SKIPPED.into());
            job.state.last_status = Some(SKIPPED.into());
            job.state.last_error.clone_from(&self.error);
            return Some((job, false));
        }
        let is_ok = self.status == "ok";
        // Somebody may have given it another instant while it ran.
        let is_over = row.due_at.is_none() || (is_ok && ticket.run_id.is_some() && is_as_begun);
        // What nobody has heard stays, to be found.
        let is_lost = self.delivery_status == "not-delivered" && !ticket.job.is_best_effort();
        let goes = is_ok && is_over && !is_lost && job.is_temporary();
        let errors = job.state.consecutive_errors.unwrap_or_default();
        let errors = match (is_ok, is_once && !is_as_begun) {
            (true, _) => 0,
            // Of an instant that there is no more; the new one has all its tries.
            (false, true) => errors,
            (false, false) => errors.saturating_add(1),
        };
        job.updated_at_ms = now;
        // A single instant that has passed does not come again, but for a
        // failure that may pass.
        if is_once && !goes && is_over {
            let again = retry::next_try(retry, self.passing, errors, now);
            job.state.next_run_at_ms = again.filter(|_| job.enabled);
            job.enabled = job.state.next_run_at_ms.is_some();
        }
        let state = &mut job.state;
        state.running_at_ms = None;
        state.last_error.clone_from(&self.error);
        state.last_run_at_ms = Some(ticket.started_at);
        state.last_run_status = Some(self.status.into());
        state.last_status = Some(self.status.into());
        state.last_duration_ms = Some(now.saturating_sub(ticket.started_at));
        state.last_diagnostics.clone_from(&self.diagnostics);
        let summary = self.diagnostics.as_ref().and_then(|it| it["summary"].as_str());
        state.last_diagnostic_summary = summary.map(str::to_owned);
        state.last_delivery_status = Some(self.delivery_status.into());
        state.last_delivery_error.clone_from(&self.delivery_error);
        state.last_delivered = match self.delivery_status {
            "delivered" => Some(true),
            "not-delivered" => Some(false),
            _ => None,
        };
        state.consecutive_errors = Some(errors);
        // The failures after this are news again.
        state.last_failure_alert_at_ms = state.last_failure_alert_at_ms.filter(|_| !is_ok);
        // A single instant that came during a run that somebody asked for stays skipped.
        state.consecutive_skipped = Some(if is_once { skipped } else { 0 });
        Some((job, goes))
    }

    /// When a job that comes again is due after this run, as it would be at `due` without it. One
    /// that fails rests; one that runs well after that is as its schedule says again.
    fn due_again(&self, timing: &Timing, ticket: &Ticket, job: &Job, due: u64, now: u64) -> u64 {
        // What has come meanwhile is looked at, and has its row.
        if due <= now || self.is_cut {
            return due;
        }
        match self.status {
            "error" => {
                let rested = retry::rests_until(&job.state, now);
                let next = timing.next_after(rested.saturating_sub(1));
                next.map_or(due, |next| next.max(due))
            }
            "ok" if ticket.job.state.consecutive_errors > Some(0) => {
                timing.next_after(now).map_or(due, |next| next.min(due))
            }
            _ => due,
        }
    }

    /// What is written down of the end of a run.
    pub fn change(
        &self,
        row: &CronJobRow,
        ticket: &Ticket,
        retry: &CronRetrySettings,
        now: u64,
    ) -> Option<Ended> {
        let (mut job, goes) = self.of_job(row, ticket, retry, now)?;
        let due_at = match job.timing() {
            Ok(timing) if timing.is_once() => row.due_at.or(job.state.next_run_at_ms),
            Ok(timing) if job.schedule == ticket.job.schedule => {
                row.due_at.map(|due| self.due_again(&timing, ticket, &job, due, now))
            }
            _ => row.due_at,
        };
        let due_at = due_at.filter(|_| job.enabled);
        if due_at.is_some() && due_at != row.due_at {
            job.state.next_run_at_ms = due_at;
        }
        let entry = self.entry(ticket, now, job.state.next_run_at_ms);
        let put = CronJobChange::Put(job.to_row(due_at, row.origin.clone()));
        let changed = vec![self.row(ticket, &entry, now)];
        let change = if goes { CronJobChange::Remove } else { put };
        let change = CronChange { changed, ..CronChange::of_job(change) };
        Some(Ended { change, job, entry, goes })
    }

    /// The row of the run.
    pub fn row(&self, ticket: &Ticket, entry: &Value, now: u64) -> CronRunRow {
        CronRunRow {
            id: ticket.row_id.clone(),
            job_id: ticket.job.id.clone(),
            instant: ticket.instant,
            status: self.status.into(),
            delivery: self.delivery_status.into(),
            entry: entry.to_string(),
            at: now,
        }
    }
}

/// The end of a run.
pub(super) struct Ended {
    /// What is written.
    pub change: CronChange,
    /// The job as it is then.
    pub job: Job,
    /// What is told.
    pub entry: Value,
    /// Whether the job goes.
    pub goes: bool,
}

#[cfg(test)]
mod tests {
    use crate::agent::{Family, Progress};
    use crate::protocol::methods::cron::{JobPatch, Payload, Schedule};

    use super::*;

    const NOON: u64 = 1_795_348_800_000;

    /// What is told to somebody who turns a job on again that has its single instant behind it.
    fn turned_on(ticket: &Ticket, row: &CronJobRow, outcome: &Outcome) -> Option<String> {
        let retry = CronRetrySettings { max_attempts: 0, backoff_ms: vec![], retry_on: vec![] };
        let mut job = outcome.change(row, ticket, &retry, NOON + 9).unwrap().job;
        job.enabled = false;
        let patch = JobPatch { enabled: Some(true), ..JobPatch::default() };
        job.patch(patch, NOON + 99).err().map(|error| error.to_string())
    }

    #[test]
    fn what_an_agent_says_around_a_tool_is_two_paragraphs() {
        let mut progress = Progress::saying("I look.Done now.");
        progress.turns.push(7);
        let report = RunReport {
            family: Family::Agent,
            run_id: "r".into(),
            end: RunEnd::Answered,
            accepted_at: NOON,
            ended_at: NOON,
            progress,
        };
        let outcome = Outcome::of_report(&report, NOON);
        assert_eq!(outcome.summary.as_deref(), Some("I look.\n\nDone now."));
    }

    fn ticket(job: &Job) -> Ticket {
        Ticket {
            job: job.clone(),
            origin: None,
            row_id: row_id("once", NOON),
            run_id: None,
            instant: NOON,
            started_at: NOON,
        }
    }

    #[test]
    fn a_single_instant_that_nobody_has_heard_stays_turned_off() {
        let job = Job {
            schedule: Schedule::At { at: NOON.to_string() },
            session_target: "main".into(),
            payload: Payload::SystemEvent { text: "x".into() },
            enabled: true,
            ..Job::nameless("once")
        };
        let ticket = ticket(&job);
        let retry = CronRetrySettings { max_attempts: 0, backoff_ms: vec![], retry_on: vec![] };
        let ended = |delivery_status| {
            let outcome = Outcome { delivery_status, ..Outcome::ok("x") };
            let ended = outcome.change(&job.to_row(None, None), &ticket, &retry, NOON + 9).unwrap();
            (ended.goes, ended.job.enabled)
        };
        assert_eq!(ended("not-delivered"), (false, false));
        assert!(ended(NOT_REQUESTED).0);
    }

    #[test]
    fn a_single_instant_that_has_its_row_is_not_promised_again() {
        let mut job = Job {
            name: "once".into(),
            delete_after_run: Some(false),
            schedule: Schedule::At { at: NOON.to_string() },
            session_target: "main".into(),
            payload: Payload::SystemEvent { text: "x".into() },
            ..Job::nameless("once")
        };
        let of_instant = ticket(&job);
        let off = Outcome::skipped("turned off");
        let told = turned_on(&of_instant, &job.to_row(None, None), &off);
        assert!(told.is_some_and(|told| told.contains("at /enabled")));
        // It came while a run went on that somebody had asked for before.
        let asked = Ticket {
            row_id: "manual".into(),
            run_id: Some("manual".into()),
            instant: NOON - 9,
            started_at: NOON - 9,
            ..of_instant.clone()
        };
        job.state.consecutive_skipped = Some(1);
        let told = turned_on(&asked, &job.to_row(None, None), &Outcome::ok("x"));
        assert!(told.is_some_and(|told| told.contains("at /enabled")));
        // One that has no row still comes.
        job.state.consecutive_skipped = None;
        assert_eq!(turned_on(&asked, &job.to_row(None, None), &off), None);
        let at = (NOON + 5).to_string();
        let moved = Job { schedule: Schedule::At { at }, ..job };
        assert_eq!(turned_on(&of_instant, &moved.to_row(None, None), &off), None);
    }
}
