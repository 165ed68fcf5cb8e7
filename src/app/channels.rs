//! How the channels of the gateway begin.

use std::sync::Arc;

use crate::handlers::ChannelInlet;
use crate::registry::Services;

/// Starts them once the gateway listens.
pub(super) fn begin(services: &Arc<Services>) {
    let channels = &services.runs.parts().channels;
    if !channels.is_empty() {
        services.tasks.spawn("channels", beginning(services));
    }
}

/// The same where the config has others than before. The first of all have begun when this
/// is over: whoever has configured one asks next how it is.
pub(super) async fn begin_others(services: &Arc<Services>) {
    let channels = &services.runs.parts().channels;
    if channels.is_empty() || channels.has_begun() {
        begin(services);
    } else {
        beginning(services).await;
    }
}

fn beginning(services: &Arc<Services>) -> impl Future<Output = ()> + Send + use<> {
    let inlet = Arc::new(ChannelInlet::new(services));
    services.runs.parts().channels.clone().begin(Arc::clone(&services.runs), inlet)
}
