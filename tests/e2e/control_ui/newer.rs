//! A Control UI that came after the release whose wire was recorded, and speaks protocol 4
//! alone. It asks for much that is not here; its chat works.

use serde_json::json;

use super::Place;
use crate::support::openclaw::OF_PROTOCOL_4;

#[tokio::test]
async fn a_newer_ui_shows_what_is_said_and_answered_once() {
    let ui = tokio::task::spawn_blocking(|| OF_PROTOCOL_4.installed()).await.unwrap();
    let place = Place::with(|config| {
        config["gateway"]["controlUi"] =
            json!({"root": ui.script.with_file_name("dist/control-ui")});
    })
    .await;
    // Longer than the title that the session gets of it.
    let text = format!("@mock text text=\"good morning\" {}", "said at length ".repeat(9).trim());
    let message = json!({"text": text, "answer": "good morning"});
    let seen = place.look("newer", message).await;
    assert_eq!(seen.told, 1);
    assert!(seen.calls.contains_key("chat.startup"), "{:?}", seen.calls);
}
