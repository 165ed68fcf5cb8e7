//! The tools by which sessions see each other.

use serde_json::{Value, json};

use crate::stage::{admin, ask, call, history, text_of};
use crate::subagents::{gateway, gateway_with};
use crate::support::{Gateway, MockProvider, WsClient};

/// Has the model of a session call a tool; what the tool said.
async fn by_model(
    client: &mut WsClient,
    session: &str,
    tool: &str,
    args: Value,
    run: &str,
) -> Value {
    let text = format!("@mock tool name={tool} args={args} then=ok");
    ask(client, session, &text, run).await;
    let all = history(client, session).await;
    let found = all.iter().rev().find(|message| message["toolName"] == tool);
    let text = text_of(found.unwrap_or_else(|| panic!("{tool} was not called: {all:?}")));
    serde_json::from_str(&text).unwrap_or(json!(text))
}

async fn seeing(visibility: &str, between_agents: Value) -> (Gateway, MockProvider) {
    gateway_with(|config| {
        config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
        config["tools"]["sessions"]["visibility"] = json!(visibility);
        config["tools"]["agentToAgent"] = between_agents;
    })
    .await
}

#[tokio::test]
async fn a_session_speaks_to_another_and_gets_its_answer() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "helper", "hello", "h-1").await;
    let label = json!({"key": "helper", "label": "Helper"});
    call(&mut client, "sessions.patch", label).await;
    for (round, target) in [("sessionKey", "helper"), ("label", "Helper")].into_iter().enumerate() {
        let mut args = json!({"message": "what is up?", "timeoutSeconds": 10});
        args[target.0] = json!(target.1);
        let said =
            by_model(&mut client, "main", "sessions_send", args, &format!("m-{round}")).await;
        assert_eq!((&said["status"], &said["reply"]), (&json!("ok"), &json!("Echo: what is up?")));
        assert_eq!(said["sessionKey"], "agent:main:helper");
    }
    let heard = history(&mut client, "helper").await;
    let heard: Vec<_> = heard.iter().filter(|it| it["provenance"].is_object()).collect();
    assert_eq!(heard.len(), 2);
    assert_eq!(
        heard[0]["provenance"],
        json!({"kind": "inter_session", "sourceSessionKey": "agent:main:main",
            "sourceChannel": "webchat", "sourceTool": "sessions_send"})
    );
    assert!(text_of(heard[0]).contains("isUser=false"));
    // Clients may not, unless that is configured.
    let args = json!({"sessionKey": "helper", "message": "hi"});
    let params = json!({"name": "sessions_send", "args": args});
    let said = call(&mut client, "tools.invoke", params).await;
    assert_eq!(said["error"]["code"], "not_found", "{said}");
}

#[tokio::test]
async fn what_a_session_does_not_see_it_cannot_reach_or_learn_of() {
    let tree =
        "visibility is restricted to the current session tree (tools.sessions.visibility=tree).";
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "other", "a secret", "o-1").await;
    for (round, (tool, args, word)) in [
        ("sessions_history", json!({"sessionKey": "other"}), "history"),
        ("sessions_history", json!({"sessionKey": "not-there"}), "history"),
        ("sessions_send", json!({"sessionKey": "other", "message": "hi"}), "send"),
        ("session_status", json!({"sessionKey": "other"}), "status"),
    ]
    .into_iter()
    .enumerate()
    {
        let said = by_model(&mut client, "main", tool, args, &format!("m-{round}")).await;
        let error = format!("Session {word} {tree}");
        assert_eq!(said, json!({"status": "forbidden", "error": error}), "{tool}");
    }
    let list = by_model(&mut client, "main", "sessions_list", json!({}), "list").await;
    assert_eq!(
        (&list["count"], &list["sessions"][0]["key"]),
        (&json!(1), &json!("agent:main:main"))
    );
    let self_send = json!({"sessionKey": "main", "message": "hi"});
    let said = by_model(&mut client, "main", "sessions_send", self_send, "self").await;
    assert_eq!(said["status"], "error");
    let label = json!({"label": "nobody", "message": "hi"});
    let said = by_model(&mut client, "main", "sessions_send", label, "label").await;
    assert_eq!(said["error"], "No session found with label: nobody");
}

#[tokio::test]
async fn agents_reach_each_other_only_where_the_config_says_so() {
    for (visibility, between, reaches) in [
        ("agent", json!({"enabled": true}), false),
        ("all", json!({}), false),
        ("all", json!({"enabled": true, "allow": ["main"]}), false),
        ("all", json!({"enabled": true}), true),
        ("self", json!({"enabled": true}), false),
    ] {
        let (gateway, _mock) = seeing(visibility, between.clone()).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "agent:ops:main", "ops business", "o-1").await;
        let args = json!({"sessionKey": "agent:ops:main", "limit": 5});
        let said = by_model(&mut client, "main", "sessions_history", args, "m-1").await;
        let is_read = said.to_string().contains("ops business");
        assert_eq!(is_read, reaches, "{visibility} {between}: {said}");
        let list = by_model(&mut client, "main", "sessions_list", json!({}), "m-2").await;
        assert_eq!(list.to_string().contains("agent:ops:main"), reaches, "{visibility}: {list}");
    }
}

#[tokio::test]
async fn a_list_shows_kinds_and_last_messages_and_a_history_leaves_tools_out() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "work", "@mock tool name=session_status then=looked", "w-1").await;
    ask(&mut client, "agent:main:discord:group:1", "hi all", "g-1").await;
    let args = json!({"messageLimit": 1, "kinds": ["other"]});
    let list = by_model(&mut client, "main", "sessions_list", args, "m-1").await;
    assert_eq!(list["count"], 1, "{list}");
    let row = &list["sessions"][0];
    assert_eq!((&row["key"], &row["kind"]), (&json!("agent:main:work"), &json!("other")));
    assert_eq!(text_of(&row["messages"][0]), "looked");
    assert!(!list.to_string().contains("usage"), "{list}");
    for (tools, roles) in [
        (false, vec!["user", "assistant"]),
        (true, vec!["user", "assistant", "toolResult", "assistant"]),
    ] {
        let args = json!({"sessionKey": "work", "includeTools": tools});
        let read =
            by_model(&mut client, "main", "sessions_history", args, &format!("tools-{tools}"))
                .await;
        let said = read["messages"].as_array().unwrap().iter().map(|it| it["role"].clone());
        assert_eq!(said.collect::<Vec<_>>(), roles);
        assert!(!read.to_string().contains("usage"), "{read}");
        let params = json!({"key": "main"});
        call(&mut client, "sessions.reset", params).await;
    }
}

#[tokio::test]
async fn the_gateway_shows_how_it_is_and_no_secret() {
    let (gateway, _mock) = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let said = by_model(&mut client, "main", "gateway", json!({}), "m-1").await;
    assert_eq!((&said["ok"], &said["health"]["ok"]), (&json!(true), &json!(true)), "{said}");
    assert_eq!(said["configPath"], gateway.config_path().display().to_string());
    let status = call(&mut client, "tools.invoke", json!({"name": "session_status"})).await;
    let details = &status["output"]["details"];
    assert_eq!((&details["ok"], &details["changedModel"]), (&json!(true), &json!(false)));
    assert_eq!(details["statusText"], text_of(&status["output"]));
    let refused = call(&mut client, "tools.invoke", json!({"name": "gateway"})).await;
    assert_eq!(refused["error"]["code"], "not_found", "not for clients: {refused}");
}

#[tokio::test]
async fn a_session_gets_an_answer_also_where_one_run_goes_on_at_a_time() {
    let (gateway, _mock) = gateway_with(|config| {
        config["agents"]["defaults"]["maxConcurrent"] = json!(1);
        config["tools"]["sessions"]["visibility"] = json!("agent");
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "helper", "hello", "h-1").await;
    let args = json!({"sessionKey": "helper", "message": "what is up?", "timeoutSeconds": 15});
    let said = by_model(&mut client, "main", "sessions_send", args, "m-1").await;
    assert_eq!((&said["status"], &said["reply"]), (&json!("ok"), &json!("Echo: what is up?")));
}

#[tokio::test]
async fn a_list_has_no_more_messages_than_fit_into_an_answer() {
    let (gateway, _mock) = seeing("agent", json!({})).await;
    let mut client = admin(&gateway).await;
    let long = "x".repeat(2_000);
    for session in ["one", "two", "three"] {
        ask(&mut client, session, "hello", session).await;
        for _ in 0..20 {
            let note = json!({"sessionKey": session, "message": long});
            call(&mut client, "chat.inject", note).await;
        }
    }
    let params = json!({"name": "sessions_list", "args": {"messageLimit": 20}});
    let said = call(&mut client, "tools.invoke", params).await;
    let list = &said["output"]["details"];
    let rows = list["sessions"].as_array().unwrap_or_else(|| panic!("{said}"));
    let counts: Vec<_> = rows.iter().map(|row| row["messages"].as_array().unwrap().len()).collect();
    assert!(rows.len() >= 3 && counts[0] == 20, "{counts:?}");
    assert!(list.to_string().len() < 100 * 1024, "{counts:?}");
    assert_eq!(list["truncated"], true);
    let note = list["note"].as_str().unwrap();
    assert!(note.contains("more messages than fit here"), "{note}");
}
