//! An event that is held back, with the task that tells it, until a test lets it go.

use std::sync::mpsc;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{LIMIT, Place};

/// What the one who tells the event has of it.
pub struct Held {
    is_meant: fn(&Value) -> bool,
    came: oneshot::Sender<()>,
    go: mpsc::Receiver<()>,
}

impl Held {
    /// Whether it is this one.
    pub fn is(&self, payload: &Value) -> bool {
        (self.is_meant)(payload)
    }

    /// Waits until it may go on; needs a runtime of several threads.
    pub fn wait(self) {
        let _ = self.came.send(());
        // A test that has failed lets it go as well.
        tokio::task::block_in_place(|| self.go.recv().unwrap_or_default());
    }
}

/// What the test has of it.
pub struct Hold {
    came: oneshot::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Hold {
    /// Holds the next event back that is meant.
    pub fn of(place: &Place, is_meant: fn(&Value) -> bool) -> Self {
        let (tell, came) = oneshot::channel();
        let (go, wait) = mpsc::channel();
        *place.ear.held.lock() = Some(Held { is_meant, came: tell, go: wait });
        Self { came, go }
    }

    /// Waits until it is held.
    pub async fn came(&mut self) {
        timeout(LIMIT, &mut self.came).await.expect("it does not come").unwrap();
    }

    pub fn let_go(self) {
        self.go.send(()).unwrap();
    }
}
