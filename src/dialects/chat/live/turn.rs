//! One response: what happens in its run, in the frames of the dialect.
//!
//! Owns: what was told of it. Promises: text that comes only at the end is told
//! then; the files and cards of a response come after its words. Must not: wait,
//! send anything, or say `done`.

use serde_json::Value;

use super::frame;
use crate::agent::feed::{Ending, RunNews, Told};
use crate::agent::guardrails::{GUARDRAILS, GuardNews};
use crate::agent::tools::ToolOutput;
use crate::agent::{AbortReason, Card};
use crate::providers::StreamEvent;
use crate::sessions::SessionKey;

/// Most cards of one response; more are not for a reader.
const CARDS_MAX: usize = 20;
/// What is called for a response without words.
const NO_ANSWER: &str = "The model did not respond. Try again, or choose another model \
                         with /model.";
/// What is told of one that has no end, though nobody has stopped it.
const TOO_LONG: &str = "It took too long and was stopped.";
/// Why the policy says no, in the words of the original.
const BY_RULE: &str = "Denied by guardrail rule";
/// The file that a skill is.
const SKILL_FILE: &str = "SKILL.md";

/// How a response ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// With an error, in words for people.
    Failed(String),
    /// Somebody stopped it.
    Stopped,
}

impl End {
    /// How one ends whose run was stopped.
    pub fn of_stop(reason: AbortReason) -> Self {
        match reason {
            AbortReason::Timeout => Self::Failed(TOO_LONG.to_owned()),
            AbortReason::Rpc
            | AbortReason::Stop
            | AbortReason::Shutdown
            | AbortReason::Interrupt => Self::Stopped,
        }
    }
}

/// What a piece of news means.
#[derive(Debug, Default, PartialEq)]
pub struct Heard {
    /// What the client is told.
    pub frames: Vec<Value>,
    /// How the response ends, when it does.
    pub end: Option<End>,
}

impl From<Value> for Heard {
    fn from(frame: Value) -> Self {
        Self { frames: vec![frame], end: None }
    }
}

/// One response.
#[derive(Debug)]
pub struct Turn {
    /// The run that answers.
    pub run_id: String,
    /// Its session.
    pub key: SessionKey,
    /// All text that was told.
    said: String,
    /// Whether it was asked for here, and is not only looked at.
    pub is_ours: bool,
    /// Whether news were missed: what is said is then read off the run.
    is_late: bool,
    /// Whether the model wrote anything, be it that nothing is to be said.
    has_written: bool,
    /// Calls that go on of which was told that they began.
    open: Vec<String>,
    cards: Vec<Value>,
}

impl Turn {
    /// The response of this run, which was asked for here, and of which nothing was
    /// told.
    pub fn new(run_id: String, key: SessionKey) -> Self {
        Self {
            run_id,
            key,
            said: String::new(),
            is_ours: true,
            is_late: false,
            has_written: false,
            open: Vec::new(),
            cards: Vec::new(),
        }
    }

    /// The response of a run that is looked at from its middle on.
    pub fn watched(run_id: String, key: SessionKey) -> Self {
        Self { is_ours: false, is_late: true, ..Self::new(run_id, key) }
    }

    /// Some of its news were missed.
    pub const fn set_late(&mut self) {
        self.is_late = true;
    }

    /// Whether news are those of its run.
    pub fn is_of(&self, told: &Told) -> bool {
        told.key == self.key && told.run.as_ref().is_none_or(|run| *run.id == *self.run_id)
    }

    /// What a piece of news of its session means. Questions about calls are for
    /// whoever keeps them.
    pub fn hear(&mut self, told: &Told) -> Heard {
        if !self.is_of(told) {
            return Heard::default();
        }
        match &told.news {
            RunNews::Stream(event) => self.stream(event),
            RunNews::Says(_) if self.is_late => {
                let progress = told.run.as_ref().map(|run| run.progress()).unwrap_or_default();
                Heard { frames: self.catch_up(progress.shown()).into_iter().collect(), end: None }
            }
            RunNews::Says(text) => self.say(text).into(),
            RunNews::ToolBegins(card) => self.begins(card),
            RunNews::ToolShows(card, output) => {
                let Card { call, .. } = card;
                let shown = output.to_text();
                let shown = frame::tool_progress(&call.name, &call.id, shown.trim_end());
                self.with_start(card, shown.into())
            }
            RunNews::ToolGuarded(card, news) => self.with_start(card, Self::guarded(card, news)),
            RunNews::ToolEnds(card, output) => {
                let ended = self.ends(card, output);
                let ended = self.with_start(card, ended);
                self.forget(card);
                ended
            }
            RunNews::Noted { run_id, answer } if *run_id == self.run_id => {
                let text = answer.message.text();
                self.said.push_str(&text);
                Heard { frames: vec![frame::message(&text)], end: Some(End::Answered) }
            }
            RunNews::Ends(ending) => self.ended(ending),
            RunNews::Stored(_)
            | RunNews::Begins
            | RunNews::Asks { .. }
            | RunNews::ToolAsks(..)
            | RunNews::Compacts(_)
            | RunNews::Compacted(..)
            | RunNews::Noted { .. } => Heard::default(),
        }
    }

    fn stream(&mut self, event: &StreamEvent) -> Heard {
        match event {
            StreamEvent::ThinkingDelta { delta, .. } => frame::reasoning(delta).into(),
            StreamEvent::TextDelta { .. } => {
                self.has_written = true;
                Heard::default()
            }
            // What it wrote does not count.
            StreamEvent::Anew => {
                self.has_written = false;
                Heard::default()
            }
            _ => Heard::default(),
        }
    }

    fn say(&mut self, text: &str) -> Value {
        self.said.push_str(text);
        frame::delta(text)
    }

    fn guarded(card: &Card, news: &GuardNews) -> Heard {
        let (tool, call_id) = (&card.call.name, card.call.id.as_str());
        match news {
            GuardNews::Denied(reason) => frame::tool_denied(tool, call_id, reason).into(),
            GuardNews::ReviewBegins => frame::review_started(tool, call_id).into(),
            GuardNews::ReviewEnds { approved, reason } => {
                frame::review_complete(tool, call_id, *approved, reason).into()
            }
        }
    }

    /// What is told of a call, behind its start where that was before anybody looked.
    fn with_start(&mut self, card: &Card, mut heard: Heard) -> Heard {
        if self.is_late && !self.open.contains(&card.call.id) {
            let mut frames = self.begins(card).frames;
            frames.append(&mut heard.frames);
            heard.frames = frames;
        }
        heard
    }

    /// A call has ended; another one with its id may go on.
    fn forget(&mut self, card: &Card) {
        if let Some(place) = self.open.iter().position(|id| *id == card.call.id) {
            self.open.swap_remove(place);
        }
    }

    fn begins(&mut self, card: &Card) -> Heard {
        let call = &card.call;
        self.open.push(call.id.clone());
        let mut frames = vec![frame::tool_start(&call.name, &call.id, &call.arguments)];
        frames.extend(skill_of(card).map(|name| frame::skill(&name)));
        Heard { frames, end: None }
    }

    fn ends(&mut self, card: &Card, output: &ToolOutput) -> Heard {
        let (name, id) = (&card.call.name, &card.call.id);
        let details = output.details.as_ref().unwrap_or(&Value::Null);
        let mut frames = Vec::new();
        // What somebody has decided, and what guardrails did, is told already.
        let is_told = details["approvalId"].is_string() || details["by"] == GUARDRAILS;
        if details["status"] == "denied" && !is_told {
            frames.push(frame::tool_denied(name, id, BY_RULE));
        }
        frames.push(frame::tool_done(name, id, &output.to_text()));
        if details["host"] == "sandbox" && details["durationMs"].is_number() {
            let said = details["aggregated"].as_str().unwrap_or_default();
            frames.push(frame::sandbox_result(said, details["exitCode"].as_i64()));
        }
        let room = CARDS_MAX - self.cards.len();
        self.cards.extend(cards_of(details).take(room));
        Heard { frames, end: None }
    }

    fn ended(&mut self, ending: &Ending) -> Heard {
        let end = match ending {
            Ending::Answered { .. } => End::Answered,
            Ending::Failed { told, .. } => End::Failed(told.clone()),
            Ending::Aborted(reason) => End::of_stop(*reason),
            Ending::TakenInto(run_id) => {
                self.run_id.clone_from(run_id);
                // Somebody else has asked for that one.
                self.is_ours = false;
                return Heard::default();
            }
        };
        Heard { frames: Vec::new(), end: Some(end) }
    }

    /// What was told of a run before it was followed, or is to be told of one that
    /// was not followed well: the rest of its text.
    pub fn catch_up(&mut self, whole: &str) -> Option<Value> {
        let rest = whole.strip_prefix(self.said.as_str()).filter(|rest| !rest.is_empty())?;
        let rest = rest.to_owned();
        Some(self.say(&rest))
    }

    /// What there is to say behind its words.
    pub fn add(&mut self, told: &str) -> Option<Value> {
        let told = if self.said.is_empty() { told.trim_start() } else { told };
        (!told.is_empty()).then(|| self.say(told))
    }

    /// What is told at the end, but `done`. `files` are those that it has made.
    pub fn close(&mut self, end: &End, files: &[Value]) -> Vec<Value> {
        let mut frames = Vec::new();
        if !files.is_empty() {
            frames.push(frame::media(files));
        }
        if !self.cards.is_empty() {
            frames.push(frame::cards(&std::mem::take(&mut self.cards)));
        }
        let is_nothing = self.said.trim().is_empty() && frames.is_empty();
        match end {
            // A reply that says "nothing to say" is one.
            End::Answered if is_nothing && !self.has_written => {
                frames.push(frame::error(NO_ANSWER));
            }
            End::Failed(why) => frames.push(frame::error(why)),
            End::Answered | End::Stopped => {}
        }
        frames
    }
}

/// The skill whose file a call reads.
fn skill_of(card: &Card) -> Option<String> {
    if card.call.name != "read" {
        return None;
    }
    let arguments = &card.call.arguments;
    let path = ["path", "file_path"].iter().find_map(|name| arguments[*name].as_str())?;
    let folder = path.strip_suffix(SKILL_FILE)?.strip_suffix('/')?;
    let name = folder.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}

/// The cards of a result: `cards` of its details, or of the data that a server of
/// tools has sent.
fn cards_of(details: &Value) -> impl Iterator<Item = Value> {
    let lists = [&details["cards"], &details["structuredContent"]["cards"]];
    let all: Vec<Value> = lists
        .into_iter()
        .filter_map(Value::as_array)
        .flatten()
        .filter(|card| card["contentType"].is_string() && card.get("content").is_some())
        .cloned()
        .collect();
    all.into_iter()
}

#[cfg(test)]
mod tests;
