//! How many sockets may wait for their `connect`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most sockets of all clients together that may wait.
const MAX_TOTAL: usize = 1024;

/// Counts sockets before their `connect`, per place that limits see.
#[derive(Debug)]
pub struct PreauthBudget {
    per_ip: usize,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_place: HashMap<IpAddr, usize>,
    total: usize,
}

/// A place among those who wait; given back when dropped.
#[derive(Debug)]
pub struct PreauthPermit {
    place: IpAddr,
    waiting: Arc<Mutex<Waiting>>,
}

impl PreauthBudget {
    /// A budget of `per_ip` sockets for each place.
    pub fn new(per_ip: usize) -> Self {
        Self { per_ip, waiting: Arc::default() }
    }

    /// Takes a place, if one is left.
    pub fn enter(&self, place: IpAddr) -> Option<PreauthPermit> {
        let mut waiting = self.waiting.lock();
        let here = waiting.by_place.get(&place).copied().unwrap_or_default();
        if here >= self.per_ip || waiting.total >= MAX_TOTAL {
            return None;
        }
        waiting.by_place.insert(place, here + 1);
        waiting.total += 1;
        Some(PreauthPermit { place, waiting: Arc::clone(&self.waiting) })
    }
}

impl Drop for PreauthPermit {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.total -= 1;
        if let Some(here) = waiting.by_place.get_mut(&self.place) {
            *here -= 1;
            if *here == 0 {
                waiting.by_place.remove(&self.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_per_address_and_come_back() {
        let budget = PreauthBudget::new(2);
        let ip = "10.0.0.1".parse().unwrap();
        let first = budget.enter(ip).unwrap();
        let _second = budget.enter(ip).unwrap();
        assert!(budget.enter(ip).is_none());
        assert!(budget.enter("10.0.0.2".parse().unwrap()).is_some());
        drop(first);
        assert!(budget.enter(ip).is_some());
    }
}
