//! What a connection and its worker share.
//!
//! Owns: the conversation that is open, what waits to be said in it, the questions
//! that are shown, and whether a response is under way. Promises: a response that
//! has begun ends with one `done`, also when the gateway closes the connection
//! meanwhile; nobody who has gone is told anything.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::action::Said;
use super::asked::{Asked, Questions};
use super::conversation::{Hidden, Resumed};
use super::frame;
use crate::agent::approvals::{Decision, QuestionKind};
use crate::bus::Subscriber;
use crate::dialects::chat::book::Session;
use crate::gateway::Gateway;
use crate::protocol::hello::MAX_PAYLOAD;
use crate::registry::{Caller, Ctx, Reply, Services};
use crate::sessions::{AgentId, SessionKey};
use crate::support::json;

/// Messages that wait on one connection; a person writes one while another is
/// answered.
const WAITING_MAX: usize = 100;
/// Bytes of them: one of the largest.
const WAITING_BYTES: usize = MAX_PAYLOAD;
/// What is said of one too many.
const TOO_MANY: &str = "Too many messages wait on this connection; wait for answers";

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Somebody says something, in the conversation that was open then, or that was
    /// opened by what he had said before.
    Say(Said, Option<Session>),
    /// So many messages were not taken, for this reason.
    Refuse(String, usize),
    /// A conversation is open again: its response that is under way is shown.
    Watch(SessionKey),
    /// The client has opened a conversation himself: what follows is said there.
    Opened,
}

/// A connection, as its worker sees it.
pub struct View {
    /// What every connection shares.
    pub gateway: Arc<Gateway>,
    /// Its place in the bus.
    pub subscriber: Arc<Subscriber>,
    /// Cancelled when the client has gone.
    pub gone: CancellationToken,
    caller: Arc<Caller>,
    queued: Notify,
    // Lock order: view -> outbox; see docs/locks.md.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    hidden: Option<Hidden>,
    /// The id of a conversation that was put away, and the one that goes on from it.
    successor: Option<(String, Session)>,
    queue: VecDeque<Job>,
    queued_bytes: usize,
    is_working: bool,
    /// Whether a response has begun whose `done` is still to come.
    owes_done: bool,
    /// Cancelled when the conversation is left that is only watched.
    watch: Option<CancellationToken>,
    /// The session whose news are followed.
    followed: Option<SessionKey>,
    questions: Questions,
}

impl View {
    /// Of a connection on which nothing was said.
    pub fn new(gateway: Arc<Gateway>, subscriber: Arc<Subscriber>, caller: Caller) -> Self {
        let (gone, queued) = (CancellationToken::new(), Notify::new());
        let caller = Arc::new(caller);
        Self { gateway, subscriber, gone, caller, queued, state: Mutex::default() }
    }

    /// What the methods work with.
    pub fn services(&self) -> &Arc<Services> {
        &self.gateway.services
    }

    /// What one call in the client's name works with.
    pub fn cx(&self) -> Ctx {
        Ctx::new(Arc::clone(self.services()), Arc::clone(&self.caller))
    }

    /// Tells the client.
    pub fn tell(&self, frame: &Value) {
        if !self.gone.is_cancelled() {
            self.subscriber.outbox.answer(frame.to_string());
        }
    }

    /// Tells several things in order.
    pub fn tell_all(&self, frames: impl IntoIterator<Item = Value>) {
        for frame in frames {
            self.tell(&frame);
        }
    }

    /// A response begins.
    pub fn begin(&self) {
        self.state.lock().owes_done = true;
    }

    /// It is over: says so, once.
    pub fn done(&self) {
        let mut state = self.state.lock();
        if state.owes_done && !self.gone.is_cancelled() {
            // What comes too late is said by the farewell.
            state.owes_done = !self.subscriber.outbox.answer(frame::done().to_string());
        }
    }

    /// The `done` that is still to come, for a connection that is closed.
    pub fn owed(&self) -> Option<Value> {
        std::mem::take(&mut self.state.lock().owes_done).then(frame::done)
    }

    /// The conversation that is open.
    pub fn session(&self) -> Option<Session> {
        self.state.lock().session.clone()
    }

    /// The client opens another conversation, or none yet, of which the model is told
    /// this: what was said before moves nothing that he says from now on.
    pub fn open(&self, session: Option<Session>, hidden: Option<Hidden>) {
        let mut state = self.state.lock();
        state.mark_opened();
        state.open(session, hidden);
    }

    /// The same for something that was said in `from`: what waits behind it there was
    /// said for the conversation that it opens.
    pub fn move_on(&self, from: Option<&Session>, to: Session) {
        let mut state = self.state.lock();
        state.redirect(from, Some(&to));
        state.open(Some(to), None);
    }

    /// The same for a message that names its conversation: one that the client has opened
    /// since stays open.
    pub fn move_to_named(&self, from: Option<&Session>, named: &Resumed) {
        self.state.lock().move_to_named(from, named);
    }

    /// A conversation is only watched from now on, until this is cancelled; `None`
    /// when another one is open.
    pub fn watch(&self, key: &SessionKey) -> Option<CancellationToken> {
        let mut state = self.state.lock();
        let is_open = state.session.as_ref().is_some_and(|session| session.key == *key);
        is_open.then(|| state.watch.insert(CancellationToken::new()).clone())
    }

    /// A conversation was begun because none was open: what waits without one is said
    /// in it. It opens unless one is open by now.
    pub fn open_begun(&self, session: &Session) {
        let state = &mut *self.state.lock();
        state.redirect(None, Some(session));
        if state.session.is_none() {
            state.session = Some(session.clone());
            if let Some(hidden) = &mut state.hidden {
                hidden.key = Some(session.key.clone());
                state.successor = Some((hidden.id.clone(), session.clone()));
            }
        }
    }

    /// The conversation that goes on from one that was put away.
    pub fn successor(&self, id: &str) -> Option<Session> {
        let state = self.state.lock();
        let found = state.successor.as_ref().filter(|(old, _)| old == id);
        found.map(|(_, session)| session.clone())
    }

    /// What the model is to be told in a session before it hears the next message.
    pub fn take_hidden(&self, key: &SessionKey) -> Option<Hidden> {
        let mut state = self.state.lock();
        let is_its = state.hidden.as_ref().is_some_and(|hidden| hidden.key.as_ref() == Some(key));
        state.hidden.take_if(|_| is_its)
    }

    /// Puts it back: the message was not taken.
    pub fn keep_hidden(&self, hidden: Option<Hidden>) {
        let mut state = self.state.lock();
        state.hidden = state.hidden.take().or(hidden);
    }

    /// The agent of a conversation that was put away and goes on in a new one.
    pub fn hidden_agent(&self) -> Option<AgentId> {
        self.state.lock().hidden.as_ref().map(|hidden| hidden.agent.clone())
    }

    /// Queues something, made with the conversation that is open at that moment; `true`
    /// when somebody has to begin with it.
    pub fn push(&self, make: impl FnOnce(Option<Session>) -> Job) -> bool {
        let mut state = self.state.lock();
        let job = make(state.session.clone());
        let bytes = job.bytes();
        let waiting = state.queue.iter().filter(|job| **job != Job::Opened).count();
        if waiting >= WAITING_MAX || state.queued_bytes + bytes > WAITING_BYTES {
            // One more `done` is due, and takes no more room.
            match state.queue.iter_mut().rfind(|job| **job != Job::Opened) {
                Some(Job::Refuse(_, count)) => *count += 1,
                _ => state.queue.push_back(Job::Refuse(TOO_MANY.into(), 1)),
            }
        } else {
            state.queued_bytes += bytes;
            state.queue.push_back(job);
        }
        self.queued.notify_one();
        !std::mem::replace(&mut state.is_working, true)
    }

    /// Waits until something may be queued.
    pub async fn queued(&self) {
        self.queued.notified().await;
    }

    /// The next thing to do, if there is something, and the client is there.
    pub fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        if self.gone.is_cancelled() {
            state.queue.clear();
        }
        let job = state.queue.pop_front();
        let bytes = job.as_ref().map_or(0, Job::bytes);
        state.queued_bytes = state.queued_bytes.saturating_sub(bytes);
        job
    }

    /// Whether there is nothing left to do: then whoever asks has to stop.
    pub fn rests(&self) -> bool {
        let mut state = self.state.lock();
        state.is_working = !state.queue.is_empty() && !self.gone.is_cancelled();
        !state.is_working
    }

    /// Whose news are followed from now on.
    pub fn set_followed(&self, key: Option<SessionKey>) {
        self.state.lock().followed = key;
    }

    /// Whether news of a session are followed.
    pub fn follows(&self, key: &str) -> bool {
        self.state.lock().followed.as_ref().is_some_and(|followed| followed.as_str() == key)
    }

    /// Looks at the questions, or changes them.
    pub fn with_questions<T>(&self, change: impl FnOnce(&mut Questions) -> T) -> T {
        change(&mut self.state.lock().questions)
    }

    /// Changes the questions, and tells of it before anybody changes them again.
    pub fn tell_questions<F: IntoIterator<Item = Value>>(
        &self,
        change: impl FnOnce(&mut Questions) -> F,
    ) {
        let mut state = self.state.lock();
        self.tell_all(change(&mut state.questions));
    }

    /// Tells of the questions that have ended, though no news may have said so.
    pub fn settle_ended(&self) {
        let approvals = &self.services().runs.parts().approvals;
        self.tell_questions(|all| {
            all.settle_ended(|asked| match approvals.find(asked.kind, &asked.approval_id) {
                Ok(question) if question.is_open() => None,
                Ok(question) => Some(question.decided().is_some_and(|it| it != Decision::Deny)),
                Err(_) => Some(false),
            })
        });
    }

    /// Whether the client may decide, and so is shown what others ask for.
    fn may_decide(&self) -> bool {
        self.cx().check("exec.approval.resolve").is_ok()
    }

    /// Shows a question of a turn that was asked for elsewhere to a client that may
    /// decide.
    pub fn overhear(&self, kind: QuestionKind, id: &str) {
        let approvals = &self.services().runs.parts().approvals;
        if let Ok(question) = approvals.find(kind, id)
            && self.may_decide()
        {
            self.settle_ended();
            self.tell_questions(|all| all.overhear(&question, false));
        }
    }

    /// Shows the questions of a conversation that are open and were not shown, to a
    /// client that may decide, or whose own they are: those about calls of its run, when that
    /// is.
    pub fn show_open_questions(&self, key: &SessionKey, is_own: bool) {
        let may_decide = self.may_decide();
        let approvals = &self.services().runs.parts().approvals;
        for kind in [QuestionKind::Exec, QuestionKind::Plugin] {
            let all = approvals.list(kind).into_iter();
            for question in all.filter(|it| it.request["sessionKey"] == key.as_str()) {
                self.tell_questions(|all| all.find_out(&question, is_own, may_decide));
            }
        }
    }

    /// The client has gone: what was not begun is not done, and what its turns ask
    /// becomes a no.
    pub fn leave(&self) -> Vec<Asked> {
        self.gone.cancel();
        self.state.lock().questions.take_own()
    }

    /// Refuses questions that were not there when the client left.
    pub async fn refuse_if_gone(&self) {
        if self.gone.is_cancelled() {
            self.refuse(self.leave()).await;
        }
    }

    /// Answers a question in the client's name.
    ///
    /// # Errors
    /// Those of the method.
    pub async fn decide(&self, asked: &Asked, approved: bool) -> Reply<()> {
        let method = match asked.kind {
            QuestionKind::Exec => "exec.approval.resolve",
            QuestionKind::Plugin => "plugin.approval.resolve",
        };
        let decision = if approved { "allow-once" } else { "deny" };
        let params = json!({"id": asked.approval_id, "decision": decision});
        self.cx().call(method, &params).await.map(drop)
    }

    /// Makes questions a no. Who may not decide lets them lapse: that is less than
    /// a decision, and the turn is his.
    pub async fn refuse(&self, all: Vec<Asked>) {
        for asked in all {
            if self.decide(&asked, false).await.is_ok() {
                continue;
            }
            let approvals = &self.services().runs.parts().approvals;
            if let Ok(question) = approvals.find(asked.kind, &asked.approval_id) {
                question.lapse();
            }
        }
    }
}

impl State {
    /// What is queued from now on is not moved by what was queued before.
    fn mark_opened(&mut self) {
        if self.is_working && self.queue.back() != Some(&Job::Opened) {
            self.queue.push_back(Job::Opened);
        }
    }

    /// Opens a conversation, or none yet, of which the model is told this.
    fn open(&mut self, session: Option<Session>, hidden: Option<Hidden>) {
        (self.session, self.hidden) = (session, hidden);
        if let Some(watch) = self.watch.take() {
            watch.cancel();
        }
    }

    /// See [`View::move_to_named`].
    fn move_to_named(&mut self, from: Option<&Session>, named: &Resumed) {
        self.redirect(from, named.session.as_ref());
        if named.session.is_none() || !self.queue.contains(&Job::Opened) {
            self.open(named.session.clone(), named.hidden.clone());
        }
    }

    /// What waits to be said in one conversation is said in another one, up to where
    /// the client has opened one himself.
    fn redirect(&mut self, from: Option<&Session>, to: Option<&Session>) {
        let from = from.map(|session| &session.key);
        for job in self.queue.iter_mut().take_while(|job| **job != Job::Opened) {
            if let Job::Say(_, place) = job
                && place.as_ref().map(|session| &session.key) == from
            {
                *place = to.cloned();
            }
        }
    }
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Say(said, _) => said.text.len(),
            Self::Refuse(..) | Self::Watch(_) | Self::Opened => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> Session {
        let key = SessionKey::from_canonical(format!("agent:main:chat:{id}"));
        Session { key, id: id.to_owned() }
    }

    fn say(text: &str, place: Option<&Session>) -> Job {
        Job::Say(Said { text: text.to_owned(), session_id: None }, place.cloned())
    }

    #[test]
    fn what_waits_goes_along_and_what_was_said_elsewhere_stays() {
        let (old, new, later) = (session("old"), session("new"), session("later"));
        let watch = Job::Watch(old.key.clone());
        let mut state = State::default();
        state.queue.extend([say("a", Some(&old)), watch.clone(), say("b", Some(&later))]);
        state.redirect(Some(&old), Some(&new));
        assert_eq!(state.queue, [say("a", Some(&new)), watch.clone(), say("b", Some(&later))]);
        // One that was put away is begun by the first that is said in it.
        state.redirect(Some(&new), None);
        assert_eq!(state.queue, [say("a", None), watch.clone(), say("b", Some(&later))]);
        state.redirect(None, Some(&old));
        assert_eq!(state.queue, [say("a", Some(&old)), watch, say("b", Some(&later))]);
    }

    #[test]
    fn what_is_said_after_the_client_has_opened_a_conversation_is_not_moved() {
        let (old, new) = (session("old"), session("new"));
        let mut state = State::default();
        // Where nothing is going on there is nothing that could move it.
        state.mark_opened();
        assert!(state.queue.is_empty());
        state.is_working = true;
        state.queue.push_back(say("before", Some(&old)));
        state.mark_opened();
        state.mark_opened();
        state.queue.push_back(say("after", Some(&old)));
        state.redirect(Some(&old), Some(&new));
        // Opened by what was said before.
        state.open(Some(new.clone()), None);
        assert_eq!(state.queue, [say("before", Some(&new)), Job::Opened, say("after", Some(&old))]);
        let named = Resumed { id: "x".into(), messages: 0, session: Some(old), hidden: None };
        state.move_to_named(None, &named);
        assert_eq!(state.session.as_ref(), Some(&new), "what he has opened stays open");
        // What was said before is done: it is of no more concern.
        state.queue.drain(..2);
        state.redirect(named.session.as_ref(), Some(&new));
        assert_eq!(state.queue, [say("after", Some(&new))]);
        state.move_to_named(Some(&new), &named);
        assert_eq!(state.session, named.session);
    }
}
