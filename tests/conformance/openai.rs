//! The recorded requests of the API of OpenAI, sent again. Ids, times and counts
//! of tokens are others each time: the prompts are not those of the original.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::corpus::Corpus;
use super::setup;
use super::trace::What;
use crate::support::{Gateway, GatewayOptions, MockProvider};

const TRACES: [&str; 4] =
    ["http/openai-chat", "http/openai-responses", "http/auth-none", "http/auth-password"];
const HEADERS: [&str; 7] = [
    "content-type",
    "cache-control",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
    "retry-after",
    "allow",
];

/// What differs on purpose: a part of the request's path or body, what of its
/// answer, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("POST /v1/models", "allow", "Who may GET may HEAD."),
    ("{oops", "body", "What is wrong with it is said in the words of another parser."),
    ("openclaw/nope", "status", "An agent that there is not does not answer."),
    ("openclaw/nope", "body", "And that is said."),
    (
        "err status=500\\\"}],\\\"stream\\\":true",
        "sse",
        "A failure is an error, not an answer without a word.",
    ),
    (
        "name=my_tool",
        "body",
        "The model is not asked again before the client has done what it called for.",
    ),
];

/// A value with what is other each time made the same.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let is_number = name.ends_with("_tokens") || name.starts_with("created");
                let value = if is_number && value != 0 { json!(1) } else { plain(value) };
                (name.clone(), value)
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::String(text) => {
            let known = ["chatcmpl_", "resp_", "msg_", "call_"];
            let prefix = known.iter().find(|prefix| text.starts_with(**prefix));
            prefix.map_or_else(|| value.clone(), |prefix| json!(prefix))
        }
        other => other.clone(),
    }
}

fn body(text: &str) -> Value {
    serde_json::from_str::<Value>(text).map_or_else(|_| json!(text), |value| plain(&value))
}

/// Names and data of a stream, in their order.
fn pieces(text: &str) -> Value {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(':'));
    lines
        .map(|line| match line.strip_prefix("data: ") {
            Some(data) => body(data),
            None => json!(line),
        })
        .collect()
}

struct Answer {
    status: u16,
    headers: Value,
    text: String,
}

async fn ask(client: &Client, gateway: &Gateway, req: &Value) -> Answer {
    let url = format!("http://{}{}", gateway.address(), req["path"].as_str().unwrap());
    let method: Method = req["method"].as_str().unwrap().parse().unwrap();
    let mut request = client.request(method, url);
    for (name, value) in req["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap());
    }
    if let Some(body) = req["body"].as_str() {
        request = request.body(body.to_owned());
    }
    let response = request.send().await.unwrap();
    let header = |name: &&str| {
        let value = response.headers().get(*name)?.to_str().unwrap();
        Some(((*name).to_owned(), json!(value)))
    };
    let headers = Value::Object(HEADERS.iter().filter_map(header).collect());
    Answer { status: response.status().as_u16(), headers, text: response.text().await.unwrap() }
}

/// What of an answer is not as it was recorded.
fn mismatches(res: &Value, answer: &Answer) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut compare = |what: &'static str, recorded: Value, now: Value| {
        if recorded != now {
            found.push((what, format!("recorded {recorded}, now {now}")));
        }
    };
    compare("status", res["status"].clone(), json!(answer.status));
    for name in HEADERS {
        compare(name, res["headers"][name].clone(), answer.headers[name].clone());
    }
    match res["sse"].as_array() {
        None => {
            compare("body", body(res["body"].as_str().unwrap_or_default()), body(&answer.text));
        }
        Some(sse) => {
            let recorded: String = sse.iter().filter_map(|piece| piece["text"].as_str()).collect();
            compare("sse", pieces(&recorded), pieces(&answer.text));
        }
    }
    found
}

/// What was cut in the recording cannot be sent again.
fn whole_body(req: &Value) -> Option<Value> {
    let mut req = req.clone();
    let text = req["body"].as_str().unwrap_or_default();
    if text.ends_with("chars>") {
        let is_one_text = text.contains("\"input\":\"x") && text.ends_with("<8224 chars>");
        let input = "x".repeat(8193);
        req["body"] = json!(json!({"model": "openclaw", "input": input}).to_string());
        return is_one_text.then_some(req);
    }
    Some(req)
}

#[tokio::test]
async fn the_recorded_requests_of_openais_api_are_answered_as_recorded() {
    let corpus = Corpus::find();
    let names = corpus.names();
    let wanted = std::env::var("CLAWGATE_CONFORMANCE").unwrap_or_default();
    let (mut wrong, mut used, mut compared) = (Vec::new(), Vec::new(), 0);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    for name in TRACES.iter().filter(|name| names.iter().any(|known| known == *name)) {
        if wanted.starts_with("http/") && !super::glob(&wanted, name) {
            continue;
        }
        let provider = MockProvider::start().await;
        let config = setup::config(name, provider.address());
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        for line in &corpus.load(name).lines {
            let What::Http { req, res } = &line.what else { continue };
            let is_ours = req["path"].as_str().is_some_and(|path| path.starts_with("/v1/"));
            let Some(req) = whole_body(req).filter(|_| is_ours && res["status"].is_u64()) else {
                continue;
            };
            compared += 1;
            let what = format!("{} {} {}", req["method"], req["path"], req["body"]);
            let what = what.replacen('"', "", 4);
            for (part, text) in mismatches(res, &ask(&client, &gateway, &req).await) {
                let meant = DIFFERENCES
                    .iter()
                    .position(|(request, meant, _)| what.contains(request) && *meant == part);
                match meant {
                    Some(index) => used.push(index),
                    None => wrong.push(format!("{name}:{}: {what}: {part}: {text}", line.number)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if corpus.complete && !wanted.starts_with("http/") {
        assert!(compared > 45, "{compared}");
        let unused: Vec<_> = (0..DIFFERENCES.len()).filter(|index| !used.contains(index)).collect();
        assert!(unused.is_empty(), "nothing needs these differences: {unused:?}");
    }
}
