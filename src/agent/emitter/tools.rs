//! The events of tool calls: cards for everybody, the calls themselves for those who
//! look on at the run, its owner first, for those who watch sessions, and for nodes that
//! follow this one.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Emitter;
use crate::agent::feed::RunNews;
use crate::agent::guardrails::GuardNews;
use crate::agent::tools::{ToolKind, ToolOutput};
use crate::bus::{Audience, EventKind};
use crate::protocol::message::ToolCall;
use crate::support::{json, without_nulls};

/// What the card of a command says that waits for a person.
const AWAITING: &str = "Awaiting approval before command can run.";

/// A tool call as clients see it.
#[derive(Debug, Clone)]
pub struct Card {
    /// The call.
    pub call: ToolCall,
    /// In words, what is called with what.
    pub meta: Option<String>,
    /// What calling it does.
    pub kind: ToolKind,
    /// When it began, in milliseconds since the epoch.
    pub started_at: u64,
}

/// Which of the two cards of a call; a program that is run has a second one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Face {
    Tool,
    Command,
}

impl Face {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Command => "command",
        }
    }
}

impl Card {
    fn faces(&self) -> &'static [Face] {
        match self.kind {
            ToolKind::Command => &[Face::Tool, Face::Command],
            ToolKind::Reads | ToolKind::Changes => &[Face::Tool],
        }
    }

    fn id(&self, face: Face) -> String {
        format!("{}:{}", face.as_str(), self.call.id)
    }

    fn title(&self, face: Face) -> String {
        let name = match face {
            Face::Tool => self.call.name.as_str(),
            Face::Command => "command",
        };
        self.meta.as_ref().map_or_else(|| name.to_owned(), |meta| format!("{name} {meta}"))
    }
}

impl Emitter {
    /// A tool call begins. `row` is for those who watch the session.
    pub fn tool_start(&mut self, card: &Card, row: &Map<String, Value>) {
        self.settle(false);
        self.flush();
        self.run.note(|progress| progress.calls += 1);
        self.tell(|| RunNews::ToolBegins(card.clone()));
        let call = &card.call;
        let data = json!({"phase": "start", "name": call.name, "toolCallId": call.id,
            "args": call.arguments});
        self.tool(data, row);
        for face in card.faces() {
            self.item(card, *face, "start", "running", json!({"startedAt": card.started_at}));
        }
        self.has_changed |= card.kind != ToolKind::Reads;
    }

    /// A tool call has something to show already.
    pub fn tool_update(&mut self, card: &Card, row: &Map<String, Value>, output: &ToolOutput) {
        self.tell(|| RunNews::ToolShows(card.clone(), output.clone()));
        let call = &card.call;
        let data = json!({"phase": "update", "name": call.name, "toolCallId": call.id,
            "partialResult": output.to_followers()});
        self.tool(data, row);
        let text = output.to_text();
        let text = text.trim_end();
        for face in card.faces() {
            let progress = (*face == Face::Command).then_some(text);
            self.item(card, *face, "update", "running", json!({"progressText": progress}));
        }
        if card.kind == ToolKind::Command {
            self.command_output(card, "delta", text, "running", &Value::Null);
        }
    }

    /// A tool call waits for somebody to allow it, or that was decided. A
    /// command's card says so; what becomes of one that was denied, its end
    /// tells.
    pub fn tool_approval(&mut self, card: &Card, data: &Value) {
        self.tell(|| RunNews::ToolAsks(card.clone(), data.clone()));
        self.agent("approval", data.clone());
        let (status, summary) = match (data["phase"].as_str(), data["status"].as_str()) {
            (Some("requested"), _) => ("blocked", Some(AWAITING)),
            (_, Some("approved")) => ("running", None),
            _ => return,
        };
        if card.kind == ToolKind::Command {
            let more = json!({"approvalId": data["approvalId"],
                "approvalSlug": data["approvalSlug"], "summary": summary});
            self.item(card, Face::Command, "update", status, more);
        }
    }

    /// The guardrails have something to say of a call. Other clients see what becomes
    /// of it.
    pub fn tool_guarded(&self, card: &Card, news: GuardNews) {
        self.tell(|| RunNews::ToolGuarded(card.clone(), news));
    }

    /// A tool call has ended.
    pub fn tool_end(&mut self, card: &Card, row: &Map<String, Value>, output: &ToolOutput) {
        self.tell(|| RunNews::ToolEnds(card.clone(), output.clone()));
        let call = &card.call;
        let data = json!({"phase": "result", "name": call.name, "toolCallId": call.id,
            "meta": card.meta, "isError": output.is_error, "result": output.to_followers()});
        self.tool(data, row);
        let status = if output.is_error { "failed" } else { "completed" };
        let (text, error) = (output.to_text(), output.error_line());
        for face in card.faces() {
            let summary = (*face == Face::Command).then_some(&text);
            let more = json!({"startedAt": card.started_at, "endedAt": self.clock.now_ms(),
                "error": error, "summary": summary});
            self.item(card, *face, "end", status, more);
        }
        if card.kind == ToolKind::Command {
            let details = output.details.clone().unwrap_or_default();
            self.command_output(card, "end", &text, status, &details);
        }
    }

    /// The model asked again and again for tools that are not there.
    pub const fn set_abandoned(&mut self) {
        self.is_abandoned = true;
    }

    fn item(&mut self, card: &Card, face: Face, phase: &str, status: &str, more: Value) {
        let call = &card.call;
        let mut data = json!({"itemId": card.id(face), "phase": phase, "kind": face.as_str(),
            "title": card.title(face), "status": status, "name": call.name, "meta": card.meta,
            "toolCallId": call.id});
        if let (Value::Object(members), Value::Object(more)) = (&mut data, more) {
            members.extend(more);
        }
        self.agent("item", without_nulls(data));
    }

    fn command_output(
        &mut self,
        card: &Card,
        phase: &str,
        output: &str,
        status: &str,
        details: &Value,
    ) {
        let data = json!({"itemId": card.id(Face::Command), "phase": phase,
            "title": card.title(Face::Command), "toolCallId": card.call.id,
            "name": card.call.name, "output": output, "status": status,
            "exitCode": details["exitCode"], "durationMs": details["durationMs"],
            "cwd": details["cwd"]});
        self.agent("command_output", without_nulls(data));
    }

    /// Tool events are for the run's owner and whoever has begun another run in its session
    /// meanwhile, and for those who watch sessions; all get the session's row with them.
    fn tool(&mut self, data: Value, row: &Map<String, Value>) {
        self.seq += 1;
        if self.run.terms.is_heartbeat {
            return;
        }
        let mut payload = json!(self.told("tool", without_nulls(data), self.seq));
        if let Value::Object(members) = &mut payload {
            members.extend(row.clone());
        }
        for owner in self.run.onlookers() {
            self.bus.publish(EventKind::Agent, &Audience::ToolWatchers(owner), &payload);
        }
        self.bus.publish(EventKind::SessionTool, &Audience::SessionWatchers, &payload);
        self.tool_for_followers(payload, row);
    }

    /// Nodes get tool events only of a session that is verbose, and what comes of the calls
    /// only of one that is so in full, as in the original.
    fn tool_for_followers(&self, mut payload: Value, row: &Map<String, Value>) {
        let level = row.get("verboseLevel").and_then(Value::as_str);
        let (Some("on" | "full"), Value::Object(data)) = (level, &mut payload["data"]) else {
            return;
        };
        if level != Some("full") {
            data.remove("result");
            data.remove("partialResult");
        }
        self.bus.publish(EventKind::Agent, &self.followers(), &payload);
    }

    fn followers(&self) -> Audience {
        Audience::Followers(Arc::clone(&self.key))
    }

    /// Whether anybody gets tool events of this run.
    pub fn has_tool_watchers(&self) -> bool {
        let mut onlookers = self.run.onlookers().into_iter();
        onlookers.any(|it| self.bus.wants(EventKind::Agent, &Audience::ToolWatchers(it)))
            || self.bus.wants(EventKind::SessionTool, &Audience::SessionWatchers)
            || self.bus.wants(EventKind::Agent, &self.followers())
    }
}
