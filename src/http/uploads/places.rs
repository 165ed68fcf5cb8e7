//! How much is uploaded at a time.
//!
//! Promises: who uploads has reserved the room for it on disk; one caller leaves
//! room for others. A place is given back when it is dropped.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Uploads at a time: a disk is no faster with more.
const ALL_MAX: usize = 16;
/// Of one caller: a page sends a handful of files side by side.
const OWN_MAX: usize = 4;

/// Who uploads.
#[derive(Debug, Default)]
pub struct Places {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many there are of each caller.
    owners: HashMap<String, usize>,
    count: usize,
    reserved: u64,
}

/// Why somebody has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// So many of his are under way.
    Own(usize),
    /// So many are under way.
    All(usize),
    /// Too much is on disk that no message took.
    Full,
}

/// A place; it is for so many bytes.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    owner: String,
    bytes: u64,
}

impl Places {
    /// A place for `bytes`, where `free` are left on disk but for those that others
    /// have reserved.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn enter(
        self: &Arc<Self>,
        owner: &str,
        bytes: u64,
        free: u64,
    ) -> Result<Place, NoPlace> {
        let mut state = self.state.lock();
        if state.owners.get(owner).is_some_and(|count| *count >= OWN_MAX) {
            return Err(NoPlace::Own(OWN_MAX));
        }
        if state.count >= ALL_MAX {
            return Err(NoPlace::All(ALL_MAX));
        }
        if state.reserved.saturating_add(bytes) > free {
            return Err(NoPlace::Full);
        }
        *state.owners.entry(owner.to_owned()).or_default() += 1;
        state.count += 1;
        state.reserved += bytes;
        Ok(Place { places: Arc::clone(self), owner: owner.to_owned(), bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        state.count -= 1;
        state.reserved -= self.bytes;
        if let Some(count) = state.owners.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                state.owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places_and_none_is_lost() {
        let places = Arc::new(Places::default());
        let enter = |owner: &str| places.enter(owner, 10, 1000);
        let own: Vec<_> = (0..OWN_MAX).map(|_| enter("a").unwrap()).collect();
        assert_eq!(enter("a").unwrap_err(), NoPlace::Own(OWN_MAX));
        let others: Vec<_> =
            (OWN_MAX..ALL_MAX).map(|number| enter(&format!("b{number}")).unwrap()).collect();
        assert_eq!(enter("c").unwrap_err(), NoPlace::All(ALL_MAX));
        drop((own, others));
        enter("a").unwrap();
        let state = places.state.lock();
        assert_eq!((state.count, state.reserved, state.owners.len()), (0, 0, 0));
    }

    #[test]
    fn what_is_reserved_is_not_there_for_others() {
        let places = Arc::new(Places::default());
        let held = places.enter("a", 60, 100).unwrap();
        assert_eq!(places.enter("b", 41, 100).unwrap_err(), NoPlace::Full);
        drop(held);
        places.enter("b", 41, 100).unwrap();
    }
}
