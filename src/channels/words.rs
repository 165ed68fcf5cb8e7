//! Words that begin a command of a chat.
//!
//! Owns: which messages of a group are for the gateway itself. The table of commands is out
//! of reach from here; `tests/scenario/channels/groups.rs` holds the two together. Must not:
//! know what a command does.

use std::sync::LazyLock;

/// What commands are called, without their slash, those that are not offered among them, and
/// `abort`, which stops a run.
pub const COMMAND_WORDS: &[&str] = &[
    "abort",
    "acp",
    "activation",
    "agents",
    "allowlist",
    "approve",
    "bash",
    "btw",
    "commands",
    "compact",
    "config",
    "context",
    "crestodian",
    "debug",
    "diagnostics",
    "elev",
    "elevated",
    "exec",
    "export",
    "export-session",
    "export-trajectory",
    "fast",
    "focus",
    "help",
    "id",
    "kill",
    "mcp",
    "model",
    "models",
    "new",
    "plugins",
    "queue",
    "reason",
    "reasoning",
    "reset",
    "restart",
    "send",
    "session",
    "side",
    "skill",
    "status",
    "steer",
    "stop",
    "subagents",
    "t",
    "tasks",
    "tell",
    "think",
    "thinking",
    "tools",
    "trace",
    "trajectory",
    "tts",
    "unfocus",
    "usage",
    "v",
    "verbose",
    "whoami",
];

/// Words that stop a run where they are all that is said, as far as a skill could be called so;
/// with a slash they are no commands.
pub const STOP_WORDS: &[&str] =
    &["anhalten", "arrete", "detente", "esc", "exit", "halt", "interrupt", "pare", "stopp", "wait"];

/// Words that no skill is called by in a chat.
pub(super) static RESERVED: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| [COMMAND_WORDS, STOP_WORDS].concat());

/// Whether a message begins with the word of a command.
pub(super) fn is_command(text: &str) -> bool {
    let Some(said) = text.trim_start().strip_prefix('/') else { return false };
    let word = said.split(|c: char| c == ':' || c.is_whitespace()).next().unwrap_or_default();
    COMMAND_WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_alone_makes_no_command() {
        for command in ["/status", " /STATUS now", "/think:high", "/new\nbegin", "/kill 1"] {
            assert!(is_command(command), "{command}");
        }
        for text in ["/tmp is full", "/", "// a comment", "/statuses", "/wait", "status", ""] {
            assert!(!is_command(text), "{text}");
        }
    }
}
