//! A compaction that somebody asks for, outside of a run.
//!
//! Promises: nothing else runs in the session meanwhile, and whoever waits is
//! started afterwards, however it ends. It is stopped as runs are.

use std::sync::Arc;

use crate::auth::Owner;
use crate::protocol::message::{Usage, UserMessage};
use crate::sessions::{CompactionReason, SessionKey};

use super::{CompactError, Compacted, compact_as};
use crate::agent::RunTerms;
use crate::agent::queue::QueueRules;
use crate::agent::report::Family;
use crate::agent::request::SendRequest;
use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::agent::runs::Runs;

/// How often what runs in the session is stopped, when new runs keep coming.
const TRIES_MAX: usize = 5;

impl Runs {
    /// Sums up what is long ago in a session, heeding `instructions`. What runs
    /// there is stopped first.
    pub async fn compact(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
        instructions: Option<&str>,
    ) -> Result<Compacted, CompactError> {
        let hold = self.hold(key, written_key, owner).await?;
        let parts = self.parts();
        let mut emitter = parts.emitter(&hold.run);
        let how = (CompactionReason::Manual, instructions);
        let done = compact_as(parts, &hold.run, &mut emitter, how, &mut Usage::default()).await;
        if let Err(error) = &done
            && !matches!(error, CompactError::Nothing(_))
        {
            tracing::warn!(session = %key, %error, "session not compacted");
        }
        hold.end(match &done {
            Ok(_) | Err(CompactError::Nothing(_)) => RunEnd::Answered,
            Err(CompactError::Stopped(reason)) => RunEnd::Aborted(*reason),
            Err(error) => RunEnd::Failed(error.to_string()),
        })
        .await;
        done
    }

    /// Takes the lane of a session, without a message in it.
    async fn hold(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
    ) -> Result<Hold, CompactError> {
        let parts = self.parts();
        let request = SendRequest {
            family: Family::Compaction,
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
        let now = parts.clock.now_ms();
        let run = Arc::new(ActiveRun::new(request, rules, String::new(), now));
        // There is no message that would have to be put anywhere.
        run.set_stored();
        for _ in 0..TRIES_MAX {
            self.interrupt_runs(key, AbortReason::Rpc).await.map_err(|_| CompactError::Active)?;
            let mut table = self.lanes.table();
            if table.is_closed() {
                return Err(CompactError::Stopping);
            }
            if table.active(key).is_none() {
                table.enter(&run);
                return Ok(Hold { runs: Arc::clone(self), run, is_ended: false });
            }
        }
        Err(CompactError::Active)
    }
}

/// A lane that is taken until this is dropped.
struct Hold {
    runs: Arc<Runs>,
    run: Arc<ActiveRun>,
    is_ended: bool,
}

impl Hold {
    async fn end(mut self, end: RunEnd) {
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
            runs.release(&run, RunEnd::Failed("compaction was given up".into())).await;
        });
    }
}
