//! Whatever a newer or foreign writer puts into a message comes out again.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::json;

use super::*;

/// A member that no version of ours has, with any value.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    btree_map("x[A-Za-z]{1,6}", anything(), 0..3)
        .prop_map(|members| members.into_iter().collect::<Map<_, _>>())
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// `known`, and behind it what is unknown.
fn with(known: Value, unknown: Map<String, Value>) -> Value {
    let Value::Object(mut members) = known else { panic!("{known} is no object") };
    members.extend(unknown);
    Value::Object(members)
}

/// `known` with these members as well, where they are given.
fn and(mut known: Value, optional: &[(&str, Option<Value>)]) -> Value {
    for (name, value) in optional {
        if let Some(value) = value {
            known[*name] = value.clone();
        }
    }
    known
}

fn text() -> impl Strategy<Value = Value> {
    ".{0,8}".prop_map(Value::from)
}

fn block() -> impl Strategy<Value = Value> {
    let known = prop_oneof![
        (text(), option::of(text())).prop_map(|(text, signature)| {
            and(json!({"type": "text", "text": text}), &[("textSignature", signature)])
        }),
        (text(), option::of(text()), option::of(any::<bool>())).prop_map(
            |(thought, signature, redacted)| {
                let thought = json!({"type": "thinking", "thinking": thought});
                let redacted = redacted.map(Value::from);
                and(thought, &[("thinkingSignature", signature), ("redacted", redacted)])
            }
        ),
        text().prop_map(|data| json!({"type": "image", "data": data, "mimeType": "image/png"})),
        (text(), anything(), option::of(text())).prop_map(|(id, arguments, signature)| {
            let call = json!({"type": "toolCall", "id": id, "name": "n", "arguments": arguments});
            and(call, &[("thoughtSignature", signature)])
        }),
        // Of a type that we do not know, or of a known one with other members.
        "[a-z]{9,12}".prop_map(|kind| json!({"type": kind})),
        Just(json!({"type": "text", "text": ["not", "one"]})),
        Just(json!({"type": "image", "source": {"data": "AA=="}})),
    ];
    let object = (known, unknown()).prop_map(|(known, more)| with(known, more));
    prop_oneof![8 => object, 1 => anything()]
}

fn usage() -> impl Strategy<Value = Value> {
    // A whole number has no fraction on the wire.
    let price = prop_oneof![(0..9_u64).prop_map(Value::from), (0.1..0.9).prop_map(Value::from)];
    let cost = (vec(price, 5), unknown()).prop_map(|(part, more)| {
        let names = ["input", "output", "cacheRead", "cacheWrite", "total"];
        with(names.into_iter().zip(part).collect::<Value>(), more)
    });
    (vec(any::<u64>(), 5), cost, unknown()).prop_map(|(part, cost, more)| {
        let names = ["input", "output", "cacheRead", "cacheWrite", "totalTokens"];
        let mut usage: Value = names.into_iter().zip(part).collect();
        usage["cost"] = cost;
        with(usage, more)
    })
}

const STOPS: [&str; 5] = ["stop", "length", "toolUse", "error", "aborted"];

fn message() -> impl Strategy<Value = Value> {
    let content = || vec(block(), 0..4).prop_map(Value::from);
    let known = prop_oneof![
        (prop_oneof![content(), text()], any::<u64>())
            .prop_map(|(content, at)| json!({"role": "user", "content": content, "timestamp": at})),
        (content(), usage(), proptest::sample::select(&STOPS[..]), option::of(text()), text())
            .prop_map(|(content, usage, stop, error, model)| {
                let answer = json!({
                    "role": "assistant", "content": content, "api": "a", "provider": "p",
                    "model": model, "usage": usage, "stopReason": stop, "timestamp": 1,
                });
                and(answer, &[("responseId", error.clone()), ("errorMessage", error)])
            }),
        (content(), any::<bool>(), option::of(block())).prop_map(|(content, failed, details)| {
            let result = json!({
                "role": "toolResult", "toolCallId": "c", "toolName": "t", "content": content,
                "isError": failed, "timestamp": 1,
            });
            and(result, &[("details", details.filter(|it| !it.is_null()))])
        }),
    ];
    (known, unknown()).prop_map(|(known, more)| with(known, more))
}

proptest! {
    #[test]
    fn every_member_of_every_message_survives(written in message()) {
        let read: AgentMessage = serde_json::from_value(written.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), written.clone());
        // And through its text, which is how transcripts have it.
        let read: AgentMessage = serde_json::from_str(&written.to_string()).unwrap();
        let again = serde_json::to_string(&read).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), written);
    }
}
