//! Jobs that speak in chats of channels: whom they reach, and what is told of that.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_channels, with_webhook_running};
use crate::stage::{ask, call, end_of, history, row, start, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

struct Place {
    receiver: Receiver,
    client: WsClient,
    _mock: MockProvider,
    _gateway: Gateway,
}

/// A gateway whose agents may write to Ann and Bob.
async fn place() -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann", "bob"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    Place { receiver, client, _mock: mock, _gateway: gateway }
}

/// A job that says "done" or so, with these members.
fn job(more: &Value) -> Value {
    let mut job = json!({"name": "tells", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": "hello"}});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

fn announced_to(person: &str) -> Value {
    json!({"delivery": {"mode": "announce", "channel": "webhook", "to": person}})
}

impl Place {
    /// What the tool `cron` answers an agent.
    async fn by_model(&mut self, run: &str, args: &Value) -> String {
        let text = format!("@mock tool name=cron args={args} then=ok");
        ask(&mut self.client, "main", &text, run).await;
        let all = history(&mut self.client, "main").await;
        let found = all.iter().rev().find(|message| message["toolName"] == "cron");
        text_of(found.unwrap_or_else(|| panic!("cron was not called: {all:?}")))
    }

    /// Runs a job; what the log says of it.
    async fn runs(&mut self, id: &Value) -> Value {
        call(&mut self.client, "cron.run", json!({"id": id, "mode": "force"})).await;
        let client = &mut self.client;
        until("it has ended", async || {
            let runs = call(client, "cron.runs", json!({"id": id})).await;
            Some(runs["entries"][0].clone()).filter(|entry| !entry.is_null())
        })
        .await
    }
}

#[tokio::test]
async fn who_hears_of_a_job_hears_no_answer_to_what_others_say_in_its_session() {
    let mut place = place().await;
    let mut told = job(&announced_to("bob"));
    told["sessionTarget"] = json!("session:diary");
    told["payload"]["message"] = json!("@mock stream n=120 delay=50");
    let made = call(&mut place.client, "cron.add", told).await;
    call(&mut place.client, "cron.run", json!({"id": made["id"], "mode": "force"})).await;
    until("it runs", async || {
        (row(&mut place.client, "agent:main:diary").await["hasActiveRun"] == true).then_some(())
    })
    .await;
    start(&mut place.client, "diary", "I am the operator", "web").await;
    assert_eq!(text_of(&end_of(&place.client, "web").await["message"]), "Echo: I am the operator");
    let (person, text) = place.receiver.sent(1).await;
    assert_eq!(person, "bob");
    assert!(text.trim_end().ends_with("w120"), "{text}");
}

#[tokio::test]
async fn a_job_of_an_agent_tells_nobody_to_whom_the_agent_may_not_write() {
    let mut place = place().await;
    let elsewhere = json!({"channel": "webhook", "to": "eve"});
    for (index, more) in [
        announced_to("eve"),
        json!({"delivery": {"mode": "none", "failureDestination": elsewhere}}),
        json!({"delivery": {"mode": "none"}, "failureAlert": elsewhere}),
    ]
    .iter()
    .enumerate()
    {
        let args = json!({"action": "add", "job": job(more)});
        let told = place.by_model(&format!("x-{index}"), &args).await;
        assert!(told.contains("eve is not among the people and groups"), "{more}: {told}");
    }
    let args = json!({"action": "add", "job": job(&announced_to("bob"))});
    let made: Value = serde_json::from_str(&place.by_model("a-1", &args).await).unwrap();
    let args = json!({"action": "update", "jobId": made["id"],
        "patch": {"delivery": {"to": "eve"}}});
    let told = place.by_model("u-1", &args).await;
    assert!(told.contains("eve is not among the people and groups"), "{told}");
    assert_eq!(place.runs(&made["id"]).await["deliveryStatus"], "delivered");
    assert_eq!(place.receiver.wait(1).await[0]["to"], "bob");

    // An operator's job tells whom it names.
    let own = call(&mut place.client, "cron.add", job(&announced_to("eve"))).await;
    assert_eq!(place.runs(&own["id"]).await["deliveryStatus"], "delivered");
    assert_eq!(place.receiver.wait(2).await[1]["to"], "eve");
}

#[tokio::test]
async fn whom_an_agent_may_write_to_no_more_its_jobs_tell_nothing_more() {
    let mut place = place().await;
    let args = json!({"action": "add", "job": job(&announced_to("bob"))});
    let made: Value = serde_json::from_str(&place.by_model("a-1", &args).await).unwrap();
    patch(&mut place.client, &json!({"channels": {"webhook": {"allowFrom": ["ann"]}}})).await;
    let entry = place.runs(&made["id"]).await;
    assert_eq!(entry["deliveryStatus"], "not-delivered", "{entry}");
    let error = entry["error"].as_str().unwrap();
    assert!(error.contains("bob is not among the people and groups"), "{error}");
    assert!(place.receiver.seen().is_empty());
    // The agent changes them no more, but it may turn them off.
    let args = json!({"action": "update", "jobId": made["id"], "patch": {"enabled": true}});
    let told = place.by_model("u-1", &args).await;
    assert!(told.contains("bob is not among the people and groups"), "{told}");
    let args = json!({"action": "update", "jobId": made["id"], "patch": {"enabled": false}});
    let told: Value = serde_json::from_str(&place.by_model("u-2", &args).await).unwrap();
    assert_eq!((&told["id"], &told["enabled"]), (&made["id"], &json!(false)));
}

#[tokio::test]
async fn a_job_tells_the_chat_that_it_was_asked_for_in_whoever_has_written_since() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "dmPolicy": "open",
        "allowFrom": ["*"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["session"] = json!({"dmScope": "main"});
    config["commands"] = json!({"ownerAllowFrom": ["webhook:ann"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    let args = json!({"action": "add", "job": job(&announced_to("ann"))});
    let asks = format!("@mock tool name=cron args={args} then=ok");
    let said = [("ann", asks.as_str()), ("bob", "hello")];
    for (count, (person, text)) in said.into_iter().enumerate() {
        let message = json!({"id": person, "text": text, "from": {"id": person}});
        assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
        receiver.wait(count + 1).await;
    }
    let mut place = Place { receiver, client, _mock: mock, _gateway: gateway };
    let jobs = call(&mut place.client, "cron.list", json!({})).await;
    let entry = place.runs(&jobs["jobs"][0]["id"]).await;
    assert_eq!(entry["deliveryStatus"], "delivered", "{entry}");
    assert_eq!(place.receiver.wait(3).await[2]["to"], "ann");
}

#[tokio::test]
async fn a_job_that_names_an_account_speaks_by_no_other_one() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let account = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let mut work = account.clone();
    work["defaultTo"] = json!("bob");
    let accounts = json!({"webhook": {"accounts": {"default": account, "work": work}}});
    let mut config = with_channels(mock.address(), &accounts);
    config["session"] = json!({"dmScope": "main"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    receiver.wait(1).await;
    let mut place = Place { receiver, client, _mock: mock, _gateway: gateway };
    for (before, (account, to)) in [(1, ("default", "ann")), (2, ("work", "bob"))] {
        let delivery = json!({"mode": "announce", "channel": "webhook", "accountId": account});
        let job = job(&json!({"delivery": delivery}));
        let made = call(&mut place.client, "cron.add", job).await;
        let entry = place.runs(&made["id"]).await;
        assert_eq!(entry["deliveryStatus"], "delivered", "{entry}");
        let sent = &place.receiver.wait(before + 1).await[before];
        assert_eq!((&sent["accountId"], &sent["to"]), (&json!(account), &json!(to)));
    }
}

#[tokio::test]
async fn what_waits_for_a_channel_is_not_told_as_delivered() {
    let mut place = place().await;
    let channel = json!({"channel": "webhook"});
    call(&mut place.client, "channels.stop", channel.clone()).await;
    let made = call(&mut place.client, "cron.add", job(&announced_to("ann"))).await;
    let entry = place.runs(&made["id"]).await;
    assert_eq!((&entry["status"], &entry["deliveryStatus"]), (&json!("ok"), &json!("unknown")));
    assert_eq!(
        (&entry["delivered"], &entry["delivery"]["delivered"]),
        (&Value::Null, &json!(false))
    );
    assert!(place.receiver.seen().is_empty());
    call(&mut place.client, "channels.start", channel).await;
    assert_eq!(place.receiver.wait(1).await[0]["to"], "ann");
}
