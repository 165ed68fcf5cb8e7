//! The pages of settings: what is written by them.

use std::fs;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call};
use crate::support::SECRET;

#[tokio::test]
async fn settings_are_found_changed_in_the_form_and_as_text_and_checked() {
    let place = Place::new().await;
    let seen = place.look("config", json!({})).await;
    seen.check_but(&["GatewayRequestError: invalid config: gateway.port: "]);
    assert_eq!(seen.told["found"], json!(["Debounce MS"]));
    let shown = seen.told["shown"].as_str().unwrap();
    assert!(shown.contains("__OPENCLAW_REDACTED__") && !shown.contains(SECRET), "{shown}");
    let refusal = seen.told["refusal"].as_str().unwrap();
    assert!(refusal.contains("invalid config: gateway.port: "), "{refusal}");
    seen.check_calls(&["config.schema", "config.get", "config.openFile", "config.apply"]);

    let config = fs::read_to_string(place.gateway.config_path()).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["messages"], json!({"queue": {"debounceMs": 750}}));
    assert_eq!(config["session"], json!({"mainKey": "chief"}));
    assert_eq!(config["gateway"]["auth"]["token"], SECRET, "no secret is lost");
    assert_eq!(config["gateway"].get("port"), None);
    let seen = call(&mut admin(&place.gateway).await, "config.get", json!({})).await;
    assert_eq!(seen["runtimeConfig"]["session"]["mainKey"], "chief", "it is in use");
}
