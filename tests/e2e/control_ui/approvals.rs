//! Questions of the Control UI before commands run.

use std::path::PathBuf;

use serde_json::json;

use super::Place;
use crate::stage::{admin, call, until};

/// What somebody else decides about.
const ELSEWHERE: &str = "mkdir elsewhere";

#[tokio::test]
async fn commands_are_allowed_and_denied_in_the_original_dialog() {
    let place = Place::with(|config| {
        config["tools"]["exec"] = json!({"security": "allowlist", "ask": "on-miss"});
    })
    .await;
    let mut other = admin(&place.gateway).await;
    let elsewhere = async {
        let waiting = until("a question for somebody else", async || {
            let list = call(&mut other, "exec.approval.list", json!({})).await;
            let mut all = list.as_array()?.iter();
            Some(all.find(|question| question["request"]["command"] == ELSEWHERE)?["id"].clone())
        });
        let id = waiting.await;
        call(&mut other, "exec.approval.resolve", json!({"id": id, "decision": "allow-once"})).await;
    };
    let (seen, ()) = tokio::join!(place.visit("approvals", json!({"decide": ELSEWHERE})), elsewhere);
    let made = ["once", "denied", "always", "again", "elsewhere"]
        .map(|name| place.gateway.workspace().join(name).exists());
    assert_eq!(made, [true, false, true, true, true]);
    assert_eq!(seen.told["asked"].as_array().unwrap().len(), 3);
    for (asked, command) in
        seen.told["asked"].as_array().unwrap().iter().zip(["once", "denied", "always"])
    {
        assert_eq!(asked[0], "Exec approval needed");
        println!("{asked} {command}");
    }
    assert_eq!(seen.told["answers"], json!([{"ok": true}, {"ok": true}, {"ok": true}]));
    let _: PathBuf = place.gateway.workspace();
}
