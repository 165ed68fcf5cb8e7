//! What clients of Claude sessions ask for by HTTP, over real sockets.

mod lists;
mod sessions;
mod states;
mod stream;
mod theirs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::control_ui::http;
use crate::support::{Gateway, SECRET};

const SESSIONS: &str = "/api/claude/sessions";

/// Status and body of an answer.
async fn ask(gateway: &Gateway, method: Method, path: &str, body: Value) -> (u16, Value) {
    let url = format!("http://{}{path}", gateway.address());
    let mut request = http().request(method, url).bearer_auth(SECRET);
    if !body.is_null() {
        request = request.body(body.to_string());
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}")))
}

async fn get(gateway: &Gateway, path: &str) -> (u16, Value) {
    ask(gateway, Method::GET, path, Value::Null).await
}

pub async fn post(gateway: &Gateway, path: &str, body: Value) -> (u16, Value) {
    ask(gateway, Method::POST, path, body).await
}

/// The body of a request that must be answered well.
pub async fn good(answer: impl Future<Output = (u16, Value)>) -> Value {
    let (status, body) = answer.await;
    assert_eq!(status, 200, "{body}");
    body
}

fn error(text: &str) -> Value {
    json!({ "error": text })
}

/// A new session; its id.
async fn begin(gateway: &Gateway, body: Value) -> String {
    let made = good(post(gateway, SESSIONS, body)).await;
    made["id"].as_str().unwrap().to_owned()
}

/// The line of a session in the long list, if it has one.
pub async fn line(gateway: &Gateway, id: &str) -> Option<Value> {
    let list = good(get(gateway, &format!("{SESSIONS}/all?limit=100"))).await;
    let lines = list["sessions"].as_array().unwrap();
    lines.iter().find(|line| line["id"] == id).cloned()
}

async fn state(gateway: &Gateway, id: &str) -> String {
    let line = line(gateway, id).await.unwrap_or_else(|| panic!("{id} is not listed"));
    line["sessionState"].as_str().unwrap().to_owned()
}

fn path(id: &str, rest: &str) -> String {
    format!("{SESSIONS}/{id}{rest}")
}
