//! The lane of a session, held without a message in it.
//!
//! Promises: nothing else runs in the session meanwhile, and whoever waits is
//! started afterwards, however it ends. It is stopped as runs are.

use std::sync::Arc;

use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::sessions::SessionKey;

use super::queue::QueueRules;
use super::report::Family;
use super::request::SendRequest;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use super::terms::RunTerms;

/// How often what runs in the session is stopped, when new runs keep coming.
const TRIES_MAX: usize = 5;

/// Why a lane is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// Something runs in the session and does not end.
    #[error("the session is still active; try again in a moment")]
    Active,
    /// The gateway is about to stop.
    #[error("gateway is stopping; try again after it has restarted")]
    Stopping,
}

/// A lane that is taken until this is dropped.
pub struct Hold {
    runs: Arc<Runs>,
    pub(super) run: Arc<ActiveRun>,
    is_ended: bool,
}

impl Runs {
    /// Takes the lane of a session as soon as nothing runs or waits in it.
    ///
    /// # Errors
    /// [`HoldError::Stopping`].
    pub async fn hold_behind(
        self: &Arc<Self>,
        key: &SessionKey,
        owner: Owner,
    ) -> Result<Hold, HoldError> {
        let run = self.holder(key, key.as_str(), owner);
        loop {
            if let Some(hold) = self.try_hold(&run)? {
                self.lanes.settle(key).await;
                return Ok(hold);
            }
            self.active_ends(key).await;
        }
    }

    /// Takes the lane of a session if nothing runs or waits in it.
    ///
    /// # Errors
    /// [`HoldError::Stopping`].
    pub async fn hold_if_free(
        self: &Arc<Self>,
        key: &SessionKey,
        owner: Owner,
    ) -> Result<Option<Hold>, HoldError> {
        let run = self.holder(key, key.as_str(), owner);
        let hold = self.try_hold(&run)?;
        if hold.is_some() {
            self.lanes.settle(key).await;
        }
        Ok(hold)
    }

    /// Waits until what has the lane of a session, if anything does, has left it.
    pub async fn active_ends(&self, key: &SessionKey) {
        let active = self.lanes.table().active(key);
        if let Some(active) = active {
            active.ended().await;
        }
    }

    /// Takes the lane of a session. What runs there is stopped first.
    ///
    /// # Errors
    /// When that does not end, or the gateway stops.
    pub(super) async fn hold_first(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
    ) -> Result<Hold, HoldError> {
        let run = self.holder(key, written_key, owner);
        for _ in 0..TRIES_MAX {
            self.interrupt_runs(key, AbortReason::Rpc).await.map_err(|_| HoldError::Active)?;
            if let Some(hold) = self.try_hold(&run)? {
                return Ok(hold);
            }
        }
        Err(HoldError::Active)
    }

    /// What stands in the lane. There is no message that would have to be put anywhere.
    fn holder(&self, key: &SessionKey, written_key: &str, owner: Owner) -> Arc<ActiveRun> {
        let parts = self.parts();
        let request = SendRequest {
            family: Family::Hold,
            key: key.clone(),
            written_key: written_key.to_owned(),
            idempotency_key: parts.ids.uuid(),
            message: UserMessage::text("", 0),
            media: None,
            thinking: None,
            owner,
            dedupe_text: None,
            limit: None,
            terms: RunTerms::default(),
        };
        let rules = QueueRules::of(&parts.settings.now().messages.queue, None);
        let run = ActiveRun::new(request, rules, String::new(), parts.clock.now_ms());
        run.set_stored();
        Arc::new(run)
    }

    /// The lane, unless something runs in it.
    fn try_hold(self: &Arc<Self>, run: &Arc<ActiveRun>) -> Result<Option<Hold>, HoldError> {
        let mut table = self.lanes.table();
        if table.is_closed() {
            return Err(HoldError::Stopping);
        }
        if table.active(&run.key).is_some() {
            return Ok(None);
        }
        table.enter(run);
        Ok(Some(Hold { runs: Arc::clone(self), run: Arc::clone(run), is_ended: false }))
    }
}

impl Hold {
    /// The session.
    pub fn key(&self) -> &SessionKey {
        &self.run.key
    }

    /// Waits until somebody stops what it is held for.
    pub async fn stopped(&self) -> AbortReason {
        self.run.aborted().await
    }

    /// Lets the session go on.
    pub async fn end(mut self, end: RunEnd) {
        self.is_ended = true;
        self.runs.release(&self.run, end).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        // Whoever asked for it is gone, or it panicked.
        let (runs, run) = (Arc::clone(&self.runs), Arc::clone(&self.run));
        self.runs.parts().tasks.spawn("release a lane", async move {
            runs.release(&run, RunEnd::Failed("what held the session was given up".into())).await;
        });
    }
}
