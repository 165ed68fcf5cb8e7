//! The smallest client of the action chat's document, as a page in Chromium:
//! conversation, words, approval by a button, a picture, and coming back after the
//! gateway was killed.

use std::fs;

use serde_json::json;

use crate::page::Place;
use crate::stage::admin;
use crate::support::{Browser, SECRET};

/// A page that the gateway does not serve, but knows.
const PAGE: &str = "http://chat.example/";
const HTML: &str = include_str!("../node/action-chat.html");
/// The smallest PNG there is.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

#[tokio::test]
#[allow(clippy::disallowed_methods)] // no supervisor in a test
async fn the_smallest_client_talks_approves_shows_pictures_and_comes_back() {
    let mut place = Place::with(|config| {
        config["gateway"]["controlUi"] = json!({"allowedOrigins": [PAGE.trim_end_matches('/')]});
        config["tools"]["exec"] = json!({"ask": "always"});
    })
    .await;
    fs::write(place.gateway.workspace().join("dot.png"), PNG).unwrap();
    let socket = format!("ws://{}/api/chat/ws?token={SECRET}", place.gateway.address());
    let html = HTML.replace("{{SOCKET}}", &socket);
    let runs = json!({"command": "echo ran && touch ran"});
    let args = json!({
        "page": PAGE, "control": place.control(),
        "runs": format!("@mock tool name=exec args={runs} then=\"that was it\""),
        "pictures": "@mock text text=\"Look.\\nMEDIA:dot.png\"",
        "picture": std::env::var("CLAWGATE_PICTURE").ok(),
    });
    let browser = Browser::new().page(PAGE, &html);
    let mut steps = tokio::spawn(async move { browser.run("tests/e2e/chat_page.mjs", args).await });
    let asked = place.asked_for("restart", &mut steps).await;
    place.gateway.restart_in_place().await;
    asked.done();
    let told = steps.await.unwrap();
    assert_eq!(told["first"], told["again"], "{told}");
    assert!(told["approved"].as_str().unwrap().contains("ran"), "{told}");
    assert!(told["rejected"].as_str().unwrap().contains("Exec denied"), "{told}");
    assert!(told["help"].as_str().unwrap().contains("/status"), "{told}");
    assert_eq!((&told["picture"], &told["errors"]), (&json!(1), &json!(0)), "{told}");
    // All of it is one conversation.
    let mut client = admin(&place.gateway).await;
    let list = crate::stage::call(&mut client, "sessions.list", json!({})).await;
    let rows = list["sessions"].as_array().unwrap();
    let ours = rows.iter().filter(|row| row["sessionId"] == told["first"]).count();
    assert_eq!((ours, rows.len()), (1, 1), "{list}");
}
