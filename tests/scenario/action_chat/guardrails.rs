//! Guardrails: they govern every run of every client, and are set by HTTP.

use std::path::PathBuf;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::asking::{change, get, request, written};
use super::{Chat, find, names, place, said};
use crate::stage::{admin, ask, call, end_of, history, spent_by, start, text_of, until};
use crate::support::client::SOON;
use crate::support::{Gateway, MockProvider, WsClient};

/// A gateway with these guardrails.
async fn guarded(section: Value) -> (Gateway, MockProvider) {
    place(|config| config["tools"]["guardrails"] = section).await
}

/// A message upon which the model writes a file and then says `done`, and the file.
fn writing(gateway: &Gateway, name: &str) -> (PathBuf, String) {
    let arguments = json!({"path": name, "content": "x"});
    let text = format!("@mock tool name=write args={arguments} then=\"done\"");
    (gateway.workspace().join(name), text)
}

/// What the model was told of its last call.
async fn result(client: &mut WsClient, session: &str) -> String {
    let messages = history(client, session).await;
    text_of(messages.iter().rfind(|message| message["role"] == "toolResult").expect("a result"))
}

async fn question(client: &WsClient, event: &str) -> Value {
    let asked = client.wait_for(SOON, |frame| frame["event"] == event).await;
    asked.unwrap_or_else(|| panic!("nobody asks: {:?}", client.frames()))["payload"].clone()
}

#[tokio::test]
async fn a_denied_tool_is_not_used_and_the_turn_goes_on() {
    for (strategy, reason) in [
        ("deny", "Denied by guardrail rule"),
        ("pitl", "Denied by guardrail rule: phone verification is not offered by this gateway"),
    ] {
        let policy =
            json!({"enabled": true, "toolPolicies": {"interactive": {"create": strategy}}});
        let (gateway, _mock) = guarded(policy).await;
        let (file, text) = writing(&gateway, "a.txt");
        let mut chat = Chat::open(&gateway).await;
        let frames = chat.say(&text).await;
        let told: Vec<_> =
            names(&frames).into_iter().filter(|it| it.starts_with("tool_")).collect();
        assert_eq!(told, ["tool_start", "tool_denied", "tool_done"]);
        let denied = find(&frames, "tool_denied");
        assert_eq!((&denied["tool"], &denied["reason"]), (&json!("write"), &json!(reason)));
        assert_eq!(denied["call_id"], find(&frames, "tool_start")["call_id"]);
        assert_eq!(said(&frames), "done");
        assert!(!file.exists());

        // Every other client's runs obey as well.
        let mut client = admin(&gateway).await;
        start(&mut client, "main", &text, "run-1").await;
        end_of(&client, "run-1").await;
        assert!(
            result(&mut client, "main").await.starts_with(&format!("{reason}. The tool write"))
        );
        assert!(!file.exists());
    }
}

#[tokio::test]
async fn what_is_filtered_without_a_shield_or_not_named_goes_on() {
    let policy = json!({"enabled": true, "contextDefaults": {"interactive": "filter"},
        "toolPolicies": {"background": {"write": "deny"}}});
    let (gateway, _mock) = guarded(policy).await;
    let (file, text) = writing(&gateway, "a.txt");
    let mut chat = Chat::open(&gateway).await;
    assert_eq!(said(&chat.say(&text).await), "done");
    assert!(file.exists());
}

#[tokio::test]
async fn a_job_is_in_the_background() {
    let policy = json!({"enabled": true, "toolPolicies": {"background": {"write": "deny"}}});
    let (gateway, _mock) = guarded(policy).await;
    let (file, text) = writing(&gateway, "a.txt");
    let mut client = admin(&gateway).await;
    let job = json!({"name": "j", "enabled": true, "schedule": {"kind": "every", "everyMs": 86_400_000_u64},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": text}, "delivery": {"mode": "none"}});
    let job = call(&mut client, "cron.add", job).await;
    call(&mut client, "cron.run", json!({"id": job["id"]})).await;
    let runs = json!({"id": job["id"]});
    let ended = until("the job ends", async || {
        let runs = call(&mut client, "cron.runs", runs.clone()).await;
        runs["entries"].get(0).cloned()
    })
    .await;
    assert_eq!(ended["status"], "ok", "{ended}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_person_decides_on_any_tool_from_any_client() {
    let policy = json!({"enabled": true, "toolPolicies": {"interactive": {"write": "hitl"}}});
    let (gateway, _mock) = guarded(policy).await;
    let mut client = admin(&gateway).await;
    for (name, decision) in [("yes.txt", "allow-once"), ("no.txt", "deny")] {
        let (file, text) = writing(&gateway, name);
        let mut decider = admin(&gateway).await;
        start(&mut client, "main", &text, name).await;
        let asked = question(&decider, "plugin.approval.requested").await;
        let shown = &asked["request"];
        assert_eq!(
            (&shown["toolName"], &shown["pluginId"]),
            (&json!("write"), &json!("guardrails"))
        );
        assert!(shown["description"].as_str().unwrap().contains(name), "{shown}");
        assert_eq!(shown["allowedDecisions"], json!(["allow-once", "deny"]));
        let times = [&asked["expiresAtMs"], &asked["createdAtMs"]].map(|it| it.as_u64().unwrap());
        assert_eq!(times[0] - times[1], 300_000, "five minutes");
        assert!(!file.exists());
        let answer = json!({"id": asked["id"], "decision": decision});
        call(&mut decider, "plugin.approval.resolve", answer).await;
        end_of(&client, name).await;
        assert_eq!(file.exists(), decision == "allow-once", "{name}");
    }
    assert!(result(&mut client, "main").await.contains("a person said no to it"));
}

#[tokio::test]
async fn a_call_is_approved_in_the_chat_itself() {
    let policy = json!({"enabled": true, "toolPolicies": {"interactive": {"write": "hitl"}}});
    let (gateway, _mock) = guarded(policy).await;
    let (file, text) = writing(&gateway, "a.txt");
    let mut chat = Chat::open(&gateway).await;
    chat.send(&text).await;
    let frames = chat.until("tool_approval_request").await;
    let asked = find(&frames, "approval_request").clone();
    assert_eq!(asked["tool"], "write");
    let yes = json!({"action": "approve_tool", "call_id": asked["call_id"], "response": "yes"});
    chat.act(yes).await;
    let frames = chat.response().await;
    assert_eq!(find(&frames, "approval_resolved")["approved"], true);
    assert_eq!(said(&frames), "done");
    assert!(file.exists());
}

#[tokio::test]
async fn a_command_is_asked_about_once_as_a_command() {
    let policy = json!({"enabled": true, "toolPolicies": {"interactive": {"bash": "hitl"}}});
    let (gateway, _mock) = place(|config| {
        config["tools"]["guardrails"] = policy;
        config["tools"]["exec"] = json!({"ask": "always"});
    })
    .await;
    let file = gateway.workspace().join("ran");
    let arguments = json!({"command": format!("touch {}", file.display()), "ask": "off"});
    let mut client = admin(&gateway).await;
    let text = format!("@mock tool name=exec args={arguments} then=\"done\"");
    start(&mut client, "main", &text, "run-1").await;
    let asked = question(&client, "exec.approval.requested").await;
    let times = [&asked["expiresAtMs"], &asked["createdAtMs"]].map(|it| it.as_u64().unwrap());
    assert_eq!(times[0] - times[1], 300_000, "five minutes, not thirty");
    let answer = json!({"id": asked["id"], "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", answer).await;
    end_of(&client, "run-1").await;
    assert!(file.exists());
    let asked =
        client.frames().iter().filter(|it| it["event"] == "plugin.approval.requested").count();
    assert_eq!(asked, 0);
}

#[tokio::test]
async fn without_anybody_who_may_decide_it_is_a_no_and_policy_is_not_widened() {
    let (gateway, _mock) = place(|config| {
        config["gateway"]["auth"]["sharedSecretScopes"] = json!(["read", "write"]);
        config["tools"] = json!({"deny": ["edit"], "guardrails": {"enabled": true,
            "toolPolicies": {"interactive": {"write": "hitl", "edit": "allow"}}}});
    })
    .await;
    let (file, text) = writing(&gateway, "a.txt");
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(&text).await;
    let reason = find(&frames, "tool_denied")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("nobody who could is connected"), "{reason}");
    assert!(!file.exists());
    let edit = json!({"path": "a", "oldText": "a", "newText": "b"});
    let frames = chat.say(&format!("@mock tool name=edit args={edit} then=\"done\"")).await;
    let told = find(&frames, "tool_done")["result"].as_str().unwrap();
    assert!(told.contains("Tool edit not found"), "{told}");
}

/// A model that answers everything with one text; its address.
async fn judge(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    #[allow(clippy::disallowed_methods)] // no supervisor in a test
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut read = Vec::new();
            let mut buffer = [0; 4096];
            loop {
                let count = socket.read(&mut buffer).await.unwrap_or_default();
                read.extend_from_slice(&buffer[..count]);
                let text = String::from_utf8_lossy(&read);
                let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                    let length = head.to_lowercase();
                    let length = length
                        .lines()
                        .find_map(|it| it.strip_prefix("content-length:")?.trim().parse().ok());
                    body.len() >= length.unwrap_or(0)
                });
                if whole || count == 0 {
                    break;
                }
            }
            let chunk = |delta: Value, reason: Value| {
                json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "judge-1",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            };
            let said = chunk(json!({"role": "assistant", "content": answer}), Value::Null);
            let mut end = chunk(json!({}), json!("stop"));
            end["usage"] =
                json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
            let body = format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn a_model_reviews_a_call_and_only_a_clear_yes_lets_it_go_on() {
    for (answer, approved, reason) in [
        (r#"{"approved": true, "reason": "harmless"}"#, true, "harmless"),
        (r#"{"approved": false, "reason": "writes a file"}"#, false, "writes a file"),
        ("I approve this call.", false, "the reviewer's answer is unclear"),
    ] {
        let address = judge(answer).await;
        let (gateway, _mock) = place(|config| {
            config["models"]["providers"]["judge"] = json!({"baseUrl": format!("http://{address}/v1"),
                "apiKey": "k", "api": "openai-completions", "models": [{"id": "judge-1", "name": "J",
                "input": ["text"], "contextWindow": 200_000, "maxTokens": 1000,
                "cost": {"input": 1000, "output": 1000, "cacheRead": 0, "cacheWrite": 0}}]});
            config["tools"]["guardrails"] = json!({"enabled": true, "defaultStrategy": "aitl",
                "reviewModel": "judge/judge-1"});
        })
        .await;
        let (file, text) = writing(&gateway, "a.txt");
        let mut chat = Chat::open(&gateway).await;
        let frames = chat.say(&text).await;
        assert_eq!(find(&frames, "aitl_review_started")["tool"], "write");
        let complete = find(&frames, "aitl_review_complete");
        assert_eq!(
            (&complete["approved"], &complete["reason"]),
            (&json!(approved), &json!(reason))
        );
        assert_eq!(file.exists(), approved, "{answer}");
        assert_eq!(said(&frames), "done");

        // The review is paid for by the run and by the session, whatever it says.
        let mut client = admin(&gateway).await;
        let end = ask(&mut client, "s", &text, "run-1").await;
        let used = end["usage"]["cost"]["total"].as_f64().unwrap();
        let paid = spent_by(&mut client, "agent:main:s").await;
        assert!(used > 0.11 && (paid - used).abs() < 1e-9, "{used} {paid}");
    }
}

#[tokio::test]
async fn guardrails_are_set_by_http_and_hold_from_the_next_call_on() {
    let (mut gateway, _mock) = place(|_| ()).await;
    let config = get(&gateway, "/api/guardrails/config").await;
    let expected = json!([false, "allow", [], {}]);
    let off = json!([
        config["enabled"],
        config["default_strategy"],
        config["rules"],
        config["tool_policies"]
    ]);
    assert_eq!(off, expected);
    let (file, text) = writing(&gateway, "a.txt");
    let mut chat = Chat::open(&gateway).await;
    chat.say(&text).await;
    assert!(file.exists(), "off everything goes on");
    std::fs::remove_file(&file).unwrap();

    let body = json!({"enabled": true, "context_defaults": {"background": "deny"}});
    let set = change(&gateway, Method::PUT, "/api/guardrails/config", body).await;
    assert_eq!((&set["status"], &set["hitl_enabled"]), (&json!("ok"), &json!(true)));
    let path = "/api/guardrails/policies/interactive/create";
    change(&gateway, Method::PUT, path, json!({"strategy": "deny"})).await;
    let model = "/api/guardrails/model-policies/mock%2Fmock-2/interactive/write";
    change(&gateway, Method::PUT, model, json!({"strategy": "allow"})).await;
    chat.say(&text).await;
    assert!(!file.exists());
    let section = json!({"enabled": true, "contextDefaults": {"background": "deny"},
        "toolPolicies": {"interactive": {"write": "deny"}},
        "modelPolicies": {"mock/mock-2": {"interactive": {"write": "allow"}}}});
    assert_eq!(written(&gateway)["tools"]["guardrails"], section);
    // With the other model it goes on, and it all outlives a restart.
    gateway.restart().await;
    let mut chat = Chat::open(&gateway).await;
    chat.say("/model mock/mock-2").await;
    chat.say(&text).await;
    assert!(file.exists());

    for (path, body, message) in [
        (
            path,
            json!({"strategy": "maybe"}),
            "strategy must be one of: allow, deny, hitl, pitl, aitl, filter",
        ),
        (
            "/api/guardrails/policies/voice/exec",
            json!({}),
            "the context must be one of: interactive, background",
        ),
    ] {
        let wrong = (StatusCode::BAD_REQUEST, json!({"status": "error", "message": message}));
        assert_eq!(request(&gateway, Method::PUT, path, Some(body)).await, wrong);
    }
    let phone = json!({"hitl_channel": "phone"});
    let (status, told) =
        request(&gateway, Method::PUT, "/api/guardrails/config", Some(phone)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    let body = json!({"default_strategy": "maybe"});
    let (status, told) = request(&gateway, Method::PUT, "/api/guardrails/config", Some(body)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    assert!(told["message"].as_str().unwrap().contains("defaultStrategy"), "{told}");
}

#[tokio::test]
async fn rules_are_made_changed_and_deleted_and_they_hold() {
    let (gateway, _mock) = guarded(json!({"enabled": true})).await;
    let rules = "/api/guardrails/rules";
    assert_eq!(get(&gateway, rules).await, json!({"status": "ok", "rules": []}));
    let body = json!({"name": "No files", "pattern": "wri*", "action": "deny",
        "contexts": ["interactive"]});
    let made = change(&gateway, Method::POST, rules, body).await["rule"].clone();
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(
        made,
        json!({"id": id, "name": "No files", "pattern": "wri*", "scope": "tool", "action": "deny",
            "enabled": true, "description": "", "contexts": ["interactive"], "models": [],
            "hitl_channel": "chat"})
    );
    let (file, text) = writing(&gateway, "a.txt");
    let mut chat = Chat::open(&gateway).await;
    chat.say(&text).await;
    assert!(!file.exists());
    let one = format!("{rules}/{id}");
    let changed = change(&gateway, Method::PUT, &one, json!({"enabled": false})).await;
    assert_eq!(changed["rule"]["enabled"], false);
    chat.say(&text).await;
    assert!(file.exists());
    assert_eq!(change(&gateway, Method::DELETE, &one, json!({})).await, json!({"status": "ok"}));
    let missing = (StatusCode::NOT_FOUND, json!({"status": "error", "message": "Rule not found"}));
    assert_eq!(request(&gateway, Method::DELETE, &one, None).await, missing);
    assert_eq!(request(&gateway, Method::PUT, &one, Some(json!({}))).await, missing);
    let (status, _) = request(&gateway, Method::POST, rules, Some(json!({"name": "x"}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "without a pattern");
    assert_eq!(get(&gateway, rules).await["rules"], json!([]));
}

#[tokio::test]
async fn presets_guard_tools_by_their_risk() {
    let (gateway, _mock) = place(|_| ()).await;
    let listed = get(&gateway, "/api/guardrails/presets").await;
    let ids: Vec<_> =
        listed["presets"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, ["permissive", "balanced", "restrictive"]);
    let set = change(&gateway, Method::POST, "/api/guardrails/presets/balanced", json!({})).await;
    assert_eq!(set["enabled"], true);
    let expected = json!([["filter", "filter", "hitl"], ["filter", "hitl", "deny"]]);
    let of = |context: &str| {
        let policies = &set["tool_policies"][context];
        json!([policies["read"], policies["write"], policies["exec"]])
    };
    assert_eq!(json!([of("interactive"), of("background")]), expected);
    let unknown = json!({"interactive": "hitl", "background": "deny"});
    assert_eq!(set["context_defaults"], unknown, "what is not known yet is as risky as can be");
    let none = json!({"status": "error", "message": "Unknown preset: lax"});
    let asked = request(&gateway, Method::POST, "/api/guardrails/presets/lax", None).await;
    assert_eq!(asked, (StatusCode::BAD_REQUEST, none));

    let tools = get(&gateway, "/api/guardrails/tools").await;
    let exec = tools["tools"].as_array().unwrap().iter().find(|it| it["name"] == "exec").unwrap();
    assert_eq!(exec["risk"], "high");
    let inventory = get(&gateway, "/api/guardrails/inventory").await;
    assert!(inventory["inventory"].as_array().unwrap().iter().any(|it| it["id"] == "read"));
    let contexts = get(&gateway, "/api/guardrails/contexts").await;
    assert_eq!(contexts["contexts"][1]["id"], "background");
    assert_eq!(contexts["strategies"].as_array().unwrap().len(), 6);
    let all = json!({"strategy": "deny"});
    let set = change(&gateway, Method::POST, "/api/guardrails/set-all", all).await;
    assert_eq!(
        (&set["default_strategy"], &set["tool_policies"]["interactive"]["read"]),
        (&json!("deny"), &json!("deny"))
    );
}

#[tokio::test]
async fn in_mode_restart_they_hold_after_the_restart_that_setting_them_brings() {
    let restarts = |config: &mut Value| config["gateway"]["reload"] = json!({"mode": "restart"});
    let (gateway, _mock) = place(restarts).await;
    change(&gateway, Method::PUT, "/api/guardrails/config", json!({"enabled": true})).await;
    until("the restart", async || {
        (gateway.stderr().matches("ready address").count() > 1).then_some(())
    })
    .await;
    assert_eq!(get(&gateway, "/api/guardrails/config").await["enabled"], true);
}
