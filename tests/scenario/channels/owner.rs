//! The main session, where all who write to the agent share it: to whom it speaks by itself.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_channels, with_webhook_running};
use crate::stage::{ask, call, end_of, row, start, text_of, until};
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
async fn nobody_who_shares_a_session_hears_an_answer_to_the_words_of_others() {
    for mode in ["steer", "collect"] {
        let mut place = place(&json!(["ann", "bob"])).await;
        ask(&mut place.client, MAIN, &format!("/queue {mode} debounce:0"), "queue").await;
        assert_eq!(place.writes("ann", "1", "@mock stream n=120 delay=50").await, "accepted");
        until("she is being answered", async || {
            (row(&mut place.client, MAIN).await["hasActiveRun"] == true).then_some(())
        })
        .await;
        assert_eq!(place.says("bob", "2").await, "accepted");
        start(&mut place.client, MAIN, "I am the operator", "web").await;
        assert_eq!(place.says("ann", "3").await, "accepted");

        let told = end_of(&place.client, "web").await;
        assert_eq!(text_of(&told["message"]), "Echo: I am the operator", "{mode}");
        until("all are answered", async || {
            let sent = place.receiver.seen();
            let said_to = |person: &str| {
                let to_him = sent.iter().filter(|message| message["to"] == person);
                to_him.map(|message| message["text"].as_str().unwrap()).collect::<Vec<_>>()
            };
            let anns = said_to("ann").join("\n");
            assert!(!anns.contains("bob") && !anns.contains("operator"), "{mode}: {sent:?}");
            let bobs = said_to("bob");
            assert!(bobs.iter().all(|text| *text == "Echo: I am bob"), "{mode}: {sent:?}");
            (anns.contains("Echo: I am ann") && bobs.len() == 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn who_says_to_stop_what_others_asked_for_hears_whose_it_is_and_they_when_it_is_stopped() {
    let mut place = place(&json!(["ann", "bob"])).await;
    assert_eq!(place.writes("ann", "1", "@mock stream n=2000 delay=20").await, "accepted");
    until("she is being answered", async || {
        (row(&mut place.client, MAIN).await["hasActiveRun"] == true).then_some(())
    })
    .await;
    assert_eq!(place.writes("bob", "1", "stop").await, "accepted");
    let (person, text) = place.receiver.sent(1).await;
    assert_eq!(person, "bob");
    assert!(text.contains("asked for by somebody else"), "{text}");
    call(&mut place.client, "chat.abort", json!({"sessionKey": MAIN})).await;
    let (person, text) = place.receiver.sent(2).await;
    assert_eq!(person, "ann");
    assert!(text.ends_with("⚠️ It was stopped."), "{text}");
}

#[tokio::test]
async fn who_begins_anew_is_told_nothing_of_what_that_stops_and_others_are() {
    let mut place = place(&json!(["ann", "bob"])).await;
    patch(&mut place.client, &json!({"commands": {"ownerAllowFrom": ["webhook:ann"]}})).await;
    let told = |place: &Place, person: &str| {
        let sent = place.receiver.seen();
        let to_him = sent.into_iter().filter(|message| message["to"] == person);
        to_him.map(|message| message["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (person, id) in [("ann", "1"), ("bob", "1")] {
        let text = "@mock stream n=2000 delay=20";
        assert_eq!(place.writes(person, id, text).await, "accepted");
        until("it is being answered", async || {
            (row(&mut place.client, MAIN).await["hasActiveRun"] == true).then_some(())
        })
        .await;
        assert_eq!(place.writes("ann", &format!("new-{person}"), "/new").await, "accepted");
        let words = format!("I am ann after {person}");
        assert_eq!(place.writes("ann", &format!("then-{person}"), &words).await, "accepted");
        until("she is answered", async || {
            let anns = told(&place, "ann").join("\n");
            assert!(!anns.contains("It was stopped."), "{anns}");
            anns.contains(&words).then_some(())
        })
        .await;
    }
    until("he is told", async || {
        told(&place, "bob").last()?.ends_with("⚠️ It was stopped.").then_some(())
    })
    .await;
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
