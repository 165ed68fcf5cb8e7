//! A session that somebody looks at.
//!
//! Owns: one task that hears what happens in the session. Promises: every frame
//! is made once, for all who look; when something was missed, all of them are
//! closed, so that they come again and read it. Must not: decide anything.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::frame::{self, Frame};
use super::guest;
use super::history::{end_of, facts_of, read};
use super::init::init;
use super::questions::Waiting;
use super::side::Side;
use super::state::State;
use super::teller::Teller;
use crate::agent::Card;
use crate::agent::approvals::{Decision, Question, QuestionKind};
use crate::agent::feed::{Ending, Follower, RunNews, Told};
use crate::bus::{Closing, Subscriber};
use crate::dialects::claude::format::SessionFacts;
use crate::dialects::claude::history::Histories;
use crate::dialects::claude::rest::read_state::mark_read;
use crate::dialects::claude::rest::share::Link;
use crate::gateway::Gateway;
use crate::registry::{Ctx, Services};
use crate::sessions::{SessionError, SessionKey};

/// The tool that begins a sub-agent.
const SPAWN: &str = "sessions_spawn";

/// See the module.
pub struct Room {
    /// What it is made of.
    pub services: Arc<Services>,
    /// The session.
    pub key: SessionKey,
    /// Its transcript.
    pub session_id: Arc<str>,
    state: Mutex<State>,
    histories: Histories,
    /// Who did not allow which call: it ends, and then the turn.
    denied: Mutex<HashMap<String, Ctx>>,
    stop: CancellationToken,
}

impl Room {
    /// Opens the room of a session; `None` when there is no such session any more.
    ///
    /// # Errors
    /// When its transcript cannot be read.
    pub async fn open(
        gateway: &Gateway,
        key: SessionKey,
        session_id: &str,
    ) -> Result<Option<Arc<Self>>, SessionError> {
        let services = &gateway.services;
        // From here on nothing is missed; what was read as well is told once.
        let follower = services.runs.parts().feed.follow(&key);
        let entry = services.sessions.entry(&key).await?;
        let Some(entry) = entry.filter(|entry| entry.session_id == session_id) else {
            return Ok(None);
        };
        let facts = facts_of(services, (&key, &entry)).await?;
        let end = end_of(services, (&key, &entry), &facts).await?;
        let mut teller = Teller::new(Arc::clone(&facts), Arc::clone(&services.ids), end);
        let room = Arc::new(Self {
            services: Arc::clone(services),
            key,
            session_id: session_id.into(),
            state: Mutex::default(),
            histories: gateway.histories.clone(),
            denied: Mutex::default(),
            stop: CancellationToken::new(),
        });
        room.find_questions();
        if let Some(run) = services.runs.active(&room.key) {
            let frame = init(services, &room.key, &entry, &run).await;
            room.state.lock().set_init(Frame::passing(&frame));
            teller.resume(run, services.clock.now_ms());
        }
        let hears = Hears {
            room: Arc::clone(&room),
            teller,
            facts,
            sides: HashMap::new(),
            spawning: Vec::new(),
            is_replaced: false,
        };
        services.tasks.spawn("claude room", hears.run(follower));
        Ok(Some(room))
    }

    /// Whether it hears nothing more.
    pub fn is_over(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Nobody looks any more.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Tells a connection what was said, and from then on what is said; with its
    /// link, if it came by one.
    ///
    /// # Errors
    /// When the transcript cannot be read.
    pub async fn join(
        &self,
        subscriber: &Arc<Subscriber>,
        link: Option<&Arc<Link>>,
        from: Option<Uuid>,
    ) -> Result<(), SessionError> {
        let earlier = self.state.lock().enter(subscriber, link);
        let entry = self.services.sessions.entry(&self.key).await?.unwrap_or_default();
        let of = (&self.key, &entry);
        let history = read(&self.services, &self.histories, of, from).await?;
        self.state.lock().begin(&subscriber.conn_id, &history, earlier);
        if link.is_none() {
            self.note_read().await;
        }
        Ok(())
    }

    /// Whoever looks has seen it. When that cannot be written down it is shown all
    /// the same.
    pub async fn note_read(&self) {
        if let Err(error) = mark_read(&self.services, &self.key).await {
            tracing::warn!(%error, session = %self.key, "not marked as read");
        }
    }

    /// Who came by links.
    pub fn guests(&self) -> Vec<(Arc<Subscriber>, Arc<Link>)> {
        let state = self.state.lock();
        state.guests().map(|(who, link)| (Arc::clone(who), Arc::clone(link))).collect()
    }

    /// A connection is gone.
    pub fn leave(&self, conn_id: &str) {
        self.state.lock().leave(conn_id);
    }

    /// Tells all who look.
    pub fn tell(&self, frame: &Frame) {
        self.state.lock().tell(frame);
    }

    /// Tells all but this one.
    pub fn relay(&self, from: &str, text: &str) {
        self.state.lock().relay(from, text);
    }

    /// The question with this id, if it waits.
    pub fn waiting(&self, id: &str) -> Option<Waiting> {
        self.state.lock().waiting().iter().find(|waiting| waiting.id == id).cloned()
    }

    /// The other questions that are about the same.
    pub fn alike(&self, waiting: &Waiting) -> Vec<Waiting> {
        let state = self.state.lock();
        let alike = |other: &&Waiting| other.id != waiting.id && other.what == waiting.what;
        state.waiting().iter().filter(alike).cloned().collect()
    }

    /// When this call has ended, its turn ends too, in the name of whoever did not
    /// allow it.
    pub fn end_after(&self, call_id: String, cx: Ctx) {
        self.denied.lock().insert(call_id, cx);
    }

    /// The call was allowed after all, or nobody knows.
    pub fn forget_denial(&self, call_id: &str) {
        self.denied.lock().remove(call_id);
    }

    /// A question of a node or a plugin about this session. Those of its own runs
    /// come with their calls.
    pub fn ask(self: &Arc<Self>, question: &Arc<Question>) {
        if question.call_id.is_some() {
            return;
        }
        self.watch(question);
    }

    fn watch(self: &Arc<Self>, question: &Arc<Question>) {
        self.state.lock().ask(Waiting::of_question(question));
        let (room, question) = (Arc::clone(self), Arc::clone(question));
        self.services.tasks.spawn("claude question", async move {
            let decision = tokio::select! {
                decision = question.decision() => decision,
                () = room.stop.cancelled() => return,
            };
            room.settle(&question.id, decision);
        });
    }

    /// The questions that waited before anybody looked.
    fn find_questions(self: &Arc<Self>) {
        let approvals = &self.services.runs.parts().approvals;
        for kind in [QuestionKind::Exec, QuestionKind::Plugin] {
            for question in approvals.list(kind) {
                if self.is_about(&question.request) {
                    self.watch(&question);
                }
            }
        }
    }

    /// Whether a question is about this session.
    pub fn is_about(&self, request: &Value) -> bool {
        let keys = self.services.keys.now();
        let named = request["sessionKey"].as_str();
        named.is_some_and(|named| SessionKey::parse(named, &keys) == self.key)
    }

    fn settle(&self, id: &str, decision: Option<Decision>) {
        let told = match decision {
            None => frame::cancelled(id),
            Some(Decision::Deny) => frame::answered(id, "deny"),
            Some(_) => frame::answered(id, "allow"),
        };
        self.state.lock().settle(id, &told.to_string());
    }

    /// Questions of a call that has ended need no answer any more; without a call,
    /// those of all calls.
    fn withdraw(&self, call_id: Option<&str>) {
        let mut state = self.state.lock();
        let is_its = |waiting: &&Waiting| {
            waiting.call_id.is_some()
                && call_id.is_none_or(|id| waiting.call_id.as_deref() == Some(id))
        };
        let ids: Vec<_> = state.waiting().iter().filter(is_its).map(|it| it.id.clone()).collect();
        for id in ids {
            state.settle(&id, &frame::cancelled(&id).to_string());
        }
    }
}

/// The task of a room.
struct Hears {
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
    async fn run(mut self, mut follower: Follower) {
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
        for subscriber in self.room.state.lock().members() {
            let reason = "read the session again".into();
            subscriber.outbox.close(Closing { code: 1008, reason, drains: true });
        }
    }

    async fn hear(&mut self, told: &Told) {
        if matches!(told.news, RunNews::Begins | RunNews::Compacts(_) | RunNews::Noted { .. }) {
            self.look_at_entry(told).await;
        }
        if self.is_replaced {
            return;
        }
        self.note_spawning(told);
        let now_ms = self.room.services.clock.now_ms();
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
        if matches!(told.news, RunNews::Ends(_)) && !self.teller.is_working() {
            state.end_turn();
        }
        drop(state);
        self.note_end(told);
        self.hear_questions(told);
    }

    /// Whether the key still means this conversation. What a turn works with is told
    /// first.
    async fn look_at_entry(&mut self, told: &Told) {
        let room = &self.room;
        let entry = room.services.sessions.entry(&room.key).await.ok().flatten();
        let entry = entry.filter(|entry| entry.session_id == *room.session_id);
        self.is_replaced = entry.is_none();
        let Some(entry) = entry else {
            // Links are for one conversation.
            for (subscriber, _) in room.guests() {
                subscriber.outbox.close(guest::ended());
            }
            return;
        };
        let Some(run) = told.run.as_ref().filter(|_| matches!(told.news, RunNews::Begins)) else {
            return;
        };
        let init = init(&room.services, &room.key, &entry, run).await;
        room.state.lock().set_init(Frame::passing(&init));
    }

    /// What a run has brought is no news to those who look. It is counted after its
    /// end was told.
    fn note_end(&self, told: &Told) {
        let is_end =
            matches!(&told.news, RunNews::Ends(how) if !matches!(how, Ending::TakenInto(_)));
        let Some(run) = told.run.clone().filter(|_| is_end) else { return };
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
            RunNews::ToolAsks(card, data) => self.tool_asks(card, data),
            RunNews::ToolEnds(card, _) => {
                self.room.withdraw(Some(&card.call.id));
                if let Some(cx) = self.room.denied.lock().remove(&card.call.id) {
                    self.stop_turn(cx, told);
                }
            }
            RunNews::Ends(_) if !self.teller.is_working() => self.room.withdraw(None),
            _ => {}
        }
    }

    fn tool_asks(&self, card: &Card, data: &Value) {
        let id = data["approvalId"].as_str().unwrap_or_default();
        if data["phase"] == "requested" {
            let waiting = Waiting::of_call(id, card, &data["command"]);
            self.room.state.lock().ask(waiting);
            return;
        }
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
        if matches!(told.news, RunNews::Ends(_)) {
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
