//! Who waits for a run that is not there yet.
//!
//! Promises: a call reaches those who wait for that id and nobody else.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::sync::{Mutex, Notify};

/// Who waits, by run id.
#[derive(Debug, Default)]
pub struct Calls(Mutex<HashMap<String, Arc<Notify>>>);

impl Calls {
    /// Waits for calls of this id from now on, until the answer is dropped.
    pub fn listen(&self, run_id: &str) -> Listener<'_> {
        let bell = Arc::clone(self.0.lock().entry(run_id.to_owned()).or_default());
        Listener { calls: self, run_id: run_id.to_owned(), bell }
    }

    /// Something has become of the run with this id.
    pub fn call(&self, run_id: &str) {
        // Under the lock, so that the counts in `Listener::drop` are right.
        if let Some(bell) = self.0.lock().get(run_id) {
            bell.notify_waiters();
        }
    }
}

/// One who waits.
pub struct Listener<'a> {
    calls: &'a Calls,
    run_id: String,
    /// Rings for everybody who waits for this id.
    pub bell: Arc<Notify>,
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut waiting = self.calls.0.lock();
        // The map holds one, this holds one: nobody else is left.
        if Arc::strong_count(&self.bell) <= 2 {
            waiting.remove(&self.run_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_wakes_those_who_wait_for_the_id_and_is_forgotten_with_them() {
        let calls = Calls::default();
        let (one, same, other) = (calls.listen("a"), calls.listen("a"), calls.listen("b"));
        let mut wakes = [&one, &same, &other].map(|listener| {
            let bell = Arc::clone(&listener.bell);
            Box::pin(async move { bell.notified().await })
        });
        for wake in &mut wakes {
            assert!(futures_util::poll!(wake).is_pending());
        }
        calls.call("a");
        calls.call("c");
        assert!(futures_util::poll!(&mut wakes[0]).is_ready());
        assert!(futures_util::poll!(&mut wakes[1]).is_ready());
        assert!(futures_util::poll!(&mut wakes[2]).is_pending());
        drop(wakes);
        drop(one);
        assert_eq!(calls.0.lock().len(), 2);
        drop((same, other));
        assert!(calls.0.lock().is_empty());
    }
}
