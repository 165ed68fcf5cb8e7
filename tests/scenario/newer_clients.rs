//! What clients of protocol 4 get that those of protocol 3 do not.

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, connect, refusal, scripted};
use crate::support::client::standard_connect;
use crate::support::{Gateway, WsClient};

/// The Control UI's own way of connecting: it says more of itself than is known here.
async fn newer(gateway: &Gateway) -> WsClient {
    let mut params = standard_connect(&["operator.admin"]);
    params["minProtocol"] = json!(4);
    params["maxProtocol"] = json!(4);
    params["client"]["buildId"] = json!("2026.9.6-release");
    params["modelCatalog"] = json!({"agentId": "main"});
    connect(gateway, &params).await
}

async fn job(client: &mut WsClient, name: &str, agent: Option<&str>) -> Value {
    let mut job = json!({"name": name, "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "hey"}});
    if let Some(agent) = agent {
        job["agentId"] = json!(agent);
    }
    call(client, "cron.add", job).await
}

fn names(page: &Value) -> Vec<&str> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_makes_an_answer_shorter_is_passed_over_and_what_chooses_another_is_not() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut older, mut newer) = (admin(&gateway).await, newer(&gateway).await);
    let shorter = json!({"compact": true});
    let text = refusal(&mut older, "cron.list", shorter.clone()).await;
    assert_eq!(text, "invalid cron.list params: at root: unexpected property 'compact'");
    assert_eq!(names(&call(&mut newer, "cron.list", shorter).await), [""; 0]);
    for (method, member, params) in [
        ("cron.list", "scheduleKind", json!({"scheduleKind": "at"})),
        ("sessions.resolve", "shortId", json!({"shortId": "abc"})),
        ("sessions.delete", "onlyIfIdle", json!({"key": "main", "onlyIfIdle": true})),
    ] {
        let text = refusal(&mut newer, method, params).await;
        let expected = format!("invalid {method} params: at root: unexpected property '{member}'");
        assert_eq!(text, expected);
    }
}

#[tokio::test]
async fn a_page_of_jobs_names_what_it_is_a_page_of() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut older, mut newer) = (admin(&gateway).await, newer(&gateway).await);
    call(&mut newer, "agents.create", json!({"name": "ops", "workspace": "~/ops"})).await;
    let first = job(&mut newer, "first", None).await;
    assert_eq!(first["effectiveAgentId"], "main");
    let page = call(&mut newer, "cron.list", json!({"limit": 1})).await;
    let revision = page["snapshotRevision"].as_str().unwrap().to_owned();
    let again = call(&mut newer, "cron.list", json!({"limit": 1, "offset": 1})).await;
    assert_eq!(again["snapshotRevision"], revision, "nothing has changed");
    job(&mut newer, "second", Some("ops")).await;
    let page = call(&mut newer, "cron.list", json!({})).await;
    assert_ne!(page["snapshotRevision"], revision);
    for (agent, expected) in [("main", "first"), ("ops", "second")] {
        let of_agent = call(&mut newer, "cron.list", json!({"agentId": agent})).await;
        assert_eq!(names(&of_agent), [expected]);
        assert_eq!(of_agent["jobs"][0]["effectiveAgentId"], agent);
    }
    let one = call(&mut newer, "cron.get", json!({"id": first["id"]})).await;
    assert_eq!((&one["name"], &one["effectiveAgentId"]), (&json!("first"), &json!("main")));
    let text = refusal(&mut newer, "cron.get", json!({"id": "first"})).await;
    assert_eq!(text, "cron job not found: first");

    let page = call(&mut older, "cron.list", json!({})).await;
    assert!(page.get("snapshotRevision").is_none(), "{page}");
    assert!(page["jobs"][0].get("effectiveAgentId").is_none(), "{page}");
}

/// As `openclaw cron edit --clear-model` and its like send it.
#[tokio::test]
async fn what_a_job_was_given_can_be_taken_back() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut older, mut newer) = (admin(&gateway).await, newer(&gateway).await);
    let id = job(&mut newer, "first", None).await["id"].clone();
    let update = |payload: Value, delivery: Value| json!({"id": id, "patch": {"payload": payload, "delivery": delivery}});
    let given = update(
        json!({"kind": "agentTurn", "model": "test/model", "thinking": "low", "fallbacks": []}),
        json!({"mode": "announce", "channel": "last", "to": "somebody", "accountId": "a",
            "threadId": "5"}),
    );
    let full = call(&mut newer, "cron.update", given).await;
    assert_eq!(
        (&full["payload"]["thinking"], &full["delivery"]["to"]),
        (&json!("low"), &json!("somebody"))
    );
    let taken = update(
        json!({"kind": "agentTurn", "model": null, "thinking": null, "fallbacks": null}),
        json!({"channel": null, "to": null, "accountId": null, "threadId": null}),
    );
    let text = refusal(&mut older, "cron.update", taken.clone()).await;
    assert!(text.contains("must be string"), "{text}");
    let empty = call(&mut newer, "cron.update", taken).await;
    assert_eq!(empty["payload"], json!({"kind": "agentTurn", "message": "hey"}));
    assert_eq!(empty["delivery"], json!({"mode": "announce"}));
}

#[tokio::test]
async fn a_page_that_starts_gets_a_chat_and_its_session_in_one_answer() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (mut older, mut newer) = (admin(&gateway).await, newer(&gateway).await);
    let empty = json!({"sessionKey": "main", "limit": 80, "maxBytes": 262_144});
    let nothing = call(&mut newer, "chat.startup", empty.clone()).await;
    assert_eq!((&nothing["messages"], &nothing["sessionInfo"]), (&json!([]), &Value::Null));
    ask(&mut newer, "main", "@mock text text=\"yes\"", "run-1").await;
    let started = call(&mut newer, "chat.startup", empty).await;
    assert_eq!(started["sessionInfo"]["key"], "agent:main:main");
    assert!(started["defaults"]["model"].is_string(), "{}", started["defaults"]);
    // By this the page knows that what it shows already has arrived.
    assert_eq!(started["messages"][0]["idempotencyKey"], "run-1:user");
    assert!(started["messages"][1].get("idempotencyKey").is_none());
    let recorded = call(&mut older, "chat.history", json!({"sessionKey": "main"})).await;
    assert!(recorded["messages"][0].get("idempotencyKey").is_none(), "{recorded}");
}
