//! What is told after the restart that a change of the config has led to.

use serde_json::{Value, json};

use super::{LIMIT, config};
use crate::channels::receiver::{Receiver, bring};
use crate::channels::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{admin, call, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ANN: &str = "agent:main:webhook:direct:ann";
const NOTE: &str = "@mock text text=\"It listens everywhere.\"";

struct Place {
    receiver: Receiver,
    gateway: Gateway,
    _mock: MockProvider,
}

/// A gateway to which Ann has written.
async fn place() -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook =
        json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"], "sendTo": ["bob"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    assert_eq!(receiver.texts(1).await, ["Echo: hello"]);
    Place { receiver, gateway, _mock: mock }
}

impl Place {
    /// Whom the message was for that is sent as this one, and what it says.
    async fn sent(&self, count: usize) -> (String, String) {
        let message = self.receiver.wait(count).await.remove(count - 1);
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        (text("to"), text("text"))
    }

    /// The answer to a change that is written with these wishes.
    async fn patch(&self, client: &mut WsClient, change: Value, wishes: Value) -> Value {
        let hash = call(client, "config.get", json!({})).await["hash"].clone();
        let mut params = wishes;
        params["raw"] = change.to_string().into();
        params["baseHash"] = hash;
        call(client, "config.patch", params).await
    }

    fn is_note_left(&self) -> bool {
        self.gateway.state_dir().join("restart-sentinel.json").exists()
    }

    async fn note_is_gone(&self) {
        until("the note is told", async || (!self.is_note_left()).then_some(())).await;
    }

    /// Waits until this was said last in a session.
    async fn says(&self, session: &str, text: &str) {
        until("the agent's answer", async || {
            let mut client = admin(&self.gateway).await;
            let said = told(&mut client, session).await;
            said.last().is_some_and(|(_, said)| said == text).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_restart_is_told_in_its_chat_and_to_the_agent_that_goes_on_then() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"gateway": {"bind": "lan"}});
    let answer = place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    let payload = &answer["sentinel"]["payload"];
    assert_eq!(
        (&payload["kind"], &payload["status"], &payload["sessionKey"], &payload["message"]),
        (&json!("config-patch"), &json!("ok"), &json!(ANN), &json!(NOTE)),
    );
    let root = place.gateway.config_path();
    assert_eq!(payload["stats"], json!({"mode": "config.patch", "root": root}));
    assert_eq!(
        (&answer["restart"]["ok"], &answer["restart"]["delayMs"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(client.wait_closed(LIMIT).await.unwrap().code, 1012);

    let text =
        format!("Gateway restart config-patch ok (config.patch)\n{NOTE}\nRun: clawgate doctor");
    assert_eq!(place.sent(2).await, ("ann".to_owned(), text));
    place.says(ANN, "It listens everywhere.").await;
    place.note_is_gone().await;
    assert_eq!(place.receiver.seen().len(), 2);
}

#[tokio::test]
async fn who_is_killed_before_the_restart_tells_of_it_at_the_next_start_in_the_chat_that_is_named()
{
    let mut place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"gateway": {"bind": "lan"}});
    let wishes = json!({"note": "for Bob", "restartDelayMs": 70_000,
        "deliveryContext": {"channel": "webhook", "to": "bob"}});
    let answer = place.patch(&mut client, change, wishes).await;
    assert_eq!(answer["restart"]["delayMs"], 60_000);
    assert!(place.is_note_left());
    assert!(client.closed().is_none());
    place.gateway.kill9();
    place.gateway.restart().await;
    let (to, text) = place.sent(2).await;
    assert_eq!((to.as_str(), text.lines().nth(1)), ("bob", Some("for Bob")));
    place.note_is_gone().await;
    // Nobody has named the main session: it is not asked, and hears of it in its next turn.
    let mut client = admin(&place.gateway).await;
    let status = call(&mut client, "status", json!({})).await;
    assert!(status["queuedSystemEvents"].to_string().contains("for Bob"), "{status}");
}

#[tokio::test]
async fn a_change_that_needs_no_restart_leaves_no_note() {
    let place = place().await;
    let mut client = admin(&place.gateway).await;
    let change = json!({"ui": {"seamColor": "#445566"}});
    let answer = place.patch(&mut client, change, json!({"sessionKey": ANN, "note": NOTE})).await;
    assert_eq!(answer["requiresRestart"], false, "{answer}");
    assert_eq!(answer["sentinel"]["path"], Value::Null);
    assert_eq!(answer["sentinel"]["payload"]["message"], NOTE);
    assert!(answer.get("restart").is_none());
    assert!(!place.is_note_left());
    assert_eq!(config(&place.gateway)["ui"]["seamColor"], "#445566");
}
