//! Commands that wait for a person.
//!
//! Promises: a key that was meant for the message does not decide anything: the question has
//! to be on the screen for a moment, and letters choose nothing.

use std::collections::VecDeque;

use serde_json::Value;

use crate::cli::screen::spelled_out;
use crate::cli::tui::text::spelled;

/// Keys are not taken for this long after a question appeared.
const ARMED_AFTER_MS: u64 = 700;
/// More than this many questions at once nobody answers.
const MAX_OPEN: usize = 100;

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// This command, now.
    AllowOnce,
    /// This command, now and later.
    AllowAlways,
    /// Not at all.
    Deny,
}

impl Decision {
    const ALL: [Self; 3] = [Self::AllowOnce, Self::AllowAlways, Self::Deny];

    /// As it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow-once",
            Self::AllowAlways => "allow-always",
            Self::Deny => "deny",
        }
    }

    /// As it is shown.
    pub const fn label(self) -> &'static str {
        match self {
            Self::AllowOnce => "Allow once",
            Self::AllowAlways => "Always",
            Self::Deny => "Deny",
        }
    }
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Names it.
    pub id: String,
    /// The command, each line of it spelled out.
    pub command: Vec<String>,
    /// Where it would run.
    pub cwd: String,
    /// On what: the gateway, a node, a sandbox.
    pub host: String,
    /// Which session wants it.
    pub session: String,
    /// Which agent.
    pub agent: String,
    /// What the gateway warns of, each line of it spelled out.
    pub warning: Vec<String>,
    /// What may be decided.
    pub decisions: Vec<Decision>,
    /// When it is over, in milliseconds since the epoch.
    pub expires_at: u64,
}

impl Question {
    /// Of one that was asked just now, only how long it waits is taken: the gateway's clock may be
    /// another one than this machine's.
    fn read(payload: &Value, asked_now: Option<u64>) -> Option<Self> {
        let time = |name: &str| payload[name].as_u64();
        let expires_at = match (asked_now, time("createdAtMs"), time("expiresAtMs")) {
            (Some(now), Some(asked), Some(end)) => now.saturating_add(end.saturating_sub(asked)),
            (_, _, end) => end.unwrap_or(u64::MAX),
        };
        let request = &payload["request"];
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let spelled_line = |name: &str| spelled(text(name)).join("\\n");
        let allowed = request["allowedDecisions"].as_array();
        let may = |decision: &Decision| {
            allowed.is_none_or(|all| all.iter().any(|it| it == decision.as_str()))
        };
        Some(Self {
            id: payload["id"].as_str()?.to_owned(),
            command: spelled(text("command")),
            cwd: spelled_line("cwd"),
            host: spelled_line("host"),
            session: spelled_line("sessionKey"),
            agent: spelled_line("agentId"),
            warning: text("warningText").lines().map(spelled_out).collect(),
            decisions: Decision::ALL.into_iter().filter(may).collect(),
            expires_at,
        })
    }
}

/// All that wait.
#[derive(Debug, Default)]
pub struct Approvals {
    open: VecDeque<Question>,
    /// The one that is decided: an index of its decisions.
    choice: usize,
    /// First line of the command that is shown.
    pub scroll: usize,
    is_hidden: bool,
    shown_at: u64,
}

impl Approvals {
    /// The question on the screen.
    pub fn shown(&self) -> Option<&Question> {
        self.open.front().filter(|_| !self.is_hidden)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// What would be decided.
    pub fn choice(&self) -> Option<Decision> {
        self.open.front().and_then(|question| question.decisions.get(self.choice)).copied()
    }

    /// The gateway asks just now.
    pub fn ask(&mut self, payload: &Value, now: u64) {
        self.add(Question::read(payload, Some(now)), now);
    }

    fn add(&mut self, question: Option<Question>, now: u64) {
        let Some(question) = question.filter(|question| question.expires_at > now) else { return };
        if self.open.len() >= MAX_OPEN || self.open.iter().any(|known| known.id == question.id) {
            return;
        }
        self.open.push_back(question);
        if self.open.len() == 1 || self.is_hidden {
            self.show(now);
        }
    }

    /// The gateway tells all.
    pub fn replace(&mut self, list: &Value, now: u64) {
        let was = self.open.front().map(|question| question.id.clone());
        let (is_hidden, choice) = (self.is_hidden, self.choice);
        self.open.clear();
        for payload in list.as_array().into_iter().flatten() {
            self.add(Question::read(payload, None), now);
        }
        if was.is_some() && self.open.front().map(|question| question.id.clone()) == was {
            (self.is_hidden, self.choice) = (is_hidden, choice);
        }
    }

    /// It is decided, or over.
    pub fn remove(&mut self, id: &str, now: u64) -> Option<Question> {
        let at = self.open.iter().position(|question| question.id == id)?;
        let gone = self.open.remove(at);
        if at == 0 {
            self.show(now);
        }
        gone
    }

    /// Takes away those whose time is over.
    pub fn expire(&mut self, now: u64) -> Vec<Question> {
        let over: Vec<String> = self
            .open
            .iter()
            .filter(|question| question.expires_at <= now)
            .map(|question| question.id.clone())
            .collect();
        over.iter().filter_map(|id| self.remove(id, now)).collect()
    }

    /// Shows the first one. What is chosen at first does no harm.
    pub fn show(&mut self, now: u64) {
        self.is_hidden = false;
        self.scroll = 0;
        self.shown_at = now;
        let decisions = self.open.front().map_or(&[][..], |question| &question.decisions);
        self.choice =
            decisions.iter().position(|decision| *decision == Decision::Deny).unwrap_or(0);
    }

    /// Puts the question away; it still waits.
    pub const fn hide(&mut self) {
        self.is_hidden = true;
    }

    /// Whether keys count already.
    pub const fn is_armed(&self, now: u64) -> bool {
        now >= self.shown_at.saturating_add(ARMED_AFTER_MS)
    }

    /// Chooses the next decision, or the one before.
    pub fn step(&mut self, by: isize) {
        let count = self.open.front().map_or(0, |question| question.decisions.len());
        if count > 0 {
            let at = isize::try_from(self.choice).unwrap_or(0) + by;
            self.choice =
                usize::try_from(at.rem_euclid(isize::try_from(count).unwrap_or(1))).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn asked(id: &str, expires: u64) -> Value {
        json!({"id": id, "expiresAtMs": expires, "request": {"command": "rm \u{1b}[2K\n-rf /", "cwd": "/w",
            "host": "gateway", "warningText": "It sets:\nX='\u{2800}'",
            "allowedDecisions": ["allow-once", "deny"]}})
    }

    #[test]
    fn a_question_shows_everything_and_begins_at_no() {
        let mut approvals = Approvals::default();
        approvals.ask(&asked("a", 5000), 100);
        let question = approvals.shown().unwrap();
        assert_eq!(question.command, ["rm \\u{1b}[2K", "-rf /"]);
        assert_eq!(question.warning, ["It sets:", "X='\\u{2800}'"]);
        assert_eq!(question.decisions, [Decision::AllowOnce, Decision::Deny]);
        assert_eq!(approvals.choice(), Some(Decision::Deny));
        assert!(!approvals.is_armed(200) && approvals.is_armed(1000));
        approvals.step(1);
        assert_eq!(approvals.choice(), Some(Decision::AllowOnce));
        approvals.step(-1);
        assert_eq!(approvals.choice(), Some(Decision::Deny));
    }

    #[test]
    fn they_wait_in_order_and_go_when_their_time_is_over() {
        let mut approvals = Approvals::default();
        approvals.ask(&asked("a", 500), 0);
        approvals.ask(&asked("b", 900), 0);
        approvals.ask(&asked("b", 900), 0);
        assert_eq!(approvals.len(), 2);
        assert_eq!(
            approvals.expire(500).iter().map(|it| it.id.as_str()).collect::<Vec<_>>(),
            ["a"]
        );
        assert_eq!(approvals.shown().unwrap().id, "b");
        approvals.hide();
        assert_eq!(approvals.shown(), None);
        approvals.replace(&json!([asked("b", 900), asked("old", 400)]), 600);
        assert_eq!((approvals.shown(), approvals.len()), (None, 1), "it stays hidden");
        approvals.ask(&asked("c", 900), 600);
        assert_eq!(approvals.shown().unwrap().id, "b");
    }
}
