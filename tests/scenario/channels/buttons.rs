//! What `openclaw message send` asks for beside a text: buttons, and a pin.

use std::time::Duration;

use serde_json::{Value, json};

use super::bot_api::BotApi;
use super::receiver::{Receiver, post};
use super::{SIGNING, patch, with_bot};
use crate::stage::{admin, call, lines, refusal, told, until, until_within};
use crate::support::MockProvider;

const KEY: &str = "agent:main:telegram:direct:7";

/// The params of a `send` by `message.action`, to 7 of the bot.
fn send(key: &str, params: Value) -> Value {
    let mut whole = json!({"channel": "telegram", "action": "send", "idempotencyKey": key,
        "params": {"to": "7"}});
    for (name, value) in params.as_object().unwrap() {
        whole["params"][name] = value.clone();
    }
    whole
}

fn with_button(value: &str) -> Value {
    json!({"title": "T", "blocks": [
        {"type": "buttons", "buttons": [{"label": "Yes", "value": value}]}]})
}

#[tokio::test]
async fn a_button_is_sent_and_is_a_message_of_who_presses_it() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"groups": {"-100": {}}, "replyToMode": "first"});
    let gateway = with_bot(&api, &mock, &settings).await;
    let mut client = admin(&gateway).await;
    let question = json!({"message": "sure?", "presentation": with_button("yes")});
    call(&mut client, "message.action", send("b1", question)).await;
    let keyboard = json!({"inline_keyboard": [[{"text": "Yes", "callback_data": "yes"}]]});
    assert_eq!(api.calls("sendMessage")[0]["reply_markup"], keyboard);

    let private = json!({"id": 7, "type": "private"});
    api.press("4001", 7, private.clone(), "yes");
    api.shows(&["sure?", "Echo: yes"]).await;
    let wanted = &api.calls("getUpdates")[0]["allowed_updates"];
    assert_eq!(*wanted, json!(["message", "callback_query"]));
    assert!(api.calls("sendMessage")[1]["reply_parameters"].is_null(), "it has no number");
    assert_eq!(told(&mut client, KEY).await, lines(&[("user", "yes"), ("assistant", "Echo: yes")]));
    // The same press once more, one of somebody who may not write there, and one in a group
    // that is to the agent without its name.
    api.press("4001", 7, private, "yes");
    let team = json!({"id": -100, "type": "supergroup", "title": "Team"});
    api.press("4002", 8, team.clone(), "yes");
    api.press("4003", 7, team, "no");
    // What came before it in its chat has been judged by then.
    api.direct(50, 7, "last");
    api.shows_at_least(4).await;
    until("the phones know of all", async || {
        let answered = api.calls("answerCallbackQuery");
        (answered.len() >= 4).then_some(())
    })
    .await;
    let shown = api.shown();
    let mut chats: Vec<_> = shown.iter().map(|it| it.chat.as_str()).collect();
    chats.sort_unstable();
    assert_eq!(chats, ["-100", "7", "7", "7"], "{shown:?}");
    assert!(shown.iter().any(|it| it.text == "Echo: last"), "{shown:?}");
    let mut presses: Vec<_> = api.calls("answerCallbackQuery");
    presses.sort_unstable_by_key(|it| it["callback_query_id"].to_string());
    let ids: Vec<_> = presses.iter().map(|it| it["callback_query_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["4001", "4001", "4002", "4003"]);
}

#[tokio::test]
async fn nobody_waits_until_telegram_has_taken_note_of_a_press() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let _gateway = with_bot(&api, &mock, &json!({})).await;
    api.hold_presses();
    api.press("4001", 7, json!({"id": 7, "type": "private"}), "yes");
    // A call of the API is given up after 30 seconds.
    until_within(Duration::from_secs(25), "an answer", async || {
        api.shown().iter().any(|it| it.text == "Echo: yes").then_some(())
    })
    .await;
    until("the phone is told", async || {
        (api.calls("answerCallbackQuery").len() == 1).then_some(())
    })
    .await;
    api.let_files_go();
}

#[tokio::test]
async fn a_press_that_telegram_brings_is_heard_too() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let settings = json!({"webhookUrl": "https://claw.example/telegram-webhook",
        "webhookSecret": "hook-secret-1234"});
    let gateway = with_bot(&api, &mock, &settings).await;
    let registered = until("it is registered", async || api.webhook()).await;
    assert_eq!(registered["allowed_updates"], json!(["message", "callback_query"]));
    let update = json!({"update_id": 1, "callback_query": {"id": "4001", "data": "yes",
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "message": {"message_id": 1, "chat": {"id": 7, "type": "private"}}}});
    let headers = [("x-telegram-bot-api-secret-token", "hook-secret-1234".to_owned())];
    let body = update.to_string().into_bytes();
    assert_eq!(post(&gateway, "/telegram-webhook", body, &headers).await.0, 200);
    api.shows(&["Echo: yes"]).await;
    until("the phone is told", async || {
        (api.calls("answerCallbackQuery").len() == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn buttons_are_under_the_last_part_and_three_in_a_row() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let mut client = admin(&gateway).await;
    let options: Vec<_> =
        (1..=4).map(|n| json!({"label": format!("{n}."), "value": "x"})).collect();
    let presentation = json!({"blocks": [{"type": "select", "options": options}]});
    let long = json!({"message": "word ".repeat(1000), "presentation": presentation});
    call(&mut client, "message.action", send("b1", long)).await;
    let sent = api.calls("sendMessage");
    let (last, before) = sent.split_last().unwrap();
    assert!(!before.is_empty() && before.iter().all(|it| it["reply_markup"].is_null()), "{sent:?}");
    let rows = last["reply_markup"]["inline_keyboard"].as_array().unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.as_array().unwrap().len()).collect();
    assert_eq!(rows, [3, 1]);
    // Without words of its own, a message has those of what is presented.
    let bare = json!({"presentation": with_button("yes")});
    call(&mut client, "message.action", send("b2", bare)).await;
    assert_eq!(api.shown().last().unwrap().text, "T");
}

#[tokio::test]
async fn buttons_that_cannot_be_sent_are_refused() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let mut client = admin(&gateway).await;
    let receiver = Receiver::start().await;
    let webhook = json!({"secret": SIGNING, "url": receiver.url()});
    patch(&mut client, &json!({"channels": {"webhook": webhook}})).await;
    let long = json!({"message": "x", "presentation": with_button(&"x".repeat(65))});
    let text = "invalid message.action params: at /params/presentation/blocks/0/buttons/0/value: \
        must NOT have more than 64 bytes";
    assert_eq!(refusal(&mut client, "message.action", send("b1", long)).await, text);
    let mut there = send("b2", json!({"message": "x", "presentation": with_button("yes")}));
    there["channel"] = json!("webhook");
    let text = "send with buttons is not supported for channel webhook";
    assert_eq!(refusal(&mut client, "message.action", there).await, text);
    let words = json!({"blocks": [{"type": "text", "text": "more"}]});
    let plain = json!({"message": "x", "presentation": words, "pin": true});
    let mut there = send("b3", plain);
    there["channel"] = json!("webhook");
    call(&mut client, "message.action", there).await;
    assert_eq!(receiver.texts(1).await, ["x"]);
    let pin = json!({"enabled": true, "required": true});
    let mut there = send("b4", json!({"message": "y", "delivery": {"pin": pin}}));
    there["channel"] = json!("webhook");
    let text = "send with a required pin is not supported for channel webhook";
    assert_eq!(refusal(&mut client, "message.action", there).await, text);
}

/// Who presses it gives the command, and does not see which.
#[tokio::test]
async fn who_may_not_give_an_owners_command_puts_none_under_a_button() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let mut writer = gateway.open().await;
    writer.connect_standard(&["operator.write"]).await;
    let text = "invalid message.action params: at /params/presentation/blocks/0/buttons/0/value: \
        must NOT be a command unless you have operator.admin";
    let bare = ["/approve 12345678 allow-always", " /config show", "STOP!"];
    // A message is read without these characters.
    let hidden = ["\u{1}/new", "\u{1} \u{7f}/new", "\u{1}stop", "st\u{9d}op\u{8}"];
    for value in bare.into_iter().chain(hidden) {
        let params = send("b1", json!({"message": "x", "presentation": with_button(value)}));
        assert_eq!(refusal(&mut writer, "message.action", params).await, text, "{value:?}");
    }
    let plain = json!({"message": "sure?", "presentation": with_button("yes")});
    call(&mut writer, "message.action", send("b2", plain)).await;
    let mut client = admin(&gateway).await;
    let status = json!({"message": "status?", "presentation": with_button("/status")});
    call(&mut client, "message.action", send("b3", status)).await;
    let sent = api.calls("sendMessage");
    let values: Vec<_> = sent
        .iter()
        .map(|call| &call["reply_markup"]["inline_keyboard"][0][0]["callback_data"])
        .collect();
    assert_eq!(values, ["yes", "/status"]);
}

#[tokio::test]
async fn what_is_to_be_pinned_is_pinned_once_it_is_sent() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let mut client = admin(&gateway).await;
    let pins = [
        json!({"pin": true}),
        json!({"pin": false, "delivery": {"pin": true}}),
        json!({"delivery": {"pin": {"enabled": true, "notify": true}}}),
        json!({"pin": false}),
        json!({"delivery": {"pin": {"enabled": false}}}),
    ];
    for (index, pin) in pins.into_iter().enumerate() {
        let mut params = send(&format!("p{index}"), pin);
        params["params"]["message"] = json!(format!("message {index}"));
        call(&mut client, "message.action", params).await;
    }
    let pin = |id: i64, is_silent: bool| json!({"chat_id": "7", "message_id": id, "disable_notification": is_silent});
    assert_eq!(api.calls("pinChatMessage"), [pin(1, true), pin(2, true), pin(3, false)]);
    api.refuse("pinChatMessage", 400, None);
    let params = send("p5", json!({"message": "all the same", "pin": true}));
    assert_eq!(call(&mut client, "message.action", params).await["messageId"], "6");
    assert_eq!(api.calls("pinChatMessage").len(), 4);
    // The first of several.
    let params = send("p6", json!({"message": "word ".repeat(1000), "pin": true}));
    assert_ne!(call(&mut client, "message.action", params).await["messageId"], "7");
    assert_eq!(api.calls("pinChatMessage")[4..], [pin(7, true)]);
    api.refuse("pinChatMessage", 400, None);
    let wanted = json!({"pin": {"enabled": true, "required": true}});
    let params = send("p7", json!({"message": "required", "delivery": wanted}));
    let text = refusal(&mut client, "message.action", params).await;
    assert!(text.starts_with("Error: the message is not pinned: "), "{text}");
    assert_eq!(api.shown().last().unwrap().text, "required");
}

#[tokio::test]
async fn who_wants_a_file_of_the_gateways_machine_sent_reads_what_to_do() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, &json!({})).await;
    let mut client = admin(&gateway).await;
    let params = send("m1", json!({"message": "x", "media": "/home/ann/cat.png"}));
    let text = refusal(&mut client, "message.action", params).await;
    assert!(text.ends_with("can fetch it, or ask an agent to send it"), "{text}");
}
