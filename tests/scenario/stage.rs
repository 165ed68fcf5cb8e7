//! A gateway with its models, and what tests say to it and read from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::aimock::Aimock;
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// How long a run may take that a test waits for.
pub const RUN_LIMIT: Duration = Duration::from_secs(60);

/// The API that the gateway's default model is asked by.
#[derive(Debug, Clone, Copy)]
pub enum Api {
    OpenAi,
    Anthropic,
}

/// Runs each scenario with both APIs, as two tests.
macro_rules! with_both_apis {
    ($($scenario:ident;)*) => {
        mod openai_completions {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario($crate::stage::Api::OpenAi).await;
            })*
        }

        mod anthropic_messages {
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario($crate::stage::Api::Anthropic).await;
            })*
        }
    };
}
pub(crate) use with_both_apis;

/// A gateway whose models the third-party mock server plays.
pub struct Stage {
    pub gateway: Gateway,
    pub mock: Aimock,
}

impl Stage {
    pub async fn new(api: Api) -> Self {
        Self::with_mock(Aimock::start(), api).await
    }

    /// Where messages to a busy session are handled in this mode.
    pub async fn queueing(api: Api, mode: &str) -> Self {
        let mock = Aimock::start();
        let config = queueing_config(mock.address(), api, mode);
        Self { gateway: Gateway::start(GatewayOptions::with_config(config)).await, mock }
    }

    pub async fn with_mock(mock: Aimock, api: Api) -> Self {
        let config = config(mock.address(), api);
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        Self { gateway, mock }
    }
}

/// A gateway whose models follow the `@mock` lines of messages.
pub async fn scripted(api: Api) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let config = config(mock.address(), api);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// The same, in this mode of handling messages to a busy session.
pub async fn scripted_queueing(mode: &str) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let config = queueing_config(mock.address(), Api::OpenAi, mode);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

fn queueing_config(provider: &str, api: Api, mode: &str) -> Value {
    let mut config = config(provider, api);
    config["messages"]["queue"]["mode"] = json!(mode);
    config
}

/// The config of a gateway whose models are asked at this address.
pub fn config(provider: &str, api: Api) -> Value {
    let mut config = default_config(provider);
    let model = match api {
        Api::OpenAi => "mock/mock-1",
        Api::Anthropic => "mocka/mock-think",
    };
    config["agents"]["defaults"]["model"]["primary"] = json!(model);
    config
}

/// A connection that may do everything.
pub async fn admin(gateway: &Gateway) -> WsClient {
    connect(gateway, &standard_connect(&ALL_SCOPES)).await
}

/// A connection with these connect params.
pub async fn connect(gateway: &Gateway, params: &Value) -> WsClient {
    let mut client = gateway.open().await;
    let hello = client.request("connect", params.clone()).await;
    assert_eq!(hello["ok"], true, "{hello}");
    client
}

/// Sends a message; the payload of the answer.
pub async fn send(client: &mut WsClient, session: &str, text: &str, run_id: &str) -> Value {
    let params = json!({"sessionKey": session, "message": text, "idempotencyKey": run_id});
    call(client, "chat.send", params).await
}

/// Sends a message that starts a run.
pub async fn start(client: &mut WsClient, session: &str, text: &str, run_id: &str) {
    let answer = send(client, session, text, run_id).await;
    assert_eq!(answer, json!({"runId": run_id, "status": "started"}));
}

/// Sends a message and waits for the end of its run.
pub async fn ask(client: &mut WsClient, session: &str, text: &str, run_id: &str) -> Value {
    start(client, session, text, run_id).await;
    end_of(client, run_id).await
}

/// The payload of a request that must be answered well.
pub async fn call(client: &mut WsClient, method: &str, params: Value) -> Value {
    let answer = client.request(method, params).await;
    assert_eq!(answer["ok"], true, "{method}: {answer}");
    answer["payload"].clone()
}

/// The error text of a request that must be refused.
pub async fn refusal(client: &mut WsClient, method: &str, params: Value) -> String {
    let answer = client.request(method, params).await;
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
}

/// Payloads of the events of this name and run so far.
pub fn events(client: &WsClient, name: &str, run_id: &str) -> Vec<Value> {
    let is_wanted = |frame: &Value| frame["event"] == name && frame["payload"]["runId"] == run_id;
    let frames = client.frames().into_iter().filter(is_wanted);
    frames.map(|mut frame| frame["payload"].take()).collect()
}

/// The `chat` payloads that ended the run so far; there should be one.
pub fn ends_of(client: &WsClient, run_id: &str) -> Vec<Value> {
    let mut all = events(client, "chat", run_id);
    all.retain(|payload| payload["state"] != "delta");
    all
}

/// Waits for the `chat` payload that ends a run.
pub async fn end_of(client: &WsClient, run_id: &str) -> Value {
    let end = client.wait_for(RUN_LIMIT, |frame| {
        let payload = &frame["payload"];
        frame["event"] == "chat" && payload["runId"] == run_id && payload["state"] != "delta"
    });
    let end = end.await.unwrap_or_else(|| panic!("{run_id} has no end in {:?}", client.frames()));
    end["payload"].clone()
}

/// Waits until `count` deltas of a run have arrived; the last one's text.
pub async fn deltas(client: &WsClient, run_id: &str, count: usize) -> String {
    let texts = client.wait_until(RUN_LIMIT, |all| {
        let deltas = all.iter().filter_map(|received| received.what.frame()).filter(|frame| {
            let payload = &frame["payload"];
            frame["event"] == "chat" && payload["runId"] == run_id && payload["state"] == "delta"
        });
        let texts: Vec<_> = deltas.map(|frame| text_of(&frame["payload"]["message"])).collect();
        (texts.len() >= count).then_some(texts)
    });
    let mut texts = texts.await.unwrap_or_else(|| panic!("{run_id} has no {count} deltas"));
    texts.pop().unwrap()
}

/// All text of a message.
pub fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        content => {
            let blocks = content.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect()
        }
    }
}

/// The messages of a session.
pub async fn history(client: &mut WsClient, session: &str) -> Vec<Value> {
    let params = json!({"sessionKey": session, "limit": 1000});
    let mut page = call(client, "chat.history", params).await;
    serde_json::from_value(page["messages"].take()).unwrap()
}

/// Role and text of each message of a session.
pub async fn told(client: &mut WsClient, session: &str) -> Vec<(String, String)> {
    let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
    let messages = history(client, session).await;
    messages.iter().map(|message| (role(message), text_of(message))).collect()
}

/// What [`told`] should give.
pub fn lines(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// The row of a session in `sessions.list`, by its canonical key.
pub async fn row(client: &mut WsClient, key: &str) -> Value {
    let list = call(client, "sessions.list", json!({"limit": 1000})).await;
    let rows = list["sessions"].as_array().unwrap();
    rows.iter().find(|row| row["key"] == key).cloned().unwrap_or(Value::Null)
}

/// What a session has cost, in US dollars, as its row says.
pub async fn spent_by(client: &mut WsClient, key: &str) -> f64 {
    row(client, key).await["estimatedCostUsd"].as_f64().unwrap()
}

/// Waits until the session has this status and nothing runs in it.
pub async fn settles(client: &mut WsClient, key: &str, status: &str) {
    let deadline = Instant::now() + RUN_LIMIT;
    loop {
        let row = row(client, key).await;
        if row["status"] == status && row["hasActiveRun"] == false {
            return;
        }
        assert!(Instant::now() < deadline, "{key} does not become {status}: {row}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until `probe` finds something.
pub async fn until<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    until_within(RUN_LIMIT, what, probe).await
}

/// The same for what takes long where others work as well.
pub async fn until_within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not happen");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Serves an app on a free port of this machine, until what comes with the port
/// is dropped.
pub async fn serve(app: axum::Router) -> (u16, tokio::task::JoinSet<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (port, server)
}

/// A secret in a file of its own, as the configuration refers to it.
pub struct SecretFile(tempfile::TempDir);

impl SecretFile {
    pub fn new(secret: &str) -> Self {
        let file = Self(tempfile::TempDir::with_prefix("clawgate-secret-").unwrap());
        file.tells(secret);
        file
    }

    /// It holds this from now on.
    pub fn tells(&self, secret: &str) {
        let path = self.0.path().join("secret.txt");
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn reference() -> Value {
        json!({"source": "file", "provider": "t", "id": "value"})
    }

    /// Says in a configuration where the file is.
    pub fn name_in(&self, config: &mut Value) {
        config["secrets"]["providers"]["t"] = json!({"source": "file",
            "path": self.0.path().join("secret.txt"), "mode": "singleValue"});
    }
}
