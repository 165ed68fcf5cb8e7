//! What somebody wrote on our page comes back as it was, or says why it does not.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn what_a_crash_cut_off_is_asked_again_in_the_words_in_which_it_was_written() {
    let mut place = Place::new().await;
    let mut steps = place.begin("words", "asks_again", json!({}));
    for _ in 0..2 {
        place.killed_and_started(&mut steps).await;
    }
    let told = steps.await.unwrap();
    assert!(told.as_str().unwrap().contains("once more"), "{told}");
}

#[tokio::test]
async fn long_messages_are_copied_and_recalled_whole_and_without_what_names_their_files() {
    Place::new().await.run("words", "comes_back", json!({})).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_comes_back_and_the_connection_stays() {
    let told = Place::new().await.run("words", "is_too_large", json!({})).await;
    let told = told.as_str().unwrap();
    assert!(told.contains("too large") && told.contains("attach"), "{told}");
}

#[tokio::test]
async fn a_session_that_begins_anew_shows_no_command_of_before() {
    Place::new().await.run("words", "begins_anew", json!({})).await;
}

#[tokio::test]
async fn a_session_is_shown_by_its_own_name_however_its_address_is_written() {
    Place::new().await.run("words", "is_named", json!({})).await;
}

#[tokio::test]
async fn what_is_written_before_a_session_has_its_own_name_goes_with_it() {
    let sent = Place::new().await.run("words", "is_named_late", json!({})).await;
    assert_eq!(sent[0]["sessionKey"], "agent:main:desk", "{sent}");
    assert_eq!(sent[0]["attachments"][0]["fileName"], "note.txt", "{sent}");
}

#[tokio::test]
async fn what_is_refused_once_its_session_has_its_own_name_comes_back_there_in_its_order() {
    Place::new().await.run("words", "is_refused_late", json!({})).await;
}
