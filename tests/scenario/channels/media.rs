//! Files that answers name, and albums that come.

use serde_json::{Value, json};

use super::bot_api::{BotApi, TOKEN};
use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels};
use crate::stage::{admin, call, history, refusal, row, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, NodeClient};

struct Place {
    gateway: Gateway,
    api: BotApi,
    _mock: MockProvider,
}

async fn place(tools: &Value) -> Place {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let telegram = json!({"botToken": TOKEN, "apiRoot": api.url(), "allowFrom": [7],
        "streaming": "off", "mediaMaxMb": 1});
    let mut config = with_channels(mock.address(), &json!({"telegram": telegram}));
    config["tools"] = tools.clone();
    config["commands"] = json!({"ownerAllowFrom": ["telegram:7"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    Place { gateway, api, _mock: mock }
}

/// A message whose answer is this text.
fn answered(text: &str) -> String {
    format!("@mock text text={}", json!(text))
}

#[tokio::test]
async fn a_file_of_the_workspace_goes_out_with_the_words_and_no_other_does() {
    let place = place(&json!({})).await;
    let workspace = place.gateway.workspace();
    std::fs::write(workspace.join("plan.txt"), "the plan").unwrap();
    std::fs::write(workspace.join("large.bin"), vec![7; 1_100_000]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", workspace.join("link.txt")).unwrap();
    let inbound = place.gateway.state_dir().join("media/inbound");
    std::fs::create_dir_all(&inbound).unwrap();
    std::fs::write(inbound.join("came.txt"), "it came").unwrap();

    place.api.direct(1, 7, &answered("**Here** it is.\nMEDIA:plan.txt"));
    place.api.shows(&["Here it is."]).await;
    let sent = place.api.calls("sendDocument").pop().unwrap();
    assert_eq!((&sent["document"], &sent["chat_id"]), (&json!("file of 8 bytes"), &json!("7")));
    let came = inbound.join("came.txt").display().to_string();
    place.api.direct(2, 7, &answered(&format!("MEDIA:{came}")));
    place.api.shows(&["Here it is.", ""]).await;

    let state = place.gateway.state_dir().join("openclaw.json").display().to_string();
    for (index, (name, why)) in [
        ("../state/openclaw.json", "neither in the workspace"),
        (state.as_str(), "neither in the workspace"),
        ("/etc/passwd", "neither in the workspace"),
        ("link.txt", "neither in the workspace"),
        ("gone.txt", "there is no such file"),
        ("large.bin", "larger than the 1 MB"),
        ("http://127.0.0.1:1/secret.png", "Blocked"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = 10 + i64::try_from(index).unwrap();
        place.api.direct(id, 7, &answered(&format!("See.\nMEDIA:{name}")));
        place.api.shows_at_least(3 + index).await;
        let told = place.api.shown().pop().unwrap().text;
        assert!(told.starts_with("See.\n⚠️ ") && told.contains(why), "{told}");
    }
    assert_eq!(place.api.calls("sendDocument").len(), 2);
}

#[tokio::test]
async fn what_a_program_printed_and_what_is_on_the_web_goes_out_where_it_may() {
    let files = BotApi::start().await;
    files.add_file("cat.png", b"\x89PNG\r\n\x1a\n and more");
    let tools = json!({"exec": {"security": "full", "ask": "off"},
        "web": {"fetch": {"ssrfPolicy": {"allowedHostnames": ["127.0.0.1"]}}}});
    let place = place(&tools).await;
    std::fs::write(place.gateway.workspace().join("plot.txt"), "a plot").unwrap();
    let args = json!({"command": "echo done; echo MEDIA:plot.txt"});
    place.api.direct(1, 7, &format!("@mock tool name=exec args={args} then=\"Drawn.\""));
    place.api.shows(&["Drawn."]).await;
    let sent = place.api.calls("sendDocument").pop().unwrap();
    assert_eq!(sent["document"], "file of 6 bytes");

    let url = format!("{}/file/bot{TOKEN}/cat.png", files.url());
    place.api.direct(2, 7, &answered(&format!("A cat.\nMEDIA:{url}")));
    place.api.shows(&["Drawn.", "A cat."]).await;
    assert_eq!(place.api.calls("sendPhoto").len(), 1);
    // No service is asked to fetch what may be inside of our network.
    let urls: Vec<_> = place.api.calls("sendPhoto");
    assert!(urls[0]["photo"].as_str().unwrap().starts_with("file of "), "{urls:?}");
}

#[tokio::test]
async fn a_picture_that_is_refused_goes_as_a_document_or_its_words_tell_of_it() {
    let place = place(&json!({})).await;
    let picture = place.gateway.workspace().join("shot.png");
    std::fs::write(picture, b"\x89PNG\r\n\x1a\n and more").unwrap();
    let words = "It is broken.";
    let answer = answered(&format!("{words}\nMEDIA:shot.png"));

    place.api.refuse("sendPhoto", 400, None);
    place.api.direct(1, 7, &answer);
    let shown = place.api.shows(&[words]).await;
    assert!(shown[0].params["document"].as_str().unwrap().starts_with("file of "), "{shown:?}");

    place.api.refuse("sendPhoto", 400, None);
    place.api.refuse("sendDocument", 413, None);
    place.api.direct(2, 7, &answer);
    place.api.shows_at_least(2).await;
    let told = place.api.shown().pop().unwrap().text;
    let note = "⚠️ shot.png could not be sent: the Bot API answered 413: ";
    assert!(told.starts_with(&format!("{words}\n{note}")), "{told}");

    // The file is gone when it may be sent.
    place.api.refuse("sendPhoto", 429, Some(3));
    place.api.direct(3, 7, &answer);
    until("it waits", async || (place.api.calls("sendPhoto").len() == 3).then_some(())).await;
    std::fs::remove_dir_all(place.gateway.state_dir().join("media/outbound")).unwrap();
    place.api.shows_at_least(3).await;
    let told = place.api.shown().pop().unwrap().text;
    let note = "⚠️ shot.png could not be sent: the file cannot be read: ";
    assert!(told.starts_with(&format!("{words}\n{note}")), "{told}");
}

#[tokio::test]
async fn a_file_that_is_refused_without_words_is_an_error_and_its_chat_is_told() {
    let place = place(&json!({})).await;
    let mut client = admin(&place.gateway).await;
    place.api.direct(1, 7, &answered("It runs."));
    place.api.shows(&["It runs."]).await;
    let refusals = "Error: the Bot API answered 400: ";
    place.api.refuse("sendPhoto", 400, None);
    place.api.refuse("sendDocument", 400, None);
    let alone = json!({"to": "7", "mediaUrl": "https://x.test/cat.png", "idempotencyKey": "s1"});
    let error = refusal(&mut client, "send", alone).await;
    assert!(error.starts_with(refusals), "{error}");
    place.api.shows_at_least(2).await;
    let told = place.api.shown().pop().unwrap().text;
    assert!(told.starts_with("⚠️ cat.png could not be sent: the Bot API answered 400: "), "{told}");
    let nowhere = json!({"to": "404", "message": "a cat", "mediaUrl": "https://x.test/cat.png",
        "idempotencyKey": "s2"});
    let error = refusal(&mut client, "send", nowhere).await;
    assert_eq!(error, format!("{refusals}Bad Request: chat not found"));
    assert_eq!(place.api.shown().len(), 2);
}

#[tokio::test]
async fn a_webhook_and_a_job_get_the_file_itself() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    std::fs::write(gateway.workspace().join("plan.txt"), "the plan").unwrap();
    let message =
        json!({"id": "1", "from": {"id": "ann"}, "text": answered("Here.\nMEDIA:plan.txt")});
    until("it is taken", async || {
        (bring(&gateway, "/webhooks/default", &message).await.0 == 200).then_some(())
    })
    .await;
    let sent = receiver.wait(1).await.remove(0);
    assert_eq!((&sent["text"], &sent["media"]["fileName"]), (&json!("Here."), &json!("plan.txt")));
    assert_eq!(sent["media"]["content"], "dGhlIHBsYW4=");

    let mut client = admin(&gateway).await;
    let job = json!({"name": "tells", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": answered("MEDIA:plan.txt")},
        "delivery": {"mode": "announce", "channel": "webhook", "to": "ann"}});
    let added = call(&mut client, "cron.add", job).await;
    call(&mut client, "cron.run", json!({"id": added["id"]})).await;
    let sent = receiver.wait(2).await.remove(1);
    assert_eq!((&sent["text"], &sent["media"]["fileName"]), (&json!(""), &json!("plan.txt")));
}

#[tokio::test]
async fn an_album_is_answered_once() {
    let place = place(&json!({})).await;
    let part = |id: i64, caption: Option<&str>| {
        let file = format!("file-{id}");
        place.api.add_file(&file, format!("text of {id}").as_bytes());
        let mut message = json!({"message_id": id, "date": 1, "media_group_id": "album",
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": 7, "type": "private"},
            "document": {"file_id": file, "file_name": "a.txt", "mime_type": "text/plain"}});
        if let Some(caption) = caption {
            message["caption"] = json!(caption);
        }
        place.api.say(message)
    };
    part(1, Some("look at these"));
    part(2, None);
    let last = part(3, None);
    place.api.shows_at_least(1).await;
    until("all is confirmed", async || (place.api.confirmed() == last + 1).then_some(())).await;
    assert_eq!((place.api.shown().len(), place.api.calls("getFile").len()), (1, 3));
    let mut client = admin(&place.gateway).await;
    let told = told(&mut client, "agent:main:telegram:direct:7").await;
    let asked: Vec<_> = told.iter().filter(|it| it.0 == "user").collect();
    assert!(asked.len() == 1 && asked[0].1.contains("\nlook at these\n"), "{told:?}");
}

#[tokio::test]
async fn a_picture_of_a_node_is_shown_to_who_asked() {
    let place = place(&json!({})).await;
    let mut phone =
        NodeClient::connect(&place.gateway, "Phone", "iOS 18", &["canvas.snapshot"]).await;
    let args = json!({"action": "canvas_snapshot", "node": "phone"});
    place.api.direct(1, 7, &format!("@mock tool name=nodes args={args} then=\"Look.\""));
    let request = phone.asked("canvas.snapshot", 1).await;
    phone.answer(&request, json!({"format": "png", "base64": "iVBORw0KGgoAAAAN"})).await;
    let sent = until("a picture", async || place.api.calls("sendPhoto").pop()).await;
    assert!(sent["photo"].as_str().unwrap().starts_with("file of "), "{sent}");
}

#[tokio::test]
async fn a_file_that_cannot_be_had_for_a_moment_is_asked_for_again() {
    let place = place(&json!({})).await;
    place.api.add_file("doc", b"the text of a file");
    let send = |id: i64| {
        place.api.say(json!({"message_id": id, "date": 1, "caption": "read this",
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": 7, "type": "private"},
            "document": {"file_id": "doc", "file_name": "a.txt", "mime_type": "text/plain"}}))
    };
    let mut client = admin(&place.gateway).await;
    let mut asked = 0;
    for (index, (refusals, times, text)) in [
        (&[(429, Some(1)), (502, None)][..], 3, "the text of a file"),
        (&[(400, None)][..], 1, "could not be fetched: the Bot API answered 400"),
    ]
    .into_iter()
    .enumerate()
    {
        for (code, after) in refusals {
            place.api.refuse("getFile", *code, *after);
        }
        send(i64::try_from(index).unwrap() + 1);
        place.api.shows_at_least(index + 1).await;
        let calls = place.api.calls("getFile").len();
        assert_eq!(calls - asked, times, "{refusals:?}");
        asked = calls;
        let messages = history(&mut client, "agent:main:telegram:direct:7").await;
        let last = messages.iter().rfind(|it| it["role"] == "user").unwrap().to_string();
        assert!(last.contains(text), "{last}");
    }
}

#[tokio::test]
async fn files_of_a_message_that_comes_again_while_it_is_answered_are_not_asked_for_again() {
    let place = place(&json!({})).await;
    place.api.add_file("doc", b"the text of a file");
    let send = || {
        place.api.say(json!({"message_id": 1, "date": 1,
            "caption": "@mock stream n=2000 delay=20",
            "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": 7, "type": "private"},
            "document": {"file_id": "doc", "file_name": "a.txt", "mime_type": "text/plain"}}))
    };
    let mut client = admin(&place.gateway).await;
    send();
    until("it is being answered", async || {
        let row = row(&mut client, "agent:main:telegram:direct:7").await;
        (row["hasActiveRun"] == true).then_some(())
    })
    .await;
    send();
    place.api.direct(2, 7, "stop");
    until("it is stopped", async || {
        place.api.shown().iter().any(|it| it.text == "⚙️ Stopped.").then_some(())
    })
    .await;
    assert_eq!(place.api.calls("getFile").len(), 1);
}
