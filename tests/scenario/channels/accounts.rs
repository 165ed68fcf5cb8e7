//! Accounts that begin and end while the configuration changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::bot_api::{BotApi, TOKEN};
use super::receiver::{Receiver, bring};
use super::{SIGNING, patch, with_channels, with_webhook_running};
use crate::stage::{admin, call, row, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// A program that tells the token of a bot, to each who asks only once it is let.
struct Held(TempDir);

impl Held {
    fn new() -> Self {
        let held = Self(TempDir::with_prefix("clawgate-held-").unwrap());
        let answer = json!({"protocolVersion": 1, "values": {"token": TOKEN}});
        // It ends as well when its folder is gone.
        let script = format!(
            "#!/bin/sh\ncd '{}' || exit 1\necho $$ >> asked\n\
             while [ -e asked ] && [ ! -e go.$$ ]; do /bin/sleep 0.05; done\necho '{answer}'\n",
            held.0.path().display()
        );
        let program = held.0.path().join("held.sh");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        held
    }

    /// A gateway with a bot whose token it tells.
    async fn gateway(&self, api: &BotApi, mock: &MockProvider) -> Gateway {
        let token = json!({"source": "exec", "provider": "held", "id": "token"});
        let telegram = json!({"botToken": token, "apiRoot": api.url(), "allowFrom": [7],
            "streaming": "off"});
        let mut config = with_channels(mock.address(), &json!({"telegram": telegram}));
        config["secrets"]["providers"]["held"] = json!({"source": "exec",
            "command": self.0.path().join("held.sh"), "timeoutMs": 60_000});
        Gateway::start(GatewayOptions::with_config(config)).await
    }

    /// Who waits for an answer, in order, once there were so many.
    async fn asked(&self, times: usize) -> Vec<String> {
        until(&format!("question {times}"), async || {
            let asked = fs::read_to_string(self.0.path().join("asked")).unwrap_or_default();
            let asked: Vec<_> = asked.lines().map(str::to_owned).collect();
            (asked.len() >= times).then_some(asked)
        })
        .await
    }

    fn tells(&self, who: &str) {
        fs::write(self.0.path().join(format!("go.{who}")), "").unwrap();
    }
}

/// Waits until an account was built that may not begin.
async fn built_in_vain(gateway: &Gateway) {
    until("an account is built in vain", async || {
        gateway.stderr().contains("channel not started").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_account_that_is_replaced_while_it_is_being_built_does_not_begin_beside_the_new_one() {
    let (api, mock, held) = (BotApi::start().await, MockProvider::start().await, Held::new());
    let gateway = held.gateway(&api, &mock).await;
    let mut client = admin(&gateway).await;
    held.asked(1).await;
    let hash = call(&mut client, "config.get", json!({})).await["hash"].clone();
    let raw = json!({"messages": {"queue": {"cap": 7}}}).to_string();
    let request = json!({"type": "req", "id": "patch", "method": "config.patch",
        "params": {"raw": raw, "baseHash": hash}});
    client.send(&request).await;
    // Who takes the change up asks as well, and is told first.
    let asked = held.asked(2).await;
    held.tells(&asked[1]);
    let answer = client.answer("patch").await.expect("an answer");
    assert_eq!(answer["ok"], true, "{answer}");
    api.direct(1, 7, "hello");
    api.shows(&["Echo: hello"]).await;
    held.tells(&asked[0]);
    built_in_vain(&gateway).await;
    api.direct(2, 7, "again");
    api.shows(&["Echo: hello", "Echo: again"]).await;
    assert_eq!((api.calls("getMe").len(), api.most_waiting()), (1, 1));
}

#[tokio::test]
async fn an_account_that_is_ended_while_it_is_being_built_does_not_begin() {
    for is_removed in [true, false] {
        let (api, mock, held) = (BotApi::start().await, MockProvider::start().await, Held::new());
        let gateway = held.gateway(&api, &mock).await;
        let mut client = admin(&gateway).await;
        let asked = held.asked(1).await;
        if is_removed {
            patch(&mut client, &json!({"channels": null})).await;
        } else {
            call(&mut client, "channels.stop", json!({"channel": "telegram"})).await;
        }
        held.tells(&asked[0]);
        built_in_vain(&gateway).await;
        assert!(api.calls("getMe").is_empty());
    }
}

#[tokio::test]
async fn a_channel_that_comes_back_while_the_gateway_runs_tells_what_was_cut_off() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["ann"]});
    let channels = json!({"webhook": webhook});
    let config = with_channels(mock.address(), &channels);
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = with_webhook_running(&gateway).await;
    let message = json!({"id": "1", "text": "@mock stream n=500 delay=50", "from": {"id": "ann"}});
    assert_eq!(bring(&gateway, "/webhooks/default", &message).await.0, 200);
    until("it runs", async || {
        let row = row(&mut client, "agent:main:webhook:direct:ann").await;
        (row["hasActiveRun"] == true).then_some(())
    })
    .await;
    gateway.kill9();
    let path = gateway.config_path();
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("channels");
    fs::write(&path, config.to_string()).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    patch(&mut client, &json!({"channels": channels})).await;
    let texts = receiver.texts(1).await;
    assert!(texts[0].contains("stopped before it had answered"), "{texts:?}");
}
