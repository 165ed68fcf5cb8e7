//! Slash commands of the action chat.
//!
//! Owns: which there are, and what they say: the words of the dialect, which differ
//! from those of other chats (`crate::commands`). Promises: a command does nothing
//! that its sender could not do by a method; what this gateway does not offer, it
//! says so. A line that is no command goes to the model. Must not: keep what is said
//! in a transcript.

mod config;
mod extras;
mod memory;
mod models;
mod schedules;
mod sessions;
mod system;

use crate::protocol::ErrorShape;
use crate::registry::Ctx;
use crate::sessions::SessionKey;

use super::book::Session;
use super::lockdown;

/// One answer of a command; a `done` follows each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What a `message` frame says.
    pub content: String,
    /// The conversation that the connection is in from now on, when the command
    /// began one.
    pub moved: Option<Session>,
}

impl From<String> for Reply {
    fn from(content: String) -> Self {
        Self { content, moved: None }
    }
}

/// A command of the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    New,
    Model,
    Models,
    Status,
    Session,
    Sessions,
    Change,
    Clear,
    Config,
    Skills,
    AddSkill,
    RemoveSkill,
    Plugins,
    Plugin,
    Mcp,
    Schedules,
    Schedule,
    Profile,
    Channels,
    Phone,
    Call,
    Preflight,
    Lockdown,
    Help,
}

const COMMANDS: [(&str, Command); 24] = [
    ("/new", Command::New),
    ("/model", Command::Model),
    ("/models", Command::Models),
    ("/status", Command::Status),
    ("/session", Command::Session),
    ("/sessions", Command::Sessions),
    ("/change", Command::Change),
    ("/clear", Command::Clear),
    ("/config", Command::Config),
    ("/skills", Command::Skills),
    ("/addskill", Command::AddSkill),
    ("/removeskill", Command::RemoveSkill),
    ("/plugins", Command::Plugins),
    ("/plugin", Command::Plugin),
    ("/mcp", Command::Mcp),
    ("/schedules", Command::Schedules),
    ("/schedule", Command::Schedule),
    ("/profile", Command::Profile),
    ("/channels", Command::Channels),
    ("/phone", Command::Phone),
    ("/call", Command::Call),
    ("/preflight", Command::Preflight),
    ("/lockdown", Command::Lockdown),
    ("/help", Command::Help),
];

/// The command that a text is, and what follows it as it was written.
fn parse(text: &str) -> Option<(Command, &str)> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.to_lowercase();
    let (_, command) = COMMANDS.iter().find(|(name, _)| *name == word)?;
    Some((*command, rest.trim()))
}

/// Does what a text commands, in the name of its sender; `session` is the
/// conversation that he is in. `None` for what is no command: it is for the model.
///
/// In lock down mode every text is answered here: with what
/// `/lockdown` says, or with [`lockdown::TOLD`].
pub async fn run(cx: &Ctx, session: Option<&SessionKey>, text: &str) -> Option<Vec<Reply>> {
    let parsed = parse(text);
    let is_key = matches!(parsed, Some((Command::Lockdown, _)));
    if !is_key && lockdown::is_on(&cx.services.settings.now()) {
        return Some(vec![lockdown::TOLD.to_owned().into()]);
    }
    let (command, args) = parsed?;
    // Answers that begin a conversation or are several.
    let said = match command {
        Command::New => return Some(vec![sessions::begin(cx).await]),
        Command::Model => return Some(vec![models::model(cx, session, args).await]),
        Command::AddSkill => return Some(extras::add_skill(cx, args).await),
        Command::Models => models::list(cx, session).await,
        Command::Status => system::status(cx, session).await,
        Command::Session => sessions::session(cx, session, args).await,
        Command::Sessions => sessions::sessions(cx, args).await,
        Command::Change => sessions::recent(cx).await,
        Command::Clear => memory::clear(cx, session).await,
        Command::Config => config::run(cx, session, args).await,
        Command::Skills => extras::skills(cx).await,
        Command::RemoveSkill => extras::remove_skill(cx, args).await,
        Command::Plugins => Ok(extras::PLUGINS.to_owned()),
        Command::Plugin => Ok(extras::plugin(args)),
        Command::Mcp => extras::mcp(cx, args).await,
        Command::Schedules => schedules::list(cx).await,
        Command::Schedule => schedules::change(cx, session, args).await,
        Command::Profile => system::profile(cx).await,
        Command::Channels => system::channels(cx).await,
        Command::Phone | Command::Call => Ok(system::NO_PHONE.to_owned()),
        Command::Preflight => system::preflight(cx).await,
        Command::Lockdown => system::lock(cx, args).await,
        Command::Help => Ok(system::HELP.to_owned()),
    };
    Some(vec![said.unwrap_or_else(|error| refusal(&error)).into()])
}

/// What is said of a command that was refused or failed.
fn refusal(error: &ErrorShape) -> String {
    let message = &error.message;
    if message.starts_with("Error: ") { message.clone() } else { format!("Error: {message}") }
}

/// A time as the dialect lists it: date and minute, in UTC.
fn minute(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|it| jiff::Timestamp::from_millisecond(it).ok());
    time.map_or_else(|| "?".to_owned(), |time| format!("{time:.0}").chars().take(16).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_its_whole_first_word_in_any_case() {
        assert_eq!(parse("/NEW"), Some((Command::New, "")));
        assert_eq!(parse(" /Model  Openai/GPT-5 "), Some((Command::Model, "Openai/GPT-5")));
        assert_eq!(parse("/models"), Some((Command::Models, "")));
        assert_eq!(parse("/sessions clear"), Some((Command::Sessions, "clear")));
        for no_command in ["/newest", "/", "/modelx y", "new", "tell me of /new", "/unknown x", ""]
        {
            assert_eq!(parse(no_command), None, "{no_command}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for (name, _) in COMMANDS {
            assert!(system::HELP.contains(name), "{name}");
        }
    }

    #[test]
    fn times_are_cut_to_the_minute() {
        assert_eq!(minute(1_760_000_000_000), "2025-10-09T08:53");
    }
}
