//! What can be asked of the session index.

use super::SessionEntry;

/// Which sessions to list. The default asks for all but `global` and `unknown`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// At most so many; `None` for all.
    pub limit: Option<u32>,
    /// Only the one with this key.
    pub key: Option<String>,
    /// Only those changed at or after this time (milliseconds).
    pub active_since_ms: Option<u64>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those whose key, session id, label, display name or derived title
    /// contains this text, in any case.
    pub search: Option<String>,
    /// Only the one with exactly this label.
    pub label: Option<String>,
    /// Only those that this session spawned.
    pub spawned_by: Option<String>,
    /// Not those of single runs of jobs: the job has a session that shows them.
    pub hides_job_runs: bool,
    /// Only those of single runs of jobs that did not change since this time
    /// (milliseconds).
    pub job_runs_until: Option<u64>,
    /// Also `global`.
    pub include_global: bool,
    /// Also `unknown`.
    pub include_unknown: bool,
}

/// A session with its key.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// Canonical key.
    pub key: String,
    /// What the index knows.
    pub entry: SessionEntry,
    /// Keys of the sessions that it spawned, the last changed first. Only
    /// lists fill this in.
    pub children: Vec<String>,
}

/// Answer to a [`SessionQuery`], the last changed first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionPage {
    /// At most `limit` rows.
    pub entries: Vec<SessionRow>,
    /// How many there are without the limit.
    pub total: u64,
}
