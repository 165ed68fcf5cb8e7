//! What a model is told of a command.
//!
//! Owns: the texts and details, which are the original's where those were
//! recorded. Must not: change the command.

use std::fmt::Write as _;

use serde_json::Value;

use super::words;
use crate::agent::exec::{Cause, Ending, MAX_FILE, Process, State};
use crate::agent::tools::ToolOutput;
use crate::support::{json, without_nulls};

/// Signals that have a name; the rest are numbers.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// What a command has to show while it runs, and how many bytes of all that it
/// has said that is. `is_first` shows the first line only.
pub fn running(process: &Process, is_first: bool) -> (ToolOutput, usize) {
    process.look(|state| {
        let (tail, total) = (state.output.tail(), state.output.total());
        let line = tail.find('\n').map(|end| end + 1).filter(|_| is_first && tail.len() == total);
        let shown = line.and_then(|end| tail.get(..end)).unwrap_or(tail);
        let details = json!({"status": "running", "sessionId": process.id, "pid": state.pid,
            "startedAt": process.started_at, "cwd": process.cwd, "tail": shown});
        let output =
            ToolOutput { details: Some(without_nulls(details)), ..ToolOutput::text(shown) };
        (output, line.unwrap_or(total))
    })
}

/// A command goes on while the model does something else.
pub fn goes_on(process: &Process) -> ToolOutput {
    let (shown, _) = running(process, false);
    let pid = process.look(|state| state.pid).map_or("n/a".into(), |pid| pid.to_string());
    let text = format!(
        "Command still running (session {}, pid {pid}). \
         Use process (list/poll/log/write/kill/clear/remove) for follow-up.",
        process.id
    );
    ToolOutput { details: shown.details, ..ToolOutput::text(text) }
}

/// A command that somebody has waited for has ended.
pub fn ended(process: &Process, ending: &Ending, limit: Option<u64>) -> ToolOutput {
    process.look(|state| {
        let said = said(state);
        let duration = ending.at.saturating_sub(process.started_at);
        let how = how_it_ended(process, state, ending, limit);
        let aggregated = join(&said, &how);
        if ending.is_completed() {
            let text = if aggregated.is_empty() { "(no output)" } else { &aggregated };
            let details = json!({"status": "completed", "exitCode": ending.code.unwrap_or(0),
                "durationMs": duration, "aggregated": aggregated, "cwd": process.cwd});
            return ToolOutput { details: Some(details), ..ToolOutput::text(text) };
        }
        let details = json!({"status": "failed", "exitCode": ending.code,
            "durationMs": duration, "aggregated": said, "timedOut": ending.cause == Cause::Timeout,
            "cwd": process.cwd});
        ToolOutput { details: Some(details), is_error: true, ..ToolOutput::text(aggregated) }
    })
}

/// What was said, and what of it is left out.
pub fn said(state: &State) -> String {
    format!("{}{}", left_out(state), state.output.text().trim())
}

/// A note on what memory does not hold; empty when it holds everything.
pub fn left_out(state: &State) -> String {
    match (state.output.left_out(), &state.full_output) {
        (0, _) => String::new(),
        (bytes, Some(path)) => {
            let what = if state.output.total() > MAX_FILE {
                format!("the first {} MB of it are", MAX_FILE / 1024 / 1024)
            } else {
                "all of it is".into()
            };
            format!("[the first {bytes} bytes are left out; {what} in {}]\n\n", path.display())
        }
        (bytes, None) => format!("[the first {bytes} bytes are left out]\n\n"),
    }
}

fn how_it_ended(process: &Process, state: &State, ending: &Ending, limit: Option<u64>) -> String {
    let mut text = match (&ending.cause, ending.signal, ending.code) {
        (Cause::Timeout, ..) => format!(
            "Command timed out after {} seconds. If it needs longer, run it with a higher timeout \
             or in the background.",
            limit.unwrap_or_default()
        ),
        (Cause::Failed(error), ..) => format!("Command could not be started: {error}"),
        (Cause::Lost, ..) => "Command aborted before exit code was captured".into(),
        (_, Some(signal), _) => format!("Command aborted by signal {}", signal_name(signal)),
        (Cause::Killed, ..) => "Command was ended".into(),
        (_, None, Some(code)) if code != 0 => format!("(Command exited with code {code})"),
        _ => String::new(),
    };
    if let Some(note) = left_behind(process, state) {
        text = join(&text, &note);
    }
    text
}

/// A note on what still runs of a command that has ended, if anything does.
pub fn left_behind(process: &Process, state: &State) -> Option<String> {
    let id = &process.id;
    state.leaves_behind.then(|| {
        format!("(Processes that it started are still running; process kill {id} ends them)")
    })
}

fn join(first: &str, second: &str) -> String {
    let gap = if first.is_empty() || second.is_empty() { "" } else { "\n\n" };
    format!("{first}{gap}{second}")
}

/// `SIGTERM`, or its number.
pub fn signal_name(signal: i32) -> String {
    let known = SIGNALS.iter().find(|(number, _)| *number == signal);
    known.map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}

/// `code 3` or `signal SIGTERM`.
pub fn exit_label(ending: &Ending) -> String {
    match (ending.signal, ending.code) {
        (Some(signal), _) => format!("signal {}", signal_name(signal)),
        (None, code) => format!("code {}", code.map_or("unknown".into(), |code| code.to_string())),
    }
}

/// The word for how a command stands.
pub fn status(state: &State) -> &'static str {
    match &state.ending {
        None => "running",
        Some(ending) if ending.is_completed() => "completed",
        Some(_) => "failed",
    }
}

/// What is known of a command that has ended, for `details`.
pub fn ending_details(process: &Process, state: &State) -> Value {
    let ending = state.ending.as_ref();
    without_nulls(json!({
        "status": status(state),
        "sessionId": process.id,
        "exitCode": ending.and_then(|ending| ending.code),
        "exitSignal": ending.and_then(|ending| ending.signal).map(signal_name),
        "timedOut": ending.map(|ending| ending.cause == Cause::Timeout),
        "leavesBehind": state.leaves_behind.then_some(true),
        "name": words::name(&process.command),
    }))
}

/// `1h5m`, `3m7s`, `12s` or `250ms`.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    for (count, unit) in [(hours, "h"), (minutes, "m"), (rest, "s")] {
        if count > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{count}{unit}");
        }
    }
    if text.is_empty() { format!("{milliseconds}ms") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_no_room_for_everything_is_not_said_to_hold_it() {
        let mut state = State { full_output: Some("/all.log".into()), ..State::default() };
        let piece = "x".repeat(1024 * 1024);
        for _ in 0..64 {
            state.output.push(&piece);
        }
        let note = left_out(&state);
        assert!(note.ends_with("; all of it is in /all.log]\n\n"), "{note}");
        state.output.push("x");
        let note = left_out(&state);
        assert!(note.ends_with("; the first 64 MB of it are in /all.log]\n\n"), "{note}");
    }
}
