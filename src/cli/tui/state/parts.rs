//! What comes into the machine, what it wants done, and what it knows in between.

use ratatui::crossterm::event::KeyEvent;
use serde_json::Value;

use super::{Decision, Picker};
use crate::cli::client::Event as GatewayEvent;

/// What the command line asks for.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Address of the gateway, for people.
    pub url: String,
    /// The session to begin with.
    pub session: Option<String>,
    /// The agent to begin with.
    pub agent: Option<String>,
    /// What to say at first.
    pub message: Option<String>,
    /// How much the model thinks, for each message.
    pub thinking: Option<String>,
    /// Whether answers go to the session's channel as well.
    pub deliver: bool,
    /// How long a run may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How many messages of the history are read.
    pub history_limit: u64,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// Pasted text.
    Paste(String),
    /// There is a connection, with this `hello-ok`.
    Up(Value),
    /// There is none, and another try comes after so many milliseconds.
    Down {
        /// Why.
        why: String,
        /// When the next try is.
        retry_ms: u64,
    },
    /// Events were lost.
    Gap,
    /// An event of the gateway.
    Gateway(GatewayEvent),
    /// What came of a request.
    Answer {
        /// What was asked.
        ask: Ask,
        /// Payload, or the error for people.
        result: Result<Value, String>,
    },
    /// Time goes by.
    Tick,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To follow all sessions.
    Follow,
    /// The messages of this session; the outgoing ones that they have to have, and the runs
    /// that had not ended.
    History(String, Vec<String>),
    /// The rows of sessions, to find this one.
    Row(String),
    /// To say something; the key of its run.
    Send(String),
    /// To stop what runs.
    Abort,
    /// To set something of this session, in words.
    Patch(String, String),
    /// To begin this session anew.
    Reset(String),
    /// A new session.
    Create,
    /// The sessions that fit to this search.
    Sessions(String),
    /// All models.
    Models,
    /// All agents.
    Agents,
    /// Whether there is a model of this name, to set it for this session.
    Model(String, String),
    /// Whether there is this agent, to go to it.
    Agent(String),
    /// All slash commands.
    Commands,
    /// What waits for a person.
    Approvals,
    /// The decision on a command.
    Decide(String, Decision),
}

impl Ask {
    /// Whether it is asked anew on each connection.
    pub const fn comes_again(&self) -> bool {
        matches!(
            self,
            Self::Follow
                | Self::History(..)
                | Self::Row(_)
                | Self::Send(_)
                | Self::Commands
                | Self::Approvals
        )
    }
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the gateway.
    Request(Ask, &'static str, Value),
    /// Show what is so many lines further down.
    Scroll(isize),
    /// Show so many pages further down.
    Page(isize),
    /// Show the begin.
    Top,
    /// Show what is new.
    Bottom,
    /// Try to connect now.
    Connect,
    /// Give the terminal back for a while.
    Suspend,
    /// Leave.
    Quit,
}

/// The connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// It is there.
    Up,
    /// It is not.
    Down {
        /// Why.
        why: String,
        /// When the next try is, in milliseconds since the epoch.
        retry_at: u64,
        /// How many tries failed.
        tries: u32,
    },
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) key: String,
    pub(super) session: String,
    pub(super) text: String,
}

/// The history that is being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) is_under_way: bool,
    /// Something happened that it may not have.
    pub(super) is_old: bool,
    /// Whether there is more than was read.
    pub(super) is_cut: bool,
}

impl Reading {
    pub(super) const fn begin(&mut self) {
        self.is_under_way = true;
        self.is_old = false;
    }

    /// It is there; gives whether something happened that it may not have.
    pub(super) const fn end(&mut self) -> bool {
        let is_old = self.is_old;
        self.is_under_way = false;
        self.is_old = false;
        is_old
    }
}

/// What covers the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overlay {
    /// Keys and commands; the first line that is shown.
    Help(usize),
    /// A choice.
    Picker(Picker),
}
