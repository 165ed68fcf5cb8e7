//! The last hour, in samples.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use super::histogram::Counts;
use crate::support::millis;

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
    /// Whether something has happened between the two.
    fn differs(&self, other: &Self) -> bool {
        let load = |reading: &Self| {
            (reading.connections, reading.active_runs, reading.waiting_runs, reading.events)
        };
        load(self) != load(other) || self.requests != other.requests
    }

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
    /// When the last reading was taken, by a clock that stands while the machine
    /// sleeps: there are no samples of such a time.
    last_at: Option<Instant>,
    /// Whether nobody reads until something happens.
    rests: bool,
}

impl State {
    fn put(&mut self, sample: Sample) {
        if self.samples.len() == CAPACITY {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Adds the samples of the time in which nothing happened.
    fn fill(&mut self, now: &Reading) {
        let Some(last_at) = self.last_at.filter(|_| self.rests) else { return };
        let missing = last_at.elapsed().as_millis() / EVERY.as_millis();
        // The last one is only taken when it ends before what happens now.
        let first = missing.saturating_sub(u128::try_from(CAPACITY).unwrap_or(u128::MAX));
        let step = millis(EVERY);
        self.last.ts += u64::try_from(first).unwrap_or(0) * step;
        for _ in first..missing {
            if self.last.ts + step >= now.ts {
                break;
            }
            let reading = Reading { ts: self.last.ts + step, ..self.last.clone() };
            self.put(reading.since(&self.last));
            self.last = reading;
        }
        self.last_at = Some(last_at + EVERY * u32::try_from(missing).unwrap_or(u32::MAX));
    }
}

/// Keeps samples.
#[derive(Debug, Default)]
pub struct History(Mutex<State>);

impl History {
    /// Samples count from here on.
    pub fn begin(&self, reading: Reading) {
        let mut state = self.0.lock();
        (state.last, state.last_at) = (reading, Some(Instant::now()));
    }

    /// Keeps a sample; the oldest one goes when there are too many. Whether
    /// something happens: if not, the next may be taken when something has.
    pub fn keep(&self, reading: Reading) -> bool {
        let mut state = self.0.lock();
        state.fill(&reading);
        let sample = reading.since(&state.last);
        let is_busy = state.last.differs(&reading) || sample.active_runs + sample.waiting_runs > 0;
        state.put(sample);
        (state.last, state.last_at) = (reading, Some(Instant::now()));
        state.rests = false;
        is_busy
    }

    /// Nothing is kept from now on, until something happens; the samples of that
    /// time are made when somebody wants them. Whether something has happened
    /// since the last one.
    pub fn rest(&self, now: &Reading) -> bool {
        let mut state = self.0.lock();
        state.rests = !state.last.differs(now);
        !state.rests
    }

    /// The samples after a time, oldest first, and how it is now.
    pub fn after(&self, since: u64, now: &Reading) -> (Vec<Sample>, Sample) {
        let mut state = self.0.lock();
        state.fill(now);
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

    #[tokio::test(start_paused = true)]
    async fn the_samples_of_a_rest_are_made_when_somebody_asks() {
        let history = History::default();
        let at =
            |ts: u64, events: u64| Reading { ts, events, connections: 2, ..Reading::default() };
        history.begin(at(0, 1));
        assert!(history.keep(at(10_000, 5)), "events came");
        assert!(!history.keep(at(20_000, 5)), "nothing came");
        assert!(!history.rest(&at(20_001, 5)));
        tokio::time::advance(EVERY * 3 + Duration::from_secs(4)).await;
        let (samples, now) = history.after(20_000, &at(54_000, 5));
        let shown: Vec<_> = samples.iter().map(|it| (it.ts, it.events, it.connections)).collect();
        assert_eq!(shown, [(30_000, 0, 2), (40_000, 0, 2), (50_000, 0, 2)]);
        assert_eq!(now.duration_ms, 4000);
        // What ends the rest is in the sample after it, and in none before.
        tokio::time::advance(EVERY).await;
        assert!(history.keep(at(64_000, 9)));
        let (samples, _) = history.after(50_000, &at(64_000, 9));
        let shown: Vec<_> = samples.iter().map(|it| (it.ts, it.events)).collect();
        assert_eq!(shown, [(60_000, 0), (64_000, 4)]);
        // A rest of days is an hour of samples.
        assert!(!history.keep(at(74_000, 9)));
        assert!(!history.rest(&at(74_000, 9)));
        tokio::time::advance(Duration::from_hours(48)).await;
        let (samples, _) = history.after(0, &at(74_000 + 48 * 3_600_000, 9));
        assert_eq!((samples.len(), samples[0].events), (CAPACITY, 0));
        assert_eq!(samples.last().unwrap().ts, 74_000 + 48 * 3_600_000 - 10_000);
    }

    #[test]
    fn who_goes_to_rest_learns_what_has_happened_meanwhile() {
        let history = History::default();
        history.begin(Reading::default());
        assert!(history.rest(&Reading { connections: 1, ..Reading::default() }));
        assert!(!history.rest(&Reading { rss_bytes: Some(7), ..Reading::default() }));
    }
}
