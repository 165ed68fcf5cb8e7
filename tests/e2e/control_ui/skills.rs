//! The page of skills.

use std::fs;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Place;
use crate::stage::{admin, call};

const KEY: &str = "key-of-the-forecasts";
const SKILLS: [(&str, &str); 2] = [
    ("greet", "description: Says hello"),
    (
        "weather",
        "description: Forecasts\nmetadata: {\"openclaw\": {\"primaryEnv\": \"WEATHER_KEY\", \
         \"requires\": {\"env\": [\"WEATHER_KEY\"]}}}",
    ),
];

/// A registry with one skill.
async fn registry() -> (String, JoinSet<()>) {
    let item = json!({"score": 1, "slug": "packing", "displayName": "Packing",
        "summary": "What to take along", "version": "1.2.0", "updatedAt": 7});
    let skill = json!({"slug": "packing", "displayName": "Packing",
        "summary": "What to take along", "createdAt": 1, "updatedAt": 7});
    let detail = json!({"skill": skill, "latestVersion": {"version": "1.2.0", "createdAt": 7}});
    let (found, detail) = (json!({"results": [item]}).to_string(), detail.to_string());
    let app = Router::new()
        .route("/api/v1/search", get(async move || found))
        .route("/api/v1/skills/packing", get(async move || detail));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, server)
}

#[tokio::test]
async fn skills_are_switched_given_their_key_and_looked_for_on_their_page() {
    let (url, _server) = registry().await;
    let place = Place::with_env(&[("OPENCLAW_CLAWHUB_URL", &url)]).await;
    for (name, head) in SKILLS {
        let folder = place.gateway.workspace().join("skills").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), format!("---\nname: {name}\n{head}\n---\nDo it.\n"))
            .unwrap();
    }
    let seen = place.visit("skills", json!({"key": KEY})).await;
    assert_eq!(seen.told["before"], json!(["All 2", "Ready 1", "Needs Setup 1", "Disabled 0"]));
    assert_eq!(seen.told["after"], json!(["All 2", "Ready 1", "Needs Setup 0", "Disabled 1"]));
    assert_eq!(seen.told["keyIsShown"], false);
    seen.check_calls(&["skills.status", "skills.update", "skills.search", "skills.detail"]);
    let config = fs::read_to_string(place.gateway.config_path()).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let entries = json!({"greet": {"enabled": false}, "weather": {"apiKey": KEY}});
    assert_eq!(config["skills"]["entries"], entries);
    let status = call(&mut admin(&place.gateway).await, "skills.status", json!({})).await;
    let skills = status["skills"].as_array().unwrap();
    let eligible = skills.iter().filter(|skill| skill["eligible"] == true);
    let names: Vec<_> = eligible.map(|skill| skill["name"].clone()).collect();
    assert_eq!(names, ["weather"], "{status}");
}
