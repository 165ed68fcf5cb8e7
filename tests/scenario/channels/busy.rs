//! Messages to a session that is busy, by several channels.

use serde_json::json;

use super::bot_api::{BotApi, TOKEN};
use super::with_channels;
use crate::stage::{admin, ask, deltas, end_of, ends_of, row, start, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

const KEY: &str = "agent:main:telegram:direct:7";

#[tokio::test]
async fn a_message_waits_as_the_channel_says_that_it_came_by() {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let telegram = json!({"botToken": TOKEN, "apiRoot": api.url(), "allowFrom": [7],
        "streaming": "off"});
    let mut config = with_channels(mock.address(), &json!({"telegram": telegram}));
    let modes = json!({"telegram": "followup", "webchat": "interrupt"});
    config["messages"]["queue"] = json!({"mode": "collect", "byChannel": modes});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;

    api.direct(1, 7, "@mock stream n=40 delay=50");
    until("it is being answered", async || {
        (row(&mut client, KEY).await["hasActiveRun"] == true).then_some(())
    })
    .await;
    api.direct(2, 7, "@mock text text=second");
    api.shows_at_least(2).await;
    let shown = api.shown();
    assert!(shown[0].text.trim_end().ends_with("w40"), "{}", shown[0].text);
    assert_eq!(shown[1].text, "second");

    start(&mut client, KEY, "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    start(&mut client, KEY, "@mock text text=third", "run-2").await;
    assert_eq!(text_of(&end_of(&client, "run-2").await["message"]), "third");
    assert_eq!(ends_of(&client, "run-1")[0]["stopReason"], "interrupt");

    // What is told holds for messages that come the same way.
    for session in [KEY, "main"] {
        let status = text_of(&ask(&mut client, session, "/status", session).await["message"]);
        assert!(status.contains("Queue: interrupt "), "{status}");
    }
    let queue = text_of(&ask(&mut client, KEY, "/queue", "run-3").await["message"]);
    assert!(queue.contains("mode=interrupt,"), "{queue}");
    api.direct(3, 7, "/status");
    api.direct(4, 7, "/queue");
    for told in ["Queue: followup ", "mode=followup,"] {
        until("it is told there", async || {
            api.shown().iter().any(|shown| shown.text.contains(told)).then_some(())
        })
        .await;
    }
}
