//! The main session, where all who write to the agent share it: to whom it speaks by itself.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{call, row};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const MAIN: &str = "agent:main:main";

struct Place {
    gateway: Gateway,
    receiver: Receiver,
    client: WsClient,
    _mock: MockProvider,
}

async fn place(allow_from: &Value) -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": allow_from});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["session"] = json!({"dmScope": "main"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    Place { gateway, receiver, client, _mock: mock }
}

impl Place {
    /// Somebody says who he is; what becomes of that.
    async fn says(&self, person: &str, id: &str) -> Value {
        self.writes(person, id, &format!("I am {person}")).await
    }

    async fn writes(&self, person: &str, id: &str, text: &str) -> Value {
        let message = json!({"id": id, "text": text, "from": {"id": person}});
        bring(&self.gateway, "/webhooks/default", &message).await.1["status"].clone()
    }

    /// A friend is told a code, and let in.
    async fn lets_in(&mut self, friend: &str) {
        assert_eq!(self.says(friend, "1").await, "pairing");
        self.receiver.sent(1).await;
        let list = call(&mut self.client, "channels.pairing.list", json!({})).await;
        let code = json!({"channel": "webhook", "code": list["requests"][0]["code"]});
        call(&mut self.client, "channels.pairing.approve", code).await;
        self.receiver.sent(2).await;
    }

    async fn route(&mut self) -> Vec<Value> {
        let row = row(&mut self.client, MAIN).await;
        let members = ["lastChannel", "lastTo", "lastAccountId", "deliveryContext", "origin"];
        members.iter().map(|member| row[*member].clone()).collect()
    }
}

fn to(person: &str, text: &str) -> (String, String) {
    (person.to_owned(), text.to_owned())
}

#[tokio::test]
async fn a_friend_is_answered_and_jobs_still_speak_to_the_only_one_who_is_named() {
    let mut place = place(&json!(["webhook:ann", "ann"])).await;
    place.lets_in("eve").await;
    // Nor is a friend where the session speaks while it does not know its owner.
    assert_eq!(place.says("eve", "2").await, "accepted");
    assert_eq!(place.receiver.sent(3).await, to("eve", "Echo: I am eve"));
    assert!(!place.route().await.contains(&json!("webhook")));
    assert_eq!(place.says("ann", "1").await, "accepted");
    assert_eq!(place.receiver.sent(4).await, to("ann", "Echo: I am ann"));
    let route = place.route().await;
    assert_eq!(route[..3], [json!("webhook"), json!("ann"), json!("default")]);
    let context = json!({"channel": "webhook", "to": "ann", "accountId": "default"});
    assert_eq!(route[3], context);
    assert_eq!(place.says("eve", "3").await, "accepted");
    assert_eq!(place.receiver.sent(5).await, to("eve", "Echo: I am eve"));
    assert_eq!(place.route().await, route);

    let job = json!({"name": "tells", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "@mock text text=done"},
        "delivery": {"mode": "announce", "channel": "last"}});
    let added = call(&mut place.client, "cron.add", job).await;
    let run = json!({"id": added["id"], "mode": "force"});
    call(&mut place.client, "cron.run", run).await;
    assert_eq!(place.receiver.sent(6).await, to("ann", "done"));
}

#[tokio::test]
async fn what_a_friend_has_the_agent_write_is_for_the_friend() {
    let mut place = place(&json!(["ann"])).await;
    place.lets_in("eve").await;
    assert_eq!(place.says("ann", "1").await, "accepted");
    assert_eq!(place.receiver.sent(3).await, to("ann", "Echo: I am ann"));
    let text = r#"@mock tool name=message args={"action":"send","message":"psst"}"#;
    assert_eq!(place.writes("eve", "2", text).await, "accepted");
    assert_eq!(place.receiver.sent(4).await, to("eve", "psst"));
    assert_eq!(place.receiver.sent(5).await.0, "eve");
}

#[tokio::test]
async fn among_several_who_are_named_the_session_speaks_to_the_last_one() {
    let mut place = place(&json!(["ann", "bob"])).await;
    for (count, person) in ["ann", "bob"].into_iter().enumerate() {
        assert_eq!(place.says(person, "1").await, "accepted");
        assert_eq!(place.receiver.sent(count + 1).await.0, person);
        assert_eq!(place.route().await[1], person);
    }
}
