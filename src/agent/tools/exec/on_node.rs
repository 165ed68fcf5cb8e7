//! `exec` with `host=node`: a command that another machine runs.
//!
//! Owns: which node that is, what is asked of it and what the model is told.
//! Promises: nothing is sent before it was permitted, and then what was
//! permitted; the node gets no variable of this machine. Must not: decide.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::command::{check_still_on_node, denied};
use super::request::Arguments;
use crate::agent::approvals::{Denial, ExecRequest, NodeRun};
use crate::agent::tools::{CallNews, ToolContext, ToolOutput};
use crate::config::ExecSettings;
use crate::nodes::{MAX_LIMIT, NodeCall, NodePlan, NodeRow, RunResult, shell_argv};
use crate::support::{json, millis, reading};

/// How long a node may think about what it would run.
const PREPARE_MS: u64 = 15_000;
/// A node ends its command itself and tells so; that takes a moment.
const GRACE: Duration = Duration::from_secs(5);
/// Most characters of the output that the model gets to see: the last ones.
const MAX_OUTPUT: usize = 200_000;

/// Runs the command of a call on a node, of a session that is `bound` to one or not. `wanted`
/// is what its `arguments` say.
pub async fn run(
    cx: &ToolContext,
    arguments: &Value,
    wanted: &Arguments,
    bound: Option<&str>,
) -> ToolOutput {
    match try_run(cx, arguments, wanted, bound).await {
        Ok(output) => output,
        Err(text) => ToolOutput::error(text),
    }
}

async fn try_run(
    cx: &ToolContext,
    arguments: &Value,
    wanted: &Arguments,
    bound: Option<&str>,
) -> Result<ToolOutput, String> {
    wanted.is_for_nodes()?;
    let parts = cx.parts();
    let settings = parts.settings.now();
    let exec = settings.exec.of(settings.agents.ruling_id(cx.agent.id.as_str()));
    let (limit, patience) = limits(wanted, exec)?;
    let node = find(cx, wanted, bound).await?;
    let (node_id, platform) = (node.node_id.clone(), node.platform().to_owned());
    let env = wanted.variables()?;
    let session = (cx.agent.id.as_str(), cx.key.as_str());
    let place = |cwd: Option<&str>| PathBuf::from(cwd.unwrap_or("/"));
    let mut request = wanted.request_on_node(cx, place(wanted.workdir()), &env)?;
    let argv = shell_argv(wanted.command(), &platform);
    let rules = match parts.approvals.rules_on_node(&request).await {
        Ok(rules) => rules,
        Err(denial) => return Ok(denied(denial)),
    };
    // Whoever decides is to see what the node makes of it. Where nobody is asked the node
    // only runs it, since OpenClaw's makes no plan of what it cannot show: of scripts.
    let plan = if rules.asks() {
        plan(cx, wanted, &node, argv, session).await?
    } else {
        own_plan(wanted, argv, session)
    };
    let cwd = place(plan.cwd.as_deref());
    request.cwd.clone_from(&cwd);
    let shown = json!(plan);
    let run = NodeRun { request: &request, node_id: &node_id, plan: &shown, env: &env };
    let permit = match parts.approvals.authorize_on_node(&rules, run, &CallNews(cx)).await {
        Ok(permit) => permit,
        Err(denial) => return Ok(denied(denial)),
    };
    let approval = match permit.redeem(run) {
        Ok(approval) => approval,
        Err(denial) => return Ok(denied(denial)),
    };
    if approval.is_some() {
        let checked = async {
            check_still_on_node(cx, arguments, &request, bound).await?;
            check_same(cx, wanted, &request, (bound, node_id.as_str())).await
        };
        if let Err(denial) = Box::pin(checked).await {
            return Ok(denied(denial));
        }
    }
    let run_id = approval.clone().unwrap_or_else(|| parts.ids.uuid());
    let mut params = plan.to_params();
    if let Some(limit) = limit {
        params["timeoutMs"] = json!(millis(limit));
    }
    params["runId"] = json!(run_id);
    params["suppressNotifyOnExit"] = json!(true);
    if !env.is_empty() {
        params["env"] = json!(env);
    }
    if approval.is_some() {
        params["approved"] = json!(true);
        params["approvalDecision"] = json!("allow-once");
    }
    let call = NodeCall {
        command: "system.run".into(),
        params: Some(params),
        timeout_ms: Some(millis(patience)),
        idempotency_key: Some(run_id.clone()),
        session: Some((cx.key.clone(), run_id)),
    };
    let began = Instant::now();
    let answer = parts.nodes.invoke(&node_id, call).await.map_err(|error| error.to_string())?;
    let result: RunResult = reading::of(&answer.payload).unwrap_or_default();
    Ok(told(&result, &answer.payload, &node, &cwd, began.elapsed()))
}

/// When the node ends the command, if ever, and how long it is waited for.
fn limits(
    wanted: &Arguments,
    settings: &ExecSettings,
) -> Result<(Option<Duration>, Duration), String> {
    let limit = wanted.time_limit_on_node(settings);
    let patience = limit.map_or(MAX_LIMIT, |limit| limit.saturating_add(GRACE));
    if patience > MAX_LIMIT {
        let most = MAX_LIMIT.saturating_sub(GRACE).as_secs();
        return Err(format!("exec host=node: timeout must be at most {most} seconds"));
    }
    Ok((limit, patience))
}

/// The node that is meant: the call's, the session's, the config's, or the only
/// one that is there and runs programs.
async fn find(
    cx: &ToolContext,
    wanted: &Arguments,
    of_session: Option<&str>,
) -> Result<NodeRow, String> {
    const NEEDS_ONE: &str = "exec host=node requires a node that supports system.run; none that \
                             is connected does";
    let parts = cx.parts();
    let devices = parts.node_devices().await.map_err(|error| error.to_string())?;
    let settings = parts.nodes.settings();
    let exec = settings.exec.of(settings.agents.ruling_id(cx.agent.id.as_str()));
    let configured = of_session.or(exec.node.as_deref()).or(settings.nodes.exec_node.as_deref());
    let name = match (wanted.node(), configured) {
        // Who was given one node does not choose another.
        (Some(asked), Some(bound)) if !asked.eq_ignore_ascii_case(bound) => {
            let found = parts.nodes.find(&devices, asked).await;
            let bound_to = parts.nodes.find(&devices, bound).await;
            match (found, bound_to) {
                (Ok(asked), Ok(bound)) if asked.node_id == bound.node_id => Some(bound.node_id),
                _ => return Err(format!("exec node not allowed (bound to {bound})")),
            }
        }
        (asked, bound) => asked.or(bound).map(str::to_owned),
    };
    let unreadable = |error: crate::store::StoreError| error.to_string();
    let row = if let Some(name) = name {
        parts.nodes.find(&devices, &name).await.map_err(|error| error.to_string())?
    } else {
        let mut able = parts.nodes.list(&devices).await.map_err(unreadable)?;
        able.retain(|row| row.is_connected() && row.commands().contains("system.run"));
        match able.as_slice() {
            [] => return Err(NEEDS_ONE.into()),
            [one] => one.clone(),
            many => {
                let names = many.iter().map(|row| row.name().unwrap_or(&row.node_id));
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(format!("exec host=node: say which node ({names})"));
            }
        }
    };
    if !row.is_connected() {
        return Err(format!("node not connected: {}", row.name().unwrap_or(&row.node_id)));
    }
    if !row.commands().contains("system.run") {
        return Err(NEEDS_ONE.into());
    }
    Ok(row)
}

/// Whether it would be the same node by now, after a person was asked about a command on it.
async fn check_same(
    cx: &ToolContext,
    wanted: &Arguments,
    before: &ExecRequest,
    (bound, node_id): (Option<&str>, &str),
) -> Result<(), Denial> {
    let now = find(cx, wanted, bound).await;
    let is_same = now.is_ok_and(|node| node.node_id == node_id);
    is_same.then_some(()).ok_or_else(|| Denial::changed(before))
}

/// What the node would run; one that does not plan runs what it is told.
async fn plan(
    cx: &ToolContext,
    wanted: &Arguments,
    node: &NodeRow,
    argv: Vec<String>,
    session: (&str, &str),
) -> Result<NodePlan, String> {
    if !node.commands().contains("system.run.prepare") {
        return Ok(own_plan(wanted, argv, session));
    }
    let call = NodeCall {
        command: "system.run.prepare".into(),
        params: Some(json!({"command": argv, "rawCommand": wanted.command(),
            "cwd": wanted.workdir(), "agentId": session.0, "sessionKey": session.1})),
        timeout_ms: Some(PREPARE_MS),
        idempotency_key: Some(cx.parts().ids.uuid()),
        session: None,
    };
    let answer = cx.parts().nodes.invoke(&node.node_id, call).await;
    let answer = answer.map_err(|error| format!("the node made no plan: {error}"))?;
    NodePlan::read(&answer.payload, &argv, session)
}

fn own_plan(wanted: &Arguments, argv: Vec<String>, session: (&str, &str)) -> NodePlan {
    NodePlan::of(argv, wanted.command(), wanted.workdir().map(str::to_owned), session)
}

/// The answer for the model, as it is for a command of this machine.
fn told(
    result: &RunResult,
    payload: &Value,
    node: &NodeRow,
    cwd: &std::path::Path,
    took: Duration,
) -> ToolOutput {
    let said: Vec<_> = [&result.stdout, &result.stderr, &result.error]
        .into_iter()
        .flatten()
        .map(|text| text.trim_end())
        .filter(|text| !text.is_empty())
        .collect();
    let mut said = tail(&said.join("\n"));
    if said.is_empty() && result == &RunResult::default() && !payload.is_null() {
        said = tail(&payload.to_string());
    }
    let is_good = result.success.unwrap_or(result.exit_code == Some(0)) && !result.timed_out;
    let how = match (result.timed_out, result.exit_code) {
        (true, _) => "Command timed out on the node.".into(),
        (false, Some(code)) if code != 0 => format!("(Command exited with code {code})"),
        (false, None) if !is_good => "Command ended without an exit code.".into(),
        _ => String::new(),
    };
    let gap = if said.is_empty() || how.is_empty() { "" } else { "\n\n" };
    let text = format!("{said}{gap}{how}");
    let shown = if text.is_empty() { "(no output)" } else { &text };
    let details = json!({"status": if is_good { "completed" } else { "failed" },
        "exitCode": result.exit_code, "timedOut": result.timed_out, "durationMs": millis(took),
        "aggregated": text, "cwd": cwd, "host": "node", "nodeId": node.node_id});
    ToolOutput { details: Some(details), is_error: !is_good, ..ToolOutput::text(shown) }
}

fn tail(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_OUTPUT {
        return text.to_owned();
    }
    let left_out = count - MAX_OUTPUT;
    let kept: String = text.chars().skip(left_out).collect();
    format!("[the first {left_out} characters are left out]\n\n{kept}")
}
