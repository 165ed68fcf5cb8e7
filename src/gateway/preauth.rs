//! Who may wait to log in.
//!
//! Owns: the list of connections before their `connect`, from the moment that
//! they are accepted. Promises: there are never more of them than the bounds
//! say, and a new client finds room at once: where it is short, whoever has been
//! silent for the longest time goes. Who has asked for something gives way to nobody
//! while most of them are silent. Must not: read or write a socket.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::meter::Meter;
use crate::support::descriptors;

/// Most connections of all clients together that may wait. Each holds a file
/// descriptor and some KiB. Where the system gives few of those, whoever is in and the
/// gateway's own files need the others.
const MAX_TOTAL: usize = 1024;
/// A client logs in within milliseconds. One that has waited for so long gives
/// its place to another of the same address.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts connections before their `connect`, per place that limits see.
#[derive(Debug)]
pub struct PreauthBudget {
    per_place: Arc<AtomicUsize>,
    waiting: Arc<Mutex<Waiting>>,
}

/// By their numbers. That is the order of their arrival, except of those that wait again.
#[derive(Debug)]
struct Waiting {
    /// More than so many there are not.
    most: usize,
    next: u64,
    all: Vec<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    place: IpAddr,
    stage: Stage,
    since: Instant,
    meter: Arc<Meter>,
}

impl Waiter {
    fn is_silent(&self) -> bool {
        matches!(self.stage, Stage::Connected { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Has not asked for anything. Behind a proxy nobody knows yet who it is.
    Connected { through_proxy: bool },
    /// Is a WebSocket.
    Upgraded,
}

/// A place among those who wait; given back when dropped.
#[derive(Debug)]
pub struct PreauthPermit {
    number: u64,
    meter: Arc<Meter>,
    per_place: Arc<AtomicUsize>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Waiting {
    fn count(&self, place: IpAddr, stage: Stage) -> usize {
        self.all.iter().filter(|it| it.place == place && it.stage == stage).count()
    }

    /// Where one is, or where it belongs.
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.all.binary_search_by_key(&number, |it| it.number)
    }

    /// Takes out who has waited for the longest time of those that are meant, if that is
    /// long enough.
    fn expel(&mut self, least: Duration, is_meant: impl Fn(&Waiter) -> bool) -> bool {
        let meant = self.all.iter().enumerate().filter(|(_, it)| is_meant(it));
        let oldest = meant.min_by_key(|(_, it)| it.since);
        let Some((at, _)) = oldest.filter(|(_, it)| it.since.elapsed() >= least) else {
            return false;
        };
        let expelled = self.all.remove(at);
        tracing::debug!(place = %expelled.place, "cut a connection that did not log in");
        expelled.meter.cut();
        true
    }

    /// Takes one out if there is no room for another; whether there was none.
    fn make_room(&mut self) -> bool {
        let is_full = self.all.len() >= self.most;
        if is_full {
            let are_silent = self.all.iter().filter(|it| it.is_silent()).count();
            let is_one_of_many = are_silent > self.most / 2;
            self.expel(Duration::ZERO, |it| it.is_silent() || !is_one_of_many);
        }
        is_full
    }
}

impl PreauthBudget {
    /// A budget of `per_place` connections for each place, and of as many for all as the
    /// limit of open files leaves room for.
    pub fn new(per_place: usize) -> Self {
        Self::of(per_place, descriptors::share(MAX_TOTAL))
    }

    fn of(per_place: usize, most: usize) -> Self {
        let waiting = Waiting { most, next: 0, all: Vec::new() };
        Self { per_place: Arc::new(per_place.into()), waiting: Arc::new(Mutex::new(waiting)) }
    }

    /// Another number of them, for those who come from now on.
    pub fn resize(&self, per_place: usize) {
        self.per_place.store(per_place, Ordering::Relaxed);
    }

    /// Takes a place for a connection that was accepted.
    pub fn enter(&self, place: IpAddr, through_proxy: bool, meter: Arc<Meter>) -> PreauthPermit {
        let stage = Stage::Connected { through_proxy };
        let per_place = self.per_place.load(Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        let had_room = !waiting.make_room();
        if had_room && !through_proxy && waiting.count(place, stage) >= per_place {
            waiting.expel(PATIENCE, |it| it.place == place && it.stage == stage);
        }
        let number = waiting.next;
        waiting.next += 1;
        let since = Instant::now();
        waiting.all.push(Waiter { number, place, stage, since, meter: Arc::clone(&meter) });
        PreauthPermit {
            number,
            meter,
            per_place: Arc::clone(&self.per_place),
            waiting: Arc::clone(&self.waiting),
        }
    }
}

impl PreauthPermit {
    /// The connection becomes a WebSocket of a client at `place`; `false` when
    /// that place has enough of them. One that waits no more, because a request
    /// before has proved who sent it, waits again.
    pub fn upgrade(&self, place: IpAddr) -> bool {
        let mut waiting = self.waiting.lock();
        if self.meter.is_cut() {
            return false;
        }
        let is_like_it = |it: &Waiter| it.place == place && it.stage == Stage::Upgraded;
        let is_full =
            waiting.count(place, Stage::Upgraded) >= self.per_place.load(Ordering::Relaxed);
        if is_full && !waiting.expel(PATIENCE, is_like_it) {
            return false;
        }
        let (number, stage) = (self.number, Stage::Upgraded);
        if waiting.find(number).is_err() {
            waiting.make_room();
        }
        match waiting.find(number) {
            Ok(at) => {
                let waiter = &mut waiting.all[at];
                (waiter.place, waiter.stage) = (place, stage);
            }
            Err(at) => {
                let (since, meter) = (Instant::now(), Arc::clone(&self.meter));
                waiting.all.insert(at, Waiter { number, place, stage, since, meter });
            }
        }
        true
    }

    /// It waits no more: it has logged in, or is being closed.
    pub fn leave(&self) {
        let mut waiting = self.waiting.lock();
        if let Ok(at) = waiting.find(self.number) {
            waiting.all.remove(at);
        }
    }
}

impl Drop for PreauthPermit {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn enter(budget: &PreauthBudget, place: IpAddr) -> (PreauthPermit, Arc<Meter>) {
        let meter = Arc::new(Meter::new());
        (budget.enter(place, false, Arc::clone(&meter)), meter)
    }

    #[tokio::test(start_paused = true)]
    async fn websockets_are_counted_per_address_and_come_back() {
        let budget = PreauthBudget::new(2);
        let upgraded = |place| {
            let (permit, _) = enter(&budget, place);
            permit.upgrade(place).then_some(permit)
        };
        let first = upgraded(ip(1)).unwrap();
        let second = upgraded(ip(1)).unwrap();
        assert!(upgraded(ip(1)).is_none());
        assert!(upgraded(ip(2)).is_some());
        drop(first);
        let _third = upgraded(ip(1)).unwrap();
        second.leave();
        assert!(upgraded(ip(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_been_silent_for_long_gives_way_to_its_neighbour() {
        let budget = PreauthBudget::new(1);
        let (old, old_meter) = enter(&budget, ip(1));
        assert!(old.upgrade(ip(1)));
        let (new, _) = enter(&budget, ip(1));
        assert!(!new.upgrade(ip(1)));
        tokio::time::advance(PATIENCE).await;
        assert!(new.upgrade(ip(1)));
        assert!(old_meter.is_cut());
        assert!(!old.upgrade(ip(1)), "who was cut does not come back");

        let (_silent, silent_meter) = enter(&budget, ip(2));
        tokio::time::advance(PATIENCE).await;
        let (_other, _) = enter(&budget, ip(2));
        assert!(silent_meter.is_cut());
        let behind = Arc::new(Meter::new());
        let _one = budget.enter(ip(3), true, Arc::clone(&behind));
        tokio::time::advance(PATIENCE).await;
        let _two = budget.enter(ip(3), true, Arc::new(Meter::new()));
        assert!(!behind.is_cut(), "a proxy speaks for many");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_proved_himself_by_a_request_can_still_become_a_websocket() {
        let budget = PreauthBudget::new(1);
        let (permit, _) = enter(&budget, ip(1));
        permit.leave();
        assert!(budget.waiting.lock().all.is_empty());
        assert!(permit.upgrade(ip(1)));
        let (other, _) = enter(&budget, ip(1));
        assert!(!other.upgrade(ip(1)), "it counts again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_again_is_as_old_as_that_and_has_a_place_among_all() {
        let budget = PreauthBudget::new(2);
        let (again, again_meter) = enter(&budget, ip(1));
        again.leave();
        let (old, old_meter) = enter(&budget, ip(1));
        assert!(old.upgrade(ip(1)));
        tokio::time::advance(PATIENCE).await;
        assert!(again.upgrade(ip(1)));
        let (new, _) = enter(&budget, ip(1));
        assert!(new.upgrade(ip(1)));
        assert!(old_meter.is_cut() && !again_meter.is_cut());

        let budget = PreauthBudget::of(MAX_TOTAL, MAX_TOTAL);
        let (again, _) = enter(&budget, ip(1));
        again.leave();
        let others: Vec<_> = (0..MAX_TOTAL).map(|_| enter(&budget, ip(2))).collect();
        assert!(again.upgrade(ip(1)));
        assert!(others[0].1.is_cut() && !others[1].1.is_cut());
        assert_eq!(budget.waiting.lock().all.len(), MAX_TOTAL);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_bound_the_oldest_of_all_goes() {
        let budget = PreauthBudget::of(4, MAX_TOTAL);
        let mut waiting = Vec::new();
        for number in 0..MAX_TOTAL {
            let place = IpAddr::from([10, 1, u8::try_from(number / 4).unwrap(), 1]);
            waiting.push(enter(&budget, place));
        }
        assert!(waiting.iter().all(|(_, meter)| !meter.is_cut()));
        let (late, late_meter) = enter(&budget, ip(9));
        assert!(waiting[0].1.is_cut() && !waiting[1].1.is_cut() && !late_meter.is_cut());
        assert!(late.upgrade(ip(9)));
        assert_eq!(budget.waiting.lock().all.len(), MAX_TOTAL);
    }

    #[tokio::test(start_paused = true)]
    async fn where_few_files_may_be_open_fewer_may_wait() {
        let budget = PreauthBudget::of(32, 16);
        let silent: Vec<_> = (0..80).map(|_| enter(&budget, ip(1))).collect();
        assert_eq!(silent.iter().filter(|(_, meter)| !meter.is_cut()).count(), 16);
        let (late, _) = enter(&budget, ip(1));
        assert!(late.upgrade(ip(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_for_something_stays_while_most_are_silent() {
        let budget = PreauthBudget::of(MAX_TOTAL, MAX_TOTAL);
        let come = |place: u8, asks: bool| {
            let (permit, meter) = enter(&budget, ip(place));
            assert!(!asks || permit.upgrade(ip(place)));
            (permit, meter)
        };
        let (_asked, asked) = come(1, true);
        let silent: Vec<_> = (0..2 * MAX_TOTAL).map(|_| come(2, false)).collect();
        assert!(silent[0].1.is_cut() && !asked.is_cut());
        // Where most have asked, none of them is better than another.
        let all: Vec<_> = (0..MAX_TOTAL).map(|_| come(3, true)).collect();
        assert!(asked.is_cut());
        let (newest, _) = come(4, false);
        assert!(newest.upgrade(ip(4)) && all[0].1.is_cut());
    }
}
