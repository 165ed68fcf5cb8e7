//! `POST /tools/invoke` and the paths below `/sessions`, over real sockets.

mod follow;
mod history;
mod kill;
mod tools;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::control_ui::http;
use crate::stage::{Api, config};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET};

/// A gateway with this change of its configuration.
async fn gateway(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// A gateway of this machine that asks for no credential.
async fn open_gateway() -> (Gateway, MockProvider) {
    gateway(|config| config["gateway"]["auth"] = json!({"mode": "none"})).await
}

fn asking(gateway: &Gateway, method: Method, path: &str) -> RequestBuilder {
    http().request(method, format!("http://{}{path}", gateway.address()))
}

/// Status and text of an answer.
async fn answer(request: RequestBuilder) -> (u16, String) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// Status and JSON of an answer to somebody with the gateway's token.
async fn told(request: RequestBuilder) -> (u16, Value) {
    let (status, text) = answer(request.bearer_auth(SECRET)).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// `{ok: false, error: {type, message}}`.
fn failed(kind: &str, message: &str) -> Value {
    json!({"ok": false, "error": {"type": kind, "message": message}})
}
