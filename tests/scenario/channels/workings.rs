//! Calls, thoughts and usage, told with an answer where the session has turned that on.

use serde_json::{Value, json};

use super::bot_api::BotApi;
use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_bot, with_channels, with_webhook_running};
use crate::stage::{admin, call, deltas, end_of, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const KEY: &str = "agent:main:webhook:direct:ann";
/// Calls a tool, and answers then.
const LOOK: &str = "@mock tool name=session_status args={} then=\"All done.\"";
const CALL: &str = "🔎 session_status";

struct Place {
    gateway: Gateway,
    receiver: Receiver,
    client: WsClient,
    _mock: MockProvider,
}

/// A gateway to which Ann writes, with these defaults of agents.
async fn place(defaults: &Value) -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"],
        "groups": {"team": {}}});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    for (name, value) in defaults.as_object().unwrap() {
        config["agents"]["defaults"][name] = value.clone();
    }
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    Place { gateway, receiver, client, _mock: mock }
}

impl Place {
    /// Ann writes; the run.
    async fn says(&self, id: &str, text: &str) -> String {
        self.says_in(id, text, &Value::Null).await
    }

    async fn says_in(&self, id: &str, text: &str, chat: &Value) -> String {
        let mut message = json!({"id": id, "text": text, "from": {"id": "ann"}});
        if !chat.is_null() {
            message["mentioned"] = json!(true);
            message["chat"] = chat.clone();
        }
        let (status, answer) = bring(&self.gateway, "/webhooks/default", &message).await;
        assert_eq!((status, &answer["status"]), (200, &json!("accepted")), "{answer}");
        answer["runId"].as_str().unwrap().to_owned()
    }

    async fn set(&mut self, name: &str, level: &str) {
        call(&mut self.client, "sessions.patch", json!({"key": KEY, name: level})).await;
    }
}

#[tokio::test]
async fn calls_are_told_before_the_answer_as_far_as_the_session_has_turned_it_on() {
    let mut place = place(&json!({})).await;
    place.says("1", LOOK).await;
    assert_eq!(place.receiver.texts(1).await, ["All done."]);
    place.set("verboseLevel", "on").await;
    place.says("2", LOOK).await;
    assert_eq!(place.receiver.texts(3).await[1..], [CALL, "All done."]);
    place.set("verboseLevel", "full").await;
    place.says("3", LOOK).await;
    let texts = place.receiver.texts(6).await;
    assert_eq!((texts[3].as_str(), texts[5].as_str()), (CALL, "All done."));
    assert!(texts[4].starts_with(&format!("{CALL}\n```\n")), "{}", texts[4]);
    place.set("verboseLevel", "off").await;
    place.says("4", LOOK).await;
    assert_eq!(place.receiver.texts(7).await[6], "All done.");
    let said = told(&mut place.client, KEY).await;
    assert!(!said.iter().any(|(_, text)| text.contains(CALL)), "{said:?}");
}

#[tokio::test]
async fn what_an_answer_has_said_that_took_too_long_is_told() {
    let place = place(&json!({"timeoutSeconds": 8})).await;
    place.says("1", "@mock stream n=2000 delay=50").await;
    let text = place.receiver.texts(1).await.remove(0);
    assert!(text.starts_with("w1 w2 "), "{text}");
    assert!(text.ends_with("\n\n⚠️ It took too long and was stopped."), "{text}");
}

#[tokio::test]
async fn in_a_group_calls_are_told_in_topics_alone() {
    let place = place(&json!({"verboseDefault": "on"})).await;
    place.says_in("1", LOOK, &json!({"kind": "group", "id": "team"})).await;
    assert_eq!(place.receiver.texts(1).await, ["All done."]);
    place.says_in("2", LOOK, &json!({"kind": "group", "id": "team", "threadId": "5"})).await;
    assert_eq!(place.receiver.texts(3).await[1..], [CALL, "All done."]);
    place.says("3", "/verbose").await;
    let told = place.receiver.texts(4).await[3].clone();
    assert!(told.starts_with("Current verbose level: on."), "{told}");
}

#[tokio::test]
async fn what_is_set_for_an_agent_holds_in_the_place_of_what_is_set_for_all() {
    let mut place = place(&json!({"verboseDefault": "on"})).await;
    let own = json!([{"id": "main", "verboseDefault": "off", "reasoningDefault": "on"}]);
    patch(&mut place.client, &json!({"agents": {"list": own}})).await;
    place.says("1", LOOK).await;
    assert_eq!(place.receiver.texts(1).await, ["All done."]);
    for (id, command, level) in [("2", "/verbose", "off"), ("3", "/reasoning", "on")] {
        place.says(id, command).await;
        let told = place.receiver.texts(id.parse().unwrap()).await.pop().unwrap();
        assert!(told.contains(&format!(" level: {level}.")), "{command}: {told}");
    }
    let history = call(&mut place.client, "chat.history", json!({"sessionKey": KEY})).await;
    assert_eq!(history["verboseLevel"], "off");
    place.says("4", "/status").await;
    let status = place.receiver.texts(4).await.pop().unwrap();
    assert!(status.contains("· reasoning\n"), "{status}");
    place.says("5", "@mock think n=3").await;
    let texts = place.receiver.texts(6).await;
    assert_eq!(texts[4..], ["Reasoning:\nw1 w2 w3", "After thinking."]);
}

#[tokio::test]
async fn a_kill_after_a_call_was_told_doubles_nothing_and_the_answer_is_accounted_for() {
    let mut place = place(&json!({"verboseDefault": "on"})).await;
    let endless = "x".repeat(400);
    let text =
        format!("@mock tool name=session_status args={{}} n=400 delay=200 then=\"{endless}\"");
    place.says("1", &text).await;
    assert_eq!(place.receiver.texts(1).await, [CALL]);
    place.gateway.kill9();
    place.gateway.restart().await;
    let texts = place.receiver.texts(2).await;
    assert!(texts[1].contains("stopped before it had answered"), "{texts:?}");
    place.client = with_webhook_running(&place.gateway).await;
    place.says("2", "next").await;
    assert_eq!(place.receiver.texts(3).await[2], "Echo: next");
}

#[tokio::test]
async fn a_run_that_is_done_anew_under_its_key_is_told_anew() {
    let mut place = place(&json!({"verboseDefault": "on", "timeoutSeconds": 8})).await;
    let send = |text: &str| {
        json!({"sessionKey": KEY, "message": text, "idempotencyKey": "k",
            "originatingChannel": "webhook", "originatingTo": "ann"})
    };
    let endless = "x".repeat(400);
    let text =
        format!("@mock tool name=session_status args={{}} n=400 delay=200 then=\"{endless}\"");
    call(&mut place.client, "chat.send", send(&text)).await;
    assert_eq!(place.receiver.texts(1).await, [CALL]);
    let texts = place.receiver.texts(2).await;
    assert!(texts[1].ends_with("⚠️ It took too long and was stopped."), "{texts:?}");
    until("its key is free again", async || {
        let answer = call(&mut place.client, "chat.send", send(LOOK)).await;
        (answer["status"] == "started").then_some(())
    })
    .await;
    assert_eq!(place.receiver.texts(4).await[2..], [CALL, "All done."]);
}

#[tokio::test]
async fn a_thought_is_told_before_the_answer_and_not_where_it_would_be_shown_live() {
    let mut place = place(&json!({"reasoningDefault": "on"})).await;
    place.says("1", "@mock think n=3").await;
    assert_eq!(place.receiver.texts(2).await, ["Reasoning:\nw1 w2 w3", "After thinking."]);
    // A webhook shows nothing while it is written.
    place.set("reasoningLevel", "stream").await;
    place.says("2", "@mock think n=3").await;
    assert_eq!(place.receiver.texts(3).await[2], "After thinking.");
}

#[tokio::test]
async fn an_answer_ends_with_what_it_has_used_and_a_silent_one_stays_so() {
    let mut place = place(&json!({})).await;
    place.says("1", "hello").await;
    assert_eq!(place.receiver.texts(1).await, ["Echo: hello"]);
    place.set("responseUsage", "tokens").await;
    place.says("2", "hello").await;
    let text = place.receiver.texts(2).await[1].clone();
    assert!(text.starts_with("Echo: hello\n\nUsage: ") && text.contains(" out"), "{text}");
    assert!(!text.contains(KEY), "{text}");
    place.set("responseUsage", "full").await;
    let silent = place.says("3", "@mock silent").await;
    end_of(&place.client, &silent).await;
    place.says("4", "hello").await;
    let text = place.receiver.texts(3).await[2].clone();
    assert!(text.starts_with("Echo: hello\n\nUsage: "), "{text}");
    assert!(text.ends_with(&format!(" · session `{KEY}`")), "{text}");
    let said = told(&mut place.client, KEY).await;
    assert!(!said.iter().any(|(_, text)| text.contains("Usage: ")), "{said:?}");
}

/// A bot whose answers are shown while they are written, with these defaults of agents.
async fn bot_with(defaults: &Value) -> (Gateway, BotApi, MockProvider) {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({"streaming": "partial"})).await;
    let mut client = admin(&gateway).await;
    patch(&mut client, &json!({"agents": {"defaults": defaults}})).await;
    (gateway, api, mock)
}

/// Waits until a thought that is shown grows.
async fn shows_a_thought(api: &BotApi) {
    until("a thought is shown live", async || {
        let is_thought = |edit: &Value| edit["text"].as_str().unwrap().starts_with("Reasoning:");
        api.calls("editMessageText").iter().any(is_thought).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_thought_is_shown_live_and_the_answer_takes_its_place() {
    let (_gateway, api, _mock) = bot_with(&json!({"reasoningDefault": "stream"})).await;
    api.direct(1, 7, "@mock think n=120 delay=80");
    shows_a_thought(&api).await;
    api.shows(&["After thinking."]).await;
    assert!(api.calls("deleteMessage").is_empty());
}

#[tokio::test]
async fn a_thought_that_no_answer_follows_is_taken_back() {
    let (_gateway, api, _mock) = bot_with(&json!({"reasoningDefault": "stream"})).await;
    api.direct(1, 7, "@mock think n=2000 delay=80");
    shows_a_thought(&api).await;
    api.direct(2, 7, "stop");
    until("it is taken back", async || api.calls("deleteMessage").pop()).await;
}

#[tokio::test]
async fn a_thought_that_stands_while_little_is_said_is_taken_back_too() {
    let (gateway, api, _mock) = bot_with(&json!({"reasoningDefault": "stream"})).await;
    let client = admin(&gateway).await;
    // What is said stays shorter than what is shown.
    api.direct(1, 7, &format!("@mock think n=12 delay=500 text={}", "x".repeat(28)));
    // Longer than it takes until somebody looks.
    let said = deltas(&client, "telegram:default:99:7:1", 5).await;
    assert!(said.starts_with('x'), "{said}");
    let shown = api.shown();
    assert!(shown[0].text.starts_with("Reasoning:"), "{shown:?}");
    api.direct(2, 7, "stop");
    until("it is taken back", async || api.calls("deleteMessage").pop()).await;
}

#[tokio::test]
async fn a_thought_that_no_answer_could_be_shown_in_place_of_is_taken_back_too() {
    let (gateway, api, _mock) = bot_with(&json!({"reasoningDefault": "stream"})).await;
    let client = admin(&gateway).await;
    api.direct(1, 7, &format!("@mock think n=80 delay=100 text={}", "x".repeat(600)));
    shows_a_thought(&api).await;
    api.refuse("editMessageText", 429, Some(600));
    // More than is needed to be shown, and for longer than it takes until somebody looks.
    until("much is said", async || {
        let said = deltas(&client, "telegram:default:99:7:1", 1).await;
        (said.len() >= 60).then_some(())
    })
    .await;
    api.direct(2, 7, "stop");
    until("it is taken back", async || api.calls("deleteMessage").pop()).await;
}

#[tokio::test]
async fn where_calls_are_told_an_answer_that_grows_is_not_shown_above_them() {
    let (_gateway, api, _mock) = bot_with(&json!({"verboseDefault": "on"})).await;
    let before = "I look at how this session is doing.";
    let call = "@mock tool name=session_status args={} delay=1000";
    api.direct(1, 7, &format!("{call} pre=\"{before}\" n=1 then=\"All done.\""));
    api.shows_at_least(2).await;
    let shown = api.shown();
    assert!(shown[0].text.starts_with("🔎 session"), "{shown:?}");
    assert_eq!((shown[1].text.as_str(), shown[1].edits), (&*format!("{before}\n\nAll done."), 0));
}
