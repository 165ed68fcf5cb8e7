//! The chat of the Control UI.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn a_conversation_is_held_in_the_original_chat() {
    let place = Place::new().await;
    std::fs::write(place.gateway.workspace().join("note.txt"), "hello from a file").unwrap();
    let seen = place.visit("chat", json!({})).await;
    std::fs::write("/tmp/ui1/told.json", seen.told.to_string()).unwrap();
    seen.check_calls(&["chat.send", "chat.abort"]);
}
