//! A restart of the gateway that somebody has asked for.
//!
//! Promises: whoever asks is told whether, and how soon, it comes without that; who has
//! promised to ask does so for nothing that was withdrawn since; what was wanted for a change
//! alone is wanted no more when that is taken back. Must not: restart anything itself.

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
    /// Whether somebody wants it whatever the configuration says.
    is_wished: bool,
    /// How often it was withdrawn.
    round: u64,
}

/// Why it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Something in the configuration is in use only after it.
    Change,
    /// Somebody wants it in any case.
    Wish,
}

/// The time from one withdrawal to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round(u64);

/// What is put off to see whether it can be.
#[derive(Debug, Clone, Copy)]
pub struct Suspended {
    round: Round,
    is_wished: bool,
}

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
    pub fn promise(&self, delay: Duration, cause: Cause) -> Promised {
        let (mut due, now) = (self.due.lock(), Instant::now());
        let own = now + delay;
        let first = due.first.map_or(own, |first| first.min(own));
        let is_pending = due.first.replace(first).is_some();
        due.is_wished |= cause == Cause::Wish;
        let wait = first.saturating_duration_since(now);
        Promised { is_pending, wait, round: Round(due.round) }
    }

    /// What has been promised.
    pub fn promised(&self) -> Option<Promised> {
        let due = self.due.lock();
        let wait = due.first?.saturating_duration_since(Instant::now());
        Some(Promised { is_pending: true, wait, round: Round(due.round) })
    }

    /// Asks for it.
    pub fn ask(&self, cause: Cause) {
        let due = &mut self.due.lock();
        due.is_wished |= cause == Cause::Wish;
        self.ask_under(due);
    }

    /// Asks for it, unless it was withdrawn since `round`: what was wrong then was known to
    /// all who are told of it, and would be told to them again.
    pub fn ask_in(&self, round: Round) {
        let due = &mut self.due.lock();
        if Round(due.round) == round {
            self.ask_under(due);
        }
    }

    /// Asks for what was put off, as it can be; whether it is wanted still.
    pub fn resume(&self, suspended: Suspended) -> bool {
        let due = &mut self.due.lock();
        let is_wanted = suspended.is_wished || Round(due.round) == suspended.round;
        if is_wanted {
            due.is_wished |= suspended.is_wished;
            self.ask_under(due);
        }
        is_wanted
    }

    /// Under the lock: who withdraws it meanwhile has it asked for no more.
    fn ask_under(&self, due: &mut Due) {
        due.first = Some(Instant::now());
        self.asked.send_replace(true);
    }

    /// Puts it off, for all who have asked or said that they will, until it is known whether
    /// it can be. Who does not resume it has given it up.
    pub fn suspend(&self) -> Suspended {
        let due = &mut self.due.lock();
        let is_wished = due.is_wished;
        self.withdraw(due);
        Suspended { round: Round(due.round), is_wished }
    }

    /// Nothing in the configuration needs it any more: it does not come, unless somebody wants
    /// it in any case. Whether it was due.
    pub fn cancel_change(&self) -> bool {
        let due = &mut self.due.lock();
        let was_due = due.first.is_some() && !due.is_wished;
        if !due.is_wished {
            self.withdraw(due);
        }
        was_due
    }

    fn withdraw(&self, due: &mut Due) {
        *due = Due { round: due.round + 1, ..Due::default() };
        self.asked.send_replace(false);
    }

    /// Waits until it is asked for no more.
    pub async fn withdrawn(&self) {
        // The sender is this.
        let _ = self.asked.subscribe().wait_for(|is_asked| !*is_asked).await;
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
        assert_eq!(restart.promise(9 * second, Cause::Change), promised(false, 9 * second));
        assert_eq!(restart.promise(60 * second, Cause::Change), promised(true, 9 * second));
        tokio::time::advance(second).await;
        assert_eq!(restart.promised(), Some(promised(true, 8 * second)));
        assert_eq!(restart.promise(60 * second, Cause::Change), promised(true, 8 * second));
        assert_eq!(restart.promise(Duration::ZERO, Cause::Change), promised(true, Duration::ZERO));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        restart.ask(Cause::Change);
        waiting.await;
        restart.asked().await;
        restart.suspend();
        assert_eq!(restart.promised(), None);
        assert!(futures_util::poll!(Box::pin(restart.asked())).is_pending());
    }

    #[tokio::test]
    async fn who_would_have_asked_later_does_not_ask_for_what_was_withdrawn() {
        let restart = Restart::default();
        let before = restart.promise(Duration::from_secs(9), Cause::Wish);
        restart.suspend();
        restart.ask_in(before.round);
        assert_eq!(restart.promised(), None);
        assert!(futures_util::poll!(Box::pin(restart.asked())).is_pending());
        restart.ask_in(restart.promise(Duration::ZERO, Cause::Change).round);
        restart.asked().await;
    }

    #[tokio::test]
    async fn what_was_wanted_for_a_change_alone_is_wanted_no_more_once_that_is_taken_back() {
        let restart = Restart::default();
        assert!(!restart.cancel_change(), "nothing was due");
        restart.ask(Cause::Change);
        restart.asked().await;
        assert!(restart.cancel_change());
        restart.withdrawn().await;
        let later = restart.promise(Duration::from_secs(9), Cause::Change);
        assert!(restart.cancel_change());
        restart.ask_in(later.round);
        assert_eq!(restart.promised(), None);
        for is_wished in [true, false] {
            restart.ask(Cause::Change);
            if is_wished {
                restart.promise(Duration::from_secs(9), Cause::Wish);
                assert!(!restart.cancel_change());
                restart.asked().await;
            }
            let suspended = restart.suspend();
            assert!(!restart.cancel_change(), "while it is looked at nothing is due");
            assert_eq!(restart.resume(suspended), is_wished);
            assert_eq!(restart.promised().is_some(), is_wished);
            restart.suspend();
        }
        restart.ask(Cause::Change);
        assert!(restart.cancel_change(), "what others have wanted is over");
    }
}
