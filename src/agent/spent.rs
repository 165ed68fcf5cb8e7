//! What several calls of a model have used together, and what a session has cost.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::parts::RunsParts;
use super::runs::Runs;
use super::tools::ToolContext;
use crate::protocol::message::{AssistantMessage, Usage};
use crate::providers::{Briefing, ModelRequest, ProviderError, Route};
use crate::sessions::{SessionEntry, SessionError, SessionKey};

/// The sum of two.
pub(super) fn add(sum: &Usage, more: &Usage) -> Usage {
    let mut sum = sum.clone();
    sum.grow(more);
    sum
}

/// Adds to `used` what a route has used for nothing, in any case: whoever asks may be
/// stopped, or wait no longer.
struct Bill<'a> {
    route: &'a mut Route,
    used: &'a mut Usage,
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.used.grow(&self.route.take_dropped());
    }
}

/// Asks a model beside an answer. What that takes is added to `used`, whether or not an
/// answer comes of it, and also when nobody waits for it to its end.
///
/// # Errors
/// When no model gives an answer.
pub(super) async fn ask(
    route: &mut Route,
    request: &mut ModelRequest,
    briefing: &mut dyn Briefing,
    used: &mut Usage,
) -> Result<AssistantMessage, ProviderError> {
    let bill = Bill { route, used };
    let asked = bill.route.stream(request, briefing, &mut |_| {}).await;
    match &asked {
        Ok(answer) => bill.used.grow(&answer.usage),
        Err(error) => bill.used.grow(&error.usage()),
    }
    asked
}

/// What a call of a tool has used of models so far. It is paid for also when the call goes
/// no further, as with its run.
pub(super) struct Tab<'a> {
    cx: &'a ToolContext,
    /// How much that is.
    pub used: Usage,
}

impl<'a> Tab<'a> {
    /// Nothing so far.
    pub fn of(cx: &'a ToolContext) -> Self {
        Self { cx, used: Usage::default() }
    }

    /// Leaves it to the caller to pay.
    pub fn handed_over(mut self) -> Usage {
        std::mem::take(&mut self.used)
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        let used = std::mem::take(&mut self.used);
        // Without a runtime the gateway has ended.
        if used == Usage::default() || Handle::try_current().is_err() {
            return;
        }
        if let Some(run) = &self.cx.run {
            run.note(|progress| progress.reviews.grow(&used));
        }
        let (runs, key) = (Arc::clone(&self.cx.runs), self.cx.key.clone());
        self.cx.parts().tasks.spawn("usage", async move { runs.pay_for(&key, &used).await });
    }
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
