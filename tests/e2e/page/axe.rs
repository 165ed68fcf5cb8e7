//! Our page for everybody: what axe-core finds, names of controls, the keyboard.

use serde_json::json;

use super::Place;
use crate::stage::{admin, ask};
use crate::support::node;

const DESKTOP: (u32, u32) = (1280, 800);
const PHONE: (u32, u32) = (390, 844);

/// Looks at the login, each view and dialogs.
async fn look(theme: &str, (width, height): (u32, u32)) {
    let axe = node::package("axe-core").join("axe.min.js");
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    ask(&mut client, "main", "good morning", "r1").await;
    let screen = json!({"axe": axe, "theme": theme, "width": width, "height": height});
    let told = place.run("axe", "finds", screen).await;
    assert_eq!(told["violations"], json!([]));
    assert!(told["looked"].as_u64().unwrap() >= 6, "{told}");
}

#[tokio::test]
async fn axe_finds_nothing_on_a_light_desktop() {
    look("light", DESKTOP).await;
}

#[tokio::test]
async fn axe_finds_nothing_on_a_dark_desktop() {
    look("dark", DESKTOP).await;
}

#[tokio::test]
async fn axe_finds_nothing_on_a_light_phone() {
    look("light", PHONE).await;
}

#[tokio::test]
async fn axe_finds_nothing_on_a_dark_phone() {
    look("dark", PHONE).await;
}

#[tokio::test]
async fn every_control_has_a_name_and_every_view_is_reached_and_left_by_keyboard() {
    let place = Place::new().await;
    let told = place.run("axe", "by_keyboard", json!({})).await;
    assert_eq!(told["nameless"], json!([]), "{told}");
    assert_eq!(told["unreached"], json!([]), "{told}");
    assert_eq!(told["unseen"], json!([]), "{told}");
}
