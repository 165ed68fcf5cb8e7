//! Our page for everybody: what axe-core finds, names of controls, the keyboard.

use serde_json::json;

use super::Place;
use crate::stage::{admin, ask};
use crate::support::node;

#[tokio::test]
async fn axe_finds_nothing_in_any_view_or_dialog_light_or_dark_on_a_desktop_or_a_phone() {
    let axe = node::package("axe-core").join("axe.min.js");
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    ask(&mut client, "main", "good morning", "r1").await;
    let told = place.run("axe", "finds", json!({"axe": axe})).await;
    assert_eq!(told["violations"], json!([]));
    // The login, each view twice, dialogs: on two screens in two themes.
    assert!(told["looked"].as_u64().unwrap() >= 20, "{told}");
}

#[tokio::test]
async fn every_control_has_a_name_and_every_view_is_reached_and_left_by_keyboard() {
    let place = Place::new().await;
    let told = place.run("axe", "by_keyboard", json!({})).await;
    assert_eq!(told["nameless"], json!([]), "{told}");
    assert_eq!(told["unreached"], json!([]), "{told}");
    assert_eq!(told["unseen"], json!([]), "{told}");
}
