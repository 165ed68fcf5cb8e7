//! The same run as each kind of client sees it.

use serde_json::{Value, json};

use crate::channels::{SIGNING, with_channels};
use crate::stage::{
    Api, Stage, admin, ask, call, connect, end_of, events, scripted, start, text_of,
};
use crate::support::client::{ALL_SCOPES, SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, default_config};

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
    let used = end_of(&dashboard, "run-1").await["usage"].clone();
    assert!(used["inputTokens"].is_u64() && used["inputTokens"] == used["input"], "{used}");
    assert!(used["outputTokens"].is_u64() && used["totalCost"] == used["cost"]["total"], "{used}");
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
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1002);
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
    assert!(tools.iter().all(|step| step["session"]["key"] == "main"), "{tools:?}");
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
    assert_eq!(
        (&messages[1]["stopReason"], &messages[3]["stopReason"]),
        (&json!("tool_use"), &json!("end_turn"))
    );
    assert!(messages[3]["usage"]["outputTokens"].is_u64(), "{}", messages[3]);
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
async fn the_simple_profile_names_the_sessions_around_one_as_they_were_written() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &simple()).await;
    let mut operator = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    ask(&mut client, "trip", "hello", "run-1").await;
    let below = json!({"key": "kid", "parentSessionKey": "trip"});
    call(&mut client, "sessions.create", below).await;
    let spawned = "agent:main:subagent:1";
    call(&mut operator, "sessions.patch", json!({"key": spawned, "spawnedBy": "trip"})).await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    let rows = list["sessions"].as_array().unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap();
    assert_eq!(row("trip")["childSessions"], json!([spawned]));
    assert_eq!(row(spawned)["spawnedBy"], "trip");
    assert_eq!(row("kid")["parentSessionKey"], "trip");
    let told = client.wait_for(SOON, |frame| {
        frame["event"] == "sessions.changed" && frame["payload"]["sessionKey"] == spawned
    });
    let told = told.await.expect("an event")["payload"].clone();
    assert_eq!((&told["spawnedBy"], &told["parentSessionKey"]), (&json!("trip"), &json!("trip")));
}

#[tokio::test]
async fn a_dashboard_knows_what_happens_in_its_threads_by_the_keys_that_it_gave_them() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &dashboard()).await;
    let thread = "V1StGXR8_Z5jdHi6B-myT";
    let end = ask(&mut client, thread, "hello", "run-1").await;
    assert_eq!(end["sessionKey"], thread, "{end}");
    let seen = [events(&client, "chat", "run-1"), events(&client, "agent", "run-1")].concat();
    assert!(seen.len() > 2 && seen.iter().all(|event| event["sessionKey"] == thread), "{seen:?}");
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
async fn the_simple_profile_tells_what_does_not_exist_from_what_is_wrong() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut client, mut standard) = (connect(&gateway, &simple()).await, admin(&gateway).await);
    ask(&mut client, "main", "hello", "run-1").await;
    let checkpoint = json!({"key": "main", "checkpointId": "nope"});
    for (method, params) in [
        ("sessions.resolve", json!({"key": "nowhere"})),
        ("sessions.resolve", json!({"label": "nowhere"})),
        ("sessions.send", json!({"key": "nowhere", "message": "x"})),
        ("sessions.create", json!({"parentSessionKey": "nowhere"})),
        ("sessions.spawn", json!({"agentId": "nobody"})),
        ("sessions.cleanup", json!({"agent": "nobody"})),
        ("sessions.compaction.get", checkpoint.clone()),
        ("sessions.compaction.restore", checkpoint),
        ("tools.catalog", json!({"agentId": "nobody"})),
        ("tools.effective", json!({"sessionKey": "nowhere"})),
        ("commands.list", json!({"agentId": "nobody"})),
        ("wizard.status", json!({"sessionId": "nope"})),
        ("config.schema.lookup", json!({"path": "no.such.place"})),
        ("cron.update", json!({"id": "nope", "patch": {"enabled": false}})),
    ] {
        let answer = client.request(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], "not_found", "{method}: {answer}");
        let same = standard.request(method, params).await;
        let code = if method == "cron.update" { "UNAVAILABLE" } else { "INVALID_REQUEST" };
        assert_eq!(same["error"]["code"], code, "{method}: {same}");
        assert_eq!(same["error"]["message"], answer["error"]["message"]);
    }
    let preview = call(&mut client, "sessions.preview", json!({"key": "nowhere"})).await;
    assert_eq!(preview["messageCount"], 0);
    assert!(preview.get("lastMessageAt").is_none(), "{preview}");
}

/// Row by row of what a dashboard sends: nothing of it is unknown here.
#[tokio::test]
async fn a_dashboard_is_understood_in_its_own_words() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &dashboard()).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let every = json!({"kind": "every", "intervalMs": 86_400_000});
    let job = json!({"name": "j", "enabled": false, "schedule": every, "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "x"}});
    for (method, params) in [
        ("chat.history", json!({"sessionKey": "main"})),
        ("chat.inject", json!({"sessionKey": "main", "content": "x", "role": "assistant"})),
        ("chat.abort", json!({"sessionKey": "main"})),
        ("sessions.list", json!({})),
        ("sessions.patch", json!({"key": "main", "thinking": "low"})),
        ("sessions.preview", json!({"key": "main"})),
        ("sessions.compact", json!({"key": "main"})),
        ("sessions.spawn", json!({"agentId": "main", "systemPrompt": "be kind"})),
        ("sessions.reset", json!({"key": "main"})),
        ("sessions.delete", json!({"key": "other"})),
        ("agents.update", json!({"id": "main", "name": "Main"})),
        ("agents.files.list", json!({"agentId": "main"})),
        ("agents.files.get", json!({"agentId": "main", "filename": "SOUL.md"})),
        ("config.get", json!({})),
        ("cron.list", json!({})),
        ("cron.add", job),
        ("cron.run", json!({"jobId": "nope"})),
        ("cron.runs", json!({"jobId": "nope"})),
        ("cron.update", json!({"jobId": "nope", "enabled": true})),
        ("cron.remove", json!({"jobId": "nope"})),
        ("cron.status", json!({})),
        ("exec.approvals.list", json!({})),
        ("exec.approvals.resolve", json!({"id": "nope", "decision": "allow_once"})),
        ("channels.status", json!({})),
        ("channels.logout", json!({"id": "telegram"})),
        ("models.list", json!({})),
        ("usage.status", json!({})),
        ("usage.cost", json!({})),
        ("skills.status", json!({})),
        ("skills.install", json!({"id": "nope"})),
        ("skills.update", json!({"id": "nope", "enabled": false})),
        ("logs.tail", json!({"lines": 5, "level": "warn", "sessionKey": "main"})),
        ("health", json!({})),
    ] {
        let answer = client.request(method, params).await;
        let error = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(!error.contains(" params: "), "{method}: {error}");
        assert!(!error.starts_with("unknown method"), "{method}: {error}");
    }
    let tail = call(&mut client, "logs.tail", json!({"lines": 3, "level": "info"})).await;
    let entries = tail["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3, "{tail}");
    assert!(entries.iter().all(|it| it["level"] != "debug" && it["message"].is_string()), "{tail}");
    let none = call(&mut client, "logs.tail", json!({"level": "fatal"})).await;
    assert_eq!((&none["lines"], &none["entries"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn a_dashboard_gets_the_accounts_of_channels_in_one_list() {
    let account = json!({"secret": SIGNING, "url": "http://127.0.0.1:9/"});
    let webhook = json!({"defaultAccount": "red", "accounts": {"blue": account, "red": account}});
    let config = with_channels("127.0.0.1:9", &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = connect(&gateway, &dashboard()).await;
    let status = call(&mut client, "channels.status", json!({})).await;
    let items = status["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{status}");
    for (item, row) in items.iter().zip(status["channelAccounts"]["webhook"].as_array().unwrap()) {
        let id = if row["accountId"] == "red" { "webhook" } else { "webhook:blue" };
        let mut expected = row.clone();
        expected["id"] = json!(id);
        expected["channel"] = json!("webhook");
        assert_eq!(*item, expected);
    }
    // By its id it is logged out.
    let id = json!({"id": "webhook"});
    assert_eq!(call(&mut client, "channels.logout", id).await["accountId"], "red");
    let status = call(&mut admin(&gateway).await, "channels.status", json!({})).await;
    assert!(status.get("items").is_none(), "{status}");
}

#[tokio::test]
async fn a_dashboard_says_how_it_works_and_hears_that_it_lacks_a_token() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut params = dashboard();
    params["client"]["mode"] = json!("interactive");
    connect(&gateway, &params).await;
    params.as_object_mut().unwrap().remove("auth");
    let text = "unauthorized: gateway token missing (no token provided)";
    let mut client = gateway.open().await;
    let error = client.request("connect", params.clone()).await["error"].clone();
    assert_eq!(error["message"], text);
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISSING");
    let closed = client.wait_closed(SOON).await.unwrap();
    assert_eq!((closed.code, closed.reason.as_str()), (1008, text));
    // To others a device is what is missing, as in the original.
    params["userAgent"] = json!("other/1.0");
    let error = gateway.open().await.request("connect", params).await["error"].clone();
    assert_eq!(error["message"], "device identity required");
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
    let params = json!({"sessionKey": "main", "message": "x", "thinking": "bogus",
        "idempotencyKey": "run-3"});
    let refused = client.request("chat.send", params).await;
    let text = "Invalid thinking level. Use one of: none, low, normal, high.";
    assert_eq!(refused["error"]["message"], text);
    let params = json!({"key": "main", "thinkingLevel": "normal"});
    let patched = call(&mut client, "sessions.patch", params).await;
    assert_eq!(patched["key"], "main");
    assert_eq!(patched["entry"]["thinkingLevel"], "normal");
    let list = call(&mut client, "sessions.list", json!({})).await;
    let levels = json!(["none", "low", "normal", "high"]);
    for row in [&list["defaults"], &list["sessions"][0]] {
        assert_eq!(row["thinkingOptions"], levels, "{row}");
    }
    assert_eq!(list["sessions"][0]["thinkingLevel"], "normal");
    for (method, params) in [
        ("sessions.resolve", json!({"key": "main"})),
        ("sessions.compact", json!({"key": "main"})),
        ("sessions.compaction.list", json!({"key": "main"})),
        ("sessions.create", json!({"key": "main"})),
        ("sessions.spawn", json!({"agentId": "main", "sessionKey": "main"})),
        ("sessions.messages.subscribe", json!({"key": "main"})),
        ("sessions.messages.unsubscribe", json!({"key": "main"})),
        ("sessions.reset", json!({"key": "main"})),
    ] {
        let answer = call(&mut client, method, params).await;
        assert_eq!(answer["key"], "main", "{method}");
        if method == "sessions.create" {
            assert_eq!(answer["entry"]["thinkingLevel"], "normal", "{answer}");
        }
    }
    unknown_members_are_refused_elsewhere(&gateway).await;
}

#[tokio::test]
async fn the_simple_profile_goes_back_behind_a_compaction_by_the_keys_that_it_gave() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = connect(&gateway, &simple()).await;
    ask(&mut client, "main", "hello", "run-1").await;
    ask(&mut client, "main", "@mock text text=\"They said hello.\"", "run-2").await;
    let compacted = call(&mut client, "sessions.compact", json!({"key": "main"})).await;
    let params = json!({"key": "main", "checkpointId": compacted["result"]["checkpointId"]});
    let list = call(&mut client, "sessions.compaction.list", json!({"key": "main"})).await;
    assert_eq!(list["checkpoints"][0]["sessionKey"], "main", "{list}");
    for (method, member) in [("get", "key"), ("branch", "sourceKey"), ("restore", "key")] {
        let method = format!("sessions.compaction.{method}");
        let answer = call(&mut client, &method, params.clone()).await;
        assert_eq!(answer[member], "main", "{answer}");
        assert_eq!(answer["checkpoint"]["sessionKey"], "main", "{answer}");
    }
}

async fn unknown_members_are_refused_elsewhere(gateway: &Gateway) {
    let mut standard = admin(gateway).await;
    let params = json!({"sessionKey": "main", "message": "x", "idempotencyKey": "k", "unknown": 1});
    let refused = standard.request("chat.send", params).await;
    assert_eq!(refused["error"]["code"], "INVALID_REQUEST", "{refused}");
}
