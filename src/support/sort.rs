//! Sorting, where it is no hot path.
//!
//! Promises: the order is that of `slice::sort_by`, equal items stay in the order that they
//! came in; sorting itself is compiled once, where the standard library's is compiled anew,
//! in four kilobytes, for each kind of item and each comparison.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Sorts by a comparison.
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let places = places(items.len(), &|a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    arrange(places, &mut |a, b| items.swap(a, b));
}

/// Sorts by what `key` gives for an item.
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts by the items' own order.
pub fn plain<T: Ord>(items: &mut [T]) {
    by(items, T::cmp);
}

/// A map of `entries`; of two with one key the later stays. The standard library's `collect`
/// sorts them first.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        map.insert(key, value);
    }
    map
}

/// Where each of `len` items belongs.
fn places(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    let mut places = vec![0; len];
    for (place, item) in order.into_iter().enumerate() {
        places[item] = place;
    }
    places
}

/// Brings each item to its place, by one `swap` for each at most.
fn arrange(mut places: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for at in 0..places.len() {
        while places[at] != at {
            let to = places[at];
            swap(at, to);
            places.swap(at, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_are_where_the_standard_library_has_them(items: Vec<(u8, u16)>) {
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut sorted = items.clone();
            by_key(&mut sorted, |(key, _)| *key);
            prop_assert_eq!(&sorted, &expected);

            expected.sort_unstable();
            plain(&mut sorted);
            prop_assert_eq!(sorted, expected);

            prop_assert_eq!(map(items.clone()), items.into_iter().collect());
        }
    }
}
