//! Overview, instances, sessions, usage and debug of the Control UI.

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, ask, call};

/// The lines of a tab.
fn lines(tab: &Value) -> Vec<&str> {
    tab.as_array().unwrap().iter().filter_map(|line| Some(line.as_str()?.trim())).collect()
}

/// That a tab has these lines, one after the other.
fn check_lines(tab: &Value, expected: &[&str]) {
    let lines = lines(tab);
    let is_there = lines.windows(expected.len()).any(|found| found == expected);
    assert!(is_there, "{expected:?} is not in {lines:#?}");
}

#[tokio::test]
async fn overview_instances_sessions_usage_and_debug_show_what_there_is() {
    let place = Place::with(|config| {
        config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
    })
    .await;
    std::fs::write(place.gateway.workspace().join("note.txt"), "hello from a file").unwrap();
    let mut client = admin(&place.gateway).await;
    let read = "@mock tool name=read args={\"path\":\"note.txt\"} then=done";
    ask(&mut client, "main", read, "run-1").await;
    ask(&mut client, "old", "something old", "run-2").await;
    ask(&mut client, "long", "hello", "run-3").await;
    ask(&mut client, "long", "@mock text text=\"They said hello.\"", "run-4").await;
    call(&mut client, "sessions.compact", json!({"key": "long"})).await;
    let seen = place.visit("operations", json!({})).await;
    let told = &seen.told;

    check_lines(&told["overview"], &["STATUS", "OK"]);
    check_lines(&told["overview"], &["TICK INTERVAL", "30s"]);
    check_lines(&told["overview"], &["SESSIONS", "3"]);
    check_lines(&told["overview"], &["CRON", "0 jobs"]);
    let instances = lines(&told["instances"]);
    assert_eq!(instances.len(), 3, "{instances:?}");
    for (instance, parts) in instances.iter().zip([
        ["gateway 2026.5.7", "Reason self"],
        ["openclaw-control-ui", "Reason connect"],
        ["gateway-client", "6 scopes"],
    ]) {
        assert!(parts.iter().all(|part| instance.contains(part)), "{instance}: {parts:?}");
    }
    let keys = ["agent:main:long", "agent:main:old", "agent:main:main"];
    assert_eq!(lines(&told["sessions"]), keys);
    let entry = &told["patched"];
    assert_eq!(entry["label"], "The long one");
    assert_eq!((&entry["thinkingLevel"], &entry["fastMode"]), (&json!("high"), &json!(false)));
    assert_eq!((&entry["verboseLevel"], &entry["reasoningLevel"]), (&json!("off"), &json!("on")));
    assert!(told["branch"].as_str().unwrap().contains("session=agent%3Amain%3Adashboard%3A"));
    let list = call(&mut client, "sessions.list", json!({})).await;
    let left: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["key"].as_str().unwrap())
        .collect();
    assert!(!left.contains(&"agent:main:old") && left.contains(&"agent:main:long"), "{left:?}");

    check_lines(&told["usage"], &["TOP MODELS", "mock-1"]);
    check_lines(&told["usage"], &["TOP TOOLS", "read", "1", "calls"]);
    let logs = lines(&told["logs"]);
    assert!(logs[0].starts_with("You") && logs[2].contains("hello from a file"), "{logs:?}");
    let hello = &seen.told["methods"];
    assert!(lines(hello).contains(&"sessions.resolve"), "{hello}");
    check_lines(&told["debug"], &["Manual RPC"]);
    seen.check_calls(&[
        "channels.status",
        "cron.list",
        "cron.status",
        "health",
        "last-heartbeat",
        "logs.tail",
        "models.authStatus",
        "models.list",
        "sessions.compaction.branch",
        "sessions.compaction.list",
        "sessions.compaction.restore",
        "sessions.delete",
        "sessions.list",
        "sessions.patch",
        "sessions.resolve",
        "sessions.usage",
        "sessions.usage.logs",
        "sessions.usage.timeseries",
        "skills.status",
        "status",
        "system-presence",
        "usage.cost",
    ]);
}
