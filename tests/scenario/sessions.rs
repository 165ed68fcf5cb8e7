//! `sessions.*`: looking at sessions, and what changes them.

use serde_json::{Value, json};

use crate::stage::{
    RUN_LIMIT, admin, ask, call, config, deltas, end_of, ends_of, history, lines, refusal,
    scripted, start, text_of, told,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// The `sessions.changed` payload with this reason.
async fn changed(client: &WsClient, reason: &str) -> Value {
    let event = client.wait_for(RUN_LIMIT, |frame| {
        frame["event"] == "sessions.changed" && frame["payload"]["reason"] == reason
    });
    event.await.unwrap_or_else(|| panic!("no {reason}"))["payload"].clone()
}

#[tokio::test]
async fn a_session_is_found_described_and_read() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "life", "@mock text text=\"born\"", "run-1").await;
    let found = call(&mut client, "sessions.resolve", json!({"key": "life"})).await;
    assert_eq!(found, json!({"ok": true, "key": "agent:main:life"}));
    let row = call(&mut client, "sessions.describe", json!({"key": "life"})).await;
    let id = row["session"]["sessionId"].clone();
    let found = call(&mut client, "sessions.resolve", json!({"sessionId": id})).await;
    assert_eq!(found["key"], "agent:main:life");
    let nothing = call(&mut client, "sessions.describe", json!({"key": "nope"})).await;
    assert_eq!(nothing, json!({"session": null}));
    let raw = call(&mut client, "sessions.get", json!({"key": "life", "limit": 1})).await;
    assert_eq!(raw["messages"].as_array().unwrap().len(), 1);
    assert!(raw["messages"][0]["usage"]["cost"].is_object(), "{raw}");
    let preview = call(&mut client, "sessions.preview", json!({"keys": ["life", "nope"]})).await;
    let items = preview["previews"][0]["items"].as_array().unwrap();
    assert_eq!(items.last().unwrap(), &json!({"role": "assistant", "text": "born"}));
    assert_eq!(preview["previews"][1], json!({"key": "nope", "status": "missing", "items": []}));
    for (method, params, text) in [
        ("sessions.resolve", json!({}), "Either key, sessionId, or label is required"),
        ("sessions.resolve", json!({"label": "x"}), "No session found with label: x"),
        (
            "sessions.resolve",
            json!({"key": "main", "label": "x"}),
            "Provide either key, sessionId, or label (not multiple)",
        ),
        ("sessions.get", json!({}), "key required"),
        ("sessions.abort", json!({}), "key required"),
        ("sessions.send", json!({"key": "nope", "message": "x"}), "session not found: nope"),
        (
            "chat.send",
            json!({"sessionKey": "agent:nope:main", "message": "x", "idempotencyKey": "k"}),
            "Agent \"nope\" no longer exists in configuration",
        ),
        (
            "agent",
            json!({"sessionKey": "agent:nope:main", "message": "x", "idempotencyKey": "k"}),
            "Agent \"nope\" no longer exists in configuration",
        ),
        (
            "sessions.delete",
            json!({"key": "main"}),
            "Cannot delete the main session (agent:main:main).",
        ),
    ] {
        assert_eq!(refusal(&mut client, method, params).await, text);
    }
}

#[tokio::test]
async fn what_is_meant_is_one_session_and_none_that_the_filters_leave_out() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), crate::stage::Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main", "default": true}, {"id": "ops"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    for key in ["agent:main:x", "agent:ops:x"] {
        call(&mut client, "sessions.create", json!({"key": key, "label": "Twin"})).await;
    }
    let row = call(&mut client, "sessions.describe", json!({"key": "agent:ops:x"})).await;
    let id = row["session"]["sessionId"].clone();
    let twins = refusal(&mut client, "sessions.resolve", json!({"label": "Twin"})).await;
    assert!(twins.starts_with("Multiple sessions found with label: Twin ("), "{twins}");
    assert!(twins.contains("agent:main:x") && twins.contains("agent:ops:x"), "{twins}");
    for named in [json!({"label": "Twin"}), json!({"key": "agent:ops:x"}), json!({"sessionId": id})]
    {
        for (filter, is_found) in [
            (json!({"agentId": "ops"}), true),
            (json!({"agentId": "other"}), false),
            (json!({"agentId": "ops", "spawnedBy": "main"}), false),
        ] {
            let mut params = named.clone();
            params.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
            let answer = client.request("sessions.resolve", params).await;
            let key = &answer["payload"]["key"];
            assert_eq!(*key == "agent:ops:x", is_found, "{named} {filter}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_message_has_its_place_also_where_nobody_has_counted_those_before_it() {
    let (mut gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    ask(&mut admin(&gateway).await, "life", "@mock text text=\"born\"", "run-1").await;
    gateway.terminate().await;
    // The next index is made of what the files tell.
    for end in ["-wal", "-shm"] {
        // It is gone when nobody uses the database.
        let _ = std::fs::remove_file(gateway.state_dir().join(format!("clawgate.sqlite{end}")));
    }
    std::fs::write(gateway.state_dir().join("clawgate.sqlite"), "").unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let said = json!({"key": "life", "message": "@mock text text=\"lives\"",
        "idempotencyKey": "run-2"});
    let answer = call(&mut client, "sessions.send", said).await;
    assert_eq!(answer, json!({"runId": "run-2", "status": "started", "messageSeq": 3}));
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "lives");
}

#[tokio::test]
async fn a_message_goes_to_an_existing_session_and_steering_stops_what_runs() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "life", "@mock text text=\"born\"", "run-1").await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    let long = json!({"key": "life", "message": "@mock stream n=200 delay=100",
        "idempotencyKey": "long"});
    let answer = call(&mut client, "sessions.send", long).await;
    assert_eq!(answer, json!({"runId": "long", "status": "started", "messageSeq": 3}));
    assert_eq!(changed(&client, "send").await["hasActiveRun"], true);
    deltas(&client, "long", 1).await;
    let steer = json!({"key": "life", "message": "@mock text text=\"steered\"",
        "idempotencyKey": "steer"});
    let answer = call(&mut client, "sessions.steer", steer).await;
    assert_eq!(answer["interruptedActiveRun"], true, "{answer}");
    assert_eq!(end_of(&client, "long").await["state"], "aborted");
    assert_eq!(text_of(&end_of(&client, "steer").await["message"]), "steered");
    changed(&client, "steer").await;
    start(&mut client, "life", "@mock stream n=200 delay=100", "long-2").await;
    deltas(&client, "long-2", 1).await;
    let answer = call(&mut client, "sessions.abort", json!({"runId": "long-2"})).await;
    assert_eq!(answer, json!({"ok": true, "abortedRunId": "long-2", "status": "aborted"}));
    changed(&client, "abort").await;
    let answer = call(&mut client, "sessions.abort", json!({"key": "life"})).await;
    assert_eq!(answer, json!({"ok": true, "abortedRunId": null, "status": "no-active-run"}));
}

#[tokio::test]
async fn a_message_that_is_not_taken_steers_nothing() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "life", "@mock stream n=20 delay=50", "long").await;
    deltas(&client, "long", 1).await;
    for (more, text) in [
        (json!({"message": " "}), "message or attachment required"),
        (json!({"message": "a\0b"}), "message must not contain null bytes"),
        (
            json!({"message": "see", "attachments": [{"fileName": "a", "content": "***"}]}),
            "Error: attachment a: invalid base64 content",
        ),
    ] {
        let mut params = json!({"key": "life"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(refusal(&mut client, "sessions.steer", params).await, text);
    }
    let end = end_of(&client, "long").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!("stop")));
}

#[tokio::test]
async fn half_a_character_costs_only_itself() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    // As JavaScript cuts a text within an emoji.
    let params = r#"{"sessionKey":"main","message":"cut \ud83d","idempotencyKey":"cut"}"#;
    let frame = format!(r#"{{"type":"req","id":"half","method":"chat.send","params":{params}}}"#);
    client.send_text(frame).await;
    assert_eq!(client.answer("half").await.expect("an answer")["ok"], true);
    end_of(&client, "cut").await;
    assert_eq!(text_of(&history(&mut client, "main").await[0]), "cut \u{fffd}");
}

#[tokio::test]
async fn a_message_that_was_taken_before_steers_nothing() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "life", "@mock text text=\"born\"", "run-1").await;
    let text = "@mock stream n=20 delay=50";
    let steer = json!({"key": "life", "message": text, "idempotencyKey": "steer"});
    call(&mut client, "sessions.steer", steer.clone()).await;
    deltas(&client, "steer", 1).await;
    let again = call(&mut client, "sessions.steer", steer.clone()).await;
    assert_eq!((&again["runId"], &again["status"]), (&json!("steer"), &json!("in_flight")));
    assert_eq!(end_of(&client, "steer").await["state"], "final");
    start(&mut client, "life", "@mock stream n=20 delay=50 of=another", "other").await;
    deltas(&client, "other", 1).await;
    let again = call(&mut client, "sessions.steer", steer).await;
    assert_eq!((&again["runId"], &again["status"]), (&json!("steer"), &json!("ok")));
    let end = end_of(&client, "other").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!("stop")));
    assert_eq!(ends_of(&client, "steer").len(), 1);
    let told = told(&mut client, "life").await;
    assert_eq!(told.iter().filter(|(_, said)| said == text).count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_reset_or_delete_stops_the_run_and_puts_the_transcript_away() {
    let (gateway, _mock) = scripted(crate::stage::Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    start(&mut client, "life", "@mock stream n=200 delay=100", "long").await;
    deltas(&client, "long", 1).await;
    let answer = call(&mut client, "sessions.reset", json!({"key": "life"})).await;
    let id = answer["entry"]["sessionId"].clone();
    let end = end_of(&client, "long").await;
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("final"), &json!("interrupt")));
    assert!(text_of(&end["message"]).starts_with("w1"), "it tells what it has: {end}");
    assert_eq!(changed(&client, "reset").await["sessionId"], id);
    assert_eq!(told(&mut client, "life").await, lines(&[]));
    start(&mut client, "life", "@mock stream n=200 delay=100", "long-2").await;
    deltas(&client, "long-2", 1).await;
    let answer = call(&mut client, "sessions.delete", json!({"key": "life"})).await;
    assert_eq!(answer["deleted"], true);
    let archived = answer["archived"][0].as_str().unwrap();
    assert!(archived.contains(".jsonl.deleted."), "{answer}");
    assert!(std::path::Path::new(archived).exists());
    let gone = changed(&client, "delete").await;
    assert!(gone.get("sessionId").is_none() && gone["sessionKey"] == "agent:main:life");
    let again = call(&mut client, "sessions.delete", json!({"key": "life"})).await;
    assert_eq!(
        again,
        json!({"ok": true, "key": "agent:main:life", "deleted": false, "archived": []})
    );
}
