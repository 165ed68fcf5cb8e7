//! A job: what it is, and how it is doing.

mod patch;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::approvals::ExecWords;
use crate::protocol::methods::cron::{
    Delivery, DeliveryMode, FailureAlert, NewJob, Payload, Schedule, WakeMode,
};
use crate::sessions::AgentId;
use crate::store::CronJobRow;

use super::error::CronError;
use super::missed::MissedPolicy;
use super::schedule::{self, Timing};
use super::target::NamedChat;

/// Longest name, as long as the label of a session.
const NAME_MAX: usize = 512;
/// Longest text of a payload, in characters: each run begins with it.
const TEXT_MAX: usize = 100_000;

/// A job, with the members of the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its id.
    pub id: String,
    /// Whose it is; the default agent's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The session that it is told about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Name for people.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it runs.
    pub enabled: bool,
    /// Whether it goes once it has run well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_after_run: Option<bool>,
    /// When it was made, in milliseconds since the epoch.
    #[serde(default)]
    pub created_at_ms: u64,
    /// When it last changed or ran.
    #[serde(default)]
    pub updated_at_ms: u64,
    /// When it runs.
    pub schedule: Schedule,
    /// `main`, `isolated` or `session:<key>`.
    pub session_target: String,
    /// Whether the main session answers at once.
    #[serde(default)]
    pub wake_mode: WakeMode,
    /// What it does.
    pub payload: Payload,
    /// Where its answer goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Who hears of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_alert: Option<FailureAlert>,
    /// What becomes of instants that passed while nobody could run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// How it is doing.
    #[serde(default)]
    pub state: JobState,
}

/// How a job is doing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobState {
    /// When it runs next, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run_at_ms: Option<u64>,
    /// Since when it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_at_ms: Option<u64>,
    /// Why its last run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_at_ms: Option<u64>,
    /// How that ended: `ok`, `error` or `skipped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run_status: Option<String>,
    /// The same, by its older name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<String>,
    /// How long that took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_duration_ms: Option<u64>,
    /// What went wrong, step by step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_diagnostics: Option<Value>,
    /// The same in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_diagnostic_summary: Option<String>,
    /// Whether its answer arrived where it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivered: Option<bool>,
    /// `delivered`, `not-delivered`, `unknown` or `not-requested`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivery_status: Option<String>,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delivery_error: Option<String>,
    /// How many runs have failed since the last good one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_errors: Option<u64>,
    /// How many instants in a row were skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_skipped: Option<u64>,
    /// When somebody was last told of failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_alert_at_ms: Option<u64>,
}

/// Which session made a job by its tool, and what that may use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Origin {
    /// Its canonical key.
    pub session_key: String,
    /// The tools that it had, when those are fewer than its agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What bound its commands.
    #[serde(skip_serializing_if = "ExecWords::is_empty")]
    pub commands: ExecWords,
    /// The chat in which it was asked for, if it was in one of a channel. Several people may
    /// share the session, and write to it later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_in: Option<NamedChat>,
}

impl Job {
    /// A job that is made now.
    ///
    /// # Errors
    /// When it asks for what there is not.
    pub fn new(new: NewJob, id: String, now: u64) -> Result<Self, CronError> {
        let is_once = matches!(new.schedule, Schedule::At { .. });
        let session_key = new.session_key.filter(|key| !key.trim().is_empty());
        let session_target = match new.session_target.as_str() {
            // It is the session that it is made in.
            "current" => session_key
                .as_ref()
                .map_or_else(|| "isolated".to_owned(), |key| format!("session:{key}")),
            target => target.to_owned(),
        };
        let mut job = Self {
            schedule: settle("cron.add", new.schedule, &id, now)?,
            id,
            agent_id: new.agent_id.map(|agent| AgentId::normalize(&agent).to_string()),
            session_key,
            name: new.name.trim().to_owned(),
            description: new.description,
            enabled: new.enabled.unwrap_or(true),
            delete_after_run: new.delete_after_run.or(is_once.then_some(true)),
            created_at_ms: now,
            updated_at_ms: now,
            session_target,
            wake_mode: new.wake_mode,
            payload: new.payload,
            delivery: new.delivery,
            failure_alert: new.failure_alert,
            missed: new.missed,
            state: JobState::default(),
        };
        job.announce_by_default();
        job.check("cron.add")?;
        job.state.next_run_at_ms = job.due_after(now);
        Ok(job)
    }

    /// An answer that is given elsewhere than in the main session is announced, as in the
    /// original, unless its job says something else.
    pub(super) fn announce_by_default(&mut self) {
        if matches!(self.payload, Payload::AgentTurn(_)) && self.session_target != "main" {
            let delivery = self.delivery.get_or_insert_default();
            delivery.mode.get_or_insert(DeliveryMode::Announce);
        }
    }

    /// What goes together, in the words of the original.
    fn check(&self, method: &str) -> Result<(), CronError> {
        let invalid =
            |text: &str| Err(CronError::Invalid(format!("invalid {method} params: {text}")));
        let refused = |text: &str| Err(CronError::Refused(text.into()));
        if let Some(key) = self.session_target.strip_prefix("session:")
            && (key.trim().is_empty() || key.contains(['/', '\\', '\0']))
        {
            return invalid("invalid cron sessionTarget session id");
        }
        if self.name.is_empty() || self.name.chars().nth(NAME_MAX).is_some() {
            return invalid(&format!("at /name: must have 1 to {NAME_MAX} characters"));
        }
        let text = match &self.payload {
            Payload::SystemEvent { text } => text,
            Payload::AgentTurn(turn) => &turn.message,
        };
        if text.trim().is_empty() || text.chars().nth(TEXT_MAX).is_some() {
            return invalid(&format!("at /payload: must have 1 to {TEXT_MAX} characters of text"));
        }
        if let Some(missed) = &self.missed
            && MissedPolicy::parse(missed).is_none()
        {
            return invalid("at /missed: must be run, skip, or a time such as 30m");
        }
        let is_main = self.session_target == "main";
        match &self.payload {
            Payload::AgentTurn(_) if is_main => {
                return refused("main cron jobs require payload.kind=\"systemEvent\"");
            }
            Payload::SystemEvent { .. } if !is_main => {
                return refused(
                    "isolated/current/session cron jobs require payload.kind=\"agentTurn\"",
                );
            }
            _ => {}
        }
        let Some(delivery) = &self.delivery else { return Ok(()) };
        match delivery.mode() {
            DeliveryMode::Webhook if !delivery.to.as_deref().is_some_and(is_web) => {
                refused("cron webhook delivery requires delivery.to to be a valid http(s) URL")
            }
            DeliveryMode::Announce if is_main => refused(
                "cron channel delivery config is only supported for sessionTarget=\"isolated\"",
            ),
            _ => Ok(()),
        }
    }

    /// Its instants.
    ///
    /// # Errors
    /// When its schedule cannot be read, which a job from elsewhere may have.
    pub fn timing(&self) -> Result<Timing, CronError> {
        Timing::of(&self.schedule, &self.id).map_err(|error| CronError::Invalid(error.to_string()))
    }

    /// When it is due next after a moment; never while it is turned off. A single instant
    /// counts though it has passed: `missed` says what becomes of it.
    pub fn due_after(&self, moment: u64) -> Option<u64> {
        let timing = self.timing().ok().filter(|_| self.enabled)?;
        match timing {
            Timing::At(at) => Some(at),
            timing => timing.next_after(moment),
        }
    }

    /// Whether it goes once it has run well.
    pub fn is_temporary(&self) -> bool {
        matches!(self.schedule, Schedule::At { .. }) && self.delete_after_run != Some(false)
    }

    /// Whether a run counts as done though its answer has not arrived.
    pub fn is_best_effort(&self) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| delivery.best_effort == Some(true))
    }

    /// The job in a row.
    ///
    /// # Errors
    /// When a later release wrote it.
    pub fn of_row(row: &CronJobRow) -> Result<Self, CronError> {
        let mut job = Self::as_written(row)?;
        // Earlier releases took jobs of OpenClaw over that did not say it.
        job.announce_by_default();
        Ok(job)
    }

    /// The same with nothing that it does not say itself, for a patch: what would hold for it
    /// as it is need not for what becomes of it.
    ///
    /// # Errors
    /// As above.
    pub(super) fn as_written(row: &CronJobRow) -> Result<Self, CronError> {
        serde_json::from_str(&row.job).map_err(|error| CronError::Unreadable(error.to_string()))
    }

    /// What is told of a job of which only the id is known.
    pub fn nameless(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            agent_id: None,
            session_key: None,
            name: String::new(),
            description: None,
            enabled: false,
            delete_after_run: None,
            created_at_ms: 0,
            updated_at_ms: 0,
            schedule: Schedule::default(),
            session_target: "isolated".into(),
            wake_mode: WakeMode::Now,
            payload: Payload::default(),
            delivery: None,
            failure_alert: None,
            missed: None,
            state: JobState::default(),
        }
    }

    /// The row of a job that is due at a time.
    pub fn to_row(&self, due_at: Option<u64>, origin: Option<String>) -> CronJobRow {
        let job = serde_json::to_string(self).unwrap_or_default();
        CronJobRow { id: self.id.clone(), job, due_at, origin }
    }
}

fn settle(method: &str, schedule: Schedule, id: &str, now: u64) -> Result<Schedule, CronError> {
    use schedule::ScheduleError as E;
    schedule::settle(schedule, id, now).map_err(|error| match error {
        E::At(_) | E::Past { .. } | E::Far { .. } => CronError::Invalid(error.to_string()),
        E::Pattern(_) | E::Zone(_) | E::Never => {
            CronError::Invalid(format!("invalid {method} params: {error}"))
        }
    })
}

fn is_web(text: &str) -> bool {
    reqwest::Url::parse(text.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
