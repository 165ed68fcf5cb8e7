//! Compaction: the model reads a summary instead of what is long ago.
//!
//! Promises: one line is added to the transcript, or nothing; what is kept is
//! at least the configured number of tokens, or nothing where that is all there
//! is and somebody asks. Must not: know who asks for it; whoever does holds the
//! session's lane.

mod manual;
mod plan;
mod summary;

use plan::Plan;
pub use plan::{Nothing, block_tokens, guess, in_tokens, text_tokens};

use std::time::Duration;

use serde_json::Value;

use crate::protocol::message::Usage;
use crate::providers::{Api, ProviderError, Route};
use crate::sessions::{
    Compaction, CompactionReason, ContextEntry, SessionEntry, SessionError, SessionKey,
};
use crate::support::json;

use super::emitter::Emitter;
use super::feed::RunNews;
use super::hold::HoldError;
use super::parts::RunsParts;
use super::pruning::Share;
use super::run::{AbortReason, ActiveRun};
use super::spent::{add, charge};

/// A provider that says nothing for so long will not; the lane must go on
/// (#16331). The original waits as long.
const LIMIT: Duration = Duration::from_mins(15);

/// A session that was compacted.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// Id of its line in the transcript.
    pub entry_id: String,
    /// What was written down.
    pub compaction: Compaction,
    /// What the index knows now.
    pub entry: SessionEntry,
}

impl Compacted {
    /// `result` of `sessions.compact`.
    pub fn to_wire(&self) -> Value {
        let checkpoint = self.entry.compaction_checkpoints.last();
        json!({
            "summary": self.compaction.summary,
            // One that keeps nothing names itself, as in the transcript.
            "firstKeptEntryId": self.compaction.first_kept_entry_id.as_ref()
                .unwrap_or(&self.entry_id),
            "tokensBefore": self.compaction.tokens_before,
            "tokensAfter": self.compaction.tokens_after,
            "details": self.compaction.files,
            "checkpointId": checkpoint.map(|checkpoint| &checkpoint.checkpoint_id),
        })
    }
}

/// Why a session was not compacted. Its transcript is what it was.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// There is nothing to sum up.
    #[error("{}", .0.as_str())]
    Nothing(Nothing),
    /// Somebody stopped it.
    #[error("compaction was stopped")]
    Stopped(AbortReason),
    /// It took too long.
    #[error("compaction was given up after {LIMIT:?}")]
    TimedOut,
    /// The embedded model cannot sum up.
    #[error("compaction needs a model; configure a provider and agents.defaults.model")]
    NoModel,
    /// The model failed.
    #[error("compaction failed: {0}")]
    Model(String),
    /// The session is not to be had.
    #[error(transparent)]
    Held(#[from] HoldError),
    /// The transcript could not be read or written.
    #[error("compaction failed: {0}")]
    Session(#[from] SessionError),
}

impl From<ProviderError> for CompactError {
    fn from(error: ProviderError) -> Self {
        Self::Model(error.message)
    }
}

/// Sums up what is long ago in the session of `run`, which holds its lane and
/// can be stopped while the model works: the one that `route` asks now, or who follows it.
/// Its `emitter` tells of it, unless there is nothing to sum up. What it takes is added to
/// `used`; the session's row has it.
pub async fn compact(
    parts: &RunsParts,
    run: &ActiveRun,
    route: &Route,
    emitter: &mut Emitter,
    reason: CompactionReason,
    used: &mut Usage,
) -> Result<Compacted, CompactError> {
    compact_as(parts, run, route.beside(), emitter, (reason, None), used).await
}

/// The same, with what somebody wants the summary to heed.
async fn compact_as(
    parts: &RunsParts,
    run: &ActiveRun,
    mut route: Route,
    emitter: &mut Emitter,
    (reason, instructions): (CompactionReason, Option<&str>),
    used: &mut Usage,
) -> Result<Compacted, CompactError> {
    let key = &run.key;
    // First: the summary of a conversation that is begun anew meanwhile is one of no other.
    let entry = parts.sessions.entry(key).await?.unwrap_or_default();
    let mut context = parts.sessions.context_entries(key).await?;
    let window = route.model().context_window;
    // Long results count as what the model gets to see of them.
    Share::Usual.fit(context.iter_mut().map(|entry| &mut entry.message), window);
    // A small model that kept as much as a large one would keep all it can read.
    let keep = parts.settings.now().agents.defaults.compaction_keep_recent_tokens;
    let plan = match plan::plan(&context, keep.min(window / 2)) {
        // Who asks for it gets it, however short the conversation is.
        Err(Nothing::Recent) if reason == CompactionReason::Manual => plan::plan(&context, 0),
        plan => plan,
    };
    let plan = plan.map_err(CompactError::Nothing)?;
    if route.model().api == Api::Offline {
        return Err(CompactError::NoModel);
    }
    emitter.compaction_start();
    emitter.tell(|| RunNews::Compacts(reason));
    let mut taken = Usage::default();
    let summing = summary::sum_up(&mut route, &entry.session_id, &plan, instructions, &mut taken);
    let summed = tokio::select! {
        biased;
        reason = run.aborted() => Err(CompactError::Stopped(reason)),
        summed = tokio::time::timeout(LIMIT, summing) => {
            summed.unwrap_or(Err(CompactError::TimedOut))
        }
    };
    // Paid for, also when there is no summary in the end.
    charge(parts, key, &taken).await;
    *used = add(used, &taken);
    let done = match summed {
        Ok(summary) => note(parts, key, &entry.session_id, reason, summary, &plan, &context).await,
        Err(error) => Err(error),
    };
    let is_retry =
        matches!(reason, CompactionReason::OverflowRetry | CompactionReason::TimeoutRetry);
    let will_retry = done.is_ok() && is_retry;
    emitter.compaction_end(will_retry, done.is_ok());
    emitter.tell(|| RunNews::Compacted(reason, done.as_ref().ok().cloned()));
    done
}

async fn note(
    parts: &RunsParts,
    key: &SessionKey,
    session_id: &str,
    reason: CompactionReason,
    summary: String,
    plan: &Plan<'_>,
    context: &[ContextEntry],
) -> Result<Compacted, CompactError> {
    let compaction = Compaction {
        reason,
        tokens_before: plan::context_tokens(context),
        tokens_after: plan::text_tokens(&summary) + plan::guess(plan.kept),
        summary,
        first_kept_entry_id: plan.kept.first().map(|entry| entry.id.clone()),
        files: summary::files(plan.summed),
    };
    let done = parts.sessions.compact(key, session_id, compaction.clone()).await?;
    Ok(Compacted { entry_id: done.entry_id, compaction, entry: done.entry })
}
