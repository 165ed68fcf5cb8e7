//! A restart of the gateway that somebody has asked for.
//!
//! Promises: whoever asks is told whether, and how soon, it comes without that. Must not:
//! restart anything itself.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether a restart is wanted.
#[derive(Debug, Default)]
pub struct Restart {
    /// When the first asks who has said that it will, after what it has to say before.
    due: Mutex<Option<Instant>>,
    asked: watch::Sender<bool>,
}

/// What is known of a restart that will be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promised {
    /// Whether somebody had said so before.
    pub is_pending: bool,
    /// How long it is until the first who has said so asks.
    pub wait: Duration,
}

impl Restart {
    /// Says that it will be asked for after so long, by who has something to say before.
    pub fn promise(&self, delay: Duration) -> Promised {
        let (mut due, now) = (self.due.lock(), Instant::now());
        let own = now + delay;
        let first = due.map_or(own, |due| due.min(own));
        let is_pending = due.replace(first).is_some();
        Promised { is_pending, wait: first.saturating_duration_since(now) }
    }

    /// What has been promised.
    pub fn promised(&self) -> Option<Promised> {
        let wait = (*self.due.lock())?.saturating_duration_since(Instant::now());
        Some(Promised { is_pending: true, wait })
    }

    /// Asks for it.
    pub fn ask(&self) {
        self.promise(Duration::ZERO);
        self.asked.send_replace(true);
    }

    /// Takes it back, for all who have asked or said that they will.
    pub fn give_up(&self) {
        *self.due.lock() = None;
        self.asked.send_replace(false);
    }

    /// Waits until it is asked for.
    pub async fn asked(&self) {
        // The sender is this.
        let _ = self.asked.subscribe().wait_for(|is_asked| *is_asked).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_again_is_told_so_and_who_waits_hears_of_the_first() {
        let second = Duration::from_secs(1);
        let promised = |is_pending, wait| Promised { is_pending, wait };
        let restart = Restart::default();
        assert_eq!(restart.promised(), None);
        let mut waiting = Box::pin(restart.asked());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(restart.promise(9 * second), promised(false, 9 * second));
        assert_eq!(restart.promise(60 * second), promised(true, 9 * second));
        tokio::time::advance(second).await;
        assert_eq!(restart.promised(), Some(promised(true, 8 * second)));
        assert_eq!(restart.promise(60 * second), promised(true, 8 * second));
        assert_eq!(restart.promise(Duration::ZERO), promised(true, Duration::ZERO));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        restart.ask();
        waiting.await;
        restart.asked().await;
        restart.give_up();
        assert_eq!(restart.promised(), None);
        assert!(futures_util::poll!(Box::pin(restart.asked())).is_pending());
    }
}
