//! What nodes ask agents by themselves: what it may do, what comes with it, that it
//! is done once.

use serde_json::{Value, json};

use crate::channels::receiver::{Receiver, bring};
use crate::channels::{SIGNING, with_channels, with_webhook_running};
use crate::hooks;
use crate::stage::{Api, admin, call, lines, scripted, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, NodeClient, WsClient};

/// The smallest picture that counts as one.
const DOT: &str = "iVBORw0KGgo=";
const SHARED: &str = "agent:main:shared";

/// Waits until so many messages are in a session, and gives them.
async fn messages(client: &mut WsClient, session: &str, count: usize) -> Vec<(String, String)> {
    until(&format!("{count} messages in {session}"), async || {
        let told = told(client, session).await;
        (told.len() >= count).then_some(told)
    })
    .await
}

fn webhook(receiver: &Receiver) -> Value {
    json!({"webhook": {"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]}})
}

#[tokio::test]
async fn runs_of_strangers_and_of_nodes_get_at_no_node() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let mut config = hooks::with_hooks(&mock, &json!({}));
    config["channels"] = webhook(&receiver);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let look = r#"@mock tool name=nodes args={"action":"location_get"} then="looked""#;

    let hook = json!({"message": look, "deliver": false});
    let run = hooks::post(&gateway, "/hooks/agent", &hook).await.run_id();
    assert_eq!(hooks::end(&mut client, &run).await["status"], "ok");
    let message = json!({"id": "1", "text": look, "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.1["status"], "accepted");
    receiver.wait(1).await;
    let asked = json!({"message": look, "sessionKey": SHARED});
    phone.report("agent.request", &asked).await;
    let lines = messages(&mut client, SHARED, 4).await;
    assert_eq!(lines[3].1, "looked", "{lines:?}");

    assert!(phone.requests().is_empty());
    let requests = mock.requests();
    assert!(requests.len() >= 6, "each of the three has called and was told: {requests:?}");
    let offered: Vec<_> =
        requests.iter().map(|request| request.body["tools"].to_string()).collect();
    assert!(offered.iter().any(|tools| tools.contains("\"name\":\"read\"")), "{offered:?}");
    assert!(!offered.iter().any(|tools| tools.contains("\"name\":\"nodes\"")), "{offered:?}");
}

#[tokio::test]
async fn a_picture_that_is_shared_on_a_phone_is_seen_and_answered_where_it_says() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let config = with_channels(mock.address(), &webhook(&receiver));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    let picture = json!({"type": "image", "mimeType": "image/png", "fileName": "shared.png",
        "content": DOT});
    let mut shared = json!({"attachments": [picture], "sessionKey": SHARED, "deliver": true,
        "channel": "webhook", "to": "ann", "receipt": true, "receiptText": "Got it."});
    let answer = phone.report("agent.request", &shared).await;
    assert_eq!(answer["payload"], json!({"ok": true}), "{answer}");
    let sent = receiver.wait(2).await;
    let [receipt, reply] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((&receipt["to"], &receipt["text"]), (&json!("ann"), &json!("Got it.")));
    assert_eq!(reply["to"], "ann");
    let told = messages(&mut client, SHARED, 2).await;
    assert_eq!(reply["text"], told[1].1.as_str());
    let seen = mock.requests().last().unwrap().body.to_string();
    assert!(seen.contains(&format!("data:image/png;base64,{DOT}")), "{seen}");

    // A node reaches nobody whom an agent would not; the request itself is answered.
    shared["to"] = json!("eve");
    phone.report("agent.request", &shared).await;
    messages(&mut client, SHARED, 4).await;
    shared["to"] = json!("ann");
    phone.report("agent.request", &shared).await;
    let sent = receiver.wait(4).await;
    assert!(sent.iter().all(|message| message["to"] == "ann"), "{sent:?}");

    let nothing = json!({"attachments": [{"fileName": "x.png"}], "sessionKey": SHARED});
    let refused = phone.report("agent.request", &nothing).await;
    assert_eq!(refused["error"]["message"], "message or attachment required");
}

#[tokio::test]
async fn what_was_said_once_is_one_message_also_after_a_restart() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    let said = |event: &str, text: &str| {
        json!({"text": format!("@mock text text=\"{text}\""), "sessionKey": SHARED,
            "eventId": event})
    };
    for _ in 0..2 {
        let answer = phone.report("voice.transcript", &said("e1", "one")).await;
        assert_eq!(answer["payload"], json!({"ok": true}));
    }
    let mut client = admin(&gateway).await;
    messages(&mut client, SHARED, 2).await;
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    phone.report("voice.transcript", &said("e1", "one")).await;
    phone.report("voice.transcript", &said("e2", "two")).await;
    let told = messages(&mut client, SHARED, 4).await;
    let expected = lines(&[
        ("user", "@mock text text=\"one\""),
        ("assistant", "one"),
        ("user", "@mock text text=\"two\""),
        ("assistant", "two"),
    ]);
    assert_eq!(told, expected);
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn what_was_said_and_cut_off_by_a_kill_is_answered_when_it_is_said_again() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let text = "@mock stream n=400 delay=50";
    let said = json!({"text": text, "sessionKey": SHARED, "eventId": "e1"});
    for count in 1..=3 {
        if count > 1 {
            gateway.kill9();
            gateway.restart().await;
        }
        let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
        // The second report is of what is being answered.
        for _ in 0..2 {
            let answer = phone.report("voice.transcript", &said).await;
            assert_eq!(answer["payload"], json!({"ok": true}), "{answer}");
        }
        until("the model is asked", async || (mock.requests().len() >= count).then_some(())).await;
        let mut client = admin(&gateway).await;
        let told = told(&mut client, SHARED).await;
        let users = told.iter().filter(|(role, it)| role == "user" && it == text);
        assert_eq!((users.count(), mock.requests().len()), (count, count), "{told:?}");
    }
}

#[tokio::test]
async fn what_was_said_and_not_taken_may_be_said_again_at_once() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    let said = json!({"text": "hello", "sessionKey": "agent:nobody:main"});
    for _ in 0..2 {
        let refused = phone.report("voice.transcript", &said).await;
        assert_eq!(refused["ok"], false, "no repeat of what was taken: {refused}");
    }
}

#[tokio::test]
async fn a_node_that_says_that_it_is_there_is_believed_whatever_its_reason() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    for payload in [json!({}), json!({"trigger": "watch_refresh"}), json!({"trigger": "Manual"})] {
        let noted = phone.report("node.presence.alive", &payload).await["payload"].clone();
        assert_eq!(
            noted,
            json!({"ok": true, "event": "node.presence.alive", "handled": true,
                "reason": "persisted"}),
            "{payload}"
        );
    }
    let row = call(&mut client, "node.describe", json!({"nodeId": phone.id})).await;
    assert_eq!(row["lastSeenReason"], "manual");
    let nothing = phone.report("node.presence.alive", &json!("manual")).await;
    assert_eq!(nothing["payload"]["reason"], "invalid_payload", "{nothing}");
}
