//! `exec.approval.*`, `exec.approvals.*` and `plugin.approval.*`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::agent::approvals::{
    Approvals, ApprovalsFileError, AskError, DecideError, Decision, Draft, Question, QuestionKind,
    SHOWN_MAX, analysis_of, binding_of, variables_warning,
};
use crate::config::APPROVAL_TIMEOUT_MAX;
use crate::nodes::{InvokeError, NodeCall};
use crate::protocol::methods::approvals::{
    ApprovalResolveParams, ExecApprovalGetParams, ExecApprovalRequestParams,
    ExecApprovalsNodeGetParams, ExecApprovalsNodeSetParams, ExecApprovalsSetParams,
    PluginApprovalRequestParams, TurnSource, WaitDecisionParams,
};
use crate::protocol::methods::{AnyParams, NoParams};
use crate::protocol::{ErrorKind, ErrorShape, simple};
use crate::registry::{Ctx, Reply};
use crate::support::{json, with_cause};

use super::agent::while_open;

/// How long a plugin's question waits when nobody says so, as in the original.
const PLUGIN_TIMEOUT: Duration = Duration::from_mins(2);
/// Most bytes of a question as a whole: it is kept until somebody decides, and sent to all
/// who may. What is shown of a command is in it several times.
const QUESTION_MAX: usize = 256 * 1024;

fn approvals(cx: &Ctx) -> &Approvals {
    &cx.services.runs.parts().approvals
}

/// `exec.approval.request`: asks about a command that somebody else runs.
pub async fn exec_request(cx: Ctx, p: ExecApprovalRequestParams) -> Reply<Value> {
    let is_on_node = p.host.as_deref() == Some("node");
    if is_on_node && p.node_id.is_none() {
        return Err(ErrorShape::invalid("nodeId is required for host=node"));
    }
    if is_on_node && p.system_run_plan.is_none() {
        return Err(ErrorShape::invalid("systemRunPlan is required for host=node"));
    }
    if p.id.as_ref().is_some_and(|id| id.starts_with("plugin:")) {
        return Err(ErrorShape::invalid("approval ids starting with plugin: are reserved"));
    }
    let plan = p.system_run_plan.as_ref().filter(|_| is_on_node);
    let joined = || p.command_argv.as_ref().map(|argv| argv.join(" "));
    let command = plan.map(|plan| plan.command_text.clone()).or_else(|| p.command.clone());
    let command = command.or_else(joined).filter(|command| !command.trim().is_empty());
    let Some(command) = command else { return Err(ErrorShape::invalid("command is required")) };
    let set = p.env.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
    let warnings: Vec<_> =
        p.warning_text.clone().into_iter().chain(variables_warning(set)).collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join("\n"));
    if command.len() + warning.as_ref().map_or(0, String::len) > SHOWN_MAX {
        let text = format!("command is longer than {SHOWN_MAX} bytes, too long to be shown whole");
        return Err(ErrorShape::invalid(text));
    }
    let is_always = p.ask.as_deref() == Some("always");
    let may = |decision: &Decision| !is_always || *decision != Decision::AllowAlways;
    let allowed: Vec<_> = Decision::ALL.into_iter().filter(may).collect();
    let settings = &cx.services.settings.now().exec_policy;
    let limit = p.timeout_ms.map_or(settings.approval_timeout, Duration::from_millis);
    let request = shown(&p, &command, &allowed, is_on_node, warning.as_deref());
    let draft = Draft {
        kind: QuestionKind::Exec,
        request,
        allowed,
        limit: limit.min(APPROVAL_TIMEOUT_MAX),
        call_id: None,
    };
    ask(&cx, p.id, draft, p.two_phase).await
}

/// What those who decide get to see.
fn shown(
    p: &ExecApprovalRequestParams,
    command: &str,
    allowed: &[Decision],
    is_on_node: bool,
    warning: Option<&str>,
) -> Value {
    let plan = p.system_run_plan.as_ref().filter(|_| is_on_node);
    let from_plan =
        |pick: fn(&crate::protocol::methods::approvals::SystemRunPlan) -> &Option<String>,
         own: &Option<String>| {
            plan.and_then(|plan| pick(plan).clone()).or_else(|| own.clone())
        };
    let allowed: Vec<_> = allowed.iter().map(|decision| decision.as_str()).collect();
    let mut shown = json!({
        "command": command,
        "systemRunBinding": plan.map(|plan| binding_of(&plan.whole, p.env.as_deref().unwrap_or_default())),
        "systemRunPlan": plan.map(|plan| &plan.whole),
        "cwd": from_plan(|plan| &plan.cwd, &p.cwd),
        "nodeId": p.node_id.as_ref().filter(|_| is_on_node),
        "host": p.host,
        "security": p.security,
        "ask": p.ask,
        "warningText": warning,
        "commandAnalysis": analysis_of(command),
        "allowedDecisions": allowed,
        "agentId": from_plan(|plan| &plan.agent_id, &p.agent_id),
        "resolvedPath": p.resolved_path,
        "sessionKey": from_plan(|plan| &plan.session_key, &p.session_key),
    });
    if let Some(env) = p.env.as_ref().filter(|env| !env.is_empty()) {
        let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
        shown["envKeys"] = json!(names);
    }
    add_source(&mut shown, &p.source);
    shown
}

fn add_source(shown: &mut Value, source: &TurnSource) {
    shown["turnSourceChannel"] = json!(source.channel);
    shown["turnSourceTo"] = json!(source.to);
    shown["turnSourceAccountId"] = json!(source.account_id);
    shown["turnSourceThreadId"] = json!(source.thread_id);
}

/// `plugin.approval.request`: asks about something that a plugin is about to do.
pub async fn plugin_request(cx: Ctx, p: PluginApprovalRequestParams) -> Reply<Value> {
    let mut request = json!({
        "pluginId": p.plugin_id,
        "title": p.title,
        "description": p.description,
        "severity": p.severity,
        "toolName": p.tool_name,
        "toolCallId": p.tool_call_id,
        "agentId": p.agent_id,
        "sessionKey": p.session_key,
    });
    add_source(&mut request, &p.source);
    let allowed = match &p.allowed_decisions {
        None => Decision::ALL.to_vec(),
        Some(words) => {
            request["allowedDecisions"] = json!(words);
            words.iter().filter_map(|word| Decision::parse(word)).collect()
        }
    };
    let limit = p.timeout_ms.map_or(PLUGIN_TIMEOUT, Duration::from_millis);
    let draft = Draft { kind: QuestionKind::Plugin, request, allowed, limit, call_id: None };
    ask(&cx, None, draft, p.two_phase).await
}

async fn ask(cx: &Ctx, id: Option<String>, draft: Draft, two_phase: bool) -> Reply<Value> {
    let bytes = draft.request.to_string().len() + id.as_ref().map_or(0, String::len);
    if bytes > QUESTION_MAX {
        let text = format!("the question has {bytes} bytes, at most {QUESTION_MAX} are asked");
        return Err(ErrorShape::invalid(text));
    }
    let kind = draft.kind;
    let question = approvals(cx).open(id, draft).map_err(|error| match error {
        AskError::Taken => ErrorShape::invalid(error.to_string()),
        AskError::Full => ErrorShape::unavailable(error.to_string()),
    })?;
    if !approvals(cx).has_other_deciders(kind, &cx.caller.subscriber.conn_id) {
        question.lapse();
    } else if two_phase {
        cx.answer_first(&json!({"status": "accepted", "id": question.id,
            "createdAtMs": question.created_at, "expiresAtMs": question.expires_at}));
    }
    Ok(answered(cx, &question).await)
}

/// The decision; nothing when the connection of whoever waits has ended. The question stays.
async fn answered(cx: &Ctx, question: &Question) -> Value {
    let Some(decision) = while_open(cx, question.decision()).await else { return Value::Null };
    json!({"id": question.id, "decision": decision.map(Decision::as_str),
        "createdAtMs": question.created_at, "expiresAtMs": question.expires_at})
}

/// `exec.approval.list`: the commands that wait.
pub async fn exec_list(cx: Ctx, _: AnyParams) -> Reply<Vec<Value>> {
    Ok(open(&cx, QuestionKind::Exec))
}

/// `plugin.approval.list`: the questions of plugins that wait.
pub async fn plugin_list(cx: Ctx, _: AnyParams) -> Reply<Vec<Value>> {
    Ok(open(&cx, QuestionKind::Plugin))
}

fn open(cx: &Ctx, kind: QuestionKind) -> Vec<Value> {
    approvals(cx).list(kind).iter().map(|question| question.to_wire()).collect()
}

/// `exec.approvals.list`: the commands that wait, flat, for dashboards.
pub async fn flat_list(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let flat = |mut question: Value| {
        simple::approval_out(&mut question);
        cx.caller.key_names.put(question.get_mut("sessionKey"));
        question
    };
    let open: Vec<_> = open(&cx, QuestionKind::Exec).into_iter().map(flat).collect();
    Ok(json!({ "approvals": open }))
}

/// `exec.approval.get`: one command that waits.
pub async fn exec_get(cx: Ctx, p: ExecApprovalGetParams) -> Reply<Value> {
    let question = find(&cx, QuestionKind::Exec, &p.id)?;
    if !question.is_open() {
        return Err(refusal(DecideError::Unknown));
    }
    let request = &question.request;
    Ok(json!({
        "id": question.id,
        "commandText": request["command"],
        "commandPreview": request["systemRunPlan"]["commandPreview"],
        "allowedDecisions": request["allowedDecisions"],
        "host": request["host"],
        "nodeId": request["nodeId"],
        "agentId": request["agentId"],
        "expiresAtMs": question.expires_at,
    }))
}

/// `exec.approval.waitDecision`: waits for the decision on a command.
pub async fn exec_wait(cx: Ctx, p: WaitDecisionParams) -> Reply<Value> {
    wait(cx, QuestionKind::Exec, p).await
}

/// `plugin.approval.waitDecision`: waits for the decision on a plugin's question.
pub async fn plugin_wait(cx: Ctx, p: WaitDecisionParams) -> Reply<Value> {
    wait(cx, QuestionKind::Plugin, p).await
}

async fn wait(cx: Ctx, kind: QuestionKind, p: WaitDecisionParams) -> Reply<Value> {
    let Some(id) = p.id else { return Err(ErrorShape::invalid("id is required")) };
    let found = approvals(&cx).find(kind, &id).ok().filter(|question| question.id == id);
    match found {
        Some(question) => Ok(answered(&cx, &question).await),
        None => Err(ErrorShape::not_found("approval expired or not found")),
    }
}

/// `exec.approval.resolve`: decides on a command.
pub async fn exec_resolve(cx: Ctx, p: ApprovalResolveParams) -> Reply<Value> {
    decide(&cx, QuestionKind::Exec, &p.id, Decision::parse(&p.decision))?;
    Ok(json!({"ok": true}))
}

/// `exec.approvals.resolve`: decides on a command, in the words of dashboards.
pub async fn resolve_alias(cx: Ctx, p: ApprovalResolveParams) -> Reply<Value> {
    let decision = match p.decision.as_str() {
        "allow_once" => Some(Decision::AllowOnce),
        "always_allow" => Some(Decision::AllowAlways),
        other => Decision::parse(other),
    };
    decide(&cx, QuestionKind::Exec, &p.id, decision)?;
    Ok(json!({"ok": true}))
}

/// `plugin.approval.resolve`: decides on a plugin's question.
pub async fn plugin_resolve(cx: Ctx, p: ApprovalResolveParams) -> Reply<Value> {
    decide(&cx, QuestionKind::Plugin, &p.id, Decision::parse(&p.decision))?;
    Ok(json!({"ok": true}))
}

fn decide(cx: &Ctx, kind: QuestionKind, id: &str, decision: Option<Decision>) -> Reply<()> {
    let Some(decision) = decision else { return Err(refusal(DecideError::NotOffered)) };
    let caller = &cx.caller;
    let decided = approvals(cx).decide(&caller.principal, kind, id, decision, &caller.name);
    decided.map_err(refusal)
}

fn find(cx: &Ctx, kind: QuestionKind, id: &str) -> Reply<Arc<Question>> {
    approvals(cx).find(kind, id).map_err(refusal)
}

/// Why a decision is refused, in the words of the wire.
fn refusal(error: DecideError) -> ErrorShape {
    let text = error.to_string();
    match error {
        DecideError::NotAllowed => ErrorShape::denied(text).kind(ErrorKind::MissingScope),
        DecideError::Ambiguous | DecideError::NotOffered => ErrorShape::invalid(text),
        DecideError::Unknown => ErrorShape::not_found(text).details(json!({
            "reason": "APPROVAL_NOT_FOUND",
            "remediation":
                "Re-request the action; pending approvals are cleared after expiry or restart.",
        })),
        DecideError::Resolved => {
            ErrorShape::invalid(text).details(json!({"reason": "APPROVAL_ALREADY_RESOLVED"}))
        }
        DecideError::NotAlways => ErrorShape::invalid(text)
            .details(json!({"reason": "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"})),
    }
}

/// `exec.approvals.get`: the file of what may run.
pub async fn file_get(cx: Ctx, _: NoParams) -> Reply<Value> {
    let snapshot = approvals(&cx).file().await.map_err(|error| file_failed(&error))?;
    Ok(snapshot.to_wire())
}

/// `exec.approvals.set`: replaces the file of what may run.
pub async fn file_set(cx: Ctx, p: ExecApprovalsSetParams) -> Reply<Value> {
    let replaced = approvals(&cx).replace_file(p.file, p.base_hash.as_deref()).await;
    Ok(replaced.map_err(|error| file_failed(&error))?.to_wire())
}

fn file_failed(error: &ApprovalsFileError) -> ErrorShape {
    match error {
        ApprovalsFileError::Stale | ApprovalsFileError::NoBase => {
            ErrorShape::invalid(error.to_string())
        }
        _ => ErrorShape::unavailable(format!("Error: {}", with_cause(error))),
    }
}

/// `exec.approvals.node.get`: the file of what may run on a node.
pub async fn node_get(cx: Ctx, p: ExecApprovalsNodeGetParams) -> Reply<Value> {
    ask_node(&cx, &p.node_id, "system.execApprovals.get", json!({})).await
}

/// `exec.approvals.node.set`: replaces that file of a node.
pub async fn node_set(cx: Ctx, p: ExecApprovalsNodeSetParams) -> Reply<Value> {
    let mut params = json!({"file": p.file});
    if let Some(hash) = p.base_hash {
        params["baseHash"] = json!(hash);
    }
    ask_node(&cx, &p.node_id, "system.execApprovals.set", params).await
}

async fn ask_node(cx: &Ctx, node_id: &str, command: &str, params: Value) -> Reply<Value> {
    let call = NodeCall {
        command: command.to_owned(),
        params: Some(params),
        timeout_ms: None,
        idempotency_key: None,
        session: None,
    };
    let asked = match cx.services.nodes.send(node_id.trim(), call) {
        Ok(asked) => asked.answer().await,
        Err(error) => Err(error),
    };
    asked.map(|answer| answer.payload).map_err(|error| match error {
        InvokeError::NotConnected => {
            let (code, message) = ("NOT_CONNECTED", error.to_string());
            ErrorShape::unavailable(format!("{code}: {message}"))
                .details(json!({"nodeError": {"code": code, "message": message}}))
        }
        error => super::nodes::failed(&error),
    })
}
