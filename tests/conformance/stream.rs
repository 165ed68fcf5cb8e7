//! The events of one run on one connection, in normalised form.
//!
//! The number of throttled deltas may differ; the order of states and phases,
//! the first and last texts, growth and numbering may not.

use serde_json::Value;

use super::compare::{Comparer, Finding, Kind, in_common};
use super::ids::Learned;
use super::pairing::{Label, run_of};
use super::text::Places;

/// What the runs of one connection are compared with.
pub struct Side<'a> {
    pub place: &'a str,
    pub learned: &'a Learned,
    pub places: &'a Places,
    /// Whether each agent event was recorded, so that numbers can be looked up.
    pub complete: bool,
}

impl Side<'_> {
    /// All that differs between the recorded run and the one that came.
    pub fn run_findings(&self, recorded: &[&Value], actual: &[&Value]) -> Vec<Finding> {
        let mut findings = order_findings(self.place, recorded, actual);
        // What the recorded run does itself cannot be asked of ours.
        let known = self.growth_findings(recorded);
        let is_new = |found: &Finding| known.iter().all(|known| known.path != found.path);
        findings.extend(self.growth_findings(actual).into_iter().filter(is_new));
        for (recorded, actual) in counterparts(recorded, actual) {
            let recorded = without_seq(recorded);
            let actual = paced_like(&recorded, without_seq(actual));
            let comparer = Comparer::new(self.place, self.learned, self.places);
            findings.extend(comparer.frame(&recorded, &actual));
        }
        findings
    }
}

impl Side<'_> {
    /// What does not grow as it should, in texts and in numbers.
    fn growth_findings(&self, frames: &[&Value]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for attempt in attempts(frames) {
            findings.extend(chat_text_findings(self.place, &attempt));
            findings.extend(agent_text_findings(self.place, &attempt));
            findings.extend(number_findings(self.place, &attempt, self.complete));
        }
        findings
    }
}

/// A run can be tried again, and its id used again after its end.
fn attempts<'a>(frames: &[&'a Value]) -> Vec<Vec<&'a Value>> {
    let mut attempts: Vec<Vec<&Value>> = vec![Vec::new()];
    for frame in frames {
        let payload = &frame["payload"];
        if payload["stream"] == "lifecycle" && payload["data"]["phase"] == "start" {
            attempts.push(Vec::new());
        }
        attempts.last_mut().unwrap().push(frame);
    }
    attempts
}

fn finding(place: &str, path: &str, kind: Kind, text: String) -> Finding {
    Finding { place: place.to_owned(), path: path.to_owned(), kind, text }
}

/// The label under which an event takes part in the order; deltas do not.
fn step(frame: &Value) -> Option<String> {
    let label = Label::of(frame);
    let throttled = label.name == "chat" && label.is_text();
    (!throttled).then(|| format!("{} {}", label.name, label.detail))
}

/// The order of the steps; repeated pieces of one text count as one.
fn steps(frames: &[&Value]) -> Vec<String> {
    let mut steps: Vec<String> = frames.iter().filter_map(|frame| step(frame)).collect();
    steps.dedup_by(|next, last| next == last && is_piece(last));
    steps
}

fn is_piece(step: &str) -> bool {
    step.starts_with("agent assistant")
        || step.starts_with("agent thinking")
        || step.ends_with(" update")
        || step.ends_with(" delta")
}

fn order_findings(place: &str, recorded: &[&Value], actual: &[&Value]) -> Vec<Finding> {
    let (wanted, got) = (in_one_order(steps(recorded)), in_one_order(steps(actual)));
    let missing = less(&wanted, &got);
    let extra = less(&got, &wanted);
    let mut findings = Vec::new();
    let run = recorded.first().and_then(|frame| run_of(frame)).unwrap_or_default();
    for step in &missing {
        let text = format!("recorded in {run}: {step} did not come");
        findings.push(finding(place, step, Kind::MissingFrame, text));
    }
    for step in &extra {
        findings.push(finding(place, step, Kind::ExtraFrame, format!("{step} is not recorded")));
    }
    let (wanted, got) = (less(&wanted, &missing), less(&got, &extra));
    for step in moved(&wanted, &got) {
        let text = format!("recorded {}, got {}", wanted.join(", "), got.join(", "));
        findings.push(finding(place, &step, Kind::Order, text));
    }
    findings
}

/// Calls that run at the same time end in either order: what comes of them
/// between two other steps is put in the order of their names. What comes of
/// one call stays as it is.
fn in_one_order(mut steps: Vec<String>) -> Vec<String> {
    for block in steps.chunk_by_mut(|one, next| of_call(one).is_some() && of_call(next).is_some()) {
        block.sort_by(|one, next| of_call(one).cmp(&of_call(next)));
    }
    steps
}

/// The tool, when the step tells what came of a call.
fn of_call(step: &str) -> Option<&str> {
    let parts: Vec<&str> = step.split(' ').collect();
    match parts.as_slice() {
        ["agent", "tool" | "item", name, "update" | "result" | "end"] => Some(name),
        _ => None,
    }
}

/// What of `all` is left when each of `others` takes one away.
fn less(all: &[String], others: &[String]) -> Vec<String> {
    let mut others = others.to_vec();
    let is_left = |step: &&String| match others.iter().position(|other| other == *step) {
        Some(at) => {
            others.remove(at);
            false
        }
        None => true,
    };
    all.iter().filter(is_left).cloned().collect()
}

/// The fewest steps that must be taken out of both for the order to be the
/// same.
fn moved(wanted: &[String], got: &[String]) -> Vec<String> {
    let pairs = in_common(wanted.len(), got.len(), &|at, now| wanted[at] == got[now]);
    let is_kept = |at: usize| pairs.iter().any(|(kept, _)| *kept == at);
    (0..wanted.len()).filter(|at| !is_kept(*at)).map(|at| wanted[at].clone()).collect()
}

fn chat_text(frame: &Value) -> Option<&str> {
    let is_chat = frame["event"] == "chat";
    frame["payload"]["message"]["content"][0]["text"].as_str().filter(|_| is_chat)
}

/// Deltas are cumulative.
fn chat_text_findings(place: &str, actual: &[&Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut last = "";
    for frame in actual.iter().filter(|frame| frame["payload"]["state"] == "delta") {
        let Some(text) = chat_text(frame) else { continue };
        if !text.starts_with(last) {
            let text = format!("delta {text:?} does not continue {last:?}");
            findings.push(finding(place, "/payload/message", Kind::Value, text));
        }
        last = text;
    }
    findings
}

/// Each piece of an agent's text is the one before and the delta; a new turn
/// of the model begins anew.
fn agent_text_findings(place: &str, actual: &[&Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut so_far = String::new();
    for frame in actual.iter().filter(|frame| frame["payload"]["stream"] == "assistant") {
        let data = &frame["payload"]["data"];
        let text = data["text"].as_str().unwrap_or_default();
        let delta = data["delta"].as_str().unwrap_or_default();
        if !delta.is_empty() && text != delta && text != format!("{so_far}{delta}") {
            let text = format!("text {text:?} is not {so_far:?} and {delta:?}");
            findings.push(finding(place, "/payload/data", Kind::Value, text));
        }
        text.clone_into(&mut so_far);
    }
    findings
}

/// Agent events count up; a chat event has the number of an agent event.
fn number_findings(place: &str, actual: &[&Value], complete: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let seq = |frame: &Value| frame["payload"]["seq"].as_u64();
    let agent: Vec<u64> = actual
        .iter()
        .filter(|frame| frame["event"] == "agent" && frame["payload"]["data"]["aborted"].is_null())
        .filter_map(|frame| seq(frame))
        .collect();
    if let Some(pair) = agent.windows(2).find(|pair| pair[1] <= pair[0]) {
        let text = format!("the run's seq goes from {} to {}", pair[0], pair[1]);
        findings.push(finding(place, "/payload/seq", Kind::Order, text));
    }
    for frame in actual.iter().filter(|frame| frame["event"] == "chat") {
        let follows = ["delta", "final"].iter().any(|state| frame["payload"]["state"] == *state);
        let number = seq(frame).unwrap_or_default();
        if complete && follows && !agent.is_empty() && !agent.contains(&number) {
            let text = format!("chat seq {number} is that of no agent event");
            findings.push(finding(place, "/payload/seq", Kind::Value, text));
        }
    }
    findings
}

/// The events whose content is compared: each step, and of the pieces of a
/// text the first and the last.
fn counterparts<'a>(recorded: &[&'a Value], actual: &[&'a Value]) -> Vec<(&'a Value, &'a Value)> {
    let mut labels: Vec<Label> = Vec::new();
    for frame in recorded {
        let label = Label::of(frame);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let mut found = Vec::new();
    for label in labels {
        let of = |frames: &[&'a Value]| {
            frames.iter().filter(|frame| Label::of(frame) == label).copied().collect::<Vec<_>>()
        };
        let (recorded, actual) = (of(recorded), of(actual));
        if label.is_text() {
            found.extend(recorded.first().copied().zip(actual.first().copied()));
            if recorded.len() > 1 && actual.len() > 1 {
                found.extend(recorded.last().copied().zip(actual.last().copied()));
            }
        } else {
            found.extend(recorded.into_iter().zip(actual));
        }
    }
    found
}

/// How much of a text its first piece holds is a matter of pace: one that came
/// earlier and holds less counts as the recorded one.
fn paced_like(recorded: &Value, mut actual: Value) -> Value {
    if !Label::of(recorded).is_text() {
        return actual;
    }
    for path in ["/payload/data/text", "/payload/message/content/0/text"] {
        let (Some(was), Some(is)) = (recorded.pointer(path), actual.pointer(path)) else {
            continue;
        };
        let (Some(was), Some(is)) = (was.as_str(), is.as_str()) else { continue };
        if is.is_empty() || !was.starts_with(is) {
            continue;
        }
        for path in [path, "/payload/data/delta"] {
            if let (Some(was), Some(is)) = (recorded.pointer(path), actual.pointer_mut(path)) {
                *is = was.clone();
            }
        }
    }
    actual
}

/// Numbers are checked on their own.
fn without_seq(frame: &Value) -> Value {
    let mut frame = frame.clone();
    if let Some(members) = frame.as_object_mut() {
        members.remove("seq");
    }
    if let Some(payload) = frame["payload"].as_object_mut() {
        payload.remove("seq");
    }
    frame
}
