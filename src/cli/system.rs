//! `clawgate system`: telling the main session something, heartbeats, who is there.
//!
//! Owns: what the commands ask for, in the words of OpenClaw, which skills and scripts use.
//! Must not: decide anything; the gateway does.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{CliError, ConnectArgs, Screen, Surroundings, format};
use crate::support::json;

/// Arguments of `clawgate system`.
#[derive(Debug, Args)]
pub struct SystemArgs {
    #[command(subcommand)]
    command: SystemCommand,
}

#[derive(Debug, Subcommand)]
enum SystemCommand {
    /// Tell the main session something
    Event {
        /// What it is told
        #[arg(long)]
        text: String,
        /// When its agent looks at it
        #[arg(long, value_name = "MODE", default_value = "next-heartbeat",
            value_parser = ["now", "next-heartbeat"])]
        mode: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show the last heartbeat, or turn heartbeats on or off until the gateway ends
    Heartbeat {
        /// Which of these
        #[arg(value_parser = ["last", "enable", "disable"])]
        what: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// List who is connected
    Presence {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// Runs one of them.
pub async fn run(
    args: SystemArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (connect, method, params) = question(args.command)?;
    let mut client = connect.connect(around).await?;
    let answer = client.request(method, params).await?;
    client.close().await;
    if method == "wake" && !connect.json {
        screen.line("ok")?;
    } else {
        screen.line(&format::json(&answer, connect.json))?;
    }
    Ok(0)
}

/// What the gateway is asked.
fn question(command: SystemCommand) -> Result<(ConnectArgs, &'static str, Value), CliError> {
    Ok(match command {
        SystemCommand::Event { text, mode, connect } => {
            let text = text.trim();
            if text.is_empty() {
                return Err(CliError::Usage("--text: give a text".to_owned()));
            }
            (connect, "wake", json!({"mode": mode, "text": text}))
        }
        SystemCommand::Heartbeat { what, connect } if what == "last" => {
            (connect, "last-heartbeat", json!({}))
        }
        SystemCommand::Heartbeat { what, connect } => {
            (connect, "set-heartbeats", json!({"enabled": what == "enable"}))
        }
        SystemCommand::Presence { connect } => (connect, "system-presence", json!({})),
    })
}
