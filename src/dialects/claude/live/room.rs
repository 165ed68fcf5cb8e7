//! A session that somebody looks at.
//!
//! Owns: who looks, what waits for a person, and one task that hears what happens in
//! the session (`hears.rs`). Promises: every frame is made once, for all who look.
//! Must not: decide anything.

mod hears;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::frame::{self, Frame};
use super::history::{History, end_of, facts_of, read};
use super::init::init;
use super::questions::Waiting;
use super::state::State;
use super::teller::Teller;
use crate::agent::approvals::{Decision, Question, QuestionKind};
use crate::bus::Subscriber;
use crate::dialects::claude::history::Histories;
use crate::dialects::claude::rest::read_state::mark_read;
use crate::dialects::claude::rest::share::Link;
use crate::gateway::Gateway;
use crate::registry::{Ctx, Services};
use crate::sessions::{SessionError, SessionKey};

use hears::Hears;

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
    /// Who did not allow which call of which session: it ends, and then the turn.
    denied: Mutex<HashMap<(SessionKey, String), Ctx>>,
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
        let active = services.runs.active(&room.key);
        // One that has not started is told when it does, and a hold of the session never.
        if let Some(run) = active.filter(|run| run.progress().started_at.is_some()) {
            let frame = init(services, &room.key, &entry, &run).await;
            room.state.lock().set_init(Frame::passing(&frame));
            teller.resume(run, services.clock.now_ms());
        }
        let hears = Hears::new(Arc::clone(&room), teller, facts);
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
    /// When the transcript cannot be read, or the conversation was begun anew.
    pub async fn join(
        &self,
        subscriber: &Arc<Subscriber>,
        link: Option<&Arc<Link>>,
        from: Option<Uuid>,
    ) -> Result<(), SessionError> {
        let earlier = self.state.lock().enter(subscriber, link);
        let history = self.history(from).await.inspect_err(|_| {
            // What comes would be held back for it without end.
            self.leave(&subscriber.conn_id);
        })?;
        self.state.lock().begin(&subscriber.conn_id, &history, earlier);
        if link.is_none() {
            self.note_read().await;
        }
        Ok(())
    }

    async fn history(&self, from: Option<Uuid>) -> Result<History, SessionError> {
        let entry = self.services.sessions.entry(&self.key).await?;
        // What goes on under its key is told to nobody who came for this one.
        if entry.as_ref().is_some_and(|entry| entry.session_id != *self.session_id) {
            return Err(SessionError::Replaced(self.key.clone()));
        }
        let entry = entry.unwrap_or_default();
        read(&self.services, &self.histories, (&self.key, &entry), from).await
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

    /// Tells all what one of them has said, for whose answer they wait; this is the id
    /// of its run.
    pub fn tell_said(&self, frame: &Frame, run_id: &str) {
        let mut state = self.state.lock();
        state.note_said(run_id);
        state.tell(frame);
    }

    /// Tells all but this one.
    pub fn relay(&self, from: &str, text: &str) {
        self.state.lock().relay(from, text);
    }

    /// The question with this id, if it waits.
    pub fn waiting(&self, id: &str) -> Option<Waiting> {
        self.state.lock().waiting().iter().find(|waiting| waiting.id == id).cloned()
    }

    /// What is told of a question that does not wait: how it ended, which is a no where
    /// nobody remembers it.
    pub fn settled(&self, id: &str) -> String {
        let told = self.state.lock().settled(id).map(str::to_owned);
        told.unwrap_or_else(|| frame::answered(id, "deny").to_string())
    }

    /// The other questions that are about the same.
    pub fn alike(&self, waiting: &Waiting) -> Vec<Waiting> {
        let state = self.state.lock();
        let alike = |other: &&Waiting| other.id != waiting.id && other.what == waiting.what;
        state.waiting().iter().filter(alike).cloned().collect()
    }

    /// When the call that waits for this has ended, its turn ends too, in the name of
    /// whoever did not allow it.
    pub fn end_after(&self, waiting: &Waiting, cx: Ctx) {
        if let Some(call_id) = &waiting.call_id {
            self.denied.lock().insert((waiting.key.clone(), call_id.clone()), cx);
        }
    }

    /// Who did not allow this call, for as long as its turn has not ended by that.
    pub fn take_denial(&self, key: &SessionKey, call_id: &str) -> Option<Ctx> {
        self.denied.lock().remove(&(key.clone(), call_id.to_owned()))
    }

    /// A question of a node or a plugin about this session. Those of its own runs
    /// come with their calls.
    pub fn ask(self: &Arc<Self>, question: &Arc<Question>) {
        if question.call_id.is_some() {
            return;
        }
        self.watch(self.key.clone(), question);
    }

    fn watch(self: &Arc<Self>, key: SessionKey, question: &Arc<Question>) {
        self.state.lock().ask(Waiting::of_question(key, question));
        let (room, question) = (Arc::clone(self), Arc::clone(question));
        self.services.tasks.spawn("claude question", async move {
            let decision = tokio::select! {
                decision = question.decision() => decision,
                () = room.stop.cancelled() => return,
            };
            room.settle(&question.id, decision);
        });
    }

    /// The questions that waited before anybody looked, with those of sub-agents.
    fn find_questions(self: &Arc<Self>) {
        let approvals = &self.services.runs.parts().approvals;
        for kind in [QuestionKind::Exec, QuestionKind::Plugin] {
            for question in approvals.list(kind) {
                let key = self.session_of(&question.request);
                if let Some(key) = key.filter(|key| *key == self.key || self.is_child(key)) {
                    self.watch(key, &question);
                }
            }
        }
    }

    /// Whether a question is about this session.
    pub fn is_about(&self, request: &Value) -> bool {
        self.session_of(request).is_some_and(|key| key == self.key)
    }

    fn session_of(&self, request: &Value) -> Option<SessionKey> {
        let keys = self.services.keys.now();
        request["sessionKey"].as_str().map(|named| SessionKey::parse(named, &keys))
    }

    /// Whether what runs in a session is told here as well.
    fn is_child(&self, key: &SessionKey) -> bool {
        let run = self.services.runs.active(key);
        run.is_some_and(|run| run.spawned_by.as_deref() == Some(self.key.as_str()))
    }

    fn settle(&self, id: &str, decision: Option<Decision>) {
        let told = match decision {
            None => frame::cancelled(id),
            Some(Decision::Deny) => frame::answered(id, "deny"),
            Some(_) => frame::answered(id, "allow"),
        };
        self.state.lock().settle(id, &told.to_string());
    }

    /// These questions need no answer any more.
    fn withdraw(&self, is_over: impl Fn(&Waiting) -> bool) {
        let mut state = self.state.lock();
        let over = state.waiting().iter().filter(|it| is_over(it));
        let ids: Vec<_> = over.map(|it| it.id.clone()).collect();
        for id in ids {
            state.settle(&id, &frame::cancelled(&id).to_string());
        }
    }
}
