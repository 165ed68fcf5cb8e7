//! The scheduler of jobs, put together.

use std::sync::Arc;

use crate::bus::Bus;
use crate::channels::Channels;
use crate::config::{Env, Settings};
use crate::cron::{Cron, CronParts};
use crate::sessions::{KeyRules, Sessions};
use crate::store::Store;
use crate::support::{Clock, Ids, Live};

/// Jobs and heartbeats. Nothing runs before its tasks do.
#[allow(clippy::too_many_arguments)] // all that is put together comes by here
pub fn jobs(
    settings: &Live<Settings>,
    keys: &Live<KeyRules>,
    env: &Env,
    sessions: &Sessions,
    store: &Arc<dyn Store>,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
    channels: &Channels,
) -> Arc<Cron> {
    let parts = CronParts {
        settings: settings.clone(),
        keys: keys.clone(),
        sessions: sessions.clone(),
        store: Arc::clone(store),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        outlet: Arc::new(channels.clone()),
    };
    Cron::new(parts, env)
}
