//! The tool `exec`.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use super::request::Arguments;
use super::{on_node, told, words};
use crate::agent::approvals::{Denial, ExecHost, ExecRequest, Lineage};
use crate::agent::exec::{Cause, Ending, Foreground, How, Process, StartError, tail};
use crate::agent::forget_command;
use crate::agent::tools::{CallNews, Tool, ToolContext, ToolKind, ToolNews, ToolOutput};
use crate::providers::ToolSpec;
use crate::sessions::SessionError;
use crate::store::Teller;
use crate::support::{BoxFuture, blocking, json};
use crate::telemetry::result_without_secrets;

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

/// What a call comes to.
struct Plan {
    request: ExecRequest,
    how: How,
    /// How long to wait for the end; `None` when nobody can look after the
    /// command later.
    patience: Option<Duration>,
}

/// Where a call goes.
enum Way {
    Here(Box<Plan>),
    /// With the node that the session is bound to.
    OnNode(Box<Arguments>, Option<String>),
}

async fn run(cx: &ToolContext, arguments: &Value) -> ToolOutput {
    let plan = match plan(cx, arguments).await {
        Ok(Way::Here(plan)) => plan,
        Ok(Way::OnNode(wanted, bound)) => {
            return on_node::run(cx, arguments, &wanted, bound.as_deref()).await;
        }
        Err(text) => return ToolOutput::error(text),
    };
    let permit = match cx.parts().approvals.authorize(&plan.request, &CallNews(cx)).await {
        Ok(permit) => permit,
        Err(denial) => return denied(denial),
    };
    let plan = if permit.approval_id().is_none() {
        plan
    } else {
        match Box::pin(planned_again(cx, arguments, &plan.request)).await {
            Ok(plan) => plan,
            Err(denial) => return denied(denial),
        }
    };
    let limit = plan.how.time_limit.map(|limit| limit.as_secs());
    let process = match cx.parts().processes.start(permit, &plan.request, plan.how).await {
        Ok(process) => Foreground(process),
        Err(StartError::Denied(denial)) => return denied(denial),
        Err(error) => return ToolOutput::error(error.to_string()),
    };
    let ending = match wait(cx, &process.0, plan.patience).await {
        None => process.0.put_to_background().await,
        waited => waited,
    };
    if let Some(ending) = ending {
        let mut output = told::ended(&process.0, &ending, limit);
        if plan.request.host == ExecHost::Sandbox
            && let Some(details) = &mut output.details
        {
            details["host"] = json!(ExecHost::Sandbox.as_str());
        }
        return output;
    }
    note_its_end(cx, &process.0);
    told::goes_on(&process.0)
}

/// Reads the arguments, in the light of the session.
async fn plan(cx: &ToolContext, arguments: &Value) -> Result<Way, String> {
    let parts = cx.parts();
    let all_settings = parts.settings.now();
    let settings = all_settings.exec.of(all_settings.agents.ruling_id(cx.agent.id.as_str()));
    let wanted = Arguments::read(arguments)?;
    let unreadable = |error: SessionError| format!("session not readable: {error}");
    let entry = parts.sessions.entry(&cx.key).await.map_err(unreadable)?;
    let scope = cx.scope(entry.as_ref()).await.map_err(unreadable)?;
    let entry = entry.unwrap_or_default();
    let lineage = Lineage::of_entry(&parts.sessions, &cx.key, &entry).await;
    let lineage = lineage.map_err(|error| format!("exec denied: {error}"))?;
    let sandbox = lineage.confinement(&all_settings);
    let host = wanted.host(lineage.hosts(), settings, sandbox)?;
    if host == ExecHost::Node {
        return Ok(Way::OnNode(Box::new(wanted), lineage.node().map(str::to_owned)));
    }
    let can_look_after = scope.allows(&all_settings, "process");
    let patience = can_look_after.then(|| wanted.patience(settings));
    let time_limit = if can_look_after {
        wanted.time_limit(settings)
    } else {
        wanted.time_limit(settings).or(Some(settings.timeout))
    };
    let how = How { time_limit, sandbox };
    // What is confined is not trusted with keys.
    let of_skills = match host {
        ExecHost::Gateway => parts.skills.variables(&cx.agent).await,
        ExecHost::Sandbox | ExecHost::Node => BTreeMap::new(),
    };
    let request = wanted.request(cx, settings, host, &of_skills)?;
    make_workspace(&request).await?;
    Ok(Way::Here(Box::new(Plan { request, how, patience })))
}

/// What a call comes to after a person was asked about the command that it was `before`: the
/// rules are those of now. A command that they make another one of has no permit.
async fn planned_again(
    cx: &ToolContext,
    arguments: &Value,
    before: &ExecRequest,
) -> Result<Box<Plan>, Denial> {
    check_still(cx, before).await?;
    match plan(cx, arguments).await {
        Ok(Way::Here(plan)) => Ok(plan),
        Ok(Way::OnNode(..)) => Err(Denial::changed(before)),
        Err(why) => Err(not_planned(before, &why)),
    }
}

/// Whether a call still goes to a node, in a session that is `bound` as it was, after a person
/// was asked about the command.
pub(super) async fn check_still_on_node(
    cx: &ToolContext,
    arguments: &Value,
    before: &ExecRequest,
    bound: Option<&str>,
) -> Result<(), Denial> {
    check_still(cx, before).await?;
    match plan(cx, arguments).await {
        Ok(Way::OnNode(_, now)) if now.as_deref() == bound => Ok(()),
        Ok(_) => Err(Denial::changed(before)),
        Err(why) => Err(not_planned(before, &why)),
    }
}

fn not_planned(before: &ExecRequest, why: &str) -> Denial {
    tracing::warn!(why, "a command that was approved cannot be planned again");
    Denial::changed(before)
}

/// Whether the tool may still be used, after a person was asked about a command.
async fn check_still(cx: &ToolContext, request: &ExecRequest) -> Result<(), Denial> {
    let may = cx.may_still_use(&Exec).await;
    may.then_some(()).ok_or_else(|| Denial::drifted(request, "tool-denied"))
}

/// A workspace is there once something runs in it.
async fn make_workspace(request: &ExecRequest) -> Result<(), String> {
    let place = request.workspace.clone();
    if request.cwd != place {
        return Ok(());
    }
    let made = blocking(move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&place).map_err(|error| (place, error))
    });
    match made.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err((place, error))) => Err(format!("no workspace at {}: {error}", place.display())),
        Err(error) => Err(format!("no workspace: {error}")),
    }
}

pub(super) fn denied(denial: Denial) -> ToolOutput {
    ToolOutput { details: Some(denial.details), is_error: true, ..ToolOutput::text(denial.text) }
}

/// Waits for the end of a command, and tells of what it says. `None` when it
/// takes too long.
async fn wait(cx: &ToolContext, process: &Process, patience: Option<Duration>) -> Option<Ending> {
    let give_up = patience.map(|patience| Instant::now() + patience);
    let mut news = process.follow();
    let (mut told_bytes, mut due) = (0, Instant::now());
    loop {
        let (ending, total) = process.look(|state| (state.ending.clone(), state.output.total()));
        if total > told_bytes && (ending.is_some() || Instant::now() >= due) {
            // The first line by itself, at once, as programs write their lines.
            let (shown, bytes) = told::running(process, told_bytes == 0);
            cx.tell(ToolNews::Update(shown.without_secrets())).await;
            (told_bytes, due) = (bytes, Instant::now() + UPDATE_EVERY);
            continue;
        }
        if ending.is_some() {
            return ending;
        }
        if patience == Some(Duration::ZERO) {
            // The process id is known as soon as the keeper has said so.
            let _ = timeout(UPDATE_EVERY, news.changed()).await;
            return None;
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return None },
            () = sleep_until(due), if total > told_bytes => {}
            () = until(give_up) => return None,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Notes the end of a command that nobody waits for, for the next turn of its
/// session.
fn note_its_end(cx: &ToolContext, process: &Arc<Process>) {
    let settings = cx.parts().settings.now();
    let exec = settings.exec.of(settings.agents.ruling_id(cx.agent.id.as_str()));
    let (tells, tells_all) = (exec.notify_on_exit, exec.notify_on_empty_success);
    let (runs, process) = (Arc::clone(&cx.runs), Arc::clone(process));
    let is_owner = cx.is_owner();
    let teller = Teller::owner_if(is_owner);
    let (tasks, followers) = (&cx.parts().tasks, &cx.parts().processes.followers);
    let noting = async move {
        let parts = runs.parts();
        let noted = parts.note_command(&process, is_owner).await;
        let ending = process.ended().await;
        let notice = notice_of(&process, &ending, tells_all).filter(|_| tells);
        if let Some(notice) = notice.map(|notice| result_without_secrets(&notice).into_owned())
            && let Err(error) = parts.remind(&process.session, &notice, teller).await
        {
            tracing::warn!(command = %process.id, %error, "its end is kept until a stop only");
            parts.notices.add(&process.session, &notice, teller);
        }
        forget_command(&noted).await;
    };
    tasks.spawn("exec-note", followers.track_future(noting));
}

/// What the next turn is told of the end of a command, if anything.
fn notice_of(process: &Process, ending: &Ending, tells_all: bool) -> Option<String> {
    let said = process.look(|state| {
        let said: Vec<_> = tail(state.output.text(), MAX_NOTED).split_whitespace().collect();
        said.join(" ")
    });
    let (id, label) = (&process.id, told::exit_label(ending));
    let more = if said.is_empty() { String::new() } else { format!(" :: {said}") };
    if ending.cause == Cause::Killed {
        // Else who had it killed knows of it.
        let is_news = process.ends_with_gateway();
        return is_news.then(|| format!("Exec ended: the gateway stopped ({id}, {label}){more}"));
    }
    if ending.is_completed() && said.is_empty() && !tells_all {
        return None;
    }
    let word = if ending.is_completed() { "completed" } else { "failed" };
    Some(format!("Exec {word} ({id}, {label}){more}"))
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
            "host": text("Where to run it: auto, gateway, sandbox or node"),
            "security": text("Be stricter than the policy: deny, allowlist or full"),
            "ask": text("Ask a person more often than the policy does: off, on-miss or always"),
            "node": text("Id or name of the node for host=node"),
        },
    })
}
