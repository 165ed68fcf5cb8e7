//! Each row of the table of HTTP routes.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::asking::{change, get, request, written};
use super::{Chat, place};
use crate::control_ui;

#[tokio::test]
async fn a_conversation_is_listed_shown_and_deleted() {
    let (gateway, _mock) = place(|_| ()).await;
    assert_eq!(get(&gateway, "/api/sessions").await, json!([]));
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let first = format!("@mock tool name=read args={} then=\"done\"", json!({"path": "note.txt"}));
    std::fs::write(gateway.workspace().join("note.txt"), "a note").unwrap();
    chat.say(&first).await;

    let listed = get(&gateway, "/api/sessions").await;
    let row = &listed[0];
    let title: String = first.chars().take(60).collect();
    let shown = json!([row["id"], row["title"], row["model"], row["message_count"]]);
    assert_eq!(shown, json!([id, title, "mock/mock-1", 4]));
    assert!(row["updated_at"].as_f64() >= row["created_at"].as_f64());
    assert!(row["created_at"].as_f64().is_some_and(|seconds| seconds > 1.6e9 && seconds < 1e11));

    let whole = get(&gateway, &format!("/api/sessions/{id}")).await;
    assert_eq!((&whole["id"], &whole["title"]), (&json!(id), &json!(title)));
    let messages = whole["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
    let call = &messages[1]["tool_calls"][0];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("read"), &json!(r#"{"path":"note.txt"}"#))
    );
    assert!(call["result"].as_str().unwrap().contains("a note"), "{call}");
    assert_eq!((&messages[2]["content"], &messages[2]["channel"]), (&json!("done"), &json!("web")));
    assert!(messages[0]["timestamp"].is_f64());

    let stats = json!({"total_sessions": 1, "total_messages": 4, "archival_policy": "never"});
    assert_eq!(get(&gateway, "/api/sessions/stats").await, stats);
    let path = format!("/api/sessions/{id}");
    let ok = (StatusCode::OK, json!({"status": "ok"}));
    assert_eq!(request(&gateway, Method::DELETE, &path, None).await, ok);
    let missing =
        (StatusCode::NOT_FOUND, json!({"status": "error", "message": "Session not found"}));
    assert_eq!(request(&gateway, Method::GET, &path, None).await, missing);
    assert_eq!(request(&gateway, Method::DELETE, &path, None).await, missing);
    for _ in 0..2 {
        chat.begin().await;
    }
    let all = request(&gateway, Method::DELETE, "/api/sessions", None).await;
    assert_eq!(all, (StatusCode::OK, json!({"status": "ok", "deleted": 2})));
    assert_eq!(get(&gateway, "/api/sessions").await, json!([]));
}

#[tokio::test]
async fn a_long_text_is_shown_whole_and_an_oversized_message_says_what_it_is() {
    let (gateway, _mock) = place(|_| ()).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let (long, longer) = ("long".repeat(5_000), "longer".repeat(25_000));
    let said = format!("@mock text text={long}");
    chat.say(&said).await;
    chat.say(&longer).await;
    let shown = get(&gateway, &format!("/api/sessions/{id}")).await;
    let text = |index: usize| shown["messages"][index]["content"].as_str().unwrap();
    assert!(text(0) == said, "{}", text(0).len());
    assert!(text(1) == long, "{}", text(1).len());
    assert_eq!(text(2), "[chat.history omitted: message too large]");
}

#[tokio::test]
async fn how_long_conversations_are_kept_is_the_gateways_own_setting() {
    let (gateway, _mock) = place(|_| ()).await;
    let options = json!(["24h", "7d", "30d", "never"]);
    let never = json!({"policy": "never", "options": options});
    assert_eq!(get(&gateway, "/api/sessions/policy").await, never);
    for policy in ["24h", "7d", "30d"] {
        let set = json!({"policy": policy});
        let answer = change(&gateway, Method::PUT, "/api/sessions/policy", set).await;
        assert_eq!((&answer["status"], &answer["policy"]), (&json!("ok"), &json!(policy)));
        assert_eq!(written(&gateway)["session"]["maintenance"]["pruneAfter"], policy);
        assert_eq!(get(&gateway, "/api/sessions/policy").await["policy"], policy);
    }
    let never = json!({"policy": "never"});
    change(&gateway, Method::PUT, "/api/sessions/policy", never).await;
    assert_eq!(written(&gateway)["session"]["maintenance"]["pruneAfter"], Value::Null);
    let wrong =
        request(&gateway, Method::PUT, "/api/sessions/policy", Some(json!({"policy": "1y"})));
    let message = "Invalid policy. Valid: 24h, 7d, 30d, never";
    let expected = (StatusCode::BAD_REQUEST, json!({"status": "error", "message": message}));
    assert_eq!(wrong.await, expected);
}

#[tokio::test]
async fn models_suggestions_and_what_pages_load_are_real() {
    let (gateway, _mock) = place(|config| config["tools"]["profile"] = json!("minimal")).await;
    let models = get(&gateway, "/api/models").await;
    assert_eq!(models, get(&gateway, "/api/chat/models").await);
    assert_eq!(models["current"], "mock/mock-1");
    let of = |id: &str| {
        models["models"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap().clone()
    };
    assert_eq!(
        of("mock/mock-1"),
        json!({"id": "mock/mock-1", "name": "Mock One", "policy": "enabled",
            "billing_multiplier": 1.0, "reasoning_efforts": []})
    );
    assert_eq!(of("mocka/mock-think")["reasoning_efforts"], json!(["low", "medium", "high"]));

    let ideas = get(&gateway, "/api/chat/suggestions").await;
    let first = &ideas["suggestions"][0];
    assert!(first["text"].is_string() && first["icon"].is_string(), "{ideas}");
    let setup = get(&gateway, "/api/setup/status").await;
    let ready = json!([setup["prerequisites_configured"], setup["foundry"]["deployed"]]);
    assert_eq!(ready, json!([true, true]));
    let profile = get(&gateway, "/api/profile").await;
    assert_eq!(profile["agent_id"], "main");
    let skills = get(&gateway, "/api/skills").await;
    assert_eq!(skills["skills"], json!([]));
}

#[tokio::test]
async fn whether_it_is_well_is_told_to_everybody_and_nothing_else_is() {
    let (gateway, _mock) = place(|config| {
        config["gateway"]["dialects"] = json!({"prefix": "/compat"});
    })
    .await;
    let version = env!("CARGO_PKG_VERSION");
    for (path, status) in [("/health", "live"), ("/compat/health", "ok")] {
        let health = control_ui::get(&gateway, path).await;
        assert_eq!(health.status(), StatusCode::OK);
        let health: Value = serde_json::from_str(&health.text().await.unwrap()).unwrap();
        let told = json!({"ok": true, "status": status, "version": version, "mode": "local"});
        assert_eq!(health, told, "{path}");
    }
    for path in ["/api/sessions", "/api/models", "/api/profile", "/api/guardrails/config"] {
        let refused = control_ui::get(&gateway, path).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path}");
        let body: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        let message = "Invalid or missing admin secret";
        assert_eq!(body, json!({"status": "unauthorized", "message": message}));
    }
    let up = request(&gateway, Method::GET, "/api/media/..%2Fopenclaw.json", None).await;
    assert_eq!(up.0, StatusCode::FORBIDDEN);
}
