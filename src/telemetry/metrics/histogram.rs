//! How long something took, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Steps within each doubling: a value is known to an eighth of itself.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 3;
/// The last doubling, in microseconds, ends at 71 minutes; what takes longer is
/// counted there. Runs of agents may take that long, hardly anything else does.
const LAST_DOUBLING: u32 = 31;
const BUCKETS: usize = ((LAST_DOUBLING - STEP_BITS + 2) as usize) << STEP_BITS;

/// Durations in buckets that grow with the value.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Has counted nothing.
    pub const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(place(us)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        if us > 0 {
            self.sum_us.fetch_add(us, Ordering::Relaxed);
        }
    }
}

/// The bucket of a duration in microseconds.
fn place(us: u64) -> usize {
    if us < STEPS {
        return usize::try_from(us).unwrap_or(0);
    }
    let doubling = us.ilog2();
    if doubling > LAST_DOUBLING {
        return BUCKETS - 1;
    }
    let step = (us >> (doubling - STEP_BITS)) & (STEPS - 1);
    let index = u64::from(doubling - STEP_BITS + 1) * STEPS + step;
    usize::try_from(index).unwrap_or(BUCKETS - 1)
}

/// The longest duration that a bucket counts, in microseconds.
fn most(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    if bucket < STEPS {
        return bucket;
    }
    let (doubling, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << doubling) - 1
}

/// What histograms have counted up to a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    buckets: Box<[u64]>,
    /// All durations together, in microseconds.
    pub sum_us: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), sum_us: 0 }
    }
}

impl Counts {
    /// What one histogram has counted.
    pub fn of(histogram: &Histogram) -> Self {
        let mut counts = Self::default();
        counts.add(histogram);
        counts
    }

    /// Adds what a histogram has counted.
    pub fn add(&mut self, histogram: &Histogram) {
        for (count, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *count += bucket.load(Ordering::Relaxed);
        }
        self.sum_us = self.sum_us.wrapping_add(histogram.sum_us.load(Ordering::Relaxed));
    }

    /// What was counted since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        Self { buckets, sum_us: self.sum_us.wrapping_sub(before.sum_us) }
    }

    /// How many durations were shorter than 2^`doubling` microseconds, for each of
    /// these doublings; they have to grow.
    pub fn below(&self, doublings: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, u64)> {
        let (mut buckets, mut seen) = (self.buckets.iter().enumerate().peekable(), 0);
        doublings.map(move |doubling| {
            while let Some((_, count)) =
                buckets.next_if(|(bucket, _)| most(*bucket) < 1 << doubling)
            {
                seen += count;
            }
            (doubling, seen)
        })
    }

    /// How many durations.
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The duration that so many of a hundred do not exceed, in microseconds and
    /// up to an eighth too long; `None` when nothing was counted.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.total() * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        for us in (0..5000).chain((0..63).map(|bit| 1 << bit)).chain([u64::MAX]) {
            let bucket = place(us);
            assert!(bucket < BUCKETS, "{us}");
            if us < 1 << (LAST_DOUBLING + 1) {
                assert!((us..=us + us / STEPS).contains(&most(bucket)), "{us}: {}", most(bucket));
            } else {
                assert_eq!(bucket, BUCKETS - 1);
            }
        }
        for us in 1..5000 {
            assert!([0, 1].contains(&(place(us) - place(us - 1))), "{us}");
        }
    }

    #[test]
    fn what_is_below_a_doubling_is_counted_exactly() {
        let histogram = Histogram::new();
        for us in [0, 1, 7, 8, 255, 256, 511, 512, u64::MAX] {
            histogram.note(Duration::from_micros(us));
        }
        let below: Vec<_> = Counts::of(&histogram).below([3, 8, 9, 10, 31].into_iter()).collect();
        assert_eq!(below, [(3, 3), (8, 5), (9, 7), (10, 8), (31, 8)]);
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted_since() {
        let histogram = Histogram::default();
        assert_eq!(Counts::of(&histogram).percentile(50), None);
        histogram.note(Duration::from_secs(30));
        let before = Counts::of(&histogram);
        for us in 1..=100 {
            histogram.note(Duration::from_micros(us));
        }
        let counts = Counts::of(&histogram).since(&before);
        assert_eq!((counts.total(), counts.sum_us), (100, 5050));
        let near = |percent: u64| counts.percentile(percent).unwrap();
        assert!((50..=56).contains(&near(50)) && (99..=111).contains(&near(99)), "{counts:?}");
        assert_eq!(Counts::of(&histogram).total(), 101);
    }
}
