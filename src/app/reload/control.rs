//! The control socket, while the configuration wants it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::registry::Services;

/// The task that serves the control socket, when there is one.
#[derive(Default)]
pub struct Control(Mutex<Option<JoinHandle<Option<()>>>>);

impl Control {
    /// Opens or closes it, so that it is as wanted. A gateway works without one.
    pub async fn set(&self, services: &Arc<Services>, is_wanted: bool) {
        if !is_wanted {
            return self.end().await;
        }
        let mut task = self.0.lock();
        if task.is_none() {
            *task = super::super::pairing::control(services);
        }
    }

    /// Closes it and its connections, so that its file is gone when the gateway is.
    pub async fn end(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task.abort();
            // Cancelled is what was asked for.
            let _ = task.await;
        }
    }
}
