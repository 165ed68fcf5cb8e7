//! The pages of settings: that all of them can be shown.

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call};

fn has(told: &Value, page: &str, sections: &[&str]) {
    let shown = &told["sections"][page];
    for section in sections {
        assert!(shown.as_array().unwrap().contains(&json!(section)), "{page}: {shown}");
    }
}

#[tokio::test]
async fn every_section_of_the_settings_can_be_shown_and_the_look_stays() {
    let place = Place::new().await;
    let seen = place.visit("settings", json!({})).await;
    has(&seen.told, "communications", &["Channels", "Messages", "Talk"]);
    has(&seen.told, "automation", &["Commands", "Bindings", "Cron"]);
    has(&seen.told, "infrastructure", &["Gateway", "Mcp"]);
    has(&seen.told, "ai-agents", &["Agents", "Models", "Skills", "Tools", "Session"]);
    has(&seen.told, "appearance", &["Theme", "Setup Wizard"]);
    has(&seen.told, "config", &["Environment", "Authentication", "Logging", "Secrets"]);
    assert_eq!(seen.told["before"], json!({"theme": "light", "radius": "10px"}));
    assert_eq!(seen.told["after"]["theme"], "openknot-light");
    assert_ne!(seen.told["after"]["radius"], seen.told["before"]["radius"]);
    let config = call(&mut admin(&place.gateway).await, "config.get", json!({})).await;
    let defaults = &config["parsed"]["agents"]["defaults"];
    assert_eq!(defaults["bootstrapMaxChars"], 50_000, "{defaults}");
    seen.check_calls(&["doctor.memory.status", "doctor.memory.dreamDiary", "config.schema"]);
}
