//! What a channel can do, and what it needs from the gateway.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::body::Body;
use super::hook::{HookRefusal, HookRequest};
use super::inbound::{Inbound, Received, RemoteFile};
use crate::sessions::SessionKey;
use crate::store::{OutboxAddress, OutboxPart};
use crate::support::BoxFuture;

/// A message that a service has taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sent {
    /// The service's id of it.
    pub message_id: Option<String>,
}

/// Why a message was not sent, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// The service does not take it, and never will.
    #[error("{0}")]
    Refused(String),
    /// The service has not taken it, and may later.
    #[error("{why}")]
    Later {
        /// Not before that.
        after: Option<Duration>,
        /// What happened.
        why: String,
    },
    /// Nobody knows whether the service has it.
    #[error("{0}")]
    Unknown(String),
}

/// Something done with a message that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Action<'a> {
    /// `react`, `edit`, `delete` and so on.
    pub name: &'a str,
    /// Person, group or room.
    pub to: &'a str,
    /// Thread in it.
    pub thread: Option<&'a str>,
    /// The rest, as the caller wrote it.
    pub params: &'a Value,
}

/// Why an action was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The channel cannot do such a thing.
    #[error("not supported")]
    Unsupported,
    /// A parameter is missing or wrong.
    #[error("{0}")]
    Invalid(String),
    /// The service refused, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

/// One account of a service.
pub trait Channel: Send + Sync {
    /// Sends one part.
    fn send<'a>(
        &'a self,
        part: &'a OutboxPart,
        body: &'a Body,
    ) -> BoxFuture<'a, Result<Sent, SendFailure>>;

    /// Listens to the service until it fails. `None` when it comes by itself.
    fn listen(self: Arc<Self>, _ear: Arc<dyn Ear>) -> Option<BoxFuture<'static, String>> {
        None
    }

    /// Reads a request to its path of our own HTTP side: the message in it, if
    /// there is one.
    fn read_hook(&self, _request: &HookRequest<'_>) -> Result<Option<Inbound>, HookRefusal> {
        Err(HookRefusal::Unauthorized)
    }

    /// Whether the head of a request proves who sent it; `None` where that takes
    /// the whole of it.
    fn knows_hook(&self, _header: &(dyn Fn(&str) -> Option<String> + Sync)) -> Option<bool> {
        None
    }

    /// A message has come: where a service waits to hear that, it is told. Nobody waits for it.
    fn acknowledge<'a>(&'a self, _message_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Shows by a reaction that a message is being answered; left out where that is too much.
    fn react<'a>(
        &'a self,
        _to: &'a str,
        _message_id: &'a str,
        _emoji: &'a str,
    ) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Gets a file that is still with the service. `Later` is tried again.
    fn fetch<'a>(&'a self, _file: &'a RemoteFile) -> BoxFuture<'a, Result<Vec<u8>, SendFailure>> {
        let why = "this channel keeps no files".to_owned();
        Box::pin(std::future::ready(Err(SendFailure::Refused(why))))
    }

    /// Does something with a message that is there.
    fn act<'a>(&'a self, _action: Action<'a>) -> BoxFuture<'a, Result<Value, Refused>> {
        Box::pin(std::future::ready(Err(Refused::Unsupported)))
    }

    /// The actions that it can do, beside sending.
    fn actions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it can ask questions with answers to choose from.
    fn has_polls(&self) -> bool {
        false
    }

    /// Shows that an answer is being written; forgotten after a few seconds.
    fn show_typing<'a>(&'a self, _to: &'a str, _thread: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether a reply can be shown while it is written.
    fn has_previews(&self) -> bool {
        false
    }

    /// Shows the beginning of a reply: in the message that it edits, or in a new one.
    /// Answers the id of the message.
    fn preview<'a>(
        &'a self,
        _address: &'a OutboxAddress,
        _body: &'a Body,
    ) -> BoxFuture<'a, Result<Sent, SendFailure>> {
        let why = "this channel shows no previews".to_owned();
        Box::pin(std::future::ready(Err(SendFailure::Refused(why))))
    }

    /// Asks the service whether it is there and knows us.
    fn probe(&self) -> BoxFuture<'_, Result<Value, String>>;

    /// How messages come in: `polling`, `webhook`.
    fn mode(&self) -> &'static str;
}

/// Where a channel that listens puts what it hears.
pub trait Ear: Send + Sync {
    /// A message is there that will be heard, maybe more than once until it is taken.
    fn notice(&self, _inbound: &Inbound) {}

    /// A message came. When this answers, it is accepted durably, or will never
    /// be; an error asks to come with it again.
    fn hear(&self, inbound: Inbound) -> BoxFuture<'_, Result<Received, String>>;

    /// A message is not brought again though it could not be taken, for this reason:
    /// whoever wrote it is told.
    fn give_up(&self, inbound: Inbound, why: String) -> BoxFuture<'_, ()>;

    /// What the channel has kept under a name of its own.
    fn recall<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>>;

    /// Keeps something under a name of the channel's own.
    fn keep(&self, name: &str, value: String) -> BoxFuture<'_, Result<(), String>>;

    /// The commands that people may give, each with what it does.
    fn commands(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// The service has answered: the connection is well.
    fn is_well(&self);

    /// The service wants to be asked later, for this reason.
    fn is_put_off(&self, why: &str);
}

/// A message of a person who may write, for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its session.
    pub key: SessionKey,
    /// The run's id; the same message has the same one.
    pub run_id: String,
    /// What the model reads before what is said: who speaks, and words of others, in which no
    /// setting counts.
    pub before: Option<String>,
    /// What is said.
    pub text: String,
    /// Files, as `chat.send` takes them.
    pub attachments: Vec<Value>,
    /// Id of the channel.
    pub channel: &'static str,
    /// Which of our accounts there.
    pub account: String,
    /// The channel's id of the person.
    pub person: String,
    /// Whether the person may do what an admin may.
    pub is_owner: bool,
    /// Where it is answered.
    pub place: OutboxAddress,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// A run answers it, or did.
    Run,
    /// It stopped so many runs.
    Stopped(usize),
}

/// Why it was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InletError {
    /// It never will be; the person is told.
    #[error("{0}")]
    Refused(String),
    /// It may be later.
    #[error("{0}")]
    Later(String),
}

/// The way of a message to an agent.
pub trait Inlet: Send + Sync {
    /// Whether a message is for the gateway itself: a command, or the name of a skill.
    fn is_command<'a>(
        &'a self,
        key: &'a SessionKey,
        text: &'a str,
    ) -> BoxFuture<'a, Result<bool, InletError>>;

    /// Whether a message says to stop what runs, and nothing else.
    fn is_stop(&self, text: &str) -> bool;

    /// The commands that there are, without the slash, each with what it does.
    fn commands(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Accepts a message as `chat.send` does, with the rights of its sender.
    fn accept(&self, said: Said) -> BoxFuture<'_, Result<Taken, InletError>>;
}
