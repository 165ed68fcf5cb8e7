//! What runs work with, and what they all do with it: store a message, tell of
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::bus::{Audience, Bus, ChatMark, Event, EventKind};
use crate::channels::Channels;
use crate::config::{AgentSettings, Settings};
use crate::cron::Cron;
use crate::nodes::Nodes;
use crate::protocol::Role;
use crate::protocol::message::{AgentMessage, AssistantMessage};
use crate::sessions::{
    AppendOptions, KeyRules, SessionError, SessionKey, Sessions, StoredMessage, message_display,
};
use crate::store::{RunOutcome, SessionEntry, Store, StoreError, Teller};
use crate::support::{Clock, Ids, Live, Tasks, json, sort, stability};
use crate::telemetry::without_secrets;

use super::approvals::Approvals;
use super::emitter::Emitter;
use super::exec::Processes;
use super::feed::{Feed, RunNews};
use super::models::Models;
use super::notices::{Notices, Untold, shortened};
use super::restart_note::RestartNotes;
use super::run::{ActiveRun, RunEnd};
use super::session_events::SessionEvents;
use super::skills::Skills;
use super::tally::Tally;
use super::tools::Tools;
use super::unrecorded::{Ended, Unrecorded};
use super::workspace::Workspaces;

/// What runs work with.
pub struct RunsParts {
    /// The effective configuration.
    pub settings: Live<Settings>,
    /// How session keys are read.
    pub keys: Live<KeyRules>,
    /// Conversations.
    pub sessions: Sessions,
    /// Run records.
    pub store: Arc<dyn Store>,
    /// Models.
    pub models: Models,
    /// Where events go.
    pub bus: Bus,
    /// What happens in runs, for those inside of the gateway.
    pub feed: Feed,
    /// Events about sessions.
    pub events: SessionEvents,
    /// Which commands may run.
    pub approvals: Approvals,
    /// Chat services.
    pub channels: Channels,
    /// Tools.
    pub tools: Tools,
    /// Machines that offer commands.
    pub nodes: Arc<Nodes>,
    /// Commands that run.
    pub processes: Arc<Processes>,
    /// Folders of agents.
    pub workspaces: Arc<Workspaces>,
    /// Skills.
    pub skills: Arc<Skills>,
    /// System events that wait for a turn.
    pub notices: Notices,
    /// What is told after the next start.
    pub restart_notes: RestartNotes,
    /// Jobs and heartbeats.
    pub cron: Arc<Cron>,
    /// How runs have ended.
    pub tally: Tally,
    /// Ends of runs that are not in their records yet.
    pub unrecorded: Unrecorded,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// Background tasks.
    pub tasks: Tasks,
}

impl RunsParts {
    /// Adds a system event that waits for a session's next turn. It survives a
    /// stop of the gateway. Who adds it may go away: what is written down waits here, too.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn notice(
        &self,
        key: &SessionKey,
        text: &str,
        teller: Teller,
    ) -> Result<(), StoreError> {
        let (store, notices) = (Arc::clone(&self.store), self.notices.clone());
        let (key, text) = (key.clone(), shortened(text));
        let adding = async move {
            let added = store.add_notice(key.as_str(), text.clone(), teller).await;
            added.map(|id| notices.add_stored(&key, &text, teller, id))
        };
        let added = self.tasks.result_of("notice", adding).await;
        added.unwrap_or(Err(StoreError::Stopped { operation: "add a system event" }))
    }

    /// The same for one that nobody would send again: where too many wait already, it is
    /// in memory alone.
    ///
    /// # Errors
    /// When it cannot be written down for another reason.
    pub async fn remind(
        &self,
        key: &SessionKey,
        text: &str,
        teller: Teller,
    ) -> Result<(), StoreError> {
        match self.notice(key, text, teller).await {
            Err(error) if error.is_crowded() => {
                tracing::warn!(session = %key, "a reminder is kept until a stop only");
                self.notices.add(key, text, teller);
                Ok(())
            }
            kept => kept,
        }
    }

    /// An event of another program that the database has under this id waits, too.
    pub fn noted(&self, key: &SessionKey, text: &str, id: u64) {
        self.notices.add_stored(key, text, Teller::Other, id);
    }

    /// Takes the system events that wait for a session. They are kept for a next
    /// time until they have been heard.
    pub fn take_notices(&self, key: &SessionKey) -> Untold<'_> {
        Untold::of(self, key)
    }

    /// What belongs to a session that was deleted goes with it: its commands end, and
    /// system events that wait there are for nobody. Where a main session was kept under
    /// this key that has another one by the rules of now, the key means that one from now on.
    pub fn session_deleted(&self, key: &SessionKey) {
        self.processes.end_of_session(key);
        self.notices.forget(key);
        self.forget_kept(key);
    }

    /// Looks whether the main sessions are still there that are kept under other keys. For
    /// whoever has set rules that were made before: one may have been deleted meanwhile.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn look_at_kept(&self) -> Result<(), SessionError> {
        for key in &self.keys.now().kept {
            if self.sessions.entry(key).await?.is_none() {
                self.forget_kept(key);
            }
        }
        Ok(())
    }

    fn forget_kept(&self, key: &SessionKey) {
        // Of the rules as they are by then: a reload may set others at the same time.
        let without = |rules: &KeyRules| {
            let mut rules = rules.clone();
            rules.kept.remove(key);
            rules
        };
        if self.keys.now().kept.contains(key) || self.sessions.rules().kept.contains(key) {
            self.keys.change(without);
            self.sessions.change_rules(without);
        }
    }

    /// Brings back the system events that waited when the last process ended.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn recall_notices(&self) -> Result<(), StoreError> {
        for row in self.store.notices().await? {
            let key = SessionKey::from_canonical(row.session_key);
            self.notices.add_stored(&key, &row.text, row.teller, row.id);
        }
        Ok(())
    }

    /// The agent that a session belongs to; the default one for an unknown id.
    pub fn agent_of(&self, key: &SessionKey) -> AgentSettings {
        self.settings.now().agents.agent_or_default(key.agent(&self.keys.now()).as_str())
    }

    /// The devices that were approved as nodes, and when.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn node_devices(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let devices = self.store.devices(self.clock.now_ms()).await?;
        let nodes = devices.into_iter().filter_map(|device| {
            let paired = device.paired?;
            let token = paired.tokens.get(Role::Node.as_str())?;
            token.revoked_at_ms.is_none().then_some((device.device_id, paired.approved_at_ms))
        });
        Ok(sort::map(nodes))
    }

    /// Adds a message to a transcript, making the session if need be.
    pub async fn append(
        &self,
        key: &SessionKey,
        message: AgentMessage,
        id: Option<String>,
    ) -> Result<StoredMessage, SessionError> {
        let workspace = self.agent_of(key).workspace;
        let entry = self.sessions.ensure(key, &workspace).await?;
        self.append_to(key, &entry, message, id).await
    }

    /// The same, for whoever has just read the session's entry.
    pub async fn append_to(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        message: AgentMessage,
        id: Option<String>,
    ) -> Result<StoredMessage, SessionError> {
        let options = AppendOptions { id, ..AppendOptions::default() };
        let stored = self.sessions.append_to(key, entry, message, options).await?;
        self.feed.of_session(key, || RunNews::Stored(stored.clone()));
        Ok(stored)
    }

    /// Adds what a run says or does to its transcript. What a heartbeat does by the way lifts
    /// its session in no list.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn append_step(
        &self,
        run: &ActiveRun,
        message: AgentMessage,
        id: Option<String>,
    ) -> Result<StoredMessage, SessionError> {
        let workspace = self.agent_of(&run.key).workspace;
        let entry = self.sessions.ensure(&run.key, &workspace).await?;
        let is_quiet = run.terms.is_heartbeat;
        let options = AppendOptions { id, is_quiet, ..AppendOptions::default() };
        let stored = self.sessions.append_to(&run.key, &entry, message, options).await?;
        self.feed.of_session(&run.key, || RunNews::Stored(stored.clone()));
        Ok(stored)
    }

    /// Adds the message of a run, unless it is there already.
    pub async fn append_once(
        &self,
        key: &SessionKey,
        message: AgentMessage,
        id: &str,
        run_id: &str,
    ) -> Result<StoredMessage, SessionError> {
        self.append_under(key, message, Some(id.into()), run_id).await
    }

    async fn append_under(
        &self,
        key: &SessionKey,
        message: AgentMessage,
        id: Option<String>,
        idempotency_key: &str,
    ) -> Result<StoredMessage, SessionError> {
        let workspace = self.agent_of(key).workspace;
        let entry = self.sessions.ensure(key, &workspace).await?;
        let idempotency_key = Some(idempotency_key.to_owned());
        let options = AppendOptions { id, idempotency_key, ..AppendOptions::default() };
        let stored = self.sessions.append_to(key, &entry, message, options).await?;
        if !stored.is_repeated {
            self.feed.of_session(key, || RunNews::Stored(stored.clone()));
        }
        Ok(stored)
    }

    /// Adds a message of the gateway itself, which is none of a run, to a session that need
    /// not be there yet.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn say_in(
        &self,
        key: &SessionKey,
        message: AssistantMessage,
    ) -> Result<StoredMessage, SessionError> {
        let workspace = self.agent_of(key).workspace;
        let entry = self.sessions.ensure(key, &workspace).await?;
        self.append_to(key, &entry, AgentMessage::Assistant(message), None).await
    }

    /// The same, unless it is there already under this key with this time.
    ///
    /// # Errors
    /// As before.
    pub async fn say_once_in(
        &self,
        key: &SessionKey,
        message: AssistantMessage,
        idempotency_key: &str,
    ) -> Result<StoredMessage, SessionError> {
        self.append_under(key, AgentMessage::Assistant(message), None, idempotency_key).await
    }

    /// Begins the session of a run anew when its message came too late for the
    /// old transcript. What the gateway asks by itself is no reason to: it goes on
    /// with what was said last.
    pub async fn renew_if_stale(&self, run: &ActiveRun) -> Result<(), SessionError> {
        if run.terms.is_heartbeat {
            return Ok(());
        }
        let workspace = self.agent_of(&run.key).workspace;
        let (at, channel) = (run.accepted_at, run.terms.came_by.as_deref());
        if self.sessions.renew_if_stale(&run.key, &workspace, at, channel).await? {
            tracing::info!(session = %run.key, "stale session begins anew");
        }
        Ok(())
    }

    /// What tells of a run.
    pub(super) fn emitter(&self, run: &Arc<ActiveRun>) -> Emitter {
        let (run, clock) = (Arc::clone(run), Arc::clone(&self.clock));
        Emitter::new(run, self.bus.clone(), self.feed.clone(), clock)
    }

    /// Tells those who watch of a stored message.
    pub fn announce(&self, key: &SessionKey, stored: &StoredMessage) {
        if !self.events.has_watchers(key) {
            return;
        }
        // Silent messages are kept, but not shown.
        if let Some(display) = message_display(&stored.message, &stored.id, stored.seq) {
            self.events.message(key, &stored.session, &display, &stored.id, stored.seq);
        }
    }

    /// Tells clients and followers of a message of the gateway's own, as the end of a run.
    pub fn publish_note(&self, key: &SessionKey, run_id: &str, seq: u64, stored: &StoredMessage) {
        self.show_note(key, run_id, seq, stored);
        self.feed_note(key, run_id, stored);
    }

    /// Shows a message of the gateway's own to clients as the end of a run.
    pub fn show_note(&self, key: &SessionKey, run_id: &str, seq: u64, stored: &StoredMessage) {
        let mut message = message_display(&stored.message, &stored.id, stored.seq);
        if let Some(Value::Object(members)) = &mut message {
            members.shift_remove("__openclaw");
        }
        let payload = json!({"runId": run_id, "sessionKey": key.as_str(), "seq": seq,
            "state": "final", "message": message});
        let mark = ChatMark { run_id: run_id.into(), text: None, begins: false };
        let event = Event::new(EventKind::Chat, &payload).about(key.clone()).chat(mark);
        self.bus.deliver(event, &Audience::Everyone);
    }

    /// Tells those inside of the gateway of it who follow the session.
    pub fn feed_note(&self, key: &SessionKey, run_id: &str, stored: &StoredMessage) {
        self.feed.of_session(key, || RunNews::Noted {
            run_id: run_id.to_owned(),
            answer: stored.clone(),
        });
    }

    /// How a run ended, for `diagnostics.stability`.
    fn note_end(&self, run: &ActiveRun, end: &RunEnd) {
        let (outcome, reason) = match end {
            RunEnd::Answered => ("completed", None),
            RunEnd::Failed(error) => ("error", Some(without_secrets(error).into_owned())),
            RunEnd::Aborted(reason) => ("aborted", Some(reason.as_str().to_owned())),
        };
        let lasted = self.clock.now_ms().saturating_sub(run.accepted_at);
        let source = run.family.as_str();
        stability::note(
            "message.processed",
            json!({"source": source, "durationMs": lasted, "outcome": outcome, "reason": reason}),
        );
    }

    /// There is something new to see in the session, unless it was a heartbeat.
    async fn count_result(&self, run: &ActiveRun) -> Result<(), StoreError> {
        if run.terms.is_heartbeat {
            return Ok(());
        }
        self.store.add_result(run.key.as_str()).await
    }

    /// Writes down how a run ended, unless that was done. A message that did not reach its transcript
    /// stays in the record, for the next start to put there.
    pub(super) async fn record_end(&self, run: &ActiveRun, end: &RunEnd) {
        if !run.decide(end) {
            return;
        }
        self.tally.count(end);
        self.note_end(run, end);
        let outcome = match end {
            RunEnd::Answered => RunOutcome::Done,
            RunEnd::Failed(error) => RunOutcome::Failed(run.progress().recorded(error)),
            RunEnd::Aborted(reason) => RunOutcome::Aborted(reason.as_str()),
        };
        let (is_stored, now_ms) = (run.is_stored(), self.clock.now_ms());
        let ended = Ended { outcome, is_stored, now_ms };
        let recorded = self.unrecorded.record(run.family.as_str(), &run.id, ended);
        // Both at once, so that they are one commit.
        let (recorded, counted) = tokio::join!(recorded, self.count_result(run));
        if let Err(error) = recorded.and(counted) {
            tracing::error!(run = %run.id, %error, "end of run not recorded yet");
        }
    }
}
