//! What answers when a model or a credential does not.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use clawgate::support::{Clock, SystemClock};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stage::{
    Api, RUN_LIMIT, admin, ask, call, config, end_of, events, history, serve, settles, start,
    text_of, until,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// A gateway whose default model may fall back to `mocka/mock-think`.
async fn gateway(mock: &MockProvider) -> Gateway {
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-think"]);
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// The `data` of the lifecycle events of a run with this phase.
fn phases(client: &WsClient, run_id: &str, phase: &str) -> Vec<Value> {
    let all = events(client, "agent", run_id).into_iter().map(|mut event| event["data"].take());
    all.filter(|data| data["phase"] == phase).collect()
}

fn models(mock: &MockProvider) -> Vec<String> {
    mock.calls().into_iter().map(|(model, _)| model).collect()
}

fn profiles(gateway: &Gateway, profiles: &Value) {
    let dir = gateway.state_dir().join("agents/main/agent");
    fs::create_dir_all(&dir).unwrap();
    write(&dir.join("auth-profiles.json"), &json!({"version": 1, "profiles": profiles}));
}

fn write(path: &Path, value: &Value) {
    fs::write(path, value.to_string()).unwrap();
}

#[tokio::test]
async fn a_fallback_answers_and_says_so_and_the_model_that_failed_rests() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 401, "bad key");

    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "Echo: hello".into()));
    assert_eq!(models(&mock), ["mock-1", "mock-think"]);
    assert_eq!(
        phases(&client, "r1", "fallback_step"),
        [json!({
            "phase": "fallback_step", "fallbackStepType": "fallback_step",
            "fallbackStepFromModel": "mock/mock-1", "fallbackStepToModel": "mocka/mock-think",
            "fallbackStepFromFailureReason": "auth", "fallbackStepFromFailureDetail": "401 bad key",
            "fallbackStepChainPosition": 1, "fallbackStepFinalOutcome": "next_fallback",
        })]
    );
    assert_eq!(
        phases(&client, "r1", "fallback"),
        [json!({
            "phase": "fallback", "selectedProvider": "mock", "selectedModel": "mock-1",
            "activeProvider": "mocka", "activeModel": "mock-think", "reasonSummary": "auth",
            "attemptSummaries": ["mock/mock-1 auth"],
            "attempts": [{"provider": "mock", "model": "mock-1", "error": "401 bad key",
                "reason": "auth", "status": 401}],
        })]
    );
    let answer = history(&mut client, "main").await.pop().unwrap();
    assert_eq!((&answer["provider"], &answer["model"]), (&json!("mocka"), &json!("mock-think")));

    mock.heal("mock-1");
    let end = ask(&mut client, "main", "again", "r2").await;
    assert_eq!(end["state"], "final");
    assert_eq!(models(&mock), ["mock-1", "mock-think", "mock-think"]);
    let step = &phases(&client, "r2", "fallback_step")[0];
    assert_eq!(
        step["fallbackStepFromFailureDetail"],
        "Provider mock is in cooldown after auth (all profiles unavailable)"
    );
    assert_eq!(phases(&client, "r2", "fallback"), [Value::Null; 0], "told once");
    let told = gateway.stderr();
    assert!(!told.contains("mock-key"), "{told}");
}

/// Provider and model of a session's row in the list.
async fn listed(client: &mut WsClient, key: &str) -> (Value, Value) {
    let list = client.request("sessions.list", json!({})).await;
    let rows = list["payload"]["sessions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["key"] == key).unwrap();
    (row["modelProvider"].clone(), row["model"].clone())
}

/// The same in the last `sessions.changed`.
fn last_changed(client: &WsClient) -> (Value, Value) {
    let frames = client.frames();
    let row =
        &frames.iter().rfind(|frame| frame["event"] == "sessions.changed").unwrap()["payload"];
    (row["modelProvider"].clone(), row["model"].clone())
}

#[tokio::test]
async fn the_row_of_a_session_shows_which_model_answered_until_another_is_chosen() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    client.request("sessions.subscribe", json!({})).await;
    let main = "agent:main:main";
    let name = |provider: &str, model: &str| (json!(provider), json!(model));

    mock.fail("mock-1", 400, "no");
    ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(listed(&mut client, main).await, name("mocka", "mock-think"));
    assert_eq!(last_changed(&client), name("mocka", "mock-think"));

    // What was chosen for the session stays what it is, whoever answers.
    let patch = json!({"key": "main", "model": "mock/mock-2"});
    let patched = client.request("sessions.patch", patch).await;
    assert_eq!(patched["payload"]["resolved"]["model"], "mock-2");
    assert_eq!(listed(&mut client, main).await, name("mock", "mock-2"));
    mock.fail("mock-2", 400, "no");
    ask(&mut client, "main", "and now?", "r2").await;
    assert_eq!(listed(&mut client, main).await, name("mocka", "mock-think"));
    let patched = client.request("sessions.patch", json!({"key": "main", "label": "x"})).await;
    let entry = &patched["payload"]["entry"];
    assert_eq!(
        (&entry["providerOverride"], &entry["modelOverride"]),
        (&json!("mock"), &json!("mock-2"))
    );
    assert_eq!((&entry["modelProvider"], &entry["model"]), (&json!("mocka"), &json!("mock-think")));

    mock.heal("mock-2");
    ask(&mut client, "main", "back?", "r3").await;
    assert_eq!(listed(&mut client, main).await, name("mock", "mock-2"));
    assert_eq!(last_changed(&client), name("mock", "mock-2"));
    let answers = history(&mut client, "main").await;
    let answers = answers.iter().filter(|message| message["role"] == "assistant");
    let models: Vec<_> = answers.map(|message| message["model"].clone()).collect();
    assert_eq!(models, ["mock-think", "mock-think", "mock-2"]);
}

#[tokio::test]
async fn one_refused_request_makes_no_credential_rest_and_the_return_is_told() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 400, "orphan tool result");
    let end = ask(&mut client, "broken", "hello", "r1").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello");
    mock.heal("mock-1");
    let end = ask(&mut client, "other", "hi", "r2").await;
    assert_eq!(end["state"], "final");
    let end = ask(&mut client, "broken", "back?", "r3").await;
    assert_eq!(end["state"], "final");
    assert_eq!(models(&mock), ["mock-1", "mock-think", "mock-1", "mock-1"]);
    assert_eq!(phases(&client, "r2", "fallback_cleared"), [Value::Null; 0]);
    assert_eq!(
        phases(&client, "r3", "fallback_cleared"),
        [json!({
            "phase": "fallback_cleared", "selectedProvider": "mock", "selectedModel": "mock-1",
            "activeProvider": "mock", "activeModel": "mock-1",
            "previousActiveProvider": "mocka", "previousActiveModel": "mock-think",
        })]
    );
}

#[tokio::test]
async fn when_every_model_fails_one_error_names_each() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-key", 403, "no");
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(end["state"], "error");
    assert_eq!(
        end["errorMessage"],
        "All models failed (2): mock/mock-1: 403 no (auth) | mocka/mock-think: \
         403 no (auth)"
    );
    let said = end["error"]["message"].as_str().unwrap();
    let body = r#"403 {"type":"error","error":{"type":"scripted_error","message":"no"}} (auth)"#;
    assert!(said.ends_with(body), "{said}");
    let outcomes: Vec<_> = phases(&client, "r1", "fallback_step")
        .iter()
        .map(|step| step["fallbackStepFinalOutcome"].clone())
        .collect();
    assert_eq!(outcomes, ["next_fallback", "chain_exhausted"]);

    // All of them rest now; trying is still better than not answering.
    mock.heal("mock-key");
    let end = ask(&mut client, "main", "and now?", "r2").await;
    assert_eq!(text_of(&end["message"]), "Echo: and now?");
}

#[tokio::test]
async fn an_answer_that_has_said_something_is_not_given_by_another_model() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "@mock err after=3", "r1").await;
    assert_eq!(end["state"], "error");
    assert_eq!(models(&mock), ["mock-1"]);
    assert_eq!(text_of(&history(&mut client, "main").await.pop().unwrap()), "w1 w2 w3 ");
}

const EVENTS: [(&str, &str); 1] = [("content-type", "text/event-stream")];
const LIMITED: &str = "data: {\"error\": {\"message\": \"slow down\", \"code\": 429}}\n\n";
const OVERLOADED: &str = "event: error\ndata: {\"type\": \"error\", \
    \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n";
const BEGUN_AND_CUT: &str = "event: message_start\ndata: {\"type\": \"message_start\", \
    \"message\": {\"id\": \"m\", \"usage\": {\"input_tokens\": 3}}}\n\n";
const THOUGHT_AND_OVERLOADED: &str = "event: message_start\ndata: {\"type\": \"message_start\", \
    \"message\": {\"id\": \"m\", \"usage\": {\"input_tokens\": 3}}}\n\n\
    event: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 0, \
    \"content_block\": {\"type\": \"thinking\", \"thinking\": \"hm\"}}\n\n\
    event: error\ndata: {\"type\": \"error\", \
    \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n";
const WHOLE_THOUGHT_AND_OVERLOADED: &str = "event: content_block_start\ndata: \
    {\"type\": \"content_block_start\", \"index\": 0, \
    \"content_block\": {\"type\": \"thinking\", \"thinking\": \"hm\"}}\n\n\
    event: content_block_stop\ndata: {\"type\": \"content_block_stop\", \"index\": 0}\n\n\
    event: error\ndata: {\"type\": \"error\", \
    \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n";
const CALL_AND_CUT: &str = "data: {\"id\": \"r\", \"choices\": [{\"index\": 0, \
    \"delta\": {\"tool_calls\": [{\"index\": 0, \"id\": \"c\", \"type\": \"function\", \
    \"function\": {\"name\": \"read\", \"arguments\": \"{\\\"pa\"}}]}}]}\n\n";
const FINE: &str = "data: {\"id\": \"r\", \"choices\": [{\"index\": 0, \
    \"delta\": {\"content\": \"fine\"}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";

#[tokio::test]
async fn an_answer_that_fails_before_its_first_word_is_given_by_a_fallback() {
    for (api, said, reason) in [
        ("openai-completions", LIMITED, "rate_limit"),
        ("openai-completions", "", "timeout"),
        ("anthropic-messages", OVERLOADED, "overloaded"),
        ("anthropic-messages", BEGUN_AND_CUT, "timeout"),
        ("anthropic-messages", THOUGHT_AND_OVERLOADED, "overloaded"),
        ("openai-completions", CALL_AND_CUT, "timeout"),
    ] {
        let mock = MockProvider::start().await;
        let app = Router::new().fallback(move || async move { (EVENTS, said) });
        let (port, _server) = serve(app).await;
        let mut config = default_config(mock.address());
        let provider = &mut config["models"]["providers"]["mock"];
        provider["baseUrl"] = json!(format!("http://127.0.0.1:{port}/v1"));
        provider["api"] = json!(api);
        config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-think"]);
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        let mut client = admin(&gateway).await;
        let end = ask(&mut client, "main", "hello", "r1").await;
        assert_eq!(end["state"], "final", "{said}: {end}");
        assert_eq!(text_of(&end["message"]), "Echo: hello");
        let steps = phases(&client, "r1", "fallback_step");
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert_eq!(steps[0]["fallbackStepFromFailureReason"], reason, "{said}");
    }
}

#[tokio::test]
async fn what_the_model_before_it_has_thought_is_not_kept_as_that_of_a_fallback() {
    let app = Router::new().fallback(|| async { (EVENTS, WHOLE_THOUGHT_AND_OVERLOADED) });
    let (port, _server) = serve(app).await;
    // It is asked first what it can do, and does not say.
    let app = Router::new().fallback(std::future::pending::<&'static str>);
    let (silent, _silent) = serve(app).await;
    let mut config = config(&format!("127.0.0.1:{port}"), Api::Anthropic);
    config["models"].as_object_mut().unwrap().remove("mode");
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["ollama/later:1b"]);
    let options = GatewayOptions::with_config(config)
        .env("OLLAMA_HOST", &format!("http://127.0.0.1:{silent}"));
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "hello", "r1").await;
    let told = async || phases(&client, "r1", "fallback_step").pop();
    let step = until("another model is asked", told).await;
    assert_eq!(step["fallbackStepToModel"], "ollama/later:1b");
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "r1"})).await;
    assert_eq!(end_of(&client, "r1").await["state"], "aborted");
    settles(&mut client, "agent:main:main", "killed").await;
    let roles: Vec<_> =
        history(&mut client, "main").await.iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user"]);
}

const ANSWERED: &str = "event: message_start\ndata: {\"type\": \"message_start\", \
    \"message\": {\"id\": \"m\", \"usage\": {\"input_tokens\": 5}}}\n\n\
    event: content_block_start\ndata: {\"type\": \"content_block_start\", \"index\": 0, \
    \"content_block\": {\"type\": \"text\", \"text\": \"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \
    \"delta\": {\"type\": \"text_delta\", \"text\": \"fine\"}}\n\n\
    event: content_block_stop\ndata: {\"type\": \"content_block_stop\", \"index\": 0}\n\n\
    event: message_delta\ndata: {\"type\": \"message_delta\", \
    \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": {\"output_tokens\": 1}}\n\n\
    event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n";

#[tokio::test]
async fn what_attempts_have_used_that_gave_no_answer_is_paid_for() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    // The first model is tried three times.
    let app = Router::new().fallback(move || {
        let said = if count.fetch_add(1, Ordering::Relaxed) < 3 { BEGUN_AND_CUT } else { ANSWERED };
        async move { (EVENTS, said) }
    });
    let (port, _server) = serve(app).await;
    let mut config = config(&format!("127.0.0.1:{port}"), Api::Anthropic);
    let models = &mut config["models"]["providers"]["mocka"]["models"];
    let mut other = models[0].clone();
    other["id"] = json!("mock-other");
    models.as_array_mut().unwrap().push(other);
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-other"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "fine".into()));
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    assert_eq!(end["usage"]["input"], 3 * 3 + 5, "{end}");
    let answer = history(&mut client, "main").await.pop().unwrap();
    assert_eq!(answer["usage"]["input"], 5);
}

#[tokio::test]
async fn an_answer_that_fails_before_its_first_word_is_asked_for_with_the_next_key() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let app = Router::new().fallback(move |headers: HeaderMap| {
        let key = headers.get("authorization").unwrap().to_str().unwrap().to_owned();
        let said = if key == "Bearer key-two" { FINE } else { LIMITED };
        log.lock().push(key);
        async move { (EVENTS, said) }
    });
    let (port, _server) = serve(app).await;
    let config = config(&format!("127.0.0.1:{port}"), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let key = |key: &str| json!({"type": "api_key", "provider": "mock", "key": key});
    profiles(&gateway, &json!({"mock:one": key("key-one"), "mock:two": key("key-two")}));
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "fine".into()));
    let (one, two) = ("Bearer key-one", "Bearer key-two");
    assert_eq!(*asked.lock(), [one, one, one, two]);
}

#[tokio::test]
async fn a_key_that_asks_for_a_wait_gives_way_to_one_that_is_awake() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let app = Router::new().fallback(move |headers: HeaderMap| {
        let key = headers.get("authorization").unwrap().to_str().unwrap().to_owned();
        let is_limited = key == "Bearer key-one";
        log.lock().push(key);
        async move {
            if is_limited {
                (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")], "slow").into_response()
            } else {
                (EVENTS, FINE).into_response()
            }
        }
    });
    let (port, _server) = serve(app).await;
    let config = config(&format!("127.0.0.1:{port}"), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let key = |key: &str| json!({"type": "api_key", "provider": "mock", "key": key});
    profiles(&gateway, &json!({"mock:one": key("key-one"), "mock:two": key("key-two")}));
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "fine".into()));
    assert_eq!(*asked.lock(), ["Bearer key-one", "Bearer key-two"]);
}

#[tokio::test]
async fn a_model_that_asks_for_a_wait_is_asked_again_after_it_when_no_fallback_answers() {
    a_model_is_asked_again_after_its_wait_when_the_fallback_says(404, "gone").await;
}

#[tokio::test]
async fn a_model_that_asks_for_a_wait_is_asked_again_when_the_fallback_reads_too_little() {
    a_model_is_asked_again_after_its_wait_when_the_fallback_says(400, "prompt is too long").await;
}

async fn a_model_is_asked_again_after_its_wait_when_the_fallback_says(status: u16, message: &str) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let app = Router::new().fallback(move || {
        let is_limited = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_limited {
                (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "6")], "slow").into_response()
            } else {
                (EVENTS, FINE).into_response()
            }
        }
    });
    let (port, _server) = serve(app).await;
    let mock = MockProvider::start().await;
    mock.fail("mock-think", status, message);
    let mut config = default_config(mock.address());
    config["models"]["providers"]["mock"]["baseUrl"] = json!(format!("http://127.0.0.1:{port}/v1"));
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-think"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "fine".into()));
    assert_eq!((calls.load(Ordering::Relaxed), models(&mock)), (2, vec!["mock-think".into()]));
    assert_eq!(phases(&client, "r1", "retry").len(), 1);
    let all = events(&client, "agent", "r1");
    assert!(all.iter().all(|event| event["stream"] != "compaction"), "{all:?}");
}

#[tokio::test]
async fn a_provider_that_fails_and_asks_for_a_wait_is_waited_for_though_another_key_is_awake() {
    let mock = MockProvider::start().await;
    let config = config(mock.address(), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let key = |key: &str| json!({"type": "api_key", "provider": "mock", "key": key});
    profiles(&gateway, &json!({"mock:one": key("key-one"), "mock:two": key("key-two")}));
    start(&mut client, "main", "@mock err status=503 retryAfter=10", "r1").await;
    // The other key would ask the same server.
    let is_told = |frame: &Value| {
        let phase = &frame["payload"]["data"]["phase"];
        frame["event"] == "agent" && (*phase == "retry" || *phase == "error")
    };
    let told = client.wait_for(RUN_LIMIT, is_told).await.expect("a retry");
    assert_eq!(told["payload"]["data"]["phase"], "retry", "{told}");
}

#[tokio::test]
async fn an_account_without_credit_whose_request_is_refused_gives_way_to_the_next_key() {
    let mock = MockProvider::start().await;
    let config = config(mock.address(), Api::Anthropic);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let key = |key: &str| json!({"type": "api_key", "provider": "mocka", "key": key});
    profiles(&gateway, &json!({"mocka:one": key("key-one"), "mocka:two": key("key-two")}));
    let no_credit = "Your credit balance is too low to access the Anthropic API. Please go to \
        Plans & Billing to upgrade or purchase credits.";
    mock.fail("key-one", 400, no_credit);
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "Echo: hello".into()));
    ask(&mut client, "main", "again", "r2").await;
    let keys: Vec<_> = mock.calls().into_iter().map(|(_, key)| key).collect();
    assert_eq!(keys, ["key-one", "key-two", "key-two"]);
    let status = crate::stage::call(&mut client, "models.authStatus", json!({})).await;
    assert_eq!(status["providers"][0]["profiles"][0]["cooldownReason"], "billing");
}

#[tokio::test]
async fn tool_rounds_stay_with_the_model_that_answers() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 404, "no such model");
    let text = "@mock tool name=session_status then=done";
    let end = ask(&mut client, "main", text, "r1").await;
    assert_eq!(text_of(&end["message"]), "done");
    assert_eq!(models(&mock), ["mock-1", "mock-think", "mock-think"]);
    assert_eq!(phases(&client, "r1", "fallback").len(), 1);
}

#[tokio::test]
async fn a_fallback_that_fails_in_its_turn_gives_way_to_the_model_before_it() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 400, "no");
    let text = "@mock tool name=session_status pre=\"Let me look.\" delay=300 then=done";
    start(&mut client, "main", text, "r1").await;
    until("the fallback is asked", async || (mock.calls().len() == 2).then_some(())).await;
    // It goes on with what it has begun, and is not there for the next call.
    mock.fail("mock-think", 400, "no");
    mock.heal("mock-1");
    let end = end_of(&client, "r1").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Let me look.done".into())
    );
    assert_eq!(models(&mock), ["mock-1", "mock-think", "mock-think", "mock-1"]);
    assert_eq!(phases(&client, "r1", "fallback_cleared").len(), 1);

    // When that fails as well, no one is asked again.
    mock.fail("mock-1", 400, "no");
    mock.heal("mock-think");
    start(&mut client, "main", text, "r2").await;
    until("the fallback is asked", async || (mock.calls().len() == 6).then_some(())).await;
    mock.fail("mock-think", 400, "no");
    assert_eq!(end_of(&client, "r2").await["state"], "error");
    assert_eq!(models(&mock)[4..], ["mock-1", "mock-think", "mock-think", "mock-1"]);
}

#[tokio::test]
async fn another_credential_of_the_provider_is_tried_before_another_model() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    let key = |key: &str| json!({"type": "api_key", "provider": "mock", "key": key});
    profiles(&gateway, &json!({"mock:one": key("key-one"), "mock:two": key("key-two")}));
    mock.fail("key-one", 429, "You exceeded your current quota");
    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello");
    ask(&mut client, "main", "again", "r2").await;
    let keys: Vec<_> = mock.calls().into_iter().map(|(_, key)| key).collect();
    // Three times: the provider may only be busy; then it rests.
    assert_eq!(keys, ["key-one", "key-one", "key-one", "key-two", "key-two"]);
    assert_eq!(phases(&client, "r1", "fallback_step"), [Value::Null; 0]);
    let said = "another credential is asked";
    until(said, async || {
        let log = gateway.stderr();
        let line = log.lines().find(|line| line.contains(said))?;
        assert!(line.contains("mock:one") && line.contains("mock:two"), "{line}");
        Some(())
    })
    .await;

    let status = crate::stage::call(&mut client, "models.authStatus", json!({})).await;
    let one = &status["providers"][0]["profiles"][0];
    assert_eq!(
        (&one["profileId"], &one["cooldownReason"]),
        (&json!("mock:one"), &json!("billing"))
    );

    // A file that changes is read again, and what is no file harms nobody.
    profiles(&gateway, &json!({"mock:three": key("key-three"), "odd": 5}));
    ask(&mut client, "main", "third", "r3").await;
    assert_eq!(mock.calls().pop().unwrap().1, "key-three");
    fs::write(gateway.state_dir().join("agents/main/agent/auth-profiles.json"), "{").unwrap();
    ask(&mut client, "main", "fourth", "r4").await;
    assert_eq!(mock.calls().pop().unwrap().1, "mock-key");
    assert!(!gateway.stderr().contains("key-"), "{}", gateway.stderr());
}

#[tokio::test]
async fn a_credential_that_rests_goes_on_resting_after_a_stop_and_after_a_kill() {
    let mock = MockProvider::start().await;
    let mut gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 401, "bad key");
    ask(&mut client, "main", "one", "r1").await;
    mock.heal("mock-1");
    assert!(gateway.terminate().await.unwrap().success());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "two", "r2").await;
    assert_eq!(models(&mock), ["mock-1", "mock-think", "mock-think"]);

    // A write that nobody waits for is there soon, even if the next thing is a kill.
    mock.fail("mock-think", 401, "bad key");
    ask(&mut client, "main", "three", "r3").await;
    let database = gateway.state_dir().join("clawgate.sqlite");
    let rests = || {
        let open = rusqlite::Connection::open(&database).unwrap();
        open.query_row("SELECT count(*) FROM cooldowns", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    until("a second rest", async || (rests() == 2).then_some(())).await;
    gateway.kill9();
    gateway.restart().await;
    assert_eq!(rests(), 2);
    // All of them rest: the first to wake is tried, and what goes well is awake.
    mock.heal("mock-think");
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "four", "r4").await;
    assert_eq!(end["state"], "final");
}

#[tokio::test]
async fn a_rest_that_the_database_did_not_take_is_stored_once_it_does() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    let database = rusqlite::Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let refuses = "CREATE TRIGGER full BEFORE INSERT ON cooldowns
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(refuses).unwrap();
    // It rests for hours: no later failure of its own is stored.
    mock.fail("mock-1", 402, "payment required");
    ask(&mut client, "main", "hello", "r0").await;
    until("a rest that is not stored", async || {
        gateway.stderr().contains("rests of credentials are not kept").then_some(())
    })
    .await;
    database.execute_batch("DROP TRIGGER full").unwrap();
    let mut asked = 0;
    until("the rest to be stored", async || {
        asked += 1;
        ask(&mut client, "main", "again", &format!("r{asked}")).await;
        let rests = "SELECT count(*) FROM cooldowns";
        let rests: i64 = database.query_row(rests, [], |row| row.get(0)).unwrap();
        (rests == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn conversations_that_fail_at_the_same_time_make_a_model_rest_once() {
    let mock = MockProvider::start().await;
    let mut gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    // Each is tried three times: all have begun before the first has failed.
    mock.fail("mock-1", 500, "down");
    let sessions = ["one", "two", "three", "four"];
    for session in sessions {
        start(&mut client, session, "hello", session).await;
    }
    for session in sessions {
        assert_eq!(end_of(&client, session).await["state"], "final");
    }
    assert!(gateway.terminate().await.unwrap().success());
    let database = gateway.state_dir().join("clawgate.sqlite");
    let open = rusqlite::Connection::open(&database).unwrap();
    let count = "SELECT failures FROM cooldowns";
    let failures: i64 = open.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(failures, 1);
}

#[tokio::test]
async fn a_profile_that_openclaw_lets_rest_rests_here_too() {
    let mock = MockProvider::start().await;
    let gateway = gateway(&mock).await;
    let mut client = admin(&gateway).await;
    let dir = gateway.state_dir().join("agents/main/agent");
    fs::create_dir_all(&dir).unwrap();
    let now = SystemClock.now_ms();
    let stats = json!({"mock:one": {"disabledUntil": now + 3_600_000, "disabledReason": "billing",
        "errorCount": 1, "lastFailureAt": now}});
    write(&dir.join("auth-state.json"), &json!({"version": 1, "usageStats": stats}));
    let key = |key: &str| json!({"type": "api_key", "provider": "mock", "key": key});
    profiles(&gateway, &json!({"mock:one": key("key-one"), "mock:two": key("key-two")}));
    ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(mock.calls().pop().unwrap().1, "key-two");
    let status = crate::stage::call(&mut client, "models.authStatus", json!({})).await;
    assert_eq!(status["providers"][0]["profiles"][0]["cooldownReason"], "billing");
}

#[tokio::test]
async fn an_agents_own_fallbacks_replace_those_of_all() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mock/mock-2", "gone/model"]);
    config["agents"]["list"] = json!([
        {"id": "main"},
        {"id": "own", "model": {"primary": "mock/mock-1", "fallbacks": ["mocka/mock-think"]}},
        {"id": "strict", "model": {"primary": "mock/mock-1", "fallbacks": []}},
    ]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 404, "no such model");
    for (agent, answers) in [("main", "mock-2"), ("own", "mock-think"), ("strict", "")] {
        let run = format!("r-{agent}");
        let end = ask(&mut client, &format!("agent:{agent}:main"), "hello", &run).await;
        assert_eq!(end["state"], if answers.is_empty() { "error" } else { "final" }, "{agent}");
        if !answers.is_empty() {
            assert_eq!(models(&mock).pop().unwrap(), answers);
        }
    }
    gateway.logs("there is no model \"gone/model\"").await;
}
