//! The session in which lists show a job, while something runs in that of one of its runs.
//!
//! Promises: the two have one transcript, and nobody writes to it through the one while
//! something runs in the other; what the one has cost and was summed up to counts in the
//! other; who stops the session of the job stops that.

use std::sync::Arc;

use crate::auth::Owner;
use crate::sessions::{SessionEntry, SessionError, SessionKey};
use crate::store::StoreError;

use super::hold::Hold;
use super::report::{Family, RunReport};
use super::run::{AbortReason, RunEnd};
use super::runs::{Runs, SendError};

impl Runs {
    /// The lane of the session that shows the transcript of this one, as soon as nothing
    /// runs there; `None` where no other does. What was said there since counts here, too.
    ///
    /// # Errors
    /// When the gateway stops, or the sessions cannot be read.
    pub(super) async fn hold_row(
        self: &Arc<Self>,
        key: &SessionKey,
        owner: Owner,
    ) -> Result<Option<Hold>, SendError> {
        let Some(row) = key.row_of_run() else { return Ok(None) };
        if !self.is_shown_in(&row, key).await? {
            return Ok(None);
        }
        let hold = self.hold_behind(&row, owner).await.map_err(|_| SendError::Stopping)?;
        // It may show another run by now, and then does not come back to this one.
        let is_shown = self.catch_up(&row, key).await;
        if matches!(is_shown, Ok(true)) {
            return Ok(Some(hold));
        }
        hold.end(RunEnd::Answered).await;
        Ok(is_shown.map(|_| None)?)
    }

    async fn is_shown_in(&self, row: &SessionKey, key: &SessionKey) -> Result<bool, SessionError> {
        Ok(self.shown_in(row, key).await?.is_some())
    }

    /// The session of a job, while it shows the transcript of this one.
    async fn shown_in(
        &self,
        row: &SessionKey,
        key: &SessionKey,
    ) -> Result<Option<SessionEntry>, SessionError> {
        let sessions = &self.parts.sessions;
        let (row, own) = (sessions.entry(row).await?, sessions.entry(key).await?);
        let both = row.zip(own).filter(|(row, own)| row.session_id == own.session_id);
        Ok(both.map(|(row, _)| row))
    }

    /// Takes into the session of a run what has happened since in that of its job, which the
    /// end of what runs next is taken back to; whether the two still belong together.
    async fn catch_up(&self, row: &SessionKey, key: &SessionKey) -> Result<bool, SessionError> {
        let Some(shown) = self.shown_in(row, key).await? else { return Ok(false) };
        // Boxed: it is large, and held by each result on its way.
        Box::pin(self.parts.sessions.follow_to_end(key, shown)).await.map(|_| true)
    }

    /// Shows that something runs in a session, until that has ended. It is followed though
    /// whoever began it goes away.
    pub(super) fn keep_row(self: &Arc<Self>, hold: Hold, key: SessionKey, run_id: String) {
        let runs = Arc::clone(self);
        self.parts.tasks.spawn("row of a job", async move {
            runs.enter_row(&hold, &key).await;
            let end = match runs.ends_below(Some(&hold), &key, &run_id).await {
                Ok(report) => report.end.clone(),
                Err(error) => RunEnd::Failed(error.to_string()),
            };
            match runs.parts.sessions.entry(&key).await {
                Ok(Some(own)) => runs.leave_row(hold, own, end).await,
                Ok(None) | Err(_) => hold.end(end).await,
            }
        });
    }

    async fn enter_row(&self, hold: &Hold, key: &SessionKey) {
        let Ok(Some(own)) = self.parts.sessions.entry(key).await else { return };
        let own = SessionEntry { status: Some("running".into()), ..own };
        if let Some(shown) = self.show_in_row(hold.key(), own).await {
            self.parts.events.reason(hold.key(), Some(&shown), "send", true);
        }
    }

    /// How a run in a session ends. It is stopped when somebody stops the session of its
    /// job, if that is held for it.
    ///
    /// # Errors
    /// When the record of the run cannot be read.
    pub async fn ends_below(
        self: &Arc<Self>,
        row: Option<&Hold>,
        key: &SessionKey,
        run_id: &str,
    ) -> Result<Arc<RunReport>, StoreError> {
        let mut ends = std::pin::pin!(self.ends(Some(Family::Agent), run_id));
        if let Some(row) = row {
            let reason = tokio::select! {
                biased;
                ended = &mut ends => return ended,
                reason = row.stopped() => reason,
            };
            // A stop of the gateway stops the run itself, and leaves its sub-agents to the
            // next process.
            if reason != AbortReason::Shutdown
                && let Err(error) = self.interrupt(key, reason).await
            {
                tracing::warn!(session = %key, %error, "run of a job is waited for");
            }
        }
        ends.await
    }

    /// Shows in the session of a job how that of its run is now, and lets it go on.
    pub async fn leave_row(&self, row: Hold, own: SessionEntry, end: RunEnd) {
        let key = row.key().clone();
        let shown = self.show_in_row(&key, own).await;
        row.end(end).await;
        if let Some(shown) = shown {
            let has_active_run = self.active(&key).is_some();
            self.parts.events.reason(&key, Some(&shown), "patch", has_active_run);
        }
    }

    async fn show_in_row(&self, row: &SessionKey, own: SessionEntry) -> Option<SessionEntry> {
        // Boxed: it is large, and held by every run of a job.
        match Box::pin(self.parts.sessions.follow_to_end(row, own)).await {
            Ok(shown) => Some(shown),
            // Somebody has deleted it meanwhile.
            Err(SessionError::NotFound(_)) => None,
            Err(error) => {
                tracing::warn!(session = %row, %error, "session not updated");
                None
            }
        }
    }
}
