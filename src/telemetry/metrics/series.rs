//! Numbers by labels whose values are not known beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// Most values of labels that one family has. A configuration has a few dozen
/// models, and the table of routes some dozen lines.
const MAX: usize = 500;

/// Numbers by labels; what is over the bound is counted under one name.
#[derive(Debug)]
pub struct Series<K, V>(RwLock<BTreeMap<K, Arc<V>>>);

impl<K: Ord, V> Default for Series<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> Series<K, V> {
    /// None yet.
    pub const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }
}

impl<K: Ord + Clone, V: Default> Series<K, V> {
    /// Those of `key`, or of `rest` when there are too many.
    pub fn get(&self, key: K, rest: impl FnOnce() -> K) -> Arc<V> {
        if let Some(found) = self.0.read().get(&key) {
            return Arc::clone(found);
        }
        let mut all = self.0.write();
        let key = if all.len() < MAX || all.contains_key(&key) { key } else { rest() };
        Arc::clone(all.entry(key).or_default())
    }

    /// All of them.
    pub fn all(&self) -> Vec<(K, Arc<V>)> {
        self.0.read().iter().map(|(key, value)| (key.clone(), Arc::clone(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Counter;

    #[test]
    fn what_is_over_the_bound_is_counted_together() {
        let series: Series<u64, Counter> = Series::new();
        for key in 0..2000 {
            series.get(key + 1, || 0).count();
        }
        series.get(7, || 0).count();
        let all = series.all();
        assert_eq!(all.len(), MAX + 1);
        let sum: u64 = all.iter().map(|(_, count)| count.get()).sum();
        assert_eq!((sum, series.get(7, || 0).get()), (2001, 2));
    }
}
