//! Requests of HTTP: what of their answers is reported, and texts that were cut.

use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::compare::{Finding, Kind};
use crate::cut::{beginning, completed, refill};
use crate::replay::Outcome;
use crate::trace::{Trace, What};
use crate::verdict::checks;

const RECORDED: &str = r#"{"d":"about","text":"small"}
{"t":0,"req":{"method":"GET","path":"/a","headers":{}},"res":{"status":200,"headers":{"content-type":"application/json","cache-control":"no-store"},"ms":1,"body":"{\"id\":\"run_11111111-1111-4111-8111-111111111111\",\"n\":1}"}}
{"t":2,"note":"as a stream","req":{"method":"GET","path":"/b","headers":{}},"res":{"status":200,"headers":{},"ms":9,"sse":[{"at":1,"text":"event: one\n"},{"at":1,"text":"data: {\"id\":\"run_11111111-1111-4111-8111-111111111111\"}\n\n"},{"at":9,"text":"data: [DONE]\n\n"}]}}
{"t":20,"req":{"method":"POST","path":"/c","headers":{"content-length":"9"},"note":"no body sent"},"res":{"raw":""}}"#;
const OTHER_ID: &str = "run_22222222-2222-4222-8222-222222222222";

fn trace() -> Trace {
    Trace::parse("small/calls", RECORDED).unwrap()
}

/// The findings after `change` was made to the answers.
fn after(change: impl FnOnce(&mut Vec<Answer>)) -> Vec<(Kind, String, String)> {
    let trace = trace();
    let calls = trace.lines.iter().filter_map(|line| match &line.what {
        What::Http(call) => Some(call.answer.clone()),
        _ => None,
    });
    let mut answers: Vec<Answer> = calls.collect();
    change(&mut answers);
    let mut outcome = Outcome::default();
    for (line, answer) in trace.lines.iter().zip(answers) {
        if let (What::Http(call), Answer::Given(actual)) = (&line.what, &answer)
            && let Answer::Given(recorded) = &call.answer
        {
            outcome.learned.learn(recorded, actual);
        }
        outcome.answers.insert(line.number, answer);
    }
    let findings = checks(&trace, &outcome).into_iter().flat_map(|check| check.findings);
    findings.map(|Finding { kind, place, path, .. }| (kind, place, path)).collect()
}

fn given(answer: &mut Answer) -> &mut Value {
    match answer {
        Answer::Given(value) => value,
        Answer::Withheld(how) => panic!("{how}"),
    }
}

fn finding(kind: Kind, place: &str, path: &str) -> (Kind, String, String) {
    (kind, place.to_owned(), path.to_owned())
}

#[test]
fn answers_as_recorded_have_no_findings() {
    assert_eq!(after(|_| {}), []);
}

#[test]
fn another_header_member_or_event_is_reported() {
    let findings = after(|answers| {
        given(&mut answers[0])["headers"]["cache-control"] = "no-cache".into();
        given(&mut answers[0])["body"]["n"] = 2.into();
        given(&mut answers[1])["events"][0]["event"] = "two".into();
        given(&mut answers[1])["headers"]["vary"] = "origin".into();
    });
    let expected = [
        finding(Kind::Value, "GET /a", "/headers/cache-control"),
        finding(Kind::Value, "GET /a", "/body/n"),
        finding(Kind::Extra, "GET /b: as a stream", "/headers/vary"),
        finding(Kind::Value, "GET /b: as a stream", "/events/0/event"),
    ];
    assert_eq!(findings.len(), expected.len(), "{findings:?}");
    assert!(expected.iter().all(|it| findings.contains(it)), "{findings:?}");
}

#[test]
fn a_stream_that_does_not_end_or_ends_early_is_reported() {
    let place = "GET /b: as a stream";
    let open = after(|answers| given(&mut answers[1])["ended"] = false.into());
    assert_eq!(open, [finding(Kind::Value, place, "/ended")]);
    let short = after(|answers| {
        given(&mut answers[1])["events"].as_array_mut().unwrap().pop();
    });
    assert_eq!(short, [finding(Kind::Absent, place, "/events/1")]);
}

#[test]
fn another_status_is_one_finding() {
    let other = json!({ "status": 404, "headers": {}, "body": "Not Found" });
    let findings = after(|answers| answers[0] = Answer::Given(other));
    assert_eq!(findings, [finding(Kind::Value, "GET /a", "/status")]);
}

#[test]
fn an_answer_instead_of_none_and_none_instead_of_one_are_reported() {
    let findings = after(|answers| {
        answers[0] = Answer::Withheld("closed".to_owned());
        answers[2] = Answer::Given(json!({ "status": 413 }));
    });
    let expected = [finding(Kind::Close, "GET /a", ""), finding(Kind::Close, "POST /c", "")];
    assert_eq!(findings, expected);
}

#[test]
fn an_id_is_another_one_but_the_same_in_every_answer() {
    let both = after(|answers| {
        given(&mut answers[0])["body"]["id"] = OTHER_ID.into();
        given(&mut answers[1])["events"][0]["data"]["id"] = OTHER_ID.into();
    });
    assert_eq!(both, []);
    let one = after(|answers| given(&mut answers[0])["body"]["id"] = OTHER_ID.into());
    assert_eq!(one, [finding(Kind::Value, "GET /b: as a stream", "/events/0/data/id")]);
}

#[test]
fn requests_go_in_the_order_in_which_they_were_sent_and_as_often() {
    let line = |at: u64, note: &str| {
        let req = json!({ "method": "POST", "path": "/x", "headers": {} });
        let res = json!({ "status": 401, "headers": {}, "ms": 1, "body": "" });
        json!({ "t": at, "note": note, "req": req, "res": res }).to_string()
    };
    let lines = [line(9, "wrong 20"), line(1, "wrong 1"), line(12, "wrong 21"), line(15, "right")];
    let trace = Trace::parse("small/order", &lines.join("\n")).unwrap();
    let times = trace.lines.iter().map(|line| match &line.what {
        What::Http(call) => (call.note.as_str(), call.times),
        other => panic!("{other:?}"),
    });
    let times: Vec<_> = times.collect();
    assert_eq!(times, [("wrong 1", 1), ("wrong 20", 19), ("wrong 21", 1), ("right", 1)]);
}

#[test]
fn a_body_that_was_cut_is_sent_whole() {
    let whole = json!({ "m": [{ "text": format!("a\"b{}", "x".repeat(500)) }] }).to_string();
    let cut = format!("{}…<{} chars>", &whole[..40], whole.len());
    let (head, size) = beginning(&cut).unwrap();
    assert_eq!(refill(head, size), whole);
    let req = json!({ "method": "POST", "path": "/x", "headers": {}, "body": cut });
    let call = Call::parse(&json!({ "req": req, "res": { "error": "ECONNRESET" } })).unwrap();
    let sent = String::from_utf8(call.bytes("h")).unwrap();
    assert!(sent.ends_with(&format!("Content-Length: {}\r\n\r\n{whole}", whole.len())));
}

#[test]
fn of_an_answer_that_was_cut_the_beginning_is_compared() {
    let cut = r#"{"a":"x,{","list":[{"b":1},{"c":{"d":2,"e":"hal"#;
    let expected = json!({ "a": "x,{", "list": [
        { "b": 1 },
        { "c": { "d": 2, "__folded": true }, "__folded": true },
        { "__clipped_items": true },
    ], "__folded": true });
    assert_eq!(completed(cut), Some(expected));
    assert_eq!(completed("x"), None);
    assert_eq!(beginning("a…<12 chars in all>"), Some(("a", 12)));
    assert_eq!(beginning("a…<clipped, 12>"), None);
}
