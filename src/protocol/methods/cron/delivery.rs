//! Who hears of a job's answers, and of its failures.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, boolean, integer_from, literal, non_empty, object, text, text_or_number,
};

/// Who hears of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryMode {
    /// Nobody; it is in the transcript.
    #[default]
    None,
    /// A chat.
    Announce,
    /// A web server.
    Webhook,
}

impl DeliveryMode {
    /// What a word means.
    pub fn parse(word: &str) -> Self {
        match word {
            "announce" => Self::Announce,
            "webhook" => Self::Webhook,
            _ => Self::None,
        }
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Announce => "announce",
            Self::Webhook => "webhook",
        }
    }
}

/// Where an answer goes, or what of that changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Delivery {
    /// How; in a patch it stays when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// `last`, or a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// A thread in it: text or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Value>,
    /// Which account of the channel sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// Whether a run counts as done when this fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_effort: Option<bool>,
    /// Where failures go, when not to the same place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_destination: Option<Destination>,
    /// A chat of the channel, a session, or the address of a web server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl Delivery {
    /// How.
    pub fn mode(&self) -> DeliveryMode {
        self.mode.unwrap_or_default()
    }

    /// Whether it is about answers in chats alone.
    pub fn is_for_answers(&self) -> bool {
        self.mode() != DeliveryMode::Webhook && self.failure_destination.is_none()
    }

    fn read_options(f: &mut Fields, mode: &str) -> Self {
        Self {
            mode: Some(DeliveryMode::parse(mode)),
            channel: f.optional("channel", non_empty()),
            thread_id: f.optional("threadId", text_or_number()),
            account_id: f.optional("accountId", non_empty()),
            best_effort: f.optional("bestEffort", boolean()),
            failure_destination: f.optional("failureDestination", object::<Destination>()),
            to: None,
        }
    }

    fn read_form(f: &mut Fields, mode: &'static str) -> Self {
        f.required("mode", literal(&[mode]));
        let delivery = Self::read_options(f, mode);
        Self { to: f.optional("to", text()), ..delivery }
    }

    /// Changes what a patch says.
    pub fn patch(&mut self, patch: DeliveryPatch) {
        let DeliveryPatch { said, cleared } = patch;
        let Self { mode, channel, thread_id, account_id, best_effort, failure_destination, to } =
            said;
        self.mode = mode.or(self.mode);
        self.channel = channel.or_else(|| self.channel.take());
        self.thread_id = thread_id.or_else(|| self.thread_id.take());
        self.account_id = account_id.or_else(|| self.account_id.take());
        self.best_effort = best_effort.or(self.best_effort);
        if let Some(said) = failure_destination {
            self.failure_destination.get_or_insert_default().patch(said);
        }
        self.to = to.or_else(|| self.to.take());
        for name in cleared {
            match name {
                "channel" => self.channel = None,
                "threadId" => self.thread_id = None,
                "accountId" => self.account_id = None,
                "failureDestination" => self.failure_destination = None,
                _ => self.to = None,
            }
        }
    }
}

impl Params for Delivery {
    fn read(f: &mut Fields) -> Self {
        let forms: [fn(&mut Fields) -> Self; 3] = [
            |f| Self::read_form(f, "none"),
            |f| Self::read_form(f, "announce"),
            |f| {
                f.required("mode", literal(&["webhook"]));
                let delivery = Self::read_options(f, "webhook");
                Self { to: Some(f.required("to", non_empty())), ..delivery }
            },
        ];
        f.one_of_forms(&forms).unwrap_or_default()
    }
}

/// What changes of a delivery.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeliveryPatch {
    /// What is not said stays.
    pub said: Delivery,
    /// Members that it has no more.
    pub cleared: Vec<&'static str>,
}

impl Params for DeliveryPatch {
    fn read(f: &mut Fields) -> Self {
        let mode = f.optional("mode", literal(&["none", "announce", "webhook"]));
        let names = ["channel", "threadId", "accountId", "failureDestination", "to"];
        let cleared = f.cleared(&names);
        let delivery = Delivery::read_options(f, mode.as_deref().unwrap_or_default());
        let to = f.optional("to", text());
        let mode = mode.as_deref().map(DeliveryMode::parse);
        Self { said: Delivery { mode, to, ..delivery }, cleared }
    }
}

/// Another place for news of failures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Destination {
    /// `last`, or a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// As in [`Delivery`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which account of the channel sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
}

impl Destination {
    fn patch(&mut self, patch: Self) {
        let Self { channel, to, account_id, mode } = patch;
        change(&mut self.channel, channel);
        change(&mut self.to, to);
        change(&mut self.account_id, account_id);
        self.mode = mode.or(self.mode);
    }
}

/// Changes a text to what a patch says; a blank one takes it back.
fn change(own: &mut Option<String>, said: Option<String>) {
    if let Some(text) = said {
        *own = Some(text).filter(|text| !text.trim().is_empty());
    }
}

impl Params for Destination {
    fn read(f: &mut Fields) -> Self {
        Self {
            channel: f.optional("channel", non_empty()),
            to: f.optional("to", text()),
            account_id: f.optional("accountId", non_empty()),
            mode: f
                .optional("mode", literal(&["announce", "webhook"]))
                .map(|mode| DeliveryMode::parse(&mode)),
        }
    }
}

/// Who hears when a job fails again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FailureAlert {
    /// Nobody (`false`).
    Off(bool),
    /// Somebody.
    On(AlertRules),
}

impl FailureAlert {
    /// What this makes of what was before: rules that it does not say stay.
    #[must_use]
    pub fn over(self, before: Option<Self>) -> Self {
        match (self, before) {
            (Self::On(said), Some(Self::On(own))) => Self::On(own.patched(said)),
            (alert, _) => alert,
        }
    }
}

/// When and where failures are told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AlertRules {
    /// After so many in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// `last`, or a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// As in [`Delivery`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Not again for so many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_ms: Option<u64>,
    /// Whether runs count that were skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_skipped: Option<bool>,
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Which account of the channel sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
}

impl AlertRules {
    fn patched(mut self, patch: Self) -> Self {
        let Self { after, channel, to, cooldown_ms, include_skipped, mode, account_id } = patch;
        self.after = after.or(self.after);
        change(&mut self.channel, channel);
        change(&mut self.to, to);
        self.cooldown_ms = cooldown_ms.or(self.cooldown_ms);
        self.include_skipped = include_skipped.or(self.include_skipped);
        self.mode = mode.or(self.mode);
        change(&mut self.account_id, account_id);
        self
    }
}

impl Params for AlertRules {
    fn read(f: &mut Fields) -> Self {
        let after = f.optional("after", integer_from(1));
        let channel = f.optional("channel", non_empty());
        let to = f.optional("to", text());
        let cooldown_ms = f.optional("cooldownMs", integer_from(0));
        let include_skipped = f.optional("includeSkipped", boolean());
        let mode = f.optional("mode", literal(&["announce", "webhook"]));
        Self {
            after,
            channel,
            to,
            cooldown_ms,
            include_skipped,
            mode: mode.map(|mode| DeliveryMode::parse(&mode)),
            account_id: f.optional("accountId", non_empty()),
        }
    }
}
