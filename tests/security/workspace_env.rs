//! A file in the workspace steers the gateway: CVE-2026-43531, -53819, -53858,
//! -53846, -53842, GHSA-4pqj-3c56-5fqq. No `.env` is read but that of the state
//! directory, which is the gateway's own, wherever it is started.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::paths::result_of;
use crate::stage::{Api, call, config, connect};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, program};

/// What would change the gateway, its commands or its models.
const STEERING: &str = "\
OPENCLAW_GATEWAY_TOKEN=steered-token\n\
OPENCLAW_GATEWAY_PORT=1\n\
OPENCLAW_STATE_DIR=/nowhere\n\
ANTHROPIC_API_KEY=steered-key\n\
ANTHROPIC_BASE_URL=http://127.0.0.1:1\n\
HTTPS_PROXY=http://127.0.0.1:1\n\
PATH=/nowhere\n\
LD_PRELOAD=/nowhere.so\n\
CLAWGATE_STEERED=yes\n";

#[tokio::test]
async fn a_file_of_variables_in_the_workspace_changes_nothing() {
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    let mut gateway = Gateway::start(options).await;
    for folder in [gateway.workspace(), gateway.home(), gateway.state_dir()] {
        for name in [".env", ".env.local", ".envrc"] {
            if folder != gateway.state_dir() || name != ".env" {
                fs::write(folder.join(name), STEERING).unwrap();
            }
        }
    }
    gateway.restart().await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    params["auth"] = json!({"token": "steered-token"});
    let refused = gateway.open().await.request("connect", params.clone()).await;
    assert_eq!(refused["ok"], false, "{refused}");
    params["auth"] = standard_connect(&ALL_SCOPES)["auth"].clone();
    let mut client = connect(&gateway, &params).await;
    let args = json!({"command": "env", "workdir": gateway.workspace()});
    let told = result_of(&mut client, "run-1", "exec", &args).await.to_string();
    assert!(told.contains("PATH="), "the variables are shown: {told}");
    assert!(!told.contains("steered") && !told.contains("STEERED"), "{told}");
    let status = call(&mut client, "models.authStatus", json!({})).await;
    assert!(!status.to_string().contains("steered"), "{status}");
}

#[test]
fn a_command_that_is_run_in_the_workspace_does_not_heed_it_either() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".env"), STEERING).unwrap();
    let output = Command::new(program())
        .args(["config", "explain", "--json"])
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let explained: Value = serde_json::from_str(&text).unwrap();
    assert!(text.contains("18789"), "the port is the usual one: {explained}");
    assert!(!text.contains("steered") && !text.contains("/nowhere"), "{explained}");
}
