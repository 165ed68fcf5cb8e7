//! Speech and notifications, as the gateway builds them.

use std::sync::Arc;

use crate::bus::Bus;
use crate::config::{Env, Settings};
use crate::push::{Push, PushParts};
use crate::store::Store;
use crate::support::{Clock, Ids, Tasks};
use crate::voice::{Voice, VoiceParts};

/// Nothing is read and nobody is asked yet.
pub(super) fn voice(
    settings: &Arc<Settings>,
    env: &Env,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    tasks: &Tasks,
) -> Arc<Voice> {
    Arc::new(Voice::new(VoiceParts {
        settings: Arc::clone(settings),
        env: env.clone(),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        tasks: tasks.clone(),
    }))
}

/// The same of notifications.
pub(super) fn push(
    settings: &Arc<Settings>,
    env: &Env,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Arc<Push> {
    Arc::new(Push::new(PushParts {
        settings: Arc::clone(settings),
        env: env.clone(),
        store: Arc::clone(store),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
    }))
}
