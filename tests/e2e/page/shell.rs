//! The frame around the views of our page: signing out, phones, places.

use serde_json::json;

use super::Place;
use crate::support::SECRET;
use crate::support::guest::said;

#[tokio::test]
async fn signing_out_is_for_all_tabs_and_forgets_what_was_written() {
    let auth = json!({"mode": "password", "password": SECRET});
    let place = Place::with(|config| config["gateway"]["auth"] = auth).await;
    let kept = place.run("shell", "by_password", json!({})).await;
    assert_eq!(kept.as_array().unwrap().len(), 2, "{kept}");
    assert!(!kept.to_string().contains("a secret draft"), "{kept}");
}

#[tokio::test]
async fn a_tab_that_comes_in_while_another_one_signs_out_stays_out() {
    let place = Place::new().await;
    place.run("shell", "while_another_comes", json!({})).await;
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_noticed_once_the_browser_is_online() {
    Place::new().await.run("shell", "is_cut_off", json!({})).await;
}

#[tokio::test]
async fn who_is_let_in_without_a_word_is_asked_for_none_after_signing_out() {
    let place = Place::with(|config| config["gateway"]["auth"] = json!({"mode": "none"})).await;
    place.run("shell", "by_nothing", json!({})).await;
}

#[tokio::test]
async fn a_browser_without_keys_is_asked_for_the_token_where_pages_need_no_device() {
    let control_ui = json!({"dangerouslyDisableDeviceAuth": true});
    let place = Place::with(|config| config["gateway"]["controlUi"] = control_ui).await;
    place.run("shell", "without_keys", json!({})).await;
}

#[tokio::test]
async fn on_a_phone_every_view_and_signing_out_can_be_reached() {
    let place = Place::with(|config| {
        config["tools"] = json!({"exec": {"security": "allowlist", "ask": "on-miss"}});
    });
    let views = place.await.run("shell", "phone", json!({})).await;
    let all = ["Chat", "Sessions", "Cron", "Devices", "Usage", "Overview", "Logs", "Config"];
    assert_eq!(views, json!(all));
}

#[tokio::test]
async fn an_address_that_is_none_is_no_end_and_no_dialog_stays_above_another_view() {
    let place = Place::new().await;
    place.run("shell", "goes", json!({})).await;
}

/// Storages of the browser that are full, and that it refuses.
#[tokio::test]
async fn a_browser_that_keeps_nothing_says_things_where_they_belong() {
    for kind in ["full", "refused"] {
        let place = Place::new().await;
        let sent = place.run("shell", "forgetful", json!({"kind": kind})).await;
        assert_eq!(sent, json!([["agent:main:writing-desk", "for the desk"]]), "{kind}");
    }
}

#[tokio::test]
async fn the_theme_and_the_last_session_are_stored_as_text_and_back_leads_to_it() {
    Place::new().await.run("shell", "remembers", json!({})).await;
}

#[tokio::test]
async fn a_login_link_works_where_the_browser_refuses_its_storages() {
    let place = Place::new().await;
    let link = said(&place.gateway, &["dashboard", "--no-open"]).await;
    place.run("shell", "enters", json!({"link": link.trim()})).await;
}

#[tokio::test]
async fn a_token_that_is_not_right_can_be_typed_again_at_once() {
    Place::new().await.run("shell", "types_again", json!({})).await;
}
