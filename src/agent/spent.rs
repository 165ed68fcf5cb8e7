//! What several calls of a model have used together, and what a session has cost.

use super::parts::RunsParts;
use super::runs::Runs;
use crate::protocol::message::Usage;
use crate::sessions::{SessionEntry, SessionError, SessionKey};

/// The sum of two.
pub(super) fn add(sum: &Usage, more: &Usage) -> Usage {
    let mut sum = sum.clone();
    sum.grow(more);
    sum
}

/// Takes the price of a call into a session's row.
pub(super) fn pay(entry: &mut SessionEntry, usage: &Usage) {
    let spent = entry.estimated_cost_usd.unwrap_or_default();
    entry.estimated_cost_usd = Some(spent + usage.cost.total);
}

/// The same for what a session has used beside its answers: summaries, notes, side
/// questions, reviews, models that tools ask. The row is no reason to stop, and what is
/// asked beside a run may have none.
pub(super) async fn charge(parts: &RunsParts, key: &SessionKey, usage: &Usage) {
    if usage.cost.total > 0.0 {
        let usage = usage.clone();
        let updated = parts.sessions.update(key, move |entry| pay(entry, &usage)).await;
        if let Err(error) = updated
            && !matches!(error, SessionError::NotFound(_))
        {
            tracing::error!(session = %key, %error, "session not updated");
        }
    }
}

impl Runs {
    /// Takes what was used outside of a run into the row of the session, if it has one.
    pub async fn pay_for(&self, key: &SessionKey, usage: &Usage) {
        charge(self.parts(), key, usage).await;
    }
}
