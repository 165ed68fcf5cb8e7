//! `node.list`, `node.describe`, `node.rename`, `node.invoke` and its answer.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::agent::approvals::NodeRunError;
use crate::auth::Owner;
use crate::nodes::{
    IN_BACKGROUND, InvokeError, NodeAnswer, NodeCall, NodeReply, forwarded, policy,
};
use crate::protocol::methods::NoParams;
use crate::protocol::methods::nodes::{
    NodeIdParams, NodeInvokeParams, NodeInvokeResultParams, NodeRenameParams,
};
use crate::protocol::{ErrorKind, ErrorShape, Scope};
use crate::registry::{Ctx, Reply, Shared};
use crate::store::{ActionHolder, KeptAnswer, NodeAction, StoreError};
use crate::support::{hex, json};

use super::shared::{Asked, shared};

/// The method whose answers are kept.
const INVOKE: &str = "node.invoke";

/// Answers above this are not kept for a repetition of their request: pictures
/// would fill the database.
const MAX_KEPT_ANSWER: usize = 256 * 1024;

/// What a failure of the store is on the wire.
#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
pub(super) fn unrecorded(error: StoreError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}

/// The node that asks: its device was proved, and that is its id.
pub(super) fn own_id(cx: &Ctx) -> Reply<String> {
    match cx.caller.principal.owner() {
        Owner::Device(id) => Ok(id.clone()),
        Owner::Connection(_) => Err(ErrorShape::denied("nodeId required")),
    }
}

/// Devices that were approved as nodes, and when.
pub(super) async fn devices(cx: &Ctx) -> Reply<BTreeMap<String, u64>> {
    cx.services.runs.parts().node_devices().await.map_err(unrecorded)
}

/// `node.list`: the nodes that are known.
pub async fn list(cx: Ctx, _: NoParams) -> Reply<Shared> {
    shared(&cx.services, Asked::Nodes, async {
        let rows = cx.services.nodes.list(&devices(&cx).await?).await.map_err(unrecorded)?;
        let rows: Vec<_> = rows.iter().map(crate::nodes::NodeRow::to_wire).collect();
        Ok(json!({"ts": cx.now_ms(), "nodes": rows}))
    })
    .await
}

/// `node.describe`: one of them.
pub async fn describe(cx: Ctx, p: NodeIdParams) -> Reply<Value> {
    let rows = cx.services.nodes.list(&devices(&cx).await?).await.map_err(unrecorded)?;
    let wanted = p.node_id.trim();
    let found = rows.iter().find(|row| row.node_id == wanted);
    let Some(row) = found else { return Err(ErrorShape::not_found("unknown nodeId")) };
    let mut row = row.to_wire();
    row["ts"] = json!(cx.now_ms());
    Ok(row)
}

/// `node.rename`: names a node that was approved.
pub async fn rename(cx: Ctx, p: NodeRenameParams) -> Reply<Value> {
    let (node_id, name) = (p.node_id.trim(), p.display_name.trim());
    if name.is_empty() {
        return Err(ErrorShape::invalid("displayName required"));
    }
    if cx.services.nodes.rename(node_id, name).await.map_err(unrecorded)? {
        Ok(json!({"nodeId": node_id, "displayName": name}))
    } else {
        Err(ErrorShape::not_found("unknown nodeId"))
    }
}

/// `node.invoke`: asks a node for something and waits for its answer.
pub async fn invoke(cx: Ctx, p: NodeInvokeParams) -> Reply<Value> {
    let (node_id, command) = (p.node_id.trim().to_owned(), p.command.trim().to_owned());
    if node_id.is_empty() || command.is_empty() {
        return Err(ErrorShape::invalid("nodeId and command required"));
    }
    if command.starts_with("system.execApprovals.") {
        let text = "node.invoke does not allow system.execApprovals.*; use exec.approvals.node.*";
        return Err(ErrorShape::denied(text).details(json!({"command": command})));
    }
    let key = key_of(&node_id, &command, &p.idempotency_key);
    let print = print_of(p.params.as_ref());
    let large = Arc::new(OnceLock::new());
    let work = {
        let (cx, large, print) = (cx.clone(), Arc::clone(&large), print.clone());
        async move {
            cx.services.nodes.follow_settings().await;
            // Only what is to be done needs its node, and the yes of a person.
            let (call, is_ios) = call_of(&cx, &node_id, command, p)?;
            let answer = invoke_once(&cx, &node_id, call, is_ios).await?;
            if answer.to_string().len() <= MAX_KEPT_ANSWER {
                return Ok(json!({"params": print, "answer": answer}));
            }
            // Set once, since this is done once.
            let _ = large.set(answer);
            Ok(json!({"params": print, "answer": null}))
        }
    };
    let mut kept = cx.once(INVOKE, Some(key), work).await?;
    if kept.get("params").is_some_and(|known| *known != print) {
        return Err(other_params());
    }
    // An earlier release has kept nothing but the answer.
    let answer = match kept.get_mut("answer") {
        Some(answer) => answer.take(),
        None => kept,
    };
    let answer = if answer.is_null() { large.get().cloned() } else { Some(answer) };
    answer.ok_or_else(|| {
        ErrorShape::unavailable(
            "this was done already, and its answer was too large to be kept; ask with another \
             idempotencyKey if it is to be done again",
        )
    })
}

/// The key of an answer: of one node and command.
fn key_of(node_id: &str, command: &str, idempotency_key: &str) -> String {
    format!("{node_id} {command} {idempotency_key}")
}

/// What is answered to who asks again for a command that waited, once its node has
/// acknowledged it: nobody has told what came of it.
pub(super) fn done_later(node_id: &str, action: &NodeAction) -> KeptAnswer {
    let answer = json!({"ok": true, "nodeId": node_id, "command": action.command,
        "payload": null, "payloadJSON": null, "queuedActionId": action.id});
    KeptAnswer {
        scope: INVOKE,
        key: key_of(node_id, &action.command, &action.idempotency_key),
        answer: json!({"params": print_of_queued(action), "answer": answer}).to_string(),
    }
}

fn other_params() -> ErrorShape {
    ErrorShape::invalid("idempotencyKey was used for other params")
}

/// Tells params apart, in whatever order their members come.
fn print_of(params: Option<&Value>) -> String {
    let mut params = params.cloned().unwrap_or_default();
    params.sort_all_objects();
    hex(Sha256::digest(params.to_string()))
}

fn print_of_queued(action: &NodeAction) -> String {
    let params = action.params_json.as_deref().and_then(|text| serde_json::from_str(text).ok());
    print_of(params.as_ref())
}

/// What is asked of a node that is there and does such a thing, and whether it is one with
/// iOS.
fn call_of(
    cx: &Ctx,
    node_id: &str,
    command: String,
    p: NodeInvokeParams,
) -> Reply<(NodeCall, bool)> {
    let nodes = &cx.services.nodes;
    let node = nodes.live(node_id).ok_or_else(not_connected)?;
    nodes.check(&node, &command).map_err(|error| failed(&error))?;
    let params = match (p.params, command.as_str()) {
        (Some(params), "system.run") => Some(run_params(cx, node_id, &params)?),
        (params, _) => params,
    };
    let is_ios = node.is_ios();
    let call = NodeCall {
        command,
        params,
        timeout_ms: p.timeout_ms,
        idempotency_key: Some(p.idempotency_key),
        session: None,
    };
    Ok((call, is_ios))
}

async fn invoke_once(cx: &Ctx, node_id: &str, call: NodeCall, is_ios: bool) -> Reply<Value> {
    let nodes = &cx.services.nodes;
    let may_wait = is_ios && policy::needs_foreground(&call.command);
    let (command, params) = (call.command.clone(), call.params.clone());
    let key = call.idempotency_key.clone().unwrap_or_default();
    let asked = (command.as_str(), params.as_ref(), key.as_str());
    let waits = may_wait && ask_again(cx, node_id, asked).await?;
    match nodes.invoke(node_id, call).await {
        Ok(NodeAnswer { payload, payload_json }) => {
            if may_wait {
                nodes.was_done(node_id, &command, &key).await;
            }
            Ok(json!({"ok": true, "nodeId": node_id, "command": command, "payload": payload,
                "payloadJSON": payload_json}))
        }
        Err(InvokeError::Refused { code, message }) if code == IN_BACKGROUND && may_wait => {
            let id = keep(cx, node_id, asked).await?;
            let node_error = json!({"code": code, "message": message});
            Err(queued(node_id, &command, &id, &node_error))
        }
        Err(error) => {
            if waits {
                let waiting = nodes.hold(node_id, (&command, &key), ActionHolder::Nobody).await;
                waiting.map_err(unrecorded)?;
            }
            Err(match error {
                // It was there when it was asked.
                InvokeError::NotConnected => failed(&InvokeError::Gone(command)),
                error => failed(&error),
            })
        }
    }
}

/// Whether a command waits for its node, which is not given it while it is asked again:
/// it would do it twice.
async fn ask_again(
    cx: &Ctx,
    node_id: &str,
    (command, params, key): (&str, Option<&Value>, &str),
) -> Reply<bool> {
    let hold = |holder| cx.services.nodes.hold(node_id, (command, key), holder);
    let waiting = hold(ActionHolder::Caller).await.map_err(unrecorded)?;
    let Some(action) = waiting else { return Ok(false) };
    if print_of_queued(&action) != print_of(params) {
        hold(ActionHolder::Nobody).await.map_err(unrecorded)?;
        return Err(other_params());
    }
    // The node has fetched it, and may be doing it.
    if action.held_by == ActionHolder::Node {
        return Err(queued(node_id, command, &action.id, &Value::Null));
    }
    Ok(true)
}

fn queued(node_id: &str, command: &str, id: &str, node_error: &Value) -> ErrorShape {
    let text = "node command queued until iOS returns to foreground";
    let mut error = ErrorShape::unavailable(text).details(json!({
        "code": "QUEUED_UNTIL_FOREGROUND",
        "queuedActionId": id,
        "nodeId": node_id,
        "command": command,
        "wake": {"path": "no-registration", "available": false, "throttled": false},
        "nodeError": node_error,
    }));
    error.retryable = Some(true);
    error
}

/// Keeps a command, its params and its key until a phone can do it; answers its id.
async fn keep(
    cx: &Ctx,
    node_id: &str,
    (command, params, key): (&str, Option<&Value>, &str),
) -> Reply<String> {
    let kept = cx.services.nodes.keep_for_later(node_id, command, params, key).await;
    let kept = kept.map_err(unrecorded)?;
    kept.map(|action| action.id).ok_or_else(|| {
        ErrorShape::unavailable("too many commands wait until this node returns to the foreground")
    })
}

/// The params of `system.run` as they go to the node. Only a decision that was
/// made on this very command for this very node says that it was approved.
fn run_params(cx: &Ctx, node_id: &str, params: &Value) -> Reply<Value> {
    let claims = params["approved"].as_bool() == Some(true)
        || ["allow-once", "allow-always"]
            .iter()
            .any(|word| params["approvalDecision"].as_str().map(str::trim) == Some(word));
    if !claims {
        return Ok(forwarded(params));
    }
    let approvals = &cx.services.runs.parts().approvals;
    if !cx.caller.principal.allows(Scope::Approvals) {
        return Err(ErrorShape::lacks(Scope::Approvals.as_str()));
    }
    approvals.redeem_for_node(node_id, params).map_err(|error| {
        let details = json!({"code": error.code(), "runId": params["runId"]});
        let shape = match error {
            NodeRunError::Unknown => ErrorShape::not_found(error.to_string()),
            _ => ErrorShape::denied(error.to_string()),
        };
        shape.details(details)
    })
}

fn not_connected() -> ErrorShape {
    let text = InvokeError::NotConnected.to_string();
    ErrorShape::unavailable(text).details(json!({"code": "NOT_CONNECTED"}))
}

/// Why an invocation failed, in the words of the wire.
pub(super) fn failed(error: &InvokeError) -> ErrorShape {
    let text = error.to_string();
    let of_node = |code: &str, message: &str| {
        ErrorShape::unavailable(format!("{code}: {message}"))
            .details(json!({"nodeError": {"code": code, "message": message}}))
    };
    match error {
        InvokeError::NotConnected => not_connected(),
        InvokeError::NotListed { command, .. } => ErrorShape::denied(text)
            .details(json!({"reason": "command not allowlisted", "command": command})),
        InvokeError::NotDeclared { command, .. } => ErrorShape::denied(text)
            .details(json!({"reason": "command not declared by node", "command": command})),
        InvokeError::BrowserProfiles => {
            ErrorShape::denied(text).details(json!({"command": "browser.proxy"}))
        }
        InvokeError::TimedOut => {
            of_node("TIMEOUT", "node invoke timed out").kind(ErrorKind::Timeout)
        }
        InvokeError::Busy | InvokeError::Gone(_) => ErrorShape::unavailable(text),
        InvokeError::Refused { code, message } => of_node(code, message),
    }
}

/// `node.invoke.result`: what a node answers.
pub async fn result(cx: Ctx, p: NodeInvokeResultParams) -> Reply<Value> {
    let own = own_id(&cx)?;
    if p.node_id != own {
        return Err(ErrorShape::denied("nodeId mismatch"));
    }
    let reply = if p.ok {
        NodeReply::Done(NodeAnswer::new(p.payload, p.payload_json))
    } else {
        let error = p.error.unwrap_or_default();
        let code = error.code.unwrap_or_else(|| "UNAVAILABLE".into());
        NodeReply::Refused(code, error.message.unwrap_or_else(|| "node invoke failed".into()))
    };
    let is_awaited = cx.services.nodes.answered(&own, &p.id, reply);
    Ok(if is_awaited { json!({"ok": true}) } else { json!({"ok": true, "ignored": true}) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_the_same_in_any_order_of_their_members() {
        let print = |params: Value| print_of(Some(&params));
        let one = print(json!({"a": 1, "b": [{"c": 2, "d": 3}]}));
        assert_eq!(print(json!({"b": [{"d": 3, "c": 2}], "a": 1})), one);
        assert_ne!(print(json!({"a": 1, "b": [{"c": 2, "d": 4}]})), one);
        assert_eq!(print(Value::Null), print_of(None));
    }
}
