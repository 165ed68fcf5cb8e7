//! What the screen is about, as a machine without input and output.
//!
//! Owns: what is known of the gateway, the session and the user's wishes. Promises:
//! [`State::update`] is all that changes it, from an event and the time; what is to be done is
//! told as effects. Must not: wait, draw, or read a clock.

mod answers;
mod approvals;
mod commands;
mod events;
mod keys;
mod parts;
mod picker;
mod place;
mod row;

use std::sync::Arc;

use serde_json::Value;

use super::editor::Editor;
use super::transcript::{Level, Transcript};
use crate::support::{Ids, json};

pub use approvals::{Approvals, Decision, Question};
pub use commands::COMMANDS;
pub use parts::{Ask, Effect, Event, Link, Overlay, Setup};
pub use picker::Picker;
pub use place::{Place, no_agent};
pub use row::Row;

use parts::{Outgoing, Reading};

/// Characters of a message that are asked for: as many as the gateway gives. Its usual number
/// cuts answers that were seen in full.
const HISTORY_CHARS: u64 = 500_000;
/// Messages that wait for a connection.
const MAX_OUTBOX: usize = 50;
/// How long a second Ctrl-C leaves.
const EXIT_WITHIN_MS: u64 = 2000;
/// No run takes a day.
const DAY_MS: u64 = 86_400_000;

/// All of it.
pub struct State {
    /// What was asked for.
    pub setup: Setup,
    /// The connection.
    pub link: Link,
    /// Where we are.
    pub place: Place,
    /// What is known of the session.
    pub row: Row,
    /// What was said.
    pub transcript: Transcript,
    /// What is being typed.
    pub editor: Editor,
    /// What waits for a decision.
    pub approvals: Approvals,
    /// What covers the conversation.
    pub overlay: Option<Overlay>,
    /// Whether outputs of tools are shown whole.
    pub shows_tools: bool,
    /// Whether thoughts are shown.
    pub shows_thoughts: bool,
    /// Commands of the gateway: name and description.
    pub commands: Vec<(String, String)>,
    /// The time of the last event, in milliseconds since the epoch.
    pub now: u64,
    ids: Arc<dyn Ids>,
    exit_until: u64,
    was_up: bool,
    outbox: Vec<Outgoing>,
    /// Taken by the gateway, and not yet known to be in the history.
    taken: Vec<String>,
    /// Runs of this screen that have not ended.
    open_runs: Vec<String>,
    reading: Reading,
    history_limit: u64,
    ending: Option<(Level, String)>,
    effects: Vec<Effect>,
    /// Which run is under way, and since when by this machine's clock.
    since: Option<(String, u64)>,
}

impl State {
    /// Before the first event.
    pub fn new(setup: Setup, ids: Arc<dyn Ids>, now: u64) -> Self {
        Self {
            history_limit: setup.history_limit,
            setup,
            link: Link::Down { why: "connecting".to_owned(), retry_at: now, tries: 0 },
            place: Place::default(),
            row: Row::default(),
            transcript: Transcript::default(),
            editor: Editor::default(),
            approvals: Approvals::default(),
            overlay: None,
            shows_tools: false,
            shows_thoughts: false,
            commands: Vec::new(),
            now,
            ids,
            exit_until: 0,
            was_up: false,
            outbox: Vec::new(),
            taken: Vec::new(),
            open_runs: Vec::new(),
            reading: Reading::default(),
            ending: None,
            effects: Vec::new(),
            since: None,
        }
    }

    /// Takes an event; gives what is to be done.
    pub fn update(&mut self, event: Event, now: u64) -> Vec<Effect> {
        self.now = now;
        match event {
            Event::Key(key) => self.key(key),
            Event::Paste(text) => self.paste(&text),
            Event::Up(hello) => self.up(&hello),
            Event::Down { why, retry_ms } => self.down(why, retry_ms),
            Event::Gap => self.read_history(),
            Event::Gateway(event) => self.gateway(&event),
            Event::Answer { ask, result } => self.answer(ask, result),
            Event::Tick => {}
        }
        for question in self.approvals.expire(now) {
            let command = question.command.join("\n");
            self.note(&format!("nobody decided in time, so this does not run: {command}"));
        }
        self.watch();
        std::mem::take(&mut self.effects)
    }

    /// Notes since when a run is seen.
    fn watch(&mut self) {
        let Some(live) = self.transcript.live() else {
            self.since = None;
            return;
        };
        if self.since.as_ref().is_none_or(|(run, _)| *run != live.run_id) {
            // Clocks of two machines differ, but not by a sensible time of a run.
            let told = live
                .started_at
                .filter(|at| self.now.checked_sub(*at).is_some_and(|age| age < DAY_MS));
            self.since = Some((live.run_id.clone(), told.unwrap_or(self.now)));
        }
    }

    /// For how many milliseconds the run is under way.
    pub fn elapsed(&self) -> u64 {
        self.since.as_ref().map_or(0, |(_, since)| self.now.saturating_sub(*since))
    }

    /// Whether the screen changes by itself, so that time has to be told.
    pub fn is_moving(&self) -> bool {
        self.is_busy() || self.link != Link::Up || self.approvals.len() > 0 || self.is_leaving()
    }

    /// Whether something runs or waits for its turn.
    pub fn is_busy(&self) -> bool {
        let is_sending = self.outbox.iter().any(|message| message.session == self.place.session);
        self.transcript.live().is_some() || !self.open_runs.is_empty() || is_sending
    }

    /// Whether another Ctrl-C leaves.
    pub const fn is_leaving(&self) -> bool {
        self.now < self.exit_until
    }

    /// How many messages wait for a connection.
    pub const fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// What was said, and is not known to have reached the gateway.
    pub fn unsent(&self) -> Vec<String> {
        self.outbox.iter().map(|message| message.text.clone()).collect()
    }

    /// What was said and is refused by this, with the reason.
    pub fn refused_by(&self, event: &Event) -> Option<String> {
        let Event::Answer { ask: Ask::Send(key), result: Err(why) } = event else { return None };
        let message = self.outbox.iter().find(|message| message.key == *key)?;
        Some(format!("{} ({why})", message.text))
    }

    /// Whether nothing of the session was read yet.
    pub const fn is_reading(&self) -> bool {
        self.reading.is_under_way
    }

    fn do_it(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn ask(&mut self, ask: Ask, method: &'static str, params: Value) {
        if self.link == Link::Up {
            self.do_it(Effect::Request(ask, method, params));
        } else if !ask.comes_again() {
            self.overlay = None;
            self.fail("there is no connection at the moment; try again when there is one");
        }
    }

    /// Says something that is not a part of the conversation.
    fn note(&mut self, text: &str) {
        self.transcript.notice(Level::Note, text);
    }

    fn fail(&mut self, text: &str) {
        self.transcript.notice(Level::Error, text);
    }

    fn up(&mut self, hello: &Value) {
        self.link = Link::Up;
        self.reading = Reading::default();
        let is_first = !std::mem::replace(&mut self.was_up, true);
        if is_first {
            self.place =
                Place::first(hello, self.setup.session.as_deref(), self.setup.agent.as_deref());
        } else {
            self.note("connected again");
        }
        self.ask(Ask::Follow, "sessions.subscribe", json!({}));
        self.ask(Ask::Approvals, "exec.approval.list", json!({}));
        self.ask(Ask::Commands, "commands.list", json!({"scope": "text", "includeArgs": false}));
        // The same keys again: what the gateway has already it does not take twice.
        for message in self.outbox.clone() {
            self.send(&message);
        }
        self.read_history();
        self.read_row();
        if let Some(message) = self.setup.message.take() {
            self.say(&message);
        }
    }

    fn down(&mut self, why: String, retry_ms: u64) {
        let tries = match &self.link {
            Link::Up => {
                self.note(&format!("the connection is lost: {why}"));
                1
            }
            Link::Down { tries, .. } => tries.saturating_add(1),
        };
        self.reading = Reading::default();
        self.link = Link::Down { why, retry_at: self.now.saturating_add(retry_ms), tries };
    }

    fn read_history(&mut self) {
        if self.link != Link::Up {
            return;
        }
        if self.reading.is_under_way {
            self.reading.is_old = true;
            return;
        }
        self.reading.begin();
        let params = json!({"sessionKey": self.place.session, "limit": self.history_limit,
            "maxChars": HISTORY_CHARS});
        let covers = self.taken.iter().chain(&self.open_runs).cloned().collect();
        self.ask(Ask::History(self.place.session.clone(), covers), "chat.history", params);
    }

    fn read_row(&mut self) {
        let (session, agent) = (self.place.session.clone(), self.place.agent.clone());
        let params = if session == "global" {
            json!({"includeGlobal": true, "limit": 200})
        } else {
            json!({"agentId": agent, "search": session, "limit": 20})
        };
        self.ask(Ask::Row(session), "sessions.list", params);
    }

    /// Sends a message of the user.
    fn say(&mut self, text: &str) {
        if self.outbox.len() >= MAX_OUTBOX {
            self.editor.set(text);
            self.fail("too many messages wait for the connection");
            return;
        }
        let message = Outgoing {
            key: self.ids.uuid(),
            session: self.place.session.clone(),
            text: text.to_owned(),
        };
        self.transcript.echo(&message.key, text);
        self.outbox.push(message.clone());
        if self.link == Link::Up {
            self.send(&message);
        }
        self.do_it(Effect::Bottom);
    }

    fn send(&mut self, message: &Outgoing) {
        let mut params = json!({"sessionKey": message.session, "message": message.text,
            "idempotencyKey": message.key});
        if let Some(thinking) = &self.setup.thinking {
            params["thinking"] = json!(thinking);
        }
        if self.setup.deliver {
            params["deliver"] = json!(true);
        }
        if let Some(limit) = self.setup.timeout_ms {
            params["timeoutMs"] = json!(limit);
        }
        self.ask(Ask::Send(message.key.clone()), "chat.send", params);
    }

    /// Shows another session.
    fn go(&mut self, change: impl FnOnce(&mut Place)) {
        change(&mut self.place);
        self.transcript.clear();
        self.editor.forget();
        self.row = Row::default();
        self.taken.clear();
        self.open_runs.clear();
        self.ending = None;
        self.reading = Reading::default();
        self.history_limit = self.setup.history_limit;
        self.do_it(Effect::Bottom);
        self.read_history();
        if self.link == Link::Up {
            self.read_row();
        }
        for message in
            self.outbox.clone().iter().filter(|message| message.session == self.place.session)
        {
            self.transcript.echo(&message.key, &message.text);
        }
    }
}

#[cfg(test)]
mod tests;
