//! All numbers, medians and percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::metric::METRICS;

/// Which server a number belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Ours.
    Gateway,
    /// The program whose protocol this is.
    Original,
    /// What the libraries and the kernel cost.
    Bare,
}

impl Side {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Original, Self::Bare];

    /// How it is called in JSON and while it is measured.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Original => "original",
            Self::Bare => "bare",
        }
    }
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

    /// What `newer` has takes the place of what is here; the rest stays.
    pub fn replace_by(&mut self, newer: Self) {
        self.numbers.extend(newer.numbers);
        self.courses.extend(newer.courses);
    }

    /// Forgets the numbers that are not to be kept. How something went on is the gateway's.
    pub fn keep(&mut self, is_kept: impl Fn(&str, Side) -> bool) {
        self.numbers.retain(|(metric, side), _| is_kept(metric, *side));
        self.courses.retain(|metric, _| is_kept(metric, Side::Gateway));
    }

    /// One object for each line of the table: its numbers, and how they went on.
    pub fn to_json(&self) -> Value {
        let mut rows = Map::new();
        for metric in METRICS {
            let mut row = Map::new();
            for side in Side::ALL {
                let all = self.all(metric.id, side);
                if let Some(median) = percentile(all, 50) {
                    row.insert(side.name().into(), json!({"median": median, "all": all}));
                }
            }
            if !self.course(metric.id).is_empty() {
                row.insert("course".into(), json!(self.course(metric.id)));
            }
            if !row.is_empty() {
                row.insert("unit".into(), metric.unit.into());
                rows.insert(metric.id.into(), row.into());
            }
        }
        rows.into()
    }

    /// What [`Self::to_json`] told. Lines that there are no longer are left out.
    pub fn from_json(rows: &Value) -> Self {
        let mut samples = Self::default();
        for metric in METRICS {
            let row = &rows[metric.id];
            for side in Side::ALL {
                for value in row[side.name()]["all"].as_array().into_iter().flatten() {
                    samples.add(metric.id, side, value.as_f64().unwrap_or_default());
                }
            }
            for point in row["course"].as_array().into_iter().flatten() {
                let of = |index: usize| point[index].as_f64().unwrap_or_default();
                samples.point(metric.id, of(0), of(1));
            }
        }
        samples
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
