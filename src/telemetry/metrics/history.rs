//! The last hour, in samples.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::histogram::Counts;

/// How often a sample is taken.
pub const EVERY: Duration = Duration::from_secs(10);
/// Samples that are kept: an hour, in less than 50 KiB.
pub const CAPACITY: usize = 360;

/// How the gateway is at a moment, with counters that only grow.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Milliseconds since the epoch.
    pub ts: u64,
    /// Open connections.
    pub connections: usize,
    /// Runs under way.
    pub active_runs: usize,
    /// Runs that wait for their turn.
    pub waiting_runs: usize,
    /// Events so far.
    pub events: u64,
    /// How long requests took so far.
    pub requests: Counts,
    /// Memory, in bytes, where the system says.
    pub rss_bytes: Option<u64>,
}

/// How the gateway was, and what happened since the sample before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When it was taken, in milliseconds since the epoch.
    pub ts: u64,
    /// For how long it counts.
    pub duration_ms: u64,
    /// Open connections.
    pub connections: usize,
    /// Runs under way.
    pub active_runs: usize,
    /// Runs that wait for their turn.
    pub waiting_runs: usize,
    /// Requests that were answered.
    pub requests: u64,
    /// Events that were published.
    pub events: u64,
    /// Half of the requests took at most so many microseconds; `None` without one.
    pub p50_us: Option<u64>,
    /// The same of 95 of a hundred.
    pub p95_us: Option<u64>,
    /// The same of 99 of a hundred.
    pub p99_us: Option<u64>,
    /// Memory, in bytes, where the system says.
    pub rss_bytes: Option<u64>,
}

impl Reading {
    fn since(&self, before: &Self) -> Sample {
        let requests = self.requests.since(&before.requests);
        Sample {
            ts: self.ts,
            duration_ms: self.ts.saturating_sub(before.ts),
            connections: self.connections,
            active_runs: self.active_runs,
            waiting_runs: self.waiting_runs,
            requests: requests.total(),
            events: self.events.saturating_sub(before.events),
            p50_us: requests.percentile(50),
            p95_us: requests.percentile(95),
            p99_us: requests.percentile(99),
            rss_bytes: self.rss_bytes,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    samples: VecDeque<Sample>,
    last: Reading,
}

/// Keeps samples.
#[derive(Debug, Default)]
pub struct History(Mutex<State>);

impl History {
    /// Samples count from here on.
    pub fn begin(&self, reading: Reading) {
        self.0.lock().last = reading;
    }

    /// Keeps a sample; the oldest one goes when there are too many.
    pub fn keep(&self, reading: Reading) {
        let mut state = self.0.lock();
        let sample = reading.since(&state.last);
        if state.samples.len() == CAPACITY {
            state.samples.pop_front();
        }
        state.samples.push_back(sample);
        state.last = reading;
    }

    /// The samples after a time, oldest first, and how it is now.
    pub fn after(&self, since: u64, now: &Reading) -> (Vec<Sample>, Sample) {
        let state = self.0.lock();
        let wanted = state.samples.iter().filter(|sample| sample.ts > since);
        (wanted.cloned().collect(), now.since(&state.last))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Histogram;
    use super::*;

    #[test]
    fn a_sample_has_what_happened_since_the_one_before_and_the_ring_is_bounded() {
        let (history, took) = (History::default(), Histogram::default());
        let reading = |ts: u64| Reading {
            ts,
            connections: 3,
            events: ts,
            requests: Counts::of(&took),
            ..Reading::default()
        };
        history.begin(reading(0));
        took.note(Duration::from_millis(2));
        let rest = u64::try_from(CAPACITY).unwrap() + 1;
        for ts in 1..=rest {
            history.keep(reading(ts));
        }
        took.note(Duration::from_micros(5));
        let (samples, now) = history.after(0, &reading(rest + 7));
        assert_eq!((samples.len(), samples[0].ts), (CAPACITY, 2));
        assert_eq!((samples[0].requests, samples[0].p50_us), (0, None));
        assert_eq!((now.duration_ms, now.events, now.connections), (7, 7, 3));
        assert_eq!((now.requests, now.p50_us, now.p99_us), (1, Some(5), Some(5)));
        let (samples, _) = history.after(rest - 2, &reading(rest));
        assert_eq!(samples.iter().map(|it| it.ts).collect::<Vec<_>>(), [rest - 1, rest]);
    }
}
