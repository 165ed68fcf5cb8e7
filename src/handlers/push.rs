//! `push.*`.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::push::{
    PushTestParams, WebPushSubscribeParams, WebPushTestParams, WebPushUnsubscribeParams,
};
use crate::push::{Notice, PushError, SubscriptionKeys};
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// `push.test`: a notification for an iOS node, which needs Apple's service.
/// This gateway is registered with nobody there, so no node can be.
pub async fn test(_: Ctx, p: PushTestParams) -> Reply<Value> {
    let node = p.node_id.trim();
    if node.is_empty() {
        return Err(ErrorShape::invalid("nodeId required"));
    }
    let error = format!("node {node} has no APNs registration (connect iOS node first)");
    Err(ErrorShape::invalid(error))
}

/// `push.web.vapidPublicKey`: what a browser asks its push service with.
pub async fn public_key(cx: Ctx, _: NoParams) -> Reply<Value> {
    let key = cx.services.push.public_key().await.map_err(|error| refused(&error))?;
    Ok(json!({"vapidPublicKey": key}))
}

/// `push.web.subscribe`: a browser wants notifications.
pub async fn subscribe(cx: Ctx, p: WebPushSubscribeParams) -> Reply<Value> {
    let keys = SubscriptionKeys { p256dh: p.keys.p256dh, auth: p.keys.auth };
    let device = cx.caller.principal.device();
    let subscribed = cx.services.push.subscribe(p.endpoint, keys, device).await;
    Ok(json!({"subscriptionId": subscribed.map_err(|error| refused(&error))?}))
}

/// `push.web.unsubscribe`: it no longer does.
pub async fn unsubscribe(cx: Ctx, p: WebPushUnsubscribeParams) -> Reply<Value> {
    let removed = cx.services.push.unsubscribe(&p.endpoint).await;
    Ok(json!({"removed": removed.map_err(|error| refused(&error))?}))
}

/// `push.web.test`: a notification for the browsers of the caller.
pub async fn web_test(cx: Ctx, p: WebPushTestParams) -> Reply<Value> {
    let text = |given: Option<String>, usual: &str| {
        let given = given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        given.unwrap_or_else(|| usual.to_owned())
    };
    let (title, body) = (text(p.title, "OpenClaw"), text(p.body, "Web push test notification"));
    let device = cx.caller.principal.device();
    let sent = cx.services.push.notify(&Notice { title, body }, device).await;
    let results = sent.map_err(|error| refused(&error))?;
    if results.is_empty() {
        return Err(ErrorShape::invalid("no web push subscriptions registered"));
    }
    Ok(json!({"results": results}))
}

fn refused(error: &PushError) -> ErrorShape {
    match error {
        PushError::Endpoint(_) | PushError::TooLong => ErrorShape::invalid(error.to_string()),
        _ => ErrorShape::unavailable(format!("Error: {error}")),
    }
}
