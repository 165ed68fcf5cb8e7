//! The order in which messages of a chat are taken.
//!
//! Promises: of two that are brought at a time the one that came first is taken first,
//! however long its files take; no chat waits for another.

use futures_util::FutureExt;
use tokio::sync::OwnedMutexGuard;
use tokio::task::unconstrained;

use crate::support::{BoxFuture, KeyedLocks};

/// The chats of which messages are being taken.
#[derive(Default)]
pub(super) struct Turns(KeyedLocks);

impl Turns {
    /// A place behind what came before it in a chat: it is there from now on, and its turn
    /// comes once that is taken. Who goes away meanwhile holds up nobody.
    pub fn take(&self, chat: String) -> BoxFuture<'static, OwnedMutexGuard<()>> {
        let lock = self.0.of(chat);
        // Only who has been looked at is in line: also by a task that has done enough for now.
        let mut turn: BoxFuture<'static, _> = Box::pin(unconstrained(lock.lock_owned()));
        match turn.as_mut().now_or_never() {
            Some(held) => Box::pin(std::future::ready(held)),
            None => turn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_chat_has_its_order_and_no_chat_waits_for_another() {
        let turns = Turns::default();
        let first = turns.take("a".into()).await;
        let (second, mut third) = (turns.take("a".into()), turns.take("a".into()));
        let fourth = turns.take("a".into());
        drop(turns.take("b".into()).await);
        drop(first);
        // Who came before it has not looked yet, and has its place.
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(second);
        drop(third.await);
        drop(fourth.await);
    }
}
