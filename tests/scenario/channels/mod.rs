//! Channels through the real binary, with services of this process.

mod accounts;
pub mod bot_api;
mod busy;
mod buttons;
mod groups;
mod jobs;
mod media;
mod moved;
mod owner;
mod people;
pub mod receiver;
mod reminders;
mod replies;
mod results;
mod shown;
mod strangers;
mod telegram;
mod tool;
mod updates;
mod webhook;
mod workings;

use serde_json::{Value, json};

use crate::stage::{Api, admin, call, config, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, program};
use bot_api::{BotApi, TOKEN};

/// What signs, in all tests.
pub const SIGNING: &str = "a-secret-of-32-characters-or-more";

/// The config of a gateway with these channels.
pub fn with_channels(provider: &str, channels: &Value) -> Value {
    let mut config = config(provider, Api::OpenAi);
    config["channels"] = channels.clone();
    config["session"] = json!({"dmScope": "per-channel-peer"});
    config
}

/// A gateway with a bot of this API.
pub async fn with_bot(api: &BotApi, mock: &MockProvider, settings: &Value) -> Gateway {
    let mut telegram = json!({"botToken": TOKEN, "apiRoot": api.url(), "allowFrom": [7],
        "streaming": "off"});
    for (name, value) in settings.as_object().unwrap() {
        telegram[name] = value.clone();
    }
    let config = with_channels(mock.address(), &json!({"telegram": telegram}));
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// A client of a gateway whose webhook runs.
pub async fn with_webhook_running(gateway: &Gateway) -> WsClient {
    let mut client = admin(gateway).await;
    until("the channel runs", async || {
        let status = call(&mut client, "channels.status", json!({})).await;
        (status["channels"]["webhook"]["running"] == true).then_some(())
    })
    .await;
    client
}

/// Changes the config file by its method, which answers once that is in use.
pub async fn patch(client: &mut WsClient, change: &Value) {
    let hash = call(client, "config.get", json!({})).await["hash"].clone();
    call(client, "config.patch", json!({"raw": change.to_string(), "baseHash": hash})).await;
}

/// What the command prints, with its exit code.
pub async fn clawgate(gateway: &Gateway, args: &[&str]) -> (i32, String) {
    let output = tokio::process::Command::new(program())
        .args(args)
        .args(["--url", &format!("ws://{}", gateway.address()), "--token", SECRET])
        .env_clear()
        .env("HOME", gateway.home())
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), printed + &String::from_utf8_lossy(&output.stderr))
}
