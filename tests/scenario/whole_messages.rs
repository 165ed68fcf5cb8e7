//! What lists shorten, and how to get the rest.

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, connect, history, scripted, text_of};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

async fn whole(client: &mut WsClient, session: &str, id: &Value) -> Value {
    call(client, "chat.message.get", json!({"sessionKey": session, "messageId": id})).await
}

#[tokio::test]
async fn a_shortened_message_says_so_and_is_whole_by_its_id() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.messages.subscribe", json!({"key": "main"})).await;
    ask(&mut client, "main", "@mock long kb=20", "run-1").await;
    ask(&mut client, "main", "@mock long kb=200", "run-2").await;
    let messages = history(&mut client, "main").await;
    let expected = format!("{}\n...(truncated)...", "x".repeat(8000));
    for (index, kb) in [(1, 20), (3, 200)] {
        let shown = &messages[index];
        assert_eq!(text_of(shown), expected);
        assert_eq!(shown["__openclaw"]["truncated"], true);
        let found = whole(&mut client, "main", &shown["__openclaw"]["id"]).await;
        assert_eq!(text_of(&found["message"]), "x".repeat(kb * 1024));
        assert_eq!(found["message"]["__openclaw"]["seq"], shown["__openclaw"]["seq"]);
    }
    assert!(messages[0]["__openclaw"].get("truncated").is_none());
    // So does the event.
    let event = client.wait_for(crate::stage::RUN_LIMIT, |frame| {
        frame["event"] == "session.message" && frame["payload"]["messageSeq"] == 4
    });
    assert_eq!(event.await.unwrap()["payload"]["message"]["__openclaw"]["truncated"], true);

    let params =
        json!({"sessionKey": "main", "messageId": messages[3]["__openclaw"]["id"], "maxChars": 9});
    let cut = call(&mut client, "chat.message.get", params).await;
    assert_eq!(text_of(&cut["message"]), "xxxxxxxxx\n...(truncated)...");
    assert_eq!(cut["message"]["__openclaw"]["truncated"], true);
}

#[tokio::test]
async fn what_cannot_be_had_is_told_by_its_reason() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock silent", "run-1").await;
    let missing = whole(&mut client, "main", &json!("nope")).await;
    assert_eq!(
        (&missing["ok"], &missing["unavailableReason"]),
        (&json!(false), &json!("not_found"))
    );
    assert_eq!(missing["error"]["code"], "INVALID_REQUEST");
    let elsewhere = whole(&mut client, "nowhere", &json!("nope")).await;
    assert_eq!(elsewhere["unavailableReason"], "not_found");

    let folder = gateway.state_dir().join("agents/main/sessions");
    let transcript = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(transcript).unwrap();
    let silent = lines.lines().find(|line| line.contains("\"NO_REPLY\"")).unwrap();
    let silent: Value = serde_json::from_str(silent).unwrap();
    let hidden = whole(&mut client, "main", &silent["id"]).await;
    assert_eq!(hidden["unavailableReason"], "not_visible");

    for (params, text) in [
        (json!({"sessionKey": "main"}), "must have required property 'messageId'"),
        (
            json!({"sessionKey": "main", "messageId": "x", "maxChars": 0}),
            "at /maxChars: must be >= 1",
        ),
        (
            json!({"sessionKey": "main", "messageId": "x", "agentId": "other"}),
            "agent \"other\" does not match session key agent \"main\"",
        ),
    ] {
        let answer = client.request("chat.message.get", params).await;
        assert_eq!(answer["error"]["message"], format!("invalid chat.message.get params: {text}"));
    }
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    assert_eq!(whole(&mut reader, "main", &json!("x")).await["unavailableReason"], "not_found");
}

#[tokio::test]
async fn a_message_larger_than_a_frame_is_read_in_parts() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    // No provider answers so much; a transcript of another gateway may hold it.
    let folder = gateway.state_dir().join("agents/main/sessions");
    let transcript = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let text = "ö".repeat(14_000_000);
    let line = json!({"type": "message", "id": "feedbeef", "parentId": null,
        "timestamp": "2026-11-22T03:35:28.398Z",
        "message": {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}});
    let mut file = std::fs::OpenOptions::new().append(true).open(transcript).unwrap();
    std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();

    let answer = whole(&mut client, "main", &json!("feedbeef")).await;
    assert_eq!(answer["unavailableReason"], "oversized");
    let (mut json_text, mut offset) = (String::new(), Some(0));
    while let Some(from) = offset {
        let params = json!({"sessionKey": "main", "messageId": "feedbeef", "offset": from});
        let answer = call(&mut client, "chat.message.get", params).await;
        json_text.push_str(answer["part"]["text"].as_str().unwrap());
        offset = answer["part"]["nextOffset"].as_u64();
    }
    let message: Value = serde_json::from_str(&json_text).unwrap();
    assert!(text_of(&message) == text);
    assert_eq!(history(&mut client, "main").await[2]["__openclaw"]["truncated"], true);
}

#[tokio::test]
async fn the_configuration_says_how_much_of_a_text_a_history_shows() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["gateway"]["webchat"] = json!({"chatHistoryMaxChars": 12});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "twelve chars and more", "run-1").await;
    assert_eq!(text_of(&history(&mut client, "main").await[0]), "twelve chars\n...(truncated)...");
}

#[tokio::test]
async fn a_dashboard_gets_its_entries_by_run() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["userAgent"] = json!("openclaw-dashboard/0.1.0 node/v20.0.0");
    let mut dashboard = connect(&gateway, &params).await;
    let call_and_answer = "@mock tool name=session_status then=ok";
    ask(&mut dashboard, "main", call_and_answer, "run-1").await;
    ask(&mut dashboard, "main", "hello", "run-2").await;
    let page = call(&mut dashboard, "chat.history", json!({"sessionKey": "main"})).await;
    let entries = page["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{page}");
    assert_eq!((&entries[0]["runId"], &entries[1]["runId"]), (&json!("run-1"), &json!("run-2")));
    assert_eq!(entries[0]["messages"].as_array().unwrap().len(), 4);
    let [called, result] = [1_usize, 2].map(|index| &entries[0]["messages"][index]);
    let (call_block, result_block) = (&called["content"][0], &result["content"][0]);
    assert_eq!(
        (&call_block["type"], &result["role"], &result_block["type"]),
        (&json!("tool_use"), &json!("assistant"), &json!("tool_result"))
    );
    assert_eq!(result_block["tool_use_id"], call_block["id"]);
    assert_eq!(page["messages"][2]["role"], "toolResult", "what others read stays");
    assert_eq!(entries[1]["sessionKey"], "main");
    assert!(entries[1]["completedAt"].as_str().unwrap().ends_with('Z'), "{page}");
    assert!(entries[1]["usage"]["outputTokens"].as_u64().unwrap() > 0);
    let note = json!({"sessionKey": "main", "content": "a note", "role": "system"});
    call(&mut dashboard, "chat.inject", note).await;
    let mut other = admin(&gateway).await;
    assert_eq!(text_of(history(&mut other, "main").await.last().unwrap()), "a note");
    let page = call(&mut other, "chat.history", json!({"sessionKey": "main"})).await;
    assert!(
        page.get("entries").is_none() && page["messages"][0]["__openclaw"].get("runId").is_none()
    );
}
