//! The tool `exec`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::request::Arguments;
use super::{told, words};
use crate::agent::approvals::{ApprovalNews, Denial};
use crate::agent::exec::{Cause, Ending, Foreground, How, Process, StartError, tail};
use crate::agent::runs::Runs;
use crate::agent::tools::{Tool, ToolContext, ToolKind, ToolNews, ToolOutput};
use crate::providers::ToolSpec;
use crate::support::BoxFuture;

/// How often clients are told of new output: more often nobody reads it.
const UPDATE_EVERY: Duration = Duration::from_millis(100);
/// Characters of the output in a note on a command that has ended.
const MAX_NOTED: usize = 400;

/// The tool.
pub struct Exec;

impl Tool for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Command
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Run a shell command now. A command that takes longer than yieldMs goes \
                on in the background; look after it with the process tool (poll, log, write, \
                kill). Set pty=true for programs that need a terminal. Do not wait with sleep or \
                loops for something that is due later; use cron for that."
                .into(),
            parameters: parameters(),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let workdir = arguments["workdir"].as_str().map(str::trim).filter(|it| !it.is_empty());
        words::describe(arguments["command"].as_str()?, workdir)
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(run(cx, arguments))
    }
}

async fn run(cx: &ToolContext, arguments: &Value) -> ToolOutput {
    let processes = &cx.parts().processes;
    let settings = processes.settings();
    let wanted = Arguments::read(arguments)
        .and_then(|wanted| wanted.request(cx, settings).map(|request| (wanted, request)));
    let (wanted, request) = match wanted {
        Ok(wanted) => wanted,
        Err(text) => return ToolOutput::error(text),
    };
    let permit = match cx.parts().approvals.authorize(&request, &News(cx)).await {
        Ok(permit) => permit,
        Err(denial) => return denied(denial),
    };
    let time_limit = wanted.time_limit(settings);
    let how = How { has_terminal: wanted.has_terminal(), time_limit };
    let process = match processes.start(permit, &request, how).await {
        Ok(process) => Foreground(process),
        Err(StartError::Denied(denial)) => return denied(denial),
        Err(error) => return ToolOutput::error(error.to_string()),
    };
    match wait(cx, &process.0, wanted.patience(settings)).await {
        Some(ending) => {
            let limit = time_limit.map(|limit| limit.as_secs());
            told::ended(&process.0, &ending, limit)
        }
        None => {
            process.0.put_to_background();
            note_its_end(&cx.runs, &process.0);
            told::goes_on(&process.0)
        }
    }
}

/// Questions about a command are told to those who follow its call.
struct News<'a>(&'a ToolContext);

impl ApprovalNews for News<'_> {
    fn tell(&self, data: Value) -> BoxFuture<'_, ()> {
        Box::pin(self.0.tell(ToolNews::Approval(data)))
    }
}

fn denied(denial: Denial) -> ToolOutput {
    ToolOutput { details: Some(denial.details), is_error: true, ..ToolOutput::text(denial.text) }
}

/// Waits for the end of a command, and tells of what it says. `None` when it
/// takes too long.
async fn wait(cx: &ToolContext, process: &Process, patience: Duration) -> Option<Ending> {
    let give_up = Instant::now() + patience;
    let mut news = process.follow();
    let (mut told_bytes, mut due) = (0, Instant::now());
    loop {
        let (ending, total) = process.look(|state| (state.ending.clone(), state.output.total()));
        if total > told_bytes && (ending.is_some() || Instant::now() >= due) {
            // The first line by itself, at once, as programs write their lines.
            let (shown, bytes) = told::running(process, told_bytes == 0);
            cx.tell(ToolNews::Update(shown)).await;
            (told_bytes, due) = (bytes, Instant::now() + UPDATE_EVERY);
            continue;
        }
        if ending.is_some() {
            return ending;
        }
        if patience.is_zero() {
            // The process id is known as soon as the keeper has said so.
            let _ = timeout_at(give_up + UPDATE_EVERY, news.changed()).await;
            return None;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return None },
            () = sleep_until(due), if total > told_bytes => {}
            () = sleep_until(give_up) => return None,
        }
    }
}

/// Notes the end of a command that nobody waits for, for the next turn of its
/// session.
fn note_its_end(runs: &Arc<Runs>, process: &Arc<Process>) {
    let settings = runs.parts().processes.settings();
    if !settings.notify_on_exit {
        return;
    }
    let tells_all = settings.notify_on_empty_success;
    let (runs, process) = (Arc::clone(runs), Arc::clone(process));
    let tasks = runs.parts().tasks.clone();
    tasks.spawn("exec-note", async move {
        let ending = process.ended().await;
        let said = process.look(|state| {
            let said: Vec<_> = tail(state.output.text(), MAX_NOTED).split_whitespace().collect();
            said.join(" ")
        });
        let is_dull = ending.is_completed() && said.is_empty() && !tells_all;
        // Who had it killed knows of it.
        if is_dull || ending.cause == Cause::Killed {
            return;
        }
        let (id, label) = (&process.id, told::exit_label(&ending));
        let word = if ending.is_completed() { "completed" } else { "failed" };
        let more = if said.is_empty() { String::new() } else { format!(" :: {said}") };
        runs.parts().notices.add(&process.session, &format!("Exec {word} ({id}, {label}){more}"));
    });
}

fn parameters() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "number", "description": about});
    let flag = |about: &str| json!({"type": "boolean", "description": about});
    json!({
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": text("The shell command"),
            "workdir": text("Directory to run in (default: the workspace)"),
            "env": {"type": "object", "additionalProperties": {"type": "string"},
                "description": "Variables to set for it"},
            "yieldMs": number("Milliseconds to wait before it goes on in the background (default 10000)"),
            "background": flag("Go on in the background at once"),
            "timeout": number("Seconds until it is ended (default 1800; 0 for none)"),
            "pty": flag("Run it in a terminal, for programs that need one"),
            "elevated": flag("Without effect: commands run with the rights of the gateway"),
            "host": text("Where to run it: auto, gateway or sandbox"),
            "security": text("Be stricter than the policy: deny, allowlist or full"),
            "ask": text("Ask a person more often than the policy does: off, on-miss or always"),
            "node": text("Node for host=node"),
        },
    })
}
