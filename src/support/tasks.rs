//! Supervised background tasks.
//!
//! Owns: every task the gateway starts. Promises: a panic in one is caught,
//! logged once with the task's name, and counted where `health` can see it.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::BoxFuture;

/// Handle to the supervisor; clones share it.
#[derive(Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    uncounted: TaskTracker,
    panics: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Tasks {
    /// Starts `future` as a task called `name`. The handle yields `None` when
    /// the task panicked.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        // Boxed, so that what the runtime does with a task is compiled once for
        // each `T` instead of once for each future.
        self.spawn_boxed(name, Box::pin(future), &self.tracker)
    }

    /// The same for what is no work of the gateway's own and may be there for long, such as a
    /// connection that waits for its next request: [`Self::len`] does not count it.
    pub fn spawn_uncounted<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        self.spawn_boxed(name, Box::pin(future), &self.uncounted)
    }

    /// The same for what is asked for its result: `None` when it panicked. What it has is boxed,
    /// so that what the runtime does with a task is compiled once for all of these.
    pub fn result_of<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send {
        let future = future.map(|found| -> Box<dyn Any + Send> { Box::new(found) });
        let task = self.spawn(name, future);
        async move { task.await.ok().flatten()?.downcast::<T>().ok().map(|found| *found) }
    }

    fn spawn_boxed<T: Send + 'static>(
        &self,
        name: &'static str,
        future: BoxFuture<'static, T>,
        tracker: &TaskTracker,
    ) -> JoinHandle<Option<T>> {
        let panics = Arc::clone(&self.panics);
        tracker.spawn(AssertUnwindSafe(future).catch_unwind().map(move |outcome| {
            if outcome.is_err() {
                *panics.lock().entry(name).or_default() += 1;
                super::stability::note("task.panicked", crate::support::json!({"source": name}));
                tracing::error!(task = name, "task panicked; the gateway goes on without it");
            }
            outcome.ok()
        }))
    }

    /// How often each task has panicked since the start, by task name.
    pub fn panics(&self) -> BTreeMap<&'static str, u64> {
        self.panics.lock().clone()
    }

    /// How many tasks are alive, of those that are counted.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether none of these is alive.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_task_is_counted_and_hurts_nobody() {
        let tasks = Tasks::default();
        let broken = tasks.spawn("broken", async { panic!("boom") });
        let healthy = tasks.spawn("healthy", async { 7 });
        assert_eq!(healthy.await.unwrap(), Some(7));
        assert!(broken.await.unwrap().is_none());
        assert_eq!(tasks.panics(), BTreeMap::from([("broken", 1)]));
    }

    #[tokio::test]
    async fn who_asks_for_the_result_of_a_task_gets_it_unless_it_panicked() {
        let tasks = Tasks::default();
        assert_eq!(tasks.result_of("healthy", async { 7 }).await, Some(7));
        assert!(tasks.result_of("broken", async { panic!("boom") }).await.is_none());
        assert_eq!(tasks.panics(), BTreeMap::from([("broken", 1)]));
    }

    #[tokio::test]
    async fn what_is_not_counted_is_caught_all_the_same() {
        let tasks = Tasks::default();
        let waits = tasks.spawn_uncounted("waits", std::future::pending::<()>());
        assert!(tasks.is_empty());
        assert!(tasks.spawn_uncounted("broken", async { panic!("boom") }).await.unwrap().is_none());
        assert_eq!(tasks.panics(), BTreeMap::from([("broken", 1)]));
        waits.abort();
    }
}
