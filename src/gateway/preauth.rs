//! How many sockets may wait for their `connect`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Most sockets of all clients together that may wait.
const MAX_TOTAL: usize = 1024;

/// Counts sockets before their `connect`, per client address.
#[derive(Debug)]
pub struct PreauthBudget {
    per_ip: usize,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_ip: HashMap<IpAddr, usize>,
    total: usize,
}

/// A place among those who wait; given back when dropped.
#[derive(Debug)]
pub struct PreauthPermit {
    ip: IpAddr,
    waiting: Arc<Mutex<Waiting>>,
}

impl PreauthBudget {
    /// A budget of `per_ip` sockets for each address.
    pub fn new(per_ip: usize) -> Self {
        Self { per_ip, waiting: Arc::default() }
    }

    /// Takes a place, if one is left.
    pub fn enter(&self, ip: IpAddr) -> Option<PreauthPermit> {
        let mut waiting = self.waiting.lock();
        let of_ip = waiting.by_ip.get(&ip).copied().unwrap_or_default();
        if of_ip >= self.per_ip || waiting.total >= MAX_TOTAL {
            return None;
        }
        waiting.by_ip.insert(ip, of_ip + 1);
        waiting.total += 1;
        Some(PreauthPermit { ip, waiting: Arc::clone(&self.waiting) })
    }
}

impl Drop for PreauthPermit {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.total -= 1;
        if let Some(of_ip) = waiting.by_ip.get_mut(&self.ip) {
            *of_ip -= 1;
            if *of_ip == 0 {
                waiting.by_ip.remove(&self.ip);
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
