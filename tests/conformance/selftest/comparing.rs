//! Each kind of change to what came is reported.

use serde_json::{Value, json};

use crate::classes::{Class, class_of};
use crate::compare::{Finding, Kind};
use crate::differences::glob;
use crate::ids::Learned;
use crate::replay::{ConnLog, Outcome};
use crate::support::Closed;
use crate::text::{Places, same};
use crate::trace::Trace;
use crate::verdict::{Verdict, checks};

/// A small recording: a request that is refused, a run, a close.
fn trace() -> Trace {
    let run = |seq: u64, event: &str, data: Value| {
        let mut payload = json!({ "runId": "r", "seq": seq });
        payload.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        json!({ "c": "a", "d": "<", "t": 1, "f": { "type": "event", "event": event, "payload": payload } })
    };
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let lines = [
        json!({ "d": "about", "text": "small" }),
        json!({ "t": 0, "c": "a", "d": "open" }),
        json!({ "t": 0, "c": "a", "d": ">", "f": { "type": "req", "id": "1", "method": "m" } }),
        json!({ "t": 1, "c": "a", "d": "<", "f": { "type": "res", "id": "1", "ok": false, "error": {
            "code": "INVALID_REQUEST", "message": "no", "details": { "list": [1, 2] }, "ts": 5,
        }}}),
        run(1, "agent", json!({ "stream": "lifecycle", "data": { "phase": "start" } })),
        run(2, "agent", json!({ "stream": "assistant", "data": { "text": "a", "delta": "a" } })),
        run(2, "chat", json!({ "state": "delta", "message": text("a") })),
        run(3, "agent", json!({ "stream": "assistant", "data": { "text": "ab", "delta": "b" } })),
        run(3, "chat", json!({ "state": "delta", "message": text("ab") })),
        run(4, "agent", json!({ "stream": "assistant", "data": { "text": "abc", "delta": "c" } })),
        run(5, "agent", json!({ "stream": "lifecycle", "data": { "phase": "end" } })),
        run(5, "chat", json!({ "state": "delta", "message": text("abc") })),
        run(5, "chat", json!({ "state": "final", "message": text("abc") })),
        json!({ "t": 2, "c": "a", "d": "close", "code": 1008, "reason": "repeated" }),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    Trace::parse("small/trace", &text).unwrap()
}

/// What came, exactly as recorded, with our numbering.
fn as_recorded(trace: &Trace) -> ConnLog {
    let mut frames: Vec<Value> = trace.received_on("a").map(|(_, frame)| frame.clone()).collect();
    let events = frames.iter_mut().filter(|frame| frame["type"] == "event");
    for (seq, event) in events.enumerate() {
        event["seq"] = seq.into();
    }
    let closed = Some(Closed { code: 1008, reason: "repeated".to_owned() });
    ConnLog { frames, skipped: 0, closed }
}

/// The findings after `change` was made to what came.
fn after(change: impl FnOnce(&mut ConnLog)) -> Vec<Finding> {
    let trace = trace();
    let mut log = as_recorded(&trace);
    change(&mut log);
    let outcome = Outcome { conns: [("a".to_owned(), log)].into(), ..Outcome::default() };
    Verdict::of(&trace, &outcome).findings
}

fn kinds(findings: &[Finding]) -> Vec<(Kind, &str)> {
    findings.iter().map(|finding| (finding.kind, finding.path.as_str())).collect()
}

#[test]
fn what_came_as_recorded_has_no_findings() {
    assert_eq!(after(|_| {}), []);
    let trace = trace();
    let outcome =
        Outcome { conns: [("a".to_owned(), as_recorded(&trace))].into(), ..Outcome::default() };
    assert_eq!(checks(&trace, &outcome).len(), 4, "close, numbers, one run, one answer");
}

#[test]
fn a_changed_value_is_reported() {
    let findings = after(|log| log.frames[0]["error"]["message"] = "yes".into());
    assert_eq!(kinds(&findings), [(Kind::Value, "/error/message")]);
}

#[test]
fn a_missing_and_an_additional_member_are_reported() {
    let findings = after(|log| {
        let error = log.frames[0]["error"].as_object_mut().unwrap();
        error.remove("code");
        error.insert("hint".to_owned(), json!(1));
    });
    assert_eq!(kinds(&findings), [(Kind::Absent, "/error/code"), (Kind::Extra, "/error/hint")]);
}

#[test]
fn a_wrong_type_is_reported_even_where_the_value_is_free() {
    let findings = after(|log| log.frames[0]["error"]["ts"] = "5".into());
    assert_eq!(kinds(&findings), [(Kind::Type, "/error/ts")]);
    assert_eq!(after(|log| log.frames[0]["error"]["ts"] = 6.into()), []);
}

#[test]
fn a_longer_and_a_shorter_list_are_reported() {
    let longer = after(|log| log.frames[0]["error"]["details"]["list"] = json!([1, 2, 3]));
    assert_eq!(kinds(&longer), [(Kind::Extra, "/error/details/list/2")]);
    let shorter = after(|log| log.frames[0]["error"]["details"]["list"] = json!([1]));
    assert_eq!(kinds(&shorter), [(Kind::Absent, "/error/details/list/1")]);
}

#[test]
fn a_missing_and_a_second_answer_are_reported() {
    let missing = after(|log| drop(log.frames.remove(0)));
    assert_eq!(kinds(&missing), [(Kind::MissingFrame, "")]);
    let second = after(|log| log.frames.push(log.frames[0].clone()));
    assert_eq!(kinds(&second), [(Kind::ExtraFrame, "")]);
}

#[test]
fn an_event_that_is_not_recorded_is_reported() {
    let event = json!({ "type": "event", "event": "cron", "payload": {}, "seq": 9 });
    let findings = after(|log| log.frames.push(event));
    assert_eq!(kinds(&findings), [(Kind::ExtraFrame, "")]);
    let run = json!({ "type": "event", "event": "chat", "seq": 9,
        "payload": { "runId": "other", "seq": 1, "state": "final" } });
    let findings = after(|log| log.frames.push(run));
    assert_eq!(kinds(&findings), [(Kind::ExtraFrame, "chat final")]);
}

#[test]
fn a_final_before_the_end_of_the_run_is_reported() {
    let findings = after(|log| {
        let last = log.frames.len() - 1;
        log.frames.swap(last, last - 2);
        let seq = log.frames[last]["seq"].take();
        log.frames[last]["seq"] = log.frames[last - 2]["seq"].take();
        log.frames[last - 2]["seq"] = seq;
    });
    assert_eq!(kinds(&findings), [(Kind::Order, "chat final")]);
}

#[test]
fn a_delta_that_is_an_increment_is_reported() {
    let findings = after(|log| {
        log.frames[8]["payload"]["message"]["content"][0]["text"] = "c".into();
    });
    assert!(kinds(&findings).contains(&(Kind::Value, "/payload/message")), "{findings:?}");
}

#[test]
fn another_final_text_is_reported() {
    let findings = after(|log| {
        log.frames[9]["payload"]["message"]["content"][0]["text"] = "abcd".into();
    });
    assert_eq!(kinds(&findings), [(Kind::Value, "/payload/message/content/0/text")]);
}

/// Takes a frame out, as if it had never been sent.
fn without(log: &mut ConnLog, index: usize) {
    log.frames.remove(index);
    let events = log.frames.iter_mut().filter(|frame| frame["type"] == "event");
    for (seq, event) in events.enumerate() {
        event["seq"] = seq.into();
    }
}

#[test]
fn fewer_throttled_deltas_are_the_same_stream() {
    assert_eq!(after(|log| without(log, 5)), []);
}

#[test]
fn a_stream_without_its_first_delta_is_reported() {
    let findings = after(|log| without(log, 3));
    assert_eq!(kinds(&findings), [(Kind::Value, "/payload/message/content/0/text")]);
}

#[test]
fn a_run_that_counts_backwards_is_reported() {
    let findings = after(|log| log.frames[6]["payload"]["seq"] = 3.into());
    assert_eq!(kinds(&findings), [(Kind::Order, "/payload/seq")]);
    let findings = after(|log| log.frames[9]["payload"]["seq"] = 9.into());
    assert_eq!(kinds(&findings), [(Kind::Value, "/payload/seq")]);
}

#[test]
fn a_hole_in_the_frame_numbers_is_reported() {
    let findings = after(|log| log.frames[4]["seq"] = 4.into());
    assert_eq!(kinds(&findings), [(Kind::Order, "/seq")]);
    let findings = after(|log| drop(log.frames[4].as_object_mut().unwrap().remove("seq")));
    assert_eq!(kinds(&findings), [(Kind::Order, "/seq")]);
}

#[test]
fn a_wrong_close_and_no_close_are_reported() {
    let other = Closed { code: 1000, reason: "repeated".to_owned() };
    assert_eq!(kinds(&after(|log| log.closed = Some(other))), [(Kind::Close, "")]);
    let other = Closed { code: 1008, reason: String::new() };
    assert_eq!(kinds(&after(|log| log.closed = Some(other))), [(Kind::Close, "")]);
    assert_eq!(kinds(&after(|log| log.closed = None)), [(Kind::Close, "")]);
}

#[test]
fn an_id_must_stay_the_same_wherever_it_is_seen() {
    let recorded = "11111111-1111-4111-8111-111111111111";
    let now = "22222222-2222-4222-8222-222222222222";
    let mut learned = Learned::default();
    learned.learn(&json!({ "a": recorded }), &json!({ "a": now }));
    let find = |actual: &str| {
        let places = Places::default();
        crate::compare::Comparer::new("p", &learned, &places)
            .frame(&json!({ "sessionId": recorded }), &json!({ "sessionId": actual }))
    };
    assert_eq!(find(now), []);
    assert_eq!(kinds(&find("33333333-3333-4333-8333-333333333333")), [(Kind::Value, "/sessionId")]);
    assert_eq!(
        learned.apply(&json!([format!("inject-{recorded}")])),
        json!([format!("inject-{now}")])
    );
}

#[test]
fn texts_are_the_same_but_for_ids_times_versions_and_places() {
    let places = Places { state_dir: "/tmp/x/state".to_owned(), ..Places::default() };
    let is_same = |recorded: &str, actual: &str| same(recorded, actual, &places);
    assert!(is_same("<STATE_DIR>/a.json", "/tmp/x/state/a.json"));
    assert!(!is_same("<STATE_DIR>/a.json", "/tmp/x/state/b.json"));
    assert!(is_same(
        "Gateway: <HOSTNAME> (<HOST_IP>) · app 2026.5.7",
        "Gateway: box (10.0.0.1) · app 0.1.0"
    ));
    assert!(!is_same("Gateway: <HOSTNAME> · mode gateway", "Gateway: box · mode ui"));
    assert!(is_same("call_mock_7_0", "call_mock_12_0"));
    assert!(is_same("abcdef…<clipped, 100 chars in all>", "abcdefgh"));
    assert!(!is_same("abcdef…<clipped, 100 chars in all>", "abcxef"));
    assert!(!is_same("unknown method: a", "unknown method: b"));
}

#[test]
fn limits_and_places_are_no_free_values() {
    for path in ["/payload/policy/tickIntervalMs", "/payload/host", "/error/retryAfterMs", "/path"]
    {
        assert_eq!(class_of(path), None, "{path}");
    }
    assert_eq!(class_of("/payload/issuedAtMs"), Some(Class::Time));
    assert_eq!(class_of("/payload/stateVersion/presence"), Some(Class::Count));
}

#[test]
fn a_pattern_matches_the_whole_text() {
    assert!(glob("* res connect", "c5 res connect"));
    assert!(glob("*/eventLoop/*", "/payload/eventLoop/utilization"));
    assert!(!glob("* res connect", "c5 res connect again"));
    assert!(!glob("/payload", "/payload/x"));
}
