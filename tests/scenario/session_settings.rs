//! `sessions.patch`: what can be set of a session, and what it does there.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::stage::{
    Api, admin, ask, call, config, deltas, end_of, refusal, row, scripted, send, start, text_of,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::device::DeviceKey;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// Each setting with a value, and whether rows show it.
fn settings() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("label", json!("New label"), true),
        ("thinkingLevel", json!("low"), true),
        ("fastMode", json!(true), true),
        ("verboseLevel", json!("full"), true),
        ("traceLevel", json!("raw"), true),
        ("reasoningLevel", json!("stream"), true),
        ("responseUsage", json!("full"), true),
        ("elevatedLevel", json!("ask"), true),
        ("execHost", json!("gateway"), false),
        ("execSecurity", json!("allowlist"), false),
        ("execAsk", json!("on-miss"), false),
        ("execNode", json!("pi"), false),
        ("sendPolicy", json!("allow"), true),
        ("groupActivation", json!("always"), false),
    ]
}

async fn patch(client: &mut WsClient, key: &str, settings: Value) -> Value {
    let mut params = settings;
    params["key"] = json!(key);
    call(client, "sessions.patch", params).await
}

#[tokio::test]
async fn every_setting_is_stored_shown_kept_over_a_crash_and_taken_back() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    for (name, value, _) in settings() {
        let answer = patch(&mut client, "life", json!({name: value})).await;
        assert_eq!(answer["key"], "agent:main:life");
        assert_eq!(answer["entry"][name], value, "{name}");
        let runtime = json!({"id": "pi", "source": "implicit"});
        assert_eq!(
            answer["resolved"],
            json!({"modelProvider": "mock", "model": "mock-1",
            "agentRuntime": runtime})
        );
        assert!(answer["path"].as_str().unwrap().ends_with("agents/main/sessions/sessions.json"));
    }
    let mut told =
        client.frames().into_iter().filter(|frame| frame["payload"]["reason"] == "patch");
    let last = told.next_back().unwrap()["payload"].clone();
    assert_eq!(
        (&last["displayName"], &last["fastMode"], &last["hasActiveRun"]),
        (&json!("New label"), &json!(true), &json!(false)),
        "{last}"
    );
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let shown = row(&mut client, "agent:main:life").await;
    for (name, value, is_shown) in settings() {
        assert_eq!(shown.get(name), Some(&value).filter(|_| is_shown), "{name} in {shown}");
    }
    let history = call(&mut client, "chat.history", json!({"sessionKey": "life"})).await;
    assert_eq!(
        (&history["fastMode"], &history["thinkingLevel"], &history["verboseLevel"]),
        (&json!(true), &json!("low"), &json!("full"))
    );
    let reset = call(&mut client, "sessions.reset", json!({"key": "life"})).await;
    assert_eq!(reset["entry"]["execAsk"], "on-miss", "settings stay over a reset");
    for (name, _, _) in settings() {
        let answer = patch(&mut client, "life", json!({name: null})).await;
        assert_eq!(answer["entry"].get(name), None, "{name}");
    }
    let on = patch(&mut client, "life", json!({"responseUsage": "on"})).await;
    assert_eq!(on["entry"]["responseUsage"], "tokens");
    let off = patch(&mut client, "life", json!({"responseUsage": "off"})).await;
    assert_eq!(off["entry"].get("responseUsage"), None);
    for (name, word, meant) in [
        ("verboseLevel", "true", "on"),
        ("reasoningLevel", " True", "on"),
        ("traceLevel", "no", "off"),
        ("elevatedLevel", "1", "on"),
        ("thinkingLevel", "Adaptive", "medium"),
        ("thinkingLevel", "max", "xhigh"),
    ] {
        let answer = patch(&mut client, "life", json!({name: word})).await;
        assert_eq!(answer["entry"][name], meant, "{name}: {word}");
    }
    let options = row(&mut client, "agent:main:life").await["thinkingOptions"].clone();
    assert_eq!(options.as_array().unwrap().last(), Some(&json!("xhigh")), "it is offered");
}

#[tokio::test]
async fn a_patch_is_applied_whole_or_refused() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let only = "is only supported for subagent:* or acp:* sessions";
    for (settings, text) in [
        (
            json!({"thinkingLevel": "bogus"}),
            "invalid thinkingLevel (use off|minimal|low|medium|high)".to_owned(),
        ),
        (json!({"verboseLevel": "x"}), "invalid verboseLevel (use \"on\"|\"off\"|\"full\")".into()),
        (json!({"traceLevel": "x"}), "invalid traceLevel (use \"on\"|\"off\"|\"raw\")".into()),
        (
            json!({"reasoningLevel": "x"}),
            "invalid reasoningLevel (use \"on\"|\"off\"|\"stream\")".into(),
        ),
        (
            json!({"elevatedLevel": "x"}),
            "invalid elevatedLevel (use \"on\"|\"off\"|\"ask\"|\"full\")".into(),
        ),
        (
            json!({"execHost": "x"}),
            "invalid execHost (use \"auto\"|\"sandbox\"|\"gateway\"|\"node\")".into(),
        ),
        (
            json!({"execSecurity": "x"}),
            "invalid execSecurity (use \"deny\"|\"allowlist\"|\"full\")".into(),
        ),
        (
            json!({"execAsk": "false"}),
            "invalid execAsk (use \"off\"|\"on-miss\"|\"always\")".into(),
        ),
        (json!({"execNode": " "}), "invalid execNode: empty".into()),
        (json!({"label": " "}), "invalid label: empty".into()),
        (json!({"model": " "}), "invalid model: empty".into()),
        (json!({"spawnedBy": "agent:main:main"}), format!("spawnedBy {only}")),
        (json!({"spawnDepth": 1}), format!("spawnDepth {only}")),
        (
            json!({"unknownField": 1}),
            "invalid sessions.patch params: at root: unexpected property 'unknownField'".into(),
        ),
        (
            json!({"fastMode": "yes"}),
            "invalid sessions.patch params: at /fastMode: must be \
            boolean; at /fastMode: must be null; at /fastMode: must match a schema in anyOf"
                .into(),
        ),
    ] {
        let mut params = settings;
        params["key"] = json!("life");
        // A good setting beside the bad one is not kept either.
        if params.get("verboseLevel").is_none() {
            params["verboseLevel"] = json!("on");
        }
        assert_eq!(refusal(&mut client, "sessions.patch", params).await, text);
        assert_eq!(row(&mut client, "agent:main:life").await, Value::Null);
    }
    let text = refusal(&mut client, "sessions.patch", json!({"key": "agent:x"})).await;
    assert_eq!(text, "malformed session key \"agent:x\"");
    for params in [
        json!({"key": "main", "pluginId": "nope", "namespace": "x", "value": 1}),
        json!({"key": "main", "pluginId": "nope", "namespace": "x", "unset": true}),
    ] {
        let text = refusal(&mut client, "sessions.pluginPatch", params).await;
        assert_eq!(text, "unknown plugin session extension: nope/x");
    }
}

#[tokio::test]
async fn a_sub_agent_is_told_once_who_began_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let key = "agent:main:subagent:1";
    let lineage = json!({"spawnedBy": "main", "spawnDepth": 1, "subagentRole": "leaf",
        "subagentControlScope": "none", "spawnedWorkspaceDir": "/work"});
    patch(&mut client, key, lineage.clone()).await;
    patch(&mut client, key, lineage).await;
    let shown = row(&mut client, key).await;
    for (name, value) in [
        ("spawnedBy", json!("agent:main:main")),
        ("spawnDepth", json!(1)),
        ("subagentRole", json!("leaf")),
        ("subagentControlScope", json!("none")),
        ("spawnedWorkspaceDir", json!("/work")),
    ] {
        assert_eq!(shown[name], value, "{shown}");
    }
    for (settings, text) in [
        (json!({"spawnedBy": "other"}), "spawnedBy cannot be changed once set"),
        (json!({"spawnedBy": null}), "spawnedBy cannot be cleared once set"),
        (json!({"spawnDepth": 2}), "spawnDepth cannot be changed once set"),
    ] {
        let mut params = settings;
        params["key"] = json!(key);
        assert_eq!(refusal(&mut client, "sessions.patch", params).await, text);
    }
}

#[tokio::test]
async fn the_model_of_a_session_answers_there_from_the_next_call_on() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let models = |from: usize| {
        let asked = mock.requests().into_iter().skip(from);
        asked.map(|asked| asked.body["model"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let answer = patch(&mut client, "life", json!({"model": "mock-2"})).await;
    assert_eq!(answer["resolved"]["model"], "mock-2");
    assert_eq!(
        (&answer["entry"]["providerOverride"], &answer["entry"]["modelOverrideSource"]),
        (&json!("mock"), &json!("user")),
        "{answer}"
    );
    assert_eq!(answer["entry"]["liveModelSwitchPending"], true);
    ask(&mut client, "life", "hello", "run-1").await;
    ask(&mut client, "other", "hello", "run-2").await;
    assert_eq!(models(0), ["mock-2", "mock-1"]);
    let answer = patch(&mut client, "life", json!({"model": null})).await;
    assert_eq!(answer["entry"].get("modelOverride"), None, "{answer}");
    // While a run is between two calls of the model.
    let text = "@mock tool name=session_status args={} delay=400 pre=\"Let me look.\" then=\"ok\"";
    start(&mut client, "life", text, "run-3").await;
    deltas(&client, "run-3", 1).await;
    patch(&mut client, "life", json!({"model": "mock/mock-2"})).await;
    end_of(&client, "run-3").await;
    assert_eq!(models(2), ["mock-1", "mock-2"]);
    let same = patch(&mut client, "life", json!({"model": "mock/mock-1"})).await;
    assert_eq!(same["entry"].get("modelOverride"), None, "the agent's own model is no choice");
}

#[tokio::test]
async fn a_chosen_model_that_there_is_not_fails_the_run_and_no_other_answers() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let answer = patch(&mut client, "life", json!({"model": "nope/none"})).await;
    assert_eq!(answer["resolved"]["modelProvider"], "nope");
    let shown = row(&mut client, "agent:main:life").await;
    assert_eq!((&shown["model"], shown.get("contextTokens")), (&json!("none"), None), "{shown}");
    let end = ask(&mut client, "life", "hello", "run-1").await;
    assert_eq!(
        (&end["state"], &end["errorMessage"]),
        (&json!("error"), &json!("Unknown model: nope/none")),
        "{end}"
    );
    assert_eq!(mock.requests().len(), 0);
    // A provider may have models that nobody listed; it is asked.
    let bare = patch(&mut client, "life", json!({"model": "newest"})).await;
    assert_eq!(bare["resolved"]["modelProvider"], "mock", "the agent's provider");
    ask(&mut client, "life", "hello", "run-new").await;
    assert_eq!(mock.requests()[0].body["model"], "newest");
    patch(&mut client, "life", json!({"model": null})).await;
    let end = ask(&mut client, "life", "hello", "run-2").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello");
}

#[tokio::test]
async fn the_thinking_level_of_a_session_reaches_the_model() {
    let (gateway, mock) = scripted(Api::Anthropic).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "life", "hello", "run-1").await;
    patch(&mut client, "life", json!({"thinkingLevel": "off"})).await;
    ask(&mut client, "life", "hello", "run-2").await;
    patch(&mut client, "life", json!({"thinkingLevel": null})).await;
    ask(&mut client, "life", "hello", "run-3").await;
    let asked = mock.requests();
    let thinks: Vec<_> =
        asked.iter().map(|asked| asked.body["thinking"]["type"] == "enabled").collect();
    assert_eq!(thinks, [true, false, true]);
}

/// A gateway whose models can think, with more in its configuration.
async fn thinkers(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    for at in [0, 1] {
        config["models"]["providers"]["mock"]["models"][at]["reasoning"] = json!(true);
    }
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// How hard the model was to think the last time.
fn effort(mock: &MockProvider) -> Value {
    mock.requests().last().unwrap().body["reasoning_effort"].clone()
}

#[tokio::test]
async fn a_model_that_can_think_does_so_unasked_and_every_view_says_how_hard() {
    let (gateway, mock) = thinkers(|config| {
        config["models"]["providers"]["mock"]["models"][1]["reasoning"] = json!(false);
    })
    .await;
    let mut client = admin(&gateway).await;
    let life = json!({"sessionKey": "life"});
    ask(&mut client, "life", "hello", "run-1").await;
    assert_eq!(effort(&mock), "medium");
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["defaults"]["thinkingDefault"], "medium");
    let described = call(&mut client, "sessions.describe", json!({"key": "life"})).await;
    let shown = &described["session"];
    let levels = (&shown["thinkingDefault"], shown.get("thinkingLevel"));
    assert_eq!(levels, (&json!("medium"), None), "{shown}");
    let history = call(&mut client, "chat.history", life.clone()).await;
    assert_eq!(history["thinkingLevel"], "medium");
    let status = ask(&mut client, "life", "/status", "run-2").await;
    assert!(text_of(&status["message"]).contains("Think: medium"), "{status}");
    let told = ask(&mut client, "life", "/think", "run-3").await;
    assert!(text_of(&told["message"]).starts_with("Current thinking level: medium."), "{told}");

    patch(&mut client, "life", json!({"thinkingLevel": "off"})).await;
    ask(&mut client, "life", "hello", "run-4").await;
    assert_eq!(effort(&mock), Value::Null);
    patch(&mut client, "life", json!({"thinkingLevel": null})).await;
    ask(&mut client, "life", "hello", "run-5").await;
    assert_eq!(effort(&mock), "medium");

    // One cannot; nobody knows that of the other.
    for (model, run_id) in [("mock-2", "run-6"), ("newest", "run-7")] {
        patch(&mut client, "life", json!({"model": model})).await;
        let history = call(&mut client, "chat.history", life.clone()).await;
        assert_eq!(history["thinkingLevel"], "off", "{model}");
        ask(&mut client, "life", "hello", run_id).await;
        assert_eq!(effort(&mock), Value::Null, "{model}");
    }
}

#[tokio::test]
async fn the_configuration_says_how_hard_agents_models_and_all_others_think() {
    let (gateway, mock) = thinkers(|config| {
        config["agents"]["list"] =
            json!([{"id": "main"}, {"id": "deep", "thinkingDefault": "high"}]);
        config["agents"]["defaults"]["thinkingDefault"] = json!("low");
        config["agents"]["defaults"]["models"] = json!({
            "mock/mock-1": {"params": {"thinking": "minimal"}},
            "mock/mock-2": {"params": {"thinking": {"type": "enabled"}}},
        });
    })
    .await;
    let mut client = admin(&gateway).await;
    patch(&mut client, "other", json!({"model": "mock/mock-2"})).await;
    for (key, level) in [("life", "minimal"), ("agent:deep:life", "high"), ("other", "low")] {
        ask(&mut client, key, "hello", &format!("run in {key}")).await;
        assert_eq!(effort(&mock), level, "{key}");
        let history = call(&mut client, "chat.history", json!({"sessionKey": key})).await;
        assert_eq!(history["thinkingLevel"], level, "{key}");
    }
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["defaults"]["thinkingDefault"], "minimal");
}

#[tokio::test]
async fn a_session_that_takes_no_messages_refuses_them_however_they_come() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    patch(&mut client, "life", json!({"sendPolicy": "deny"})).await;
    let by_key = json!({"key": "life", "message": "hi"});
    let by_session = json!({"sessionKey": "Life", "message": "hi", "idempotencyKey": "k"});
    for (method, params) in [
        ("chat.send", by_session.clone()),
        ("agent", by_session),
        ("sessions.send", by_key.clone()),
        ("sessions.steer", by_key),
    ] {
        let text = refusal(&mut client, method, params).await;
        assert_eq!(text, "send blocked by session policy", "{method}");
    }
    assert_eq!(mock.requests().len(), 0);
    patch(&mut client, "life", json!({"sendPolicy": null})).await;
    assert_eq!(send(&mut client, "life", "hi", "k").await["status"], "started");
    end_of(&client, "k").await;
}

#[tokio::test]
async fn settings_sent_before_a_message_hold_for_it() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (id, method, params) in [
        ("a", "sessions.patch", json!({"key": "life", "model": "mock-2"})),
        (
            "b",
            "chat.send",
            json!({"sessionKey": "life", "message": "hello", "idempotencyKey": "run-1"}),
        ),
    ] {
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        client.send(&frame).await;
    }
    end_of(&client, "run-1").await;
    assert_eq!(mock.requests()[0].body["model"], "mock-2");
}

/// A chat on the web that has proved its device.
pub async fn webchat(gateway: &Gateway) -> WsClient {
    let origin = format!("http://127.0.0.1:{}", gateway.port());
    let headers = [("Origin".to_owned(), origin)];
    let mut client = WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
    let mut params = standard_connect(&ALL_SCOPES);
    params["client"]["id"] = json!("webchat-ui");
    params["client"]["mode"] = json!("webchat");
    let nonce = client.nonce().await;
    let now = Timestamp::now().as_millisecond();
    params["device"] = DeviceKey::named("webchat").proof(&params, &nonce, now);
    let hello = client.request("connect", params).await;
    assert_eq!(hello["ok"], true, "{hello}");
    client
}

#[tokio::test]
async fn chats_on_the_web_may_talk_and_not_manage_sessions() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = webchat(&gateway).await;
    ask(&mut client, "life", "hello", "run-1").await;
    for (method, action, params) in [
        ("sessions.patch", "patch", json!({"key": "life", "label": "x"})),
        (
            "sessions.pluginPatch",
            "patch",
            json!({"key": "life", "pluginId": "p", "namespace": "n"}),
        ),
        ("sessions.delete", "delete", json!({"key": "life"})),
    ] {
        let text = refusal(&mut client, method, params).await;
        assert_eq!(
            text,
            format!(
                "webchat clients cannot {action} sessions; \
            use chat.send for session-scoped updates"
            )
        );
    }
    let mut other = admin(&gateway).await;
    let shown = row(&mut other, "agent:main:life").await;
    assert_eq!(shown.get("label"), None, "{shown}");
}

#[tokio::test]
async fn a_session_whose_run_does_not_end_is_neither_reset_nor_deleted() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for (session, run_id) in [("one", "run-1"), ("two", "run-2")] {
        start(&mut client, session, "@mock stream n=200 delay=100", run_id).await;
        deltas(&client, run_id, 1).await;
    }
    // As long as somebody else holds the database no run can end.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    for (id, method, session) in [("a", "sessions.reset", "one"), ("b", "sessions.delete", "two")] {
        let params = json!({"key": session});
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        client.send(&frame).await;
    }
    for (id, session) in [("a", "one"), ("b", "two")] {
        let answer = client.answer(id).await.unwrap();
        let text = format!("Session {session} is still active; try again in a moment.");
        assert_eq!(answer["error"], json!({"code": "UNAVAILABLE", "message": text}));
    }
    database.execute_batch("ROLLBACK").unwrap();
    for run_id in ["run-1", "run-2"] {
        assert_eq!(end_of(&client, run_id).await["stopReason"], "interrupt");
    }
    let answer = call(&mut client, "sessions.delete", json!({"key": "two"})).await;
    assert_eq!(answer["deleted"], true);
}
