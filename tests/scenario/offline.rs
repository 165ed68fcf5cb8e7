//! A gateway that nobody configured: the offline model, commands, tools.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{
    admin, call, connect, end_of, events, history, scripted, send, start, text_of, told,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions};

/// A gateway without any configuration, and the token it has made itself.
async fn fresh() -> (Gateway, String) {
    let gateway = Gateway::start(GatewayOptions::default()).await;
    let token = fs::read_to_string(gateway.state_dir().join("gateway-token")).unwrap();
    (gateway, token.trim().to_owned())
}

fn params(token: &str, caps: &[&str]) -> Value {
    let mut params = standard_connect(&ALL_SCOPES);
    params["auth"]["token"] = json!(token);
    params["caps"] = json!(caps);
    params
}

#[tokio::test]
async fn a_gateway_without_a_config_answers() {
    let (gateway, token) = fresh().await;
    let mut client = connect(&gateway, &params(&token, &[])).await;
    start(&mut client, "main", "hello?", "run-1").await;
    let end = end_of(&client, "run-1").await;
    assert_eq!(end["state"], "final");
    let text = text_of(&end["message"]);
    assert!(text.starts_with("You said: hello?"), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY"), "{text}");
    let deltas = events(&client, "chat", "run-1").len() - 1;
    assert!(deltas >= 3, "{deltas} deltas");
    assert_eq!(text_of(&history(&mut client, "main").await[1]), text);
    assert!(!gateway.config_path().exists(), "a start writes no config");
}

#[tokio::test]
async fn commands_are_answered_by_the_gateway() {
    let (gateway, token) = fresh().await;
    let mut client = connect(&gateway, &params(&token, &[])).await;
    for (run_id, command, part) in [("h", "/help", "/status"), ("s", "/status", "offline")] {
        assert_eq!(send(&mut client, "main", command, run_id).await["status"], "started");
        let end = end_of(&client, run_id).await;
        assert_eq!((&end["state"], &end["seq"]), (&json!("final"), &json!(1)), "{end}");
        assert!(text_of(&end["message"]).contains(part), "{end}");
        assert_eq!(end["message"]["model"], "gateway-injected");
        assert!(events(&client, "agent", run_id).is_empty());
    }
    let told = told(&mut client, "main").await;
    let roles: Vec<_> = told.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["assistant", "assistant"]);
}

#[tokio::test]
async fn tool_events_go_to_who_asked_for_them_and_item_events_to_everybody() {
    let (gateway, token) = fresh().await;
    let mut asks = connect(&gateway, &params(&token, &["tool-events"])).await;
    let mut plain = connect(&gateway, &params(&token, &[])).await;
    let mut watches = connect(&gateway, &params(&token, &[])).await;
    call(&mut watches, "sessions.subscribe", json!({})).await;
    start(&mut asks, "main", "/tool session_status {}", "run-1").await;
    let end = end_of(&asks, "run-1").await;
    assert!(text_of(&end["message"]).contains("The tool session_status answered"), "{end}");
    // An answer after the end: whatever was on its way has arrived.
    for client in [&mut asks, &mut plain, &mut watches] {
        call(client, "health", json!({})).await;
    }
    let phases = |client, stream: &str| -> Vec<String> {
        let steps = events(client, "agent", "run-1");
        let steps = steps.iter().filter(|step| step["stream"] == stream);
        steps.map(|step| step["data"]["phase"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(phases(&asks, "tool"), ["start", "result"]);
    assert_eq!(phases(&asks, "item"), ["start", "end"]);
    assert_eq!(phases(&plain, "tool"), Vec::<String>::new());
    assert_eq!(phases(&plain, "item"), ["start", "end"]);
    assert_eq!(events(&watches, "session.tool", "run-1").len(), 2);
    let roles: Vec<_> = told(&mut plain, "main").await.into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
}

#[tokio::test]
async fn a_tool_that_there_is_not_is_an_answer_and_no_failure() {
    let (gateway, _mock) = scripted(crate::stage::Api::Anthropic).await;
    let mut client = admin(&gateway).await;
    let text = r#"@mock tool name=no_such_tool args={"a":1} then="I see.""#;
    start(&mut client, "main", text, "run-1").await;
    let end = end_of(&client, "run-1").await;
    assert_eq!((&end["state"], text_of(&end["message"])), (&json!("final"), "I see.".into()));
    let result = &history(&mut client, "main").await[2];
    assert_eq!((&result["role"], &result["isError"]), (&json!("toolResult"), &json!(true)));
    assert!(text_of(result).contains("no_such_tool not found"), "{result}");
}
