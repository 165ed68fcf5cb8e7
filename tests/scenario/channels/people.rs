//! Who somebody is on a channel: CVE-2026-53849, -53811, -53857, -28480, -28446.
//! Only the id that the service gives counts, whole and as it is; names never.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::call;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

async fn gateway(receiver: &Receiver, mock: &MockProvider) -> Gateway {
    let webhook = json!({
        "secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann", 7], "dmPolicy": "allowlist",
    });
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    with_webhook_running(&gateway).await;
    gateway
}

#[tokio::test]
async fn nobody_is_let_in_by_a_name_or_by_a_part_of_an_id() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let gateway = gateway(&receiver, &mock).await;
    let strangers = [
        json!({"id": "eve", "name": "ann"}),
        json!({"id": "eve", "name": "7"}),
        json!({"id": "annx", "name": "Ann"}),
        json!({"id": "xann", "name": "Ann"}),
        json!({"id": "an", "name": "Ann"}),
        json!({"id": "ann,eve", "name": "Ann"}),
        json!({"id": "webhook:ann", "name": "Ann"}),
        json!({"id": "*", "name": "Ann"}),
        json!({"id": "77", "name": "7"}),
        json!({"id": "07", "name": "7"}),
        json!({"id": "", "name": "ann"}),
        json!({"id": " ", "name": "ann"}),
        json!({"name": "ann"}),
    ];
    for (index, from) in strangers.iter().enumerate() {
        let message = json!({"id": format!("stranger-{index}"), "text": "let me in", "from": from});
        let (_, answer) = bring(&gateway, "/webhooks/default", &message).await;
        assert_ne!(answer["status"], "accepted", "{from}: {answer}");
    }
    let friends: [Value; 4] = [
        json!({"id": "ann", "name": "Ann"}),
        json!({"id": "ann", "name": "eve"}),
        json!({"id": "ann"}),
        json!({"id": "7", "name": ""}),
    ];
    for (index, from) in friends.iter().enumerate() {
        let message = json!({"id": format!("friend-{index}"), "text": "hello", "from": from});
        let (_, answer) = bring(&gateway, "/webhooks/default", &message).await;
        assert_eq!(answer["status"], "accepted", "{from}: {answer}");
        assert_eq!(receiver.texts(index + 1).await[index], "Echo: hello");
    }
    assert_eq!(mock.requests().len(), 4, "no stranger has reached a model");
}

/// Those who were let in: account and id.
async fn let_in(client: &mut WsClient) -> Vec<String> {
    let list = call(client, "channels.pairing.list", json!({})).await;
    let people = list["people"].as_array().unwrap().iter();
    people.map(|it| format!("{} {}", it["accountId"], it["person"]).replace('"', "")).collect()
}

#[tokio::test]
async fn a_list_that_could_not_be_read_is_read_later_and_nobody_comes_back_who_was_put_out() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let folder = root.path().join("state/credentials");
    fs::create_dir_all(&folder).unwrap();
    let list = |id: &str| json!({"version": 1, "allowFrom": [id]}).to_string();
    fs::write(folder.join("webhook-allowFrom.json"), list("bob")).unwrap();
    fs::write(folder.join("webhook-work-allowFrom.json"), "{torn").unwrap();
    let webhook = json!({"secret": SIGNING, "url": receiver.url()});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let options = GatewayOptions::with_config(config);
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let mut client = with_webhook_running(&gateway).await;
    assert_eq!(let_in(&mut client).await, ["default bob"]);
    let bob = json!({"channel": "webhook", "person": "bob"});
    assert_eq!(call(&mut client, "channels.pairing.remove", bob).await["removed"], true);

    fs::write(folder.join("webhook-work-allowFrom.json"), list("ann")).unwrap();
    for _ in 0..2 {
        gateway.restart().await;
        let mut client = with_webhook_running(&gateway).await;
        assert_eq!(let_in(&mut client).await, ["work ann"]);
    }
}
