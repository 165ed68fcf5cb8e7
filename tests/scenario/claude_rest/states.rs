//! States of sessions through a run that asks for a permission.

use reqwest::Method;
use serde_json::{Value, json};

use super::stream::Told;
use super::{ask, good, line, path, post, state};
use crate::claude_sessions::Claude;
use crate::stage::{Api, admin, ask as talk, call, config, end_of, start};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

async fn asking() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"ask": "always"});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn begun(client: &mut WsClient, run: &str) -> (String, Value) {
    let message = "@mock tool name=exec args={\"command\":\"echo yes\"} then=\"done\"";
    start(client, "garden", message, run).await;
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let asked = asked.expect("a question")["payload"]["id"].clone();
    let row = call(client, "sessions.describe", json!({"key": "garden"})).await;
    (row["session"]["sessionId"].as_str().unwrap().to_owned(), asked)
}

#[tokio::test]
async fn what_ends_while_somebody_watches_is_read_and_what_ends_after_that_is_not() {
    let (gateway, _mock) = asking().await;
    let mut client = admin(&gateway).await;
    talk(&mut client, "garden", "@mock text text=\"one\"", "run-1").await;
    let row = call(&mut client, "sessions.describe", json!({"key": "garden"})).await;
    let id = row["session"]["sessionId"].as_str().unwrap().to_owned();
    let mut stream = Told::open(&gateway).await;
    let mut claude = Claude::open(&gateway, &id, "").await;
    stream.until(&id, "read").await;
    assert_eq!(state(&gateway, &id).await, "idle");
    talk(&mut client, "garden", "@mock text text=\"two\"", "run-2").await;
    stream.until(&id, "read").await;
    assert_eq!(state(&gateway, &id).await, "idle");
    claude.0.close().await;
    drop(claude);
    // The gateway notices in its own time that nobody is there.
    for run in 3..40 {
        talk(&mut client, "garden", "@mock text text=\"three\"", &format!("run-{run}")).await;
        if state(&gateway, &id).await == "unread" {
            return;
        }
    }
    panic!("what nobody has seen is read");
}

#[tokio::test]
async fn a_session_that_asks_is_unread_and_what_ends_unseen_is_unread_also_after_a_restart() {
    let (mut gateway, _mock) = asking().await;
    let mut client = admin(&gateway).await;
    let (id, asked) = begun(&mut client, "run-1").await;
    assert_eq!(state(&gateway, &id).await, "unread");
    let decision = json!({"id": asked, "decision": "allow-once"});
    call(&mut client, "exec.approval.resolve", decision).await;
    end_of(&client, "run-1").await;
    assert_eq!(state(&gateway, &id).await, "unread", "nobody has seen how it ended");
    drop(client);
    gateway.restart().await;
    assert_eq!(state(&gateway, &id).await, "unread");
    good(post(&gateway, &path(&id, "/archive"), Value::Null)).await;
    assert_eq!(state(&gateway, &id).await, "archived");
    good(post(&gateway, &path(&id, "/unarchive"), Value::Null)).await;
    assert_eq!(state(&gateway, &id).await, "unread");
}

#[tokio::test]
async fn a_session_is_working_until_it_is_deactivated() {
    let mock = MockProvider::start().await;
    let config = config(mock.address(), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "garden", "@mock stream n=400 delay=50", "run-1").await;
    let row = call(&mut client, "sessions.describe", json!({"key": "garden"})).await;
    let id = row["session"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(state(&gateway, &id).await, "working");
    let stopped = ask(&gateway, Method::POST, &path(&id, "/deactivate"), Value::Null).await;
    assert_eq!(stopped, (200, json!({"success": true})));
    let end = end_of(&client, "run-1").await;
    assert_eq!(end["state"], "aborted");
    assert_ne!(line(&gateway, &id).await.unwrap()["sessionState"], "working");
    // Nothing runs any more, and that is all right.
    assert_eq!(good(post(&gateway, &path(&id, "/deactivate"), Value::Null)).await["success"], true);
}
