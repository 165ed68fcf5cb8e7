//! The configuration is taken up while the gateway runs.
//!
//! Owns: when the file is looked at, what a new one changes, and what waits for a
//! restart. Promises: a file that a gateway would not work with changes nothing;
//! what is taken up is in use everywhere when its writer is answered; nobody is
//! disconnected but whom the new rules do not let in; one thing is done at a time, so that
//! settings, models and secrets that are in use belong together.

mod changes;
mod control;
mod looking;
mod news;
mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use crate::bus::Closing;
use crate::config::document::ConfigIssue;
use crate::config::watch::Watch;
use crate::config::{Env, Overrides, ReloadMode, Settings};
use crate::gateway::Gateway;
use crate::registry::{Ask, Cause, ConfigState, NoRestart, Services, TakenUp};
use crate::sessions::KeyRules;
use crate::store::instance::refuse_restart;
use crate::support::{blocking, trouble};
use crate::telemetry;

use super::again::begins;
use super::traces::Exporter;
use super::{periodic, upkeep};
pub(super) use control::Control;
use looking::changed;
use news::News;

/// Takes up the configuration.
pub(super) struct Reloader {
    gateway: Arc<Gateway>,
    env: Env,
    overrides: Overrides,
    control: Arc<Control>,
    exporter: Arc<Exporter>,
    /// What was in the files when they were last looked at.
    seen: [u8; 32],
    /// What was looked at last, and when, while it may be about to be written.
    checked: Option<(Instant, Settings)>,
    /// How they are watched, where they are.
    watch: Option<Watch>,
    /// Since when they change, and when they are looked at.
    due: Option<(Instant, Instant)>,
    /// While what was looked at last is not in use: how long it waits to look again …
    again: Option<Duration>,
    /// … and when it does, where the files are watched.
    again_at: Option<Instant>,
    /// Whether a restart was given up: what is looked at then has to do for one.
    gave_up: bool,
}

impl Reloader {
    /// For a gateway that has just begun with the configuration of `seen`.
    pub fn new(
        gateway: Arc<Gateway>,
        env: &Env,
        overrides: &Overrides,
        (control, exporter): (Arc<Control>, Arc<Exporter>),
        seen: [u8; 32],
    ) -> Self {
        let (env, overrides) = (env.clone(), overrides.clone());
        Self {
            gateway,
            env,
            overrides,
            control,
            exporter,
            seen,
            checked: None,
            watch: None,
            due: None,
            again: None,
            again_at: None,
            gave_up: false,
        }
    }

    /// Takes up what is wanted and what changes, until the task is dropped.
    pub async fn keep(mut self, mut asks: Receiver<Ask>) {
        self.follow().await;
        self.expect_mending();
        // Between the start and here the file may have changed.
        let is_to_be_looked_at = self.watch.is_some() && self.again.is_none();
        self.due = is_to_be_looked_at.then(|| (Instant::now(), Instant::now()));
        loop {
            tokio::select! {
                ask = asks.recv() => match ask {
                    // Boxed: it is large, and seldom there.
                    Some(ask) => Box::pin(self.answer(ask)).await,
                    None => return,
                },
                is_well = changed(self.watch.as_ref()) => self.note_change(is_well).await,
                () = self.until_next_look() => {
                    self.due = None;
                    // What is wrong is in the log and in the state.
                    let _ = Box::pin(self.take_up(None, false)).await;
                }
            }
        }
    }

    /// A gateway that only helps to mend the configuration looks by itself whether it can be
    /// used by now: what is wrong may be in a file that is included or referred to, and which
    /// those are is not known. What a gateway was begun with in vain is left alone.
    fn expect_mending(&mut self) {
        let services = Arc::clone(self.services());
        let (repair, state) = (services.repair.as_ref(), &services.reload.state);
        let Some(repair) = repair.filter(|_| state.now().trouble.is_none()) else { return };
        state.set(ConfigState { trouble: Some(repair.issue.clone()) });
        self.look_again_later(true, true);
    }

    async fn answer(&mut self, ask: Ask) {
        // Who has gone away needs no answer.
        match ask {
            Ask::Check { text, answer } => {
                let _ = answer.send(Box::pin(self.check(text)).await);
            }
            Ask::TakeUp { caller, anew, answer } => {
                let taken = Box::pin(self.take_up(Some(&caller), anew)).await;
                let restarts = taken.as_ref().is_ok_and(|taken| taken.restarts);
                if answer.send(taken).is_err() && restarts {
                    self.services().restart.ask(Cause::Change);
                }
            }
            Ask::RenewSecrets { caller, answer } => {
                let renewed = Box::pin(self.renew_secrets(&caller)).await;
                let restarts = renewed.as_ref().is_ok_and(|renewed| renewed.taken.restarts);
                if answer.send(renewed).is_err() && restarts {
                    self.services().restart.ask(Cause::Change);
                }
            }
            Ask::Begins { answer } => {
                let (services, env) = (self.services(), &self.env);
                let begins = Box::pin(begins(services, env, &self.overrides)).await;
                let _ = answer.send(begins.map_err(NoRestart::from));
            }
            Ask::GivenUp(issue) => self.give_up(issue).await,
        }
    }

    /// Says why there is no restart, also to whoever waits for it or was to be told of it.
    async fn give_up(&mut self, issue: ConfigIssue) {
        let (path, why) = (&issue.path, &issue.message);
        tracing::error!(path, why, "no restart; going on with the config as it was");
        self.tell(Some(issue));
        self.gave_up = true;
        self.look_again_later(true, true);
        let services = Arc::clone(self.services());
        let said = services.reload.state.now().said().unwrap_or_default();
        let lock = services.settings.now().paths.instance_lock();
        let why = telemetry::without_secrets(&said).into_owned();
        let told = blocking(move || refuse_restart(&lock, &why)).await;
        if let Err(error) = told.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(%error, "a command that waits for the restart is not told of it");
        }
        let telling = periodic::tell_no_restart(Arc::clone(&services), said);
        services.tasks.spawn("restart-note", telling);
    }

    /// Whether a gateway would work with this text.
    async fn check(&mut self, text: String) -> Result<(), ConfigIssue> {
        self.checked = None;
        let news = News::of_text(text, self.services(), &self.env, &self.overrides).await?;
        self.checked = Some((Instant::now(), news.settings));
        Ok(())
    }

    fn services(&self) -> &Arc<Services> {
        &self.gateway.services
    }

    /// The files that the configuration is made of.
    fn files(&self) -> Vec<PathBuf> {
        self.services().settings.now().files()
    }

    /// Takes the file up as it is now.
    async fn take_up(&mut self, caller: Option<&str>, anew: bool) -> Result<TakenUp, ConfigIssue> {
        let print = self.print(self.files()).await;
        let is_other = print != self.seen;
        if !is_other && !anew && self.again.is_none() {
            let pending = self.services().settings.now().pending.clone();
            let known = TakenUp { pending, ..TakenUp::default() };
            let state = self.services().reload.state.now();
            return state.trouble.clone().map_or(Ok(known), Err);
        }
        // What was written since waits for nothing that only a gateway that begins needs.
        self.gave_up &= !is_other && !anew;
        let (print, news) = Box::pin(self.read()).await;
        self.seen = print;
        self.checked = None;
        let files = news.as_ref().map_or_else(|_| self.files(), |news| news.settings.files());
        let taken = match news {
            Ok(news) => Ok(Box::pin(self.apply(news, caller)).await),
            Err(issue) => Err(issue),
        };
        let trouble = taken.as_ref().err().cloned();
        // What goes on to be wrong is told once.
        let is_known = !is_other && self.services().reload.state.now().trouble == trouble;
        if let Some(issue) = trouble.as_ref().filter(|_| !is_known) {
            let (path, why) = (&issue.path, &issue.message);
            tracing::error!(path, why, "the config file is not taken up; the last good one stays");
        }
        if taken.is_ok() || !is_known {
            self.tell(trouble);
        }
        self.gave_up &= taken.is_err();
        self.follow().await;
        if self.watch.is_some() && self.print(files).await != print {
            // Nobody tells of what was changed while it was read, nor of a file that is
            // watched only from here on.
            self.due = Some(self.soon());
        }
        self.look_again_later(taken.is_err(), is_other);
        taken
    }

    /// Says what is wrong with the configuration, or that nothing is.
    fn tell(&self, trouble: Option<ConfigIssue>) {
        let state = ConfigState { trouble };
        trouble::tell("config", state.said());
        self.services().reload.state.set(state);
        self.services().health.outdate();
    }

    /// Has everything use what is new. Nothing fails here.
    async fn apply(&mut self, mut news: News, caller: Option<&str>) -> TakenUp {
        let before = self.services().settings.now();
        let changed = changes::of(&before, &news.settings);
        let mode = news.settings.gateway.reload.mode;
        let is_repaired = self.services().repair.is_some();
        if is_repaired || (mode == ReloadMode::Restart && !changed.is_empty()) {
            tracing::info!(?changed, "the config file has changed; the gateway restarts");
            // Only that is new until then.
            self.services().settings.set(before.waiting_for_restart(changed.clone()));
            return self.restart(changed, caller);
        }
        let pending = changes::hold_listening(&before, &mut news.settings);
        let is_over = Box::pin(self.use_it(&before, news, caller)).await;
        tracing::info!(?changed, ?pending, "the config file has changed and is in use");
        if mode == ReloadMode::Hybrid && !pending.is_empty() {
            return TakenUp { is_over, ..self.restart(pending, caller) };
        }
        // What was only for something that is in the file no more, or waits there now.
        if self.services().restart.cancel_change() {
            periodic::tell_not_needed(self.services());
        }
        TakenUp { pending, restarts: false, is_over }
    }

    /// Restarts the gateway; whoever has asked for the change does that itself
    /// when it has its answer.
    fn restart(&self, pending: Vec<String>, caller: Option<&str>) -> TakenUp {
        if caller.is_none() {
            self.services().restart.ask(Cause::Change);
        }
        TakenUp { pending, restarts: true, is_over: false }
    }

    /// The one place where settings change. Whether `caller` is let in no more.
    async fn use_it(&self, before: &Settings, news: News, caller: Option<&str>) -> bool {
        let services = self.services();
        let (parts, tasks) = (services.runs.parts(), &services.tasks);
        let News { settings, models } = news;
        let keys = super::key_rules_of(&settings, &services.sessions).await;
        services.keys.set(keys.unwrap_or_else(|error| {
            tracing::error!(%error, "main sessions under other keys not looked for; those known stay");
            let kept = services.keys.now().kept.clone();
            KeyRules { kept, ..super::key_rules(&settings) }
        }));
        services
            .sessions
            .reconfigure(super::base::sessions_options(&settings, services.keys.now()));
        if let Err(error) = parts.look_at_kept().await {
            tracing::error!(%error, "main sessions under other keys not looked for again");
        }
        services.settings.set(settings);
        let settings = services.settings.now();
        if let Some(models) = models {
            services.models.take_over(&models);
            services.models.tell_missing();
            let credentials = services.models.failover();
            credentials.credentials().keep_in(Arc::clone(&parts.store), tasks.clone());
        }
        telemetry::configure(&settings.logging);
        self.exporter.follow(services);
        parts.tools.reconfigure(&settings);
        services.runs.reconfigure();
        parts.cron.reconfigure(tasks);
        // Before channels: they may wait for the database or for a service.
        let is_over = self.let_in(&settings, caller);
        parts.channels.reconfigure(before).await;
        services.nodes.follow_settings().await;
        self.gateway.preauth.resize(settings.gateway.max_preauth_per_ip);
        self.control.set(services, settings.gateway.control_socket).await;
        upkeep::end_links(&settings, &*parts.store).await;
        if !settings.gateway.dialects.claude_share {
            self.gateway.claude.end_links();
        }
        Box::pin(super::channels::begin_others(services)).await;
        is_over
    }

    /// Lets in by new rules, and closes whom they do not let in.
    fn let_in(&self, settings: &Settings, caller: Option<&str>) -> bool {
        let gateway = &settings.gateway;
        let before = self.gateway.auth.now();
        self.gateway.auth.set(before.reconfigured(
            gateway.auth.clone(),
            gateway.control_ui.clone(),
            gateway.proxies.clone(),
        ));
        let now = self.gateway.auth.now();
        let hub = &self.gateway.hub;
        let is_out = |who: &crate::auth::Principal| !now.still_admits(who, &before);
        hub.close_where(&Closing::auth_changed(), caller, is_out);
        caller.is_some_and(|caller| hub.is_any(caller, is_out))
    }
}
