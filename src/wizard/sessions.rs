//! The sessions of all clients.
//!
//! Promises: one script runs at a time, as in the original; a script that ends,
//! however it does, has an end that its client can ask for.

use std::sync::Arc;

use parking_lot::Mutex;

use super::asker::Stopped;
use super::script::{self, Setup};
use super::session::{SessionAsker, WizardSession};
use crate::support::{Ids, Tasks};

/// Ended sessions that nobody has asked about; beyond it the oldest is forgotten.
const MAX_ENDED: usize = 8;

/// Somebody else is being asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("wizard already running")]
pub struct AlreadyRunning {
    /// The session, so that its client goes on when it has lost the id.
    pub session_id: String,
}

/// The sessions of all clients.
#[derive(Default)]
pub struct Wizards(Mutex<Vec<Arc<WizardSession>>>);

impl Wizards {
    /// Begins one.
    ///
    /// # Errors
    /// When one is running.
    pub fn start(
        &self,
        setup: Setup,
        ids: &Arc<dyn Ids>,
        tasks: &Tasks,
    ) -> Result<Arc<WizardSession>, AlreadyRunning> {
        let session = {
            let mut sessions = self.0.lock();
            if let Some(running) = sessions.iter().find(|it| it.is_running()) {
                return Err(AlreadyRunning { session_id: running.id.clone() });
            }
            if sessions.len() >= MAX_ENDED {
                sessions.remove(0);
            }
            let session = Arc::new(WizardSession::new(Arc::clone(ids)));
            sessions.push(Arc::clone(&session));
            session
        };
        let running = Running(Arc::clone(&session));
        tasks.spawn("wizard", async move {
            let mut asker = SessionAsker(Arc::clone(&running.0));
            let outcome = tokio::select! {
                biased;
                () = running.0.stop.cancelled() => Err(Stopped::cancelled()),
                outcome = script::run(&mut asker, setup) => outcome,
            };
            running.0.end(outcome);
        });
        Ok(session)
    }

    /// The one with this id.
    pub fn find(&self, id: &str) -> Option<Arc<WizardSession>> {
        self.0.lock().iter().find(|session| session.id == id).cloned()
    }

    /// Its client has been told how it ended.
    pub fn forget_ended(&self, id: &str) {
        self.0.lock().retain(|session| session.id != id || session.is_running());
    }
}

/// A script that runs; one that panics has ended too.
struct Running(Arc<WizardSession>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.end(Err(Stopped::Failed("the setup stopped; the log says why".into())));
    }
}
