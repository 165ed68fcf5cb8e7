//! The channels of the gateway: how they are put together and begin.

use std::sync::Arc;

use crate::channels::{Channels, ChannelsParts};
use crate::config::{Env, Settings};
use crate::handlers::ChannelInlet;
use crate::registry::Services;
use crate::sessions::{KeyRules, Sessions};
use crate::store::Store;
use crate::support::{Clock, Live, Tasks};

/// Those of the configuration. Nothing is started.
pub(super) fn build(
    settings: &Live<Settings>,
    keys: &Live<KeyRules>,
    env: &Env,
    store: &Arc<dyn Store>,
    sessions: &Sessions,
    clock: &Arc<dyn Clock>,
    tasks: &Tasks,
) -> Channels {
    Channels::new(ChannelsParts {
        settings: settings.clone(),
        env: env.clone(),
        store: Arc::clone(store),
        sessions: sessions.clone(),
        keys: keys.clone(),
        clock: Arc::clone(clock),
        tasks: tasks.clone(),
    })
}

/// Starts them once the gateway listens.
pub(super) fn begin(services: &Arc<Services>) {
    let channels = &services.runs.parts().channels;
    if channels.is_empty() {
        return;
    }
    let inlet = Arc::new(ChannelInlet::new(services));
    services.tasks.spawn("channels", channels.clone().begin(Arc::clone(&services.runs), inlet));
}
