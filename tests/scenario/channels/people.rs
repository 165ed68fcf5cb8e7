//! Who somebody is on a channel: CVE-2026-53849, -53811, -53857, -28480, -28446.
//! Only the id that the service gives counts, whole and as it is; names never.

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::support::{Gateway, GatewayOptions, MockProvider};

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
