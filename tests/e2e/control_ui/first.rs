//! The first connection of the Control UI.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn a_link_with_the_token_is_all_that_the_first_connection_takes() {
    let place = Place::new().await;
    let seen = place.visit("first", json!({})).await;
    let origin = format!("http://{}", place.gateway.address());
    assert_eq!(seen.told, json!({"url": format!("{origin}/chat?session=main")}));
    seen.check_calls(&["connect", "chat.history"]);
    assert_eq!(place.mock.requests().len(), 0);
}
