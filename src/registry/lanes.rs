//! Order among requests that concern the same thing.

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::support::KeyedLocks;
use crate::telemetry::metrics::NUMBERS;

/// Keyed locks that are handed out in the order of asking, so that two
/// messages to one session keep their order though requests run concurrently.
#[derive(Debug, Default)]
pub struct Lanes(KeyedLocks);

impl Lanes {
    /// Waits for the turn in lane `key`.
    pub async fn enter(&self, key: String) -> OwnedMutexGuard<()> {
        let lock = self.0.of(key);
        let asked = Instant::now();
        let turn = lock.lock_owned().await;
        NUMBERS.request_lane.note(asked.elapsed());
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn one_lane_is_entered_in_order_and_others_do_not_wait() {
        let lanes = Arc::new(Lanes::default());
        let first = lanes.enter("a".into()).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for index in 0..3 {
            let (lanes, order) = (Arc::clone(&lanes), Arc::clone(&order));
            let mut enter = Box::pin(async move {
                let _turn = lanes.enter("a".into()).await;
                order.lock().push(index);
            });
            assert!(futures_util::poll!(&mut enter).is_pending());
            waiting.push(enter);
        }
        drop(lanes.enter("b".into()).await);
        drop(first);
        for enter in waiting {
            enter.await;
        }
        assert_eq!(*order.lock(), [0, 1, 2]);
    }
}
