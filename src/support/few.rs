//! Maps of few entries.
//!
//! Promises: a [`Few`] is as `BTreeMap`: one value for each key, in their order. It is a list:
//! what `BTreeMap` does is compiled anew, in five to ten kilobytes, for each kind of entry.

use std::borrow::Borrow;

/// A map of few entries: to add or remove one moves all behind it.
#[derive(Debug, Clone)]
pub struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the entry of a key is, or belongs.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    /// Whether there is one of this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(self.place(key).ok()?).map(|(_, value)| value)
    }

    /// The same, to change it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// The value of a key; where it has none, what `make` gives is put there.
    pub fn or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let place = match self.place(&key) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (key, make()));
                place
            }
        };
        &mut self.0[place].1
    }

    /// The same with the default.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.or_insert_with(key, V::default)
    }

    /// Sets the value of a key; what it was.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, value));
        }
        self.or_insert_with(key, || value);
        None
    }

    /// Takes the value of a key out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        Some(self.0.remove(place).1)
    }

    /// Keeps those of which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    /// All, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        self.0.iter().map(|entry| (&entry.0, &entry.1))
    }

    /// The same, to change their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Their keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// Their values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Few<K, V> {
    /// Of two with one key the later stays.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut few = Self::new();
        for (key, value) in entries {
            few.insert(key, value);
        }
        few
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_as_a_tree(entries: Vec<(u8, u16)>, keys: Vec<u8>) {
            let mut tree: BTreeMap<u8, u16> = entries.iter().copied().collect();
            let mut few: Few<u8, u16> = entries.iter().copied().collect();
            for key in keys {
                prop_assert_eq!(few.contains_key(&key), tree.contains_key(&key));
                prop_assert_eq!(few.get(&key), tree.get(&key));
                prop_assert_eq!(few.remove(&key), tree.remove(&key));
                let other = key.wrapping_mul(7);
                prop_assert_eq!(few.insert(other, 1), tree.insert(other, 1));
                *few.or_default(key) += 2;
                *tree.entry(key).or_default() += 2;
                prop_assert_eq!(few.get_mut(&other), tree.get_mut(&other));
            }
            prop_assert!(few.keys().eq(tree.keys()) && few.values().eq(tree.values()));
            few.retain(|key, _| key % 2 == 0);
            tree.retain(|key, _| key % 2 == 0);
            prop_assert!(few.iter().eq(tree.iter()) && few.iter_mut().eq(tree.iter_mut()));
            prop_assert_eq!((few.len(), few.is_empty()), (tree.len(), tree.is_empty()));
        }
    }
}
