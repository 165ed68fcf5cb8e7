//! `tools.catalog`, `tools.effective`, `tools.invoke`, and what the model is
//! offered.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config, history, refusal, scripted, text_of};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A gateway with these `tools` and agents.
async fn gateway(tools: Value, agents: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"] = tools;
    config["agents"]["list"] = agents;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

fn names(payload: &Value) -> Vec<&str> {
    let groups = payload["groups"].as_array().unwrap();
    let tools = groups.iter().flat_map(|group| group["tools"].as_array().unwrap());
    tools.map(|tool| tool["id"].as_str().unwrap()).collect()
}

/// Names of the tools that the model was offered last, by either API.
fn offered(mock: &MockProvider) -> Vec<String> {
    let last = mock.requests().pop().unwrap();
    let tools = last.body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().map(|tool| {
        let name = tool["function"]["name"].as_str().or(tool["name"].as_str());
        name.unwrap().to_owned()
    });
    names.collect()
}

#[tokio::test]
async fn the_catalogue_and_a_session_name_the_tools_there_are() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let catalog = call(&mut client, "tools.catalog", json!({})).await;
    assert_eq!(catalog["agentId"], "main");
    let profiles: Vec<_> =
        catalog["profiles"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(profiles, ["minimal", "coding", "messaging", "full"]);
    assert!(names(&catalog).contains(&"session_status"), "{catalog}");
    for (params, text) in [
        (json!({"agentId": "nope"}), "unknown agent id \"nope\""),
        (
            json!({"agentId": ""}),
            "invalid tools.catalog params: at /agentId: must NOT have fewer than 1 characters",
        ),
    ] {
        assert_eq!(refusal(&mut client, "tools.catalog", params).await, text);
    }
    ask(&mut client, "main", "hi", "run-1").await;
    let effective = call(&mut client, "tools.effective", json!({"sessionKey": "main"})).await;
    assert_eq!((&effective["agentId"], &effective["profile"]), (&json!("main"), &json!("full")));
    assert!(names(&effective).contains(&"session_status"), "{effective}");
    assert!(names(&effective).is_sorted());
    for (params, text) in [
        (json!({"sessionKey": "nope"}), "unknown session key \"nope\""),
        (json!({"sessionKey": "main", "agentId": "other"}), "unknown agent id \"other\""),
        (json!({}), "invalid tools.effective params: must have required property 'sessionKey'"),
    ] {
        assert_eq!(refusal(&mut client, "tools.effective", params).await, text);
    }
}

#[tokio::test]
async fn a_client_calls_a_tool_and_a_problem_of_the_tool_is_part_of_the_answer() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"name": "session_status", "args": {}});
    let answer = call(&mut client, "tools.invoke", params).await;
    assert_eq!(answer["ok"], true);
    assert_eq!(
        (&answer["toolName"], &answer["source"]),
        (&json!("session_status"), &json!("core"))
    );
    assert!(text_of(&answer["output"]).contains("agent:main:main"), "{answer}");
    for (params, code, text) in [
        (json!({"name": "nope"}), "not_found", "Tool not available: nope"),
        (
            json!({"name": "exec", "args": {"command": "true"}}),
            "not_found",
            "Tool not available: exec",
        ),
        (
            json!({"name": "session_status", "args": {"x": 1}}),
            "validation_error",
            "Validation failed for tool \"session_status\":\n  - root: must not have additional properties x\n\nReceived arguments:\n{\n  \"x\": 1\n}",
        ),
    ] {
        let answer = call(&mut client, "tools.invoke", params.clone()).await;
        let error = json!({"code": code, "message": text});
        let expected = json!({"ok": false, "toolName": params["name"], "error": error});
        assert_eq!(answer, expected);
    }
    let text = refusal(&mut client, "tools.invoke", json!({"name": "x", "args": 1})).await;
    assert_eq!(text, "invalid tools.invoke params: at /args: must be object");
}

#[tokio::test]
async fn a_call_with_a_key_is_done_once_also_across_a_restart() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let params = json!({"name": "session_status", "idempotencyKey": "k-1"});
    let before = call(&mut client, "tools.invoke", params.clone()).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let plain = call(&mut client, "tools.invoke", json!({"name": "session_status"})).await;
    assert_ne!(plain, before, "the session has changed meanwhile");
    assert_eq!(call(&mut client, "tools.invoke", params.clone()).await, before);
    gateway.kill9();
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    // What a kill in the middle of a call leaves.
    database
        .execute(
            "INSERT INTO answers (scope, key, created_at) VALUES ('tools.invoke', 'gateway k-2', 1e13)",
            [],
        )
        .unwrap();
    drop(database);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(call(&mut client, "tools.invoke", params).await, before);
    let begun = json!({"name": "session_status", "idempotencyKey": "k-2"});
    let text = refusal(&mut client, "tools.invoke", begun).await;
    assert!(text.contains("gateway stopped while it did this"), "{text}");
}

#[tokio::test]
async fn the_model_is_offered_what_the_policy_allows_and_cannot_call_the_rest() {
    let agents = json!([{"id": "main"}, {"id": "quiet", "tools": {"deny": ["group:sessions"]}}]);
    let (gateway, mock) = gateway(json!({"profile": "minimal"}), agents).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    assert_eq!(offered(&mock), ["session_status"]);
    ask(&mut client, "agent:quiet:main", "hi", "run-2").await;
    assert!(offered(&mock).is_empty());
    let forbidden = "@mock tool name=session_status then=\"No such tool.\"";
    let end = ask(&mut client, "agent:quiet:main", forbidden, "run-3").await;
    assert_eq!(text_of(&end["message"]), "No such tool.");
    let params = json!({"sessionKey": "agent:quiet:main"});
    let history = call(&mut client, "chat.history", params).await;
    let result = history["messages"].as_array().unwrap().iter();
    let result: Vec<_> = result.filter(|message| message["role"] == "toolResult").collect();
    assert_eq!(result[0]["content"][0]["text"], "Tool session_status not found");
}

/// The text of the last result of a tool in a session.
async fn last_result(client: &mut WsClient, session: &str) -> String {
    let all = history(client, session).await;
    text_of(all.iter().rfind(|message| message["role"] == "toolResult").expect("a result"))
}

#[tokio::test]
async fn the_rules_for_a_model_hold_whenever_it_answers() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mocka/mock-think"]);
    let denied = json!({"deny": ["session_status", "process"]});
    // What is said of one of its models takes nothing back.
    let of_model = json!({"deny": ["message"]});
    config["tools"]["byProvider"] = json!({ "mocka": denied, "mocka/mock-think": of_model });
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let looks = "@mock tool name=session_status then=done";
    ask(&mut client, "one", looks, "run-1").await;
    assert_ne!(last_result(&mut client, "one").await, "Tool session_status not found");

    // By the wish of one run.
    let params = json!({"message": looks, "sessionKey": "agent:main:two", "idempotencyKey": "run-2",
        "model": "mocka/mock-think"});
    call(&mut client, "agent", params).await;
    let end = call(&mut client, "agent.wait", json!({"runId": "run-2"})).await;
    assert_eq!(end["status"], "ok", "{end}");
    assert_eq!(last_result(&mut client, "agent:main:two").await, "Tool session_status not found");
    assert!(!offered(&mock).contains(&"session_status".to_owned()));

    // Where the model that was asked first had them.
    mock.fail("mock-1", 400, "no");
    ask(&mut client, "three", looks, "run-3").await;
    assert_eq!(last_result(&mut client, "three").await, "Tool session_status not found");
    assert!(!offered(&mock).contains(&"session_status".to_owned()));
    // Nor are they shown to it, from its first answer on.
    let asked = mock.requests().into_iter().filter(|it| it.body["model"] == "mock-think");
    let shown = asked.filter(|it| it.body["tools"].to_string().contains("\"session_status\""));
    assert_eq!(shown.count(), 0);
    let args = json!({"command": "sleep 0.3; echo over", "background": true});
    let runs = format!("@mock tool name=exec args={args} then=done");
    ask(&mut client, "four", &runs, "run-4").await;
    assert_eq!(last_result(&mut client, "four").await, "over");
}
