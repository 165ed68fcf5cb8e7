//! Groups: what is to the agent there, and what is not.

use std::fs;

use serde_json::{Value, json};

use super::bot_api::BotApi;
use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_bot, with_channels, with_webhook_running};
use crate::stage::{admin, row, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

const ENDLESS: &str = "@mock stream n=2000 delay=20";

struct Place {
    receiver: Receiver,
    client: WsClient,
    gateway: Gateway,
    _mock: MockProvider,
}

/// A gateway that knows Ann, and a group with the same id.
async fn place() -> Place {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"],
        "groups": {"ann": {}}});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let client = with_webhook_running(&gateway).await;
    Place { receiver, client, gateway, _mock: mock }
}

impl Place {
    /// Ann says something in the group; what becomes of it.
    async fn said(&self, id: &str, text: &str, is_mention: bool) -> Value {
        let message = json!({"id": id, "text": text, "from": {"id": "ann", "name": "Ann"},
            "mentioned": is_mention, "chat": {"kind": "group", "id": "ann"}});
        let (status, answer) = bring(&self.gateway, "/webhooks/default", &message).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[tokio::test]
async fn in_a_group_a_slash_alone_is_not_to_the_agent_and_a_command_is() {
    let mut place = place().await;
    assert_eq!(place.said("1", "/tmp is full", false).await["status"], "ignored");
    assert_eq!(place.said("2", "/whoami", false).await["status"], "accepted");
    let answer = place.receiver.texts(1).await[0].clone();
    assert!(answer.contains("\nChannel: webhook\nAccount: default\nUser id: ann\n"), "{answer}");
    assert_eq!(place.said("3", "/tmp is full", true).await["status"], "accepted");
    place.receiver.wait(2).await;
    let said = told(&mut place.client, "agent:main:webhook:group:ann").await;
    assert!(said.iter().any(|(_, text)| text == "[Ann (ann)]\n/tmp is full"), "{said:?}");
}

#[tokio::test]
async fn in_a_group_a_skill_is_put_to_use_by_its_name_alone() {
    let mut place = place().await;
    let folder = place.gateway.state_dir().join("skills/pancakes");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: pancakes\ndescription: Bakes\n---\nDo it.\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
    assert_eq!(place.said("1", "/waffles two", false).await["status"], "ignored");
    assert_eq!(place.said("2", "/pancakes two", false).await["status"], "accepted");
    place.receiver.wait(1).await;
    let said = told(&mut place.client, "agent:main:webhook:group:ann").await;
    assert!(said.iter().any(|(_, text)| text.contains("Use the skill \"pancakes\"")), "{said:?}");
    // What is not offered is told to be so.
    assert_eq!(place.said("3", "/kill all", false).await["status"], "accepted");
    assert!(place.receiver.texts(2).await[1].contains("/kill is not offered"));
}

#[tokio::test]
async fn in_a_group_what_comes_with_a_command_says_who_speaks() {
    let mut place = place().await;
    patch(&mut place.client, &json!({"commands": {"ownerAllowFrom": ["webhook:ann"]}})).await;
    for (id, text) in [("1", "/new hello afresh"), ("2", "/think low hello again")] {
        assert_eq!(place.said(id, text, false).await["status"], "accepted");
        place.receiver.wait(id.parse().unwrap()).await;
    }
    let said = told(&mut place.client, "agent:main:webhook:group:ann").await;
    let asked: Vec<_> =
        said.iter().filter(|(role, _)| role == "user").map(|(_, text)| text.as_str()).collect();
    assert_eq!(asked, ["[Ann (ann)]\nhello afresh", "[Ann (ann)]\nhello again"]);
    assert_eq!(place.said("3", "/new", false).await["status"], "accepted");
    assert_eq!(place.receiver.texts(3).await[2], "✅ New session started.");
}

#[tokio::test]
async fn a_word_that_stops_does_so_in_a_group_where_it_is_to_the_agent() {
    let mut place = place().await;
    for (index, text) in ["Stop!", " stop "].into_iter().enumerate() {
        let ids = ["run", "aside", "stop"].map(|name| format!("{name}-{index}"));
        assert_eq!(place.said(&ids[0], ENDLESS, true).await["status"], "accepted");
        until("it is being answered", async || {
            let row = row(&mut place.client, "agent:main:webhook:group:ann").await;
            (row["hasActiveRun"] == true).then_some(())
        })
        .await;
        assert_eq!(place.said(&ids[1], "stop", false).await["status"], "ignored");
        assert_eq!(place.said(&ids[2], text, true).await["status"], "accepted");
        assert_eq!(place.receiver.texts(index + 1).await[index], "⚙️ Stopped.", "{text}");
    }
}

#[tokio::test]
async fn a_word_that_stops_is_one_beside_the_name_of_the_bot_and_of_nobody_else() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"streaming": "off", "allowFrom": [7], "groups": {"-100": {}}});
    let gateway = with_bot(&api, &mock, &settings).await;
    let mut client = admin(&gateway).await;
    // Each answers the bot; the first word may be a name.
    let say = |id: i64, text: &str| {
        let length = text.find(' ').filter(|_| text.starts_with('@')).unwrap_or_default();
        api.say(json!({"message_id": id, "date": 1, "text": text,
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": -100, "type": "supergroup", "title": "Team"},
            "reply_to_message": {"message_id": 1, "from": {"id": 99, "is_bot": true}},
            "entities": [{"type": "mention", "offset": 0, "length": length}]}))
    };
    let tells = async |words: &str| {
        until(words, async || api.shown().iter().any(|it| it.text.contains(words)).then_some(()))
            .await;
    };
    say(10, ENDLESS);
    until("it is being answered", async || {
        let row = row(&mut client, "agent:main:telegram:group:-100").await;
        (row["hasActiveRun"] == true).then_some(())
    })
    .await;
    say(11, "@bob stop");
    say(12, "/whoami");
    tells("User id: 7").await;
    assert!(!api.shown().iter().any(|it| it.text.starts_with("⚙️")), "{:?}", api.shown());
    say(13, "@claw_bot stop");
    tells("⚙️ Stopped").await;
}

#[tokio::test]
async fn what_names_the_bot_in_a_group_gets_a_reaction_as_the_settings_say() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"allowFrom": [7], "linkPreview": false,
        "groups": {"-100": {}, "-200": {"requireMention": false}}});
    let gateway = with_bot(&api, &mock, &settings).await;
    let mut client = admin(&gateway).await;
    let say = |chat: i64, id: i64, text: &str| {
        let kind = if chat < 0 { "supergroup" } else { "private" };
        let length = text.find(' ').unwrap_or_default();
        api.say(json!({"message_id": id, "date": 1, "text": text,
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": chat, "type": kind, "title": "Team"},
            "entities": [{"type": "mention", "offset": 0, "length": length}]}))
    };
    let react = |chat: &str, id: i64, emoji: &str| {
        json!({"chat_id": chat, "message_id": id,
            "reaction": [{"type": "emoji", "emoji": emoji}]})
    };
    let reacts = async |wanted: &Value| {
        until(&wanted.to_string(), async || {
            (api.calls("setMessageReaction").last() == Some(wanted)).then_some(())
        })
        .await;
    };
    // Where all is answered, and where nothing else is.
    say(7, 10, "@claw_bot hi");
    say(-200, 11, "@claw_bot hi");
    api.shows_at_least(2).await;
    say(-100, 13, "@claw_bot hi");
    reacts(&react("-100", 13, "👀")).await;
    api.shows_at_least(3).await;
    assert_eq!(api.calls("setMessageReaction").len(), 1);
    assert_eq!(api.calls("sendMessage")[0]["link_preview_options"], json!({"is_disabled": true}));

    let change = json!({"messages": {"ackReactionScope": "all", "ackReaction": "👍"}});
    patch(&mut client, &change).await;
    say(7, 14, "hi");
    reacts(&react("7", 14, "👍")).await;
    api.shows_at_least(4).await;
    // A command, and where none is wanted.
    say(7, 15, "/whoami");
    api.shows_at_least(5).await;
    patch(&mut client, &json!({"messages": {"ackReaction": ""}})).await;
    say(-100, 16, "@claw_bot hi");
    api.shows_at_least(6).await;
    assert_eq!(api.calls("setMessageReaction").len(), 2);
}

#[tokio::test]
async fn a_person_and_a_group_with_one_id_are_both_answered() {
    let place = place().await;
    let message = json!({"id": "1", "text": "hello", "from": {"id": "ann"}});
    let (_, alone) = bring(&place.gateway, "/webhooks/default", &message).await;
    assert_eq!(alone["runId"], "webhook:default:ann:1");
    place.receiver.wait(1).await;
    let together = place.said("1", "hello", true).await;
    assert_eq!(together["runId"], "webhook:default:group:ann:1");
    place.receiver.wait(2).await;
}
