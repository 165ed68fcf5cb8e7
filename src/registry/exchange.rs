//! One request and its answers.
//!
//! Owns: the request's id, and what is held until the first answer is on its
//! way. Most requests are answered once, by what their handler returns. A
//! handler that answers twice queues the first answer with
//! [`Ctx::answer_first`](super::Ctx::answer_first) and returns the second.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;

type Guards = Vec<Box<dyn Any + Send>>;

/// One request that is being answered.
#[derive(Debug)]
pub struct Exchange {
    /// What the answers carry; `None` where only one answer can be given.
    pub id: Option<Arc<str>>,
    /// Dropped with the first answer; `None` from then on.
    held: Mutex<Option<Guards>>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self { id: None, held: Mutex::new(Some(Vec::new())) }
    }
}

impl Exchange {
    /// A request with this id.
    pub fn new(id: Arc<str>) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// Keeps `guard` until the first answer; drops it at once after that.
    pub fn hold(&self, guard: impl Any + Send) {
        if let Some(held) = self.held.lock().as_mut() {
            held.push(Box::new(guard));
        }
    }

    /// Keeps `guard` like [`hold`](Self::hold), and drops it before the others.
    pub fn hold_first(&self, guard: impl Any + Send) {
        if let Some(held) = self.held.lock().as_mut() {
            held.insert(0, Box::new(guard));
        }
    }

    /// An answer is on its way: what waited for that happens now.
    pub fn answered(&self) {
        // Dropped outside of the lock: a guard may do a lot in its drop.
        let held = self.held.lock().take();
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_goes_with_the_first_answer_and_what_comes_later_at_once() {
        let exchange = Exchange::new("1".into());
        let guard = Arc::new(());
        exchange.hold(Arc::clone(&guard));
        assert_eq!(Arc::strong_count(&guard), 2);
        exchange.answered();
        assert_eq!(Arc::strong_count(&guard), 1);
        exchange.hold(Arc::clone(&guard));
        exchange.answered();
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
