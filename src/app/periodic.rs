//! What goes on beside requests, for as long as the gateway runs.

use std::sync::Arc;
use std::time::Duration;

use super::{channels, openclaw, upkeep};
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
    tasks.spawn("openclaw", openclaw::look(Arc::clone(services)));
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

/// Tells why a restart does not come, unless another one does, which is told then.
pub(super) async fn tell_no_restart(services: Arc<Services>, why: String) {
    // Who writes the config promises a restart for that, and leaves his note, before he has
    // done with it.
    services.reload.written().await;
    if services.repair.is_none() && services.restart.promised().is_none() {
        tell_restart(services, Some(why)).await;
    }
}

/// Tells of a restart that does not come, since nothing in the configuration brings it any more.
pub(super) fn tell_not_needed(services: &Arc<Services>) {
    let settings = services.settings.now();
    let why = if settings.pending.is_empty() {
        "nothing in the configuration needs it any more".to_owned()
    } else {
        format!("gateway.reload.mode is {} now", settings.gateway.reload.mode)
    };
    tracing::info!("{why}; the gateway does not restart");
    let telling = tell_no_restart(Arc::clone(services), why);
    services.tasks.spawn("restart-note", telling);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::app::build;
    use crate::app::phases::Phases;
    use crate::app::repair::Mode;
    use crate::config::secrets::ResolvedSecrets;
    use crate::config::{self, Env, MaintenanceMode, Overrides};
    use crate::dialects::Dialects;
    use crate::registry::Reload;
    use crate::sessions::SessionKey;

    /// Much longer than a round of maintenance takes.
    const A_ROUND: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_round_of_maintenance_goes_by_the_mode_of_its_time() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([("OPENCLAW_GATEWAY_TOKEN", "token-of-a-test")], home.path());
        // However fast it is, it does not come to the last of them at once.
        let agents: Vec<_> = (0..20).map(|number| json!({"id": format!("a{number}")})).collect();
        let config = json!({"agents": {"list": agents},
            "session": {"maintenance": {"mode": "warn", "pruneAfter": "10d"}}});
        let given = Overrides::default();
        let settings = config::load_text(&config.to_string(), &env, &given).unwrap();
        let folder = settings.paths.sessions_dir("last");
        fs::create_dir_all(&folder).unwrap();
        let index = json!({"agent:last:stale": {"sessionId": "s-1", "updatedAt": 1}});
        fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
        let (reload, _asks) = Reload::new();
        let (mode, mut phases) =
            (Mode::of(None, ResolvedSecrets::default()).unwrap(), Phases::begin());
        let dialects: Dialects = &[];
        let how = (&mode, dialects, &mut phases);
        let building = build::gateway(settings, &env, Arc::default(), reload, how);
        let services = Arc::clone(&Box::pin(building).await.unwrap().services);

        let mut tidy = Box::pin(handlers::keep_tidy(Arc::clone(&services)));
        // It has begun, in mode warn.
        assert!(futures_util::poll!(&mut tidy).is_pending());
        let mut settings = (*services.settings.now()).clone();
        settings.session.maintenance.mode = MaintenanceMode::Enforce;
        services.settings.set(settings);
        let stale = SessionKey::from_canonical("agent:last:stale");
        let going = async { while services.sessions.entry(&stale).await.unwrap().is_some() {} };
        tokio::select! {
            () = going => {}
            () = tidy => unreachable!("it has no end"),
            () = tokio::time::sleep(A_ROUND) => panic!("it goes by the mode of its beginning"),
        }
    }
}
