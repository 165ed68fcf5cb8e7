//! The list of devices, and who is told of what happens to it.

use std::sync::Arc;

use crate::agent::Runs;
use crate::auth::DeviceIdentity;
use crate::auth::pairing::{Minter, News, Pairing};
use crate::bus::{Audience, Bus, EventKind};

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
    let folder = parts.settings.paths.devices_dir();
    Arc::new(Pairing::new(Arc::clone(&parts.store), minter, folder, Box::new(tell)))
}
