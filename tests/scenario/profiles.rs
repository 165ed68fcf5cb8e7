//! The same run as each kind of client sees it.

use serde_json::{Value, json};

use crate::stage::{
    Api, Stage, admin, ask, call, connect, end_of, events, scripted, start, text_of,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, SECRET, WsClient};

const ANSWER: &str = "Good morning. This answer comes in many small pieces, one after the other.";

fn simple() -> Value {
    json!({"clientType": "web", "clientVersion": "1.0.0", "auth": {"token": SECRET}})
}

fn dashboard() -> Value {
    let mut params = standard_connect(&ALL_SCOPES);
    params["userAgent"] = json!("openclaw-dashboard/1.0");
    params
}

fn version_4() -> Value {
    let mut params = standard_connect(&ALL_SCOPES);
    params["maxProtocol"] = json!(4);
    params
}

fn delta_texts(client: &WsClient, run_id: &str) -> Vec<String> {
    let mut chat = events(client, "chat", run_id);
    chat.retain(|payload| payload["state"] == "delta");
    chat.iter().map(|payload| text_of(&payload["message"])).collect()
}

#[tokio::test]
async fn every_kind_of_client_sees_the_same_text_in_its_own_way() {
    let stage = Stage::new(Api::OpenAi).await;
    let mut v3 = admin(&stage.gateway).await;
    let v4 = connect(&stage.gateway, &version_4()).await;
    let dashboard = connect(&stage.gateway, &dashboard()).await;
    let simple = connect(&stage.gateway, &simple()).await;
    start(&mut v3, "main", "greet me", "run-1").await;
    for client in [&v3, &v4, &dashboard, &simple] {
        let end = end_of(client, "run-1").await;
        assert_eq!(text_of(&end["message"]), ANSWER, "the end has the whole text");
    }
    for cumulative in [delta_texts(&v3, "run-1"), delta_texts(&v4, "run-1")] {
        assert!(cumulative.len() >= 3);
        assert_eq!(cumulative.last().unwrap(), ANSWER);
    }
    for increments in [delta_texts(&dashboard, "run-1"), delta_texts(&simple, "run-1")] {
        assert!(increments.len() >= 3);
        assert_eq!(increments.concat(), ANSWER);
    }
    let pieces = events(&v4, "chat", "run-1");
    let pieces: String =
        pieces.iter().filter_map(|payload| payload["deltaText"].as_str()).collect();
    assert_eq!(pieces, ANSWER);
    assert!(events(&v3, "chat", "run-1").iter().all(|payload| payload.get("deltaText").is_none()));
}

#[tokio::test]
async fn version_4_is_spoken_with_who_asks_for_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let hello = gateway.open().await.request("connect", version_4()).await;
    assert_eq!(hello["payload"]["protocol"], 4);
    assert!(hello["payload"]["pluginSurfaceUrls"].is_object(), "{hello}");
    let hello = gateway.open().await.request("connect", standard_connect(&ALL_SCOPES)).await;
    assert_eq!(hello["payload"]["protocol"], 3);
    let mut newer = standard_connect(&ALL_SCOPES);
    (newer["minProtocol"], newer["maxProtocol"]) = (json!(5), json!(6));
    let mut client = gateway.open().await;
    let refused = client.request("connect", newer).await;
    assert_eq!(refused["error"]["message"], "protocol mismatch", "{refused}");
    assert_eq!(refused["error"]["details"]["maxProtocol"], 4, "{refused}");
    assert_eq!(client.wait_closed(crate::support::client::SOON).await.unwrap().code, 1002);
}

#[tokio::test]
async fn the_simple_profile_shows_tools_as_the_seed_does() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &simple()).await;
    let text = r#"@mock tool name=session_status args={} pre="Let me look." then="I see.""#;
    ask(&mut client, "main", text, "run-1").await;
    let steps = events(&client, "agent", "run-1");
    let tools: Vec<_> = steps.iter().filter(|step| step["stream"] == "tool").collect();
    assert_eq!(tools.len(), 2, "{steps:?}");
    assert!(tools.iter().all(|step| step["sessionKey"] == "main"), "{tools:?}");
    let params = json!({"sessionKey": "main"});
    let page = call(&mut client, "chat.history", params.clone()).await;
    assert_eq!(page["thinkingLevel"], "none");
    let messages = page["messages"].as_array().unwrap();
    let call_block = &messages[1]["content"][1];
    assert_eq!(
        (&call_block["type"], &call_block["name"]),
        (&json!("tool_use"), &json!("session_status"))
    );
    assert_eq!(call_block["input"], json!({}));
    let result = &messages[2];
    assert_eq!(
        (&result["role"], &result["content"][0]["type"]),
        (&json!("user"), &json!("tool_result"))
    );
    assert_eq!(result["content"][0]["tool_use_id"], call_block["id"]);
    assert_eq!(text_of(&messages[3]), "I see.");
    // The standard profile has them in its own form.
    let mut standard = admin(&gateway).await;
    let page = call(&mut standard, "chat.history", params).await;
    assert_eq!(page["thinkingLevel"], "off");
    assert_eq!(page["messages"][1]["content"][1]["type"], "toolCall");
    assert_eq!(page["messages"][2]["role"], "toolResult");
}

#[tokio::test]
async fn the_simple_profile_keeps_keys_as_written_and_counts_as_the_seed_does() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &simple()).await;
    for (run_id, key) in [("run-1", "main"), ("run-2", "agent:main:work"), ("run-3", "Notes")] {
        let end = ask(&mut client, key, "hello", run_id).await;
        assert_eq!(end["sessionKey"], key);
        assert_eq!(end["stopReason"], "end_turn");
        assert!(end["usage"]["inputTokens"].as_u64() > Some(0), "{end}");
        assert!(end["usage"]["outputTokens"].as_u64() > Some(0), "{end}");
        for event in [events(&client, "chat", run_id), events(&client, "agent", run_id)].concat() {
            assert_eq!(event["sessionKey"], key, "{event}");
        }
        assert_eq!(end_of(&client, run_id).await["sessionKey"], key);
    }
    let list = call(&mut client, "sessions.list", json!({})).await;
    let mut keys: Vec<_> =
        list["sessions"].as_array().unwrap().iter().map(|row| row["key"].clone()).collect();
    keys.sort_by_key(Value::to_string);
    assert_eq!(keys, ["Notes", "agent:main:work", "main"]);
}

#[tokio::test]
async fn the_simple_profile_has_its_own_error_codes() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &simple()).await;
    for (method, params, code) in [
        ("chat.send", json!({"sessionKey": "main"}), "invalid_params"),
        ("chat.history", json!({"sessionKey": "main", "limit": 0}), "invalid_params"),
        ("chat.inject", json!({"sessionKey": "nowhere", "message": "x"}), "not_found"),
        ("no.such.method", json!({}), "not_found"),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
    let wrong = json!({"clientType": "web", "auth": {"token": "wrong"}});
    let refused = gateway.open().await.request("connect", wrong).await;
    assert_eq!(refused["error"]["code"], "permission_denied", "{refused}");
}

#[tokio::test]
async fn the_simple_profile_says_how_hard_to_think_in_its_own_words() {
    let (gateway, mock) = scripted(Api::Anthropic).await;
    let mut client = connect(&gateway, &simple()).await;
    for (run_id, level) in [("run-1", "normal"), ("run-2", "none")] {
        let params = json!({"sessionKey": "main", "message": format!("hello {run_id}"),
            "thinking": level, "idempotencyKey": run_id, "deliver": true, "unknown": 1});
        call(&mut client, "chat.send", params).await;
        end_of(&client, run_id).await;
    }
    let asked: Vec<_> =
        mock.requests().iter().map(|request| request.body["thinking"]["type"].clone()).collect();
    assert_eq!(asked[0], "enabled");
    assert_ne!(asked[1], "enabled");
    unknown_members_are_refused_elsewhere(&gateway).await;
}

async fn unknown_members_are_refused_elsewhere(gateway: &Gateway) {
    let mut standard = admin(gateway).await;
    let params = json!({"sessionKey": "main", "message": "x", "idempotencyKey": "k", "unknown": 1});
    let refused = standard.request("chat.send", params).await;
    assert_eq!(refused["error"]["code"], "INVALID_REQUEST", "{refused}");
}
