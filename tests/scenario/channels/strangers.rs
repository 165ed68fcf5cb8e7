//! Channels that stand in the config and that this gateway does not have.

use serde_json::{Value, json};

use super::with_channels;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET};

/// What `channels status` prints on stdout.
async fn status(gateway: &Gateway, flags: &[&str]) -> String {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_clawgate"))
        .args(["channels", "status"])
        .args(flags)
        .args(["--url", &format!("ws://{}", gateway.address()), "--token", SECRET])
        .env_clear()
        .env("HOME", gateway.home())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_command_says_of_each_that_it_is_not_supported() {
    let mock = MockProvider::start().await;
    let channels = json!({"defaults": {"groupPolicy": "open"},
        "whatsapp": {"dmPolicy": "pairing"}, "discord": {"token": "a-token-of-discord"}});
    let config = with_channels(mock.address(), &channels);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let shown = status(&gateway, &[]).await;
    assert_eq!(shown, "whatsapp  not supported here\ndiscord   not supported here\n");
    let told: Value = serde_json::from_str(&status(&gateway, &["--json"]).await).unwrap();
    assert_eq!(told["notSupported"], json!(["whatsapp", "discord"]));
}
