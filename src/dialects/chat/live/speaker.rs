//! An open connection.
//!
//! Promises: whatever a client sends, the connection stays open; what is said is
//! done in order, everything else at once, also in the middle of a response; when
//! the client goes, what its own turns ask becomes a no, and what runs goes on to its
//! end in the transcript.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;

use super::action::{Action, Said, shortened};
use super::conversation;
use super::frame;
use super::view::{Job, View};
use super::work;
use crate::agent::approvals::QuestionKind;
use crate::bus::{Event, EventKind, Subscriber};
use crate::commands::is_stop_word;
use crate::dialects::chat::lockdown;
use crate::gateway::{Frames, Speaker, Utf8Bytes};
use crate::support::{BoxFuture, json};

/// An open connection.
pub struct Connection(Arc<View>);

impl Connection {
    /// Of a client that was let in.
    pub fn new(view: View) -> Self {
        Self(Arc::new(view))
    }

    async fn act(&self, frame: &str) {
        let view = &self.0;
        let action = match Action::parse(frame) {
            Ok(Some(action)) => action,
            Ok(None) => return,
            Err(text) => return view.tell(&frame::error(&text)),
        };
        let is_locked = lockdown::is_on(&view.services().settings.now());
        match action {
            // What is said hears so from the commands, one of which ends it.
            Action::Send(said) => self.say(said, is_locked).await,
            _ if is_locked => view.tell(&frame::error(lockdown::TOLD)),
            Action::NewSession => self.begin().await,
            Action::ResumeSession(id) => self.resume(&id).await,
            Action::ApproveTool { call_id, approved } => self.approve(&call_id, approved).await,
        }
    }

    async fn say(&self, said: Said, is_locked: bool) {
        // A stop does not wait in line, least of all behind what it is to stop.
        if !is_locked && is_stop_word(&said.text) {
            self.stop(said.session_id.as_deref()).await;
        }
        work::queue(&self.0, |open| Job::Say(said, open));
    }

    /// Stops what runs in a conversation that is named, or else in the one that is open.
    async fn stop(&self, named: Option<&str>) {
        let session = match named {
            // What cannot be found is told when the word has its turn.
            Some(id) => work::find(&self.0, id).await.ok().flatten().and_then(|it| it.session),
            None => self.0.session(),
        };
        let Some(session) = session else { return };
        let params = json!({"sessionKey": session.key.as_str()});
        if let Err(error) = self.0.cx().call("chat.abort", &params).await {
            tracing::debug!(error = error.message, "a stop word stops nothing");
        }
    }

    async fn begin(&self) {
        match conversation::begin(&self.0.cx(), None).await {
            Ok(session) => {
                let created = frame::session_created(&session.id);
                self.0.open(Some(session), None);
                self.0.tell(&created);
            }
            Err(error) => self.0.tell(&frame::error(&error.message)),
        }
    }

    async fn resume(&self, id: &str) {
        let found = match work::find(&self.0, id).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                let text = format!("Session {} not found", shortened(id));
                return self.0.tell(&frame::error(&text));
            }
            Err(error) => return self.0.tell(&frame::error(&error.message)),
        };
        let key = found.session.as_ref().map(|session| session.key.clone());
        self.0.open(found.session, found.hidden);
        self.0.tell(&frame::session_resumed(&found.id, found.messages));
        self.0.tell(&frame::session_created(&found.id));
        let Some(key) = key else { return };
        self.0.show_open_questions(&key, false);
        if self.0.services().runs.active(&key).is_some() {
            work::queue(&self.0, |_| Job::Watch(key));
        }
    }

    async fn approve(&self, call_id: &str, approved: bool) {
        let view = &self.0;
        if let Err(error) = view.cx().check("exec.approval.resolve") {
            return view.tell(&frame::error(&error.message));
        }
        let Some(asked) = view.with_questions(|all| all.find(call_id).cloned()) else {
            return view.tell(&frame::approval_resolved(None, call_id, approved));
        };
        match view.decide(&asked, approved).await {
            // Told here or by the turn that waited, whoever comes first.
            Ok(()) => view.tell_questions(|all| all.settle(&asked.approval_id, approved)),
            Err(error) => {
                // Most often somebody was faster, or nobody waits for it any more.
                view.settle_ended();
                if view.with_questions(|all| all.has(&asked.approval_id)) {
                    view.tell(&frame::error(&error.message));
                }
            }
        }
    }

    /// A question of a turn that began elsewhere, in the conversation that is open
    /// here. Those of our own turns are told by the turn.
    fn overhear(&self, kind: QuestionKind, payload: &Value) {
        let view = &self.0;
        let id = payload["id"].as_str().unwrap_or_default();
        let key = payload["request"]["sessionKey"].as_str().unwrap_or_default();
        let is_open = view.session().is_some_and(|session| session.key.as_str() == key);
        if !is_open || view.follows(key) {
            return;
        }
        view.overhear(kind, id);
    }

    fn overhear_answer(&self, payload: &Value) {
        let id = payload["id"].as_str().unwrap_or_default();
        let approved = payload["decision"].as_str().is_some_and(|it| it.starts_with("allow"));
        self.0.tell_questions(|all| all.settle(id, approved));
    }
}

impl Speaker for Connection {
    fn ping_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.0.subscriber
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async move {
            let acting = AssertUnwindSafe(self.act(&message)).catch_unwind();
            if acting.await.is_err() {
                tracing::error!(conn = %self.0.subscriber.conn_id, "an action panicked");
                self.0.tell(&frame::error("Internal error"));
            }
        }))
    }

    fn render(&mut self, event: &Event, _: &mut Frames) {
        use EventKind as Kind;
        let payload = || serde_json::from_str(event.payload()).unwrap_or_default();
        match event.kind {
            Kind::ExecApprovalRequested => self.overhear(QuestionKind::Exec, &payload()),
            Kind::PluginApprovalRequested => self.overhear(QuestionKind::Plugin, &payload()),
            Kind::ExecApprovalResolved | Kind::PluginApprovalResolved => {
                self.overhear_answer(&payload());
            }
            _ => {}
        }
    }

    fn farewell(&mut self) -> Vec<String> {
        self.0.owed().map(|frame| frame.to_string()).into_iter().collect()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let asked = self.0.leave();
        if !asked.is_empty() {
            let view = Arc::clone(&self.0);
            let tasks = &self.0.services().tasks;
            tasks.spawn("chat-deny", async move { view.refuse(asked).await });
        }
    }
}
