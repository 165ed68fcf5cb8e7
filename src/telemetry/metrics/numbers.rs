//! What is counted, in one place.
//!
//! Owns: the counters of this process. Promises: counting is one or two relaxed
//! atomics; but for what is rare (a login, a call of a model, a request by HTTP),
//! which looks up its place under a lock that hardly anybody takes for writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::Histogram;
use super::series::Series;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Nothing so far.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    pub fn count(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counters for the values of a label.
#[derive(Debug)]
pub struct Split<const N: usize> {
    words: [&'static str; N],
    counters: [Counter; N],
}

impl<const N: usize> Split<N> {
    const fn new(words: [&'static str; N]) -> Self {
        Self { words, counters: [const { Counter::new() }; N] }
    }

    /// One more of this value, if it is one.
    pub fn count(&self, word: &str) {
        self.add(word, 1);
    }

    /// So many more of this value, if it is one.
    pub fn add(&self, word: &str, more: u64) {
        let mut pairs = self.words.iter().zip(&self.counters);
        if let Some((_, counter)) = pairs.find(|(own, _)| **own == word) {
            counter.add(more);
        }
    }

    /// How many of each so far.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.words.iter().zip(&self.counters).map(|(word, counter)| (*word, counter.get()))
    }
}

/// What is known of the calls of one model.
#[derive(Debug)]
pub struct ModelNumbers {
    /// How they ended.
    pub calls: Split<3>,
    /// Until the first piece of an answer.
    pub first: Histogram,
    /// Until the end.
    pub whole: Histogram,
    /// What was spent.
    pub tokens: Split<4>,
}

impl Default for ModelNumbers {
    fn default() -> Self {
        Self {
            calls: Split::new(["ok", "error", "aborted"]),
            first: Histogram::new(),
            whole: Histogram::new(),
            tokens: Split::new(["input", "output", "cache_read", "cache_write"]),
        }
    }
}

/// The counters of this process.
#[derive(Debug)]
pub struct Numbers {
    /// Open connections by role and dialect.
    connections: Series<(&'static str, &'static str), Counter>,
    /// How logins ended.
    pub handshakes: Split<6>,
    /// Deltas that gave way.
    pub coalesced: Counter,
    /// Connections that did not read.
    pub slow: Counter,
    /// Requests for methods that there are not.
    pub unknown_methods: Counter,
    /// What requests waited for their lane.
    pub request_lane: Histogram,
    /// Requests by route and status.
    pub http: Series<(&'static str, u16), Counter>,
    /// How long those of a route took.
    pub http_times: Series<&'static str, Histogram>,
    /// How long runs took.
    pub runs: Histogram,
    /// What runs waited for their lane.
    pub run_lane: Histogram,
    /// Calls of tools.
    pub tools: Split<2>,
    /// Calls of models, by provider and model.
    pub models: Series<(String, String), ModelNumbers>,
    /// Calls of models that were made again.
    pub retries: Counter,
    /// How late jobs began.
    pub cron_late: Histogram,
    /// How runs of jobs ended.
    pub cron: Split<3>,
    /// How long commits took.
    pub commits: Histogram,
    /// Writes in them.
    pub writes: Counter,
    /// Commits that failed.
    pub commit_failures: Counter,
    /// How long transcripts took to be synced.
    pub syncs: Histogram,
    /// Tries to send something to a chat service.
    pub sends: Split<4>,
    /// What became of spans.
    pub spans: Split<3>,
}

/// The numbers of this process, which is one gateway.
pub static NUMBERS: Numbers = Numbers {
    connections: Series::new(),
    handshakes: Split::new(["ok", "refused", "not_paired", "invalid", "timeout", "gone"]),
    coalesced: Counter::new(),
    slow: Counter::new(),
    unknown_methods: Counter::new(),
    request_lane: Histogram::new(),
    http: Series::new(),
    http_times: Series::new(),
    runs: Histogram::new(),
    run_lane: Histogram::new(),
    tools: Split::new(["ok", "error"]),
    models: Series::new(),
    retries: Counter::new(),
    cron_late: Histogram::new(),
    cron: Split::new(["ok", "error", "skipped"]),
    commits: Histogram::new(),
    writes: Counter::new(),
    commit_failures: Counter::new(),
    syncs: Histogram::new(),
    sends: Split::new(["sent", "retried", "failed", "uncertain"]),
    spans: Split::new(["exported", "dropped", "failed"]),
};

/// One open connection, counted while this lives.
#[derive(Debug)]
pub struct OpenConnection(Arc<Counter>);

impl OpenConnection {
    /// One of this role that speaks so.
    pub fn new(role: &'static str, dialect: &'static str) -> Self {
        let counter = NUMBERS.connections.get((role, dialect), || ("other", "other"));
        counter.count();
        Self(counter)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.less();
    }
}

impl Numbers {
    /// Open connections by role and dialect.
    pub fn connections(&self) -> Vec<((&'static str, &'static str), Arc<Counter>)> {
        self.connections.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_while_it_is_open() {
        let open = || {
            let all = NUMBERS.connections();
            all.iter().find(|(key, _)| key.1 == "of this test").map(|(_, count)| count.get())
        };
        let first = OpenConnection::new("node", "of this test");
        let second = OpenConnection::new("node", "of this test");
        assert_eq!(open(), Some(2));
        drop(first);
        assert_eq!(open(), Some(1));
        drop(second);
        assert_eq!(open(), Some(0));
    }

    #[test]
    fn a_value_that_a_label_has_not_is_not_counted() {
        let split = Split::new(["a", "b"]);
        split.count("a");
        split.add("b", 3);
        split.count("what somebody wrote");
        assert_eq!(split.all().collect::<Vec<_>>(), [("a", 1), ("b", 3)]);
    }
}
