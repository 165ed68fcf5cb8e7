//! The program as a command of whom a gateway belongs to.

use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use crate::support::{Gateway, program};

/// The command with these arguments, on the state and config of a gateway; it knows
/// nothing else of the environment.
pub fn command(gateway: &Gateway, args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(args)
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
        .kill_on_drop(true);
    command
}

/// Runs it.
pub async fn clawgate(gateway: &Gateway, args: &[&str]) -> Output {
    command(gateway, args).output().await.unwrap()
}

/// What it printed; it has to have succeeded.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The same as JSON.
pub fn json_of(output: &Output) -> Value {
    serde_json::from_str(&said(output)).unwrap()
}
