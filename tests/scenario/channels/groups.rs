//! Groups: what is to the agent there, and what is not.

use std::fs;

use serde_json::{Value, json};

use super::receiver::{Receiver, bring};
use super::{SIGNING, with_channels, with_webhook_running};
use crate::stage::told;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

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
    assert!(place.receiver.texts(1).await[0].contains("channel"));
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
