//! How a gateway is put together: its runs, its services, its door.

use std::sync::Arc;

use super::base::Base;
use super::phases::Phases;
use super::repair::Mode;
use super::{AppError, catalog, own_beacon, pairing, upkeep, voice};
use crate::agent::exec::Processes;
use crate::agent::exec::launcher::own_program;
use crate::agent::feed::Feed;
use crate::agent::skills::Skills;
use crate::agent::tools::Tools;
use crate::agent::workspace::Workspaces;
use crate::agent::{Notices, RestartNotes, Runs, RunsParts, SessionEvents, Tally, Unrecorded};
use crate::auth::pairing::Pairing;
use crate::auth::{Auth, DeviceIdentity};
use crate::bus::{Hub, Presence};
use crate::config::{Env, GatewaySettings, Settings};
use crate::dialects::Dialects;
use crate::gateway::Gateway;
use crate::handlers::{self, HealthCache, Reads};
use crate::providers::forget_prompts;
use crate::registry::{Lanes, Reload, Restart, Services};
use crate::wizard::Wizards;

/// A gateway under these settings. What the last one left unfinished is settled;
/// nothing goes on by itself yet.
///
/// # Errors
/// When its state does not open, and for what the settings name and there is not.
pub(super) async fn gateway(
    settings: Settings,
    env: &Env,
    hub: Arc<Hub>,
    reload: Reload,
    (mode, dialects, phases): (&Mode, Dialects, &mut Phases),
) -> Result<Arc<Gateway>, AppError> {
    let base = Base::open(settings, env, Arc::clone(&hub), mode).await?;
    phases.end("state");
    let runs = runs(&base)?;
    mode.recover(&runs, env).await?;
    phases.end("recovery");
    let settings = base.settings.now();
    forget_prompts(settings.paths.cli_prompts_dir()).await;
    // What somebody wants of a file that cannot be read is not known.
    if mode.repair.is_none() {
        upkeep::end_links(&settings, &*base.store).await;
    }
    let identity = DeviceIdentity::load_or_create(&settings.paths.identity_file(), &*base.clock)?;
    let identity = Arc::new(identity);
    let pairing = pairing::pairing(&runs, &identity, &base.bus);
    let auth = auth(&settings.gateway, Arc::clone(&pairing));
    let services = services(base, runs, (identity, pairing), reload, mode);
    Ok(Arc::new(Gateway::new(Arc::new(services), auth, hub, dialects)))
}

/// What answers messages. None has come yet.
fn runs(base: &Base) -> Result<Arc<Runs>, AppError> {
    let Base { settings, env, models, bus, clock, tasks, .. } = base;
    let channels = base.channels();
    Ok(Runs::new(RunsParts {
        settings: settings.clone(),
        keys: base.keys.clone(),
        sessions: base.sessions.clone(),
        store: Arc::clone(&base.store),
        models: models.clone(),
        bus: bus.clone(),
        feed: Feed::default(),
        events: SessionEvents::new(bus.clone(), models.clone(), Arc::clone(clock)),
        approvals: base.approvals(),
        cron: base.cron(&channels),
        channels,
        tools: Tools::new(settings, env, tasks.clone()),
        nodes: base.nodes(),
        processes: processes(base)?,
        workspaces: Arc::new(Workspaces::new(settings.clone(), Arc::clone(clock))),
        skills: Arc::new(Skills::new(settings.clone(), env.clone())),
        notices: Notices::default(),
        restart_notes: RestartNotes::new(settings.now().paths.restart_note()),
        tally: Tally::default(),
        unrecorded: Unrecorded::new(Arc::clone(&base.store), tasks.clone()),
        clock: Arc::clone(clock),
        ids: Arc::clone(&base.ids),
        tasks: tasks.clone(),
    }))
}

/// What the methods work with.
fn services(
    base: Base,
    runs: Arc<Runs>,
    (identity, pairing): (Arc<DeviceIdentity>, Arc<Pairing>),
    reload: Reload,
    mode: &Mode,
) -> Services {
    let Base { settings, env, keys, store, sessions, models, bus, clock, ids, tasks } = base;
    Services {
        voice: voice::voice(&runs, &env),
        push: voice::push(&runs, &env),
        lanes: Lanes::default(),
        registry: Arc::new(handlers::registry()),
        presence: Arc::new(Presence::new(own_beacon::own_beacon())),
        usage: catalog::usage_reports(&sessions, &store, &clock, &models),
        nodes: Arc::clone(&runs.parts().nodes),
        health: HealthCache::default(),
        reads: Reads::default(),
        repair: mode.repair.clone(),
        restart: Restart::default(),
        wizards: Wizards::default(),
        started: tokio::time::Instant::now(),
        started_ms: clock.now_ms(),
        settings,
        env,
        keys,
        sessions,
        models,
        runs,
        bus,
        clock,
        ids,
        tasks,
        identity,
        pairing,
        reload,
    }
}

/// Who is let in.
fn auth(settings: &GatewaySettings, pairing: Arc<Pairing>) -> Auth {
    let GatewaySettings { auth, control_ui, proxies, .. } = settings;
    Auth::new(auth.clone(), control_ui.clone(), proxies.clone(), pairing)
}

/// The commands of agents, kept by this very program.
fn processes(base: &Base) -> Result<Arc<Processes>, AppError> {
    let launcher = own_program().map_err(AppError::OwnProgram)?;
    let (clock, ids) = (Arc::clone(&base.clock), Arc::clone(&base.ids));
    let (settings, tasks) = (base.settings.clone(), base.tasks.clone());
    Ok(Arc::new(Processes::new(settings, launcher, clock, ids, tasks)))
}
