//! The way to the one who takes up the configuration while the gateway runs.
//!
//! Promises: whoever asks is answered after it is done; what is wrong with the
//! file is known to everybody; who writes it is left to ask himself. Must not: read or
//! change anything itself.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::config::document::ConfigIssue;
use crate::support::Live;

/// Requests that wait: each is done within milliseconds, or as soon as the providers of
/// secrets have answered, and a client has few under way.
const WAITING: usize = 64;

/// The gateway stops, and nobody takes anything up.
struct Stopping;

impl From<Stopping> for ConfigIssue {
    fn from(_: Stopping) -> Self {
        let message = "the gateway stops; try again after its restart".to_owned();
        Self { path: String::new(), message }
    }
}

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

/// What came of looking secrets up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// How many cannot be had that the gateway goes on without.
    pub lost: usize,
    /// What the configuration was taken up to, where something of it uses another one now.
    pub taken: TakenUp,
}

/// Why secrets that were looked up again are not in use everywhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    /// All stay as they are.
    #[error("a secret that the gateway needs cannot be had; its log says which")]
    Lost,
    /// The configuration that uses them is not taken up.
    #[error("{}", .0.message)]
    NotTakenUp(ConfigIssue),
}

impl From<ConfigIssue> for RenewError {
    fn from(issue: ConfigIssue) -> Self {
        Self::NotTakenUp(issue)
    }
}

impl From<Stopping> for RenewError {
    fn from(stopping: Stopping) -> Self {
        Self::NotTakenUp(stopping.into())
    }
}

/// Why there is no restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRestart {
    /// What is wrong.
    pub issue: ConfigIssue,
    /// Whether that is only that the gateway stops already.
    pub is_of_stop: bool,
}

impl From<ConfigIssue> for NoRestart {
    fn from(issue: ConfigIssue) -> Self {
        Self { issue, is_of_stop: false }
    }
}

impl From<Stopping> for NoRestart {
    fn from(stopping: Stopping) -> Self {
        Self { issue: stopping.into(), is_of_stop: true }
    }
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
        caller: Arc<str>,
        /// Also where the file is the same: something that it refers to is not.
        anew: bool,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<TakenUp, ConfigIssue>>,
    },
    /// To look all secrets up again that the configuration refers to.
    RenewSecrets {
        /// The connection that wants it, which is not closed by it.
        caller: Arc<str>,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<Renewed, RenewError>>,
    },
    /// Whether a gateway begins with the files as they are.
    Begins {
        /// Where the answer goes.
        answer: oneshot::Sender<Result<(), NoRestart>>,
    },
    /// To tell why a restart was given up, until it would not be any more.
    GivenUp(ConfigIssue),
}

/// Somebody writes the file, and will ask to have it taken up. Until this is dropped it is
/// not taken up for nobody: who has written it would be closed, or the gateway restarted,
/// before he is answered.
#[derive(Debug)]
pub struct Writing(watch::Sender<usize>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.send_modify(|writers| *writers -= 1);
    }
}

/// The way to it.
pub struct Reload {
    asks: mpsc::Sender<Ask>,
    /// How many write the file.
    writers: watch::Sender<usize>,
    /// How the configuration is.
    pub state: Live<ConfigState>,
}

impl Reload {
    /// The way, and its other end.
    pub fn new() -> (Self, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(WAITING);
        (Self { asks, writers: watch::Sender::default(), state: Live::default() }, asked)
    }

    /// Says that the caller is about to write the file.
    pub fn writing(&self) -> Writing {
        self.writers.send_modify(|writers| *writers += 1);
        Writing(self.writers.clone())
    }

    /// Waits until nobody writes the file.
    pub async fn written(&self) {
        // The sender is this.
        let _ = self.writers.subscribe().wait_for(|writers| *writers == 0).await;
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
    pub async fn take_up(&self, caller: Arc<str>, anew: bool) -> Result<TakenUp, ConfigIssue> {
        self.ask(|answer| Ask::TakeUp { caller, anew, answer }).await
    }

    /// Looks all secrets up again that the configuration refers to, and has them used.
    /// `caller` is the connection that wants it.
    ///
    /// # Errors
    /// Why they are not in use everywhere.
    pub async fn renew_secrets(&self, caller: Arc<str>) -> Result<Renewed, RenewError> {
        self.ask(|answer| Ask::RenewSecrets { caller, answer }).await
    }

    /// Whether a gateway begins with the files as they are now.
    ///
    /// # Errors
    /// What is wrong with them, or with what they refer to.
    pub async fn begins(&self) -> Result<(), NoRestart> {
        self.ask(|answer| Ask::Begins { answer }).await
    }

    /// Has told why a restart was given up.
    pub async fn give_up(&self, issue: ConfigIssue) {
        // Who tells it is there as long as the gateway is.
        let _ = self.asks.send(Ask::GivenUp(issue)).await;
    }

    async fn ask<T, E: From<Stopping>>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, E>>) -> Ask,
    ) -> Result<T, E> {
        let (sender, answer) = oneshot::channel();
        self.asks.send(ask(sender)).await.map_err(|_| Stopping)?;
        answer.await.map_err(|_| Stopping)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asks_when_the_gateway_stops_is_told_so() {
        let (reload, asks) = Reload::new();
        drop(asks);
        let refused = reload.begins().await.unwrap_err();
        assert!(refused.is_of_stop, "{refused:?}");
        // What is wrong otherwise is no stop, whatever it is called.
        assert!(!NoRestart::from(refused.issue.clone()).is_of_stop);
        assert_eq!(reload.check(String::new()).await, Err(refused.issue));
    }

    #[tokio::test]
    async fn who_writes_is_waited_for_until_the_last_one_is_done() {
        let (reload, _asks) = Reload::new();
        reload.written().await;
        let (first, second) = (reload.writing(), reload.writing());
        let mut waiting = Box::pin(reload.written());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(second);
        waiting.await;
    }
}
