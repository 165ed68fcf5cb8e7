//! `clawgate agent`: one message to an agent, and its whole answer, for scripts.
//!
//! Promises: what OpenClaw's command of this name takes and prints; Ctrl-C stops the run
//! at the gateway, not only here.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use super::args::Timeout;
use super::call::final_answer;
use super::client::Client;
use super::{CliError, ConnectArgs, Screen, Surroundings, agents, format};
use crate::support::{Ids, RandomIds, json};

/// A run that is stopped because its time is over is answered within this.
const GRACE: Duration = Duration::from_secs(30);
/// An abort is answered at once or not at all.
const ABORT_LIMIT: Duration = Duration::from_secs(5);
/// How a refusal begins that names an agent that there is not.
const UNKNOWN_AGENT: &str = "invalid agent params: unknown agent id";
/// What a shell reports for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Arguments of `clawgate agent`.
#[derive(Debug, Args)]
#[command(after_help = "Give at least one of --agent, --session-key, --session-id and --to.\n\
    With --timeout the run is stopped after so long; here a number alone always means seconds.")]
pub struct AgentArgs {
    /// What to say; `-` reads it from stdin
    #[arg(short, long, value_name = "TEXT")]
    message: String,
    /// The agent whose main session answers
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The session, by its key
    #[arg(long, value_name = "KEY")]
    session_key: Option<String>,
    /// The session, by its id
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Whom it is about; the main session answers
    #[arg(short, long, value_name = "DEST")]
    to: Option<String>,
    /// How much models may think in this session from now on, such as off, low, medium or high
    #[arg(long, value_name = "LEVEL")]
    thinking: Option<String>,
    /// The model that answers this message alone; a name, an alias or provider/model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Send the answer to a channel as well
    #[arg(long)]
    deliver: bool,
    /// Which channel [default: that of the session]
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Whom there, when it is not --to
    #[arg(long, value_name = "DEST")]
    reply_to: Option<String>,
    /// Which channel, when it is not --channel
    #[arg(long, value_name = "NAME")]
    reply_channel: Option<String>,
    /// By which account of it
    #[arg(long, value_name = "ID")]
    reply_account: Option<String>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

impl AgentArgs {
    fn params(&self, message: &str, key: &str) -> Result<Value, CliError> {
        let named = [&self.agent, &self.session_key, &self.session_id, &self.to];
        if named.iter().all(|name| name.as_deref().is_none_or(str::is_empty)) {
            return Err(CliError::Usage(
                "say which session: pass --agent, --session-key, --session-id or --to".into(),
            ));
        }
        let mut params = Map::new();
        params.insert("message".into(), json!(message));
        params.insert("idempotencyKey".into(), json!(key));
        for (name, value) in [
            ("agentId", &self.agent),
            ("sessionKey", &self.session_key),
            ("sessionId", &self.session_id),
            ("to", &self.to),
            ("thinking", &self.thinking),
            ("model", &self.model),
            ("channel", &self.channel),
            ("replyTo", &self.reply_to),
            ("replyChannel", &self.reply_channel),
            ("replyAccountId", &self.reply_account),
        ] {
            if let Some(value) = value {
                params.insert(name.into(), json!(value));
            }
        }
        if self.deliver {
            params.insert("deliver".into(), json!(true));
        }
        if let Some(limit) = self.connect.timeout {
            let limit = limit.time();
            let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
            params.insert("timeout".into(), json!(seconds));
        }
        Ok(Value::Object(params))
    }
}

/// Says the message and prints the answer. Exit code 1 when there is none, or it was not
/// delivered.
pub async fn run(
    mut args: AgentArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    args.connect.timeout = args.connect.timeout.map(Timeout::in_seconds);
    let key = RandomIds.uuid();
    let params = args.params(&said(&args.message)?, &key)?;
    let limit = args.connect.timeout.map(|limit| limit.time().saturating_add(GRACE));
    let mut client = args.connect.connect(around).await?;
    let answer = tokio::select! {
        // First, so that it listens before the run begins.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => None,
        answer = final_answer(&mut client, "agent", params, limit) => Some(answer.map_err(
            |error| CliError::from(error).see(UNKNOWN_AGENT, agents::SEE),
        )?),
    };
    let Some(answer) = answer else {
        stop(&mut client, &key, screen).await?;
        return Ok(INTERRUPTED);
    };
    client.close().await;
    if args.connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&text(&answer))?;
    }
    if answer["status"] != "ok" {
        let reason = answer["stopReason"].as_str().or(answer["summary"].as_str());
        screen.error(&format!("the run was stopped ({})", reason.unwrap_or("no reason given")))?;
        return Ok(1);
    }
    if args.deliver && answer["result"]["deliverySucceeded"] != true {
        screen.error("the answer was not delivered; `clawgate channels status` may tell why")?;
        return Ok(1);
    }
    Ok(0)
}

fn said(message: &str) -> Result<String, CliError> {
    let text = if message == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        text.trim_end().to_owned()
    } else {
        message.to_owned()
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage("the message is empty; say something".into()));
    }
    Ok(text)
}

/// Stops the run at the gateway.
async fn stop(client: &mut Client, run: &str, screen: &mut Screen) -> Result<(), CliError> {
    let request = client.request("sessions.abort", json!({"runId": run}));
    match tokio::time::timeout(ABORT_LIMIT, request).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Ok(screen.note(&format!("the run may go on: {error}"))?),
        Err(_) => Ok(screen.note("the run may go on: the gateway did not confirm its end")?),
    }
}

/// Texts and files of the answer, each on lines of its own.
fn text(answer: &Value) -> String {
    let payloads = answer["result"]["payloads"].as_array().into_iter().flatten();
    let mut lines = Vec::new();
    for payload in payloads {
        let text = payload["text"].as_str().map(str::trim_end).filter(|text| !text.is_empty());
        lines.extend(text.map(str::to_owned));
        let files: Vec<_> = match payload["mediaUrls"].as_array() {
            Some(files) => files.iter().filter_map(Value::as_str).collect(),
            None => payload["mediaUrl"].as_str().into_iter().collect(),
        };
        lines.extend(files.into_iter().map(|file| format!("MEDIA: {file}")));
    }
    if lines.is_empty() {
        return "No reply from agent.\n".to_owned();
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_files_of_an_answer_are_printed() {
        let answer = json!({"result": {"payloads": [
            {"text": "one\n", "mediaUrl": null},
            {"text": "", "mediaUrl": "/a", "mediaUrls": ["/a", "/b"]}, {"mediaUrl": "/c"}]}});
        assert_eq!(text(&answer), "one\nMEDIA: /a\nMEDIA: /b\nMEDIA: /c\n");
        assert_eq!(text(&json!({"status": "ok"})), "No reply from agent.\n");
    }
}
