//! One accepted message on its way to an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::providers::ThinkingLevel;
use crate::sessions::SessionKey;

use super::report::{Family, Progress};

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
}

impl AbortReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Stop => "stop",
            Self::Timeout => "timeout",
            Self::Shutdown => "shutdown",
        }
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
    /// When it was accepted, in milliseconds since the epoch.
    pub accepted_at: u64,
    /// Set once, when somebody stops it.
    abort_reason: Mutex<Option<AbortReason>>,
    /// Whether its message needs no more care: it is in the transcript.
    stored: AtomicBool,
    /// Whether its end is being told.
    over: AtomicBool,
    /// What it has done so far.
    progress: Mutex<Progress>,
    cancel: CancellationToken,
    end: watch::Sender<Option<RunEnd>>,
}

impl ActiveRun {
    /// A run that has just been accepted.
    #[allow(clippy::too_many_arguments)] // each is one fact of the request
    pub fn new(
        family: Family,
        id: Arc<str>,
        key: SessionKey,
        written_key: String,
        owner: Arc<Owner>,
        message: UserMessage,
        message_id: String,
        thinking: Option<ThinkingLevel>,
        accepted_at: u64,
    ) -> Self {
        Self {
            family,
            id,
            key,
            written_key,
            owner,
            message,
            message_id,
            thinking,
            accepted_at,
            abort_reason: Mutex::new(None),
            stored: AtomicBool::new(false),
            over: AtomicBool::new(false),
            progress: Mutex::default(),
            cancel: CancellationToken::new(),
            end: watch::Sender::new(None),
        }
    }

    /// Its message is in the transcript, or its sender keeps it.
    pub fn set_stored(&self) {
        self.stored.store(true, Ordering::Relaxed);
    }

    /// Whether its message needs no more care.
    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Relaxed)
    }

    /// Its end is about to be told.
    pub fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether its end has been told.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What it has done so far.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
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
    use crate::sessions::KeyRules;

    pub fn run(id: &str, session: &str) -> Arc<ActiveRun> {
        Arc::new(ActiveRun::new(
            Family::Chat,
            id.into(),
            SessionKey::parse(session, &KeyRules::default()),
            session.into(),
            Arc::new(Owner::Connection("c".into())),
            UserMessage::text("hi", 0),
            "m".into(),
            None,
            0,
        ))
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
