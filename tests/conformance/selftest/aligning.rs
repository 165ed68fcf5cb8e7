//! What may come in either order, and transcripts of different lengths.

use serde_json::{Value, json};

use crate::compare::{Comparer, Finding, Kind};
use crate::ids::Learned;
use crate::stream::Side;
use crate::text::Places;

fn event(stream: &str, name: &str, phase: &str) -> Value {
    let data = json!({ "phase": phase, "name": name });
    json!({ "type": "event", "event": "agent",
        "payload": { "runId": "r", "seq": 1, "stream": stream, "data": data } })
}

/// The findings for a run of two calls, in the recorded order and in this one.
fn order(recorded: &[(&str, &str, &str)], actual: &[(&str, &str, &str)]) -> Vec<Finding> {
    let events = |steps: &[(&str, &str, &str)]| {
        let events = steps.iter().enumerate().map(|(at, (stream, name, phase))| {
            let mut event = event(stream, name, phase);
            event["payload"]["seq"] = (at + 1).into();
            event
        });
        events.collect::<Vec<Value>>()
    };
    let (recorded, actual) = (events(recorded), events(actual));
    let (learned, places) = (Learned::default(), Places::default());
    let side = Side { place: "a event run", learned: &learned, places: &places, complete: false };
    side.run_findings(&recorded.iter().collect::<Vec<_>>(), &actual.iter().collect::<Vec<_>>())
}

const READ: [(&str, &str, &str); 2] = [("tool", "read", "start"), ("item", "read", "start")];
const WRITE: [(&str, &str, &str); 2] = [("tool", "write", "start"), ("item", "write", "start")];
const READ_DONE: [(&str, &str, &str); 2] = [("tool", "read", "result"), ("item", "read", "end")];
const WRITTEN: [(&str, &str, &str); 2] = [("tool", "write", "result"), ("item", "write", "end")];

fn kinds(findings: &[Finding]) -> Vec<(Kind, &str)> {
    findings.iter().map(|finding| (finding.kind, finding.path.as_str())).collect()
}

#[test]
fn calls_at_the_same_time_may_end_in_either_order() {
    let recorded = [READ, WRITE, WRITTEN, READ_DONE].concat();
    let actual = [READ, WRITE, READ_DONE, WRITTEN].concat();
    assert_eq!(order(&recorded, &actual), []);
}

#[test]
fn a_call_that_begins_after_the_end_of_another_is_not_at_the_same_time() {
    let recorded = [READ, WRITE, WRITTEN, READ_DONE].concat();
    let actual = [READ, READ_DONE, WRITE, WRITTEN].concat();
    assert!(order(&recorded, &actual).iter().any(|finding| finding.kind == Kind::Order));
}

#[test]
fn what_comes_of_one_call_in_another_order_is_named() {
    let recorded = [READ, READ_DONE].concat();
    let actual = [READ[0], READ[1], READ_DONE[1], READ_DONE[0]];
    assert_eq!(kinds(&order(&recorded, &actual)), [(Kind::Order, "agent item read end")]);
}

/// The findings for two transcripts of texts.
fn transcript(recorded: &[&str], actual: &[&str]) -> Vec<Finding> {
    let messages = |texts: &[&str]| {
        let message =
            |text: &&str| json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
        json!({ "messages": texts.iter().map(message).collect::<Vec<_>>() })
    };
    let (learned, places) = (Learned::default(), Places::default());
    Comparer::new("a res", &learned, &places).frame(&messages(recorded), &messages(actual))
}

#[test]
fn of_a_shorter_transcript_only_what_is_missing_is_reported() {
    let findings = transcript(&["one", "two", "three"], &["one", "three"]);
    assert_eq!(kinds(&findings), [(Kind::Absent, "/messages/1")]);
    let findings = transcript(&["one", "three"], &["one", "two", "three"]);
    assert_eq!(kinds(&findings), [(Kind::Extra, "/messages/1")]);
}

#[test]
fn messages_in_another_order_are_reported() {
    let findings = transcript(&["one", "two"], &["two", "one"]);
    assert_eq!(findings.len(), 2);
    let findings = transcript(&["one", "two", "three"], &["two", "one"]);
    assert!(findings.len() > 1, "{findings:?}");
}
