//! The sessions that somebody looks at.
//!
//! Promises: a session has one room however many look at it; it stays for a
//! moment when the last one is gone, so that who comes again in the middle of an
//! answer reads on where he was.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::guest;
use super::room::Room;
use crate::dialects::claude::rest::share::holds;
use crate::gateway::Gateway;
use crate::registry::Services;
use crate::sessions::{SessionError, SessionKey};

/// Clients come again after some seconds.
const LINGER: Duration = Duration::from_secs(30);

type Place = Arc<OnceCell<Option<Arc<Room>>>>;

#[derive(Default)]
struct Slot {
    place: Place,
    seats: usize,
    /// Grows with everybody who comes, so that an old wait ends nothing new.
    visits: u64,
}

/// All rooms; clones share them.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Mutex<HashMap<String, Slot>>>);

impl Rooms {
    /// The room of a session, for as long as the seat is kept; `None` when there is
    /// no such session.
    ///
    /// # Errors
    /// When its transcript cannot be read.
    pub async fn enter(
        &self,
        gateway: &Gateway,
        key: SessionKey,
        session_id: &str,
    ) -> Result<Option<Seat>, SessionError> {
        let mut seat = self.take(&gateway.services, session_id);
        let place = Arc::clone(&seat.place);
        let open = || Room::open(gateway, key, session_id);
        let room = place.get_or_try_init(open).await?.clone();
        seat.room = room;
        Ok(seat.room.is_some().then_some(seat))
    }

    /// Ends the connections to this session whose links do not hold any more.
    pub async fn look_at_links(&self, gateway: &Gateway, session_id: &str) {
        let place = self.0.lock().get(session_id).map(|slot| Arc::clone(&slot.place));
        let Some(room) = place.and_then(|place| place.get().cloned().flatten()) else { return };
        for (subscriber, link) in room.guests() {
            if !holds(gateway, &link).await {
                subscriber.outbox.close(guest::ended());
            }
        }
    }

    /// Ends all connections that came by links.
    pub fn end_links(&self) {
        let rooms = self.0.lock();
        for room in rooms.values().filter_map(|slot| slot.place.get().cloned().flatten()) {
            for (subscriber, _) in room.guests() {
                subscriber.outbox.close(guest::ended());
            }
        }
    }

    fn take(&self, services: &Arc<Services>, session_id: &str) -> Seat {
        let mut rooms = self.0.lock();
        let slot = rooms.entry(session_id.to_owned()).or_default();
        let is_over = |room: &Option<Arc<Room>>| room.as_ref().is_none_or(|room| room.is_over());
        if slot.place.get().is_some_and(is_over) {
            *slot = Slot::default();
        }
        slot.seats += 1;
        slot.visits += 1;
        Seat {
            rooms: self.clone(),
            services: Arc::clone(services),
            session_id: session_id.to_owned(),
            place: Arc::clone(&slot.place),
            room: None,
        }
    }

    fn leave(&self, seat: &Seat) {
        let mut rooms = self.0.lock();
        let Some(slot) = rooms.get_mut(&seat.session_id) else { return };
        if !Arc::ptr_eq(&slot.place, &seat.place) {
            return;
        }
        slot.seats = slot.seats.saturating_sub(1);
        if slot.seats > 0 {
            return;
        }
        let visits = slot.visits;
        let (all, session_id) = (self.clone(), seat.session_id.clone());
        seat.services.tasks.spawn("claude linger", async move {
            tokio::time::sleep(LINGER).await;
            all.end(&session_id, visits);
        });
    }

    /// Ends a room that nobody has come to since.
    fn end(&self, session_id: &str, visits: u64) {
        let mut rooms = self.0.lock();
        if rooms.get(session_id).is_none_or(|slot| slot.seats > 0 || slot.visits != visits) {
            return;
        }
        let room = rooms.remove(session_id).and_then(|slot| slot.place.get().cloned().flatten());
        drop(rooms);
        if let Some(room) = room {
            room.close();
        }
    }
}

/// A place in a room.
pub struct Seat {
    rooms: Rooms,
    services: Arc<Services>,
    session_id: String,
    place: Place,
    room: Option<Arc<Room>>,
}

impl Seat {
    /// The room.
    pub const fn room(&self) -> Option<&Arc<Room>> {
        self.room.as_ref()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let rooms = self.rooms.clone();
        rooms.leave(self);
    }
}
