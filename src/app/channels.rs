//! How the channels of the gateway begin.

use std::sync::Arc;

use crate::handlers::ChannelInlet;
use crate::registry::Services;

/// Starts them once the gateway listens.
pub(super) fn begin(services: &Arc<Services>) {
    let channels = &services.runs.parts().channels;
    if channels.is_empty() {
        return;
    }
    let inlet = Arc::new(ChannelInlet::new(services));
    services.tasks.spawn("channels", channels.clone().begin(Arc::clone(&services.runs), inlet));
}
