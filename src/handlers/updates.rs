//! `update.status`, `update.run`: which version runs, and how to get another.
//! This gateway does not replace itself.

use parking_lot::Mutex;
use serde_json::Value;

use super::SERVER_VERSION;
use crate::agent::DOCTOR_HINT;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::diagnostics::UpdateRunParams;
use crate::registry::{Ctx, Reply};
use crate::support::installation::{self, Installation};
use crate::support::{blocking, json, without_nulls};

/// The note that the last `update.run` of this process has left.
static NOTE: Mutex<Option<Value>> = Mutex::new(None);

/// `update.status`: what the last `update.run` came to, and how this gateway was
/// installed.
pub async fn status(_: Ctx, _: NoParams) -> Reply<Value> {
    let found = look().await?;
    let note = NOTE.lock().clone();
    Ok(json!({"sentinel": note, "version": SERVER_VERSION, "installation": shown(&found)}))
}

/// `update.run`: says how this gateway is brought up to date; who installed it
/// does that. Never restarts it.
pub async fn run(cx: Ctx, p: UpdateRunParams) -> Reply<Value> {
    let found = look().await?;
    let reason = if found.is_replaced {
        "another program is in place already: stop the gateway and start it".to_owned()
    } else {
        let (advice, then) = (found.origin.advice(), found.origin.then());
        format!("clawgate does not update itself: {advice}{then}")
    };
    let result = json!({
        "status": "skipped",
        "mode": found.origin.as_str(),
        "root": found.program.as_ref().and_then(|program| Some(program.parent()?.display().to_string())),
        "reason": reason,
        "before": {"version": SERVER_VERSION},
        "steps": [],
        "durationMs": 0,
    });
    let key = p.session_key.map(|written| cx.session_key(&written).to_string());
    let mut note = without_nulls(json!({
        "kind": "update",
        "status": "skipped",
        "ts": cx.now_ms(),
        "sessionKey": key,
        "deliveryContext": p.delivery_context.map(|chat| chat.shown()),
        "doctorHint": DOCTOR_HINT,
        "stats": result,
    }));
    // As in the notes of a changed config, it is there without words as well.
    note["message"] = json!(p.note);
    *NOTE.lock() = Some(note.clone());
    tracing::info!(by = %cx.caller.name, %reason, "an update was asked for");
    Ok(json!({
        "ok": false,
        "result": result,
        "restart": null,
        "sentinel": {"path": null, "payload": note},
        "installation": shown(&found),
    }))
}

async fn look() -> Reply<Installation> {
    Ok(blocking(installation::find).await?)
}

fn shown(found: &Installation) -> Value {
    without_nulls(json!({
        "kind": found.origin.as_str(),
        "program": found.program.as_ref().map(|program| program.display().to_string()),
        "replaced": found.is_replaced,
        "advice": found.origin.advice(),
    }))
}
