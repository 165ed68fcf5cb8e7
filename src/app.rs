//! The composition root: what is built, started and stopped, and in which order.
//!
//! Owns: the life of the running gateway. Promises: when it reports ready, it
//! listens; when it is told to stop, it says so to its clients, lets runs end,
//! and closes. Must not: read flags or variables; it is given [`Settings`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::agent::exec::Processes;
use crate::agent::exec::launcher::own_program;
use crate::agent::feed::Feed;
use crate::agent::skills::Skills;
use crate::agent::tools::Tools;
use crate::agent::workspace::Workspaces;
use crate::agent::{
    Models, Notices, Runs, RunsParts, SendError, SessionEvents, Tally, UnknownModel,
};
use crate::auth::pairing::Pairing;
use crate::auth::{Auth, DeviceIdentity, IdentityError};
use crate::bus::{Audience, Bus, EventKind, Hub, LocalBackplane, Presence};
use crate::config::document::ConfigIssue;
use crate::config::secrets::SecretError;
use crate::config::{Env, GatewaySettings, SessionScope, Settings};
use crate::dialects::Dialects;
use crate::gateway::tls::TlsError;
use crate::gateway::{self, Gateway};
use crate::handlers::{self, HealthCache, Reads};
use crate::protocol::hello::TICK_INTERVAL_MS;
use crate::providers::CatalogError;
use crate::registry::{Lanes, Reload, Restart, Services};
use crate::sessions::{AgentId, KeyRules, SessionError, Sessions, SessionsOptions};
use crate::store::{SqliteStore, Store, StoreError};
use crate::support::{Clock, Fingerprint, Ids, Live, RandomIds, SystemClock, Tasks};
use crate::wizard::Wizards;

mod approvals;
mod catalog;
mod channels;
mod ending;
mod jobs;
mod listen;
mod nodes;
mod own_beacon;
mod pairing;
mod reload;
mod repair;
mod start;
mod traces;
mod upkeep;
mod voice;

pub use catalog::models;
use catalog::usage_reports;
use ending::Signals;
use listen::Listening;
pub use listen::Sockets;
use reload::{Control, Reloader};
use repair::Mode;
pub use start::Start;
use traces::Exporter;

/// What is worth telling once the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens besides.
    pub further: Vec<SocketAddr>,
    /// The model that answers.
    pub model: String,
    /// Why that one.
    pub model_reason: String,
    /// Of the certificate, when it speaks TLS.
    pub tls: Option<Fingerprint>,
}

/// How a gateway ended that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// It was told to begin again.
    Restarts,
}

/// Why the gateway stopped, or never ran.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// Somebody else listens there.
    #[error(
        "cannot listen on {address}: the port is in use; find the other process with `lsof -nP -iTCP:{port} -sTCP:LISTEN`, or choose another port with --port, OPENCLAW_GATEWAY_PORT or gateway.port",
        port = address.port()
    )]
    PortInUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error(
        "cannot listen on {address}; --bind and --port (gateway.bind, gateway.port) choose another address"
    )]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// One of the further ports is not to be had.
    #[error(
        "gateway.dialects.ports: cannot listen on {address}; find the process that does with `lsof -nP -iTCP:{port} -sTCP:LISTEN`, or name another port",
        port = address.port()
    )]
    FurtherPort {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system does not tell us when to stop.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The configuration names a model that there is not.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The configuration refers to a secret that there is not.
    #[error("{path}: {source}")]
    Secret {
        /// Where the reference stands.
        path: String,
        /// Why it leads nowhere.
        #[source]
        source: SecretError,
    },
    /// An agent wants a model that there is not.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// The database does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sessions do not open.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// The system does not say which program this is.
    #[error("cannot find out which program this is: {0}")]
    OwnProgram(#[source] io::Error),
    /// There is no room for a gateway that mends its config file.
    #[error("cannot make a folder for temporary files: {0}")]
    Place(#[source] io::Error),
    /// What the last process left unfinished cannot be completed.
    #[error("cannot recover the runs of the last stop: {0}")]
    Recovery(#[from] SendError),
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The gateway's own key is not readable.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The listener failed for good.
    #[error("the listener failed")]
    Serve(#[source] io::Error),
}

impl AppError {
    /// With the key, where one is to blame: texts of errors begin with it.
    fn issue(&self) -> ConfigIssue {
        let text = self.to_string();
        match text.split_once(": ") {
            Some((path, message)) if !path.contains(char::is_whitespace) => {
                ConfigIssue { path: path.to_owned(), message: message.to_owned() }
            }
            _ => ConfigIssue { path: String::new(), message: text },
        }
    }

    /// What is wrong with the config file, when that is why.
    pub fn of_config(&self) -> Option<ConfigIssue> {
        let is_it = matches!(self, Self::Catalog(_) | Self::Secret { .. } | Self::Model(_));
        is_it.then(|| self.issue())
    }

    /// A reference in the configuration that leads nowhere.
    fn lost((path, source): (&str, SecretError)) -> Self {
        Self::Secret { path: path.to_owned(), source }
    }
}

/// Runs the gateway until it is told to stop, or to begin again. Where `sockets`
/// of the last time fit they are used again.
///
/// # Errors
/// Why it could not begin, or go on.
pub async fn run(
    start: &mut Start,
    env: &Env,
    sockets: &mut Sockets,
    on_ready: impl FnOnce(&Start, &Ready),
) -> Result<Ended, AppError> {
    let Start { mut settings, overrides, seen, repair, dialects } = start.clone();
    let env = &settings.environment(env);
    let began = tokio::time::Instant::now();
    let (mut signals, mut restart) = (Signals::new()?, ending::restart_signal()?);
    // The port first: whoever cannot have it should not touch the state.
    let Listening { listeners, address, further } = listen::listen(&settings, sockets).await?;
    let tls = listen::tls(&settings, &SystemClock).await?;
    let followed = settings.gateway.auth.follow(&settings.secrets, env).await;
    followed.map_err(AppError::lost)?;
    settings.hooks.follow(&settings.secrets, env, &settings.gateway.auth).await;
    let (hub, (reload, asks)) = (Arc::new(Hub::default()), Reload::new());
    let (hub_, mode) = (Arc::clone(&hub), Mode::of(repair)?);
    let gateway = build(settings, env, hub_, reload, (&mode, dialects)).await?;
    let services = Arc::clone(&gateway.services);
    let choice = services.models.default_choice();
    let ready = Ready {
        address,
        further,
        model: choice.model.reference().to_string(),
        model_reason: choice.reason.clone(),
        tls: tls.as_ref().map(|tls| tls.fingerprint()),
    };
    start_periodic(&services);
    let (control, exporter) = (Arc::new(Control::default()), Arc::new(Exporter::default()));
    exporter.follow(&services);
    let has_socket = services.settings.now().gateway.control_socket;
    control.set(&services, has_socket && services.repair.is_none()).await;
    let kept = (Arc::clone(&control), Arc::clone(&exporter));
    let reloader = Reloader::new(Arc::clone(&gateway), env, &overrides, kept, seen);
    services.tasks.spawn("config", reloader.keep(asks));
    if let Some(tls) = &tls {
        services.tasks.spawn("certificate", Arc::clone(tls).keep_fresh());
    }
    let mut server = services.tasks.spawn("listener", gateway::serve(listeners, tls, gateway));
    on_ready(start, &ready);
    ending::note_ready(began.elapsed());
    tracing::info!(%address, model = %ready.model, "ready");
    let ended = tokio::select! {
        () = signals.next() => Ok(Ended::Stopped),
        () = ending::restart(&services, &mut restart) => Ok(Ended::Restarts),
        ended = &mut server => Err(AppError::Serve(why_it_ended(ended))),
    };
    tracing::info!("stopping; another signal stops at once");
    let restarts = matches!(ended, Ok(Ended::Restarts));
    if restarts {
        // Who comes now is let in by the next one.
        server.abort();
    }
    let ended = tokio::select! {
        () = ending::stop(&services, &hub, restarts) => ended,
        () = signals.next() => {
            tracing::warn!("stopped at once");
            ended.map(|_| Ended::Stopped)
        }
    };
    server.abort();
    exporter.end().await;
    control.end().await;
    // What was good last, for a restart with a file that is not.
    start.settings = (*services.settings.now()).clone();
    ended
}

/// The listener never ends by itself, so whatever it ended with is an error.
fn why_it_ended(ended: Result<Option<io::Result<()>>, tokio::task::JoinError>) -> io::Error {
    match ended {
        Ok(Some(Err(error))) => error,
        Ok(Some(Ok(()))) => io::Error::other("it stopped"),
        Ok(None) | Err(_) => io::Error::other("it panicked"),
    }
}

async fn build(
    settings: Settings,
    env: &Env,
    hub: Arc<Hub>,
    reload: Reload,
    (mode, dialects): (&Mode, Dialects),
) -> Result<Arc<Gateway>, AppError> {
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock), Arc::new(RandomIds));
    let (tasks, keys) = (Tasks::default(), Live::new(key_rules(&settings)));
    let failover = models(&settings, env, &clock).await?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&mode.database(&settings))?);
    failover.credentials().keep_in(Arc::clone(&store), tasks.clone());
    let options = mode.confined(sessions_options(&settings, keys.now()));
    let sessions =
        Sessions::open(options, Arc::clone(&store), Arc::clone(&clock), Arc::clone(&ids)).await?;
    let bus = Bus::new(LocalBackplane(Arc::clone(&hub)));
    let models = Models::new(failover, keys.clone(), &settings.agents)?;
    let settings = Live::new(settings);
    let usage = usage_reports(&sessions, &store, &clock, &models);
    let approvals = approvals::approvals(&settings, &sessions, &bus, &clock, &ids);
    let channels = channels::build(&settings, &keys, env, &store, &sessions, &clock, &tasks);
    let nodes = nodes::nodes(&settings, &store, &bus, &clock, &ids);
    let cron = jobs::jobs(&settings, &keys, env, &sessions, &store, &bus, &clock, &ids, &channels);
    let runs = Runs::new(RunsParts {
        settings: settings.clone(),
        keys: keys.clone(),
        sessions: sessions.clone(),
        store,
        models: models.clone(),
        bus: bus.clone(),
        feed: Feed::default(),
        events: SessionEvents::new(bus.clone(), models.clone(), Arc::clone(&clock)),
        approvals,
        channels,
        tools: Tools::new(&settings, env, tasks.clone()),
        nodes: Arc::clone(&nodes),
        processes: processes(&settings, &clock, &ids, &tasks)?,
        workspaces: Arc::new(Workspaces::new(settings.clone(), Arc::clone(&clock))),
        skills: Arc::new(Skills::new(settings.clone(), env.clone())),
        notices: Notices::default(),
        cron,
        tally: Tally::default(),
        clock: Arc::clone(&clock),
        ids: Arc::clone(&ids),
        tasks: tasks.clone(),
    });
    mode.recover(&runs).await?;
    let identity = DeviceIdentity::load_or_create(&settings.now().paths.identity_file(), &*clock)?;
    let identity = Arc::new(identity);
    let pairing = pairing::pairing(&runs, &identity, &bus);
    let auth = auth(&settings.now().gateway, Arc::clone(&pairing));
    let services = Arc::new(Services {
        voice: voice::voice(&runs, env),
        push: voice::push(&runs, env),
        lanes: Lanes::default(),
        env: env.clone(),
        registry: Arc::new(handlers::registry()),
        settings,
        clock,
        ids,
        tasks,
        bus,
        presence: Arc::new(Presence::new(own_beacon::own_beacon())),
        sessions,
        usage,
        models,
        runs,
        nodes,
        keys,
        identity,
        pairing,
        health: HealthCache::default(),
        reads: Reads::default(),
        reload,
        repair: mode.repair.clone(),
        restart: Restart::default(),
        wizards: Wizards::default(),
        started: tokio::time::Instant::now(),
    });
    Ok(Arc::new(Gateway::new(services, auth, hub, dialects)))
}

/// Who is let in.
fn auth(settings: &GatewaySettings, pairing: Arc<Pairing>) -> Auth {
    let GatewaySettings { auth, control_ui, proxies, .. } = settings;
    Auth::new(auth.clone(), control_ui.clone(), proxies.clone(), pairing)
}

/// The commands of agents, kept by this very program.
fn processes(
    settings: &Live<Settings>,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
    tasks: &Tasks,
) -> Result<Arc<Processes>, AppError> {
    let launcher = own_program().map_err(AppError::OwnProgram)?;
    let (clock, ids) = (Arc::clone(clock), Arc::clone(ids));
    Ok(Arc::new(Processes::new(settings.clone(), launcher, clock, ids, tasks.clone())))
}

/// Whether a gateway with these settings starts, as far as they decide that.
/// Creates nothing; asks nobody but, where one is wanted, the Ollama.
///
/// # Errors
/// For a model or an API that there is not.
pub async fn check(settings: &Settings, env: &Env) -> Result<(), AppError> {
    let env = &settings.environment(env);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut auth = settings.gateway.auth.clone();
    auth.follow(&settings.secrets, env).await.map_err(AppError::lost)?;
    let failover = models(settings, env, &clock).await?;
    Models::new(failover, Live::new(key_rules(settings)), &settings.agents)?;
    listen::check_tls(settings).await?;
    Ok(())
}

fn sessions_options(settings: &Settings, rules: Arc<KeyRules>) -> SessionsOptions {
    SessionsOptions {
        state_dir: settings.paths.state_dir.clone(),
        rules,
        format: settings.session.transcript_format,
        reset: settings.session.reset.clone(),
    }
}

/// How session keys become canonical under these settings.
pub fn key_rules(settings: &Settings) -> KeyRules {
    KeyRules {
        default_agent: AgentId::normalize(&settings.agents.default_id),
        main_key: settings.session.main_key.clone(),
        global_scope: settings.session.scope == SessionScope::Global,
        dm_scope: settings.session.dm_scope,
        identity_links: settings.session.identity_links.clone(),
    }
}

fn start_periodic(services: &Arc<Services>) {
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
