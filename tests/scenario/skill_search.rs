//! Looking for skills here, and in a registry.

use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::stage::{Api, admin, call, config, refusal, scripted};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// What the registry was asked, with its token.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

async fn answer(State(asked): State<Asked>, uri: Uri, headers: HeaderMap) -> Response {
    let token = headers.get("authorization").map(|it| it.to_str().unwrap().to_owned());
    asked.lock().push((uri.to_string(), token.unwrap_or_default()));
    let body = match uri.path() {
        "/api/v1/search" => {
            json!({"results": [{"score": 0.9, "slug": "weather", "displayName": "Weather",
            "summary": "Forecasts", "version": "1.2.0", "updatedAt": 7, "secret": "x"}, {"score": 1}]})
        }
        "/api/v1/skills/weather" => json!({"skill": {"slug": "weather", "displayName": "Weather",
            "createdAt": 1, "updatedAt": 7}, "latestVersion": {"version": "1.2.0", "createdAt": 7}}),
        "/api/v1/skills/moved" => {
            return (StatusCode::FOUND, [("location", "/api/v1/skills/weather")]).into_response();
        }
        "/api/v1/skills/broken" => {
            return (StatusCode::INTERNAL_SERVER_ERROR, "hub-token?").into_response();
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    body.to_string().into_response()
}

async fn registry() -> (String, Asked, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let app = Router::new().fallback(answer).with_state(Arc::clone(&asked));
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, asked, server)
}

#[tokio::test]
async fn a_registry_that_is_configured_is_asked() {
    let (url, asked, _server) = registry().await;
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi))
        .env("OPENCLAW_CLAWHUB_URL", &url)
        .env("OPENCLAW_CLAWHUB_TOKEN", "hub-token");
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let found =
        call(&mut client, "skills.search", json!({"query": "rain & sun", "limit": 5})).await;
    let expected = json!({"results": [{"score": 0.9, "slug": "weather", "displayName": "Weather",
        "summary": "Forecasts", "version": "1.2.0", "updatedAt": 7}]});
    assert_eq!(found, expected);
    let first = asked.lock()[0].clone();
    assert_eq!(first, ("/api/v1/search?q=rain+%26+sun&limit=5".into(), "Bearer hub-token".into()));
    let detail = call(&mut client, "skills.detail", json!({"slug": "weather"})).await;
    assert_eq!(detail["latestVersion"], json!({"version": "1.2.0", "createdAt": 7}));
    assert_eq!((&detail["skill"]["slug"], &detail["owner"]), (&json!("weather"), &Value::Null));
    let text = refusal(&mut client, "skills.detail", json!({"slug": "none"})).await;
    assert_eq!(text, "Skill not found: none");
    let text = refusal(&mut client, "skills.detail", json!({"slug": "../../x"})).await;
    assert_eq!(text, "Skill not found: ../../x");
    let text = refusal(&mut client, "skills.detail", json!({"slug": "broken"})).await;
    assert_eq!(text, "ClawHub /api/v1/skills/broken failed (500): …?");
    let text = refusal(&mut client, "skills.detail", json!({"slug": "moved"})).await;
    assert!(text.contains("failed (302)"), "{text}");
    assert!(!gateway.stderr().contains("hub-token"));
}

#[tokio::test]
async fn without_a_registry_the_skills_that_are_here_are_found() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    for (name, about) in [("weather", "Forecasts of rain"), ("notes", "Writes about weather, too")]
    {
        let dir = gateway.workspace().join("skills").join(name);
        fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: {about}\n---\nBODY\n");
        fs::write(dir.join("SKILL.md"), text).unwrap();
    }
    let mut client = admin(&gateway).await;
    let names = |answer: &Value| -> Vec<String> {
        let results = answer["results"].as_array().unwrap().iter();
        results.map(|it| it["slug"].as_str().unwrap().to_owned()).collect()
    };
    let found = call(&mut client, "skills.search", json!({"query": "Weather"})).await;
    assert_eq!(names(&found), ["weather", "notes"]);
    let found = call(&mut client, "skills.search", json!({"query": "weather rain"})).await;
    assert_eq!(names(&found), ["weather"]);
    let found = call(&mut client, "skills.search", json!({"limit": 1})).await;
    assert_eq!(names(&found), ["notes"]);
    let detail = call(&mut client, "skills.detail", json!({"slug": "weather"})).await;
    assert_eq!(detail["skill"]["summary"], "Forecasts of rain");
    assert!(detail["skill"]["updatedAt"].as_u64().unwrap() > 0);
    for (method, params) in [
        ("skills.search", json!({"query": "nothing"})),
        ("skills.detail", json!({"slug": "nothing"})),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["code"], "UNAVAILABLE");
        assert_eq!(answer["error"]["details"]["code"], "REGISTRY_NOT_CONFIGURED");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains("OPENCLAW_CLAWHUB_URL"), "{text}");
    }
}
