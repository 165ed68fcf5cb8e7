//! `channels.*`, `send`, `poll`, `message.action`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, dictionary, integer_from, list, literal, non_empty, object, text,
};

/// Most answers of a poll.
const OPTIONS_MAX: u64 = 12;
/// Longest poll in seconds: a week.
const POLL_SECONDS_MAX: u64 = 604_800;

/// Params of `channels.status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelsStatusParams {
    /// Whether the services are asked, too.
    pub probe: bool,
    /// How long that may take.
    pub timeout_ms: Option<u64>,
}

impl Params for ChannelsStatusParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            probe: f.optional("probe", boolean()).unwrap_or_default(),
            timeout_ms: f.optional("timeoutMs", integer_from(0)),
        }
    }
}

/// Params of `channels.start`, `channels.stop` and `channels.logout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelParams {
    /// Id of the channel.
    pub channel: String,
    /// Which of our accounts there; the default one when absent.
    pub account_id: Option<String>,
}

impl Params for ChannelParams {
    fn read(f: &mut Fields) -> Self {
        // As dashboards call it.
        f.alias("channel", "id");
        Self {
            channel: f.required("channel", non_empty()),
            account_id: f.optional("accountId", text()),
        }
    }
}

/// Params of `channels.pairing.approve` and `channels.pairing.reject`; ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingCodeParams {
    /// Id of the channel.
    pub channel: String,
    /// What the person was told.
    pub code: String,
}

impl Params for PairingCodeParams {
    fn read(f: &mut Fields) -> Self {
        Self { channel: f.required("channel", non_empty()), code: f.required("code", non_empty()) }
    }
}

/// Params of `channels.pairing.remove`; ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingRemoveParams {
    /// Id of the channel.
    pub channel: String,
    /// Which of our accounts there; the default one when absent.
    pub account_id: Option<String>,
    /// The channel's id of the person.
    pub person: String,
}

impl Params for PairingRemoveParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            channel: f.required("channel", non_empty()),
            account_id: f.optional("accountId", text()),
            person: f.required("person", non_empty()),
        }
    }
}

/// Params of `send`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendParams {
    /// Person, group or room.
    pub to: String,
    /// What it says.
    pub message: Option<String>,
    /// Addresses of what comes with it.
    pub media: Vec<String>,
    /// Whether that is to be heard like voice messages.
    pub is_voice: bool,
    /// Whose session `session_key` is; that of the key when absent.
    pub agent_id: Option<String>,
    /// The session that gets to know what was sent.
    pub session_key: Option<String>,
    /// Id of the channel; the only one when absent.
    pub channel: Option<String>,
    /// Which of our accounts there.
    pub account_id: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// Thread in it.
    pub thread_id: Option<String>,
    /// The same key again sends nothing again.
    pub idempotency_key: String,
}

impl Params for SendParams {
    fn read(f: &mut Fields) -> Self {
        let to = f.required("to", non_empty());
        let message = f.optional("message", text());
        let one = f.optional("mediaUrl", text());
        let many = f.optional("mediaUrls", list(text())).unwrap_or_default();
        let is_voice = f.optional("asVoice", boolean()).unwrap_or_default();
        f.optional("gifPlayback", boolean());
        let channel = f.optional("channel", text());
        let account_id = f.optional("accountId", text());
        let agent_id = f.optional("agentId", text());
        let reply_to = f.optional("replyToId", text());
        let thread_id = f.optional("threadId", text());
        let session_key = f.optional("sessionKey", text());
        let mut media: Vec<String> = Vec::new();
        for url in one.into_iter().chain(many) {
            if !url.trim().is_empty() && !media.contains(&url) {
                media.push(url);
            }
        }
        Self {
            to,
            message,
            media,
            is_voice,
            agent_id: agent_id.filter(|id| !id.trim().is_empty()),
            session_key: session_key.filter(|key| !key.trim().is_empty()),
            channel,
            account_id,
            reply_to,
            thread_id,
            idempotency_key: f.required("idempotencyKey", non_empty()),
        }
    }
}

/// Params of `poll`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollParams {
    /// Person, group or room.
    pub to: String,
    /// The question.
    pub question: String,
    /// The answers to choose from.
    pub options: Vec<String>,
    /// Most answers that one may choose.
    pub max_selections: Option<u64>,
    /// How long it is open, in seconds.
    pub duration_seconds: Option<u64>,
    /// Whether nobody is woken by it.
    pub silent: bool,
    /// Whether nobody sees who chose what.
    pub is_anonymous: Option<bool>,
    /// Thread in it.
    pub thread_id: Option<String>,
    /// Id of the channel; the only one when absent.
    pub channel: Option<String>,
    /// Which of our accounts there.
    pub account_id: Option<String>,
    /// The same key again sends nothing again.
    pub idempotency_key: String,
}

impl Params for PollParams {
    fn read(f: &mut Fields) -> Self {
        let to = f.required("to", non_empty());
        let question = f.required("question", non_empty());
        let options = f.required("options", list(non_empty()).min(2).max(12));
        let max_selections = f.optional("maxSelections", integer_from(1).max(OPTIONS_MAX));
        let duration_seconds = f.optional("durationSeconds", integer_from(1).max(POLL_SECONDS_MAX));
        let hours: Option<u64> = f.optional("durationHours", integer_from(1));
        Self {
            to,
            question,
            options,
            max_selections,
            duration_seconds: duration_seconds.or(hours.map(|hours| hours.saturating_mul(3600))),
            silent: f.optional("silent", boolean()).unwrap_or_default(),
            is_anonymous: f.optional("isAnonymous", boolean()),
            thread_id: f.optional("threadId", text()),
            channel: f.optional("channel", text()),
            account_id: f.optional("accountId", text()),
            idempotency_key: f.required("idempotencyKey", non_empty()),
        }
    }
}

/// Where a tool of an agent was called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageToolContext {
    message_id: Option<Value>,
}

/// `hasRepliedRef`; checked only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HasReplied;

impl Params for HasReplied {
    fn read(f: &mut Fields) -> Self {
        f.required("value", boolean());
        Self
    }
}

impl Params for MessageToolContext {
    fn read(f: &mut Fields) -> Self {
        for name in [
            "currentChannelId",
            "currentGraphChannelId",
            "currentChannelProvider",
            "currentThreadTs",
        ] {
            f.optional(name, text());
        }
        let message_id = f.optional("currentMessageId", any());
        f.optional("replyToMode", literal(&["off", "first", "all", "batched"]));
        f.optional("hasRepliedRef", object::<HasReplied>());
        f.optional("skipCrossContextDecoration", boolean());
        Self { message_id }
    }
}

/// Params of `message.action`.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageActionParams {
    /// Id of the channel.
    pub channel: String,
    /// What to do.
    pub action: String,
    /// With what.
    pub params: Value,
    /// Id of the message that the caller answers (`toolContext.currentMessageId`).
    pub answered: Option<Value>,
    /// Which of our accounts there.
    pub account_id: Option<String>,
    /// The same key again does nothing again.
    pub idempotency_key: String,
}

impl Params for MessageActionParams {
    fn read(f: &mut Fields) -> Self {
        // What a message answers is among `params` as well.
        f.newer(&["inboundTurnKind", "reply", "requesterAccountId"]);
        let channel = f.required("channel", non_empty());
        let action = f.required("action", non_empty());
        let params = f.required("params", dictionary(any()));
        let account_id = f.optional("accountId", text());
        f.optional("requesterSenderId", text());
        f.optional("senderIsOwner", boolean());
        for name in ["sessionKey", "sessionId", "agentId"] {
            f.optional(name, text());
        }
        let context = f.optional("toolContext", object::<MessageToolContext>());
        // Of protocol 4: what an operator reads for himself. Here he may read what he may.
        f.optional("conversationReadOrigin", literal(&["direct-operator"]));
        Self {
            channel,
            action,
            params: Value::Object(params.into_iter().collect()),
            answered: context.and_then(|context| context.message_id),
            account_id,
            idempotency_key: f.required("idempotencyKey", non_empty()),
        }
    }
}
