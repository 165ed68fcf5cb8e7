//! A restart of the gateway that somebody has asked for.
//!
//! Promises: one that is pending is not asked for twice. Must not: restart
//! anything itself.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether a restart is wanted.
#[derive(Debug, Default)]
pub struct Restart {
    is_promised: AtomicBool,
    asked: watch::Sender<bool>,
}

impl Restart {
    /// Says that it will be asked for, by who has something to say before; answers
    /// whether that, or it, had been done before.
    pub fn promise(&self) -> bool {
        self.is_promised.swap(true, Ordering::Relaxed)
    }

    /// Asks for it.
    pub fn ask(&self) {
        self.promise();
        self.asked.send_replace(true);
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

    #[tokio::test]
    async fn who_asks_again_is_told_so_and_who_waits_hears_of_the_first() {
        let restart = Restart::default();
        let mut waiting = Box::pin(restart.asked());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(!restart.promise());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(restart.promise());
        restart.ask();
        waiting.await;
        restart.asked().await;
    }
}
