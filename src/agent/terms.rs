//! What a run may do, and who sees it, beside what its session says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::protocol::methods::agent::PromptMode;
use crate::providers::{AnswerWishes, ToolSpec};
use crate::store::OutboxAddress;

/// The terms of a run. By default nobody in particular asks, in the open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTerms {
    /// Whether its message comes from the owner of the gateway: an admin, or a
    /// job or heartbeat of the gateway itself that tells nothing of anybody else.
    /// Some tools are for them only.
    pub is_owner: bool,
    /// Whether it is a heartbeat: only an answer that says something is told.
    pub is_heartbeat: bool,
    /// With no more characters than these beside an acknowledgement, the answer of a
    /// heartbeat says nothing.
    pub ack_max_chars: usize,
    /// When a session begins anew that is too old for its message.
    pub when_stale: WhenStale,
    /// The model that answers, when it is not the session's.
    pub model: Option<String>,
    /// The models that are asked when that one cannot answer, and no others;
    /// those of the agent when absent.
    pub fallbacks: Option<Vec<String>>,
    /// How much of the prompt there is.
    pub prompt: PromptMode,
    /// Whether the files of the workspace are left out of the prompt.
    pub is_light: bool,
    /// Lists of tools that it may use: one that is not in all of them is not.
    pub tools: Vec<Vec<String>>,
    /// Tools of whoever asks: a call of one ends the run, and he does it himself.
    pub client_tools: Vec<ToolSpec>,
    /// What its system prompt says beside what everybody's does.
    pub instructions: Option<String>,
    /// How whoever asks would like each call of a model to be answered.
    pub wishes: AnswerWishes,
    /// The channel by which its message came, whose rules say whether the session is too
    /// old for it, and how it waits there; that of the session when absent.
    pub came_by: Option<String>,
    /// The channel that its message is said to come by, where it is not that of
    /// its session.
    pub channel: Option<String>,
    /// Who hears its answer. Only what has the same here goes into its run, so that nobody hears
    /// an answer to somebody else's words.
    pub hearer: Hearer,
    /// The run by which what it tells was begun: whoever stops that one stops this.
    pub begun_by: Option<Arc<str>>,
}

impl RunTerms {
    /// Whether the model gets the message and nothing else.
    pub fn is_bare(&self) -> bool {
        self.prompt == PromptMode::None
    }
}

/// Who hears the answer of a run, beside those who follow its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hearer {
    /// Nobody.
    #[default]
    Nobody,
    /// A chat of a channel.
    Chat(Arc<OutboxAddress>),
    /// Whoever the channels do not know, by a name: a connection of the action chat, or whom a
    /// job has told.
    Other(Arc<str>),
}

impl Hearer {
    /// The chat, if it is one.
    pub fn chat(&self) -> Option<&OutboxAddress> {
        match self {
            Self::Chat(address) => Some(address),
            Self::Nobody | Self::Other(_) => None,
        }
    }
}

impl From<OutboxAddress> for Hearer {
    fn from(address: OutboxAddress) -> Self {
        Self::Chat(Arc::new(address))
    }
}

/// When a session begins anew that is too old for a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenStale {
    /// Before anything else.
    #[default]
    AtOnce,
    /// The message is a command by which it begins anew, whatever its age: where that was
    /// refused.
    Afterwards,
}

/// Whether everything that was said to a run comes from the owner: its message, others that went
/// into it, and system events. What machines have reported counts where nobody has asked it.
#[derive(Debug)]
pub struct Owned(AtomicBool);

impl Owned {
    /// For a run that begins like this.
    pub const fn new(is_owner: bool) -> Self {
        Self(AtomicBool::new(is_owner))
    }

    /// Whether it does.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It has heard somebody else.
    pub fn give_up(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
