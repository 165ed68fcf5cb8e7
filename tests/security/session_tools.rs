//! Tools for sessions that crossed agents, and spawned runs that had tools again
//! which were denied: CVE-2026-32918, CVE-2026-32048, CVE-2026-27004,
//! GHSA-mm9g-83wh-mhwj.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, config, end_of, history, text_of};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

async fn gateway(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Has the model of a session spawn a sub-agent and waits until the session was
/// told of its end; the sub-agent's key.
async fn spawn(client: &mut WsClient, session: &str, args: &Value, run: &str) -> String {
    let text = format!("@mock tool name=sessions_spawn args={args} then=spawned");
    ask(client, session, &text, run).await;
    let all = history(client, session).await;
    let said = all.iter().rev().find(|message| message["toolName"] == "sessions_spawn");
    let said: Value = serde_json::from_str(&text_of(said.unwrap())).unwrap();
    let child = said["childSessionKey"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    let run = said["runId"].as_str().unwrap();
    end_of(client, &format!("announce:v1:{child}:{run}")).await;
    child
}

async fn tools(client: &mut WsClient, session: &str) -> BTreeSet<String> {
    let effective = call(client, "tools.effective", json!({"sessionKey": session})).await;
    let groups = effective["groups"].as_array().unwrap().iter();
    let tools = groups.flat_map(|group| group["tools"].as_array().unwrap());
    tools.map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_sub_agent_never_has_a_tool_that_its_parent_has_not() {
    let (mut gateway, mock) = gateway(|config| {
        let everywhere = json!({"allowAgents": ["*"]});
        config["agents"]["list"] = json!([
            {"id": "main"},
            {"id": "bound", "tools": {"deny": ["exec", "read", "session_status"]},
                "subagents": everywhere},
            {"id": "coder", "tools": {"profile": "coding", "deny": ["write", "memory_*"]},
                "subagents": everywhere},
            {"id": "talker", "tools": {"allow": ["sessions_spawn", "sessions_list"]},
                "subagents": everywhere},
            {"id": "free"},
        ]);
        config["agents"]["defaults"]["subagents"]["maxSpawnDepth"] = json!(2);
        // What is allowed to sub-agents gives them nothing that is denied above.
        config["tools"]["subagents"]["tools"]["alsoAllow"] =
            json!(["exec", "read", "write", "gateway", "session_status", "agents_list"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let mut pairs = Vec::new();
    for parent in ["bound", "coder", "talker"] {
        for agent in [parent, "free"] {
            let session = format!("agent:{parent}:chat-{agent}");
            let inner =
                json!({"task": "@grandchild text text=low", "label": "low", "agentId": agent});
            let task = format!("@child tool name=sessions_spawn args={inner} then=mid");
            let args = json!({"task": task, "label": "mid", "agentId": agent});
            let child = spawn(&mut client, &session, &args, &session).await;
            let below = call(&mut client, "sessions.list", json!({"spawnedBy": child})).await;
            for row in below["sessions"].as_array().unwrap() {
                pairs.push((child.clone(), row["key"].as_str().unwrap().to_owned()));
            }
            pairs.push((session, child));
        }
    }
    assert!(pairs.len() >= 8, "{pairs:?}");
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    for (parent, child) in &pairs {
        let (above, below) = (tools(&mut client, parent).await, tools(&mut client, child).await);
        assert!(below.is_subset(&above), "{child} has {below:?}, {parent} {above:?}");
    }
    // And so it was when the models were asked.
    for request in mock.requests().iter().filter(|it| it.body.to_string().contains("(depth ")) {
        let offered = request.body["tools"].to_string();
        if request.body.to_string().contains("agent:bound:chat") {
            assert!(!offered.contains("\"exec\"") && !offered.contains("session_status"));
        }
    }
}

#[tokio::test]
async fn a_sub_agent_sees_only_what_is_below_it_whatever_is_configured() {
    let (gateway, _mock) = gateway(|config| {
        config["tools"]["sessions"]["visibility"] = json!("all");
        config["tools"]["agentToAgent"]["enabled"] = json!(true);
        config["tools"]["subagents"]["tools"]["alsoAllow"] =
            json!(["sessions_history", "sessions_send", "sessions_list"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "private", "my secret", "p-1").await;
    for (round, call) in [
        r#"name=sessions_history args={"sessionKey":"agent:main:private"}"#,
        r#"name=sessions_send args={"sessionKey":"agent:main:private","message":"tell me"}"#,
        r#"name=sessions_history args={"sessionKey":"agent:main:parent"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let args = json!({"task": format!("@child tool {call} then=done"), "label": "kid"});
        let child = spawn(&mut client, "agent:main:parent", &args, &format!("s-{round}")).await;
        let heard = history(&mut client, &child).await;
        let result = heard.iter().find(|message| message["role"] == "toolResult").unwrap();
        let said = text_of(result);
        assert!(said.contains("forbidden") && !said.contains("secret"), "{call}: {said}");
    }
    assert_eq!(history(&mut client, "private").await.len(), 2);
}

#[tokio::test]
async fn what_one_session_says_to_another_is_no_command_there() {
    let (gateway, _mock) =
        gateway(|config| config["tools"]["sessions"]["visibility"] = json!("agent")).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "work", "remember this", "w-1").await;
    for (round, said) in ["/reset", "stop", "/model mock/mock-2"].into_iter().enumerate() {
        let args = json!({"sessionKey": "work", "message": said, "timeoutSeconds": 10});
        let text = format!("@mock tool name=sessions_send args={args} then=ok");
        ask(&mut client, "main", &text, &format!("m-{round}")).await;
    }
    let heard = history(&mut client, "work").await;
    assert_eq!(text_of(&heard[0]), "remember this");
    assert_eq!(heard.len(), 8, "each was answered by the model: {heard:?}");
}
