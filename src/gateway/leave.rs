//! Taking a connection out of the lists.

use std::sync::Arc;

use crate::telemetry::metrics::OpenConnection;

use super::upgrade::Gateway;

/// Takes the connection out of the hub and marks its presence entry as gone
/// when dropped, however the connection ends.
pub struct Leave {
    gateway: Arc<Gateway>,
    /// Its id.
    pub conn_id: Arc<str>,
    presence_key: Option<String>,
    _open: OpenConnection,
}

impl Leave {
    /// For the connection with this id and the presence entry that it has left.
    pub fn new(
        gateway: Arc<Gateway>,
        conn_id: Arc<str>,
        presence_key: Option<String>,
        open: OpenConnection,
    ) -> Self {
        Self { gateway, conn_id, presence_key, _open: open }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.gateway.hub.leave(&self.conn_id);
        let services = &self.gateway.services;
        services.nodes.leave(&self.conn_id);
        if let Some(key) = &self.presence_key
            && services.presence.depart(key, services.clock.now_ms())
        {
            services.health.presence_changed();
        }
    }
}
