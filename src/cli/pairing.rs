//! `clawgate pairing`: who may write by a channel.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::support::json;

use super::screen::in_line;
use super::{CliError, ConnectArgs, Screen, Surroundings, channels, format};

/// Arguments of `clawgate pairing`.
#[derive(Debug, Args)]
pub struct PairingArgs {
    #[command(subcommand)]
    command: PairingCommand,
}

#[derive(Debug, Subcommand)]
enum PairingCommand {
    /// Show who waits to be let in, and who was
    List {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Let the person in who was told a code
    Approve(CodeArgs),
    /// Make a code worth nothing
    Reject(CodeArgs),
    /// Let somebody in no more
    Remove {
        /// Such as telegram
        channel: String,
        /// The channel's id of the person
        person: String,
        /// Which of its accounts; the default one when absent
        #[arg(long)]
        account: Option<String>,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

#[derive(Debug, Args)]
struct CodeArgs {
    /// Such as telegram
    channel: String,
    /// What the person was told
    code: String,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs one of them.
pub async fn run(
    args: PairingArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (method, params, connect) = match args.command {
        PairingCommand::List { connect } => ("channels.pairing.list", json!({}), connect),
        PairingCommand::Approve(CodeArgs { channel, code, connect }) => {
            ("channels.pairing.approve", json!({"channel": channel, "code": code}), connect)
        }
        PairingCommand::Reject(CodeArgs { channel, code, connect }) => {
            ("channels.pairing.reject", json!({"channel": channel, "code": code}), connect)
        }
        PairingCommand::Remove { channel, person, account, connect } => {
            let mut params = json!({"channel": channel, "person": person});
            if let Some(account) = account {
                params["accountId"] = json!(account);
            }
            ("channels.pairing.remove", params, connect)
        }
    };
    let mut client = connect.connect(around).await?;
    let answer = client.request(method, params).await;
    let answer = answer.map_err(|error| channels::unknown(error, method))?;
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&told(method, &answer))?;
    }
    client.close().await;
    Ok(u8::from(answer["removed"] == false))
}

fn told(method: &str, answer: &Value) -> String {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    match method {
        "channels.pairing.list" => {
            let mut rows = Vec::new();
            for (list, state) in [("requests", "waits"), ("people", "is let in")] {
                for it in answer[list].as_array().into_iter().flatten() {
                    let place = format!("{} ({})", text(it, "channel"), text(it, "accountId"));
                    let code = text(it, "code");
                    rows.push([place, text(it, "person"), text(it, "name"), state.into(), code]);
                }
            }
            if rows.is_empty() {
                "Nobody waits, and nobody was let in.\n".into()
            } else {
                format::table(&rows)
            }
        }
        "channels.pairing.remove" if answer["removed"] == true => "let in no more\n".into(),
        "channels.pairing.remove" => "was not let in\n".into(),
        _ => {
            let done = if answer["approved"] == true { "is let in" } else { "is not let in" };
            let person = in_line(&text(answer, "person"));
            format!("{person} of {} {done}\n", text(answer, "channel"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_codes_of_those_who_wait() {
        let answer = json!({"requests": [{"channel": "telegram", "accountId": "default",
            "person": "7", "name": "Ann", "code": "ABCD2345"}],
            "people": [{"channel": "telegram", "accountId": "default", "person": "8"}]});
        let shown = told("channels.pairing.list", &answer);
        assert!(shown.contains("ABCD2345") && shown.lines().count() == 2, "{shown}");
    }
}
