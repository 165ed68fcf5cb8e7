//! Slash commands: lines of a chat that the gateway answers itself.
//!
//! Owns: which commands there are. Promises: a command does nothing that its
//! sender could not do by a method. A line that is no command goes to the
//! model. Must not: know how the line came in.

mod queue;

use std::fmt::Write as _;

use crate::registry::Ctx;
use crate::sessions::SessionKey;

/// A command of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `/help`, `/commands`.
    Help,
    /// `/status`.
    Status,
    /// `/queue`, and what follows it.
    Queue(String),
}

impl Command {
    /// The command that a message is, if any.
    pub fn parse(message: &str) -> Option<Self> {
        let message = message.trim();
        let (word, rest) = message.split_once(char::is_whitespace).unwrap_or((message, ""));
        match word.to_lowercase().as_str() {
            "/help" | "/commands" => Some(Self::Help),
            "/status" => Some(Self::Status),
            "/queue" => Some(Self::Queue(rest.to_owned())),
            _ => None,
        }
    }

    /// Does it; the answer is Markdown for the chat.
    pub async fn run(self, cx: &Ctx, key: &SessionKey) -> String {
        match self {
            Self::Help => help(),
            Self::Status => status(cx, key).await,
            Self::Queue(words) => queue::run(&words, cx, key).await,
        }
    }
}

/// Messages that stop what runs, in any case and with any punctuation at the
/// end; those of the original.
const STOP_WORDS: [&str; 24] = [
    "stop",
    "/stop",
    "esc",
    "abort",
    "wait",
    "exit",
    "interrupt",
    "halt",
    "please stop",
    "stop please",
    "do not do that",
    "stop run",
    "stop agent",
    "stop the run",
    "stop the agent",
    "stopp",
    "anhalten",
    "aufhören",
    "arrête",
    "arrete",
    "detente",
    "pare",
    "やめて",
    "停止",
];

/// Whether a message only says to stop.
pub fn is_stop_word(message: &str) -> bool {
    let said = message.trim().to_lowercase();
    let said = said.trim_end_matches(|c: char| c.is_ascii_punctuation() || "。！…".contains(c));
    STOP_WORDS.contains(&said.trim())
}

fn help() -> String {
    [
        "**Commands**",
        "- `/status`: model, tokens and session",
        "- `/help`: this list",
        "- `/queue`: what happens to messages while an answer is being given",
        "- `/stop` (or just `stop`): stop the answer that is being given",
        "",
        "Everything else goes to the model.",
    ]
    .join("\n")
}

async fn status(cx: &Ctx, key: &SessionKey) -> String {
    let services = &cx.services;
    let entry = services.sessions.entry(key).await.ok().flatten();
    let model = services.models.of_session(key, entry.as_ref());
    let entry = entry.unwrap_or_default();
    let used = entry.total_tokens.unwrap_or_default();
    let window = model.context_window().unwrap_or_default().max(1);
    let (running, waiting) = services.runs.counts();
    let choice = services.models.default_choice();
    let why = if model.info.is_none() {
        "there is no such model"
    } else if choice.model.is(&model.name) {
        choice.reason.as_str()
    } else {
        "chosen for this session"
    };
    let mut text = format!("🦞 clawgate {}\n", env!("CARGO_PKG_VERSION"));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "⏱️ Uptime: {}", uptime(services.started.elapsed().as_secs()));
    let _ = writeln!(text, "🧠 Model: {} ({why})", model.name);
    let _ = writeln!(
        text,
        "🧮 Tokens: {} in / {} out · 💵 Cost: ${:.4}",
        entry.input_tokens.unwrap_or_default(),
        entry.output_tokens.unwrap_or_default(),
        entry.estimated_cost_usd.unwrap_or_default()
    );
    let _ = writeln!(text, "📚 Context: {used}/{window} ({}%)", used * 100 / window);
    let _ = writeln!(text, "🧵 Session: {key}");
    let _ = write!(text, "📌 Runs: {running} active, {waiting} waiting");
    text
}

fn uptime(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_text() {
        assert_eq!(Command::parse("/status"), Some(Command::Status));
        assert_eq!(Command::parse(" /HELP me"), Some(Command::Help));
        assert_eq!(Command::parse("/queue"), Some(Command::Queue(String::new())));
        assert_eq!(Command::parse("/queue a\tb "), Some(Command::Queue("a\tb".into())));
        for text in ["status", "/unknown", "", "see /status"] {
            assert_eq!(Command::parse(text), None, "{text}");
        }
    }

    #[test]
    fn stop_words_stand_alone() {
        for text in ["stop", " STOP! ", "/stop", "Please stop.", "停止。"] {
            assert!(is_stop_word(text), "{text}");
        }
        for text in ["stop the music", "don't stop", "", "!"] {
            assert!(!is_stop_word(text), "{text}");
        }
    }
}
