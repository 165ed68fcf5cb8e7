//! A restart of the gateway that somebody has asked for.
//!
//! Promises: whoever asks is told whether, and how soon, it comes without that; who has
//! promised to ask does so for nothing that was given up since. Must not: restart anything
//! itself.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether a restart is wanted.
#[derive(Debug, Default)]
pub struct Restart {
    due: Mutex<Due>,
    asked: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Due {
    /// When the first asks who has said that it will, after what it has to say before.
    first: Option<Instant>,
    /// How often it was given up.
    given_up: u64,
}

/// The time between two restarts that are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round(u64);

/// What is known of a restart that will be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promised {
    /// Whether somebody had said so before.
    pub is_pending: bool,
    /// How long it is until the first who has said so asks.
    pub wait: Duration,
    /// The round that this was said in.
    pub round: Round,
}

impl Restart {
    /// Says that it will be asked for after so long, by who has something to say before.
    pub fn promise(&self, delay: Duration) -> Promised {
        let (mut due, now) = (self.due.lock(), Instant::now());
        let own = now + delay;
        let first = due.first.map_or(own, |first| first.min(own));
        let is_pending = due.first.replace(first).is_some();
        let wait = first.saturating_duration_since(now);
        Promised { is_pending, wait, round: Round(due.given_up) }
    }

    /// What has been promised.
    pub fn promised(&self) -> Option<Promised> {
        let due = self.due.lock();
        let wait = due.first?.saturating_duration_since(Instant::now());
        Some(Promised { is_pending: true, wait, round: Round(due.given_up) })
    }

    /// Asks for it.
    pub fn ask(&self) {
        self.ask_if(|_| true);
    }

    /// Asks for it, unless it was given up since `round`: what was wrong then was known to
    /// all who are told of it, and would be told to them again.
    pub fn ask_in(&self, round: Round) {
        self.ask_if(|now| now == round);
    }

    fn ask_if(&self, is_wanted: impl FnOnce(Round) -> bool) {
        let mut due = self.due.lock();
        if is_wanted(Round(due.given_up)) {
            due.first = Some(Instant::now());
            // Under the lock: who gives it up meanwhile has it asked for no more.
            self.asked.send_replace(true);
        }
    }

    /// Takes it back, for all who have asked or said that they will.
    pub fn give_up(&self) {
        let mut due = self.due.lock();
        *due = Due { first: None, given_up: due.given_up + 1 };
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
        let promised = |is_pending, wait| Promised { is_pending, wait, round: Round(0) };
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

    #[tokio::test]
    async fn who_would_have_asked_later_does_not_ask_for_what_was_given_up() {
        let restart = Restart::default();
        let before = restart.promise(Duration::from_secs(9));
        restart.give_up();
        restart.ask_in(before.round);
        assert_eq!(restart.promised(), None);
        assert!(futures_util::poll!(Box::pin(restart.asked())).is_pending());
        restart.ask_in(restart.promise(Duration::ZERO).round);
        restart.asked().await;
    }
}
