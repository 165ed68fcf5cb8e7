//! `chat.*`.

use serde_json::{Map, Value};

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, list, non_empty, object, one_of, text,
};
use crate::support::json;

/// Longest session key that `chat.send` takes, in characters; also what is remembered
/// of keys for as long as a connection lasts.
pub const SESSION_KEY_MAX: usize = 512;
/// Longest label of an injected note, in characters.
const LABEL_MAX: usize = 100;
/// Most messages of one history page.
pub const HISTORY_LIMIT_MAX: u64 = 1000;
/// Most characters per text that a history may be asked for.
pub const HISTORY_CHARS_MAX: u64 = 500_000;

/// Most characters per text that one message may be asked for.
const MESSAGE_CHARS_MAX: u64 = 2_000_000;

/// `systemInputProvenance` of `chat.send`: where a message comes from, as a
/// system says that speaks for somebody else. For admins only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance(Map<String, Value>);

impl From<Provenance> for Value {
    fn from(Provenance(members): Provenance) -> Self {
        Self::Object(members)
    }
}

impl Params for Provenance {
    fn read(f: &mut Fields) -> Self {
        let kind =
            f.required("kind", one_of(&["external_user", "inter_session", "internal_system"]));
        let mut members = Map::from_iter([("kind".to_owned(), kind.into())]);
        for name in ["originSessionId", "sourceSessionKey", "sourceChannel", "sourceTool"] {
            members.extend(f.optional(name, text()).map(|text| (name.to_owned(), text.into())));
        }
        Self(members)
    }
}

/// The `originating…` members of `chat.send`: where a message comes from, and
/// so where its answer goes. For admins only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `originatingChannel`; empty when absent.
    pub channel: String,
    /// `originatingTo`; empty when absent.
    pub to: String,
    /// `originatingAccountId`.
    pub account_id: Option<String>,
    /// `originatingThreadId`.
    pub thread_id: Option<String>,
}

impl Route {
    /// The members of `chat.send`, in schema order.
    fn read(f: &mut Fields) -> Option<Self> {
        let channel = f.optional("originatingChannel", text());
        let to = f.optional("originatingTo", text());
        let account_id = f.optional("originatingAccountId", text());
        let thread_id = f.optional("originatingThreadId", text());
        let is_given =
            [&channel, &to, &account_id, &thread_id].iter().any(|member| member.is_some());
        is_given.then(|| Self {
            channel: channel.unwrap_or_default(),
            to: to.unwrap_or_default(),
            account_id,
            thread_id,
        })
    }

    /// `deliveryContext` of the session.
    pub fn into_context(self) -> Value {
        let mut context = json!({"channel": self.channel, "to": self.to});
        if let Value::Object(members) = &mut context {
            let account = self.account_id.map(|id| ("accountId".to_owned(), id.into()));
            let thread = self.thread_id.map(|id| ("threadId".to_owned(), id.into()));
            members.extend(account.into_iter().chain(thread));
        }
        context
    }
}

/// Params of `chat.send`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSendParams {
    /// As the client wrote it.
    pub session_key: String,
    /// What the user says.
    pub message: String,
    /// Thinking level for this run.
    pub thinking: Option<String>,
    /// Pictures and files.
    pub attachments: Vec<Value>,
    /// Milliseconds after which a stuck run may be swept.
    pub timeout_ms: Option<u64>,
    /// Whether the answer is to be sent to the session's channel as well.
    pub deliver: bool,
    /// Where the message comes from, when another system passes it on.
    pub route: Option<Route>,
    /// Who speaks, when another system passes the message on.
    pub provenance: Option<Value>,
    /// What that system tells the model about it.
    pub provenance_receipt: Option<String>,
    /// The run's id as well.
    pub idempotency_key: String,
}

impl Params for ChatSendParams {
    fn read(f: &mut Fields) -> Self {
        let session_key = f.required("sessionKey", non_empty().max(SESSION_KEY_MAX));
        f.optional("sessionId", non_empty());
        let message = f.required("message", text());
        let thinking = f.optional("thinking", text());
        let deliver = f.optional("deliver", boolean()).unwrap_or_default();
        let route = Route::read(f);
        let attachments = f.optional("attachments", list(any())).unwrap_or_default();
        let timeout_ms = f.optional("timeoutMs", integer_from(0));
        let provenance = f.optional("systemInputProvenance", object::<Provenance>());
        let provenance_receipt = f.optional("systemProvenanceReceipt", text());
        let idempotency_key = f.required("idempotencyKey", non_empty());
        Self {
            session_key,
            message,
            thinking,
            attachments,
            timeout_ms,
            deliver,
            route,
            provenance: provenance.map(Value::from),
            provenance_receipt,
            idempotency_key,
        }
    }
}

/// Params of `chat.history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatHistoryParams {
    /// As the client wrote it.
    pub session_key: String,
    /// Most messages to answer.
    pub limit: Option<u64>,
    /// Most characters per text block.
    pub max_chars: Option<u64>,
}

impl Params for ChatHistoryParams {
    fn read(f: &mut Fields) -> Self {
        // A bound on the answer, which has its own here, and a question about messages that
        // it shows anyway.
        f.newer(&["inputRunIds", "maxBytes"]);
        Self {
            session_key: f.required("sessionKey", non_empty()),
            limit: f.optional("limit", integer_from(1).max(HISTORY_LIMIT_MAX)),
            max_chars: f.optional("maxChars", integer_from(1).max(HISTORY_CHARS_MAX)),
        }
    }
}

/// Params of `chat.message.get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessageGetParams {
    /// As the client wrote it.
    pub session_key: String,
    /// The agent that the session has to belong to.
    pub agent_id: Option<String>,
    /// `__openclaw.id` of a message.
    pub message_id: String,
    /// Most characters per text block; all of them when absent.
    pub max_chars: Option<u64>,
    /// Where a part of the message's JSON text begins, in bytes. With it the
    /// answer is a part, for messages larger than a frame.
    pub offset: Option<u64>,
}

impl Params for ChatMessageGetParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.required("sessionKey", non_empty()),
            agent_id: f.optional("agentId", non_empty()),
            message_id: f.required("messageId", non_empty()),
            max_chars: f.optional("maxChars", integer_from(1).max(MESSAGE_CHARS_MAX)),
            offset: f.optional("offset", integer_from(0)),
        }
    }
}

/// Params of `chat.abort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatAbortParams {
    /// As the client wrote it.
    pub session_key: String,
    /// Only this run.
    pub run_id: Option<String>,
}

impl Params for ChatAbortParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.required("sessionKey", non_empty()),
            run_id: f.optional("runId", non_empty()),
        }
    }
}

/// Params of `chat.inject`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatInjectParams {
    /// As the client wrote it.
    pub session_key: String,
    /// The note.
    pub message: String,
    /// Put in brackets above the note.
    pub label: Option<String>,
}

impl Params for ChatInjectParams {
    fn read(f: &mut Fields) -> Self {
        // The form of dashboards, where a note may also say whose it is; it is
        // the assistant's in any case.
        if f.alias("message", "content") {
            f.optional("role", text());
        }
        Self {
            session_key: f.required("sessionKey", non_empty()),
            message: f.required("message", non_empty()),
            label: f.optional("label", text().max(LABEL_MAX)),
        }
    }
}
