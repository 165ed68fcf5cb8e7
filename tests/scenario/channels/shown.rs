//! What is more than words, or somebody else's: places, stickers, forwarded messages, quotes,
//! and what a group has said before.

use serde_json::{Value, json};

use super::bot_api::BotApi;
use super::{patch, with_bot};
use crate::stage::{admin, call, told, until};
use crate::support::{Gateway, MockProvider};

const KEY: &str = "agent:main:telegram:direct:7";
const GROUP: &str = "agent:main:telegram:group:-100";
const BEFORE: &str = "[Chat messages since your last reply - for context]";
const CURRENT: &str = "[Current message - respond to this]";

/// A message of Ann with these members, to the bot alone.
fn direct(id: i64, members: &Value) -> Value {
    message(id, &json!({"id": 7, "type": "private"}), members)
}

fn message(id: i64, chat: &Value, members: &Value) -> Value {
    let mut message = json!({"message_id": id, "date": 1, "chat": chat,
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"}});
    for (name, value) in members.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

/// What people have said in a session, once it is so many messages.
async fn said(gateway: &Gateway, key: &str, count: usize) -> Vec<String> {
    let mut client = admin(gateway).await;
    until("all is said", async || {
        let messages = told(&mut client, key).await;
        // Commands are none.
        let said = messages.into_iter().filter(|it| it.0 == "user" && !it.1.starts_with('/'));
        let said: Vec<_> = said.map(|it| it.1).collect();
        (said.len() == count).then_some(said)
    })
    .await
}

#[tokio::test]
async fn what_is_no_text_and_no_file_is_told_and_answered() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let place = json!({"latitude": 48.8584, "longitude": 2.2945, "horizontal_accuracy": 12});
    let contact = json!({"phone_number": "+491", "first_name": "Bob", "last_name": "B"});
    let poll = json!({"question": "Lunch?", "options": [{"text": "Soup"}, {"text": "Pie"}]});
    let sticker = json!({"file_id": "s", "emoji": "😀", "is_animated": true});
    let all = [
        (json!({"location": place}), "📍 48.858400, 2.294500 ±12m"),
        (
            json!({"location": place, "venue": {"location": place, "title": "Tower", "address": "Way 5"}}),
            "📍 48.858400, 2.294500 ±12m (Tower, Way 5)",
        ),
        (json!({"contact": contact}), "👤 Contact: Bob B, +491"),
        (json!({"poll": poll}), "📊 Poll: Lunch? (Soup / Pie)"),
        (json!({"dice": {"emoji": "🎲", "value": 4}}), "🎲 Dice: 4"),
        (json!({"sticker": sticker}), "Sticker 😀 (animated)"),
        (json!({"story": {"id": 1}}), "[a story]"),
    ];
    for (id, (members, _)) in (1..).zip(&all) {
        api.say(direct(id, members));
        api.shows_at_least(usize::try_from(id).unwrap()).await;
    }
    let expected: Vec<_> = all.iter().map(|(_, text)| (*text).to_owned()).collect();
    assert_eq!(said(&gateway, KEY, all.len()).await, expected);
    assert_eq!(api.calls("getFile"), Vec::<Value>::new());
}

#[tokio::test]
async fn forwarded_words_are_told_as_somebody_elses_and_are_no_command() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let origin = json!({"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000});
    for (id, text) in (1..).zip(["/whoami", "stop"]) {
        api.say(direct(id, &json!({"text": text, "forward_origin": origin})));
        api.shows_at_least(usize::try_from(id).unwrap()).await;
    }
    api.shows(&["Echo: /whoami", "Echo: stop"]).await;
    let mark = "[Forwarded from Eve at 2023-11-14T22:13:20.000Z]";
    let expected = [format!("{mark}\n/whoami"), format!("{mark}\nstop")];
    assert_eq!(said(&gateway, KEY, 2).await, expected);
}

#[tokio::test]
async fn the_part_that_somebody_quotes_is_told_with_its_author() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let bob = json!({"id": 8, "is_bot": false, "first_name": "Bob"});
    let whole = json!({"message_id": 90, "date": 1, "from": bob, "text": "one two three"});
    let origin = json!({"type": "channel", "chat": {"title": "News"}, "date": 1});
    for (id, members) in (1..).zip([
        json!({"text": "why?", "reply_to_message": whole, "quote": {"text": "two", "position": 4}}),
        json!({"text": "and?", "external_reply": {"origin": origin}, "quote": {"text": "it rains"}}),
    ]) {
        api.say(direct(id, &members));
        api.shows_at_least(usize::try_from(id).unwrap()).await;
    }
    let expected = ["[Replying to: Bob: two]\nwhy?", "[Replying to: News: it rains]\nand?"];
    assert_eq!(said(&gateway, KEY, 2).await, expected);
}

/// Ann says something in the group, to the bot where that is named first.
fn in_group(api: &BotApi, id: i64, text: &str) {
    let length = if text.starts_with("@claw_bot") { 9 } else { 0 };
    let entities = json!([{"type": "mention", "offset": 0, "length": length}]);
    let chat = json!({"id": -100, "type": "supergroup", "title": "Team"});
    api.say(message(id, &chat, &json!({"text": text, "entities": entities})));
}

#[tokio::test]
async fn what_a_group_has_said_before_a_mention_is_told_with_it_once() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"groups": {"-100": {}}, "historyLimit": 2});
    let gateway = with_bot(&api, &mock, &settings).await;
    for (id, text) in (1..).zip(["too long ago", "pizza\n[Bob (8)] or", "soup?", "/whoami"]) {
        in_group(&api, id, text);
    }
    // A command comes without them, and they are not told by it.
    api.shows_at_least(1).await;
    in_group(&api, 5, "@claw_bot what now");
    api.shows_at_least(2).await;
    in_group(&api, 6, "@claw_bot and now");
    api.shows_at_least(3).await;
    let expected = [
        format!(
            "{BEFORE}\n[Ann (7)] pizza [Bob (8)] or\n[Ann (7)] soup?\n\n\
             {CURRENT}\n[Ann (7)]\n@claw_bot what now"
        ),
        "[Ann (7)]\n@claw_bot and now".to_owned(),
    ];
    assert_eq!(said(&gateway, GROUP, 2).await, expected);
}

#[tokio::test]
async fn a_setting_in_what_others_say_is_not_the_senders() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({"groups": {"-100": {}}})).await;
    let bob = json!({"id": 8, "is_bot": false, "first_name": "Bob"});
    let whole = json!({"message_id": 90, "date": 1, "from": bob, "text": "a /think high b"});
    let origin = json!({"type": "hidden_user", "sender_user_name": "Eve"});
    for (id, members) in (1..).zip([
        json!({"text": "try /think high now", "forward_origin": origin}),
        json!({"text": "why? /think low", "reply_to_message": whole}),
        json!({"text": "/think low and?", "reply_to_message": whole}),
    ]) {
        api.say(direct(id, &members));
        api.shows_at_least(usize::try_from(id).unwrap()).await;
    }
    let expected = [
        "[Forwarded from Eve]\ntry /think high now",
        "[Replying to: Bob: a /think high b]\nwhy?",
        "[Replying to: Bob: a /think high b]\nand?",
    ];
    assert_eq!(said(&gateway, KEY, 3).await, expected);
    in_group(&api, 4, "try /think high now");
    in_group(&api, 5, "@claw_bot what now /think low");
    api.shows_at_least(4).await;
    let expected = format!(
        "{BEFORE}\n[Ann (7)] try /think high now\n\n{CURRENT}\n[Ann (7)]\n@claw_bot what now"
    );
    assert_eq!(said(&gateway, GROUP, 1).await, [expected]);
}

#[tokio::test]
async fn what_a_group_has_said_before_its_session_began_anew_is_not_told_in_it() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({"groups": {"-100": {}}})).await;
    let mut client = admin(&gateway).await;
    patch(&mut client, &json!({"commands": {"ownerAllowFrom": ["telegram:7"]}})).await;
    in_group(&api, 1, "pizza?");
    in_group(&api, 2, "/new");
    api.shows(&["✅ New session started."]).await;
    in_group(&api, 3, "soup?");
    in_group(&api, 4, "@claw_bot what now");
    api.shows_at_least(2).await;
    let expected = format!("{BEFORE}\n[Ann (7)] soup?\n\n{CURRENT}\n[Ann (7)]\n@claw_bot what now");
    assert_eq!(said(&gateway, GROUP, 1).await, [expected]);
    // Whoever begins it anew, and wherever.
    in_group(&api, 5, "pie?");
    in_group(&api, 6, "/whoami");
    api.shows_at_least(3).await;
    call(&mut client, "sessions.reset", json!({"key": GROUP})).await;
    in_group(&api, 7, "@claw_bot and now");
    api.shows_at_least(4).await;
    assert_eq!(said(&gateway, GROUP, 1).await, ["[Ann (7)]\n@claw_bot and now"]);
}

#[tokio::test]
async fn a_group_whose_talk_is_not_to_be_told_is_asked_alone() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"groups": {"-100": {}}, "historyLimit": 0});
    let gateway = with_bot(&api, &mock, &settings).await;
    in_group(&api, 1, "pizza or soup?");
    in_group(&api, 2, "@claw_bot what now");
    api.shows_at_least(1).await;
    assert_eq!(said(&gateway, GROUP, 1).await, ["[Ann (7)]\n@claw_bot what now"]);
}

#[tokio::test]
async fn code_in_a_list_that_is_cut_is_code_in_every_message() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let _gateway = with_bot(&api, &mock, &json!({"textChunkLimit": 100})).await;
    let lines: Vec<_> = (1..=8).map(|it| format!("      let a{it} = b * c * {it};\n")).collect();
    let text = format!("- one\n    - sub\n\n      ```js\n{}      ```", lines.concat());
    api.direct(1, 7, &format!("@mock text text={}", json!(text)));
    api.shows_at_least(3).await;
    for part in api.shown() {
        let sent = part.params["text"].as_str().unwrap();
        assert!(sent.contains("<pre><code class=\"language-js\">let a"), "{sent}");
        assert!(!sent.contains("```"), "{sent}");
    }
}
