//! What is being said at the moment.

use serde_json::Value;

use super::message::{args_of, entry_of, output_of, text_of};
use super::{Body, Level, MAX_ENDED, Tool, ToolState, Transcript};
use crate::cli::tui::text::{clean, one_line};

/// What a run is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The model has said nothing yet.
    Waiting,
    /// The model thinks.
    Thinking,
    /// Text comes.
    Speaking,
    /// A tool runs.
    Tool(String),
    /// A command waits for a person.
    Approval,
    /// The conversation is being summed up.
    Compacting,
    /// The model failed and is asked again.
    Retrying(String),
}

/// A run that is under way.
#[derive(Debug, Clone)]
pub struct Live {
    /// Its id.
    pub run_id: String,
    /// When it began, in milliseconds since the epoch, by the gateway's clock.
    pub started_at: Option<u64>,
    /// What it does.
    pub phase: Phase,
    /// Where the text of the current turn is.
    pub(super) text_at: Option<usize>,
    /// Where its thoughts are.
    pub(super) thought_at: Option<usize>,
}

impl Live {
    pub(super) fn new(run_id: &str, started_at: Option<u64>) -> Self {
        Self {
            run_id: run_id.to_owned(),
            started_at,
            phase: Phase::Waiting,
            text_at: None,
            thought_at: None,
        }
    }

    /// What is said from now on is another piece.
    pub(super) const fn end_turn(&mut self) {
        self.text_at = None;
        self.thought_at = None;
    }
}

impl Transcript {
    /// Takes an `agent` event of this session. Gives whether a history that is being read may
    /// not know of it.
    pub fn agent(&mut self, run_id: &str, stream: &str, data: &Value) -> bool {
        if self.has_ended(run_id) {
            return false;
        }
        if self.live.as_ref().is_none_or(|live| live.run_id != run_id) {
            self.live = Some(Live::new(run_id, data["startedAt"].as_u64()));
        }
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        match (stream, text("phase")) {
            ("assistant", _) => {
                self.spoken(&clean(text("text")), &clean(text("delta")));
                return false;
            }
            ("thinking", _) => self.think(&clean(text("text"))),
            ("tool", "start") => self.tool_start(data),
            ("tool", "update") => {
                self.tool_output(data, &data["partialResult"], ToolState::Running);
            }
            ("tool", "result") => {
                let state =
                    if data["isError"] == true { ToolState::Failed } else { ToolState::Done };
                self.tool_output(data, &data["result"], state);
            }
            ("approval", "requested") => self.approval(data, ToolState::Waiting),
            ("approval", "resolved") => self.approval(data, ToolState::Running),
            ("compaction", "start") => self.phase(Phase::Compacting),
            ("compaction", _) | ("lifecycle", "start") => self.phase(Phase::Waiting),
            ("lifecycle", "retry") => self.phase(Phase::Retrying(one_line(text("error")))),
            _ => return false,
        }
        true
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        if let Some(live) = &mut self.live {
            live.phase = phase;
        }
    }

    /// The whole text of the turn, and what of it is new.
    fn spoken(&mut self, whole: &str, fresh: &str) {
        let at = self.live.as_ref().and_then(|live| live.text_at);
        let known = at.and_then(|at| self.entries.get(at)).and_then(|entry| match &entry.body {
            Body::Answer(text) => Some(text.as_str()),
            _ => None,
        });
        let begins_anew = known.is_some_and(|known| whole == fresh && !whole.starts_with(known));
        if begins_anew && let Some(live) = &mut self.live {
            live.end_turn();
        }
        self.say(whole);
    }

    /// Shows this as what the turn has said.
    pub(super) fn say(&mut self, text: &str) {
        self.phase(Phase::Speaking);
        let at = self.live.as_ref().and_then(|live| live.text_at);
        match at {
            Some(at) => self.change(at, Body::Answer(text.to_owned())),
            None if text.trim().is_empty() => {}
            None => {
                let id = self.id("l");
                let at = self.push(id, Body::Answer(text.to_owned()));
                if let Some(live) = &mut self.live {
                    live.text_at = Some(at);
                }
            }
        }
    }

    fn think(&mut self, text: &str) {
        self.phase(Phase::Thinking);
        let thought = Body::Thought(text.to_owned());
        if let Some(at) = self.live.as_ref().and_then(|live| live.thought_at) {
            self.change(at, thought);
            return;
        }
        let id = self.id("l");
        let at = self.push(id, thought);
        if let Some(live) = &mut self.live {
            live.thought_at = Some(at);
        }
    }

    fn tool_at(&self, data: &Value) -> Option<usize> {
        let id = entry_of(data["toolCallId"].as_str()?);
        self.entries.iter().rposition(|entry| entry.id == id)
    }

    fn tool_start(&mut self, data: &Value) {
        if let Some(live) = &mut self.live {
            live.end_turn();
        }
        let name = one_line(data["name"].as_str().unwrap_or("tool"));
        self.phase(Phase::Tool(name.clone()));
        // It comes twice to those who follow both the run and the session.
        if self.tool_at(data).is_some() {
            return;
        }
        let tool = Tool {
            name,
            args: args_of(&data["args"]),
            output: String::new(),
            state: ToolState::Running,
        };
        let id = entry_of(data["toolCallId"].as_str().unwrap_or_default());
        self.push(id, Body::Tool(tool));
    }

    fn tool_output(&mut self, data: &Value, result: &Value, state: ToolState) {
        if self.tool_at(data).is_none() {
            self.tool_start(data);
        }
        let Some(at) = self.tool_at(data) else { return };
        if let Some(Body::Tool(tool)) = self.entries.get(at).map(|entry| entry.body.clone()) {
            // A late update does not undo a result.
            if tool.state != ToolState::Running && state == ToolState::Running {
                return;
            }
            let output = match result {
                Value::String(text) => output_of(&Value::String(text.clone())),
                result => output_of(&result["content"]),
            };
            self.change(at, Body::Tool(Tool { output, state, ..tool }));
        }
        if state != ToolState::Running {
            self.phase(Phase::Waiting);
        }
    }

    fn approval(&mut self, data: &Value, state: ToolState) {
        let is_waiting = state == ToolState::Waiting;
        if let Some(at) = self.tool_at(data)
            && let Some(Body::Tool(tool)) = self.entries.get(at).map(|entry| entry.body.clone())
        {
            let name = tool.name.clone();
            self.change(at, Body::Tool(Tool { state, ..tool }));
            self.phase(Phase::Tool(name));
        }
        if is_waiting {
            self.phase(Phase::Approval);
        }
    }

    /// A run is over; gives what to say of its end, if it was none that people expect.
    pub fn ended(&mut self, payload: &Value) -> Option<(Level, String)> {
        let run_id = payload["runId"].as_str()?;
        if !self.has_ended(run_id) {
            self.ended.push_back(run_id.to_owned());
        }
        let surplus = self.ended.len().saturating_sub(MAX_ENDED);
        self.ended.drain(..surplus);
        if self.live.as_ref().is_some_and(|live| live.run_id == run_id) {
            let text = clean(&text_of(&payload["message"]["content"]));
            // Until the history is there: of a run that nobody saw begin, all is new.
            if self.live.as_ref().is_some_and(|live| live.text_at.is_none())
                && self.is_silent_since_user()
                && !text.is_empty()
            {
                self.say(&text);
            }
            self.live = None;
        }
        match payload["state"].as_str() {
            Some("error") => {
                let why = payload["errorMessage"].as_str().unwrap_or("see the gateway's log");
                Some((Level::Error, format!("the run failed: {why}")))
            }
            Some("aborted") => Some((
                Level::Note,
                match payload["stopReason"].as_str() {
                    Some("timeout") => "the run took too long and was stopped".to_owned(),
                    _ => "the run was stopped".to_owned(),
                },
            )),
            _ => None,
        }
    }

    /// Whether nothing was shown since the user said something.
    fn is_silent_since_user(&self) -> bool {
        self.entries.last().is_none_or(|entry| matches!(entry.body, Body::User { .. }))
    }
}
