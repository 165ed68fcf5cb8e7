//! Which frame that came belongs to which recorded frame.

use serde_json::Value;

use super::ids::Learned;

/// What a frame is for pairing: the k-th recorded frame of a label belongs to
/// the k-th that came with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label {
    /// `res` or the event's name.
    pub name: String,
    /// The request id, or what tells events of one name apart.
    pub detail: String,
}

impl Label {
    pub fn of(frame: &Value) -> Self {
        let payload = &frame["payload"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if frame["type"] == "res" {
            return Self { name: "res".to_owned(), detail: frame["id"].to_string() };
        }
        let name = text(&frame["event"]);
        let detail = match name.as_str() {
            "chat" => text(&payload["state"]),
            "agent" => agent_detail(payload),
            "session.message" => message_detail(payload),
            "session.tool" => tool_detail(payload),
            "sessions.changed" => changed_detail(payload),
            "cron" => text(&payload["action"]),
            _ => String::new(),
        };
        Self { name, detail: format!("{detail}{}", follow_up_of(payload)) }
    }

    pub fn is_periodic(&self) -> bool {
        ["health", "presence", "tick"].contains(&self.name.as_str())
    }

    /// Who is there: a later request may ask for it, so it is waited for a while
    /// though it is told when the gateway sees fit.
    pub fn is_presence(&self) -> bool {
        self.name == "presence"
    }

    /// Parts of an answer that come as fast as the provider sends them.
    pub fn is_text(&self) -> bool {
        let detail = self.detail.as_str();
        match self.name.as_str() {
            "chat" => detail == "delta" || detail.starts_with("delta of"),
            "agent" => {
                detail.starts_with("assistant")
                    || detail.starts_with("thinking")
                    || detail.ends_with(" update")
                    || detail.ends_with(" delta")
            }
            _ => false,
        }
    }

    /// Events that say what other frames said already; later requests do not
    /// depend on them.
    pub fn is_follow_up(&self) -> bool {
        self.name == "sessions.changed" || self.name == "session.message"
    }
}

/// Runs that the original begins by itself to report on an approved command are
/// told apart from those that a client began, and so are our heartbeats.
fn follow_up_of(payload: &Value) -> &'static str {
    let run = payload["runId"].as_str().unwrap_or_default();
    match run.split(':').next() {
        Some("exec-approval-followup") => " of follow-up",
        Some(HEARTBEAT) => " of heartbeat",
        _ => "",
    }
}

/// What the ids of our heartbeats begin with; the original tells nothing of such
/// runs.
const HEARTBEAT: &str = "heartbeat";

/// What tells messages of a session apart: of a failed answer why it failed,
/// of others the text or the tool that is called. Nothing for other events.
pub fn said(frame: &Value) -> Option<&str> {
    let message = &frame["payload"]["message"];
    let content = &message["content"];
    let text = || if content.is_string() { content.as_str() } else { content[0]["text"].as_str() };
    let error = message["errorMessage"].as_str().and_then(|error| error.split(':').next());
    error
        .or_else(text)
        .or_else(|| content[0]["name"].as_str())
        .filter(|_| frame["event"] == "session.message")
}

/// What a message begins with: a text, a call, …
fn said_how(frame: &Value) -> &Value {
    &frame["payload"]["message"]["content"][0]["type"]
}

/// The session that an event is about, or nothing.
fn session_of(frame: &Value) -> &Value {
    &frame["payload"]["sessionKey"]
}

/// The run that a chat or agent event belongs to.
pub fn run_of(frame: &Value) -> Option<&str> {
    let is_run = frame["event"] == "chat" || frame["event"] == "agent";
    frame["payload"]["runId"].as_str().filter(|_| is_run)
}

/// The run that an event tells of, also one about a session.
pub fn told_run(frame: &Value) -> Option<&str> {
    let is_told = frame["event"] == "sessions.changed" || frame["event"] == "session.tool";
    run_of(frame).or_else(|| frame["payload"]["runId"].as_str().filter(|_| is_told))
}

fn agent_detail(payload: &Value) -> String {
    let parts = [&payload["stream"], &payload["data"]["phase"], &payload["data"]["name"]];
    let parts: Vec<_> = parts.iter().filter_map(|part| part.as_str()).collect();
    // The end that the gateway tells, and that of the runner which it has stopped.
    let stopped = match payload["data"]["status"].as_str() {
        Some("cancelled") => " cancelled",
        _ if payload["data"]["aborted"] == true => " stopped",
        _ => "",
    };
    match parts.as_slice() {
        [stream, phase, name] => format!("{stream} {name} {phase}"),
        others => others.join(" ") + stopped,
    }
}

/// The tool and what came of it: parallel calls may end in either order.
fn tool_detail(payload: &Value) -> String {
    let text = |name: &str| payload["data"][name].as_str().unwrap_or_default();
    format!("{} {}", text("name"), text("phase"))
}

fn message_detail(payload: &Value) -> String {
    let role = payload["message"]["role"].as_str().unwrap_or_default();
    let stored = if payload["messageId"].is_null() {
        "at once"
    } else if payload["message"]["openclawAbort"].is_null() {
        "stored"
    } else {
        "stored again"
    };
    format!("{role} {stored}")
}

fn changed_detail(payload: &Value) -> String {
    let kind = ["phase", "reason"].iter().find_map(|key| payload[*key].as_str());
    let of = if payload["messageId"].is_null() { "" } else { " stored" };
    format!("{}{of}", kind.unwrap_or_default())
}

/// A recorded frame with the one that came, either of which can be missing.
pub struct Pair<'a> {
    pub label: Label,
    pub recorded: Option<&'a Value>,
    pub actual: Option<&'a Value>,
}

/// Pairs frames by label, in order. Runs are told apart by `run`, which gives
/// the recorded name of a run that came.
pub fn pairs<'a>(recorded: &[&'a Value], actual: &[&'a Value], runs: &Runs) -> Vec<Pair<'a>> {
    let mut rest: Vec<(Label, Option<&str>, &'a Value)> = actual
        .iter()
        .map(|frame| (Label::of(frame), told_run(frame).map(|run| runs.recorded_name(run)), *frame))
        .collect();
    let mut pairs = Vec::new();
    let known: Vec<&Value> = recorded.iter().map(|frame| session_of(frame)).collect();
    for frame in recorded {
        let label = Label::of(frame);
        // What another recorded session tells is not for this one.
        let is_session = |actual: &Value| {
            let (is, was) = (session_of(actual), session_of(frame));
            is == was || !known.contains(&is)
        };
        let fits = |(l, run, actual): &(Label, Option<&str>, &Value)| {
            *l == label && *run == told_run(frame) && is_session(actual)
        };
        let says_the_same = |actual: &Value| said(actual) == said(frame);
        // One that says what a recorded frame says is for that frame.
        let is_anothers = |actual: &Value| {
            recorded.iter().any(|frame| Label::of(frame) == label && said(frame) == said(actual))
        };
        let is_like = |actual: &Value| said_how(actual) == said_how(frame);
        let at = rest
            .iter()
            .position(|one| fits(one) && says_the_same(one.2) && is_like(one.2))
            .or_else(|| {
                rest.iter().position(|one| fits(one) && is_like(one.2) && !is_anothers(one.2))
            })
            .or_else(|| rest.iter().position(|one| fits(one) && !is_anothers(one.2)));
        let actual = at.map(|at| rest.remove(at).2);
        pairs.push(Pair { label, recorded: Some(frame), actual });
    }
    pairs.extend(rest.into_iter().map(|(label, _, frame)| Pair {
        label,
        recorded: None,
        actual: Some(frame),
    }));
    pairs
}

/// Recorded runs and the runs that came.
#[derive(Default)]
pub struct Runs {
    /// (recorded, actual)
    known: Vec<(String, String)>,
}

impl Runs {
    /// Runs whose id the client chose or an answer told; the others in order.
    pub fn find(recorded: &[&Value], actual: &[&Value], learned: &Learned) -> Self {
        let names = |frames: &[&Value]| {
            let mut names: Vec<String> = Vec::new();
            for run in frames.iter().filter_map(|frame| run_of(frame)) {
                if !names.iter().any(|name| name == run) {
                    names.push(run.to_owned());
                }
            }
            names
        };
        let mut left = names(actual);
        left.retain(|run| run.split(':').next() != Some(HEARTBEAT));
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for run in names(recorded) {
            let now = learned.apply_text(&run);
            if let Some(at) = left.iter().position(|name| *name == now) {
                known.push((run, left.remove(at)));
            } else {
                unknown.push(run);
            }
        }
        // One that the recording names elsewhere is no other run.
        let named: Vec<String> = recorded
            .iter()
            .filter_map(|frame| frame["payload"]["runId"].as_str())
            .map(|run| learned.apply_text(run))
            .collect();
        left.retain(|name| !named.contains(name));
        known.extend(unknown.into_iter().zip(left));
        Self { known }
    }

    pub fn recorded_name<'a>(&'a self, actual: &'a str) -> &'a str {
        self.known.iter().find(|(_, now)| now == actual).map_or(actual, |(run, _)| run)
    }
}
