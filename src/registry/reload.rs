//! The way to the one who takes up the configuration while the gateway runs.
//!
//! Promises: whoever asks is answered after it is done; what is wrong with the
//! file is known to everybody. Must not: read or change anything itself.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::config::document::ConfigIssue;
use crate::support::Live;

/// Requests that wait: each is done within milliseconds, and a client has few
/// under way.
const WAITING: usize = 64;

/// How the configuration is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigState {
    /// What is wrong with the file as it is; what was good last goes on then.
    pub trouble: Option<ConfigIssue>,
}

impl ConfigState {
    /// What is wrong, for people.
    pub fn said(&self) -> Option<String> {
        let ConfigIssue { path, message } = self.trouble.as_ref()?;
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        Some(format!("{place}{message}; the config before it stays in use"))
    }
}

/// What the configuration was taken up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenUp {
    /// What waits for a restart.
    pub pending: Vec<String>,
    /// Whether that restart comes by itself.
    pub restarts: bool,
    /// Whether the one who asked is let in no more.
    pub is_over: bool,
}

/// What is wanted.
pub enum Ask {
    /// Whether a gateway would work with this text of the file.
    Check {
        /// The text.
        text: String,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<(), ConfigIssue>>,
    },
    /// To take the file up as it is.
    TakeUp {
        /// The connection that wants it, which is not closed by it.
        caller: Option<Arc<str>>,
        /// Also where the file is the same: something that it refers to is not.
        anew: bool,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<TakenUp, ConfigIssue>>,
    },
}

/// The way to it.
pub struct Reload {
    asks: mpsc::Sender<Ask>,
    /// How the configuration is.
    pub state: Live<ConfigState>,
}

impl Reload {
    /// The way, and its other end.
    pub fn new() -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(WAITING);
        (Self { asks, state: Live::default() }, asked)
    }

    /// Whether a gateway would work with this text of the config file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn check(&self, text: String) -> Result<(), ConfigIssue> {
        self.ask(|answer| Ask::Check { text, answer }).await
    }

    /// Takes the file up as it is now; `caller` is the connection that wants it,
    /// `anew` that something was changed that the file refers to.
    ///
    /// # Errors
    /// What is wrong with it; all stays as it was then.
    pub async fn take_up(
        &self,
        caller: Option<Arc<str>>,
        anew: bool,
    ) -> Result<TakenUp, ConfigIssue> {
        self.ask(|answer| Ask::TakeUp { caller, anew, answer }).await
    }

    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, ConfigIssue>>) -> Ask,
    ) -> Result<T, ConfigIssue> {
        let stopping = |()| ConfigIssue {
            path: String::new(),
            message: "the gateway stops; try again after its restart".into(),
        };
        let (sender, answer) = oneshot::channel();
        self.asks.send(ask(sender)).await.map_err(|_| stopping(()))?;
        answer.await.map_err(|_| stopping(()))?
    }
}
