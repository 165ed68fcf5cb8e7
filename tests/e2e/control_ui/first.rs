//! The first connection of the Control UI.

use serde_json::json;

use super::Place;
use crate::support::SECRET;

#[tokio::test]
async fn a_link_with_the_token_is_all_that_the_first_connection_takes() {
    let place = Place::new().await;
    let seen = place.visit("first", json!({"way": "link"})).await;
    println!("{:#?}", seen.told);
    assert!(!seen.told["stored"].as_str().unwrap().contains(SECRET));
}

#[tokio::test]
async fn typing_the_token_once_is_all_that_it_takes_without_a_link() {
    let place = Place::new().await;
    let seen = place.look("first", json!({"way": "form"})).await;
    println!("{seen:#?}");
}

#[tokio::test]
async fn a_gateway_without_a_secret_asks_for_nothing() {
    let place = Place::with(|config| config["gateway"]["auth"] = json!({"mode": "none"})).await;
    let seen = place.visit("first", json!({"way": "open"})).await;
    println!("{:#?}", seen.told);
}
