//! The clients that people use, unmodified.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::offering;
use crate::support::{SECRET, node, python};

/// Runs a program against a gateway; it fails by itself when something is wrong.
async fn run(program: PathBuf, script: PathBuf) {
    let (gateway, _mock) = offering().await;
    let mut command = Command::new(program);
    command.arg(script).arg(format!("http://{}/v1", gateway.address())).arg(SECRET);
    command.env("NO_PROXY", "127.0.0.1").kill_on_drop(true);
    let done = command.stdin(Stdio::null()).output();
    let done = tokio::time::timeout(std::time::Duration::from_secs(120), done);
    let output = done.await.expect("the client ends").unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("all is well\n"));
}

#[tokio::test]
async fn the_python_client_of_openai_talks_to_the_agents() {
    let interpreter = tokio::task::spawn_blocking(python::interpreter).await.unwrap();
    run(interpreter, python::script("openai_client.py")).await;
}

#[tokio::test]
async fn the_agents_sdk_of_openai_talks_to_the_agents() {
    let interpreter = tokio::task::spawn_blocking(python::interpreter).await.unwrap();
    run(interpreter, python::script("openai_agents.py")).await;
}

#[tokio::test]
async fn the_node_client_of_openai_talks_to_the_agents() {
    node_client("openai-client.mjs").await;
}

#[tokio::test]
async fn the_ai_sdk_talks_to_the_agents() {
    node_client("ai-sdk.mjs").await;
}

async fn node_client(name: &str) {
    // Installs what is not there yet.
    tokio::task::spawn_blocking(|| node::package("openai")).await.unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/node").join(name);
    run("node".into(), script).await;
}
