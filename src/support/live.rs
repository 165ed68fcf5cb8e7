//! A value that everybody reads and one place replaces.
//!
//! Promises: who reads gets one whole value, never parts of two; reading takes
//! no lock.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

/// The current value; clones share it. Whoever needs it to stay the same for a
/// while keeps what [`Live::now`] answered.
pub struct Live<T>(Arc<ArcSwap<T>>);

impl<T> Live<T> {
    /// Begins with this value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// The value as it is now.
    pub fn now(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces it by one that is shared already.
    pub fn replace(&self, value: Arc<T>) {
        self.0.store(value);
    }

    /// Replaces it by what `change` makes of it, which is asked again when another one is
    /// there meanwhile.
    pub fn change(&self, mut change: impl FnMut(&T) -> T) {
        self.0.rcu(|value| change(value.as_ref()));
    }

    /// Replaces it, for all who read it from now on.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Live<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_what_is_set_and_who_keeps_a_value_keeps_that_one() {
        let live = Live::new(1);
        let (other, kept) = (live.clone(), live.now());
        live.set(2);
        assert_eq!((*other.now(), *kept), (2, 1));
        live.change(|value| value + 1);
        assert_eq!(*other.now(), 3);
    }
}
