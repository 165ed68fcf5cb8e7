//! The smallest client that people write, literally, in Node 20.
//!
//! `seed-000-client.js` is a client as a description of the protocol shows it.
//! Nothing in it is changed but the port, and in one test the token that a gateway with a
//! secret needs; what the test wants to know is asked after its last line.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::stage::{Api, admin, ask, lines, scripted, told};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, default_config};

/// The client gives up before.
const NODE_LIMIT: Duration = Duration::from_secs(20);
const CLIENT: &str = include_str!("seed-000-client.js");

/// What follows the document's code: prints what it has, and ends the process
/// once the answer is complete.
const AFTER: &str = r"
console.log('History: ' + JSON.stringify(history));
const completed = setInterval(async () => {
  if (!globalThis.isComplete) return;
  clearInterval(completed);
  console.log('Reloaded: ' + JSON.stringify(await client.loadHistory('main')));
  process.exit(0);
}, 10);
setTimeout(() => { console.error('no answer'); process.exit(1); }, 10000);
";

/// Comes before it: a second listener to what is printed.
const BEFORE: &str = r"
const print = console.log;
console.log = (...parts) => {
  print(...parts.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))));
  if (parts[0] === 'Complete:') globalThis.isComplete = true;
};
";

/// Runs the client against the gateway, with these replacements in its text.
async fn run_client(gateway: &Gateway, replacements: &[(&str, String)]) -> String {
    let mut code = CLIENT.replace("18789", &gateway.port().to_string());
    assert_ne!(code, CLIENT);
    for (from, to) in replacements {
        assert!(code.contains(from), "{from} is not in the document's client");
        code = code.replace(from, to);
    }
    let path = gateway.root().join("client.mjs");
    fs::write(&path, format!("{BEFORE}{code}{AFTER}")).unwrap();
    let output = node(path).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    text
}

/// Runs a module; Node 20 has the browser's WebSocket behind a flag.
async fn node(path: PathBuf) -> Output {
    let run = move || {
        let mut node = Command::new("node");
        node.args(["--experimental-websocket", "--no-warnings"]).arg(path).stdin(Stdio::null());
        node.output().expect("node 20 or newer must be on PATH for the scenario tests")
    };
    timeout(NODE_LIMIT, spawn_blocking(run)).await.expect("node ends").unwrap()
}

/// The JSON texts after this word at the beginning of lines.
fn printed(output: &str, word: &str) -> Vec<Value> {
    let lines = output.lines().filter_map(|line| line.strip_prefix(word));
    lines.map(|json| serde_json::from_str(json.trim()).unwrap()).collect()
}

fn check(output: &str, before: usize, answer: &str) {
    let history = &printed(output, "History:")[0];
    assert_eq!(history["messages"].as_array().unwrap().len(), before, "{output}");
    let streamed: String = printed(output, "Streaming:")
        .iter()
        .map(|content| content[0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(streamed, answer, "the increments, one after the other");
    let complete = printed(output, "Complete:");
    assert_eq!(complete.len(), 1, "{output}");
    assert_eq!(complete[0], serde_json::json!([{"type": "text", "text": answer}]));
    let reloaded = &printed(output, "Reloaded:")[0]["messages"];
    assert_eq!(reloaded.as_array().unwrap().len(), before + 2, "{output}");
}

#[tokio::test]
async fn the_documents_client_works_as_it_stands() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["gateway"]["auth"] = serde_json::json!({});
    let options = GatewayOptions {
        args: vec!["--auth".into(), "none".into()],
        ..GatewayOptions::with_config(config)
    };
    let gateway = Gateway::start(options).await;
    check(&run_client(&gateway, &[]).await, 0, "Echo: Hello!");
    check(&run_client(&gateway, &[]).await, 2, "Echo: Hello!");
}

#[tokio::test]
async fn the_documents_client_works_on_a_fresh_gateway_without_a_model() {
    let options =
        GatewayOptions { args: vec!["--auth".into(), "none".into()], ..GatewayOptions::default() };
    let gateway = Gateway::start(options).await;
    let output = run_client(&gateway, &[]).await;
    let answer = printed(&output, "Complete:")[0][0]["text"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("You said: Hello!"), "{answer}");
    check(&output, 0, &answer);
}

#[tokio::test]
async fn with_a_token_in_its_connect_it_works_on_a_gateway_with_a_secret() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut other = admin(&gateway).await;
    ask(&mut other, "main", "before", "run-1").await;
    for connect in [
        format!("{{ clientType: 'web', auth: {{ token: '{SECRET}' }} }}"),
        format!("{{ clientType: 'web', token: '{SECRET}' }}"),
    ] {
        let before = told(&mut other, "main").await.len();
        let message = format!("'Hello {before}'");
        let replacements = [("{ clientType: 'web' }", connect), ("'Hello!'", message)];
        let output = run_client(&gateway, &replacements).await;
        check(&output, before, &format!("Echo: Hello {before}"));
    }
    let all = told(&mut other, "main").await;
    assert_eq!(all[..2], lines(&[("user", "before"), ("assistant", "Echo: before")]));
}

#[tokio::test]
async fn without_a_token_it_is_told_why_it_may_not_come_in() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let code = CLIENT.replace("18789", &gateway.port().to_string());
    let path = gateway.root().join("client.mjs");
    fs::write(&path, code).unwrap();
    let output = node(path).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("permission_denied"), "{errors}");
}
