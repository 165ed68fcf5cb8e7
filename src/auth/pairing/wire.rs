//! Devices and requests as clients see them. No token is among it.

use serde_json::{Map, Value};

use crate::protocol::ErrorShape;
use crate::store::{DeviceFacts, PairedDevice, PendingDevice};
use crate::support::json;

use super::REQUEST_LIFE_MS;
use super::decide::{Ask, Reason};

/// A request, as in a list and in `device.pair.requested`.
pub fn pending(device_id: &str, request: &PendingDevice) -> Value {
    let mut row = Map::new();
    row.insert("requestId".into(), json!(request.request_id));
    facts(&mut row, device_id, &request.facts);
    row.insert("silent".into(), json!(request.silent));
    row.insert("isRepair".into(), json!(request.is_repair));
    row.insert("ts".into(), json!(request.ts));
    row.into()
}

/// A device that is paired.
pub fn paired(device_id: &str, device: &PairedDevice) -> Value {
    let mut row = Map::new();
    facts(&mut row, device_id, &device.facts);
    row.insert("createdAtMs".into(), json!(device.created_at_ms));
    row.insert("approvedAtMs".into(), json!(device.approved_at_ms));
    let tokens: Vec<_> = device
        .tokens
        .iter()
        .map(|(role, token)| {
            let mut shown = Map::new();
            shown.insert("role".into(), json!(role));
            shown.insert("scopes".into(), json!(token.scopes));
            shown.insert("createdAtMs".into(), json!(token.created_at_ms));
            let times = [
                ("rotatedAtMs", token.rotated_at_ms),
                ("revokedAtMs", token.revoked_at_ms),
                ("lastUsedAtMs", token.last_used_at_ms),
            ];
            for (name, time) in times {
                if let Some(time) = time {
                    shown.insert(name.into(), json!(time));
                }
            }
            Value::from(shown)
        })
        .collect();
    row.insert("tokens".into(), json!(tokens));
    row.into()
}

fn facts(row: &mut Map<String, Value>, device_id: &str, facts: &DeviceFacts) {
    row.insert("deviceId".into(), json!(device_id));
    row.insert("publicKey".into(), json!(facts.public_key));
    let texts = [
        ("displayName", &facts.display_name),
        ("platform", &facts.platform),
        ("deviceFamily", &facts.device_family),
        ("clientId", &facts.client_id),
        ("clientMode", &facts.client_mode),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            row.insert(name.into(), json!(text));
        }
    }
    row.insert("role".into(), json!(facts.role));
    row.insert("roles".into(), json!(facts.roles));
    row.insert("scopes".into(), json!(facts.scopes));
    if let Some(ip) = &facts.remote_ip {
        row.insert("remoteIp".into(), json!(ip));
    }
}

/// `device.pair.resolved`.
pub fn resolved(request_id: &str, device_id: &str, decision: &str, now_ms: u64) -> Value {
    json!({"requestId": request_id, "deviceId": device_id, "decision": decision, "ts": now_ms})
}

/// `pairing required`, with what to do about it.
pub fn refusal(
    ask: &Ask,
    reason: Reason,
    request: &PendingDevice,
    approved: Option<(Vec<String>, Vec<String>)>,
) -> ErrorShape {
    let mut details = json!({
        "code": "PAIRING_REQUIRED",
        "reason": reason.as_str(),
        "requestId": request.request_id,
        "remediationHint": reason.hint(),
        "deviceId": ask.device_id,
        "requestedRole": ask.role.as_str(),
        "requestedScopes": ask.facts.scopes,
        "approveCommand": format!("clawgate devices approve {}", request.request_id),
        "expiresAtMs": request.ts + REQUEST_LIFE_MS,
    });
    if let Some((roles, scopes)) = approved {
        details["approvedRoles"] = json!(roles);
        details["approvedScopes"] = json!(scopes);
    }
    ErrorShape::not_paired(reason.message()).details(details)
}
