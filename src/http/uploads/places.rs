//! How much is uploaded at a time.
//!
//! Promises: who uploads has reserved the room for it on disk; one caller leaves
//! room for others; what is under way is counted until it is on disk, at the worst twice.
//! A place is given back when it is dropped.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sessions::Stock;

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
}

/// A place; it is for so many bytes.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    owner: String,
    bytes: u64,
    /// What was under way when it was given, itself included.
    under_way: Stock,
}

impl Places {
    /// A place for `bytes`. Whether there is room on disk, only [`Place::fits`] says.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn enter(self: &Arc<Self>, owner: &str, bytes: u64) -> Result<Place, NoPlace> {
        let mut state = self.state.lock();
        if state.owners.get(owner).is_some_and(|count| *count >= OWN_MAX) {
            return Err(NoPlace::Own(OWN_MAX));
        }
        if state.count >= ALL_MAX {
            return Err(NoPlace::All(ALL_MAX));
        }
        *state.owners.entry(owner.to_owned()).or_default() += 1;
        state.count += 1;
        state.reserved += bytes;
        let under_way = Stock { count: state.count, bytes: state.reserved };
        Ok(Place { places: Arc::clone(self), owner: owner.to_owned(), bytes, under_way })
    }
}

impl Place {
    /// Whether it has room beside what is on disk, which somebody has looked at since it was
    /// given: what has come there meanwhile was under way then.
    pub(super) fn fits(&self, stored: Stock, most: Stock) -> bool {
        stored.count + self.under_way.count <= most.count
            && stored.bytes.saturating_add(self.under_way.bytes) <= most.bytes
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
        let enter = |owner: &str| places.enter(owner, 10);
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
    fn what_was_under_way_is_not_there_for_others_also_when_it_has_ended_since() {
        let places = Arc::new(Places::default());
        let stock = |count, bytes| Stock { count, bytes };
        let most = stock(3, 100);
        let first = places.enter("a", 60).unwrap();
        assert!(first.fits(stock(2, 40), most));
        assert!(!first.fits(stock(2, 41), most) && !first.fits(stock(3, 0), most));
        let second = places.enter("b", 41).unwrap();
        // Whoever looked at the disk before has not seen the first there.
        drop(first);
        assert!(!second.fits(stock(0, 0), most));
        drop(second);
        let third = places.enter("b", 41).unwrap();
        assert!(third.fits(stock(1, 59), most) && !third.fits(stock(1, 60), most));
    }
}
