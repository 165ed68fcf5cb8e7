//! Nodes, as the gateway builds them.

use std::sync::Arc;

use crate::bus::Bus;
use crate::config::Settings;
use crate::nodes::{Nodes, NodesParts};
use crate::store::Store;
use crate::support::{Clock, Ids, Live};

/// Nobody is connected yet.
pub(super) fn nodes(
    settings: &Live<Settings>,
    store: &Arc<dyn Store>,
    bus: &Bus,
    clock: &Arc<dyn Clock>,
    ids: &Arc<dyn Ids>,
) -> Arc<Nodes> {
    Arc::new(Nodes::new(NodesParts {
        settings: settings.clone(),
        store: Arc::clone(store),
        bus: bus.clone(),
        clock: Arc::clone(clock),
        ids: Arc::clone(ids),
        original: settings.now().paths.nodes_dir(),
    }))
}
