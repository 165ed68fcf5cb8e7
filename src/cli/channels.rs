//! `clawgate channels`: the channels of the running gateway.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::support::json;

use super::client::{Client, ClientError};
use super::{CliError, ConnectArgs, Screen, Surroundings, format};

/// Members of `channels` that are no channels: they hold for all of them.
const FOR_ALL: [&str; 2] = ["defaults", "modelByChannel"];

/// For who names a channel that there is not.
const SEE: &str = "`clawgate channels status` shows those that are configured";

/// Arguments of `clawgate channels`.
#[derive(Debug, Args)]
pub struct ChannelsArgs {
    #[command(subcommand)]
    command: ChannelsCommand,
}

#[derive(Debug, Subcommand)]
enum ChannelsCommand {
    /// Show what is configured and how it is
    #[command(visible_alias = "list")]
    Status {
        /// Ask the services as well
        #[arg(long)]
        probe: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Use an account that was stopped
    Start(AccountArgs),
    /// Use an account no more until it is started again
    Stop(AccountArgs),
}

#[derive(Debug, Args)]
struct AccountArgs {
    /// Such as telegram
    channel: String,
    /// Which of its accounts; the default one when absent
    #[arg(long)]
    account: Option<String>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs one of them.
pub async fn run(
    args: ChannelsArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    match args.command {
        ChannelsCommand::Status { probe, connect } => {
            let mut client = connect.connect(around).await?;
            let params = if probe { json!({"probe": true}) } else { json!({}) };
            let mut status = client.request("channels.status", params).await?;
            let others = not_supported(&mut client, &status).await?;
            if let Value::Object(members) = &mut status {
                members.insert("notSupported".into(), json!(others));
            }
            if connect.json {
                screen.line(&format::compact(&status))?;
            } else {
                screen.text(&table(&status))?;
            }
            client.close().await;
        }
        ChannelsCommand::Start(account) => {
            return switch("channels.start", "started", account, around, screen).await;
        }
        ChannelsCommand::Stop(account) => {
            return switch("channels.stop", "stopped", account, around, screen).await;
        }
    }
    Ok(0)
}

/// Begins or ends the use of an account; the exit code says whether that was done.
async fn switch(
    method: &str,
    done: &str,
    account: AccountArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let AccountArgs { channel, account, connect } = account;
    let mut client = connect.connect(around).await?;
    let mut params = json!({"channel": channel});
    if let Some(account) = account {
        params["accountId"] = json!(account);
    }
    let answer = client.request(method, params).await;
    let answer = answer.map_err(|error| unknown(error, method))?;
    let is_done = answer[done] == true;
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        let id = answer["accountId"].as_str().unwrap_or_default();
        let not = if is_done { "" } else { "not " };
        screen.line(&format!("{channel} ({id}) {not}{done}"))?;
    }
    client.close().await;
    Ok(u8::from(!is_done))
}

/// Why a method is refused, with where to look when there is no such channel or account.
pub(super) fn unknown(error: ClientError, method: &str) -> CliError {
    let no_channel = format!("invalid {method} channel");
    CliError::from(error).see(&no_channel, SEE).see("unknown account", SEE)
}

/// Channels that are configured and that the gateway does not have.
async fn not_supported(client: &mut Client, status: &Value) -> Result<Vec<String>, CliError> {
    match client.request("config.get", json!({})).await {
        Ok(config) => Ok(strangers(&config["runtimeConfig"]["channels"], &status["channels"])),
        // Who may see channels and not the config has seen what there is.
        Err(ClientError::Request(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn strangers(configured: &Value, known: &Value) -> Vec<String> {
    let names = configured.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
    let names = names.map(|(name, _)| name.as_str());
    let is_strange = |name: &&str| known.get(*name).is_none() && !FOR_ALL.contains(name);
    names.filter(is_strange).map(str::to_owned).collect()
}

/// One line for each account, and for each channel that there is not.
fn table(status: &Value) -> String {
    let accounts = status["channelAccounts"].as_object().into_iter().flatten();
    let mut rows = Vec::new();
    for (channel, list) in accounts {
        for account in list.as_array().into_iter().flatten() {
            let text = |name: &str| account[name].as_str().unwrap_or_default().to_owned();
            let counts = &account["outbox"];
            let count = |name: &str| counts[name].as_u64().unwrap_or_default();
            let mut notes: Vec<String> = ["waiting", "uncertain", "failed"]
                .iter()
                .filter(|name| count(name) > 0)
                .map(|name| format!("{} {name}", count(name)))
                .collect();
            notes.extend(account["lastError"].as_str().map(str::to_owned));
            let name = format!("{channel} ({})", text("accountId"));
            rows.push([name, state(account).into(), text("mode"), notes.join("; ")]);
        }
    }
    let strangers = status["notSupported"].as_array().into_iter().flatten();
    rows.extend(strangers.filter_map(Value::as_str).map(|name| {
        [name.to_owned(), "not supported here".to_owned(), String::new(), String::new()]
    }));
    if rows.is_empty() {
        return "No channel is configured; docs/channels.md tells how.\n".into();
    }
    format::table(&rows)
}

/// In one word, how an account is.
fn state(account: &Value) -> &'static str {
    let is = |name: &str| account[name] == true;
    match () {
        () if !is("configured") => "unusable",
        () if !is("enabled") => "off",
        () if !is("running") => "stopped",
        () if is("connected") => "connected",
        () => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_has_a_line_that_says_how_it_is() {
        let status = json!({"channelAccounts": {"webhook": [
            {"accountId": "default", "configured": true, "enabled": true, "running": true,
             "connected": true, "mode": "webhook", "outbox": {"waiting": 0, "uncertain": 2}},
            {"accountId": "b", "configured": false, "enabled": true, "running": false,
             "lastError": "secret is missing"}]}});
        let shown = table(&status);
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["webhook", "(default)", "connected", "webhook", "2", "uncertain"]);
        assert_eq!(lines[1], ["webhook", "(b)", "unusable", "secret", "is", "missing"]);
        assert!(table(&json!({"channelAccounts": {}})).starts_with("No channel"));
    }

    #[test]
    fn a_channel_that_is_configured_and_not_there_has_a_line_of_its_own() {
        let configured = json!({"defaults": {"groupPolicy": "open"}, "modelByChannel": {},
            "whatsapp": {"dmPolicy": "pairing"}, "telegram": {}, "discord": {}, "slack": null});
        let known = json!({"telegram": {"configured": false}, "webhook": {"configured": false}});
        let found = strangers(&configured, &known);
        assert_eq!(found, ["whatsapp", "discord"]);
        assert_eq!(strangers(&Value::Null, &known), [""; 0]);
        let status = json!({"channelAccounts": {"telegram": []}, "notSupported": found});
        assert_eq!(table(&status), "whatsapp  not supported here\ndiscord   not supported here\n");
    }
}
