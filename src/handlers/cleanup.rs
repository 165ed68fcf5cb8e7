//! `sessions.cleanup`, and the same from time to time by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::sessions::unavailable;
use crate::config::MaintenanceMode;
use crate::protocol::ErrorShape;
use crate::protocol::methods::sessions::SessionsCleanupParams;
use crate::registry::{Ctx, Reply, Services};
use crate::sessions::maintenance::{Cleanup, CleanupReport};
use crate::sessions::{AgentId, SessionError, SessionKey};
use crate::support::{blocking, json};

/// How often sessions are looked after. Nothing of it is urgent.
const EVERY: Duration = Duration::from_hours(1);

/// `sessions.cleanup`: does what `session.maintenance` says, now.
pub async fn cleanup(cx: Ctx, p: SessionsCleanupParams) -> Reply<Value> {
    let services = &cx.services;
    let known = agents(services).await.map_err(unavailable)?;
    let wanted = match (&p.agent, p.all_agents) {
        (Some(written), _) => {
            let agent = AgentId::normalize(written);
            if !known.contains(&agent) {
                return Err(ErrorShape::not_found(format!("unknown agent id \"{written}\"")));
            }
            vec![agent]
        }
        (None, true) => known.into_iter().collect(),
        (None, false) => vec![services.keys.now().default_agent.clone()],
    };
    let mode = mode(services, p.enforce);
    let active = p.active_key.map(|written| cx.session_key(&written));
    let mut stores = Vec::new();
    for agent in wanted {
        let done = look_after(services, agent.clone(), mode, p.fix_missing, active.as_ref());
        let report = done.await.map_err(unavailable)?;
        stores.push(shown(services, &agent, mode, &report));
    }
    match stores.len() {
        1 => Ok(stores.remove(0)),
        _ => {
            Ok(json!({"allAgents": true, "mode": mode.as_str(), "dryRun": false, "stores": stores}))
        }
    }
}

fn shown(
    services: &Services,
    agent: &AgentId,
    mode: MaintenanceMode,
    report: &CleanupReport,
) -> Value {
    let path = services.settings.now().paths.sessions_dir(agent.as_str()).join("sessions.json");
    let mut answer = json!({
        "agentId": agent.as_str(),
        "storePath": path.display().to_string(),
        "mode": mode.as_str(),
        "dryRun": false,
        "beforeCount": report.before,
        "afterCount": report.after,
        "missing": report.missing,
        "pruned": report.pruned,
        "capped": report.capped,
        "diskBudget": report.disk_budget,
        "wouldMutate": report.is_change(),
    });
    if mode == MaintenanceMode::Enforce
        && let Value::Object(members) = &mut answer
    {
        members.insert("applied".into(), json!(true));
        members.insert("appliedCount".into(), json!(report.after));
    }
    answer
}

fn mode(services: &Services, is_enforced: bool) -> MaintenanceMode {
    if is_enforced {
        MaintenanceMode::Enforce
    } else {
        services.settings.now().session.maintenance.mode
    }
}

/// The agents that are configured, and those that have sessions all the same.
async fn agents(services: &Services) -> Result<BTreeSet<AgentId>, SessionError> {
    let mut agents: BTreeSet<_> = services.sessions.agents().await?.into_iter().collect();
    agents.insert(services.keys.now().default_agent.clone());
    agents.extend(
        services.settings.now().agents.list.iter().map(|agent| AgentId::normalize(&agent.id)),
    );
    Ok(agents)
}

async fn look_after(
    services: &Arc<Services>,
    agent: AgentId,
    mode: MaintenanceMode,
    fixes_missing: bool,
    active: Option<&SessionKey>,
) -> Result<CleanupReport, SessionError> {
    let is_active = |key: &SessionKey| Some(key) == active || services.runs.is_in_use(key);
    let on_gone = |key: &SessionKey| {
        services.runs.parts().session_deleted(key);
        services.runs.parts().events.reason(key, None, "delete", false);
    };
    services
        .sessions
        .clean_up(&Cleanup {
            agent,
            rules: &services.settings.now().session.maintenance,
            applies: mode == MaintenanceMode::Enforce,
            fixes_missing,
            is_active: &is_active,
            on_gone: &on_gone,
        })
        .await
}

/// Looks after the sessions of all agents and after uploads, at the start and then
/// every hour.
pub async fn keep_tidy(services: Arc<Services>) {
    loop {
        match agents(&services).await {
            Ok(agents) => {
                for agent in agents {
                    // As it is now: it may have been changed since the last round.
                    let mode = mode(&services, false);
                    let done = look_after(&services, agent.clone(), mode, false, None).await;
                    report(&agent, mode, done);
                }
            }
            Err(error) => tracing::warn!(%error, "old sessions not looked after"),
        }
        let (media, now_ms) = (services.sessions.media(), services.clock.now_ms());
        let tidied = blocking(move || media.uploads().tidy(now_ms)).await;
        if let Ok(Err(error)) = tidied {
            tracing::warn!(%error, "old uploads not removed");
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn report(agent: &AgentId, mode: MaintenanceMode, done: Result<CleanupReport, SessionError>) {
    match done {
        Ok(report) if report.is_change() => {
            let CleanupReport { pruned, capped, archives, .. } = report;
            let freed = report.disk_budget.map(|budget| budget.freed_bytes).unwrap_or_default();
            match mode {
                MaintenanceMode::Enforce => {
                    tracing::info!(%agent, pruned, capped, archives, freed, "old sessions put away");
                }
                MaintenanceMode::Warn => tracing::warn!(
                    %agent, pruned, capped, archives, freed,
                    "sessions beyond session.maintenance are kept, because its mode is warn"
                ),
            }
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%agent, %error, "old sessions not looked after"),
    }
}
