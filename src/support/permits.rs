//! A bound on how much goes on at a time, that can be set anew while it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Tasks;

/// So many at a time, in the order in which they came.
#[derive(Debug)]
pub struct Permits {
    places: Arc<Semaphore>,
    size: AtomicUsize,
}

impl Permits {
    /// So many, and at least one.
    pub fn new(size: usize) -> Self {
        let size = size.max(1);
        Self { places: Arc::new(Semaphore::new(size)), size: AtomicUsize::new(size) }
    }

    /// Waits for a place, which is given back when dropped.
    pub async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.places.acquire().await.ok()
    }

    /// So many from now on, and at least one. Nobody who has a place loses it:
    /// where there are fewer, those that are given back are not given out again.
    pub fn resize(&self, size: usize, tasks: &Tasks) {
        let size = size.max(1);
        let before = self.size.swap(size, Ordering::AcqRel);
        self.places.add_permits(size.saturating_sub(before));
        let less = before.saturating_sub(size);
        let owed = less.saturating_sub(self.places.forget_permits(less));
        if let Some(owed) = u32::try_from(owed).ok().filter(|owed| *owed > 0) {
            let places = Arc::clone(&self.places);
            tasks.spawn("fewer places", async move {
                if let Ok(owed) = places.acquire_many(owed).await {
                    owed.forget();
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bound_that_is_set_anew_holds_for_those_who_come_and_for_those_who_wait() {
        let (permits, tasks) = (Permits::new(3), Tasks::default());
        let held = [permits.acquire().await, permits.acquire().await];
        permits.resize(1, &tasks);
        tokio::task::yield_now().await;
        let mut waiting = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let [first, second] = held;
        drop(first);
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut waiting).is_pending(), "one has its place still");
        drop(second);
        let _held = waiting.await;
        let mut other = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut other).is_pending());
        permits.resize(2, &tasks);
        assert!(futures_util::poll!(&mut other).is_ready());
    }
}
