//! The chat of the Control UI.

use serde_json::{Value, json};

use super::Place;

/// The words `w1` to `w<last>` of a streamed answer.
fn words(last: usize) -> String {
    (1..=last).map(|at| format!("w{at}")).collect::<Vec<_>>().join(" ")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().filter_map(|text| Some(text.as_str()?.trim())).collect()
}

#[tokio::test]
async fn a_conversation_is_held_in_the_original_chat() {
    let place = Place::new().await;
    std::fs::write(place.gateway.workspace().join("note.txt"), "hello from a file").unwrap();
    let seen = place.visit("chat", json!({})).await;
    assert_eq!(seen.told["aborted"]["aborted"], true);
    let stopped = seen.told["stopped"].as_str().unwrap();
    assert!(stopped.starts_with(&words(3)) && words(400).starts_with(stopped), "{stopped}");
    assert_eq!(stopped, seen.told["texts"][3]);
    assert!(stopped.len() < words(400).len());
    let expected = [
        "@mock text text=\"Bold and code\"",
        "Bold and code",
        "@mock stream n=400 delay=25",
        stopped,
        "@mock tool name=read args={\"path\":\"note.txt\"} then=\"It says hello.\"",
        "It says hello.",
        "@mock stream n=60 delay=40",
        &words(60),
    ];
    assert_eq!(texts(&seen.told["texts"]), expected);
    seen.check_calls(&["chat.abort", "chat.history", "chat.send", "sessions.list"]);
}

#[tokio::test]
async fn sessions_models_images_and_commands_work_in_the_original_chat() {
    let place = Place::new().await;
    let seen = place.visit("controls", json!({})).await;
    let told = &seen.told;
    let made = told["made"].as_str().unwrap();
    assert!(made.starts_with("agent:main:dashboard:"), "{made}");
    assert_eq!(texts(&told["sessions"]), [made, "agent:main:main"]);
    let models = ["Default (Mock One)", "Mock One", "Mock Two", "Mock Think"];
    assert_eq!(texts(&told["models"]), models);
    assert_eq!(told["model"]["modelOverride"], "mock-2");
    assert_eq!(texts(&told["levels"]), ["", "off", "minimal", "low", "medium", "high"]);
    assert_eq!(told["image"], 40);
    let commands = texts(&told["commands"]);
    for command in ["/new", "/stop", "/compact", "/model", "/think", "/status", "/btw", "/steer"] {
        assert!(commands.contains(&command), "{command} is not in {commands:?}");
    }
    seen.check_calls(&[
        "agents.list",
        "chat.send",
        "commands.list",
        "models.list",
        "sessions.compact",
        "sessions.create",
        "sessions.patch",
        "sessions.reset",
        "sessions.steer",
    ]);
    // The model saw the picture.
    let saw = place.mock.requests().iter().any(|call| call.body.to_string().contains("image_url"));
    assert!(saw, "no picture was sent to the model");
}
