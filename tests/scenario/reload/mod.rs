//! The config file changes while clients are connected.

mod auth;
mod every_key;
mod file;
mod listening;
mod main_key;
mod note;
mod outside;
mod repair;

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{admin, call};
use crate::support::{Gateway, WsClient};

/// How long a change may take until it is in use: the file is watched, and left
/// alone for a moment.
const LIMIT: Duration = Duration::from_secs(30);

/// The file as it is now.
fn config(gateway: &Gateway) -> Value {
    serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap()
}

/// Changes the file as an editor does.
fn edit(gateway: &Gateway, change: impl FnOnce(&mut Value)) {
    let mut config = config(gateway);
    change(&mut config);
    put(gateway, &config.to_string());
}

/// Another file takes the place of this one.
pub fn put(gateway: &Gateway, text: &str) {
    let path = gateway.config_path();
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
}

/// Sends a signal to its process.
pub fn signal(gateway: &Gateway, signal: Signal) {
    let pid = gateway.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.unwrap(), signal).unwrap();
}

/// Changes the file by its method.
async fn patch(client: &mut WsClient, change: Value) -> Value {
    let hash = call(client, "config.get", json!({})).await["hash"].clone();
    let raw = json!({"raw": change.to_string(), "baseHash": hash});
    client.request("config.patch", raw).await
}

/// Asks again until the answer is as wanted.
async fn until(client: &mut WsClient, method: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = call(client, method, json!({})).await;
        if is_wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{method}: {answer}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a snapshot with this fault of the config; `None` waits for one without.
async fn has_fault(gateway: &Gateway, path: Option<&str>) -> Value {
    crate::stage::until("the fault of the config", async || {
        // What was wrong may have ended the connections before.
        let mut client = admin(gateway).await;
        let health = call(&mut client, "health", json!({})).await;
        (health["configIssue"]["path"].as_str() == path).then_some(health)
    })
    .await
}

/// Waits for a line of the log.
async fn logged(gateway: &Gateway, part: &str) {
    let deadline = Instant::now() + LIMIT;
    while !gateway.stderr().contains(part) {
        assert!(Instant::now() < deadline, "{part}: {}", gateway.stderr());
        sleep(Duration::from_millis(20)).await;
    }
}
