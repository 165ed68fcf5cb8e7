//! A restart of the gateway that somebody has asked for.
//!
//! Promises: one that is pending is not asked for twice. Must not: restart
//! anything itself.

use tokio::sync::watch;

/// Whether a restart is wanted.
#[derive(Debug, Default)]
pub struct Restart(watch::Sender<bool>);

impl Restart {
    /// Asks for it; answers whether it had been asked for before.
    pub fn ask(&self) -> bool {
        !self.0.send_if_modified(|is_asked| !std::mem::replace(is_asked, true))
    }

    /// Waits until it is asked for.
    pub async fn asked(&self) {
        // The sender is this.
        let _ = self.0.subscribe().wait_for(|is_asked| *is_asked).await;
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
        assert!(!restart.ask());
        assert!(restart.ask());
        waiting.await;
        restart.asked().await;
    }
}
