//! Channels through the real binary, with services of this process.

pub mod bot_api;
mod media;
mod people;
pub mod receiver;
mod telegram;
mod tool;
mod webhook;

use serde_json::{Value, json};

use crate::stage::{Api, config};

/// What signs, in all tests.
pub const SIGNING: &str = "a-secret-of-32-characters-or-more";

/// The config of a gateway with these channels.
pub fn with_channels(provider: &str, channels: &Value) -> Value {
    let mut config = config(provider, Api::OpenAi);
    config["channels"] = channels.clone();
    config["session"] = json!({"dmScope": "per-channel-peer"});
    config
}
