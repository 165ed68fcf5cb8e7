//! Bodies that have to be read before anybody knows who sent them: the proof is a
//! signature of all of them.
//!
//! Promises: what is held of them has a bound, over all senders and for each
//! place; the first one of a place always finds room. Must not: read anything.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most bytes of all of them together.
const TOTAL: u64 = 64 * 1024 * 1024;
/// Most bytes from one place.
const PER_PLACE: u64 = 32 * 1024 * 1024;

/// Who may send how much.
#[derive(Debug, Default)]
pub struct UnprovenBodies(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    total: u64,
    places: HashMap<IpAddr, u64>,
}

/// Room for a body; given back when dropped.
#[derive(Debug)]
pub struct BodyShare {
    place: IpAddr,
    bytes: u64,
    held: Arc<Mutex<Held>>,
}

impl UnprovenBodies {
    /// Room for a body of so many bytes; none while others have it.
    pub fn take(&self, place: IpAddr, bytes: u64) -> Option<BodyShare> {
        let mut held = self.0.lock();
        let of_place = held.places.get(&place).copied().unwrap_or(0);
        let fits = |held: u64, most: u64| held == 0 || held.saturating_add(bytes) <= most;
        if !fits(held.total, TOTAL) || !fits(of_place, PER_PLACE) {
            return None;
        }
        held.total = held.total.saturating_add(bytes);
        held.places.insert(place, of_place.saturating_add(bytes));
        Some(BodyShare { place, bytes, held: Arc::clone(&self.0) })
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        held.total = held.total.saturating_sub(self.bytes);
        let left = held.places.get(&self.place).map_or(0, |it| it.saturating_sub(self.bytes));
        if left == 0 {
            held.places.remove(&self.place);
        } else {
            held.places.insert(self.place, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn place(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    #[test]
    fn a_place_and_all_together_have_so_much_room_and_it_comes_back() {
        let bodies = UnprovenBodies::default();
        let first = bodies.take(place(1), PER_PLACE).unwrap();
        assert!(bodies.take(place(1), 1).is_none());
        let second = bodies.take(place(2), PER_PLACE).unwrap();
        assert!(bodies.take(place(3), 1).is_none());
        drop(first);
        assert!(bodies.take(place(3), 1).is_some());
        assert!(bodies.take(place(1), PER_PLACE).is_some());
        drop(second);
        assert!(bodies.0.lock().places.is_empty());
    }

    #[test]
    fn a_body_larger_than_the_bound_is_read_alone() {
        let bodies = UnprovenBodies::default();
        let large = bodies.take(place(1), 2 * TOTAL).unwrap();
        assert!(bodies.take(place(2), 1).is_none());
        drop(large);
        assert!(bodies.take(place(2), 1).is_some());
        assert_eq!(bodies.0.lock().total, 0);
    }
}
