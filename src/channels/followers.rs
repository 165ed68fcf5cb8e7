//! Who waits for the end of which run, to send its reply.
//!
//! Promises: of one reply there is one follower; who waits until it is through goes on
//! then, also when it broke.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};

use crate::store::OutboxAddress;

/// The replies that somebody follows.
#[derive(Default)]
pub(super) struct Followers {
    /// Where they go, by run.
    places: Mutex<HashMap<String, OutboxAddress>>,
    /// Runs of this process, as long as replies of the last one are not followed.
    own: Mutex<HashSet<String>>,
    /// Held meanwhile by whoever writes down that a reply is expected, or no more.
    turning: tokio::sync::Mutex<()>,
    /// Rings whenever one of them is through.
    bell: Notify,
}

impl Followers {
    /// A run is one of this process; nobody takes its reply for one of the last until the
    /// answer is dropped. Who goes away before his turn leaves the reply to the last process.
    pub async fn own(&self, run_id: &str) -> MutexGuard<'_, ()> {
        let turn = self.turning.lock().await;
        self.own.lock().insert(run_id.to_owned());
        turn
    }

    /// Has nobody expect a reply anew until the answer is dropped; `None` when its run is one
    /// of this process.
    pub async fn of_last(&self, run_id: &str) -> Option<MutexGuard<'_, ()>> {
        let turn = self.turning.lock().await;
        (!self.own.lock().contains(run_id)).then_some(turn)
    }

    /// Has a reply followed until the answer is dropped; `None` when somebody does already.
    pub fn take(self: &Arc<Self>, run_id: &str, address: &OutboxAddress) -> Option<Follower> {
        let mut places = self.places.lock();
        let Entry::Vacant(place) = places.entry(run_id.to_owned()) else { return None };
        place.insert(address.clone());
        drop(places);
        Some(Follower { followers: Arc::clone(self), run_id: run_id.to_owned() })
    }

    /// The same, once nobody does any more.
    pub async fn take_next(self: &Arc<Self>, run_id: &str, address: &OutboxAddress) -> Follower {
        loop {
            // Listening before looking, so nothing between is missed.
            let mut rung = std::pin::pin!(self.bell.notified());
            rung.as_mut().enable();
            if let Some(follower) = self.take(run_id, address) {
                return follower;
            }
            rung.await;
        }
    }

    /// Whether somebody follows the reply of a run.
    pub fn has(&self, run_id: &str) -> bool {
        self.places.lock().contains_key(run_id)
    }

    /// Waits until nobody follows the reply of a run to this place any more.
    pub async fn through(&self, run_id: &str, address: &OutboxAddress) {
        loop {
            // Listening before looking, so nothing between is missed.
            let mut rung = std::pin::pin!(self.bell.notified());
            rung.as_mut().enable();
            let is_followed = self.places.lock().get(run_id) == Some(address);
            if !is_followed {
                return;
            }
            rung.await;
        }
    }
}

/// One who follows a reply.
pub(super) struct Follower {
    followers: Arc<Followers>,
    run_id: String,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.followers.places.lock().remove(&self.run_id);
        self.followers.bell.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::support::Tasks;

    fn to(target: &str) -> OutboxAddress {
        OutboxAddress {
            channel: "webhook".into(),
            account: "default".into(),
            target: target.into(),
            thread: String::new(),
        }
    }

    #[tokio::test]
    async fn a_reply_has_one_follower_and_nobody_waits_for_one_that_broke() {
        let followers = Arc::new(Followers::default());
        let first = followers.take("a", &to("7")).unwrap();
        assert!(followers.take("a", &to("7")).is_none());
        assert!(followers.has("a") && !followers.has("b"));
        followers.through("b", &to("7")).await;
        followers.through("a", &to("8")).await;
        let there = to("7");
        let mut waiting = std::pin::pin!(followers.through("a", &there));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let broken = async move {
            let _first = first;
            panic!("boom");
        };
        assert!(Tasks::default().spawn::<()>("reply", broken).await.unwrap().is_none());
        waiting.await;
        let first = followers.take("a", &to("7")).unwrap();
        let elsewhere = to("8");
        let mut next = std::pin::pin!(followers.take_next("a", &elsewhere));
        assert!(futures_util::poll!(next.as_mut()).is_pending());
        drop(first);
        drop(next.await);
        assert!(!followers.has("a"));
    }

    #[tokio::test]
    async fn a_reply_is_of_this_process_once_somebody_has_his_turn_for_it() {
        let followers = Followers::default();
        let looking = followers.of_last("a").await.unwrap();
        assert!(followers.own("b").now_or_never().is_none(), "his turn has not come");
        drop(looking);
        drop(followers.of_last("b").await.expect("he has gone away"));
        drop(followers.own("b").await);
        assert!(followers.of_last("b").await.is_none());
        assert!(followers.of_last("a").await.is_some());
    }
}
