//! `node.pending.*` and `node.canvas.capability.refresh`.

use serde_json::Value;

use super::nodes::{done_later, own_id, unrecorded};
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::nodes::{
    NodePendingAckParams, NodePendingDrainParams, NodePendingEnqueueParams,
};
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// `node.pending.enqueue`: queues a request for a node's status or location.
pub async fn enqueue(cx: Ctx, p: NodePendingEnqueueParams) -> Reply<Value> {
    let node_id = p.node_id.trim();
    let queued = cx.services.nodes.enqueue(node_id, p.kind, p.priority, p.expires_in_ms).await;
    let Some((revision, item)) = queued.map_err(unrecorded)? else {
        return Err(ErrorShape::unavailable("too much work waits for nodes"));
    };
    Ok(json!({"nodeId": node_id, "revision": revision, "queued": item, "wakeTriggered": false}))
}

/// `node.pending.drain`: what was queued for the node that asks.
pub async fn drain(cx: Ctx, p: NodePendingDrainParams) -> Reply<Value> {
    let node_id = own_id(&cx)?;
    let limit = p.max_items.and_then(|limit| usize::try_from(limit).ok());
    let (drain, has_more) = cx.services.nodes.drain(&node_id, limit).await.map_err(unrecorded)?;
    Ok(json!({"nodeId": node_id, "revision": drain.revision, "items": drain.items,
        "hasMore": has_more}))
}

/// `node.pending.pull`: commands that waited for the node that asks.
pub async fn pull(cx: Ctx, _: NoParams) -> Reply<Value> {
    let node_id = own_id(&cx)?;
    let actions = cx.services.nodes.pull(&node_id).await.map_err(unrecorded)?;
    let actions = actions.iter().map(|action| {
        json!({"id": action.id, "command": action.command, "paramsJSON": action.params_json,
            "enqueuedAtMs": action.enqueued_at_ms, "idempotencyKey": action.idempotency_key})
    });
    Ok(json!({"nodeId": node_id, "actions": actions.collect::<Vec<_>>()}))
}

/// `node.pending.ack`: the node has dealt with them.
pub async fn ack(cx: Ctx, p: NodePendingAckParams) -> Reply<Value> {
    let node_id = own_id(&cx)?;
    let mut ids: Vec<String> = Vec::new();
    for id in p.ids.iter().map(|id| id.trim()).filter(|id| !id.is_empty()) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    let left = cx.services.nodes.acknowledge(&node_id, ids.clone(), done_later).await;
    let left = left.map_err(unrecorded)?;
    Ok(json!({"nodeId": node_id, "ackedIds": ids, "remainingCount": left}))
}

/// `node.canvas.capability.refresh`: an address that the node may show pages
/// from. There is no canvas host, so there is none.
pub async fn refresh_canvas(_: Ctx, _: NoParams) -> Reply<Value> {
    Err(ErrorShape::unavailable("canvas host unavailable for this node session"))
}
