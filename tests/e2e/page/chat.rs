//! Chat, sessions and approvals on our page.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn a_browser_signs_in_with_the_token_and_is_let_in_by_itself_afterwards() {
    let place = Place::new().await;
    let told = place.run("chat", "signs_in", json!({})).await;
    assert_eq!(told["foreign"], json!([]), "{told}");
    assert_eq!(told["isTokenKept"], false, "{told}");
}
