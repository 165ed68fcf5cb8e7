//! The gateway at a glance, on our page.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::Place;
use crate::stage::admin;

#[tokio::test]
async fn the_chart_of_connections_rises_when_clients_connect_and_falls_when_they_go() {
    let mut place = Place::new().await;
    let mut steps = place.begin("overview", "counts", json!({}));
    let asked = place.asked_for("connect", &mut steps).await;
    let clients = [admin(&place.gateway).await, admin(&place.gateway).await];
    asked.done();
    let asked = place.asked_for("disconnect", &mut steps).await;
    drop(clients);
    asked.done();
    let told = steps.await.unwrap();
    assert_eq!(told["counts"], json!([1, 3, 1]), "{told}");
    // The sample that was taken meanwhile is in the table, and the methods that are
    // timed are those that the page has called.
    assert!(told["rows"].as_u64().unwrap() > 0, "{told}");
    assert!(told["named"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["uncalled"], json!([]), "{told}");
}

#[tokio::test]
async fn a_part_that_is_not_well_is_named_with_since_when_and_what_to_do() {
    let mut place = Place::new().await;
    let mut steps = place.begin("overview", "degrades", json!({}));
    let asked = place.asked_for("break", &mut steps).await;
    fs::write(place.gateway.config_path(), "{gateway: {port: 'x'}}").unwrap();
    asked.done();
    let told = steps.await.unwrap();
    let part = told["part"].as_str().unwrap();
    assert!(part.contains("gateway.port") && part.contains("Since"), "{told}");
    assert_eq!(told["advice"], "#/config", "{told}");
}

#[tokio::test]
async fn a_restart_is_confirmed_first_and_the_page_comes_back() {
    let place = Place::new().await;
    let client = admin(&place.gateway).await;
    let told = place.run("overview", "restarts", json!({})).await;
    assert_eq!(told["cancelled"], 0, "{told}");
    assert_eq!(told["requests"], 1, "{told}");
    let closed = client.wait_closed(Duration::from_secs(10)).await;
    assert_eq!(closed.expect("the gateway says goodbye").code, 1012);
}
