//! What every service of a gateway is built on.

use std::sync::Arc;

use super::repair::Mode;
use super::{AppError, catalog, key_rules, key_rules_of, openclaw};
use crate::agent::Models;
use crate::agent::approvals::{Approvals, ApprovalsParts};
use crate::bus::{Bus, Hub, LocalBackplane};
use crate::channels::{Channels, ChannelsParts};
use crate::config::{Env, Settings};
use crate::cron::{Cron, CronParts};
use crate::nodes::{Nodes, NodesParts};
use crate::sessions::{KeyRules, Sessions, SessionsOptions};
use crate::store::{SqliteStore, Store};
use crate::support::{Clock, Ids, Live, RandomIds, SystemClock, Tasks};

/// Settings, state, events, time and tasks, which all services share.
pub(super) struct Base {
    pub settings: Live<Settings>,
    pub env: Env,
    pub keys: Live<KeyRules>,
    pub store: Arc<dyn Store>,
    pub sessions: Sessions,
    pub models: Models,
    pub bus: Bus,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub tasks: Tasks,
}

impl Base {
    /// Opens the state, and knows the models.
    ///
    /// # Errors
    /// When it does not open, and for an API or a secret that there is not.
    pub async fn open(
        settings: Settings,
        env: &Env,
        hub: Arc<Hub>,
        mode: &Mode,
    ) -> Result<Self, AppError> {
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (clock, ids);
        let (tasks, keys) = (Tasks::default(), Live::new(key_rules(&settings)));
        let failover = catalog::models_with(&settings, env, &clock, &mode.kept).await?;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&mode.database(&settings))?);
        failover.credentials().keep_in(Arc::clone(&store), tasks.clone());
        let first = match mode.repair {
            None => openclaw::first_look(&settings, &store).await?,
            Some(_) => None,
        };
        let options = mode.confined(sessions_options(&settings, keys.now()));
        let (kept, now) = (Arc::clone(&store), Arc::clone(&clock));
        let sessions = Sessions::open(options, kept, now, Arc::clone(&ids)).await?;
        if let Some(first) = first {
            Box::pin(openclaw::arrive(&settings, &store, &keys.now(), first)).await?;
        }
        keys.set(key_rules_of(&settings, &sessions).await?);
        sessions.reconfigure(mode.confined(sessions_options(&settings, keys.now())));
        let bus = Bus::new(LocalBackplane(hub));
        let models = Models::new(failover, keys.clone(), &settings.agents);
        models.tell_missing();
        let (settings, env) = (Live::new(settings), env.clone());
        Ok(Self { settings, env, keys, store, sessions, models, bus, clock, ids, tasks })
    }

    /// Questions to people. Nobody is asked yet.
    pub fn approvals(&self) -> Approvals {
        Approvals::new(ApprovalsParts {
            settings: self.settings.clone(),
            sessions: self.sessions.clone(),
            bus: self.bus.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
        })
    }

    /// The channels of the configuration. Nothing is started.
    pub fn channels(&self) -> Channels {
        Channels::new(ChannelsParts {
            settings: self.settings.clone(),
            env: self.env.clone(),
            store: Arc::clone(&self.store),
            sessions: self.sessions.clone(),
            keys: self.keys.clone(),
            clock: Arc::clone(&self.clock),
            tasks: self.tasks.clone(),
        })
    }

    /// Nodes. Nobody is connected yet.
    pub fn nodes(&self) -> Arc<Nodes> {
        Arc::new(Nodes::new(NodesParts {
            settings: self.settings.clone(),
            store: Arc::clone(&self.store),
            bus: self.bus.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            original: self.settings.now().paths.nodes_dir(),
        }))
    }

    /// Jobs and heartbeats. Nothing runs before its tasks do.
    pub fn cron(&self, channels: &Channels) -> Arc<Cron> {
        let parts = CronParts {
            settings: self.settings.clone(),
            keys: self.keys.clone(),
            sessions: self.sessions.clone(),
            store: Arc::clone(&self.store),
            bus: self.bus.clone(),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            outlet: Arc::new(channels.clone()),
            tasks: self.tasks.clone(),
        };
        Cron::new(parts, &self.env)
    }
}

/// Where conversations are, and how they are kept, under these settings.
pub(super) fn sessions_options(settings: &Settings, rules: Arc<KeyRules>) -> SessionsOptions {
    SessionsOptions {
        state_dir: settings.paths.state_dir.clone(),
        rules,
        format: settings.session.transcript_format,
        reset: settings.session.reset.clone(),
    }
}
