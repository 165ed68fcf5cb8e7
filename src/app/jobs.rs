//! The scheduler of jobs, put together.

use std::sync::Arc;

use crate::bus::Bus;
use crate::config::{Env, Settings};
use crate::cron::{Cron, CronParts, NoChannels};
use crate::sessions::Sessions;
use crate::store::Store;
use crate::support::{Clock, Ids};

/// Jobs and heartbeats. Nothing runs before its tasks do.
pub fn jobs(
    settings: &Arc<Settings>,
    env: &Env,
    sessions: &Sessions,
    store: &Arc<dyn Store>,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Arc<Cron> {
    let parts = CronParts {
        settings: Arc::clone(settings),
        keys: Arc::new(sessions.rules().clone()),
        sessions: sessions.clone(),
        store: Arc::clone(store),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        outlet: Arc::new(NoChannels),
    };
    Cron::new(parts, env)
}
