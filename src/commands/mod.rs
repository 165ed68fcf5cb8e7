//! Slash commands: lines of a chat that the gateway answers itself.
//!
//! Owns: which commands there are, and settings inside of messages. Promises: a
//! command does nothing that its sender could not do by a method; it calls those
//! methods in his name. A line that is no command goes to the model. Must not:
//! know how the line came in.

mod approve;
mod btw;
mod compact;
mod config;
mod context;
mod directives;
mod exec;
mod help;
mod list;
mod model;
mod queue;
mod restart;
mod session;
mod settings;
mod skill;
mod status;
mod stop_words;
mod subagents;
mod table;
mod tasks;
mod tools;
mod unoffered;

pub use list::rows;
pub use stop_words::is_stop_word;
pub use table::{COMMANDS, Category, Spec, offered};

use serde_json::Value;

use crate::agent::{CommandAnswer, RunsParts};
use crate::config::QueueMode;
use crate::protocol::ErrorShape;
use crate::providers::ThinkingLevel;
use crate::registry::{Ctx, Person};
use crate::sessions::{SessionKey, WEBCHAT};
use crate::support::BoxFuture;

use directives::Directive;
use table::{Action, Setting};

/// Whether a message to a session is for the gateway itself: a command, or the name of a
/// skill. It may still be text for the model, as a command with words that it does not take.
pub async fn is_command(message: &str, parts: &RunsParts, key: &SessionKey) -> bool {
    names_command(message) || skill::is_named(message, parts, key).await
}

/// Whether a message begins with what a command is called by, or stops what runs.
fn names_command(message: &str) -> bool {
    let message = message.trim();
    if !message.starts_with('/') {
        return false;
    }
    let (word, ..) = taken_apart(message);
    [message, word].into_iter().any(is_stop_word)
        || table::find(word).is_some()
        || unoffered::names().any(|name| name.eq_ignore_ascii_case(word))
}

/// What a command is called by, what is glued to it with a colon, and what follows.
fn taken_apart(message: &str) -> (&str, &str, &str) {
    let (word, rest) = message.split_once(char::is_whitespace).unwrap_or((message, ""));
    let (name, glued) = word.split_once(':').unwrap_or((word, ""));
    (name, glued, rest)
}

/// What a message is for.
pub enum Meaning {
    /// The model: this text, with a level of thinking if the message names one.
    Plain(String, Option<ThinkingLevel>),
    /// The runs of the session, which end.
    Stop,
    /// The gateway.
    Command(Command),
}

impl Meaning {
    /// What a message to a session is for. One with attachments is always for
    /// the model.
    pub async fn of(message: &str, has_attachments: bool, cx: &Ctx, key: &SessionKey) -> Self {
        match Self::of_words(message, has_attachments, cx, key).await {
            Self::Plain(text, thinking) => Self::Plain(spoken(cx, text), thinking),
            other => other,
        }
    }

    async fn of_words(message: &str, has_attachments: bool, cx: &Ctx, key: &SessionKey) -> Self {
        if !has_attachments && is_stop_word(message) {
            return Self::Stop;
        }
        if !has_attachments && message.trim_start().starts_with('/') {
            if let Some(command) = Command::parse(message) {
                return Self::Command(command);
            }
            if let Some(meaning) = skill::meaning(message, cx, key).await {
                return meaning;
            }
        }
        match directives::thinking(message) {
            Some((level, text)) => Self::Plain(text, Some(level)),
            None => Self::Plain(message.to_owned(), None),
        }
    }
}

/// A command of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// One of the table, and what follows it.
    One(Action, String),
    /// Nothing but settings.
    Settings(Vec<Directive>),
    /// The tool that a skill names.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Nothing but this is said to it: the gateway does not have what it names.
    Said(String),
    /// It would change who may write.
    Allowlist,
}

/// What doing a command comes to.
pub enum Work {
    /// Something quick, done before the sender is answered: what comes after it
    /// finds it done.
    AtOnce(BoxFuture<'static, CommandAnswer>),
    /// Something that asks a model, done after the sender is answered.
    Later(BoxFuture<'static, CommandAnswer>),
    /// A message for the model, and what is done before it; an error of that is
    /// the answer.
    Message(Message),
}

/// A message for the model that came with a command.
pub struct Message {
    /// What the model is told.
    pub text: String,
    /// What becomes of it while a run is active; the session's rule when absent.
    pub mode: Option<QueueMode>,
    /// What is done before.
    pub first: BoxFuture<'static, Result<(), String>>,
}

impl Command {
    /// The command that a message is, if any.
    pub fn parse(message: &str) -> Option<Self> {
        let message = message.trim();
        if !message.starts_with('/') {
            return None;
        }
        if let Some(settings) = directives::alone(message) {
            return Some(Self::Settings(settings));
        }
        let (name, glued, rest) = taken_apart(message);
        let args = [glued, " ", rest].concat().trim().to_owned();
        if name.eq_ignore_ascii_case(unoffered::ALLOWLIST) {
            return Some(Self::Allowlist);
        }
        let Some(spec) = table::find(name) else {
            return unoffered::told(name, !args.is_empty()).map(Self::Said);
        };
        // A level and more words are a message with a directive in it.
        let is_message = spec.action == Some(Action::Setting(Setting::Think))
            && directives::thinking(message).is_some();
        if is_message || (!spec.takes_args && !args.is_empty()) {
            return None;
        }
        Some(Self::One(spec.action?, args))
    }

    /// What may be shown and kept of the message: values of the config may be
    /// secrets.
    pub fn line(&self, message: &str) -> String {
        match self {
            Self::One(Action::Config, args) => config::line(args),
            _ => message.to_owned(),
        }
    }

    /// Whether the session begins anew by it.
    pub const fn begins_anew(&self) -> bool {
        matches!(self, Self::One(Action::New | Action::Reset, _))
    }

    /// What is to be done, by who says it in this channel. `cx` is in the lane of the session.
    pub fn work(self, cx: &Ctx, key: &SessionKey, came_by: Option<&str>) -> Work {
        // What is done later is no longer in the lane, and keeps nothing of this request,
        // which keeps it until that is answered.
        let (later, cx, key) = (cx.apart(), cx.within_lane(key), key.clone());
        let came_by = came_by.map(str::to_owned);
        let (action, args) = match self {
            Self::Settings(all) => {
                return soon(async move { settings::change(&all, &cx, &key).await });
            }
            Self::Tool { name, arguments } => {
                return Work::Later(Box::pin(async move {
                    CommandAnswer::Note(skill::call(&name, &arguments, &later, &key).await)
                }));
            }
            Self::Said(said) => return soon(async { said }),
            Self::Allowlist => {
                let said = unoffered::no_allowlist(came_by.as_deref().unwrap_or(WEBCHAT));
                return soon(async { said });
            }
            Self::One(action, args) => (action, args),
        };
        match action {
            Action::Tasks => soon(async move { tasks::run(&cx, &key) }),
            Action::Subagents => soon(async move { subagents::run(&args, &cx, &key).await }),
            Action::Help => soon(async move { help::short(&cx) }),
            Action::Commands => soon(async move { help::long(&cx) }),
            Action::Tools => soon(async move { tools::run(&args, &cx, &key).await }),
            Action::Status => soon(async move { status::run(&cx, &key, came_by.as_deref()).await }),
            Action::Whoami => soon(async move { status::whoami(&cx) }),
            Action::Approve => soon(async move { approve::run(&args, &cx).await }),
            Action::Context => soon(async move { context::run(&args, &cx, &key).await }),
            Action::Config => soon(async move { config::run(&args, &cx).await }),
            Action::Restart => soon(async move { restart::run(&cx).await }),
            Action::Setting(setting) => {
                soon(async move { settings::run(setting, &args, &cx, &key).await })
            }
            Action::Exec => soon(async move { exec::run(&args, &cx, &key).await }),
            Action::Model => soon(async move { model::run(&args, &cx, &key).await }),
            Action::Models => soon(async move { model::list(&args, &cx).await }),
            Action::Queue => {
                soon(async move { queue::run(&args, &cx, &key, came_by.as_deref()).await })
            }
            Action::Steer => session::steer(args, &cx, key),
            Action::New => session::begin("new", &args, cx, key),
            Action::Reset => session::begin("reset", &args, cx, key),
            Action::Compact => Work::Later(Box::pin(async move {
                CommandAnswer::Note(compact::run(&args, &later, &key).await)
            })),
            Action::Btw if args.is_empty() => soon(async { btw::USAGE.to_owned() }),
            Action::Btw => Work::Later(Box::pin(async move { btw::run(args, &later, &key).await })),
        }
    }
}

fn soon(said: impl Future<Output = String> + Send + 'static) -> Work {
    Work::AtOnce(Box::pin(async move { CommandAnswer::Note(said.await) }))
}

/// What the model reads of a message, with what is to be read before its words.
fn spoken(cx: &Ctx, text: String) -> String {
    match cx.caller.before() {
        Some(before) if text.is_empty() => before.to_owned(),
        Some(before) => format!("{before}\n{text}"),
        None => text,
    }
}

/// What is said of a command that was refused or failed.
fn refusal(cx: &Ctx, command: &str, error: &ErrorShape) -> String {
    format!("⚠️ {command}: {}", reason(cx, error))
}

/// Why it was; to who has too few rights in a chat, also how they come by them.
fn reason(cx: &Ctx, error: &ErrorShape) -> String {
    let message = &error.message;
    match cx.caller.person.as_deref() {
        Some(Person { channel, id, .. }) if error.is_lack() => format!(
            "{message}. Whoever runs the gateway gives you that right with \"{channel}:{id}\" in \
             commands.ownerAllowFrom of its config."
        ),
        _ => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_alone_makes_no_command() {
        for command in ["/status", " /STATUS now", "/think:high", "/new\nbegin", "/kill 1"] {
            assert!(names_command(command), "{command}");
        }
        for command in ["/ABORT", "/abort!", "/abort now", "/allowlist", "/Export-Session x"] {
            assert!(names_command(command), "{command}");
        }
        for text in ["/tmp is full", "/", "// a comment", "/statuses", "/wait", "status", ""] {
            assert!(!names_command(text), "{text}");
        }
    }
}
