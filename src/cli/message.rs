//! `clawgate message`: writes to people of channels.

use clap::{Args, Subcommand};

use crate::support::json;

use super::{CliError, ConnectArgs, Screen, Surroundings, format};

/// Arguments of `clawgate message`.
#[derive(Debug, Args)]
pub struct MessageArgs {
    #[command(subcommand)]
    command: MessageCommand,
}

#[derive(Debug, Subcommand)]
enum MessageCommand {
    /// Send one message
    Send(Box<SendArgs>),
}

#[derive(Debug, Args)]
struct SendArgs {
    /// Id of the person or group
    #[arg(short, long)]
    target: String,
    /// What it says
    #[arg(short, long)]
    message: Option<String>,
    /// Such as telegram; may be left out when there is one
    #[arg(long)]
    channel: Option<String>,
    /// Which of its accounts; the default one when absent
    #[arg(long)]
    account: Option<String>,
    /// Thread or topic
    #[arg(long)]
    thread_id: Option<String>,
    /// The message that it answers
    #[arg(long)]
    reply_to: Option<String>,
    /// http or https address of a file to send along
    #[arg(long)]
    media: Option<String>,
    /// The same key again sends nothing again; a new one when absent
    #[arg(long)]
    idempotency_key: Option<String>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs one of them.
pub async fn run(
    args: MessageArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let MessageCommand::Send(args) = args.command;
    let key = args.idempotency_key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mut params = json!({"to": args.target, "idempotencyKey": key});
    let optional = [
        ("message", args.message),
        ("channel", args.channel),
        ("accountId", args.account),
        ("threadId", args.thread_id),
        ("replyToId", args.reply_to),
        ("mediaUrl", args.media),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            params[name] = json!(value);
        }
    }
    let mut client = args.connect.connect(around).await?;
    let answer = client.request("send", params).await?;
    if args.connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let id = answer["messageId"].as_str().map(|id| format!(" as message {id}"));
        let done = if answer["status"] == "queued" { "waits for" } else { "sent by" };
        let (channel, to) = (text("channel"), text("to"));
        screen.line(&format!("{done} {channel} to {to}{}", id.unwrap_or_default()))?;
    }
    client.close().await;
    Ok(0)
}
