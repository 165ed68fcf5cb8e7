//! The tool `process`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::keys::{Encoded, paste};
use super::{told, words};
use crate::agent::exec::launcher::MAX_INPUT;
use crate::agent::exec::{Process, Processes};
use crate::agent::tools::{Tool, ToolContext, ToolOutput};
use crate::providers::ToolSpec;
use crate::sessions::SessionKey;
use crate::support::{BoxFuture, json, reading};

/// Lines that `log` shows when nothing else is asked for, as in the original.
const DEFAULT_LINES: usize = 200;
/// Longest wait of `poll`, as in the original.
const MAX_POLL: f64 = 30_000.0;
/// A command that is silent for so long may wait for input, as in the original.
const INPUT_WAIT_MS: u64 = 15_000;
/// Characters of a name on the list.
const MAX_LABEL: usize = 80;

/// What can be done.
const ACTIONS: [&str; 10] =
    ["list", "poll", "log", "write", "send-keys", "submit", "paste", "kill", "clear", "remove"];

/// The tool.
pub struct ProcessTool;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Arguments {
    action: String,
    session_id: Option<String>,
    data: String,
    keys: Vec<String>,
    hex: Vec<String>,
    literal: String,
    text: String,
    bracketed: Option<bool>,
    eof: bool,
    offset: Option<f64>,
    limit: Option<f64>,
    timeout: Option<f64>,
}

impl Tool for ProcessTool {
    fn name(&self) -> &'static str {
        "process"
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Look after commands that exec has started and that go on in the \
                background: list, poll (new output), log (all output), write, send-keys, submit \
                and paste (input, with pty=true), kill, clear, remove."
                .into(),
            parameters: parameters(),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let action = arguments["action"].as_str()?;
        Some(match arguments["sessionId"].as_str() {
            Some(id) => format!("{action} {id}"),
            None => action.to_owned(),
        })
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(run(cx, arguments))
    }
}

async fn run(cx: &ToolContext, arguments: &Value) -> ToolOutput {
    let arguments: Arguments = match reading::of(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return failed(error.to_string()),
    };
    let processes = &cx.parts().processes;
    let now = || cx.parts().clock.now_ms();
    let action = arguments.action.as_str();
    if !ACTIONS.contains(&action) {
        return failed(format!("Unknown action {action}; one of {}.", ACTIONS.join(", ")));
    }
    if action == "list" {
        return list(processes, &cx.key, now());
    }
    let Some(id) = arguments.session_id.as_deref().filter(|id| !id.is_empty()) else {
        return failed("sessionId is required for this action.");
    };
    let Some(process) = processes.find(&cx.key, id) else {
        return failed(format!("No session found for {id}"));
    };
    if !process.look(|state| state.is_background) {
        return failed(format!("Session {id} is not backgrounded."));
    }
    match action {
        "poll" => {
            poll(&process, arguments.timeout).await;
            polled(&process, now())
        }
        "log" => log(&process, count(arguments.offset), count(arguments.limit), now()),
        "kill" => kill(&process),
        "clear" => clear(processes, &process),
        "remove" => remove(processes, &process),
        _ => write(&process, action, &arguments).await,
    }
}

fn failed(text: impl Into<String>) -> ToolOutput {
    let details = Some(json!({"status": "failed"}));
    ToolOutput { details, is_error: true, ..ToolOutput::text(text) }
}

fn done(text: String, details: Value) -> ToolOutput {
    ToolOutput { details: Some(details), ..ToolOutput::text(text) }
}

fn list(processes: &Processes, session: &SessionKey, now: u64) -> ToolOutput {
    let all = processes.of_session(session);
    let all: Vec<_> =
        all.into_iter().filter(|process| process.look(|state| state.is_background)).collect();
    let lines: Vec<_> = all.iter().map(|process| line(process, now)).collect();
    let rows: Vec<_> = all.iter().map(|process| row(process, now)).collect();
    let text =
        if lines.is_empty() { "No running or recent sessions.".into() } else { lines.join("\n") };
    done(text, json!({"status": "completed", "sessions": rows}))
}

fn line(process: &Process, now: u64) -> String {
    let (status, runtime, left) = process.look(|state| {
        let until = state.ending.as_ref().map_or(now, |ending| ending.at);
        let left = told::left_behind(process, state).map(|note| format!(" {note}"));
        (told::status(state), until.saturating_sub(process.started_at), left.unwrap_or_default())
    });
    let waits = if waits_for_input(process, now) { " [input-wait]" } else { "" };
    let name = words::cut_middle(&words::name(&process.command), MAX_LABEL);
    format!("{} {status:<9} {}{waits} :: {name}{left}", process.id, told::duration(runtime))
}

fn row(process: &Process, now: u64) -> Value {
    process.look(|state| {
        let until = state.ending.as_ref().map_or(now, |ending| ending.at);
        let mut row = told::ending_details(process, state);
        let more = json!({
            "startedAt": process.started_at,
            "runtimeMs": until.saturating_sub(process.started_at),
            "cwd": process.cwd,
            "command": process.command,
            "tail": state.output.tail(),
            "truncated": state.output.left_out() > 0,
        });
        extend(&mut row, more);
        match (&state.ending, state.pid) {
            (Some(ending), _) => extend(&mut row, json!({"endedAt": ending.at})),
            (None, Some(pid)) => extend(&mut row, json!({"pid": pid})),
            (None, None) => {}
        }
        row
    })
}

fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(members), Value::Object(more)) = (value, more) {
        members.extend(more);
    }
}

fn waits_for_input(process: &Process, now: u64) -> bool {
    let idle = now.saturating_sub(process.look(|state| state.last_output_at));
    process.is_writable() && idle >= INPUT_WAIT_MS
}

/// What is known of the input of a command that runs.
fn input_details(process: &Process, now: u64) -> Value {
    let last = process.look(|state| state.last_output_at);
    json!({"stdinWritable": process.is_writable(), "waitingForInput": waits_for_input(process, now),
        "idleMs": now.saturating_sub(last), "lastOutputAt": last})
}

fn input_hint(process: &Process, now: u64) -> Option<String> {
    let idle = now.saturating_sub(process.look(|state| state.last_output_at));
    waits_for_input(process, now).then(|| {
        format!(
            "No new output for {}; this session may be waiting for input. Use process write, \
             send-keys, submit, or paste to provide input.",
            told::duration(idle)
        )
    })
}

/// Waits for something to show.
async fn poll(process: &Process, timeout: Option<f64>) {
    let wait = timeout.unwrap_or_default().clamp(0.0, MAX_POLL);
    let limit = Instant::now() + Duration::from_secs_f64(wait / 1000.0);
    let mut news = process.follow();
    while process.look(|state| state.ending.is_none() && !state.output.has_unread()) {
        if !matches!(timeout_at(limit, news.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

fn polled(process: &Process, now: u64) -> ToolOutput {
    // First how it stands: what it says between the two is then new the next time,
    // and nothing is new after its end.
    let (ending, mut details, left) = process.look(|state| {
        let left = told::left_behind(process, state).map(|note| format!(" {note}"));
        (state.ending.clone(), told::ending_details(process, state), left.unwrap_or_default())
    });
    let (unread, is_cut) = process.take_unread();
    let unread = unread.trim();
    let shown = if unread.is_empty() { "(no new output)" } else { unread };
    let cut = process.look(|state| if is_cut { told::left_out(state) } else { String::new() });
    let aggregated = process.look(|state| state.output.text().trim().to_owned());
    extend(&mut details, json!({"aggregated": aggregated}));
    let after = if let Some(ending) = ending {
        format!("Process exited with {}.{left}", told::exit_label(&ending))
    } else {
        extend(&mut details, input_details(process, now));
        input_hint(process, now).unwrap_or_else(|| "Process still running.".into())
    };
    done(format!("{cut}{shown}\n\n{after}"), details)
}

fn log(process: &Process, offset: Option<usize>, limit: Option<usize>, now: u64) -> ToolOutput {
    let is_running = process.look(|state| state.ending.is_none());
    let (text, mut details) = process.look(|state| {
        let all: Vec<_> = state.output.text().lines().collect();
        let is_default = offset.is_none() && limit.is_none();
        let length = limit.unwrap_or(if is_default { DEFAULT_LINES } else { usize::MAX });
        let begin = offset.unwrap_or_else(|| all.len().saturating_sub(length));
        let shown: Vec<_> = all.iter().skip(begin).take(length).copied().collect();
        let mut text = told::left_out(state);
        text.push_str(&match shown.join("\n") {
            empty if empty.is_empty() && is_running => "(no output yet)".into(),
            empty if empty.is_empty() => "(no output recorded)".into(),
            shown => shown,
        });
        if is_default && all.len() > DEFAULT_LINES {
            let count = all.len();
            let note = format!("showing last {DEFAULT_LINES} of {count} lines");
            text = format!("{text}\n\n[{note}; pass offset/limit to page]");
        }
        let mut details = told::ending_details(process, state);
        let more = json!({"total": all.len(), "totalLines": all.len(),
            "totalChars": state.output.total(), "truncated": state.output.left_out() > 0});
        extend(&mut details, more);
        (text, details)
    });
    if !is_running {
        return done(text, details);
    }
    extend(&mut details, input_details(process, now));
    let hint = input_hint(process, now).map(|hint| format!("\n\n{hint}"));
    done(format!("{text}{}", hint.unwrap_or_default()), details)
}

/// A whole number that a model has given.
fn count(number: Option<f64>) -> Option<usize> {
    // Nobody keeps so many lines.
    const MOST: f64 = 1e9;
    number.map(|number| format!("{:.0}", number.clamp(0.0, MOST).floor()).parse().unwrap_or(0))
}

async fn write(process: &Process, action: &str, arguments: &Arguments) -> ToolOutput {
    let id = &process.id;
    if !process.is_writable() {
        return failed(format!(
            "Session {id} stdin is not writable. Only a running command with pty=true takes input."
        ));
    }
    let mut warnings = Vec::new();
    let bytes = match action {
        "write" => {
            let mut bytes = arguments.data.clone().into_bytes();
            // What a terminal takes for the end of the input.
            bytes.extend(arguments.eof.then_some(4));
            bytes
        }
        "submit" => b"\r".to_vec(),
        "paste" if arguments.text.is_empty() => return failed("No paste text provided."),
        "paste" => paste(&arguments.text, arguments.bracketed != Some(false)),
        _ => {
            let (hex, keys) = (texts(&arguments.hex), texts(&arguments.keys));
            let encoded = Encoded::new(&arguments.literal, &hex, &keys);
            if encoded.bytes.is_empty() {
                return failed("No key data provided.");
            }
            warnings = encoded.warnings;
            encoded.bytes
        }
    };
    let length = bytes.len();
    if length > MAX_INPUT {
        return failed(format!("At most {MAX_INPUT} bytes can be written at a time."));
    }
    if !process.write(bytes).await {
        return failed(format!("No active session found for {id}"));
    }
    let mut text = match action {
        "write" if arguments.eof => {
            format!("Wrote {} bytes to session {id} (end of input).", arguments.data.len())
        }
        "write" => format!("Wrote {length} bytes to session {id}."),
        "submit" => format!("Submitted session {id} (sent CR)."),
        "paste" => format!("Pasted {} chars to session {id}.", arguments.text.chars().count()),
        _ => format!("Sent {length} bytes to session {id}."),
    };
    if !warnings.is_empty() {
        text = format!("{text}\nWarnings:\n- {}", warnings.join("\n- "));
    }
    let name = words::name(&process.command);
    done(text, json!({"status": "running", "sessionId": id, "name": name}))
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

fn is_alive(process: &Process) -> bool {
    process.look(|state| state.ending.is_none() || state.leaves_behind)
}

fn kill(process: &Process) -> ToolOutput {
    let id = &process.id;
    if !is_alive(process) {
        return failed(format!("No active session found for {id}"));
    }
    process.end();
    let details = json!({"status": "completed", "name": words::name(&process.command)});
    done(format!("Termination requested for session {id}."), details)
}

fn clear(processes: &Processes, process: &Arc<Process>) -> ToolOutput {
    let id = &process.id;
    if process.look(|state| state.leaves_behind) {
        return failed(format!("Processes that {id} started still run; use kill or remove."));
    }
    if is_alive(process) {
        return failed(format!("No finished session found for {id}"));
    }
    processes.forget(id);
    done(format!("Cleared session {id}."), json!({"status": "completed"}))
}

fn remove(processes: &Processes, process: &Arc<Process>) -> ToolOutput {
    let (id, was_alive) = (&process.id, is_alive(process));
    processes.remove(process);
    if !was_alive {
        return done(format!("Removed session {id}."), json!({"status": "completed"}));
    }
    let details = json!({"status": "completed", "name": words::name(&process.command)});
    done(format!("Removed session {id} (termination requested)."), details)
}

fn parameters() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "number", "minimum": 0, "description": about});
    let texts =
        |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
    let flag = |about: &str| json!({"type": "boolean", "description": about});
    json!({
        "type": "object",
        "required": ["action"],
        "properties": {
            "action": {"type": "string", "enum": ACTIONS, "description": "What to do"},
            "sessionId": text("The command, for all actions but list"),
            "data": text("What to write, for write"),
            "keys": texts("Names of keys, for send-keys: Enter, Tab, Up, C-c, M-x …"),
            "hex": texts("Bytes in hex, for send-keys"),
            "literal": text("Text as it is, for send-keys"),
            "text": text("What to paste, for paste"),
            "bracketed": flag("Mark what is pasted as such (default true)"),
            "eof": flag("End the input after write"),
            "offset": number("First line, for log"),
            "limit": number("Most lines, for log"),
            "timeout": number("Milliseconds to wait for something new, for poll"),
        },
    })
}
