//! Speech and notifications, as the gateway builds them.

use std::sync::Arc;

use crate::agent::Runs;
use crate::config::Env;
use crate::push::{Push, PushParts};
use crate::voice::{Voice, VoiceParts};

/// Nothing is read and nobody is asked yet.
pub(super) fn voice(runs: &Runs, env: &Env) -> Arc<Voice> {
    let parts = runs.parts();
    Arc::new(Voice::new(VoiceParts {
        settings: parts.settings.clone(),
        env: env.clone(),
        bus: parts.bus.clone(),
        clock: Arc::clone(&parts.clock),
        tasks: parts.tasks.clone(),
    }))
}

/// The same of notifications.
pub(super) fn push(runs: &Runs, env: &Env) -> Arc<Push> {
    let parts = runs.parts();
    Arc::new(Push::new(PushParts {
        settings: parts.settings.clone(),
        env: env.clone(),
        store: Arc::clone(&parts.store),
        clock: Arc::clone(&parts.clock),
        ids: Arc::clone(&parts.ids),
    }))
}
