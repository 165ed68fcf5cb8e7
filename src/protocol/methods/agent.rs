//! `agent` and `agent.wait`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, list, literal, non_empty, object, one_of, text,
};

use super::chat::Provenance;

/// Longest label of a run, in characters.
const LABEL_MAX: usize = 512;
/// Longest id of a run that is waited for, in characters: it is kept for as long.
const RUN_ID_MAX: usize = 512;

/// One of `internalEvents`; checked only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InternalEvent;

impl Params for InternalEvent {
    fn read(f: &mut Fields) -> Self {
        f.required("type", literal(&["task_completion"]));
        f.required("source", one_of(&["subagent", "cron", "video_generation", "music_generation"]));
        f.required("childSessionKey", text());
        f.optional("childSessionId", text());
        f.required("announceType", text());
        f.required("taskLabel", text());
        f.required("status", one_of(&["ok", "timeout", "error", "unknown"]));
        f.required("statusLabel", text());
        f.required("result", text());
        f.optional("mediaUrls", list(text()));
        f.optional("statsLine", text());
        f.required("replyInstruction", text());
        Self
    }
}

/// How much a model is told of itself (`promptMode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PromptMode {
    /// All there is.
    #[default]
    Full,
    /// What it needs for a task: what is for talking with people is left out.
    Minimal,
    /// The message alone: no system prompt, no tools, and nothing of what was said before.
    None,
}

/// Where a message comes from, or where the answer of a run is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyRoute {
    /// Id of a channel; `last` is the session's.
    pub channel: Option<String>,
    /// Which of our accounts there.
    pub account: Option<String>,
    /// Person, group or room.
    pub to: Option<String>,
    /// Thread in it.
    pub thread: Option<String>,
}

/// Params of `agent`.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentParams {
    /// What the user says.
    pub message: String,
    /// The agent whose main session answers.
    pub agent_id: Option<String>,
    /// The provider that is asked, when it is not the session's; for admins.
    pub provider: Option<String>,
    /// The model that answers, when it is not the session's; for admins.
    pub model: Option<String>,
    /// Whom to answer; such messages go to the main session.
    pub to: Option<String>,
    /// Or the session with this transcript; a new one gets this id.
    pub session_id: Option<String>,
    /// Or this session, as the client wrote it.
    pub session_key: Option<String>,
    /// Thinking level of the session from now on.
    pub thinking: Option<String>,
    /// What the system prompt says beside what it says in every run.
    pub instructions: Option<String>,
    /// How much of the system prompt there is.
    pub prompt_mode: PromptMode,
    /// Whether the files of the workspace are left out of it.
    pub is_light: bool,
    /// Name of the session.
    pub label: Option<String>,
    /// Where the message comes from (`inputProvenance`).
    pub provenance: Option<Value>,
    /// Whether the answer is to be sent to a channel.
    pub deliver: bool,
    /// Where the session is, unless it knows: `channel`, `to`, `accountId`, `threadId`.
    pub place: ReplyRoute,
    /// Where to: `replyTo`, `replyChannel` and so on before `to`, `channel`.
    pub reply: ReplyRoute,
    /// Whether the run goes on when that cannot be done, where it is said.
    pub best_effort: Option<bool>,
    /// Pictures and files.
    pub attachments: Vec<Value>,
    /// The run is stopped after so long; without, or with 0, the agents' limit
    /// alone holds.
    pub timeout_seconds: Option<u64>,
    /// The wake word that was heard; empty when it is not known which.
    pub wake_word: Option<String>,
    /// The run's id as well.
    pub idempotency_key: String,
}

impl Params for AgentParams {
    fn read(f: &mut Fields) -> Self {
        let message = f.required("message", non_empty());
        let agent_id = f.optional("agentId", non_empty());
        let provider = f.optional("provider", text());
        let model = f.optional("model", text());
        let to = f.optional("to", text());
        let reply_to = f.optional("replyTo", text());
        let session_id = f.optional("sessionId", text());
        let session_key = f.optional("sessionKey", text());
        let thinking = f.optional("thinking", text());
        let deliver = f.optional("deliver", boolean()).unwrap_or_default();
        let attachments = f.optional("attachments", list(any())).unwrap_or_default();
        let channel = f.optional("channel", text());
        let reply_channel = f.optional("replyChannel", text());
        let account = f.optional("accountId", text());
        let reply_account = f.optional("replyAccountId", text());
        let thread = f.optional("threadId", text());
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let place = ReplyRoute {
            channel: said(channel),
            account: said(account),
            to: said(to.clone()),
            thread: said(thread),
        };
        let reply = ReplyRoute {
            channel: said(reply_channel).or_else(|| place.channel.clone()),
            account: said(reply_account).or_else(|| place.account.clone()),
            to: said(reply_to).or_else(|| place.to.clone()),
            thread: place.thread.clone(),
        };
        for name in ["groupId", "groupChannel", "groupSpace"] {
            f.optional(name, text());
        }
        let timeout_seconds = f.optional("timeout", integer_from(0));
        let best_effort = f.optional("bestEffortDeliver", boolean());
        // Each session is a lane here, and servers of tools are shared by all runs.
        f.optional("lane", text());
        f.optional("cleanupBundleMcpOnRunEnd", boolean());
        let is_model_run = f.optional("modelRun", boolean()).unwrap_or_default();
        let prompt_mode = f.optional("promptMode", literal(&["full", "minimal", "none"]));
        let instructions = f.optional("extraSystemPrompt", text());
        let context = f.optional("bootstrapContextMode", literal(&["full", "lightweight"]));
        f.optional("bootstrapContextRunKind", literal(&["default", "heartbeat", "cron"]));
        f.optional("acpTurnSource", literal(&["manual_spawn"]));
        f.optional("internalEvents", list(object::<InternalEvent>()));
        let provenance = f.optional("inputProvenance", object::<Provenance>());
        let wake_word = f.optional("voiceWakeTrigger", text());
        let idempotency_key = f.required("idempotencyKey", non_empty());
        let label = f.optional("label", non_empty().max(LABEL_MAX));
        Self {
            message,
            agent_id,
            provider: provider.filter(|name| !name.is_empty()),
            model: model.filter(|name| !name.is_empty()),
            to,
            session_id,
            session_key,
            thinking,
            instructions,
            prompt_mode: match prompt_mode.as_deref() {
                _ if is_model_run => PromptMode::None,
                Some("none") => PromptMode::None,
                Some("minimal") => PromptMode::Minimal,
                _ => PromptMode::Full,
            },
            is_light: context.as_deref() == Some("lightweight"),
            label,
            provenance: provenance.map(Value::from),
            deliver,
            place,
            reply,
            best_effort,
            attachments,
            timeout_seconds: timeout_seconds.filter(|seconds| *seconds > 0),
            wake_word,
            idempotency_key,
        }
    }
}

/// Params of `agent.wait`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentWaitParams {
    /// Which run.
    pub run_id: String,
    /// How long to wait at most.
    pub timeout_ms: Option<u64>,
}

impl Params for AgentWaitParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            run_id: f.required("runId", non_empty().max(RUN_ID_MAX)),
            timeout_ms: f.optional("timeoutMs", integer_from(0)),
        }
    }
}
