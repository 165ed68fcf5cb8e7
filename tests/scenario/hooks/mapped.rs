//! Requests to paths of the configuration: templates, rules, tokens, sessions.

use serde_json::{Value, json};

use super::{Answer, TOKEN, end, hooked, is_asked, post, post_with};
use crate::stage::{admin, call, row, until};

async fn keys(gateway: &crate::support::Gateway) -> String {
    let mut client = admin(gateway).await;
    call(&mut client, "sessions.list", json!({"limit": 50})).await.to_string()
}

#[tokio::test]
async fn a_template_is_filled_and_nothing_in_it_is_filled_again() {
    let hooks = json!({"mappings": [{"id": "all", "match": {"path": "/ci/builds/"},
        "messageTemplate": "build-mark {{repo.name}} {{steps[0].state}} {{headers.x-event}} {{query.q}} {{path}}|{{missing}}|{{steps}}|{{headers.authorization}}",
        "deliver": false}]});
    let (gateway, mock) = hooked(&hooks).await;
    let body = json!({"repo": {"name": "{{payload.secret}} {{headers.x-event}}"}, "secret": "s3cret",
        "steps": [{"state": "red"}]});
    let headers = [("X-Event", "push")];
    let answer = post_with(&gateway, "/hooks/ci/builds?q=a%20b", TOKEN, &headers, &body).await;
    answer.run_id();
    let text = is_asked(&mock, "build-mark").await;
    let line = "build-mark {{payload.secret}} {{headers.x-event}} red push a b ci/builds||\
        [{\"state\":\"red\"}]|";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("s3cret") && !text.contains(TOKEN), "{text}");
}

#[tokio::test]
async fn the_first_mapping_that_is_meant_counts() {
    let wake = |path: &str, source: Option<&str>, text: &str| {
        json!({"match": {"path": path, "source": source}, "action": "wake", "textTemplate": text,
            "wakeMode": "next-heartbeat"})
    };
    let hooks = json!({"mappings": [wake("a", Some("one"), "first {{n}}"),
        wake("a", None, "second {{n}}"), wake("b", None, "{{nothing}}"),
        {"match": {"path": "c"}, "messageTemplate": "{{nothing}}"}]});
    let (gateway, _mock) = hooked(&hooks).await;
    for (path, body, answer) in [
        ("a", json!({"source": "one", "n": 1}), json!({"ok": true, "mode": "next-heartbeat"})),
        ("a", json!({"source": "two", "n": 2}), json!({"ok": true, "mode": "next-heartbeat"})),
        ("b", json!({}), json!({"ok": false, "error": "hook mapping requires text"})),
        ("c", json!({}), json!({"ok": false, "error": "hook mapping requires message"})),
    ] {
        let answered = post(&gateway, &format!("/hooks/{path}"), &body).await;
        assert_eq!(answered.json(), answer, "{path} {body}");
    }
    assert_eq!(post(&gateway, "/hooks/a/b", &json!({})).await.status, 404);
    let mut client = admin(&gateway).await;
    let status = call(&mut client, "status", json!({})).await.to_string();
    assert!(
        status.contains("(untrusted) first 1") && status.contains("(untrusted) second 2"),
        "{status}"
    );
}

/// A mapping whose rules sort pull requests.
fn sorted() -> Value {
    json!({"mappings": [{
        "match": {"path": "github"}, "name": "PR {{number}}", "deliver": false,
        "messageTemplate": "review-mark {{title}} by {{user.login}}",
        "transform": {
            "defaults": {"user.login": "somebody"},
            "when": [{"field": "headers.x-github-event", "in": ["pull_request", "push"]},
                {"field": "draft", "equals": true, "not": true}],
            "cases": [
                {"when": [{"field": "user.login", "matches": "\\[bot\\]$"}], "skip": true},
                {"when": [{"field": "labels", "contains": "urgent"}, {"field": "number", "exists": true}],
                    "set": {"action": "wake", "text": "urgent: {{title}}"}},
                {"when": [{"field": "number", "equals": 7}], "set": {"model": "mock/mock-2"}},
            ],
        },
    }]})
}

#[tokio::test]
async fn rules_skip_change_and_complete_requests() {
    let (gateway, mock) = hooked(&sorted()).await;
    let ask = async |event: &str, body: Value| {
        let headers = [("X-GitHub-Event", event)];
        post_with(&gateway, "/hooks/github", TOKEN, &headers, &body).await
    };
    let skipped = json!({"ok": true, "skipped": true});
    assert_eq!(ask("issues", json!({"title": "t"})).await.json(), skipped);
    assert_eq!(ask("push", json!({"title": "t", "draft": true})).await.json(), skipped);
    let bot = json!({"title": "t", "user": {"login": "dep[bot]"}});
    assert_eq!(ask("push", bot).await.json(), skipped);
    let urgent = json!({"title": "fire", "number": 1, "labels": ["x", "urgent"]});
    assert_eq!(ask("push", urgent).await.json(), json!({"ok": true, "mode": "now"}));
    is_asked(&mock, "(untrusted) urgent: fire").await;
    ask("pull_request", json!({"title": "seven", "number": 7})).await.run_id();
    let text = is_asked(&mock, "review-mark seven by somebody").await;
    assert!(text.starts_with("[hook: PR 7] "), "{text}");
    let models: Vec<_> = mock.requests().iter().map(|it| it.body["model"].to_string()).collect();
    assert_eq!(models.last().unwrap(), "\"mock-2\"");
}

#[tokio::test]
async fn a_mapping_has_a_token_of_its_own_that_opens_nothing_else() {
    let hooks = json!({"mappings": [
        {"match": {"path": "own"}, "token": "the-token-of-this-mapping", "action": "wake", "textTemplate": "x"},
        {"match": {"path": "general"}, "action": "wake", "textTemplate": "x"}]});
    let (gateway, _mock) = hooked(&hooks).await;
    let own = "the-token-of-this-mapping";
    for (path, token, status) in [
        ("own", own, 200),
        ("own", TOKEN, 401),
        ("general", TOKEN, 200),
        ("general", own, 401),
        ("wake", own, 401),
        ("agent", own, 401),
        ("nowhere", own, 401),
        ("nowhere", TOKEN, 404),
        ("", own, 401),
    ] {
        let body = json!({"text": "x", "message": "x"});
        let answer = post_with(&gateway, &format!("/hooks/{path}"), token, &[], &body).await;
        assert_eq!(answer.status, status, "{path} with {token}");
    }
}

#[tokio::test]
async fn a_request_chooses_no_session_outside_of_its_prefix() {
    let hooks = json!({"allowRequestSessionKey": true, "mappings": [
        {"match": {"path": "ci"}, "sessionKey": "{{id}}", "sessionKeyPrefix": "Hook:CI:",
            "messageTemplate": "x", "deliver": false}]});
    let (gateway, _mock) = hooked(&hooks).await;
    let mut client = admin(&gateway).await;
    let mut begun = async |answer: Answer, key: &str| {
        end(&mut client, &answer.run_id()).await;
        let row = row(&mut client, key).await;
        assert_eq!(row["key"], key, "{row}");
    };
    for (id, key) in [
        (json!(5), "agent:main:hook:ci:5"),
        (json!("hook:ci:6"), "agent:main:hook:ci:6"),
        (json!("main"), "agent:main:hook:ci:main"),
        (json!("agent:main:main"), "agent:main:hook:ci:agent:main:main"),
        (json!("../x"), "agent:main:hook:ci:../x"),
    ] {
        begun(post(&gateway, "/hooks/ci", &json!({"id": id})).await, key).await;
    }
    let ask = async |key: &str| {
        post(
            &gateway,
            "/hooks/agent",
            &json!({"message": "x", "sessionKey": key, "deliver": false}),
        )
        .await
    };
    begun(ask(" HOOK:mine ").await, "agent:main:hook:mine").await;
    let rule = "sessionKey must start with one of: hook:";
    for outside in [
        "main",
        "agent:main:main",
        "agent:main:hook:x",
        "agent:other:hook:x",
        "global",
        "webhook:x",
        "agent:main:subagent:x",
        "hoo",
        "\u{200b}hook:x",
    ] {
        assert_eq!(ask(outside).await.refusal(), (400, rule.to_owned()), "{outside:?}");
    }
    let long = format!("hook:{}", "x".repeat(300));
    for wrong in ["hook:a\nb", &long] {
        assert_eq!(ask(wrong).await.status, 400, "{wrong:?}");
    }
    let all = keys(&gateway).await;
    assert!(!all.contains("\"key\":\"agent:main:main\"") && !all.contains("agent:other"), "{all}");
}

#[tokio::test]
async fn the_session_of_another_agent_is_that_of_the_agent_that_is_asked() {
    let hooks = json!({"allowRequestSessionKey": true, "allowedSessionKeyPrefixes": ["hook:", "agent:main:ci:"]});
    let (gateway, _mock) = hooked(&hooks).await;
    let mut client = admin(&gateway).await;
    let ask = async |key: &str| {
        post(
            &gateway,
            "/hooks/agent",
            &json!({"message": "x", "sessionKey": key, "deliver": false}),
        )
        .await
    };
    let run = ask("agent:MAIN:ci:7").await.run_id();
    end(&mut client, &run).await;
    assert_eq!(row(&mut client, "agent:main:ci:7").await["key"], "agent:main:ci:7");
    let rule = "sessionKey must start with one of: hook:, agent:main:ci:";
    assert_eq!(ask("agent:other:ci:7").await.refusal(), (400, rule.to_owned()));
}

#[tokio::test]
async fn mails_are_read_by_the_preset_of_the_original() {
    let hooks = json!({"presets": ["gmail"], "gmail": {"model": "mock/mock-2"}});
    let (gateway, mock) = hooked(&hooks).await;
    let mut client = admin(&gateway).await;
    let mail = json!({"source": "gmail", "messages": [{"id": "AbC1", "from": "Ann <a@b.c>",
        "subject": "Lunch", "snippet": "At noon?", "body": "At noon or at one?"}]});
    let run = post(&gateway, "/hooks/gmail", &mail).await.run_id();
    end(&mut client, &run).await;
    let text = is_asked(&mock, "Lunch").await;
    let said = "New email from Ann <a@b.c>\nSubject: Lunch\nAt noon?\nAt noon or at one?\n";
    assert!(text.contains(said) && text.contains("Source: Email"), "{text}");
    assert!(text.starts_with("[hook: Gmail] "), "{text}");
    assert_eq!(row(&mut client, "agent:main:hook:gmail:abc1").await["displayName"], "Hook: Gmail");
    let model = until("the request", async || mock.requests().first().cloned()).await;
    assert_eq!(model.body["model"], "mock-2");
}

#[tokio::test]
async fn words_of_a_trusted_sender_are_not_marked() {
    let hooks = json!({"mappings": [{"match": {"path": "own"}, "messageTemplate": "own-mark {{x}}",
        "allowUnsafeExternalContent": true, "deliver": false}]});
    let (gateway, mock) = hooked(&hooks).await;
    post(&gateway, "/hooks/own", &json!({"x": "y"})).await.run_id();
    let text = is_asked(&mock, "own-mark").await;
    assert!(text.starts_with("[hook: Hook] own-mark y\n"), "{text}");
}
