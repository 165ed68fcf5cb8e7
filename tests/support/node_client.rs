//! A machine that connects as a node: it has a device key of its own, declares
//! commands, and answers what it is asked when the test says so.

use serde_json::{Value, json};

use super::client::SOON;
use super::{DeviceKey, Gateway, SECRET, WsClient, now_ms};

/// A node over a real socket.
pub struct NodeClient {
    pub client: WsClient,
    pub id: String,
}

impl NodeClient {
    /// Connects as `name`, with these commands; the same name is the same device.
    pub async fn connect(gateway: &Gateway, name: &str, platform: &str, commands: &[&str]) -> Self {
        let params = connect_params(name, platform, commands);
        let (node, hello) = Self::connect_with(gateway, name, params).await;
        assert_eq!(hello["ok"], true, "{hello}");
        node
    }

    /// Connects with these params, to which the proof of the device is added.
    pub async fn connect_with(gateway: &Gateway, name: &str, mut params: Value) -> (Self, Value) {
        let mut client = gateway.open().await;
        let key = DeviceKey::named(name);
        params["device"] = key.proof(&params, &client.nonce().await, now_ms());
        let hello = client.request("connect", params).await;
        (Self { client, id: key.id() }, hello)
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Value> {
        let frames = self.client.frames().into_iter();
        let requests = frames.filter(|frame| frame["event"] == "node.invoke.request");
        requests.map(|mut frame| frame["payload"].take()).collect()
    }

    /// Waits until it was asked for this command `count` times; the last one.
    pub async fn asked(&self, command: &str, count: usize) -> Value {
        let asked = self.client.wait_until(SOON, |all| {
            let frames = all.iter().filter_map(|received| received.what.frame());
            let mut requests = frames.filter(|frame| {
                frame["event"] == "node.invoke.request" && frame["payload"]["command"] == command
            });
            requests.nth(count - 1).map(|frame| frame["payload"].clone())
        });
        asked.await.unwrap_or_else(|| panic!("{command} is not asked: {:?}", self.client.frames()))
    }

    /// Answers a request well; what the gateway says to that.
    pub async fn answer(&mut self, request: &Value, payload: Value) -> Value {
        let result =
            json!({"id": request["id"], "nodeId": self.id, "ok": true, "payload": payload});
        self.client.request("node.invoke.result", result).await
    }

    /// Says no to a request.
    pub async fn refuse(&mut self, request: &Value, code: &str, message: &str) -> Value {
        let error = json!({"code": code, "message": message});
        let result = json!({"id": request["id"], "nodeId": self.id, "ok": false, "error": error});
        self.client.request("node.invoke.result", result).await
    }

    /// Reports something.
    pub async fn report(&mut self, event: &str, payload: &Value) -> Value {
        let params = json!({"event": event, "payloadJSON": payload.to_string()});
        self.client.request("node.event", params).await
    }
}

/// Connect params of a node, without the proof of its device.
pub fn connect_params(name: &str, platform: &str, commands: &[&str]) -> Value {
    json!({
        "minProtocol": 3,
        "maxProtocol": 3,
        "client": {
            "id": "node-host", "version": "1.0.0", "platform": platform, "mode": "node",
            "displayName": name,
        },
        "role": "node",
        "scopes": [],
        "caps": ["canvas"],
        "commands": commands,
        "auth": { "token": SECRET },
    })
}

/// Sends `node.invoke` without waiting for its answer; the id of the request.
pub async fn invoke(client: &mut WsClient, id: &str, node: &str, command: &str, more: Value) {
    let mut params = json!({"nodeId": node, "command": command, "idempotencyKey": id});
    if let (Value::Object(params), Value::Object(more)) = (&mut params, more) {
        params.extend(more);
    }
    let frame = json!({"type": "req", "id": id, "method": "node.invoke", "params": params});
    client.send(&frame).await;
}

/// The answer to such an invocation.
pub async fn invoked(client: &WsClient, id: &str) -> Value {
    client.answer(id).await.unwrap_or_else(|| panic!("no answer to {id}"))
}
