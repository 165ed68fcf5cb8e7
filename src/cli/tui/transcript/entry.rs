//! One thing that is shown.

/// How a notice is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Note,
    /// Something failed.
    Error,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    /// It runs.
    Running,
    /// It waits for a person.
    Waiting,
    /// It has a result.
    Done,
    /// It has a result that is an error.
    Failed,
    /// Its run ended without a result.
    Lost,
}

/// A tool call and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// What it is called with, on one line.
    pub args: String,
    /// What it gave, as far as it is known.
    pub output: String,
    /// How far it is.
    pub state: ToolState,
}

/// What an entry is. Texts are clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// What the user said.
    User {
        /// The words.
        text: String,
        /// Whether the gateway has not taken it, or it waits for its turn.
        is_waiting: bool,
        /// Whether it is for the gateway and not for the model.
        is_command: bool,
    },
    /// What the agent said, in Markdown.
    Answer(String),
    /// What the model thought.
    Thought(String),
    /// A tool call.
    Tool(Tool),
    /// Something about the session.
    Notice {
        /// How it is meant.
        level: Level,
        /// The words.
        text: String,
    },
    /// An answer that is not kept.
    Aside(String),
    /// Something happened here to the history itself.
    Mark(String),
}

/// An entry with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Names it, also after the history was read again.
    pub id: String,
    /// Changes with the body.
    pub rev: u64,
    /// What it is.
    pub body: Body,
}

impl Entry {
    /// Whether the history has it.
    pub fn is_of_history(&self) -> bool {
        self.id.starts_with("m:") || self.id.starts_with("t:")
    }

    /// Whether only this screen has it and keeps it.
    pub fn is_only_here(&self) -> bool {
        self.id.starts_with("n:") || self.id.starts_with("c:")
    }
}
