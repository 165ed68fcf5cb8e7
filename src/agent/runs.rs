//! Accepts messages, and knows their runs.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::sessions::{MediaError, SessionError, SessionKey, StagedMedia, StoredMessage};
use crate::store::{Claim, NewRun, RunRecord, RunState, StoreError};
use crate::support::sync::Notify;
use crate::support::{Permits, hex};
use crate::telemetry::traces;

use super::abort::ABORT_WAIT;
use super::aside;
use super::lane::Placed;
use super::lanes::Lanes;
use super::parts::RunsParts;
use super::queue::QueueRules;
use super::recovery;
use super::report::Family;
use super::request::SendRequest;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::subagents::Subagents;

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
    /// `chat.send` and `agent` have keys of their own, but runs have one id.
    #[error("another method's run with this idempotencyKey is active; use another key")]
    IdTaken,
    /// The run could not be recorded.
    #[error("message not stored: {0}")]
    Store(#[from] StoreError),
    /// The transcript could not be read.
    #[error("message not stored: {0}")]
    Session(#[from] SessionError),
    /// Its files could not be put into their place.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The transcript could not be written.
    #[error("message not stored: {0}")]
    Unwritable(String),
    /// The gateway has a fault.
    #[error("message not accepted; the gateway's log says why")]
    Broken,
}

/// All runs of the gateway.
pub struct Runs {
    pub(super) parts: RunsParts,
    /// Which runs there are.
    pub(super) lanes: Lanes,
    /// How many runs may be under way at a time.
    pub(super) permits: Permits,
    /// How many side questions may be asked at a time.
    pub(super) asides: Semaphore,
    /// When this process began, in milliseconds since the epoch.
    pub(super) started_at: u64,
    /// Runs of sub-agents.
    pub(super) subagents: Subagents,
    /// Commands that are being done.
    pub(super) commands: TaskTracker,
    /// Rings when somebody who has a lane from the line keeps it, or goes back to his place.
    pub(super) decided: Notify,
}

impl Runs {
    /// No run yet.
    pub fn new(parts: RunsParts) -> Arc<Self> {
        let permits = Permits::new(parts.settings.now().agents.defaults.max_concurrent);
        let subagents = Subagents::new(&parts.settings.now().agents.defaults.subagent_limits);
        let lanes = Lanes::new(Arc::clone(&parts.clock));
        let asides = Semaphore::new(aside::AT_A_TIME);
        let started_at = parts.clock.now_ms();
        let commands = TaskTracker::new();
        let decided = Notify::new();
        Arc::new(Self { parts, lanes, permits, asides, started_at, subagents, commands, decided })
    }

    /// Whoever has begun a run keeps one of these places until it ends, and it lends that as
    /// its own.
    pub fn begin_in(&self, run_id: &str, places: &Arc<Permits>) {
        if let Some(run) = self.lanes.table().get(run_id) {
            // There is one who has begun it.
            let _ = run.outer.set(Arc::clone(places));
        }
    }

    /// Does what `run` waits for, whose place another run may have meanwhile.
    pub async fn while_lending<T>(&self, run: &ActiveRun, work: impl Future<Output = T>) -> T {
        let tasks = &self.parts.tasks;
        let Some(outer) = run.outer.get() else {
            return self.permits.lending(tasks, &run.waits, work).await;
        };
        // What it had first it takes back first, as everybody does.
        let work = outer.lending(tasks, &run.outer_waits, work);
        self.permits.lending(tasks, &run.waits, work).await
    }

    /// What it works with.
    pub const fn parts(&self) -> &RunsParts {
        &self.parts
    }

    /// Takes the bounds of the configuration as it is now.
    pub fn reconfigure(&self) {
        let (settings, tasks) = (self.parts.settings.now(), &self.parts.tasks);
        self.permits.resize(settings.agents.defaults.max_concurrent, tasks);
        self.subagents.reconfigure(&settings.agents.defaults.subagent_limits, tasks);
    }

    /// Marks what the last process left unfinished; for the start. A message
    /// that was accepted and never reached its transcript is put there now.
    pub async fn recover(&self) -> Result<usize, SendError> {
        recovery::recover(&self.parts).await
    }

    /// Accepts a message durably and queues its run. A run that can start does
    /// so when the [`Start`] is dropped, after the sender has his answer. Who
    /// asks may go away: what has begun is done to its end.
    pub async fn send(
        self: &Arc<Self>,
        request: SendRequest,
    ) -> Result<(Accepted, Option<Start>), SendError> {
        let runs = Arc::clone(self);
        let accepting = Box::pin(async move { runs.accept(request).await });
        let accepting = traces::within(traces::current(), accepting).in_current_span();
        let accepting = self.parts.tasks.result_of("accept", accepting);
        accepting.await.unwrap_or(Err(SendError::Broken))
    }

    async fn accept(
        self: &Arc<Self>,
        mut request: SendRequest,
    ) -> Result<(Accepted, Option<Start>), SendError> {
        let (text, media) = (request.dedupe_text.take(), request.media.take());
        let run = Arc::new(self.new_run(request).await?);
        if let Claim::Existing(record) = self.claim(&run, text).await? {
            return Ok((self.known(record), None));
        }
        self.take(run, media).await
    }

    /// Queues a run whose key is claimed.
    pub(super) async fn take(
        self: &Arc<Self>,
        run: Arc<ActiveRun>,
        media: Option<StagedMedia>,
    ) -> Result<(Accepted, Option<Start>), SendError> {
        if let Some(media) = media
            && let Err(error) = media.keep().await
        {
            return Err(self.turn_away(&run, error.into()).await);
        }
        match self.lanes.enter(&run) {
            Placed::Waiting(dropped) => {
                if let Some(active) = self.active(&run.key) {
                    active.accompany(&run.owner);
                }
                self.make_way(&run, dropped).await;
                Ok((Accepted::Started, None))
            }
            Placed::IdTaken => Err(self.turn_away(&run, SendError::IdTaken).await),
            Placed::Refused => Err(self.turn_away(&run, SendError::TooMany).await),
            Placed::Closed => Err(self.turn_away(&run, SendError::Stopping).await),
            Placed::First => {
                let mut start = Start { runs: Arc::clone(self), run, outcome: None };
                self.lanes.settle(&start.run.key).await;
                let stored = recovery::open_turn(&self.parts, &start.run).await;
                match start.outcome.insert(stored) {
                    Ok(_) => Ok((Accepted::Started, Some(start))),
                    Err(error) => {
                        let error = SendError::Unwritable(error.to_string());
                        // Before he is told, who may send it again at once.
                        self.give_back(&start.run).await;
                        Err(error)
                    }
                }
            }
        }
    }

    /// The answer for a message whose run there is already. One that another run
    /// has taken in has told its end: that one is to be followed.
    pub(super) fn known(&self, record: RunRecord) -> Accepted {
        match record.state {
            RunState::Active => {
                let answering = self.lanes.table().answering(&record.run_id);
                Accepted::InFlight(answering.map_or(record.run_id, |run| run.id.to_string()))
            }
            RunState::Interrupted => Accepted::Interrupted,
            RunState::Done | RunState::Failed | RunState::Aborted => Accepted::Ended,
        }
    }

    /// Whether a message of this family was taken with this key, so that it is not a
    /// new one. The key of one that was stopped is free; in a chat in time also that of one
    /// that failed.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn is_taken(&self, family: Family, key: &str) -> Result<bool, StoreError> {
        let record = self.parts.store.run_of(family.as_str(), key).await?;
        Ok(record.is_some_and(|record| record.holds_key(self.parts.clock.now_ms())))
    }

    /// Whether the gateway stops, and takes no more runs.
    pub fn is_stopping(&self) -> bool {
        self.lanes.table().is_closed()
    }

    /// Ends a run that is not accepted after all. Who waits for it hears of that, too.
    async fn turn_away(&self, run: &ActiveRun, error: SendError) -> SendError {
        self.give_back(run).await;
        self.lanes.turn_away(run);
        error
    }

    /// Gives the message of a run that is not accepted back to its sender, and the key
    /// with it: sent again, it is a new one.
    async fn give_back(&self, run: &ActiveRun) {
        run.set_stored();
        self.parts.record_end(run, &RunEnd::Aborted(AbortReason::Rpc)).await;
    }

    /// When this process began, in milliseconds since the epoch.
    pub const fn started_at(&self) -> u64 {
        self.started_at
    }

    /// The session in which a run is active or waits, or which is waited for to run it.
    pub fn session_of(&self, run_id: &str) -> Option<SessionKey> {
        let table = self.lanes.table();
        let run = table.get(run_id).or_else(|| table.in_line_for(run_id));
        run.map(|run| run.key.clone())
    }

    /// The run that is active in a session; none once its end has been told, or where
    /// clients are shown nothing of what has the lane.
    pub fn active(&self, key: &SessionKey) -> Option<Arc<ActiveRun>> {
        self.lanes.table().active(key).filter(|run| run.is_shown())
    }

    /// Id that the message of a run has in the transcript, while the run is active
    /// or waits.
    pub fn message_id(&self, run_id: &str) -> Option<String> {
        self.lanes.table().get(run_id).map(|run| run.message_id.clone())
    }

    /// Whether something runs or waits in a session, or is about to leave it.
    pub fn is_busy(&self, key: &SessionKey) -> bool {
        !self.lanes.table().unfinished(key).is_empty()
    }

    /// Whether a session is busy, or waited for in line: then it is not to be taken away.
    pub fn is_in_use(&self, key: &SessionKey) -> bool {
        !self.lanes.table().everyone(key).is_empty()
    }

    /// `tasks` of `status`.
    pub fn tasks(&self) -> Value {
        let (active, waiting) = self.counts();
        self.parts.tally.tasks(active, waiting)
    }

    /// How many wait in a session for what is active there.
    pub fn waiting_in(&self, key: &SessionKey) -> usize {
        self.lanes.table().waiting_in(key)
    }

    /// How many have ended, by outcome.
    pub fn outcomes(&self) -> [(&'static str, u64); 5] {
        self.parts.tally.ended()
    }

    /// How many run, and how many wait. A lane that is only held is no run.
    pub fn counts(&self) -> (usize, usize) {
        self.lanes.table().counts()
    }

    pub(super) async fn new_run(&self, request: SendRequest) -> Result<ActiveRun, SendError> {
        let entry = self.parts.sessions.entry(&request.key).await?;
        let (settings, came_by) = (self.parts.settings.now(), request.terms.came_by.as_deref());
        let rules = QueueRules::of(&settings.messages.queue, entry.as_ref(), came_by);
        let (id, now) = (self.parts.ids.entry_id(), self.parts.clock.now_ms());
        let parent = entry.and_then(|entry| entry.spawned_by);
        Ok(ActiveRun::new(request, rules, id, now).spawned_by(parent))
    }

    /// Claims the key of a run, which is free again once the end of the last one that
    /// had it is written down. One that is being stopped is waited for: nobody would
    /// answer what is sent again now.
    pub(super) async fn claim(
        &self,
        run: &ActiveRun,
        text: Option<String>,
    ) -> Result<Claim, StoreError> {
        let new = new_record(run, text);
        let claim = self.claim_once(&new).await?;
        let record = match &claim {
            Claim::Existing(record) if record.state == RunState::Active => record,
            _ => return Ok(claim),
        };
        let (stopping, is_here) = {
            let table = self.lanes.table();
            let is_here = table.get(&record.run_id).is_some();
            (table.stopping(&record.scope, &record.run_id), is_here)
        };
        let has_ended = match stopping {
            Some(run) => tokio::time::timeout(ABORT_WAIT, run.ended()).await.is_ok(),
            // Since its record was read.
            None => !is_here,
        };
        if has_ended { self.claim_once(&new).await } else { Ok(claim) }
    }

    async fn claim_once(&self, new: &NewRun) -> Result<Claim, StoreError> {
        let RunsParts { store, unrecorded, .. } = &self.parts;
        match store.claim_run(new.clone()).await? {
            Claim::Existing(record)
                if unrecorded.catch_up(&record.scope, &record.run_id).await? =>
            {
                store.claim_run(new.clone()).await
            }
            claim => Ok(claim),
        }
    }
}

fn new_record(run: &ActiveRun, text: Option<String>) -> NewRun {
    NewRun {
        scope: run.family.as_str().into(),
        key: run.id.to_string(),
        run_id: run.id.to_string(),
        session_key: run.key.to_string(),
        text_hash: text.map(|text| hex(Sha256::digest(text))),
        message: recovery::pack(run),
        now_ms: run.accepted_at,
    }
}

/// A run that is ready to start, and does when this is dropped.
pub struct Start {
    runs: Arc<Runs>,
    run: Arc<ActiveRun>,
    /// What became of its message; `None` while that is not known.
    outcome: Option<Result<StoredMessage, SessionError>>,
}

impl Drop for Start {
    fn drop(&mut self) {
        let (runs, run) = (Arc::clone(&self.runs), Arc::clone(&self.run));
        let error = match self.outcome.take() {
            Some(Ok(stored)) => {
                runs.parts.announce(&run.key, &stored);
                return runs.drive(run);
            }
            Some(Err(error)) => error.to_string(),
            None => SendError::Broken.to_string(),
        };
        self.runs.parts.tasks.spawn("end", async move {
            runs.give_back(&run).await;
            runs.release(&run, RunEnd::Failed(error)).await;
        });
    }
}
