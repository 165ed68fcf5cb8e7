//! The composition root: what is built, started and stopped, and in which order.
//!
//! Owns: the life of the running gateway. Promises: when it reports ready, it
//! listens; when it is told to stop, it says so to its clients, lets runs end,
//! and closes. Must not: read flags or variables; it is given [`Settings`].

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::Receiver;

use crate::agent::missing_models;
use crate::bus::Hub;
use crate::config::document::ConfigIssue;
use crate::config::{self, Env, Overrides, SessionScope, Settings};
use crate::gateway::tls::Tls;
use crate::gateway::{self, Gateway};
use crate::providers::MissingModel;
use crate::registry::{Ask, ConfigState, Reload};
use crate::sessions::{AgentId, KeyRules, SessionError, Sessions};
use crate::support::{Clock, Fingerprint, SystemClock};

mod again;
mod base;
mod build;
mod catalog;
mod channels;
mod ending;
mod error;
mod listen;
mod openclaw;
mod own_beacon;
mod pairing;
mod periodic;
mod phases;
mod reload;
mod repair;
mod restrictions;
mod start;
mod traces;
mod upkeep;
mod voice;

pub use catalog::models;
pub use ending::Signals;
pub use error::AppError;
use listen::Listening;
pub use listen::Sockets;
pub use openclaw::{indexes as indexes_of_openclaw, not_taken_over};
use phases::Phases;
use reload::{Control, Reloader};
use repair::Mode;
pub use restrictions::{Unenforced, unenforced};
use start::InUse;
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
    /// It was told so twice: nothing of it is waited for.
    StoppedAtOnce,
    /// It was told to begin again.
    Restarts,
}

/// A gateway that listens, and serves nobody yet.
struct Begun {
    gateway: Arc<Gateway>,
    listening: Listening,
    tls: Option<Arc<Tls>>,
    asks: Receiver<Ask>,
    phases: Phases,
    /// What it keeps goes with it.
    _mode: Mode,
}

async fn begin(start: Start, env: &Env, sockets: &mut Sockets) -> Result<Begun, AppError> {
    let Start { mut settings, repair, refused, dialects, in_use, .. } = start;
    let mut phases = Phases::begin();
    // The port first: whoever cannot have it should not touch the state.
    let listening = listen::listen(&settings, sockets)?;
    phases.end("address");
    let tls = match in_use.tls {
        None => listen::tls(&settings, &SystemClock).await?,
        tls => tls,
    };
    phases.end("certificate");
    let followed = settings.gateway.auth.follow(&settings.secrets, env).await;
    followed.map_err(AppError::lost)?;
    settings.hooks.follow(&settings.secrets, env, &settings.gateway.auth).await;
    settings.cron.follow(&settings.secrets, env).await;
    phases.end("secrets");
    let (hub, (reload, asks)) = (Arc::new(Hub::default()), Reload::new());
    reload.state.set(ConfigState { trouble: refused });
    let mode = Mode::of(repair, in_use.secrets)?;
    let how = (&mode, dialects, &mut phases);
    let gateway = Box::pin(build::gateway(settings, env, hub, reload, how)).await?;
    Ok(Begun { gateway, listening, tls, asks, phases, _mode: mode })
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
    signals: &mut Signals,
    on_ready: impl FnOnce(&Start, &Ready),
) -> Result<Ended, AppError> {
    let (process, env) = (env, &start.settings.environment(env));
    let began = tokio::time::Instant::now();
    let Signals { stop, restart } = signals;
    let Begun { gateway, listening, tls, asks, mut phases, _mode } = tokio::select! {
        gateway = Box::pin(begin(start.clone(), env, sockets)) => gateway?,
        // A secret or a disk that lets it wait holds up no stop.
        () = stop.next() => return Ok(Ended::Stopped),
    };
    let Listening { listeners, address, further } = listening;
    let (services, door) = (Arc::clone(&gateway.services), Arc::clone(&gateway.door));
    let choice = services.models.default_choice();
    let ready = Ready {
        address,
        further,
        model: choice.model.reference().to_string(),
        model_reason: choice.reason.clone(),
        tls: tls.as_ref().map(|tls| tls.fingerprint()),
    };
    periodic::start(&services);
    let (control, exporter) = (Arc::new(Control::default()), Arc::new(Exporter::default()));
    exporter.follow(&services);
    let has_socket = services.settings.now().gateway.control_socket;
    control.set(&services, has_socket && services.repair.is_none()).await;
    let kept = (Arc::clone(&control), Arc::clone(&exporter));
    let reloader = Reloader::new(Arc::clone(&gateway), env, &start.overrides, kept, start.seen);
    services.tasks.spawn("config", reloader.keep(asks));
    if let Some(tls) = &tls {
        let lock = start.settings.paths.instance_lock();
        services.tasks.spawn("certificate", listen::keep_certificate(Arc::clone(tls), lock));
    }
    let serving = gateway::serve(listeners, tls.clone(), gateway);
    let mut server = services.tasks.spawn("listener", serving);
    on_ready(start, &ready);
    phases.end("services");
    ending::note_ready(began.elapsed());
    tracing::info!(%address, model = %ready.model, "ready");
    restrictions::note(&services.settings.now());
    let ended = tokio::select! {
        () = stop.next() => Ok(Ended::Stopped),
        next = Box::pin(again::next(&services, restart, start, process)) => {
            (start.next, start.seen) = next;
            Ok(Ended::Restarts)
        }
        // It never ends by itself.
        _ = &mut server => Err(AppError::Serve(io::Error::other("the listener panicked"))),
    };
    if matches!(ended, Ok(Ended::Restarts)) {
        tracing::info!("restarting; a signal to stop makes a stop of it");
        // Who comes now is let in by the next one.
        server.abort();
    } else {
        tracing::info!("stopping; another signal stops at once");
    }
    let ended = ending::leave(ended, &services, &door, &server.abort_handle(), stop).await;
    server.abort();
    if !matches!(ended, Ok(Ended::StoppedAtOnce)) {
        exporter.end().await;
    }
    control.end().await;
    // What was good last, for when the next one does not begin.
    start.settings = (*services.settings.now()).clone();
    start.in_use = InUse { tls, secrets: start.settings.secrets.last_told() };
    ended
}

/// Whether a gateway with these settings starts, as far as they decide that; the models
/// that they name in vain. Creates nothing; asks nobody but, where one is wanted, the Ollama.
///
/// # Errors
/// For an API or a secret that there is not.
pub async fn check(settings: &Settings, env: &Env) -> Result<Vec<MissingModel>, AppError> {
    check_beside(settings, None, env).await
}

/// The same in the place of a gateway that runs with the settings `now`.
async fn check_beside(
    settings: &Settings,
    now: Option<&Settings>,
    env: &Env,
) -> Result<Vec<MissingModel>, AppError> {
    let env = &settings.environment(env);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut auth = settings.gateway.auth.clone();
    auth.follow(&settings.secrets, env).await.map_err(AppError::lost)?;
    let failover = models(settings, env, &clock).await?;
    listen::check_tls(settings, now).await?;
    Ok(missing_models(failover, &settings.agents))
}

/// Whether a gateway starts with a text in the place of the config file's; the models that
/// it names in vain.
///
/// # Errors
/// What is wrong with it.
pub async fn check_text(text: &str, env: &Env) -> Result<Vec<MissingModel>, ConfigIssue> {
    let look = Overrides { read_only: true, ..Overrides::default() };
    let settings =
        config::load_text(text, env, &look).map_err(|error| ConfigIssue::from(&error))?;
    check(&settings, env).await.map_err(|error| error.issue())
}

/// How session keys become canonical under these settings.
pub fn key_rules(settings: &Settings) -> KeyRules {
    KeyRules {
        default_agent: AgentId::normalize(&settings.agents.default_id),
        main_key: settings.session.main_key.clone(),
        global_scope: settings.session.scope == SessionScope::Global,
        dm_scope: settings.session.dm_scope,
        identity_links: settings.session.identity_links.clone(),
        kept: BTreeSet::new(),
    }
}

/// The same where sessions are there already.
async fn key_rules_of(settings: &Settings, sessions: &Sessions) -> Result<KeyRules, SessionError> {
    let rules = key_rules(settings);
    let mut agents: Vec<_> =
        settings.agents.list.iter().map(|agent| AgentId::normalize(&agent.id)).collect();
    agents.push(rules.default_agent.clone());
    sessions.with_kept(rules, &agents).await
}
