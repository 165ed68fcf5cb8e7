//! Heartbeats: an agent is asked now and then whether something is to be done.
//!
//! Owns: when each agent is asked, and what is told of it. Promises: an answer
//! that says nothing bothers nobody; without anything to read no model is asked.

mod beat;
mod pulse;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::sessions::SessionKey;
use crate::support::Few;

/// How heartbeats are.
#[derive(Debug)]
pub struct Heartbeats {
    /// Whether they come by the clock.
    enabled: AtomicBool,
    // Never held across an await; see docs/locks.md.
    state: Mutex<State>,
    woken: Notify,
}

/// One that waits to ask an agent in a session. Others may wait once this is dropped, also when
/// whoever waits breaks or is stopped.
struct Waits<'a> {
    heartbeats: &'a Heartbeats,
    place: Option<(String, SessionKey)>,
}

impl Waits<'_> {
    /// The agent is asked now. Whether a job reminds of something.
    fn over(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        // At once: the next one may wait as soon as this one is on the list no more.
        let place = self.place.take();
        place.and_then(|it| self.heartbeats.state.lock().waiting.remove(&it)).unwrap_or_default()
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Agents that are to be asked in a session, and whether a job reminds of something there.
type Asked = Few<(String, SessionKey), bool>;

#[derive(Debug, Default)]
struct State {
    /// What was last told.
    last: Option<Value>,
    /// Those that somebody has woken.
    wanted: Asked,
    /// Those that are asked as soon as nothing runs in the session.
    waiting: Asked,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self { enabled: AtomicBool::new(true), state: Mutex::default(), woken: Notify::new() }
    }
}

impl Heartbeats {
    /// Asks an agent soon, whatever the clock says, in the session in which it was told
    /// something.
    pub fn wake(&self, agent_id: &str, session: SessionKey) {
        self.want(agent_id, session, false);
    }

    /// Has an agent say soon what it is reminded of in a session.
    pub(super) fn remind(&self, agent_id: &str, session: SessionKey) {
        self.want(agent_id, session, true);
    }

    /// Whoever is woken and reminded of something is reminded: that tells all that waits.
    fn want(&self, agent_id: &str, session: SessionKey, is_reminder: bool) {
        let place = (agent_id.to_owned(), session);
        *self.state.lock().wanted.or_default(place) |= is_reminder;
        self.woken.notify_one();
    }

    /// An agent is to be asked in a session. `None` when it is about to be: who asks then
    /// tells all that has come.
    fn wait(&self, agent_id: &str, session: &SessionKey, is_reminder: bool) -> Option<Waits<'_>> {
        let place = (agent_id.to_owned(), session.clone());
        let mut state = self.state.lock();
        if let Some(known) = state.waiting.get_mut(&place) {
            *known |= is_reminder;
            return None;
        }
        state.waiting.insert(place.clone(), is_reminder);
        Some(Waits { heartbeats: self, place: Some(place) })
    }

    /// Turns heartbeats by the clock on or off, until the gateway stops.
    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
        self.woken.notify_one();
    }

    /// Whether they come by the clock.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// The configuration is another one.
    pub(super) fn look_again(&self) {
        self.woken.notify_one();
    }

    /// What was last told of one.
    pub fn last(&self) -> Option<Value> {
        self.state.lock().last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_given_up_keeps_nobody_from_waiting() {
        let (heartbeats, main) = (Heartbeats::default(), SessionKey::from_canonical("main"));
        let wait = |is_reminder| heartbeats.wait("main", &main, is_reminder);
        let given_up = wait(false).unwrap();
        assert!(wait(true).is_none(), "it waits already");
        drop(given_up);
        let waits = wait(false).unwrap();
        assert!(wait(true).is_none());
        assert!(waits.over(), "a job has reminded of something meanwhile");
        assert!(!wait(false).unwrap().over());
    }
}
