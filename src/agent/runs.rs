//! Accepts messages and drives their runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::auth::{Owner, Principal};
use crate::protocol::Scope;
use crate::protocol::message::{AgentMessage, AssistantMessage, UserMessage};
use crate::providers::ThinkingLevel;
use crate::sessions::{SessionError, SessionKey, StoredMessage};
use crate::store::{Claim, NewRun, RunOutcome, RunState, StoreError};
use crate::support::hex;

use super::emitter::Emitter;
use super::lane::{LaneTable, Placed};
use super::parts::RunsParts;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::{recovery, turn};

/// Family of the idempotency keys of `chat.send`.
const KEY_SCOPE: &str = "chat";
/// How long an abort waits for the run to wind down before it answers anyway.
const ABORT_WAIT: Duration = Duration::from_secs(5);

/// A message that wants an answer.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// Its session.
    pub key: SessionKey,
    /// The session as the client wrote it.
    pub written_key: String,
    /// Also the run's id.
    pub idempotency_key: String,
    /// What the user says.
    pub message: UserMessage,
    /// How hard to think.
    pub thinking: Option<ThinkingLevel>,
    /// Who says it.
    pub owner: Owner,
    /// The same text again, while it is being answered, is not run again.
    pub dedupe_text: Option<String>,
}

/// Answer to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// A new run.
    Started,
    /// This run, which may be another one, is answering it already.
    InFlight(String),
    /// It was answered before.
    Ended,
    /// The gateway stopped while it was being answered.
    Interrupted,
}

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The gateway is about to stop.
    #[error("gateway is stopping; send again after it has restarted")]
    Stopping,
    /// Too many messages wait in the session.
    #[error("too many messages wait in this session; wait for answers or abort")]
    TooMany,
    /// The run could not be recorded.
    #[error("message not stored: {0}")]
    Store(#[from] StoreError),
    /// The transcript could not be written.
    #[error("message not stored: {0}")]
    Session(#[from] SessionError),
}

#[derive(Default)]
struct State {
    lanes: LaneTable,
    stopping: bool,
}

/// All runs of the gateway.
pub struct Runs {
    parts: RunsParts,
    // Never held across an await; see docs/locks.md.
    state: Mutex<State>,
}

impl Runs {
    /// No run yet.
    pub fn new(parts: RunsParts) -> Arc<Self> {
        Arc::new(Self { parts, state: Mutex::default() })
    }

    /// What it works with.
    pub const fn parts(&self) -> &RunsParts {
        &self.parts
    }

    /// Marks what the last process left unfinished; for the start. A message
    /// that was accepted and never reached its transcript is put there now.
    pub async fn recover(&self) -> Result<usize, SendError> {
        recovery::recover(&self.parts).await
    }

    /// Accepts a message durably and queues its run. A run that can start does
    /// so when the [`Start`] is dropped, after the sender has his answer.
    pub async fn send(
        self: &Arc<Self>,
        request: SendRequest,
    ) -> Result<(Accepted, Option<Start>), SendError> {
        let run = Arc::new(self.new_run(&request));
        if let Some(known) = self.admit(&run, request.dedupe_text).await? {
            return Ok((known, None));
        }
        let placed = self.state.lock().lanes.enter(&run);
        match placed {
            Placed::Waiting => Ok((Accepted::Started, None)),
            Placed::Refused => {
                self.record_end(&run, &RunEnd::Aborted(AbortReason::Rpc)).await;
                Err(SendError::TooMany)
            }
            Placed::First => {
                let stored = recovery::append_user_message(&self.parts, &run).await;
                let stored = match stored {
                    Ok(stored) => stored,
                    Err(error) => {
                        self.end(&run, RunEnd::Failed(error.to_string())).await;
                        return Err(error.into());
                    }
                };
                let start = Start { runs: Arc::clone(self), run, stored };
                Ok((Accepted::Started, Some(start)))
            }
        }
    }

    /// Accepts a message that the gateway answers itself: both go to the
    /// transcript, and one `chat` event ends it.
    pub async fn answer_with(
        &self,
        request: SendRequest,
        answer: impl Future<Output = String>,
    ) -> Result<Accepted, SendError> {
        let run = self.new_run(&request);
        if let Some(known) = self.admit(&run, None).await? {
            return Ok(known);
        }
        let answered = async {
            let said = recovery::append_user_message(&self.parts, &run).await?;
            self.parts.announce(&run.key, &said);
            let text = answer.await;
            let answer = AssistantMessage::from_gateway(text, self.parts.clock.now_ms());
            self.parts.append(&run.key, AgentMessage::Assistant(answer), None).await
        };
        let error = match answered.await {
            Ok(stored) => {
                self.record_end(&run, &RunEnd::Answered).await;
                self.parts.publish_note(&run.key, &run.id, 1, &stored);
                self.parts.announce(&run.key, &stored);
                return Ok(Accepted::Started);
            }
            Err(error) => error,
        };
        self.record_end(&run, &RunEnd::Failed(error.to_string())).await;
        Err(error.into())
    }

    /// Takes the idempotency key; answers what became of it if it is taken.
    async fn admit(
        &self,
        run: &ActiveRun,
        text: Option<String>,
    ) -> Result<Option<Accepted>, SendError> {
        if self.state.lock().stopping {
            return Err(SendError::Stopping);
        }
        Ok(match self.claim(run, text).await? {
            Claim::New => None,
            Claim::Existing(record) => Some(match record.state {
                RunState::Active => Accepted::InFlight(record.run_id),
                RunState::Interrupted => Accepted::Interrupted,
                RunState::Done | RunState::Failed | RunState::Aborted => Accepted::Ended,
            }),
        })
    }

    /// Stops runs of a session that `principal` may stop: one, or all.
    /// Answers their ids; `None` when there are some and none is his.
    pub async fn abort(
        &self,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: &Principal,
        reason: AbortReason,
    ) -> Result<Vec<String>, AbortError> {
        let runs = {
            let state = self.state.lock();
            match run_id {
                None => state.lanes.of_session(key),
                Some(run_id) => state.lanes.get(run_id).into_iter().collect(),
            }
        };
        if runs.iter().any(|run| run.key != *key) {
            return Err(AbortError::OtherSession);
        }
        let mine: Vec<_> = runs
            .iter()
            .filter(|run| principal.allows(Scope::Admin) || *run.owner == *principal.owner())
            .collect();
        if mine.is_empty() && !runs.is_empty() {
            return Err(AbortError::NotYours);
        }
        for run in &mine {
            run.abort(reason);
            let waited = self.state.lock().lanes.withdraw(run);
            if waited {
                self.end_waiter(run, reason).await;
            }
        }
        let wind_down = async {
            for run in &mine {
                run.ended().await;
            }
        };
        if tokio::time::timeout(ABORT_WAIT, wind_down).await.is_err() {
            tracing::error!(session = %key, "a stopped run does not wind down");
        }
        Ok(mine.iter().map(|run| run.id.to_string()).collect())
    }

    /// The run that is active in a session.
    pub fn active(&self, key: &SessionKey) -> Option<Arc<ActiveRun>> {
        self.state.lock().lanes.active(key)
    }

    /// `tasks` of `status`.
    pub fn tasks(&self) -> Value {
        let (active, waiting) = self.counts();
        self.parts.tally.tasks(active, waiting)
    }

    /// How many run, and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        self.state.lock().lanes.counts()
    }

    /// Takes no more messages, and waits for the runs for at most `limit`;
    /// then stops what is left, keeping its partial text.
    pub async fn drain(&self, limit: Duration) {
        let runs = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.lanes.all()
        };
        let all_end = async {
            for run in &runs {
                run.ended().await;
            }
        };
        if tokio::time::timeout(limit, all_end).await.is_ok() {
            return;
        }
        for run in &runs {
            run.abort(AbortReason::Shutdown);
        }
        let all_end = async {
            for run in &runs {
                run.ended().await;
            }
        };
        let _ = tokio::time::timeout(ABORT_WAIT, all_end).await;
    }

    fn new_run(&self, request: &SendRequest) -> ActiveRun {
        ActiveRun::new(
            request.idempotency_key.as_str().into(),
            request.key.clone(),
            request.written_key.clone(),
            Arc::new(request.owner.clone()),
            request.message.clone(),
            self.parts.ids.entry_id(),
            request.thinking,
            self.parts.clock.now_ms(),
        )
    }

    async fn claim(&self, run: &ActiveRun, text: Option<String>) -> Result<Claim, StoreError> {
        self.parts
            .store
            .claim_run(NewRun {
                scope: KEY_SCOPE.into(),
                key: run.id.to_string(),
                run_id: run.id.to_string(),
                session_key: run.key.to_string(),
                text_hash: text.map(|text| hex(Sha256::digest(text))),
                message: recovery::pack(run),
                now_ms: run.accepted_at,
            })
            .await
    }

    /// Runs a lane until nobody waits in it.
    fn drive(self: &Arc<Self>, first: Arc<ActiveRun>) {
        let runs = Arc::clone(self);
        self.parts.tasks.spawn("run", async move {
            let mut current = Some(first);
            while let Some(run) = current {
                let end = runs.execute(&run).await;
                current = runs.end(&run, end).await;
                if let Some(next) = &current {
                    current = runs.begin_waiting(next).await;
                }
            }
        });
    }

    /// Executes one run; a panic in it is its failure, not the lane's.
    async fn execute(&self, run: &Arc<ActiveRun>) -> RunEnd {
        let limit = Duration::from_secs(self.parts.settings.agents.defaults.timeout_seconds);
        let timeout = async {
            tokio::time::sleep(limit).await;
            run.abort(AbortReason::Timeout);
            std::future::pending::<RunEnd>().await
        };
        let executed = AssertUnwindSafe(turn::execute(&self.parts, run)).catch_unwind();
        let outcome = tokio::select! {
            outcome = executed => outcome,
            end = timeout => Ok(end),
        };
        outcome.unwrap_or_else(|_| {
            tracing::error!(run = %run.id, "run panicked");
            let message = "the run failed inside the gateway; see its log";
            self.emitter(run).fail(message, "unknown");
            RunEnd::Failed(message.into())
        })
    }

    /// Ends a run that never started. Its message is kept like any other.
    async fn end_waiter(&self, run: &Arc<ActiveRun>, reason: AbortReason) {
        match recovery::append_user_message(&self.parts, run).await {
            Ok(stored) => self.parts.announce(&run.key, &stored),
            Err(error) => tracing::error!(run = %run.id, %error, "message not in its transcript"),
        }
        self.emitter(run).abort(reason);
        let end = RunEnd::Aborted(reason);
        self.record_end(run, &end).await;
        run.set_ended(end);
    }

    /// Puts the message of a waiter into the transcript. Waiters that were
    /// stopped meanwhile end here; answers the first that can start.
    async fn begin_waiting(&self, next: &Arc<ActiveRun>) -> Option<Arc<ActiveRun>> {
        let mut next = Arc::clone(next);
        loop {
            let stored = recovery::append_user_message(&self.parts, &next).await;
            let end = match (stored, next.abort_reason()) {
                (Ok(stored), None) => {
                    self.parts.announce(&next.key, &stored);
                    return Some(next);
                }
                (_, Some(reason)) => {
                    self.emitter(&next).abort(reason);
                    RunEnd::Aborted(reason)
                }
                (Err(error), None) => {
                    let message = format!("transcript not writable: {error}");
                    self.emitter(&next).fail(&message, "unknown");
                    RunEnd::Failed(message)
                }
            };
            next = self.end(&next, end).await?;
        }
    }

    fn emitter(&self, run: &Arc<ActiveRun>) -> Emitter {
        Emitter::new(Arc::clone(run), self.parts.bus.clone(), Arc::clone(&self.parts.clock))
    }

    /// Records the end, frees the lane, tells those who wait; answers the next.
    async fn end(&self, run: &Arc<ActiveRun>, end: RunEnd) -> Option<Arc<ActiveRun>> {
        self.record_end(run, &end).await;
        let next = self.state.lock().lanes.finish(run);
        run.set_ended(end);
        next
    }

    async fn record_end(&self, run: &ActiveRun, end: &RunEnd) {
        self.parts.tally.count(end);
        let outcome = match end {
            RunEnd::Answered => RunOutcome::Done,
            RunEnd::Failed(error) => RunOutcome::Failed(error.clone()),
            RunEnd::Aborted(_) => RunOutcome::Aborted,
        };
        let now_ms = self.parts.clock.now_ms();
        if let Err(error) = self.parts.store.finish_run(&run.id, outcome, now_ms).await {
            tracing::error!(run = %run.id, %error, "end of run not recorded");
        }
    }
}

/// A run that is ready to start, and does when this is dropped.
pub struct Start {
    runs: Arc<Runs>,
    run: Arc<ActiveRun>,
    stored: StoredMessage,
}

impl Drop for Start {
    fn drop(&mut self) {
        self.runs.parts.announce(&self.run.key, &self.stored);
        self.runs.drive(Arc::clone(&self.run));
    }
}

/// Why nothing was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortError {
    /// The run belongs to another session.
    #[error("runId does not match sessionKey")]
    OtherSession,
    /// The runs belong to somebody else.
    #[error("unauthorized")]
    NotYours,
}
