//! Overview, instances, sessions, usage and debug of the Control UI.

use serde_json::json;

use super::Place;
use crate::stage::{admin, ask, call};

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
    std::fs::write("/tmp/ui1/told.json", seen.told.to_string()).unwrap();
    seen.check_calls(&[
        "usage.cost",
    ]);
}
