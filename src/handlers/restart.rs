//! `gateway.restart.preflight`, `gateway.restart.request`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::protocol::methods::AnyParams;
use crate::protocol::methods::system::RestartRequestParams;
use crate::registry::{Cause, Ctx, Promised, Reply, Round, Services};
use crate::support::{json, millis};
use crate::telemetry::quoted;

use super::config::no_restart;

/// `gateway.restart.preflight`: whether a restart would interrupt work.
pub async fn preflight(cx: Ctx, _: AnyParams) -> Reply<Value> {
    Ok(report(&cx))
}

/// `gateway.restart.request`: asks for a restart once nothing runs.
pub async fn request(cx: Ctx, p: RestartRequestParams) -> Reply<Value> {
    // One that would be given up is not promised.
    cx.services.reload.begins().await.map_err(|wrong| no_restart(&wrong))?;
    let preflight = report(&cx);
    // Who asks is answered first.
    let (restarting, promised) = Restarting::after(&cx.services, Duration::ZERO, Cause::Wish);
    cx.after_answer(restarting);
    let status = match (promised.is_pending, preflight["safe"] == true) {
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
    let restart = shown(p.reason.as_deref(), promised);
    Ok(json!({"ok": true, "status": status, "preflight": preflight, "restart": restart}))
}

/// The restart that comes, in the words of the original.
pub(super) fn shown(reason: Option<&str>, promised: Promised) -> Value {
    json!({
        "ok": true,
        "pid": std::process::id(),
        "signal": "SIGUSR1",
        "delayMs": millis(promised.wait),
        "reason": reason,
        "mode": "emit",
        "coalesced": promised.is_pending,
        "cooldownMsApplied": 0,
    })
}

/// Asks for a restart when dropped, or so much later, unless it was withdrawn meanwhile.
pub(super) struct Restarting {
    services: Arc<Services>,
    delay: Duration,
    round: Round,
}

impl Restarting {
    /// Promises to ask after so long: what is withdrawn from here on is not asked for.
    pub fn after(services: &Arc<Services>, delay: Duration, cause: Cause) -> (Self, Promised) {
        let promised = services.restart.promise(delay, cause);
        (Self { services: Arc::clone(services), delay, round: promised.round }, promised)
    }
}

impl Drop for Restarting {
    fn drop(&mut self) {
        let (services, delay, round) = (Arc::clone(&self.services), self.delay, self.round);
        if delay.is_zero() {
            return services.restart.ask_in(round);
        }
        self.services.tasks.spawn("restart", async move {
            sleep(delay).await;
            services.restart.ask_in(round);
        });
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
