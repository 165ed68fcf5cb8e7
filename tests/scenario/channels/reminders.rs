//! Reminders of jobs, in the chats that they were made in.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_channels, with_webhook_running};
use crate::stage::{call, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ANN: &str = "agent:main:webhook:direct:ann";
const TEA: &str = "@mock text text=\"Tea is ready.\"";

struct Place {
    receiver: Receiver,
    client: WsClient,
    mock: MockProvider,
    _gateway: Gateway,
}

/// A gateway with heartbeats like these, to which Ann has written.
async fn place(heartbeat: &Value) -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["agents"]["defaults"]["heartbeat"] = heartbeat.clone();
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    assert_eq!(receiver.texts(1).await, ["Echo: hello"]);
    Place { receiver, client, mock, _gateway: gateway }
}

impl Place {
    /// A job that reminds of something in Ann's chat; its id.
    async fn job(&mut self, text: &str) -> Value {
        let job = json!({"name": "reminder", "schedule": {"kind": "every", "everyMs": 3_600_000},
            "sessionTarget": "main", "wakeMode": "now", "sessionKey": ANN,
            "payload": {"kind": "systemEvent", "text": text}});
        call(&mut self.client, "cron.add", job).await["id"].clone()
    }

    async fn runs(&mut self, job: &Value) {
        call(&mut self.client, "cron.run", json!({"id": job, "mode": "force"})).await;
    }

    async fn forgets_ann(&mut self) {
        call(&mut self.client, "sessions.delete", json!({"key": ANN})).await;
    }
}

fn tea_for(person: &str) -> (String, String) {
    (person.to_owned(), "Tea is ready.".to_owned())
}

#[tokio::test]
async fn a_reminder_is_said_in_the_chat_that_it_was_made_in() {
    let mut place = place(&json!({})).await;
    let job = place.job(TEA).await;
    place.runs(&job).await;
    assert_eq!(place.receiver.sent(2).await, tea_for("ann"));
    let said = told(&mut place.client, ANN).await;
    assert_eq!(said.last().unwrap().1, "Tea is ready.");

    // What the agent cannot say is said as it was written.
    let failing = "@mock err status=400";
    let unsaid = place.job(failing).await;
    place.runs(&unsaid).await;
    assert_eq!(place.receiver.sent(3).await, ("ann".to_owned(), failing.to_owned()));

    // Of a session that is gone the main session speaks, and nobody is written to.
    place.forgets_ann().await;
    place.runs(&job).await;
    until("the end of the beat", async || {
        let last = call(&mut place.client, "last-heartbeat", json!({})).await;
        (last["reason"] == "target-none").then_some(())
    })
    .await;
    let said = told(&mut place.client, "main").await;
    assert_eq!(said.last().unwrap().1, "Tea is ready.");
    assert_eq!(place.receiver.seen().len(), 3);
}

#[tokio::test]
async fn what_stands_before_answers_stands_before_what_a_heartbeat_tells() {
    let mut place = place(&json!({})).await;
    patch(&mut place.client, &json!({"messages": {"responsePrefix": "{model}:"}})).await;
    let job = place.job(TEA).await;
    place.runs(&job).await;
    let expected = ("ann".to_owned(), "mock-1: Tea is ready.".to_owned());
    assert_eq!(place.receiver.sent(2).await, expected);
    let said = told(&mut place.client, ANN).await;
    assert_eq!(said.last().unwrap().1, "Tea is ready.");
}

#[tokio::test]
async fn where_heartbeats_are_sent_a_reminder_is_only_when_its_chat_is_gone() {
    let mut place = place(&json!({"target": "webhook", "to": "bob"})).await;
    let job = place.job(TEA).await;
    place.runs(&job).await;
    assert_eq!(place.receiver.sent(2).await, tea_for("ann"));
    place.forgets_ann().await;
    place.runs(&job).await;
    assert_eq!(place.receiver.sent(3).await, tea_for("bob"));
}

#[tokio::test]
async fn two_reminders_at_once_are_both_heard() {
    let mut place = place(&json!({})).await;
    let texts = ["the kettle boils", "the bread is baked"];
    let jobs = [place.job(texts[0]).await, place.job(texts[1]).await];
    for job in &jobs {
        place.runs(job).await;
    }
    // It is one beat or two, as they come.
    until("the agent hears both", async || {
        let requests = place.mock.requests();
        let heard: String = requests.iter().map(|request| request.body.to_string()).collect();
        texts.iter().all(|text| heard.contains(text)).then_some(())
    })
    .await;
    place.receiver.wait(2).await;
    assert!(place.receiver.seen().iter().all(|message| message["to"] == "ann"));
}
