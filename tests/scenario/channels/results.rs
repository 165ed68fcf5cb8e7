//! Results that come to a session after its answer, and what is said of them in its chat.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{ask, call, deltas, end_of, history, text_of, until};
use crate::subagents::spawning;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ANN: &str = "agent:main:webhook:direct:ann";

/// A gateway that sends to this receiver, and a client of it.
async fn place() -> (Gateway, Receiver, MockProvider, WsClient) {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["tools"]["sessions"]["visibility"] = json!("agent");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    (gateway, receiver, mock, client)
}

async fn from_ann(gateway: &Gateway, id: &str, text: &str) {
    let message = json!({"id": id, "text": text, "from": {"id": "ann", "name": "Ann"}});
    assert_eq!(bring(gateway, "/webhooks/default", &message).await.0, 200);
}

/// A message by which a sub-agent is begun with whose result the model is told to do this.
pub fn asking(then: &str) -> String {
    // The mark is written so that neither who asks nor the sub-agent takes it for its own.
    spawning(&[json!({"task": format!("@child text text=\"\\u0040mock {then}\"")})])
}

/// Waits until so many sub-agents were begun in Ann's session and the result of the last one is
/// answered; how.
async fn answered(client: &mut WsClient, count: usize) -> Value {
    let telling = telling(client, count).await;
    end_of(client, &telling).await
}

/// The run that hears the result of the last of so many sub-agents of Ann's session.
async fn telling(client: &mut WsClient, count: usize) -> String {
    let begun = until("a sub-agent is begun", async || {
        let mut all = history(client, ANN).await;
        all.retain(|message| message["toolName"] == "sessions_spawn");
        if all.len() == count { all.pop() } else { None }
    })
    .await;
    let begun: Value = serde_json::from_str(&text_of(&begun)).unwrap();
    let (child, run) = (begun["childSessionKey"].as_str(), begun["runId"].as_str());
    format!("announce:v1:{}:{}", child.unwrap(), run.unwrap())
}

#[tokio::test]
async fn the_answer_to_the_result_of_a_sub_agent_goes_once_to_the_chat_that_it_is_for() {
    let (gateway, receiver, _mock, mut client) = place().await;
    from_ann(&gateway, "1", &asking("text text=found")).await;
    assert_eq!(receiver.texts(2).await, ["spawned", "found"]);
    let sent = receiver.seen();
    assert_eq!((&sent[1]["to"], &sent[1]["accountId"]), (&json!("ann"), &json!("default")));
    assert!(sent[1]["id"].as_str().unwrap().starts_with("announce:v1:"), "{}", sent[1]);

    // One that is silent says nothing there.
    from_ann(&gateway, "2", &asking("silent")).await;
    assert_eq!(answered(&mut client, 2).await["state"], "final");
    // Nor does one for a client whose own answer does not go there.
    let message = asking("text text=elsewhere");
    let params = json!({"sessionKey": ANN, "message": message, "idempotencyKey": "of-a-client"});
    call(&mut client, "chat.send", params).await;
    assert_eq!(text_of(&answered(&mut client, 3).await["message"]), "elsewhere");
    from_ann(&gateway, "3", "bye").await;
    let texts = receiver.texts(4).await;
    assert_eq!(texts, ["spawned", "found", "spawned", "Echo: bye"]);
}

#[tokio::test]
async fn the_chat_that_a_result_is_for_is_known_after_a_restart() {
    let (mut gateway, receiver, _mock, mut client) = place().await;
    let task = json!({"task": "@child stream n=1000 delay=100"});
    from_ann(&gateway, "1", &spawning(&[task])).await;
    assert_eq!(receiver.texts(1).await, ["spawned"]);
    until("the sub-agent runs", async || {
        let rows = call(&mut client, "sessions.list", json!({})).await;
        let is_child = |row: &Value| row["spawnedBy"] == ANN && row["hasActiveRun"] == true;
        rows["sessions"].as_array().unwrap().iter().any(is_child).then_some(())
    })
    .await;
    gateway.kill9();
    gateway.restart().await;
    let texts = receiver.texts(2).await;
    assert!(texts[1].starts_with("Echo:"), "{texts:?}");
    assert_eq!(receiver.seen()[1]["to"], "ann");
}

#[tokio::test]
async fn an_answer_to_a_result_that_a_kill_has_cut_off_is_given_once_after_it() {
    let (mut gateway, receiver, _mock, mut client) = place().await;
    from_ann(&gateway, "1", &asking("stream n=60 delay=50")).await;
    assert_eq!(receiver.texts(1).await, ["spawned"]);
    let telling = telling(&mut client, 1).await;
    deltas(&client, &telling, 1).await;
    gateway.kill9();
    gateway.restart().await;
    let texts = receiver.texts(2).await;
    assert!(!texts[1].contains('⚠'), "{texts:?}");
    from_ann(&gateway, "2", "bye").await;
    assert_eq!(receiver.texts(3).await[2], "Echo: bye");
}

#[tokio::test]
async fn who_speaks_to_a_sub_agent_of_a_chat_hears_where_its_result_is_answered() {
    let (gateway, receiver, _mock, mut client) = place().await;
    from_ann(&gateway, "1", &asking("text text=found")).await;
    assert_eq!(receiver.texts(2).await, ["spawned", "found"]);
    let sent = ask(&mut client, ANN, "/subagents send 1 hi", "c").await;
    let sent = text_of(&sent["message"]);
    assert!(sent.contains("and is answered in the chat that it is for (run "), "{sent}");
    assert_eq!(receiver.wait(3).await[2]["to"], "ann");
}

#[tokio::test]
async fn the_answer_to_what_another_session_says_later_goes_to_the_chat_that_it_is_for() {
    let (gateway, receiver, _mock, mut client) = place().await;
    let params = json!({"sessionKey": "helper", "message": "hi", "idempotencyKey": "h"});
    call(&mut client, "chat.send", params).await;
    end_of(&client, "h").await;
    let args = json!({"sessionKey": "agent:main:helper", "timeoutSeconds": 0, "message": "@text"});
    let args = args.to_string().replace("@text", "\\u0040mock text text=found");
    let text = format!("@mock tool name=sessions_send args={args} then=asked");
    from_ann(&gateway, "1", &text).await;
    assert_eq!(receiver.texts(2).await, ["asked", "Echo: found"]);
    assert_eq!(receiver.seen()[1]["to"], "ann");
}
