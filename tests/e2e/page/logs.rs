//! The log on our page.

use serde_json::json;

use super::Place;
use crate::support::guest::Guest;

#[tokio::test]
async fn the_log_is_followed_filtered_and_searched_and_goes_on_after_a_restart() {
    let mut place =
        Place::with(|config| config["gateway"]["trustedProxies"] = json!(["127.0.0.1"])).await;
    let mut steps = place.begin("logs", "follows", json!({}));
    let asked = place.asked_for("knock", &mut steps).await;
    let guest = Guest::new("phone", &["operator.read"]).far();
    let request = guest.asks(&place.gateway).await;
    asked.done();
    let asked = place.asked_for("restart", &mut steps).await;
    place.gateway.restart_in_place().await;
    asked.done();
    let told = steps.await.unwrap();
    let line = told["line"].as_str().unwrap();
    assert!(line.contains(&request) && line.contains(&guest.id()), "{told}");
    assert!(told["fields"].as_str().unwrap().contains("\"source\""), "{told}");
    assert!(
        told["file"].as_str().unwrap().contains("WARN [auth/pairing] a device waits"),
        "{told}"
    );
}
