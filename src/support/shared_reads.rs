//! Equal reads at the same time are one.
//!
//! Owns: who reads what right now. Promises: who asks gets what was read after he
//! asked, so whoever has written before sees it; he shares a read that waits for its
//! turn, never one that has begun. Must not: keep what was read.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Reads that are under way, by what they are of.
pub struct SharedReads<K: Eq + Hash, V> {
    places: Mutex<HashMap<K, Place<V>>>,
}

/// Where one thing is read.
struct Place<V> {
    /// How many ask for it; with the last one it goes.
    askers: usize,
    reading: Arc<Reading<V>>,
}

struct Reading<V> {
    /// Held by whoever reads.
    turn: tokio::sync::Mutex<()>,
    /// The read that has not begun, shared by all who ask until it does.
    next: Mutex<Arc<OnceCell<V>>>,
}

impl<K: Eq + Hash, V> Default for SharedReads<K, V> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> SharedReads<K, V> {
    /// What `read` or an equal one answers that begins from now on. One that is under
    /// way is waited for; who goes away leaves his to the others.
    pub async fn get(&self, key: K, read: impl Future<Output = V>) -> V {
        let asking = Asking::begin(self, key);
        let reading = &*asking.reading;
        let mine = Arc::clone(&reading.next.lock());
        let value = mine.get_or_init(|| async {
            let _turn = reading.turn.lock().await;
            // Who asks from now on might miss here what he has written.
            *reading.next.lock() = Arc::default();
            read.await
        });
        value.await.clone()
    }
}

/// Somebody who asks.
struct Asking<'r, K: Eq + Hash, V> {
    reads: &'r SharedReads<K, V>,
    key: K,
    reading: Arc<Reading<V>>,
}

impl<'r, K: Eq + Hash + Clone, V> Asking<'r, K, V> {
    fn begin(reads: &'r SharedReads<K, V>, key: K) -> Self {
        let mut places = reads.places.lock();
        let place = places.entry(key.clone()).or_insert_with(|| Place {
            askers: 0,
            reading: Arc::new(Reading {
                turn: tokio::sync::Mutex::default(),
                next: Mutex::default(),
            }),
        });
        place.askers += 1;
        let reading = Arc::clone(&place.reading);
        Self { reads, key, reading }
    }
}

impl<K: Eq + Hash, V> Drop for Asking<'_, K, V> {
    fn drop(&mut self) {
        let mut places = self.reads.places.lock();
        let Some(place) = places.get_mut(&self.key) else { return };
        place.askers = place.askers.saturating_sub(1);
        if place.askers == 0 {
            places.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::support::Tasks;

    /// Reads a number that changes, when somebody lets them.
    struct Shelf {
        reads: SharedReads<&'static str, usize>,
        number: AtomicUsize,
        done: AtomicUsize,
        permits: Semaphore,
        tasks: Tasks,
    }

    impl Shelf {
        fn new() -> Arc<Self> {
            let (number, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (reads, permits) = (SharedReads::default(), Semaphore::new(0));
            Arc::new(Self { reads, number, done, permits, tasks: Tasks::default() })
        }

        fn asker(self: &Arc<Self>, key: &'static str) -> JoinHandle<Option<usize>> {
            self.tasks.spawn("ask", Arc::clone(self).ask(key))
        }

        async fn ask(self: Arc<Self>, key: &'static str) -> usize {
            let read = async {
                let number = self.number.load(Ordering::SeqCst);
                self.permits.acquire().await.unwrap().forget();
                self.done.fetch_add(1, Ordering::SeqCst);
                number
            };
            self.reads.get(key, read).await
        }

        fn done(&self) -> usize {
            self.done.load(Ordering::SeqCst)
        }

        fn is_empty(&self) -> bool {
            self.reads.places.lock().is_empty()
        }
    }

    async fn all_wait() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_hundred_who_ask_at_once_need_two_reads() {
        let shelf = Shelf::new();
        let askers: Vec<_> = (0..100).map(|_| shelf.asker("list")).collect();
        all_wait().await;
        shelf.permits.add_permits(100);
        for asker in askers {
            assert_eq!(asker.await.unwrap(), Some(0));
        }
        assert_eq!(shelf.done(), 2, "that of the first, and that of all who came while it went on");
        assert!(shelf.is_empty());
    }

    #[tokio::test]
    async fn who_asks_after_a_write_sees_it_whoever_reads_already() {
        let shelf = Shelf::new();
        let before = shelf.asker("list");
        all_wait().await;
        shelf.number.store(1, Ordering::SeqCst);
        let after = shelf.asker("list");
        all_wait().await;
        shelf.permits.add_permits(2);
        assert_eq!((before.await.unwrap(), after.await.unwrap()), (Some(0), Some(1)));
    }

    #[tokio::test]
    async fn who_goes_away_leaves_his_read_to_the_others() {
        let shelf = Shelf::new();
        let askers: Vec<_> = (0..3).map(|_| shelf.asker("list")).collect();
        all_wait().await;
        // The one who reads, and the first of those who wait.
        askers[0].abort();
        all_wait().await;
        askers[1].abort();
        all_wait().await;
        shelf.permits.add_permits(1);
        let mut askers = askers;
        assert_eq!(askers.pop().unwrap().await.unwrap(), Some(0));
        assert_eq!(shelf.done(), 1);
        assert!(shelf.is_empty());
    }

    #[tokio::test]
    async fn other_things_are_read_beside() {
        let shelf = Shelf::new();
        let one = shelf.asker("one");
        let other = shelf.asker("other");
        all_wait().await;
        assert_eq!(shelf.permits.available_permits(), 0);
        shelf.permits.add_permits(2);
        assert_eq!((one.await.unwrap(), other.await.unwrap()), (Some(0), Some(0)));
        assert_eq!(shelf.done(), 2);
    }
}
