//! `gateway.restart.preflight`, `gateway.restart.request`.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::methods::AnyParams;
use crate::protocol::methods::system::RestartRequestParams;
use crate::registry::{Ctx, Reply, Services};
use crate::support::json;
use crate::telemetry::quoted;

/// `gateway.restart.preflight`: whether a restart would interrupt work.
pub async fn preflight(cx: Ctx, _: AnyParams) -> Reply<Value> {
    Ok(report(&cx))
}

/// `gateway.restart.request`: asks for a restart once nothing runs.
pub async fn request(cx: Ctx, p: RestartRequestParams) -> Reply<Value> {
    let preflight = report(&cx);
    let is_pending = cx.services.restart.promise();
    if !is_pending {
        // Who asks is answered first.
        cx.after_answer(Restarting(Arc::clone(&cx.services)));
    }
    let status = match (is_pending, preflight["safe"] == true) {
        (true, _) => "coalesced",
        (false, true) => "scheduled",
        (false, false) => "deferred",
    };
    tracing::info!(
        by = quoted(&cx.caller.name),
        reason = p.reason.as_deref().map(quoted),
        status,
        "restart asked for"
    );
    let restart = json!({
        "ok": true,
        "pid": std::process::id(),
        "signal": "SIGUSR1",
        "delayMs": 0,
        "reason": p.reason,
        "mode": "emit",
        "coalesced": is_pending,
        "cooldownMsApplied": 0,
    });
    Ok(json!({"ok": true, "status": status, "preflight": preflight, "restart": restart}))
}

/// Asks for a restart when dropped.
pub(super) struct Restarting(pub Arc<Services>);

impl Drop for Restarting {
    fn drop(&mut self) {
        self.0.restart.ask();
    }
}

/// What a restart would interrupt, in the words of the original.
fn report(cx: &Ctx) -> Value {
    let work = cx.services.runs.work();
    let kinds = [
        ("queue", work.queued, "queued or active operation(s)"),
        ("reply", work.replies, "pending reply delivery operation(s)"),
        ("embedded-run", work.runs, "active embedded run(s)"),
        ("task", work.tasks, "active background task(s)"),
    ];
    let busy: Vec<_> = kinds.into_iter().filter(|(_, count, _)| *count > 0).collect();
    let said: Vec<_> = busy.iter().map(|(_, count, what)| format!("{count} {what}")).collect();
    let blockers: Vec<_> = busy
        .iter()
        .zip(&said)
        .map(|((kind, count, _), said)| json!({"kind": kind, "count": count, "message": said}))
        .collect();
    let summary = match said.as_slice() {
        [] => "safe to restart now".to_owned(),
        said => format!("restart deferred: {}", said.join("; ")),
    };
    json!({
        "safe": said.is_empty(),
        "counts": {
            "queueSize": work.queued,
            "pendingReplies": work.replies,
            "embeddedRuns": work.runs,
            "activeTasks": work.tasks,
            "totalActive": work.total(),
        },
        "blockers": blockers,
        "summary": summary,
    })
}
