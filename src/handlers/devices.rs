//! `device.*`: who is paired, who asks to be, and their tokens.

use std::sync::Arc;

use serde_json::Value;

use crate::auth::pairing::{CodeFor, Issued, ManageError};
use crate::bus::{Bus, Closing};
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::devices::{
    DevicePairRemoveParams, DeviceRequestParams, DeviceTokenRevokeParams, DeviceTokenRotateParams,
};
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// `device.pair.list`: requests and devices that the caller may see.
pub async fn list(cx: Ctx, _: NoParams) -> Reply<Value> {
    cx.services.pairing.list(&cx.caller.principal, cx.now_ms()).await
}

/// `device.pair.approve`: lets a device in that asked for it.
pub async fn approve(cx: Ctx, p: DeviceRequestParams) -> Reply<Value> {
    let pairing = &cx.services.pairing;
    let approved = pairing.approve(&cx.caller.principal, &p.request_id, cx.now_ms()).await;
    approved.map_err(|error| refused(error, "device pairing approval denied"))
}

/// `device.pair.reject`: drops what a device asked for.
pub async fn reject(cx: Ctx, p: DeviceRequestParams) -> Reply<Value> {
    let pairing = &cx.services.pairing;
    let rejected = pairing.reject(&cx.caller.principal, &p.request_id, cx.now_ms()).await;
    let device_id = rejected.map_err(|error| refused(error, "device pairing rejection denied"))?;
    Ok(json!({"requestId": p.request_id, "deviceId": device_id}))
}

/// `device.pair.remove`: forgets a device and ends its connections.
pub async fn remove(cx: Ctx, p: DevicePairRemoveParams) -> Reply<Value> {
    let pairing = &cx.services.pairing;
    let removed = pairing.remove(&cx.caller.principal, &p.device_id, cx.now_ms()).await;
    removed.map_err(|error| refused(error, "device pairing removal denied"))?;
    let answer = json!({"deviceId": p.device_id});
    close_after_answer(&cx, p.device_id, None);
    Ok(answer)
}

/// `device.token.rotate`: another token for a device; ends the connections that
/// stand on the old one.
pub async fn rotate(cx: Ctx, p: DeviceTokenRotateParams) -> Reply<Value> {
    let pairing = &cx.services.pairing;
    let token = (p.device_id.as_str(), p.role.as_str());
    let rotated = pairing.rotate(&cx.caller.principal, token, p.scopes, cx.now_ms()).await;
    let rotated = rotated.map_err(|error| refused(error, "device token rotation denied"))?;
    let mut answer = json!({
        "deviceId": p.device_id,
        "role": p.role,
        "scopes": rotated.scopes,
        "rotatedAtMs": rotated.rotated_at_ms,
    });
    if let Some(token) = rotated.token {
        answer["token"] = json!(token.expose());
    }
    close_after_answer(&cx, p.device_id, Some(p.role));
    Ok(answer)
}

/// `device.token.revoke`: makes a token good for nothing and ends the
/// connections that stand on it.
pub async fn revoke(cx: Ctx, p: DeviceTokenRevokeParams) -> Reply<Value> {
    let pairing = &cx.services.pairing;
    let token = (p.device_id.as_str(), p.role.as_str());
    let revoked = pairing.revoke(&cx.caller.principal, token, cx.now_ms()).await;
    let revoked_at_ms =
        revoked.map_err(|error| refused(error, "device token revocation denied"))?;
    let answer = json!({"deviceId": p.device_id, "role": p.role, "revokedAtMs": revoked_at_ms});
    close_after_answer(&cx, p.device_id, Some(p.role));
    Ok(answer)
}

/// `device.pair.setupCode`: a code that lets one device in, once; ours.
pub async fn setup_code(cx: Ctx, _: NoParams) -> Reply<Value> {
    issue(&cx, CodeFor::Phone).await
}

/// `device.pair.loginCode`: a code that logs one browser in, once, and where the
/// Control UI is, if it is installed; ours.
pub async fn login_code(cx: Ctx, _: NoParams) -> Reply<Value> {
    let mut answer = issue(&cx, CodeFor::Browser).await?;
    let settings = cx.services.settings.now();
    if settings.gateway.ui.is_there().await {
        answer["controlUiBasePath"] = settings.gateway.ui.base_path.as_str().into();
    }
    Ok(answer)
}

async fn issue(cx: &Ctx, purpose: CodeFor) -> Reply<Value> {
    let issued = cx.services.pairing.issue_code(&cx.caller.principal, purpose, cx.now_ms()).await;
    let Issued { token, grant, expires_at_ms } =
        issued.map_err(|error| refused(error, "setup code denied"))?;
    Ok(json!({
        "bootstrapToken": token.expose(),
        "roles": grant.roles,
        "scopes": grant.scopes,
        "expiresAtMs": expires_at_ms,
    }))
}

/// `device.pair.clearCodes`: takes back every setup code; ours.
pub async fn clear_codes(cx: Ctx, _: NoParams) -> Reply<Value> {
    let cleared = cx.services.pairing.clear_codes(cx.now_ms()).await?;
    Ok(json!({"cleared": cleared}))
}

fn refused(error: ManageError, denied: &str) -> ErrorShape {
    match error {
        ManageError::Denied => ErrorShape::denied(denied),
        ManageError::UnknownRequest => ErrorShape::not_found("unknown requestId"),
        ManageError::UnknownDevice => ErrorShape::not_found("unknown deviceId"),
        ManageError::MissingScope(scope) => ErrorShape::lacks(&scope),
        ManageError::InvalidScope(scope) => {
            ErrorShape::invalid(format!("invalid scope for requested roles: {scope}"))
        }
        ManageError::Failed(error) => *error,
    }
}

/// Ends a device's connections once the caller has its answer: it may be one of
/// them.
fn close_after_answer(cx: &Ctx, device_id: String, role: Option<String>) {
    let caller = Arc::clone(&cx.caller.subscriber.conn_id);
    cx.after_answer(Closer { bus: cx.services.bus.clone(), device_id, role, caller });
}

/// Ends the connections of a device when it is dropped.
struct Closer {
    bus: Bus,
    device_id: String,
    role: Option<String>,
    caller: Arc<str>,
}

impl Drop for Closer {
    fn drop(&mut self) {
        let closing = Closing::device_removed();
        self.bus.close_device(&self.device_id, self.role.as_deref(), &closing, &self.caller);
    }
}
