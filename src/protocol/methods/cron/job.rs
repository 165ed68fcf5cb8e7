//! What a job is made of: when, where, what, and who hears of it.
//!
//! The same types are read from requests and kept in the database.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::delivery::{Delivery, DeliveryPatch, FailureAlert};
use super::lenient::FalseOr;
use super::state::StatePatch;
use super::written;
use crate::protocol::decode::{
    Fields, Params, Setting, boolean, integer_from, list, literal, non_empty, nullable, object,
    text,
};

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Schedule {
    /// Once.
    At {
        /// ISO 8601.
        at: String,
    },
    /// Again and again, with the same time between.
    Every {
        /// In milliseconds.
        every_ms: u64,
        /// One of the instants, in milliseconds since the epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        anchor_ms: Option<u64>,
    },
    /// When a pattern of the calendar fits.
    Cron {
        /// Five to seven fields: seconds first when there are six, the year last
        /// when there are seven.
        expr: String,
        /// IANA name of the time zone; the gateway's own when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tz: Option<String>,
        /// Each job runs up to so many milliseconds later, always as much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stagger_ms: Option<u64>,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Self::At { at: String::new() }
    }
}

impl Params for Schedule {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 3] = [
            |f| {
                f.required("kind", literal(&["at"]));
                Self::At { at: f.required("at", non_empty()) }
            },
            |f| {
                f.required("kind", literal(&["every"]));
                Self::Every {
                    every_ms: f.required("everyMs", integer_from(1)),
                    anchor_ms: f.optional("anchorMs", integer_from(0)),
                }
            },
            |f| {
                f.required("kind", literal(&["cron"]));
                Self::Cron {
                    expr: f.required("expr", non_empty()),
                    tz: f.optional("tz", text()),
                    stagger_ms: f.optional("staggerMs", integer_from(0)),
                }
            },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// Whether the main session answers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeMode {
    /// At the next heartbeat, or the next message.
    NextHeartbeat,
    /// At once.
    #[default]
    Now,
}

impl WakeMode {
    /// The words on the wire.
    pub const WORDS: [&'static str; 2] = ["next-heartbeat", "now"];

    /// What a word means.
    pub fn parse(word: &str) -> Self {
        if word == "next-heartbeat" { Self::NextHeartbeat } else { Self::Now }
    }
}

/// What a job does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Payload {
    /// Tells the main session something.
    SystemEvent {
        /// What.
        text: String,
    },
    /// Asks the agent something.
    AgentTurn(AgentTurn),
}

impl Default for Payload {
    fn default() -> Self {
        Self::SystemEvent { text: String::new() }
    }
}

/// What an agent is asked, and how it may answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentTurn {
    /// What it is asked.
    pub message: String,
    /// The model that answers, when it is not the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models that answer when that one cannot, and no others; those of the
    /// agent when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallbacks: Option<Vec<String>>,
    /// How hard it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// It is stopped after so long; 0 leaves it to the agents' limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<Value>,
    /// Kept for clients that set it; nothing depends on it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unsafe_external_content: Option<bool>,
    /// Whether the files of the workspace are left out of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub light_context: Option<bool>,
    /// The tools that it may use, of those that its agent has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_allow: Option<Vec<String>>,
}

impl AgentTurn {
    fn read_options(f: &mut Fields, message: String) -> Self {
        Self {
            message,
            model: f.optional("model", text()),
            fallbacks: f.optional("fallbacks", list(text())),
            thinking: f.optional("thinking", text()),
            timeout_seconds: f.optional("timeoutSeconds", super::lenient::Seconds),
            allow_unsafe_external_content: f.optional("allowUnsafeExternalContent", boolean()),
            light_context: f.optional("lightContext", boolean()),
            tools_allow: None,
        }
    }
}

impl Params for Payload {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 2] = [
            |f| {
                f.required("kind", literal(&["systemEvent"]));
                Self::SystemEvent { text: f.required("text", non_empty()) }
            },
            |f| {
                f.required("kind", literal(&["agentTurn"]));
                let message = f.required("message", non_empty());
                let turn = AgentTurn::read_options(f, message);
                let tools_allow = f.optional("toolsAllow", list(text()));
                Self::AgentTurn(AgentTurn { tools_allow, ..turn })
            },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// What changes of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum PayloadPatch {
    /// It is a system event, with another text if one is given.
    SystemEvent(Option<String>),
    /// It asks an agent.
    AgentTurn(Box<TurnPatch>),
}

/// What changes of a question to an agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnPatch {
    /// What is not said stays. An empty message says nothing.
    pub turn: AgentTurn,
    /// The tools that it may use.
    pub tools_allow: Setting<Vec<String>>,
    /// Members that it has no more.
    pub cleared: Vec<&'static str>,
}

impl Default for PayloadPatch {
    fn default() -> Self {
        Self::SystemEvent(None)
    }
}

impl Params for PayloadPatch {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 2] = [
            |f| {
                f.required("kind", literal(&["systemEvent"]));
                Self::SystemEvent(f.optional("text", non_empty()))
            },
            |f| {
                f.required("kind", literal(&["agentTurn"]));
                let message = f.optional("message", non_empty()).unwrap_or_default();
                let cleared = f.cleared(&["model", "fallbacks", "thinking"]);
                let turn = AgentTurn::read_options(f, message);
                let tools_allow = f.setting("toolsAllow", list(text()));
                Self::AgentTurn(Box::new(TurnPatch { turn, tools_allow, cleared }))
            },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// A job that is wanted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewJob {
    /// Name for people.
    pub name: String,
    /// Whose job it is; the default agent's when absent.
    pub agent_id: Option<String>,
    /// The session that it is told about: where `last` and `current` lead.
    pub session_key: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Whether it runs.
    pub enabled: Option<bool>,
    /// Whether it goes once it has run well.
    pub delete_after_run: Option<bool>,
    /// When.
    pub schedule: Schedule,
    /// `main`, `isolated`, `current` or `session:<key>`.
    pub session_target: String,
    /// Whether the main session answers at once.
    pub wake_mode: WakeMode,
    /// What.
    pub payload: Payload,
    /// Where the answer goes.
    pub delivery: Option<Delivery>,
    /// Who hears of failures.
    pub failure_alert: Option<FailureAlert>,
    /// What becomes of instants that passed while nobody could run it: `run`,
    /// `skip`, or a time such as `30m` within which it still runs.
    pub missed: Option<String>,
}

/// The rule for targets, as the original shows it.
fn target(f: &mut Fields, name: &str) -> Option<String> {
    f.optional(name, super::lenient::Target)
}

impl Params for NewJob {
    fn read(f: &mut Fields) -> Self {
        f.amend(written::new_job);
        let name = f.required("name", non_empty());
        let agent_id = f.setting("agentId", non_empty());
        let session_key = f.setting("sessionKey", non_empty());
        let description = f.optional("description", text());
        let enabled = f.optional("enabled", boolean());
        let delete_after_run = f.optional("deleteAfterRun", boolean());
        let schedule = f.required("schedule", object::<Schedule>());
        // Without a target the payload says which one is meant.
        let session_target = if f.has("sessionTarget") || !f.has("payload") {
            f.required("sessionTarget", super::lenient::Target)
        } else {
            String::new()
        };
        let wake_mode = f.optional("wakeMode", literal(&WakeMode::WORDS));
        let payload = f.required("payload", object::<Payload>());
        let by_payload = || match payload {
            Payload::SystemEvent { .. } => "main".to_owned(),
            Payload::AgentTurn(_) => "isolated".to_owned(),
        };
        Self {
            name,
            agent_id: set(agent_id),
            session_key: set(session_key),
            description,
            enabled,
            delete_after_run,
            schedule,
            session_target: Some(session_target)
                .filter(|target| !target.is_empty())
                .unwrap_or_else(by_payload),
            wake_mode: wake_mode.as_deref().map(WakeMode::parse).unwrap_or_default(),
            payload,
            delivery: f.optional("delivery", object::<Delivery>()),
            failure_alert: f.optional("failureAlert", FalseOr),
            missed: f.optional("missed", text()),
        }
    }
}

fn set<T>(setting: Setting<T>) -> Option<T> {
    match setting {
        Setting::Set(value) => Some(value),
        Setting::Keep | Setting::Clear => None,
    }
}

/// What changes of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPatch {
    /// Name for people.
    pub name: Option<String>,
    /// Whose job it is.
    pub agent_id: Setting<String>,
    /// The session that it is told about.
    pub session_key: Setting<String>,
    /// For people.
    pub description: Option<String>,
    /// Whether it runs.
    pub enabled: Option<bool>,
    /// Whether it goes once it has run well.
    pub delete_after_run: Option<bool>,
    /// When.
    pub schedule: Option<Schedule>,
    /// Where.
    pub session_target: Option<String>,
    /// Whether the main session answers at once.
    pub wake_mode: Option<WakeMode>,
    /// What.
    pub payload: Option<PayloadPatch>,
    /// Where the answer goes.
    pub delivery: Option<DeliveryPatch>,
    /// Who hears of failures.
    pub failure_alert: Option<FailureAlert>,
    /// What becomes of missed instants.
    pub missed: Setting<String>,
    /// How it is doing.
    pub state: Option<StatePatch>,
}

impl Params for JobPatch {
    fn read(f: &mut Fields) -> Self {
        f.amend(written::changes);
        Self {
            name: f.optional("name", non_empty()),
            agent_id: f.setting("agentId", non_empty()),
            session_key: f.setting("sessionKey", non_empty()),
            description: f.optional("description", text()),
            enabled: f.optional("enabled", boolean()),
            delete_after_run: f.optional("deleteAfterRun", boolean()),
            schedule: f.optional("schedule", object::<Schedule>()),
            session_target: target(f, "sessionTarget"),
            wake_mode: f
                .optional("wakeMode", literal(&WakeMode::WORDS))
                .map(|word| WakeMode::parse(&word)),
            payload: f.optional("payload", object::<PayloadPatch>()),
            delivery: f.optional("delivery", object::<DeliveryPatch>()),
            failure_alert: f.optional("failureAlert", FalseOr),
            missed: f.optional("missed", nullable(text())).unwrap_or_default(),
            state: f.optional("state", object::<StatePatch>()),
        }
    }
}

/// The id of a job, and what changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CronUpdateParams {
    /// Which one.
    pub id: String,
    /// How.
    pub patch: JobPatch,
}

impl Params for CronUpdateParams {
    fn read(f: &mut Fields) -> Self {
        if !f.has("patch") && (f.has("id") || f.has("jobId")) {
            // As the dashboards of seed 001 write it: beside the id.
            let id = f.required(if f.has("id") { "id" } else { "jobId" }, non_empty());
            return Self { id, patch: JobPatch::read(f) };
        }
        let forms: [fn(&mut Fields) -> Self; 2] = [
            |f| Self {
                id: f.required("id", non_empty()),
                patch: f.required("patch", object::<JobPatch>()),
            },
            |f| Self {
                id: f.required("jobId", non_empty()),
                patch: f.required("patch", object::<JobPatch>()),
            },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}
