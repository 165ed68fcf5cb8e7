//! The tool `message`: an agent writes by itself.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{Api, admin, ask, config, history, text_of};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// What the tool answers when it is called with these arguments.
async fn used(gateway: &Gateway, run: &str, arguments: &Value) -> String {
    let mut client = admin(gateway).await;
    let text = format!("@mock tool name=message args={arguments}");
    let session = format!("s-{run}").to_lowercase();
    ask(&mut client, &session, &text, run).await;
    let messages = history(&mut client, &session).await;
    let result = messages.iter().find(|message| message["role"] == "toolResult");
    text_of(result.unwrap_or_else(|| panic!("no result in {messages:?}")))
}

#[tokio::test]
async fn an_agent_reaches_whom_the_configuration_names_and_nobody_else() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"],
        "groups": {"team": {}}, "sendTo": ["alarm"], "defaultTo": "desk"});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    for (place, target) in [("ann", "ann"), ("team", "team"), ("alarm", "alarm"), ("", "desk")] {
        let mut arguments = json!({"action": "send", "message": format!("to {target}")});
        if !place.is_empty() {
            arguments["target"] = json!(place);
        }
        let told = used(&gateway, &format!("r-{target}"), &arguments).await;
        assert!(told.contains("\"status\": \"sent\""), "{told}");
    }
    for (index, stranger) in ["eve", "an", "ANN", "*"].into_iter().enumerate() {
        let arguments = json!({"action": "send", "message": "x", "target": stranger});
        let told = used(&gateway, &format!("x-{index}"), &arguments).await;
        assert!(told.contains("not among the people and groups"), "{told}");
    }
    let sent: Vec<_> = receiver.seen().iter().map(|it| it["to"].clone()).collect();
    assert_eq!(sent, [json!("ann"), json!("team"), json!("alarm"), json!("desk")]);

    // Its own conversation needs no name.
    let message = json!({"id": "1", "from": {"id": "ann"},
        "text": "@mock tool name=message args={\"action\":\"react\",\"messageId\":\"1\",\"emoji\":\"👍\"}"});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    let seen = receiver.wait(6).await;
    assert_eq!((&seen[4]["type"], &seen[4]["to"]), (&json!("react"), &json!("ann")));
    let message = json!({"id": "2", "from": {"id": "ann"}, "text": "@mock tool name=message \
        args={\"action\":\"send\",\"channel\":\"webhook\",\"message\":\"here\"}"});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    let seen = receiver.wait(8).await;
    assert_eq!((&seen[6]["text"], &seen[6]["to"]), (&json!("here"), &json!("ann")));
    let missing = used(&gateway, "r-1", &json!({"action": "reply", "message": "x"})).await;
    assert!(missing.contains("reply needs messageId"), "{missing}");
}

#[tokio::test]
async fn an_agent_of_a_confined_session_sends_on_what_it_may_read() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let mut config = with_channels(mock.address(), &json!({"webhook": webhook}));
    config["tools"]["exec"]["sandbox"] = json!("workspace-write");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    let inbound = gateway.state_dir().join("media/inbound");
    fs::create_dir_all(&inbound).unwrap();
    fs::write(inbound.join("came.txt"), "it came").unwrap();
    let send = |path: &Path| json!({"action": "send", "target": "ann", "media": path});
    let told = used(&gateway, "r-1", &send(&inbound.join("came.txt"))).await;
    assert!(told.contains("\"status\": \"sent\""), "{told}");
    assert_eq!(receiver.wait(1).await[0]["media"]["fileName"], "came.txt");
    let told = used(&gateway, "r-2", &send(&gateway.config_path())).await;
    assert!(told.contains("Path escapes workspace root"), "{told}");
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn without_a_channel_the_tool_says_so() {
    let mock = MockProvider::start().await;
    let config = config(mock.address(), Api::OpenAi);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let told = used(&gateway, "r-1", &json!({"action": "send", "message": "x"})).await;
    assert!(told.contains("no configured channels detected"), "{told}");
}
