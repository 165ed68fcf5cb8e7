//! The page of channels.

use std::fs;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call};

const HOOK_SECRET: &str = "sixteen-letters-of-ours";

#[tokio::test]
async fn a_channel_is_configured_by_its_form_and_runs_at_once() {
    let place = Place::new().await;
    let seen = place.look("channels", json!({"secret": HOOK_SECRET})).await;
    // Before the gateway has told its channels, the UI shows each that it knows.
    seen.check_but(&["Channel config schema unavailable."]);
    assert_eq!(seen.told["cards"], json!(["Telegram", "Webhook"]));
    assert_eq!(seen.told["secretIsShown"], false);
    seen.check_calls(&["channels.status", "config.schema", "config.get", "config.set"]);
    let config = fs::read_to_string(place.gateway.config_path()).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let webhook = json!({"secret": HOOK_SECRET, "url": "http://127.0.0.1:9/answers"});
    assert_eq!(config["channels"], json!({"webhook": webhook}));
    let status = call(&mut admin(&place.gateway).await, "channels.status", json!({})).await;
    assert_eq!(status["channels"]["webhook"]["running"], true, "{status}");
    assert_eq!(status["channelOrder"], json!(["webhook", "telegram"]));
}
