//! Reading traces and scripts, and making messages and proofs anew.

use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::ids::made_up;
use crate::proof::{self, Challenge};
use crate::raw::{Message, rebuild};
use crate::report::{Status, merge, parse, render};
use crate::support::device::{DeviceKey, Form, payload, verifies};
use crate::trace::{Raw, Trace, What};

#[test]
fn each_kind_of_line_is_read() {
    let text = r#"{"d":"about","text":"x. Health, presence and tick left out."}
{"t":1,"c":"a","d":"open","headers":{"Origin":"http://h"}}
{"t":2,"c":"a","d":"raw>","bytes":5,"text":"{oops"}
{"t":3,"c":"a","d":"close","code":1000,"reason":""}
{"t":4,"c":"b","d":"<","f":{"type":"event","event":"tick"}}
{"t":5,"c":"a","d":"open"}
{"t":6,"c":"a","d":"close","by":"client"}"#;
    let trace = Trace::parse("x/y", text).unwrap();
    let origin = vec![("Origin".to_owned(), "http://h".to_owned())];
    assert_eq!(trace.lines[0].what, What::Open { headers: origin });
    let raw = Raw { bytes: 5, text: Some("{oops".to_owned()), note: None };
    assert_eq!(trace.lines[1].what, What::SentRaw(raw));
    assert_eq!(trace.lines[2].what, What::ClosedByServer { code: 1000, reason: String::new() });
    assert_eq!(trace.implicit(), ["b"], "never opened, so it was open before");
    assert_eq!(trace.connections(), ["a", "b", "a#2"], "opened again is another connection");
    assert_eq!(trace.lines[5].what, What::ClosedByClient);
}

#[test]
fn a_line_that_cannot_be_read_names_its_place() {
    let error = Trace::parse("x/y", "{\"d\":\"about\"}\n{\"t\":1,\"d\":\"sideways\"}").unwrap_err();
    assert_eq!(error, "x/y:2: unknown direction sideways");
}

#[test]
fn a_clipped_message_gets_its_recorded_size_back() {
    let raw = Raw { bytes: 65_536, text: Some("{\"type\":…".to_owned()), note: None };
    let Message::Text(text) = rebuild(&raw, None) else { panic!("not a text") };
    assert_eq!(text.len(), 65_536);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["id"], "big");
}

#[test]
fn a_binary_message_holds_what_was_answered() {
    let raw = Raw { bytes: 50, text: None, note: Some("binary frame".to_owned()) };
    let answer = json!({ "type": "res", "id": "q8", "ok": true, "payload": null });
    let Message::Binary(bytes) = rebuild(&raw, Some(&answer)) else { panic!("not binary") };
    let request: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((bytes.len(), &request["method"]), (50, &json!("last-heartbeat")));
    assert_eq!(rebuild(&raw, None), Message::Binary(vec![0xff; 50]));
}

#[test]
fn the_ids_in_a_text_are_found() {
    let uuid = "d0b75ede-f857-4647-9982-b157383e3826";
    assert_eq!(made_up(&format!("inject-{uuid}")), [uuid]);
    assert_eq!(made_up("agent:main:main 85398da9"), ["85398da9"]);
    assert_eq!(made_up("operator.read gateway-client"), [""; 0]);
}

fn recorded_connect(nonce: &str, signature_text: Option<Form>) -> Value {
    let key = DeviceKey::named("recorded");
    let mut connect = json!({
        "client": { "id": "cli", "mode": "cli", "platform": "linux" },
        "scopes": ["operator.read"],
        "auth": { "token": "t" },
    });
    let text = signature_text
        .map_or("wrong".to_owned(), |form| payload(form, &connect, &key.id(), nonce, "1000"));
    connect["device"] = json!({
        "id": key.id(), "publicKey": key.public_key(), "signature": key.sign(&text),
        "signedAt": 1000, "nonce": nonce,
    });
    connect
}

/// Whether the renewed proof of a recorded one holds under this form.
fn renewed_holds(recorded: &Value, form: Form) -> (bool, Value) {
    let challenge =
        Challenge { recorded_nonce: "old".to_owned(), recorded_ts: 1000, nonce: "new".to_owned() };
    let device = proof::renew(recorded, recorded, &challenge);
    let text = |name: &str| device[name].as_str().unwrap().to_owned();
    let signed_at = device["signedAt"].to_string();
    let signed = payload(form, recorded, &text("id"), &text("nonce"), &signed_at);
    (verifies(&text("publicKey"), &signed, &text("signature")), device)
}

#[test]
fn a_good_proof_stays_good_and_a_bad_one_bad() {
    for form in [Form::V2, Form::V3] {
        let recorded = recorded_connect("old", Some(form));
        let (holds, device) = renewed_holds(&recorded, form);
        assert!(holds, "{form:?}");
        assert_eq!(device["nonce"], "new");
        assert_ne!(device["publicKey"], recorded["device"]["publicKey"]);
    }
    let (holds, _) = renewed_holds(&recorded_connect("old", None), Form::V3);
    assert!(!holds, "a signature of another text stays one");
    let (_, device) = renewed_holds(&recorded_connect("another", Some(Form::V3)), Form::V3);
    assert_eq!(device["nonce"], "another", "a foreign nonce stays foreign");
}

#[test]
fn signatures_are_those_of_the_reference_vector() {
    let seed: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let key = DeviceKey::from_seed(seed);
    assert_eq!(key.public_key(), "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg");
    assert_eq!(key.id(), "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c");
    let connect = json!({
        "client": { "id": "cli", "mode": "cli", "platform": " Linux ", "deviceFamily": "PC" },
        "role": "operator",
        "scopes": ["operator.read", "operator.write"],
        "auth": { "token": "ref-secret-0001" },
    });
    let sign = |form| {
        let nonce = "11111111-2222-4333-8444-555555555555";
        key.sign(&payload(form, &connect, &key.id(), nonce, "1767225600000"))
    };
    assert_eq!(
        sign(Form::V2),
        "6ttsT6geimCRdviFUlyCSr2OkCRd6oPbICe2P27oKG-tNbq_7TUw3LRT0aQaQ7-7hxPFWUS27XAhWR6W2g7oCA"
    );
    assert_eq!(
        sign(Form::V3),
        "UonjRB-xgV0LYbEQrHkSz2EhjGD8PtEVazcUJSUllT1eH3Xcl5RT-8lnYSQrcPB24UaQxvq8hQWNJ6YRXTW4Dg"
    );
}

#[test]
fn the_report_is_read_as_it_is_written() {
    let names = ["a/b".to_owned(), "c/d".to_owned()];
    let table =
        [("a/b".to_owned(), Status::Passed), ("c/d".to_owned(), Status::Partly(3, 7))].into();
    assert_eq!(parse(&render(&table, &Corpus::copies())), table);
    assert_eq!(merge(&table, &names, &[], false), table, "what was not replayed stays");
}
