//! The list of devices, who is told of what happens to it, and the way to it
//! without a token.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::agent::Runs;
use crate::auth::DeviceIdentity;
use crate::auth::pairing::{Minter, News, Pairing};
use crate::bus::{Audience, Bus, EventKind};
use crate::gateway::ControlSocket;
use crate::registry::Services;

/// Devices in the store of the runs, told of on the bus.
pub fn pairing(runs: &Runs, identity: &Arc<DeviceIdentity>, bus: &Bus) -> Arc<Pairing> {
    let parts = runs.parts();
    let minter = Minter::new(Arc::clone(identity), Arc::clone(&parts.ids));
    let bus = bus.clone();
    let tell = move |news: &News| {
        let (kind, payload) = match news {
            News::Requested(payload) => (EventKind::DevicePairRequested, payload),
            News::Resolved(payload) => (EventKind::DevicePairResolved, payload),
        };
        bus.publish(kind, &Audience::Everyone, payload);
    };
    let folder = parts.settings.now().paths.devices_dir();
    Arc::new(Pairing::new(Arc::clone(&parts.store), minter, folder, Box::new(tell)))
}

/// Opens the control socket. A gateway without one works, too.
pub fn control(services: &Arc<Services>) -> Option<JoinHandle<Option<()>>> {
    let path = services.settings.now().paths.control_socket();
    match ControlSocket::open(&path) {
        Ok(socket) => {
            Some(services.tasks.spawn("control socket", socket.serve(Arc::clone(services))))
        }
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "no control socket; commands about devices need the token");
            None
        }
    }
}
