//! Files that are too large for a message, on our page.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Place;
use crate::stage::until;

/// Where pictures of the page are put, if anywhere.
fn picture() -> Value {
    json!(std::env::var("CLAWGATE_PICTURE").ok())
}

#[tokio::test]
async fn a_picture_larger_than_a_frame_is_uploaded_and_reaches_the_provider() {
    let place = Place::with(|config| config["agents"]["defaults"]["mediaMaxMb"] = json!(40)).await;
    let size = 28_000_000;
    let told = place.run("uploads", "sends", json!({"size": size, "picture": picture()})).await;
    let sent = &told[0];
    assert_eq!((&sent["type"], &sent["fileName"]), (&json!("image"), &json!("holiday.png")));
    assert_eq!(sent.get("content"), None, "it is not in the message");
    let id = sent["uploadId"].as_str().unwrap();
    let bytes = fs::read(place.gateway.state_dir().join("media/inbound").join(id)).unwrap();
    assert_eq!(bytes.len(), size);
    let asked = place.mock.requests().last().unwrap().body.to_string();
    assert!(asked.contains(&STANDARD.encode(&bytes)), "the whole picture");
}

#[tokio::test]
async fn an_upload_shows_how_far_it_is_and_can_be_cancelled() {
    let most = 9_000_000;
    let place =
        Place::with(|config| config["gateway"]["http"] = json!({"uploads": {"maxBytes": most}}))
            .await;
    let posts = place.run("uploads", "cancels", json!({"most": most, "picture": picture()})).await;
    assert_eq!(posts, 0);
    let media = place.gateway.state_dir().join("media/uploads");
    let left = |folder: &str| fs::read_dir(media.join(folder)).map_or(0, Iterator::count);
    until("nothing is left", async || (left("partial") + left("files") == 0).then_some(())).await;
}

#[tokio::test]
async fn a_message_waits_for_the_file_that_was_attached_before_it_was_sent() {
    let place = Place::new().await;
    let sent = place.run("uploads", "waits", json!({})).await;
    assert_eq!(sent, json!([["film.mp4"]]));
}

#[tokio::test]
async fn a_folder_that_is_dropped_is_told_of_and_the_files_beside_it_are_taken() {
    let place = Place::new().await;
    let folder = place.gateway.home().join("photos");
    let file = place.gateway.home().join("note.txt");
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "a note").unwrap();
    let told = place.run("uploads", "drops", json!({"folder": folder, "file": file})).await;
    assert!(told.as_str().unwrap().contains("photos cannot be read"), "{told}");
}

#[tokio::test]
async fn a_large_file_waits_for_the_connection_and_is_uploaded_then() {
    let mut place = Place::new().await;
    let mut steps = place.begin("uploads", "waits_for_the_connection", json!({}));
    place.killed_and_started(&mut steps).await;
    let sent = steps.await.unwrap();
    assert_eq!(sent, json!([["film.mp4", "later.mp4"]]));
}

#[tokio::test]
async fn an_upload_that_nothing_lets_through_is_given_up_and_so_is_a_file_that_is_gone() {
    let place = Place::new().await;
    let file = place.gateway.home().join("gone.mp4");
    fs::write(&file, vec![b'f'; 5_000_000]).unwrap();
    let told = place.run("uploads", "gives_up", json!({"file": file})).await;
    assert_eq!(told[0], json!(["gone.mp4", "film.mp4", "film.mp4", "film.mp4"]));
    let told = told[1].to_string();
    for why in ["gone.mp4 cannot be read any more", "film.mp4 was not uploaded: it was cut off"] {
        assert!(told.contains(why), "{told}");
    }
}
