//! The task of a room.
//!
//! Promises: what happens in the session and its sub-agents is told in order; when
//! something was missed, all who look are closed, so that they come again and read it;
//! after the conversation was begun anew nothing is told but that, to whoever waits for
//! an answer here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::super::frame::{self, Frame};
use super::super::guest;
use super::super::init::init;
use super::super::questions::Waiting;
use super::super::side::Side;
use super::super::teller::{Teller, idle};
use super::Room;
use crate::agent::approvals::Decision;
use crate::agent::feed::{Ending, Follower, RunNews, Told};
use crate::agent::{ActiveRun, Card};
use crate::dialects::claude::format::{Ids, SessionFacts};
use crate::registry::Ctx;
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::json;

/// The tool that begins a sub-agent.
const SPAWN: &str = "sessions_spawn";

/// See the module.
pub struct Hears {
    room: Arc<Room>,
    teller: Teller,
    facts: Arc<SessionFacts>,
    sides: HashMap<SessionKey, Side>,
    /// Calls that begin a sub-agent, and which, once that is known.
    spawning: Vec<(String, Option<SessionKey>)>,
    /// Whether the conversation was begun anew: what happens now is of another one.
    is_replaced: bool,
}

impl Hears {
    /// Hears for this room, with what was read of its session.
    pub fn new(room: Arc<Room>, teller: Teller, facts: Arc<SessionFacts>) -> Self {
        let (sides, spawning) = (HashMap::new(), Vec::new());
        Self { room, teller, facts, sides, spawning, is_replaced: false }
    }

    /// Does so until nobody looks any more.
    pub async fn run(mut self, mut follower: Follower) {
        loop {
            let told = tokio::select! {
                biased;
                () = self.room.stop.cancelled() => return,
                told = follower.next() => told,
            };
            match told {
                Ok(told) if told.key == self.room.key => self.hear(&told).await,
                Ok(told) => self.hear_side(&told).await,
                Err(missed) => {
                    tracing::warn!(session = %self.room.key, %missed, "who looks has to come again");
                    return self.end();
                }
            }
        }
    }

    /// Something was missed: who comes again reads it.
    fn end(&self) {
        self.room.stop.cancel();
        self.room.state.lock().end();
    }

    async fn hear(&mut self, told: &Told) {
        let was_said_here = self.was_said_here(told);
        if matches!(told.news, RunNews::Begins | RunNews::Compacts(_) | RunNews::Noted { .. }) {
            self.look_at_entry(told, was_said_here).await;
        }
        if self.is_replaced {
            return;
        }
        self.note_spawning(told);
        let now_ms = self.room.services.clock.now_ms();
        if let RunNews::Asks { .. } = told.news {
            // Another answer takes the place of this one.
            self.room.state.lock().forget(&self.teller.unfinished());
        }
        let is_end = matches!(told.news, RunNews::Ends(_));
        if is_end {
            // Nothing waits any more once its turn is told to be over.
            self.hear_questions(told);
        }
        let frames = self.teller.hear(told, now_ms);
        let mut state = self.room.state.lock();
        if let RunNews::Stored(_) = told.news {
            let uuids = frames.iter().filter_map(|frame| frame.uuid).collect();
            state.saved(&uuids);
        }
        let lines_are_saved = matches!(told.news, RunNews::Stored(_));
        for frame in &frames {
            state.tell_as(frame, lines_are_saved);
        }
        if let Some(run) = ended(told) {
            // By now its message is in the transcript, or gone.
            let uuid = Ids::new(&*self.room.session_id).user(&run.message_id);
            state.saved(&HashSet::from([uuid]));
        }
        if is_end && !self.teller.is_working() {
            state.end_turn();
        }
        drop(state);
        self.note_end(told);
        if !is_end {
            self.hear_questions(told);
        }
    }

    /// Whether this is about a message that was said here, of which nothing was heard
    /// since.
    fn was_said_here(&self, told: &Told) -> bool {
        let run_id = match &told.news {
            RunNews::Begins | RunNews::Ends(_) => told.run.as_ref().map(|run| &*run.id),
            RunNews::Noted { run_id, .. } => Some(run_id.as_str()),
            _ => None,
        };
        run_id.is_some_and(|run_id| self.room.state.lock().take_said(run_id))
    }

    /// Whether the key still means this conversation. What a turn works with is told
    /// first.
    async fn look_at_entry(&mut self, told: &Told, was_said_here: bool) {
        let entry = match self.room.services.sessions.entry(&self.room.key).await {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!(%error, session = %self.room.key, "its settings cannot be read");
                return;
            }
        };
        self.is_replaced = true;
        match &entry {
            Some(entry) if entry.session_id == *self.room.session_id => {
                self.is_replaced = false;
                tell_init(&self.room, told, entry).await;
            }
            Some(other) => self.tell_replaced(was_said_here.then_some(&*other.session_id)),
            None => self.tell_replaced(None),
        }
    }

    /// The conversation was begun anew. Who has said here what is answered in the
    /// session `to` hears so, and waits no longer.
    fn tell_replaced(&self, to: Option<&str>) {
        let room = &self.room;
        // Links are for one conversation.
        for (subscriber, _) in room.guests() {
            subscriber.outbox.close(guest::ended());
        }
        let Some(to) = to else { return };
        let moved = frame::error("Session was begun anew", &frame::begun_anew(to));
        room.tell(&Frame::passing(&moved));
        let (uuid, now_ms) = (room.services.ids.uuid(), room.services.clock.now_ms());
        for frame in idle(&room.session_id, "", 0.0, &uuid, now_ms) {
            room.tell(&frame);
        }
    }

    /// What a run has brought is no news to those who look. It is counted after its
    /// end was told.
    fn note_end(&self, told: &Told) {
        let Some(run) = ended(told).cloned() else { return };
        let room = Arc::clone(&self.room);
        self.room.services.tasks.spawn("claude read", async move {
            run.ended().await;
            let has_readers = room.state.lock().has_readers();
            if has_readers {
                room.note_read().await;
            }
        });
    }

    fn hear_questions(&self, told: &Told) {
        match &told.news {
            RunNews::ToolAsks(card, data) => self.tool_asks(told, card, data),
            RunNews::ToolEnds(card, _) => {
                let call_id = &card.call.id;
                let approvals = &self.room.services.runs.parts().approvals;
                // Another call with this id may wait, or its answer be told in a moment.
                let is_others = |it: &Waiting| {
                    let question = approvals.find(it.kind, &it.id);
                    question.is_ok_and(|it| it.is_open() || it.decided().is_some())
                };
                self.room.withdraw(|it| it.is_of_call(&told.key, call_id) && !is_others(it));
                if let Some(cx) = self.room.take_denial(&told.key, call_id) {
                    self.stop_turn(cx, told);
                }
            }
            RunNews::Ends(_) => {
                // What another run of the session, or of a sub-agent, asks still waits.
                if let Some(run) = ended(told) {
                    self.room.withdraw(|it| it.run_id.as_ref() == Some(&run.id));
                }
            }
            _ => {}
        }
    }

    fn tool_asks(&self, told: &Told, card: &Card, data: &Value) {
        if data["phase"] == "requested" {
            self.room.state.lock().ask(Waiting::of_call(told, card, data));
            return;
        }
        let id = data["approvalId"].as_str().unwrap_or_default();
        let decision = match data["status"].as_str() {
            Some("approved") => Some(Decision::AllowOnce),
            Some("denied") => Some(Decision::Deny),
            _ => None,
        };
        self.room.settle(id, decision);
    }

    /// Ends the turn in the name of whoever did not allow a call of it.
    fn stop_turn(&self, cx: Ctx, told: &Told) {
        let Some(run) = &told.run else { return };
        let params = json!({"sessionKey": told.key.as_str(), "runId": &*run.id});
        self.room.services.tasks.spawn("claude interrupt", async move {
            if let Err(error) = cx.call("chat.abort", &params).await {
                tracing::debug!(error = error.message, "a turn goes on after a denial");
            }
        });
    }

    /// Remembers which call began which sub-agent.
    fn note_spawning(&mut self, told: &Told) {
        match &told.news {
            RunNews::ToolBegins(card) if card.call.name == SPAWN => {
                self.spawning.push((card.call.id.clone(), None));
            }
            RunNews::ToolEnds(card, output) if card.call.name == SPAWN => {
                let child = output.details.as_ref().and_then(|it| it["childSessionKey"].as_str());
                let child = child.map(SessionKey::from_canonical);
                let place = self.spawning.iter_mut().find(|(id, _)| *id == card.call.id);
                match (place, child) {
                    (Some((_, known)), Some(child)) => *known = Some(child),
                    (Some(_), None) => self.spawning.retain(|(id, _)| *id != card.call.id),
                    (None, _) => {}
                }
            }
            _ => {}
        }
    }

    async fn hear_side(&mut self, told: &Told) {
        if self.is_replaced {
            return;
        }
        if !self.sides.contains_key(&told.key) {
            let entry = self.room.services.sessions.entry(&told.key).await.ok().flatten();
            let Some(entry) = entry else { return };
            let call = self.call_of(&told.key);
            let call = call.map(|id| crate::dialects::claude::format::tool_use_id(&id));
            let side = Side::new(&self.facts, &entry.session_id, told.key.as_str(), call);
            self.sides.insert(told.key.clone(), side);
        }
        let now_ms = self.room.services.clock.now_ms();
        if let Some(side) = self.sides.get_mut(&told.key) {
            let frames = side.hear(told, now_ms);
            let mut state = self.room.state.lock();
            for frame in &frames {
                state.tell(frame);
            }
        }
        self.hear_questions(told);
        if ended(told).is_some() {
            self.sides.remove(&told.key);
        }
    }

    /// The call that began a sub-agent. It may begin before its call has said so:
    /// then it is the first one that has not.
    fn call_of(&mut self, child: &SessionKey) -> Option<String> {
        let known = self.spawning.iter().position(|(_, known)| known.as_ref() == Some(child));
        let place = known.or_else(|| self.spawning.iter().position(|(_, it)| it.is_none()))?;
        let (id, known) = self.spawning.get_mut(place)?;
        *known = Some(child.clone());
        Some(id.clone())
    }
}

/// What the turn that begins works with, if one does.
async fn tell_init(room: &Room, told: &Told, entry: &SessionEntry) {
    let Some(run) = told.run.as_ref().filter(|_| matches!(told.news, RunNews::Begins)) else {
        return;
    };
    let init = init(&room.services, &room.key, entry, run).await;
    room.state.lock().set_init(Frame::passing(&init));
}

/// The run that has ended, if it is that. One whose message went into another is not
/// over.
fn ended(told: &Told) -> Option<&Arc<ActiveRun>> {
    let is_end = matches!(&told.news, RunNews::Ends(how) if !matches!(how, Ending::TakenInto(_)));
    told.run.as_ref().filter(|_| is_end)
}
