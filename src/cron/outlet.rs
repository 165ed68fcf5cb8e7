//! The way to chats of channels, as far as jobs need it.

use serde_json::Value;

use super::target::NamedChat;
use crate::agent::Answer;
use crate::sessions::SessionKey;
use crate::support::BoxFuture;

/// What is said in a chat of a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Announcement {
    /// Whose it is.
    pub agent_id: String,
    /// The channel.
    pub channel: String,
    /// Which chat of it; where the agent last spoke when absent.
    pub to: Option<String>,
    /// A thread in it: text or number.
    pub thread_id: Option<Value>,
    /// Which account of the channel sends.
    pub account_id: Option<String>,
    /// What.
    pub text: String,
    /// Whose answer it is, where what stands before answers stands before it too.
    pub answer: Option<Answer>,
    /// Files that come with it: paths and addresses, as the agent named them.
    pub files: Vec<String>,
    /// By what it is bound, if a session made the job.
    pub bound_to: Option<Bounds>,
    /// The same for the same run and place, so that nothing is said twice.
    pub idempotency_key: String,
}

/// Which chats an announcement may name, beside those that an agent may write to by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Those of these sessions.
    pub sessions: Vec<SessionKey>,
    /// The one in which the job was asked for.
    pub asked_in: Option<NamedChat>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The channel has it.
    Said,
    /// It waits, and is sent as soon as the channel takes it.
    Waits,
}

/// Why it is not said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutletError {
    /// There is no such channel.
    #[error("no channel \"{0}\" is configured")]
    NoChannel(String),
    /// The channel does not take it; the text says why.
    #[error("{0}")]
    Failed(String),
}

/// Says something in chats of channels.
pub trait Outlet: Send + Sync + 'static {
    /// Says it. Ready when the channel has it, or when that takes too long: then it
    /// waits, and goes out in any case.
    fn say(&self, announcement: Announcement) -> BoxFuture<'_, Result<Told, OutletError>>;
}
