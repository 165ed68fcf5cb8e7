//! Devices that come to a gateway.

use std::process::Output;

use serde_json::{Value, json};

use super::client::{SOON, standard_connect};
use super::{Closed, DeviceKey, Gateway, WsClient, default_config, now_ms, program};

/// Where guests from elsewhere come from, behind a proxy that is trusted.
pub const FAR: &str = "203.0.113.9";

/// A gateway behind a proxy on the same machine; no model is asked.
pub fn proxied_config() -> Value {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config
}

/// A device, and how it comes.
#[derive(Clone)]
pub struct Guest {
    name: String,
    pub params: Value,
    pub headers: Vec<(String, String)>,
}

impl Guest {
    /// A command line on the gateway's machine that knows its secret.
    pub fn new(name: &str, scopes: &[&str]) -> Self {
        let mut params = standard_connect(scopes);
        params["client"]["id"] = "cli".into();
        params["client"]["mode"] = "cli".into();
        Self { name: name.to_owned(), params, headers: Vec::new() }
    }

    /// The same as a node.
    pub fn node(name: &str) -> Self {
        let mut guest = Self::new(name, &[]);
        guest.params["client"]["id"] = "node-host".into();
        guest.params["client"]["mode"] = "node".into();
        guest.params["role"] = "node".into();
        guest
    }

    /// From elsewhere.
    pub fn far(self) -> Self {
        self.header("X-Forwarded-For", FAR)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these credentials instead.
    pub fn with(mut self, auth: Value) -> Self {
        self.params["auth"] = auth;
        self
    }

    /// With another member of `client`.
    pub fn says(mut self, member: &str, value: &str) -> Self {
        self.params["client"][member] = value.into();
        self
    }

    pub fn key(&self) -> DeviceKey {
        DeviceKey::named(&self.name)
    }

    pub fn id(&self) -> String {
        self.key().id()
    }

    /// Opens a connection and proves its key; the answer to `connect`.
    pub async fn knock(&self, gateway: &Gateway) -> (WsClient, Value) {
        self.knock_at(&gateway.address()).await
    }

    pub async fn knock_at(&self, address: &str) -> (WsClient, Value) {
        let (mut client, params) = self.open(address).await;
        let answer = client.request("connect", params).await;
        (client, answer)
    }

    /// Opens a connection and asks to be let in under this id, without waiting for an answer:
    /// who is let in no more gets none.
    pub async fn ask(&self, gateway: &Gateway, id: &str) -> WsClient {
        let (mut client, params) = self.open(&gateway.address()).await;
        let frame = json!({"type": "req", "id": id, "method": "connect", "params": params});
        client.send(&frame).await;
        client
    }

    async fn open(&self, address: &str) -> (WsClient, Value) {
        let client = WsClient::open_with(address, "/", &self.headers).await.unwrap();
        let mut params = self.params.clone();
        params["device"] = self.key().proof(&params, &client.nonce().await, now_ms());
        (client, params)
    }

    /// The connection and `auth` of hello.
    pub async fn come(&self, gateway: &Gateway) -> (WsClient, Value) {
        let (client, answer) = self.knock(gateway).await;
        assert_eq!(answer["ok"], true, "{}: {answer}", self.name);
        (client, answer["payload"]["auth"].clone())
    }

    /// The error, and how the connection was closed.
    pub async fn refused(&self, gateway: &Gateway) -> (Value, Closed) {
        let (client, answer) = self.knock(gateway).await;
        assert_eq!(answer["ok"], false, "{}: {answer}", self.name);
        (answer["error"].clone(), client.wait_closed(SOON).await.expect("closed"))
    }

    /// The id of the request that waits after it was refused.
    pub async fn asks(&self, gateway: &Gateway) -> String {
        let (error, closed) = self.refused(gateway).await;
        assert_eq!((error["code"].as_str(), closed.code), (Some("NOT_PAIRED"), 1008), "{error}");
        error["details"]["requestId"].as_str().unwrap().to_owned()
    }

    /// Its token, from its hello.
    pub async fn token(&self, gateway: &Gateway) -> String {
        let (mut client, auth) = self.come(gateway).await;
        client.close().await;
        auth["deviceToken"].as_str().expect("a token").to_owned()
    }
}

/// Runs the command line on the gateway's machine; it knows no token, and its config
/// names a port at which nobody listens.
pub async fn command(gateway: &Gateway, arguments: &[&str]) -> Output {
    let config = gateway.root().join("elsewhere.json");
    std::fs::write(&config, r#"{"gateway": {"port": 9}}"#).unwrap();
    let mut command = tokio::process::Command::new(program());
    command
        .args(arguments)
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", config);
    command.output().await.unwrap()
}

/// What it prints, when it succeeds.
pub async fn said(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = command(gateway, arguments).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}
