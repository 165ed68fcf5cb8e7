//! `node.event`: what nodes report by themselves.
//!
//! A node may wake the agent and follow a conversation. What it says of commands
//! counts only for one that it was asked to run and has not answered yet.

use serde_json::Value;

use super::cron::unwritten;
use super::node_asks::{ask, said};
use super::nodes::{own_id, unrecorded};
use super::sessions::unavailable;
use crate::nodes::NodeReport;
use crate::protocol::ErrorShape;
use crate::protocol::methods::nodes::NodeEventParams;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::store::Teller;
use crate::support::json;

/// `node.event`: takes what a node reports by itself.
pub async fn event(cx: Ctx, p: NodeEventParams) -> Reply<Value> {
    let node_id = own_id(&cx)?;
    let nodes = &cx.services.nodes;
    let payload = match (p.payload_json, p.payload) {
        (Some(text), _) => serde_json::from_str(&text).unwrap_or(Value::Null),
        (None, payload) => payload.unwrap_or(Value::Null),
    };
    let done = json!({"ok": true});
    let given = nodes.given_name(&node_id).await;
    match NodeReport::read(&p.event, &payload, given.as_deref().unwrap_or(&cx.caller.name)) {
        NodeReport::Alive(None) => {
            return Ok(json!({"ok": true, "event": p.event, "handled": false,
                "reason": "invalid_payload"}));
        }
        NodeReport::Alive(Some(reason)) => {
            let is_known = nodes.is_alive(&node_id, reason).await.map_err(unrecorded)?;
            let reason = if is_known { "persisted" } else { "unpaired" };
            return Ok(json!({"ok": true, "event": p.event, "handled": is_known,
                "reason": reason}));
        }
        NodeReport::Subscribe(session) => {
            let key = cx.session_key(&session);
            if !cx.caller.subscriber.watch_messages(key, true) {
                return Err(ErrorShape::unavailable("too many sessions are followed"));
            }
        }
        NodeReport::Unsubscribe(session) => {
            cx.caller.subscriber.watch_messages(cx.session_key(&session), false);
        }
        NodeReport::Said { text, session, print } => {
            let key = session.map_or_else(|| main_session(&cx), |it| cx.session_key(&it));
            said(&cx, &node_id, key, text, print).await?;
        }
        NodeReport::Request(request) => {
            let key = match &request.session {
                Some(session) => cx.session_key(session),
                None => cx.session_key(&format!("node-{node_id}")),
            };
            ask(&cx, key, cx.services.ids.uuid(), request).await?;
        }
        NodeReport::Exec(report) => {
            let parts = cx.services.runs.parts();
            match nodes.session_of_run(&node_id, &report) {
                Some((key, true)) => {
                    let told = parts.remind(&key, &report.text, Teller::Node).await;
                    told.map_err(unwritten)?;
                }
                // In memory alone: a node may say as much as it likes of one command.
                Some((key, false)) => parts.notices.add(&key, &report.text, Teller::Node),
                None => {
                    tracing::warn!(node = %node_id, event = %p.event, "report on a command that the node was not asked to run; not heard");
                }
            }
        }
        NodeReport::Notification { text, session } => {
            let main = main_session(&cx);
            let key = session.map_or_else(|| main.clone(), |it| cx.session_key(&it));
            let entry = cx.services.sessions.entry(&key).await.map_err(unavailable)?;
            if entry.is_none() && key != main {
                tracing::warn!(node = %node_id, session = %key, "notification for a session that there is not; not heard");
                return Ok(done);
            }
            // In memory alone, where the oldest give way: a phone that shows much leaves room
            // for what others report.
            cx.services.runs.parts().notices.add(&key, &text, Teller::Node);
        }
        NodeReport::Unwanted => {}
        NodeReport::Unknown => {
            tracing::debug!(node = %node_id, "report that means nothing here");
        }
    }
    Ok(done)
}

fn main_session(cx: &Ctx) -> SessionKey {
    let keys = &cx.services.keys.now();
    SessionKey::main(&keys.default_agent, keys)
}
