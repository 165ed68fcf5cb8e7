//! The API of OpenAI on the gateway's port: what clients get, and what they do by
//! going away. Its recordings are in the conformance tests.

mod addresses;
mod chat;
mod clients;
mod description;
mod embeddings;
mod responses;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::stage::{Api, config};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET};

/// A gateway that has the API, and its models.
pub async fn offering() -> (Gateway, MockProvider) {
    offering_with(|_| ()).await
}

/// The same with a changed configuration.
pub async fn offering_with(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    config["agents"]["list"] = json!([{"id": "main"}, {"id": "ops"}]);
    config["agents"]["defaults"]["memorySearch"] =
        json!({"provider": "mock", "model": "mock-embed"});
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

/// A request with the gateway's token.
pub fn post(gateway: &Gateway, path: &str, body: &Value) -> RequestBuilder {
    let url = format!("http://{}{path}", gateway.address());
    let request = client().post(url).bearer_auth(SECRET);
    request.header("content-type", "application/json").body(body.to_string())
}

/// The status and the body of an answer.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// The data of a stream, and whether it ended as it should.
pub async fn pieces(request: RequestBuilder) -> (Vec<Value>, bool) {
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let text = response.text().await.unwrap();
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let is_done = data.last() == Some(&"[DONE]");
    let pieces = data.into_iter().filter(|line| *line != "[DONE]");
    (pieces.map(|line| serde_json::from_str(line).unwrap()).collect(), is_done)
}
