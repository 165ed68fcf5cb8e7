//! Changes of sessions that clients asked for, told after the answer.

use std::sync::Arc;

use crate::sessions::{SessionEntry, SessionKey};

use super::runs::Runs;

/// A change of a session; everybody who watches is told when this is dropped.
pub struct Change {
    /// Who knows whether something runs there.
    pub runs: Arc<Runs>,
    /// The session.
    pub key: SessionKey,
    /// What it is now; `None` when it is gone.
    pub entry: Option<SessionEntry>,
    /// What was done, as `reason` of `sessions.changed` names it.
    pub reason: String,
}

/// A session is gone; everybody who watches is told when this is dropped.
pub struct Deletion {
    /// Who tells it.
    pub runs: Arc<Runs>,
    /// The session.
    pub key: SessionKey,
    /// Its id.
    pub session_id: String,
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.runs.parts().events.deleted(&self.key, &self.session_id);
    }
}

/// A compaction of a session was tried; everybody who watches is told when this
/// is dropped.
pub struct CompactionChange {
    /// Who knows whether something runs there.
    pub runs: Arc<Runs>,
    /// The session.
    pub key: SessionKey,
    /// What it is now.
    pub entry: Option<SessionEntry>,
    /// Whether it is shorter now.
    pub compacted: bool,
}

impl Drop for CompactionChange {
    fn drop(&mut self) {
        let has_active_run = self.runs.active(&self.key).is_some();
        let events = &self.runs.parts().events;
        events.compacted(&self.key, self.entry.as_ref(), self.compacted, has_active_run);
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let has_active_run = self.runs.active(&self.key).is_some();
        let events = &self.runs.parts().events;
        events.reason(&self.key, self.entry.as_ref(), &self.reason, has_active_run);
    }
}
