//! `node.pair.*`: approving nodes and their commands.

use serde_json::Value;

use super::nodes::unrecorded;
use crate::nodes::{ApproveError, required_scopes};
use crate::protocol::methods::NoParams;
use crate::protocol::methods::nodes::{
    NodeIdParams, NodePairDecisionParams, NodePairRequestParams, NodePairVerifyParams,
};
use crate::protocol::{ErrorKind, ErrorShape};
use crate::registry::{Ctx, Reply};
use crate::store::NodeFacts;
use crate::support::json;

/// `node.pair.request`: files a request in the name of a node.
pub async fn request(cx: Ctx, p: NodePairRequestParams) -> Reply<Value> {
    let facts = NodeFacts {
        display_name: p.display_name,
        platform: p.platform,
        version: p.version,
        core_version: p.core_version,
        ui_version: p.ui_version,
        device_family: p.device_family,
        model_identifier: p.model_identifier,
        caps: p.caps,
        commands: p.commands,
        remote_ip: p.remote_ip,
        ..NodeFacts::default()
    };
    let node_id = p.node_id.trim().to_owned();
    let filed = cx.services.nodes.request_pairing(node_id, facts, p.silent).await;
    let Some((request, is_new)) = filed.map_err(unrecorded)? else {
        return Err(ErrorShape::unavailable(
            "too many nodes wait for an approval; approve or reject some of them first",
        ));
    };
    Ok(json!({"status": "pending", "request": request, "created": is_new}))
}

/// `node.pair.list`: who waits and who was approved.
pub async fn list(cx: Ctx, _: NoParams) -> Reply<Value> {
    let pairings = cx.services.nodes.pairings().await.map_err(unrecorded)?;
    let pending = pairings.pending.iter().map(|request| {
        let scopes = required_scopes(request.facts.commands());
        let scopes: Vec<_> = scopes.into_iter().map(crate::protocol::Scope::as_str).collect();
        let mut request = json!(request);
        request["requiredApproveScopes"] = json!(scopes);
        request
    });
    Ok(json!({"pending": pending.collect::<Vec<_>>(), "paired": pairings.paired}))
}

/// `node.pair.approve`: lets a node have the commands that it asks for.
pub async fn approve(cx: Ctx, p: NodePairDecisionParams) -> Reply<Value> {
    let approved = cx.services.nodes.approve(&cx.caller.principal, p.request_id.trim()).await;
    approved.map_err(|error| match error {
        ApproveError::Unknown => ErrorShape::not_found(error.to_string()),
        ApproveError::Refused(text) => ErrorShape::denied(text).kind(ErrorKind::MissingScope),
        ApproveError::NoToken(_) | ApproveError::Store(_) => {
            ErrorShape::unavailable(error.to_string())
        }
    })
}

/// `node.pair.reject`: does not.
pub async fn reject(cx: Ctx, p: NodePairDecisionParams) -> Reply<Value> {
    let request_id = p.request_id.trim();
    let rejected = cx.services.nodes.reject(request_id).await.map_err(unrecorded)?;
    match rejected {
        Some(node_id) => Ok(json!({"requestId": request_id, "nodeId": node_id})),
        None => Err(ErrorShape::not_found("unknown requestId")),
    }
}

/// `node.pair.remove`: takes an approval back.
pub async fn remove(cx: Ctx, p: NodeIdParams) -> Reply<Value> {
    let node_id = p.node_id.trim();
    if cx.services.nodes.remove(node_id).await.map_err(unrecorded)? {
        Ok(json!({"nodeId": node_id}))
    } else {
        Err(ErrorShape::not_found("unknown nodeId"))
    }
}

/// `node.pair.verify`: whether a token is that of a node.
pub async fn verify(cx: Ctx, p: NodePairVerifyParams) -> Reply<Value> {
    let verified = cx.services.nodes.verify(p.node_id.trim(), &p.token).await;
    Ok(match verified.map_err(unrecorded)? {
        Some(node) => json!({"ok": true, "node": node}),
        None => json!({"ok": false}),
    })
}
