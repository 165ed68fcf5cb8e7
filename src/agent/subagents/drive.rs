//! The way of a sub-agent from its beginning to its end.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::report::{Family, RunReport};
use crate::agent::request::SendRequest;
use crate::agent::run::{AbortReason, RunEnd};
use crate::agent::runs::{Accepted, Runs, SendError};
use crate::agent::terms::RunTerms;
use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::sessions::{HistoryOptions, SessionEntry, SessionError, SessionKey, shown_text};
use crate::store::{StoreError, SubagentQuery, SubagentRow, SubagentState};

use super::Outcome;

/// Messages that are looked through for what a sub-agent said last.
const LOOK_BACK: usize = 50;
/// How long it waits before it tries again what the disk, or the session of the
/// parent, did not take; then twice as long each time …
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// … up to this: whoever waits for a result should not wait long after the mend.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What became of a step.
enum Step<T> {
    Done(T),
    /// Somebody stopped it, and nobody need be told.
    Stopped,
    /// The gateway stops; the next start goes on.
    Later,
}

impl Runs {
    /// Takes care of a sub-agent until its end has been told; false when somebody does
    /// already.
    pub(super) fn drive_subagent(self: &Arc<Self>, row: SubagentRow) -> bool {
        let Some(care) = self.subagents.cared.take(&row.run_id) else { return false };
        let runs = Arc::clone(self);
        self.parts.tasks.spawn("subagent", async move {
            runs.follow(&row.run_id).await;
            drop(care);
        });
        true
    }

    async fn follow(self: &Arc<Self>, run_id: &str) {
        let (mut pause, mut has_begun) = (PAUSE, false);
        while let Err(error) = self.try_to_follow(run_id, &mut has_begun).await {
            tracing::error!(run = run_id, %error,
                "result of a sub-agent not told; it is tried again");
            tokio::time::sleep(pause).await;
            if self.is_stopping() {
                break;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.subagents.news.notify_waiters();
    }

    /// Does what its row says is still to be done; somebody may have stopped it since
    /// the last try. `has_begun` says whether this process has begun its run.
    async fn try_to_follow(
        self: &Arc<Self>,
        run_id: &str,
        has_begun: &mut bool,
    ) -> Result<(), SendError> {
        let Some(row) = self.subagent_now(run_id).await? else { return Ok(()) };
        let outcome = match row.state {
            SubagentState::Announced => return Ok(()),
            SubagentState::Ended => Step::Done(Outcome::from_json(row.outcome.as_deref())),
            SubagentState::Stopped => Step::Stopped,
            SubagentState::Waiting | SubagentState::Active => {
                self.carry_out(&row, has_begun).await?
            }
        };
        match outcome {
            Step::Done(outcome) => self.announce_subagent(&row, &outcome).await,
            Step::Later => Ok(()),
            Step::Stopped => {
                self.tell_subagent_status(&row).await;
                Ok(())
            }
        }
    }

    /// Runs it, unless that was done before, and writes down how it ended.
    async fn carry_out(
        self: &Arc<Self>,
        row: &SubagentRow,
        has_begun: &mut bool,
    ) -> Result<Step<Outcome>, StoreError> {
        let outcome = match self.run_to_end(row, has_begun).await? {
            Step::Done(Ok(report)) => self.close_subagent(row, &report).await?,
            Step::Done(Err(error)) => self.end_subagent(row, Outcome::failed(error)).await?,
            Step::Stopped => return Ok(Step::Stopped),
            Step::Later => return Ok(Step::Later),
        };
        let Some(outcome) = outcome else { return Ok(Step::Stopped) };
        self.tell_subagent_status(row).await;
        Ok(Step::Done(outcome))
    }

    /// How its run ended, or why there was none.
    async fn run_to_end(
        self: &Arc<Self>,
        row: &SubagentRow,
        has_begun: &mut bool,
    ) -> Result<Step<Result<RunReport, String>>, StoreError> {
        let family = Some(Family::Agent);
        if row.state == SubagentState::Active
            && let Some(report) = self.ended(family, &row.run_id).await?
        {
            let report = RunReport::clone(&report);
            return Ok(Step::Done(Ok(if *has_begun { report } else { of_last_process(report) })));
        }
        // The semaphore is never closed.
        let _permit = self.subagents.permits.acquire().await;
        *has_begun = true;
        match self.start_subagent(row).await? {
            Step::Done(None) => {}
            Step::Done(Some(error)) => return Ok(Step::Done(Err(error))),
            Step::Stopped => return Ok(Step::Stopped),
            Step::Later => return Ok(Step::Later),
        }
        let report = self.ends(family, &row.run_id).await?;
        if report.end == RunEnd::Aborted(AbortReason::Shutdown) {
            return Ok(Step::Later);
        }
        // What it was told meanwhile it answers in the same place.
        if !self.lane_empties(row).await? {
            return Ok(Step::Stopped);
        }
        Ok(Step::Done(Ok(RunReport::clone(&report))))
    }

    /// Waits until it has nothing more to say, and writes down how it ended, unless
    /// somebody has stopped it.
    async fn close_subagent(
        &self,
        row: &SubagentRow,
        report: &RunReport,
    ) -> Result<Option<Outcome>, StoreError> {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        loop {
            if !self.wait_for_children(row).await? {
                return Ok(None);
            }
            let _turn = self.subagents.turning.lock().await;
            if self.is_busy(&child) {
                // Somebody was quicker.
                continue;
            }
            let text = match report.end {
                RunEnd::Answered => self.last_words(row).await,
                RunEnd::Failed(_) | RunEnd::Aborted(_) => report.progress.paragraphs(),
            };
            return self.end_subagent(row, Outcome::of(report, &text)).await;
        }
    }

    async fn end_subagent(
        &self,
        row: &SubagentRow,
        outcome: Outcome,
    ) -> Result<Option<Outcome>, StoreError> {
        let ended = self.move_subagent(&row.run_id, SubagentState::Ended, Some(&outcome)).await?;
        Ok(ended.then_some(outcome))
    }

    /// Says to the sub-agent what it is to do. Answers why that failed.
    async fn start_subagent(
        self: &Arc<Self>,
        row: &SubagentRow,
    ) -> Result<Step<Option<String>>, StoreError> {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let entry = self.parts.sessions.entry(&child).await;
        // Without its session it would not be known whose tools it may use.
        let is_there = matches!(&entry, Ok(Some(entry)) if entry.spawned_by.is_some());
        if !is_there {
            return Ok(Step::Done(Some("its session is gone".into())));
        }
        let sent = {
            let _turn = self.subagents.turning.lock().await;
            if !self.move_subagent(&row.run_id, SubagentState::Active, None).await? {
                return Ok(Step::Stopped);
            }
            // With what it was told while it waited.
            let Some(row) = self.subagent_now(&row.run_id).await? else {
                return Ok(Step::Stopped);
            };
            self.send(self.subagent_request(&row, &child)).await
        };
        self.begin_in(&row.run_id, &self.subagents.permits);
        let start = match sent {
            Ok((Accepted::Started, start)) => start,
            Ok((_, _)) => None,
            Err(SendError::Stopping) => return Ok(Step::Later),
            Err(error) => return Ok(Step::Done(Some(error.to_string()))),
        };
        if let Ok(Some(entry)) = entry {
            self.parts.events.reason(&child, Some(&entry), "send", self.active(&child).is_some());
        }
        drop(start);
        Ok(Step::Done(None))
    }

    fn subagent_request(&self, row: &SubagentRow, child: &SessionKey) -> SendRequest {
        let limit = (row.timeout_seconds > 0).then(|| Duration::from_secs(row.timeout_seconds));
        SendRequest {
            family: Family::Agent,
            key: child.clone(),
            written_key: child.to_string(),
            idempotency_key: row.run_id.clone(),
            message: UserMessage::text(row.message.as_str(), self.parts.clock.now_ms()),
            media: None,
            thinking: None,
            owner: Owner::from_text(&row.owner),
            dedupe_text: None,
            limit,
            terms: RunTerms::default(),
        }
    }

    /// Waits until the sub-agent has heard from all of its own, and has said what it
    /// has to say to that and to whatever else it was told; false when it was stopped
    /// before that.
    async fn wait_for_children(&self, row: &SubagentRow) -> Result<bool, StoreError> {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        loop {
            // Listening before looking, so nothing that happens between is missed.
            let mut news = std::pin::pin!(self.subagents.news.notified());
            news.as_mut().enable();
            if self.is_stopped(&row.run_id).await? {
                return Ok(false);
            }
            let query = SubagentQuery::OfParent(row.child_key.clone());
            let own = self.parts.store.subagents(query).await?;
            if own.iter().any(|row| SubagentState::UNSETTLED.contains(&row.state)) {
                news.await;
                continue;
            }
            // What they were told is in its lane before they count as settled.
            if !self.is_busy(&child) {
                return Ok(true);
            }
            self.lane_empties(row).await?;
        }
    }

    /// Waits until nothing runs or waits in the sub-agent's session; false when it was
    /// stopped. What runs there then is none of its business: it was begun anew.
    async fn lane_empties(&self, row: &SubagentRow) -> Result<bool, StoreError> {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        while !self.is_stopped(&row.run_id).await? {
            let last = self.lanes.table().unfinished(&child).pop();
            let Some(run) = last else { return Ok(true) };
            self.leaves_lane(&run).await;
        }
        Ok(false)
    }

    async fn is_stopped(&self, run_id: &str) -> Result<bool, StoreError> {
        let now = self.subagent_now(run_id).await?;
        Ok(now.is_some_and(|now| now.state == SubagentState::Stopped))
    }

    /// What was said last in the sub-agent's session: by its model, else by a
    /// tool.
    async fn last_words(&self, row: &SubagentRow) -> String {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let options =
            HistoryOptions { limit: LOOK_BACK, is_raw: true, ..HistoryOptions::default() };
        let page = self.parts.sessions.history(&child, options).await;
        let messages = page.map(|page| page.messages).unwrap_or_default();
        let said = messages.iter().rev().filter(|message| message["role"] != "user");
        said.map(shown_text).find(|text| !text.trim().is_empty()).unwrap_or_default()
    }

    pub(super) async fn move_subagent(
        &self,
        run_id: &str,
        to: SubagentState,
        outcome: Option<&Outcome>,
    ) -> Result<bool, StoreError> {
        let from: &'static [SubagentState] = match to {
            SubagentState::Waiting => &[],
            SubagentState::Active | SubagentState::Ended => {
                &[SubagentState::Waiting, SubagentState::Active]
            }
            SubagentState::Announced | SubagentState::Stopped => &SubagentState::UNSETTLED,
        };
        let (outcome, now) = (outcome.map(Outcome::to_json), self.parts.clock.now_ms());
        self.parts.store.advance_subagent(run_id, from, to, outcome, now).await
    }

    /// The run of a sub-agent as it is now.
    pub(super) async fn subagent_now(
        &self,
        run_id: &str,
    ) -> Result<Option<SubagentRow>, StoreError> {
        let found = self.parts.store.subagents(SubagentQuery::Run(run_id.into())).await?;
        Ok(found.into_iter().next())
    }

    /// Tells those who watch that a sub-agent has ended.
    pub(super) async fn tell_subagent_status(&self, row: &SubagentRow) {
        let child = SessionKey::from_canonical(row.child_key.as_str());
        match self.close_session(&child).await {
            Ok(entry) => self.parts.events.subagent(&child, &entry, "subagent-status"),
            // Somebody has deleted it meanwhile.
            Err(SessionError::NotFound(_)) => {}
            Err(error) => tracing::error!(session = %child, %error, "session not updated"),
        }
    }

    /// Its session shows that nothing runs there, also when it never began.
    async fn close_session(&self, child: &SessionKey) -> Result<SessionEntry, SessionError> {
        let is_busy = self.is_busy(child);
        let now = self.parts.clock.now_ms();
        let close = move |entry: &mut SessionEntry| {
            if !is_busy && entry.status.as_deref() == Some("running") {
                entry.status = Some("killed".into());
                entry.ended_at = Some(now);
            }
        };
        self.parts.sessions.update(child, close).await
    }
}

/// A run of an earlier process that was stopped without a word of its parent was cut off
/// with the gateway.
fn of_last_process(report: RunReport) -> RunReport {
    match report.end {
        RunEnd::Aborted(_) => {
            let end = RunEnd::Failed("interrupted by a stop of the gateway".into());
            RunReport { end, ..report }
        }
        RunEnd::Answered | RunEnd::Failed(_) => report,
    }
}
