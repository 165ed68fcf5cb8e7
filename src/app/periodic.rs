//! What goes on beside requests, for as long as the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use super::{channels, upkeep};
use crate::bus::{Audience, EventKind};
use crate::handlers;
use crate::protocol::hello::TICK_INTERVAL_MS;
use crate::registry::Services;
use crate::support::json;
use crate::telemetry::without_secrets;

/// Starts it. A gateway that only helps to mend its config file does little of it.
pub(super) fn start(services: &Arc<Services>) {
    let tasks = &services.tasks;
    tasks.spawn("health", handlers::keep_fresh(Arc::clone(services)));
    tasks.spawn("presence", handlers::tell_presence(Arc::clone(services)));
    tasks.spawn("tick", tick(Arc::clone(services)));
    tasks.spawn("metrics", handlers::keep_history(Arc::clone(services)));
    if services.repair.is_some() {
        return;
    }
    tasks.spawn("prune", upkeep::prune(Arc::clone(services)));
    tasks.spawn("subagents", Arc::clone(&services.runs).keep_subagents());
    let (cron, runs) = (&services.runs.parts().cron, &services.runs);
    tasks.spawn("cron", Arc::clone(cron).schedule(Arc::clone(runs)));
    tasks.spawn("heartbeats", Arc::clone(cron).beat(Arc::clone(runs)));
    tasks.spawn("maintenance", handlers::keep_tidy(Arc::clone(services)));
    channels::begin(services);
    // What is wrong now is what the restart came to; later it may be something else.
    let trouble = services.reload.state.now().said();
    tasks.spawn("restart-note", tell_restart(Arc::clone(services), trouble));
}

/// Tells of the restart, if this is one that somebody has left a note for.
async fn tell_restart(services: Arc<Services>, trouble: Option<String>) {
    let trouble = trouble.as_deref().map(without_secrets);
    services.runs.parts().tell_restart(trouble.as_deref()).await;
}

/// Tells everybody at once that the gateway is alive.
async fn tick(services: Arc<Services>) {
    let every = Duration::from_millis(TICK_INTERVAL_MS);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    loop {
        ticks.tick().await;
        let payload = json!({"ts": services.clock.now_ms()});
        services.bus.publish(EventKind::Tick, &Audience::Everyone, &payload);
    }
}
