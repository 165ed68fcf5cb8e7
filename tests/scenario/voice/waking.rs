//! Wake words: who hears of them, and that they last.

use serde_json::{Value, json};

use crate::stage::{Api, Stage, admin, call, config, end_of, refusal};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, MockProvider, NodeClient, WsClient};

async fn gateway() -> Gateway {
    Stage::new(Api::OpenAi).await.gateway
}

async fn told(client: &WsClient, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let event = client.wait_for(SOON, |frame| frame["event"] == name && fits(&frame["payload"]));
    let event = event.await.unwrap_or_else(|| panic!("no {name} in {:?}", client.frames()));
    event["payload"].clone()
}

#[tokio::test]
async fn words_are_kept_over_a_kill_and_everybody_hears_of_them() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let standard = json!({"triggers": ["openclaw", "claude", "computer"]});
    assert_eq!(call(&mut client, "voicewake.get", json!({})).await, standard);
    let other = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    assert_eq!(told(&node.client, "voicewake.changed", |_| true).await, standard);
    let empty = told(&node.client, "voicewake.routing.changed", |_| true).await;
    assert_eq!(empty["config"]["updatedAtMs"], 0);

    let chosen = json!({"triggers": ["hey", "molty"]});
    let params = json!({"triggers": [" hey ", "", "molty"]});
    assert_eq!(call(&mut client, "voicewake.set", params).await, chosen);
    for heard in [&client, &other, &node.client] {
        assert_eq!(told(heard, "voicewake.changed", |it| *it == chosen).await, chosen);
    }
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(call(&mut client, "voicewake.get", json!({})).await, chosen);
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    assert_eq!(told(&node.client, "voicewake.changed", |_| true).await, chosen);
    let none = call(&mut client, "voicewake.set", json!({"triggers": []})).await;
    assert_eq!(none, standard, "without any the standard ones come back");
}

#[tokio::test]
async fn routes_are_compared_as_they_are_said_and_last() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let routes = json!([{"trigger": "Hey, Work!", "target": {"agentId": "Work"}},
        {"trigger": "home", "target": {"sessionKey": "agent:main:home"}}]);
    let table = json!({"defaultTarget": {"mode": "current"}, "routes": routes});
    let set = call(&mut client, "voicewake.routing.set", json!({"config": table})).await;
    assert_eq!(
        set["config"]["routes"][0],
        json!({"trigger": "hey work", "target": {"agentId": "work"}})
    );
    assert!(set["config"]["updatedAtMs"].as_u64().unwrap() > 0);
    assert_eq!(told(&client, "voicewake.routing.changed", |_| true).await, set);
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(call(&mut client, "voicewake.routing.get", json!({})).await, set);
    let twice = json!([{"trigger": "a", "target": {"mode": "current"}},
        {"trigger": " A! ", "target": {"mode": "current"}}]);
    let wrong = json!({"config": {"routes": twice}});
    assert_eq!(
        refusal(&mut client, "voicewake.routing.set", wrong).await,
        "config.routes[1].trigger duplicates config.routes[0].trigger after normalization"
    );
    assert_eq!(call(&mut client, "voicewake.routing.get", json!({})).await, set, "as it was");
}

#[tokio::test]
async fn a_file_that_nobody_can_read_is_named_and_stays_until_it_is_mended_or_taken_away() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let path = gateway.state_dir().join("settings/voicewake.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "{").unwrap();
    let error = refusal(&mut client, "voicewake.get", json!({})).await;
    assert!(error.contains("voicewake.json cannot be used"), "{error}");
    // A node gets in all the same, and what can be read is told to it.
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &[]).await;
    told(&node.client, "voicewake.routing.changed", |_| true).await;
    let chosen = json!({"triggers": ["x"]});
    assert_eq!(refusal(&mut client, "voicewake.set", chosen.clone()).await, error);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(call(&mut client, "voicewake.set", chosen.clone()).await, chosen);
    assert_eq!(call(&mut client, "voicewake.get", json!({})).await, chosen);
    let table = path.with_file_name("voicewake-routing.json");
    std::fs::write(&table, "[").unwrap();
    let error = refusal(&mut client, "voicewake.routing.get", json!({})).await;
    let wanted = json!({"config": {"routes": []}});
    assert_eq!(refusal(&mut client, "voicewake.routing.set", wanted).await, error);
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "[");
}

#[tokio::test]
async fn a_wake_word_leads_where_its_route_says_unless_somebody_is_named() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["list"] = json!([{"id": "main", "default": true}, {"id": "work"}]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let table = json!({"routes": [{"trigger": "hey work", "target": {"agentId": "work"}},
        {"trigger": "home", "target": {"sessionKey": "agent:main:home"}},
        {"trigger": "gone", "target": {"agentId": "nobody"}}]});
    call(&mut client, "voicewake.routing.set", json!({"config": table})).await;
    for (at, (more, key)) in [
        (json!({"voiceWakeTrigger": "Hey, Work!"}), "agent:work:main"),
        (json!({"voiceWakeTrigger": "home", "sessionKey": "main"}), "agent:main:home"),
        (json!({"voiceWakeTrigger": "home", "sessionKey": "other"}), "agent:main:other"),
        (json!({"voiceWakeTrigger": "home", "agentId": "work"}), "agent:work:main"),
        (json!({"voiceWakeTrigger": "gone", "sessionKey": "main"}), "agent:main:main"),
        (json!({"voiceWakeTrigger": "else", "sessionKey": "main"}), "agent:main:main"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = format!("run-{at}");
        let mut params = json!({"message": "hello", "idempotencyKey": run});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(&mut client, "agent", params).await;
        assert_eq!(end_of(&client, &run).await["sessionKey"], key, "{more}");
    }
}
