//! What goes on beside requests, for as long as the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use super::{channels, upkeep};
use crate::bus::{Audience, EventKind};
use crate::handlers;
use crate::protocol::hello::TICK_INTERVAL_MS;
use crate::registry::Services;
use crate::support::json;

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
    tasks.spawn("restart-note", tell_restart(Arc::clone(services)));
}

/// Tells of the restart, if this is the one that somebody has left a note for.
async fn tell_restart(services: Arc<Services>) {
    let trouble = services.reload.state.now().trouble.clone();
    let trouble = trouble.map(|issue| format!("{}: {}", issue.path, issue.message));
    services.runs.parts().tell_restart(trouble).await;
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
