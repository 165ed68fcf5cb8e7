//! Which runs of sub-agents somebody takes care of.
//!
//! Promises: nobody does the same for one of them while that lasts. So what the last
//! process left is told from what this one begins by who cares, and not by a clock,
//! which may have been set back between them.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The runs that a task of this process takes to their ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Cared(Arc<Mutex<HashSet<String>>>);

impl Cared {
    /// Takes care of a run until the answer is dropped; `None` when somebody does already.
    pub(super) fn take(&self, run_id: &str) -> Option<Care> {
        let is_new = self.0.lock().insert(run_id.to_owned());
        is_new.then(|| Care { cared: self.clone(), run_id: run_id.to_owned() })
    }
}

/// The care for one run.
pub(super) struct Care {
    cared: Cared,
    run_id: String,
}

impl Drop for Care {
    fn drop(&mut self) {
        self.cared.0.lock().remove(&self.run_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cares_for_a_run_at_a_time() {
        let cared = Cared::default();
        let care = cared.take("a");
        assert!(care.is_some() && cared.take("a").is_none());
        assert!(cared.take("b").is_some());
        drop(care);
        assert!(cared.take("a").is_some());
        assert!(cared.0.lock().is_empty());
    }
}
