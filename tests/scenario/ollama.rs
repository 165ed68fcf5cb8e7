//! A model of an Ollama that is named but not described.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stage::{admin, ask, row, text_of};
use crate::support::{Gateway, GatewayOptions, default_config};

pub type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// Knows one model, which it lists to nobody; answers where it is and what it
/// was asked.
pub async fn serve() -> (String, Asked) {
    let asked = Asked::default();
    let app = Router::new().fallback(answer).with_state(Arc::clone(&asked));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods)] // no supervisor in a test
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, asked)
}

async fn answer(State(asked): State<Asked>, request: Request) -> String {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
    let path = head.uri.path().to_owned();
    let answer = match path.as_str() {
        "/api/tags" => json!({"models": []}).to_string(),
        "/api/show" => json!({
            "model_info": {"llama.context_length": 4096}, "capabilities": ["completion"],
        })
        .to_string(),
        _ => "{\"message\":{\"content\":\"hi\"},\"done\":false}\n{\"message\":{},\"done\":true}\n"
            .into(),
    };
    asked.lock().push((path, serde_json::from_slice(&body).unwrap_or_default()));
    answer
}

#[tokio::test]
async fn the_server_is_asked_for_the_context_length_when_a_model_is_first_used() {
    let (address, asked) = serve().await;
    let mut config = default_config("http://127.0.0.1:9");
    config["models"] = json!({});
    config["agents"]["defaults"]["model"] = json!({"primary": "ollama/later:1b"});
    let options = GatewayOptions::with_config(config).env("OLLAMA_HOST", &address);
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    assert_eq!(*asked.lock(), [], "the start waits for no server");

    let end = ask(&mut client, "main", "hello", "r1").await;
    assert_eq!(text_of(&end["message"]), "hi");
    let first = std::mem::take(&mut *asked.lock());
    let paths: Vec<_> = first.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/api/show", "/api/chat"]);
    assert_eq!(first[0].1, json!({"model": "later:1b"}));
    assert_eq!(first[1].1["options"]["num_ctx"], 4096);
    assert_eq!(first[1].1.get("tools"), None, "it has none");
    assert_eq!(row(&mut client, "agent:main:main").await["contextTokens"], 4096);

    ask(&mut client, "other", "again", "r2").await;
    let second = asked.lock().clone();
    let paths: Vec<_> = second.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/api/chat"], "it is asked once");
}
