//! Medians and percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

/// Which server a number belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Ours.
    Gateway,
    /// The one to compare with.
    Bare,
}

/// All that was measured, one number for each round.
#[derive(Debug, Default)]
pub struct Samples {
    numbers: BTreeMap<(&'static str, Side), Vec<f64>>,
    /// How something went on over time.
    courses: BTreeMap<&'static str, Vec<(f64, f64)>>,
}

impl Samples {
    /// Adds the number of a round.
    pub fn add(&mut self, metric: &'static str, side: Side, value: f64) {
        self.numbers.entry((metric, side)).or_default().push(value);
    }

    /// Adds a point of something that goes on over time, or over a size.
    pub fn point(&mut self, metric: &'static str, at: f64, value: f64) {
        self.courses.entry(metric).or_default().push((at, value));
    }

    /// Its points so far.
    pub fn course(&self, metric: &'static str) -> &[(f64, f64)] {
        self.courses.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The median over all rounds.
    pub fn median(&self, metric: &'static str, side: Side) -> Option<f64> {
        percentile(self.all(metric, side), 50)
    }

    /// The numbers of all rounds.
    pub fn all(&self, metric: &'static str, side: Side) -> &[f64] {
        self.numbers.get(&(metric, side)).map_or(&[], Vec::as_slice)
    }
}

/// The smallest value that `percent` of all values do not exceed.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A count as a number to divide by.
pub fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
