//! Updates of a bot: their numbers, and those of many people at a time.

use serde_json::json;

use super::bot_api::BotApi;
use super::with_bot;
use crate::stage::until;
use crate::support::MockProvider;

async fn confirmed(api: &BotApi, update: i64) {
    until("it is confirmed", async || (api.confirmed() == update + 1).then_some(())).await;
}

/// A message of 7 with a file that nobody is given yet; its number.
fn said_with_file(api: &BotApi) -> i64 {
    api.add_file("slow", b"the text of a file");
    api.hold_file("slow");
    api.say(json!({"message_id": 1, "date": 1, "caption": "read this",
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 7, "type": "private"},
        "document": {"file_id": "slow", "file_name": "a.txt", "mime_type": "text/plain"}}))
}

/// The same, and one of 8, of which the API tells at a time; the numbers of both.
fn said_at_a_time(api: &BotApi) -> [i64; 2] {
    [said_with_file(api), api.direct(2, 8, "hello")]
}

#[tokio::test]
async fn updates_that_are_numbered_anew_are_answered_and_are_given_once() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let _gateway = with_bot(&api, &mock, &json!({})).await;
    let first = api.direct(1, 7, "hello");
    api.shows_at_least(1).await;
    confirmed(&api, first).await;
    api.number_from(500);
    let second = api.direct(2, 7, "after a week");
    api.shows_at_least(2).await;
    confirmed(&api, second).await;
    // What is there already is known by its message, whatever its number is.
    let again = api.direct(1, 7, "hello");
    confirmed(&api, again).await;
    let last = api.direct(3, 7, "last");
    confirmed(&api, last).await;
    api.shows(&["Echo: hello", "Echo: after a week", "Echo: last"]).await;
    assert_eq!(api.given(), [first, second, again, last]);
}

#[tokio::test]
async fn nobody_waits_for_the_files_of_somebody_who_wrote_at_the_same_time() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let both = said_at_a_time(&api);
    let _gateway = with_bot(&api, &mock, &json!({"allowFrom": [7, 8]})).await;
    api.shows(&["Echo: hello"]).await;
    assert_eq!(api.given()[..2], both);
    assert_eq!(api.confirmed(), 0, "what is not passed on yet is not confirmed");
    api.let_files_go();
    confirmed(&api, both[1]).await;
    api.shows_at_least(2).await;
    assert_eq!(api.shown().len(), 2);
}

#[tokio::test]
async fn nobody_waits_for_the_files_of_somebody_who_wrote_before() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    said_with_file(&api);
    let _gateway = with_bot(&api, &mock, &json!({"allowFrom": [7, 8]})).await;
    until("its file is asked for", async || api.calls("getFile").pop()).await;
    let last = api.direct(2, 8, "hello");
    api.shows(&["Echo: hello"]).await;
    assert_eq!(api.confirmed(), 0, "what is not passed on yet is not confirmed");
    api.let_files_go();
    confirmed(&api, last).await;
    api.shows_at_least(2).await;
    assert_eq!((api.shown().len(), api.calls("getFile").len()), (2, 1));
}

#[tokio::test]
async fn a_bot_shows_which_commands_there_are_and_answers_though_it_may_not() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    // What the API says of that holds up no message.
    api.refuse("setMyCommands", 429, Some(600));
    let mut gateway = with_bot(&api, &mock, &json!({"streaming": "partial"})).await;
    api.direct(1, 7, "@mock stream n=40 delay=80");
    until("it is shown while it is written", async || {
        api.shown().first().is_some_and(|it| it.edits > 0).then_some(())
    })
    .await;
    until("it is told", async || {
        gateway.stderr().contains("the menu of commands stays as it was").then_some(())
    })
    .await;
    gateway.kill9();
    gateway.restart().await;
    let set = until("all is set", async || {
        let set = api.calls("setMyCommands");
        (set.len() == 3).then_some(set)
    })
    .await;
    let scopes: Vec<_> = set[1..].iter().map(|it| it["scope"]["type"].as_str().unwrap()).collect();
    assert_eq!(scopes, ["default", "all_group_chats"]);
    let commands = set[1]["commands"].as_array().unwrap();
    let stop = json!({"command": "stop", "description": "Stop the current run."});
    assert!(commands.contains(&stop), "{commands:?}");
    assert!(!commands.iter().any(|it| it["command"] == "config"), "it is not offered");
}

#[tokio::test]
async fn a_kill_before_all_is_passed_on_repeats_it_and_nobody_is_answered_twice() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let both = said_at_a_time(&api);
    let mut gateway = with_bot(&api, &mock, &json!({"allowFrom": [7, 8]})).await;
    api.shows(&["Echo: hello"]).await;
    gateway.kill9();
    gateway.restart().await;
    api.let_files_go();
    confirmed(&api, both[1]).await;
    api.direct(3, 8, "bye");
    api.shows_at_least(3).await;
    let mut told: Vec<_> = api.shown().into_iter().map(|it| (it.chat, it.text)).collect();
    told.sort();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0].0, "7");
    assert_eq!(told[1], ("8".to_owned(), "Echo: bye".to_owned()));
    assert_eq!(told[2], ("8".to_owned(), "Echo: hello".to_owned()));
}

#[tokio::test]
async fn an_api_that_wants_to_be_left_alone_at_the_start_is_asked_again_when_it_says() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    api.refuse("getMe", 429, Some(1));
    let gateway = with_bot(&api, &mock, &json!({})).await;
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
    gateway.logs("the Bot API wants to be asked later").await;
    let log = gateway.stderr();
    assert!(!log.contains("channel lost"), "{log}");
}
