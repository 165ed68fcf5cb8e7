//! What the process is started with.
//!
//! Promises: what our side of the conversation depends on cannot be changed by
//! the configuration; nothing of the conversation is among the arguments.

use std::ffi::OsString;
use std::path::Path;

use super::super::{ModelRequest, ThinkingLevel};
use super::conversation::Known;
use crate::config::cli_backend::CliBackend;

/// Ours alone, without a value.
const OUR_SWITCHES: [&str; 4] = ["-p", "--print", "--verbose", "--include-partial-messages"];
/// Ours alone, with a value.
const OUR_OPTIONS: [&str; 6] = [
    "--output-format",
    "--input-format",
    "--permission-prompt-tool",
    "--session-id",
    "--resume",
    "--model",
];
/// Who says one of these wants more than text of it.
const TOOL_OPTIONS: [&str; 2] = ["--tools", "--mcp-config"];

/// All of them.
pub fn all(
    backend: &CliBackend,
    request: &ModelRequest,
    system: Option<&Path>,
    session: &Known,
) -> Vec<OsString> {
    let id = &request.model.id;
    let model = backend.model_aliases.get(id).unwrap_or(id);
    let thinking = thinking_tokens(request).to_string();
    let mut all: Vec<OsString> = [
        "--output-format",
        "stream-json",
        "--input-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool",
        "stdio",
        "--max-thinking-tokens",
        &thinking,
        "--model",
        model,
        if session.messages == 0 { "--session-id" } else { "--resume" },
        &session.id,
        // What a client says is for the model, never a command for the CLI.
        "--disable-slash-commands",
    ]
    .map(OsString::from)
    .into();
    if let Some(file) = system {
        all.extend(["--system-prompt-file".into(), file.as_os_str().to_owned()]);
    }
    let own = configured(&backend.args);
    let uses_tools = own.iter().any(|it| TOOL_OPTIONS.iter().any(|option| is(it, option)));
    if !uses_tools {
        all.extend(["--tools", "", "--strict-mcp-config"].map(OsString::from));
    }
    all.extend(own.into_iter().map(OsString::from));
    all
}

/// Those of the configuration, without ours.
fn configured(args: &[String]) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut rest = args.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        if OUR_OPTIONS.contains(&arg) {
            rest.next();
        } else if !OUR_SWITCHES.contains(&arg) && !OUR_OPTIONS.iter().any(|option| is(arg, option))
        {
            kept.push(arg);
        }
    }
    kept
}

/// `--option` or `--option=value`.
fn is(arg: &str, option: &str) -> bool {
    arg.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

fn thinking_tokens(request: &ModelRequest) -> u32 {
    match request.thinking {
        _ if !request.model.reasoning => 0,
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High => 16_384,
        // The most that the CLI takes.
        ThinkingLevel::XHigh => 31_999,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_an_openclaw_file_do_not_change_how_we_talk() {
        let args = [
            "-p",
            "--output-format",
            "json",
            "--permission-mode",
            "acceptEdits",
            "--model=x",
            "--resume",
            "{sessionId}",
            "--tools=Read",
        ];
        let args = args.map(str::to_owned);
        assert_eq!(configured(&args), ["--permission-mode", "acceptEdits", "--tools=Read"]);
    }
}
