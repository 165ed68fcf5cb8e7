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

    /// A place, when one is free that nobody waits for.
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// So many from now on, and at least one. Nobody who has a place loses it:
    /// where there are fewer, those that are given back are not given out again.
    pub fn resize(&self, size: usize, tasks: &Tasks) {
        let size = size.max(1);
        let before = self.size.swap(size, Ordering::AcqRel);
        self.places.add_permits(size.saturating_sub(before));
        take_away(&self.places, before.saturating_sub(size), tasks);
    }

    /// Does `work`, meanwhile lending to somebody else the place of whoever calls, who
    /// waits for it: without that, work that waits for a place itself would not end.
    /// `waits` counts for how much at a time the holder of the place does so; he has one
    /// place to lend.
    pub async fn lending<T>(
        &self,
        tasks: &Tasks,
        waits: &AtomicUsize,
        work: impl Future<Output = T>,
    ) -> T {
        if waits.fetch_add(1, Ordering::AcqRel) == 0 {
            self.places.add_permits(1);
        }
        let lent = Lent { places: &self.places, tasks, waits: Some(waits), is_owed: false };
        let done = work.await;
        lent.take_back().await;
        done
    }
}

/// A place that somebody else may use.
struct Lent<'a> {
    places: &'a Arc<Semaphore>,
    tasks: &'a Tasks,
    /// `None` once this wait is over.
    waits: Option<&'a AtomicUsize>,
    /// Whether the place is to be taken back.
    is_owed: bool,
}

impl Lent<'_> {
    /// The last wait to end takes the place back.
    fn end(&mut self) {
        if let Some(waits) = self.waits.take() {
            self.is_owed = waits.fetch_sub(1, Ordering::AcqRel) == 1;
        }
    }

    async fn take_back(mut self) {
        self.end();
        if self.is_owed
            && let Ok(place) = self.places.acquire().await
        {
            place.forget();
            self.is_owed = false;
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // Whoever lent it does not wait for it any more.
        self.end();
        if self.is_owed {
            take_away(self.places, 1, self.tasks);
        }
    }
}

/// Takes places away as they become free.
fn take_away(places: &Arc<Semaphore>, count: usize, tasks: &Tasks) {
    let owed = count.saturating_sub(places.forget_permits(count));
    if let Some(owed) = u32::try_from(owed).ok().filter(|owed| *owed > 0) {
        let places = Arc::clone(places);
        tasks.spawn("fewer places", async move {
            if let Ok(owed) = places.acquire_many(owed).await {
                owed.forget();
            }
        });
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

    #[tokio::test]
    async fn a_place_that_is_lent_comes_back_also_when_nobody_waits_for_it() {
        let (permits, tasks, waits) = (Permits::new(1), Tasks::default(), AtomicUsize::new(0));
        let _own = permits.acquire().await;
        let other = async { drop(permits.acquire().await) };
        permits.lending(&tasks, &waits, other).await;
        let mut third = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut third).is_pending(), "it is the caller's again");
        drop(third);

        let forever = std::future::pending::<()>();
        let mut given_up = Box::pin(permits.lending(&tasks, &waits, forever));
        assert!(futures_util::poll!(&mut given_up).is_pending());
        let held = permits.acquire().await;
        drop(given_up);
        tokio::task::yield_now().await;
        drop(held);
        tokio::task::yield_now().await;
        let mut fourth = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut fourth).is_pending(), "it was taken away");
    }

    #[tokio::test]
    async fn whoever_waits_for_more_than_one_thing_lends_one_place() {
        let (permits, tasks, waits) = (Permits::new(1), Tasks::default(), AtomicUsize::new(0));
        let _own = permits.acquire().await;
        let (first_ends, first) = tokio::sync::oneshot::channel::<()>();
        let (second_ends, second) = tokio::sync::oneshot::channel::<()>();
        let mut first = Box::pin(permits.lending(&tasks, &waits, first));
        let mut second = Box::pin(permits.lending(&tasks, &waits, second));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        let held = permits.acquire().await;
        let mut third = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut third).is_pending(), "one place was lent");
        first_ends.send(()).unwrap();
        assert!(futures_util::poll!(&mut first).is_ready(), "the place is still lent");
        second_ends.send(()).unwrap();
        assert!(futures_util::poll!(&mut second).is_pending(), "somebody has the place");
        drop(third);
        drop(held);
        assert!(futures_util::poll!(&mut second).is_ready());
        let mut fourth = Box::pin(permits.acquire());
        assert!(futures_util::poll!(&mut fourth).is_pending(), "it is the caller's again");
    }
}
