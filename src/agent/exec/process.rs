//! One command that runs, or has run.
//!
//! Owns: what is known of it. Promises: whoever waits for news of it misses
//! none; when the one that waits for a foreground command gives up, it is ended.
//! Must not: start anything.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::output::Output;
use crate::sessions::SessionKey;

/// Why a command has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// By itself.
    Exit,
    /// It took too long.
    Timeout,
    /// Somebody had it ended.
    Killed,
    /// It never began.
    Failed(String),
    /// How is not known: its keeper was killed.
    Lost,
}

/// How a command has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub cause: Cause,
    /// What it returned.
    pub code: Option<i32>,
    /// What killed it.
    pub signal: Option<i32>,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

impl Ending {
    /// Whether it came to an end of its own.
    pub fn is_completed(&self) -> bool {
        self.cause == Cause::Exit && self.signal.is_none()
    }
}

/// What changes while a command runs.
#[derive(Default)]
pub struct State {
    /// Its process id.
    pub pid: Option<u32>,
    /// What it has said.
    pub output: Output,
    /// Where all of that is, when memory does not hold it.
    pub full_output: Option<PathBuf>,
    /// How it has ended.
    pub ending: Option<Ending>,
    /// Whether something that it started still runs after its end.
    pub leaves_behind: bool,
    /// Whether nothing that came from it is left.
    pub is_gone: bool,
    /// Whether nobody waits for it: it is on the list until it is cleared.
    pub is_background: bool,
    /// When it last said something, in milliseconds since the epoch.
    pub last_output_at: u64,
}

/// One command.
pub struct Process {
    /// Two words.
    pub id: String,
    /// The command as it was written.
    pub command: String,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Whose it is.
    pub session: SessionKey,
    /// When it began, in milliseconds since the epoch.
    pub started_at: u64,
    /// Where input for its terminal goes, when it has one.
    inputs: Option<mpsc::Sender<Vec<u8>>>,
    pub(super) end: CancellationToken,
    /// Whether the stop of the gateway has it ended.
    ends_with_gateway: AtomicBool,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl Process {
    pub(super) fn new(
        id: String,
        command: String,
        cwd: PathBuf,
        session: SessionKey,
        started_at: u64,
        inputs: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Self {
        let state = State { last_output_at: started_at, ..State::default() };
        let (end, changes) = (CancellationToken::new(), watch::Sender::new(0));
        let state = Mutex::new(state);
        let ends_with_gateway = AtomicBool::new(false);
        Self {
            id,
            command,
            cwd,
            session,
            started_at,
            inputs,
            end,
            ends_with_gateway,
            state,
            changes,
        }
    }

    /// One that has ended with the process of the gateway before this one.
    pub fn lost(
        id: String,
        command: String,
        cwd: PathBuf,
        session: SessionKey,
        started_at: u64,
        at: u64,
    ) -> Self {
        let lost = Self::new(id, command, cwd, session, started_at, None);
        lost.change(|state| {
            state.ending = Some(Ending { cause: Cause::Lost, code: None, signal: None, at });
            (state.is_gone, state.is_background) = (true, true);
        });
        lost
    }

    /// Reads what is known. What `read` does must be quick.
    pub fn look<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock())
    }

    /// Takes what it has said since the last time; whether some of it is gone.
    pub fn take_unread(&self) -> (String, bool) {
        self.state.lock().output.take_unread()
    }

    /// From now on nobody waits for it. One that is gone already or was told to end nobody
    /// could find again, so that its end is waited for here.
    pub async fn put_to_background(&self) -> Option<Ending> {
        let is_background = {
            let mut state = self.state.lock();
            state.is_background |= !state.is_gone && !self.end.is_cancelled();
            state.is_background
        };
        if is_background { None } else { Some(self.ended().await) }
    }

    /// Has it ended, with all that came from it.
    pub fn end(&self) {
        self.end.cancel();
    }

    /// The same as the gateway stops, unless somebody has had it ended before.
    pub(super) fn end_with_gateway(&self) {
        self.ends_with_gateway.fetch_or(!self.end.is_cancelled(), Ordering::Relaxed);
        self.end();
    }

    /// Whether it was the stop of the gateway that had it ended, if anybody had.
    pub fn ends_with_gateway(&self) -> bool {
        self.ends_with_gateway.load(Ordering::Relaxed)
    }

    /// Has it ended where nobody asks for it any more; whether it is gone already.
    pub(super) fn abandon(&self) -> bool {
        self.end();
        let mut state = self.state.lock();
        state.is_background = false;
        state.is_gone
    }

    /// Whether it is only on the list because it is not gone yet.
    pub(super) fn is_abandoned(&self) -> bool {
        self.end.is_cancelled() && !self.look(|state| state.is_background)
    }

    /// Writes to its terminal, at most [`MAX_INPUT`] bytes; whether there is one.
    ///
    /// [`MAX_INPUT`]: super::launcher::MAX_INPUT
    pub async fn write(&self, bytes: Vec<u8>) -> bool {
        match &self.inputs {
            Some(inputs) if self.is_writable() => inputs.send(bytes).await.is_ok(),
            _ => false,
        }
    }

    /// Whether there is somebody to write to.
    pub fn is_writable(&self) -> bool {
        self.inputs.is_some() && self.look(|state| state.ending.is_none())
    }

    /// News of it; each change is seen once, several may be seen as one.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> Ending {
        let mut news = self.follow();
        loop {
            if let Some(ending) = self.look(|state| state.ending.clone()) {
                return ending;
            }
            // The sender lives as long as this does.
            let _ = news.changed().await;
        }
    }

    /// Waits until nothing that came from it is left.
    pub async fn gone(&self) {
        let mut news = self.follow();
        while !self.look(|state| state.is_gone) {
            // The sender lives as long as this does.
            let _ = news.changed().await;
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A command that somebody waits for. When this goes, it is ended, unless it
/// was put to the background.
pub struct Foreground(pub Arc<Process>);

impl Drop for Foreground {
    fn drop(&mut self) {
        if !self.0.look(|state| state.is_background) {
            self.0.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_was_told_to_end_is_waited_for_and_does_not_go_on() {
        let key = SessionKey::from_canonical("agent:main:main");
        let process = Process::new("calm-reef".into(), "x".into(), "/".into(), key, 0, None);
        process.end();
        let mut end = Box::pin(process.put_to_background());
        assert!(futures_util::poll!(&mut end).is_pending(), "it has not ended yet");
        let ending = Ending { cause: Cause::Killed, code: None, signal: Some(9), at: 1 };
        process.change(|state| state.ending = Some(ending.clone()));
        assert_eq!(end.await, Some(ending));
        assert!(!process.look(|state| state.is_background));
    }
}
