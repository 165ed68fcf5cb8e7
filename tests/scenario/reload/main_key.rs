//! Another name for main sessions, and one for all.

use serde_json::json;

use super::{edit, until};
use crate::stage::{Api, admin, ask, call, scripted, told};

#[tokio::test]
async fn the_main_conversation_goes_on_under_another_main_key_and_after_a_restart() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let said = told(&mut client, "main").await;
    assert_eq!(said.len(), 2);
    edit(&gateway, |config| config["session"] = json!({"mainKey": "home"}));
    until(&mut client, "agents.list", |told| told["mainKey"] == "home").await;
    for is_restarted in [false, true] {
        if is_restarted {
            assert!(gateway.terminate().await.unwrap().success());
            gateway.restart().await;
            client = admin(&gateway).await;
        }
        for key in ["main", "home", "agent:main:main", "agent:main:home"] {
            assert_eq!(told(&mut client, key).await, said, "{key}");
        }
        let list = call(&mut client, "sessions.list", json!({})).await;
        let rows = list["sessions"].as_array().unwrap();
        let keys: Vec<_> = rows.iter().map(|row| &row["key"]).collect();
        assert_eq!(keys, ["agent:main:main"]);
    }
}

#[tokio::test]
async fn a_conversation_that_is_listed_is_found_where_everybody_shares_another() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let said = told(&mut client, "main").await;
    edit(&gateway, |config| config["session"] = json!({"scope": "global"}));
    until(&mut client, "agents.list", |told| told["scope"] == "global").await;
    assert_eq!(told(&mut client, "main").await, []);
    assert_eq!(told(&mut client, "agent:main:main").await, said);
    // Once it is gone, its name is one of the conversation of now.
    ask(&mut client, "main", "hello, all", "run-2").await;
    let shared = told(&mut client, "main").await;
    let deleted = call(&mut client, "sessions.delete", json!({"key": "agent:main:main"})).await;
    assert_eq!((&deleted["key"], &deleted["deleted"]), (&json!("agent:main:main"), &json!(true)));
    assert_eq!(told(&mut client, "agent:main:main").await, shared);
    ask(&mut client, "agent:main:main", "me too", "run-3").await;
    assert_eq!(told(&mut client, "main").await.len(), 4);
}
