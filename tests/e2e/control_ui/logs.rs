//! The page of the log.

use serde_json::{Value, json};

use super::Place;

#[tokio::test]
async fn the_log_is_followed_filtered_and_exported_on_its_page() {
    let place = Place::new().await;
    let seen = place.visit("logs", json!({})).await;
    let line = seen.told["exported"].as_str().unwrap().trim();
    let line: Value = serde_json::from_str(line).expect("the line as it is in the file");
    assert!(line.to_string().contains("device paired from this machine"), "{line}");
    let file = seen.told["file"].as_str().unwrap();
    let folder = place.gateway.state_dir().join("logs").display().to_string();
    assert!(file.contains(&folder), "{file}");
    assert!(seen.calls["logs.tail"] > 1, "it is not followed");
}
