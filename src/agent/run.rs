//! One accepted message on its way to an answer.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::Owner;
use crate::protocol::message::{Usage, UserMessage};
use crate::providers::ThinkingLevel;
use crate::sessions::SessionKey;
use crate::support::Permits;
use crate::support::sync::{AtomicBool, Mutex, Ordering};
use crate::telemetry::asked;
use crate::telemetry::traces::{self, SpanContext};

use super::queue::QueueRules;
use super::report::{Family, Progress};
use super::request::SendRequest;
use super::terms::{Owned, RunTerms};

/// Most others who see the tool calls of a run.
const COMPANY_MAX: usize = 100;

/// Why somebody stops a run; the text is `stopReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortReason {
    /// `chat.abort`.
    Rpc,
    /// A stop word in the chat.
    Stop,
    /// It took too long.
    Timeout,
    /// The gateway stops.
    Shutdown,
    /// A newer message takes its place.
    Interrupt,
}

impl AbortReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Stop => "stop",
            Self::Timeout => "timeout",
            Self::Shutdown => "shutdown",
            Self::Interrupt => "interrupt",
        }
    }

    /// The reason of this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Rpc, Self::Stop, Self::Timeout, Self::Shutdown, Self::Interrupt]
            .into_iter()
            .find(|reason| reason.as_str() == word)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// With an answer.
    Answered,
    /// With this error.
    Failed(String),
    /// Somebody stopped it.
    Aborted(AbortReason),
}

/// A run that is active or waits.
#[derive(Debug)]
pub struct ActiveRun {
    /// What started it.
    pub family: Family,
    /// The idempotency key of the request that started it.
    pub id: Arc<str>,
    /// Its session.
    pub key: SessionKey,
    /// The session as the client wrote it; `aborted` events echo that.
    pub written_key: String,
    /// Who may stop it.
    pub owner: Arc<Owner>,
    /// What the user said.
    pub message: UserMessage,
    /// Id that the message has in the transcript.
    pub message_id: String,
    /// How hard to think; the session's level when absent.
    pub thinking: Option<ThinkingLevel>,
    /// How it waits when the session is busy.
    pub queue: QueueRules,
    /// When it was put into its lane; quiet is counted from here.
    pub entered: Instant,
    /// It is stopped after so long; the agents' limit holds in any case.
    pub limit: Option<Duration>,
    /// When it was accepted, in milliseconds since the epoch.
    pub accepted_at: u64,
    /// What it may do, and who sees it.
    pub terms: RunTerms,
    /// Whether all that it has heard comes from the gateway's owner.
    pub owned: Owned,
    /// The span that it was asked for in.
    pub trace: Option<SpanContext>,
    /// What the lines of the log are marked with that are about it.
    pub marked: tracing::Span,
    /// The session that spawned this one.
    pub spawned_by: Option<String>,
    /// The id of the run that its lane is held for, when it has no message of its own.
    stands_for: OnceLock<Arc<str>>,
    /// Set once, when somebody stops it.
    abort_reason: Mutex<Option<AbortReason>>,
    /// Whether its message needs no more care: it is in the transcript.
    stored: AtomicBool,
    /// Whether its message went into another run, and it still has a turn.
    steered: AtomicBool,
    /// Whether it keeps the lane that it has waited for in line.
    keeps: AtomicBool,
    /// How it ends, from the moment that this is written down.
    decided: OnceLock<RunEnd>,
    /// Whether its end is being told.
    over: AtomicBool,
    /// Whether clients know nothing of it.
    is_hidden: bool,
    /// The `seq` of the last event that an emitter which is gone has told of it.
    pub(super) last_seq: AtomicU64,
    /// For how many other runs, and answers of a person, it waits at the moment.
    pub(super) waits: AtomicUsize,
    /// Those of which whoever has begun it keeps one until it ends.
    pub(super) outer: OnceLock<Arc<Permits>>,
    /// What `waits` counts, for its place among those.
    pub(super) outer_waits: AtomicUsize,
    /// Who has begun another run in its session while it was active.
    company: Mutex<Vec<Arc<Owner>>>,
    /// What it has done so far.
    progress: Mutex<Progress>,
    cancel: CancellationToken,
    end: watch::Sender<Option<RunEnd>>,
}

impl ActiveRun {
    /// A run that is being accepted.
    pub fn new(
        request: SendRequest,
        queue: QueueRules,
        message_id: String,
        accepted_at: u64,
    ) -> Self {
        let marked = asked::run(&tracing::Span::current(), &request.idempotency_key);
        Self {
            marked,
            queue: queue.of_family(request.family),
            family: request.family,
            id: request.idempotency_key.into(),
            key: request.key,
            written_key: request.written_key,
            owner: Arc::new(request.owner),
            message: request.message,
            message_id,
            thinking: request.thinking,
            entered: Instant::now(),
            limit: request.limit,
            accepted_at,
            owned: Owned::new(request.terms.is_owner),
            terms: request.terms,
            trace: traces::current(),
            spawned_by: None,
            stands_for: OnceLock::new(),
            abort_reason: Mutex::new(None),
            stored: AtomicBool::new(false),
            steered: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            decided: OnceLock::new(),
            over: AtomicBool::new(false),
            is_hidden: false,
            last_seq: AtomicU64::new(0),
            waits: AtomicUsize::new(0),
            outer: OnceLock::new(),
            outer_waits: AtomicUsize::new(0),
            company: Mutex::default(),
            progress: Mutex::default(),
            cancel: CancellationToken::new(),
            end: watch::Sender::new(None),
        }
    }

    /// The same in a session that was spawned by another.
    #[must_use]
    pub fn spawned_by(self, parent: Option<String>) -> Self {
        Self { spawned_by: parent, ..self }
    }

    /// The same, but clients are not shown it and cannot stop it.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self { is_hidden: true, ..self }
    }

    /// Its lane is held for the run with this id.
    pub fn stand_for(&self, run_id: &str) {
        // The first holds: nobody holds a lane for two runs.
        let _ = self.stands_for.set(run_id.into());
    }

    /// The id of the run that its lane is held for.
    pub fn stands_for(&self) -> Option<&Arc<str>> {
        self.stands_for.get()
    }

    /// The id that clients know it by.
    pub fn known_as(&self) -> &str {
        self.stands_for().unwrap_or(&self.id)
    }

    /// Its message is in the transcript, or its sender keeps it.
    pub fn set_stored(&self) {
        self.stored.store(true, Ordering::Relaxed);
    }

    /// Whether its message needs no more care.
    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Relaxed)
    }

    /// Whether its answer goes where that of another goes: one run may answer both.
    pub fn shares_place(&self, other: &Self) -> bool {
        self.terms.hearer == other.terms.hearer
    }

    /// Its message went into another run; its own turn is still to come.
    pub fn set_steered(&self) {
        self.steered.store(true, Ordering::Relaxed);
    }

    /// Whether its message went into another run.
    pub fn has_steered(&self) -> bool {
        self.steered.load(Ordering::Relaxed)
    }

    /// The lane that it has waited for in line is its own until it ends.
    pub fn set_keeps(&self) {
        self.keeps.store(true, Ordering::Relaxed);
    }

    /// Whether it does not go back to its place in line any more.
    pub fn keeps_lane(&self) -> bool {
        self.keeps.load(Ordering::Relaxed)
    }

    /// Decides how it ends; `false` when that was decided before.
    pub fn decide(&self, end: &RunEnd) -> bool {
        self.decided.set(end.clone()).is_ok()
    }

    /// How it ends, once that is decided.
    pub fn decided(&self) -> Option<&RunEnd> {
        self.decided.get()
    }

    /// Its end is about to be told.
    pub fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether its end has been told.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether clients are shown it: it is not hidden, and its end has not been told.
    pub fn is_shown(&self) -> bool {
        !self.is_hidden && !self.is_over()
    }

    /// Somebody begins another run in its session, and looks on from now on.
    pub fn accompany(&self, owner: &Arc<Owner>) {
        let mut company = self.company.lock();
        if *owner != self.owner && company.len() < COMPANY_MAX && !company.contains(owner) {
            company.push(Arc::clone(owner));
        }
    }

    /// Who sees its tool calls: its owner, and whoever looks on.
    pub fn onlookers(&self) -> Vec<Arc<Owner>> {
        let mut owners = vec![Arc::clone(&self.owner)];
        owners.extend(self.company.lock().iter().cloned());
        owners
    }

    /// What it has done so far.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// What models have used that reviewed its tool calls, or that tools had asked when
    /// they were stopped.
    pub fn reviews(&self) -> Usage {
        self.progress.lock().reviews.clone()
    }

    /// Notes what it has done.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
    }

    /// Stops it; the first reason wins.
    pub fn abort(&self, reason: AbortReason) {
        self.abort_reason.lock().get_or_insert(reason);
        self.cancel.cancel();
    }

    /// Why it was stopped, if it was.
    pub fn abort_reason(&self) -> Option<AbortReason> {
        *self.abort_reason.lock()
    }

    /// Waits until somebody stops it.
    pub async fn aborted(&self) -> AbortReason {
        self.cancel.cancelled().await;
        self.abort_reason().unwrap_or(AbortReason::Rpc)
    }

    /// Tells everybody who waits that it has ended.
    pub fn set_ended(&self, end: RunEnd) {
        self.end.send_replace(Some(end));
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> RunEnd {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(RunEnd::Answered),
            // The sender lives in `self`, so this cannot happen while we wait.
            Err(_) => RunEnd::Answered,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::config::QueueSettings;
    use crate::sessions::KeyRules;

    pub fn run(id: &str, session: &str) -> Arc<ActiveRun> {
        let rules = QueueRules::of(&QueueSettings::default(), None, None);
        run_with(id, session, rules)
    }

    pub fn run_with(id: &str, session: &str, queue: QueueRules) -> Arc<ActiveRun> {
        let request = SendRequest {
            family: Family::Chat,
            key: SessionKey::parse(session, &KeyRules::default()),
            written_key: session.into(),
            idempotency_key: id.into(),
            message: UserMessage::text("hi", 0),
            media: None,
            thinking: None,
            owner: Owner::Connection("c".into()),
            dedupe_text: None,
            limit: None,
            terms: RunTerms::default(),
        };
        Arc::new(ActiveRun::new(request, queue, "m".into(), 0))
    }

    #[tokio::test]
    async fn the_first_reason_to_stop_wins() {
        let run = run("r", "main");
        run.abort(AbortReason::Timeout);
        run.abort(AbortReason::Rpc);
        assert_eq!(run.aborted().await, AbortReason::Timeout);
        run.set_ended(RunEnd::Aborted(AbortReason::Timeout));
        assert_eq!(run.ended().await, RunEnd::Aborted(AbortReason::Timeout));
    }
}
