//! Replies that clients ask for, and where they go.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{call, deltas, end_of, text_of, until};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A gateway that sends to this receiver, and a client of it.
async fn place() -> (Gateway, Receiver, MockProvider, WsClient) {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    (gateway, receiver, mock, client)
}

fn whom(message: &Value) -> (&str, &str) {
    (message["to"].as_str().unwrap(), message["text"].as_str().unwrap())
}

#[tokio::test]
async fn a_refused_request_leaves_no_reply_behind_that_the_next_one_would_be_taken_for() {
    let (_gateway, receiver, _mock, mut client) = place().await;
    let mut params = json!({"sessionKey": "main", "message": "hi", "deliver": true, "to": "bob",
        "attachments": [{"fileName": "a", "content": "***"}], "idempotencyKey": "k"});
    assert_eq!(client.request("agent", params.clone()).await["ok"], false);
    params["to"] = json!("ann");
    params["attachments"] = json!([]);
    assert_eq!(client.request("agent", params).await["payload"]["status"], "accepted");
    let sent = receiver.wait(1).await;
    assert_eq!(whom(&sent[0]), ("ann", "Echo: hi"));
}

#[tokio::test]
async fn what_stands_before_answers_is_said_for_an_account_before_all() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"],
        "responsePrefix": "auto", "accounts": {"b": {"secret": SIGNING,
        "url": receiver.url(), "path": "/webhooks/b", "responsePrefix": "{provider}:"}}});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["agents"]["list"] = json!([{"id": "main", "identity": {"name": "Robin"}}]);
    config["messages"] = json!({"responsePrefix": "of all"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    for (index, account, said) in [(1, "default", "[Robin] Echo: hi"), (2, "b", "mock: Echo: hi")] {
        let params = json!({"sessionKey": "main", "message": "hi", "deliver": true, "to": "ann",
            "replyChannel": "webhook", "replyAccountId": account, "idempotencyKey": account});
        assert_eq!(client.request("agent", params).await["payload"]["status"], "accepted");
        let sent = receiver.wait(index).await;
        assert_eq!(whom(&sent[index - 1]), ("ann", said));
    }
}

#[tokio::test]
async fn a_reply_that_is_expected_already_goes_out_once_its_message_is_accepted() {
    let (gateway, receiver, _mock, mut client) = place().await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    // As one is left of a request that was refused while nothing could be taken back.
    let left = "INSERT INTO channel_replies
            (run_id, scope, session_key, channel, account, target, thread, created_at)
        VALUES ('k', 'agent', 'agent:main:main', 'webhook', 'default', 'ann', '', 1)";
    database.execute_batch(left).unwrap();
    let params = json!({"sessionKey": "main", "message": "hi", "deliver": true, "to": "ann",
        "idempotencyKey": "k"});
    assert_eq!(client.request("agent", params).await["payload"]["status"], "accepted");
    let sent = receiver.wait(1).await;
    assert_eq!(whom(&sent[0]), ("ann", "Echo: hi"));
}

#[tokio::test]
async fn after_a_kill_it_is_told_what_the_last_run_of_a_key_has_said() {
    let (mut gateway, receiver, _mock, mut client) = place().await;
    let send = |text: &str| {
        json!({"sessionKey": "main", "message": text, "idempotencyKey": "k",
            "originatingChannel": "webhook", "originatingTo": "ann"})
    };
    call(&mut client, "chat.send", send("@mock stream n=2000 delay=50")).await;
    deltas(&client, "k", 2).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "k"})).await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.busy_timeout(SOON).unwrap();
    until("nobody waits for an answer", async || {
        let count = "SELECT count(*) FROM channel_replies";
        let expected: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
        (expected == 0).then_some(())
    })
    .await;
    drop(database);
    let endless = "x".repeat(400);
    let again = format!(
        "@mock tool name=session_status args={{}} pre=\"Let me look.\" n=400 delay=200 \
        then=\"{endless}\""
    );
    until("its key is free again", async || {
        let answer = call(&mut client, "chat.send", send(&again)).await;
        (answer["status"] == "started").then_some(())
    })
    .await;
    until("it goes on after the call", async || {
        deltas(&client, "k", 1).await.contains('x').then_some(())
    })
    .await;
    gateway.kill9();
    gateway.restart().await;
    let sent = receiver.wait(1).await;
    let (_, text) = whom(&sent[0]);
    assert!(text.starts_with("Let me look.\n\n⚠️ The gateway stopped"), "{text}");
}

#[tokio::test]
async fn what_is_said_anew_under_a_key_has_another_id_for_who_gets_it() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["agents"]["defaults"]["timeoutSeconds"] = json!(2);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let mut params = json!({"sessionKey": "main", "message": "@mock stream n=2000 delay=50",
        "idempotencyKey": "k", "originatingChannel": "webhook", "originatingTo": "ann"});
    call(&mut client, "chat.send", params.clone()).await;
    let sent = receiver.wait(1).await;
    assert!(whom(&sent[0]).1.ends_with("⚠️ It took too long and was stopped."), "{sent:?}");
    params["message"] = json!("@mock text text=again");
    until("its key is free again", async || {
        let answer = call(&mut client, "chat.send", params.clone()).await;
        (answer["status"] == "started").then_some(())
    })
    .await;
    let sent = receiver.wait(2).await;
    assert_eq!(whom(&sent[1]), ("ann", "again"));
    assert_ne!(sent[0]["id"], sent[1]["id"]);
}

#[tokio::test]
async fn the_same_words_of_two_people_are_answered_to_both() {
    let (_gateway, receiver, _mock, mut client) = place().await;
    let text = "@mock stream n=5 delay=50";
    for (run, to) in [("r1", "ann"), ("r2", "bob")] {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run,
            "originatingChannel": "webhook", "originatingTo": to});
        let answer = call(&mut client, "chat.send", params).await;
        assert_eq!(answer, json!({"runId": run, "status": "started"}));
    }
    for run in ["r1", "r2"] {
        assert_eq!(end_of(&client, run).await["state"], "final");
    }
    let sent = receiver.wait(2).await;
    let mut people: Vec<_> = sent.iter().map(|message| whom(message).0).collect();
    people.sort_unstable();
    assert_eq!(people, ["ann", "bob"]);
}

#[tokio::test]
async fn what_an_answer_leaves_out_of_its_place_is_as_where_the_session_is() {
    let (gateway, receiver, _mock, mut client) = place().await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann", "name": "Ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    receiver.wait(1).await;
    for (index, (more, to)) in [
        (json!({}), "ann"),
        (json!({"channel": "webhook"}), "ann"),
        (json!({"channel": "last", "accountId": "default"}), "ann"),
        (json!({"replyChannel": "webhook", "replyTo": "bob"}), "bob"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("r{index}");
        let mut params = json!({"sessionKey": "agent:main:webhook:direct:ann", "message": run,
            "deliver": true, "idempotencyKey": run});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = client.request("agent", params).await;
        assert_eq!(answer["payload"]["status"], "accepted", "{more}: {answer}");
        let sent = receiver.wait(index + 2).await;
        assert_eq!(whom(&sent[index + 1]), (to, format!("Echo: {run}").as_str()), "{more}");
    }
    let params = json!({"sessionKey": "agent:main:webhook:direct:ann", "message": "x",
        "deliver": true, "accountId": "other", "idempotencyKey": "elsewhere"});
    let answer = client.request("agent", params).await;
    assert_eq!(answer["error"]["message"], "unknown account other of channel webhook");
}

#[tokio::test]
async fn what_is_said_before_and_after_a_tool_stands_apart_in_a_chat() {
    let (_gateway, receiver, _mock, mut client) = place().await;
    let text = "@mock tool name=session_status args={} pre=\"Let me look.\" then=\"All done.\"";
    let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": "r1",
        "originatingChannel": "webhook", "originatingTo": "ann"});
    call(&mut client, "chat.send", params).await;
    let sent = receiver.wait(1).await;
    assert_eq!(whom(&sent[0]), ("ann", "Let me look.\n\nAll done."));
    // Who is connected to the gateway gets it as it was said.
    assert_eq!(text_of(&end_of(&client, "r1").await["message"]), "Let me look.All done.");
}

#[tokio::test]
async fn what_a_job_says_before_and_after_a_tool_stands_apart_in_a_chat() {
    let (_gateway, receiver, _mock, mut client) = place().await;
    let text = "@mock tool name=session_status args={} pre=\"Let me look.\" then=\"All done.\"";
    let job = json!({"name": "looks", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": text},
        "delivery": {"mode": "announce", "channel": "webhook", "to": "ann"}});
    let added = call(&mut client, "cron.add", job).await;
    call(&mut client, "cron.run", json!({"id": added["id"], "mode": "force"})).await;
    let sent = receiver.wait(1).await;
    assert_eq!(whom(&sent[0]), ("ann", "Let me look.\n\nAll done."));
}
