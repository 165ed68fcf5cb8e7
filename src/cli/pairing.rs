//! `clawgate pairing`: who may write by a channel.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::sessions::iso_time;
use crate::support::json;

use super::client::Client;
use super::screen::in_line;
use super::{CliError, ConnectArgs, Screen, Surroundings, channels, format};

const LIST: &str = "channels.pairing.list";
const APPROVE: &str = "channels.pairing.approve";
const REJECT: &str = "channels.pairing.reject";
const REMOVE: &str = "channels.pairing.remove";

/// Arguments of `clawgate pairing`.
#[derive(Debug, Args)]
pub struct PairingArgs {
    #[command(subcommand)]
    command: PairingCommand,
}

#[derive(Debug, Subcommand)]
enum PairingCommand {
    /// Show who waits to be let in, and who was
    List(ListArgs),
    /// Let the person in who was told a code
    #[command(override_usage = "clawgate pairing approve [OPTIONS] [CHANNEL] <CODE>")]
    Approve(CodeArgs),
    /// Make a code worth nothing
    #[command(override_usage = "clawgate pairing reject [OPTIONS] [CHANNEL] <CODE>")]
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
struct ListArgs {
    /// Only by this channel, such as telegram
    channel: Option<String>,
    /// The same, as scripts for OpenClaw spell it
    #[arg(long = "channel", value_name = "CHANNEL", conflicts_with = "channel")]
    named_channel: Option<String>,
    /// Only by this account
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
struct CodeArgs {
    /// What the person was told, or the channel before it, such as telegram
    #[arg(value_name = "CODE or CHANNEL")]
    first: String,
    /// What the person was told, where the channel is named before it
    #[arg(value_name = "CODE")]
    second: Option<String>,
    /// The channel, as scripts for OpenClaw spell it
    #[arg(long, conflicts_with = "second")]
    channel: Option<String>,
    /// Only who asks by this account
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// With it OpenClaw tells the person, which is done here in any case.
    #[arg(long, hide = true)]
    notify: bool,
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
    match args.command {
        PairingCommand::List(args) => {
            let mut client = args.connect.connect(around).await?;
            let mut answer = ask(&mut client, LIST, json!({})).await?;
            client.close().await;
            let place =
                Place { channel: args.channel.or(args.named_channel), account: args.account };
            place.narrow(&mut answer);
            show(LIST, &answer, &args.connect, screen)
        }
        PairingCommand::Approve(args) => decide(APPROVE, args, around, screen).await,
        PairingCommand::Reject(args) => decide(REJECT, args, around, screen).await,
        PairingCommand::Remove { channel, person, account, connect } => {
            let mut params = json!({"channel": channel, "person": person});
            if let Some(account) = account {
                params["accountId"] = json!(account);
            }
            let mut client = connect.connect(around).await?;
            let answer = ask(&mut client, REMOVE, params).await?;
            client.close().await;
            show(REMOVE, &answer, &connect, screen)
        }
    }
}

/// Uses a code, or makes it worth nothing.
async fn decide(
    method: &'static str,
    args: CodeArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (channel, code) = match args.second {
        Some(code) => (Some(args.first), code),
        None => (args.channel, args.first),
    };
    let place = Place { channel, account: args.account };
    let mut client = args.connect.connect(around).await?;
    let channel = match place {
        Place { channel: Some(channel), account: None } => Some(channel),
        place => place.of_code(&ask(&mut client, LIST, json!({})).await?, &code),
    };
    let Some(channel) = channel else {
        client.close().await;
        return Err(CliError::Missing(format!(
            "nobody waits there with the code {code}; `clawgate pairing list` shows who does"
        )));
    };
    let answer = ask(&mut client, method, json!({"channel": channel, "code": code})).await?;
    client.close().await;
    show(method, &answer, &args.connect, screen)
}

async fn ask(client: &mut Client, method: &str, params: Value) -> Result<Value, CliError> {
    let answer = client.request(method, params).await;
    answer.map_err(|error| channels::unknown(error, method))
}

fn show(
    method: &str,
    answer: &Value,
    connect: &ConnectArgs,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let is_refused = answer["removed"] == false;
    if connect.json {
        screen.line(&format::compact(answer))?;
    } else if is_refused {
        screen.error("that person was not let in")?;
    } else {
        screen.text(&told(method, answer))?;
    }
    Ok(u8::from(is_refused))
}

/// Where people write; anywhere, where nothing is named.
struct Place {
    channel: Option<String>,
    account: Option<String>,
}

impl Place {
    fn has(&self, row: &Value) -> bool {
        let is = |member: &str, wanted: Option<&str>| {
            let named = row[member].as_str().unwrap_or_default();
            wanted.is_none_or(|wanted| named.eq_ignore_ascii_case(wanted.trim()))
        };
        is("channel", self.channel.as_deref()) && is("accountId", self.account.as_deref())
    }

    /// Leaves those of the place, with the members that OpenClaw gives those who wait.
    fn narrow(&self, answer: &mut Value) {
        for list in ["requests", "people"] {
            let Some(rows) = answer.get_mut(list).and_then(Value::as_array_mut) else { continue };
            rows.retain(|row| self.has(row));
            for row in rows.iter_mut().filter_map(Value::as_object_mut) {
                let created = row.get("createdAtMs").and_then(Value::as_u64);
                let person = row.get("person").cloned();
                row.extend(created.map(|at| ("createdAt".to_owned(), json!(iso_time(at)))));
                row.extend(person.map(|person| ("id".to_owned(), person)));
            }
        }
        if let (Some(channel), Some(answer)) = (&self.channel, answer.as_object_mut()) {
            answer.insert("channel".into(), json!(channel));
        }
    }

    /// The channel of the one who waits there with this code.
    fn of_code(&self, answer: &Value, code: &str) -> Option<String> {
        let is_code = |row: &&Value| {
            row["code"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(code.trim()))
        };
        let mut rows = answer["requests"].as_array()?.iter().filter(|row| self.has(row));
        rows.find(is_code)?["channel"].as_str().map(str::to_owned)
    }
}

fn told(method: &str, answer: &Value) -> String {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    match method {
        LIST => {
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
        REMOVE => "let in no more\n".into(),
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
        let shown = told(LIST, &answer);
        assert!(shown.contains("ABCD2345") && shown.lines().count() == 2, "{shown}");
    }

    #[test]
    fn people_are_shown_by_channel_and_found_by_their_code() {
        let row = |channel: &str, account: &str, code: &str| {
            json!({"channel": channel, "accountId": account, "person": "7", "code": code,
                "createdAtMs": 0})
        };
        let all = json!({"requests": [row("telegram", "default", "AB"), row("webhook", "b", "CD")],
            "people": [{"channel": "webhook", "accountId": "b", "person": "8"}]});
        let place = |channel: Option<&str>, account: Option<&str>| Place {
            channel: channel.map(str::to_owned),
            account: account.map(str::to_owned),
        };
        let mut narrowed = all.clone();
        place(Some("Telegram"), None).narrow(&mut narrowed);
        let mut expected = row("telegram", "default", "AB");
        expected["id"] = json!("7");
        expected["createdAt"] = json!(iso_time(0));
        let expected = json!({"channel": "Telegram", "requests": [expected], "people": []});
        assert_eq!(narrowed, expected);
        let of = |place: Place, code: &str| place.of_code(&all, code);
        assert_eq!(of(place(None, None), "cd").as_deref(), Some("webhook"));
        assert_eq!(of(place(None, Some("b")), "CD").as_deref(), Some("webhook"));
        assert_eq!(of(place(None, Some("c")), "CD"), None);
        assert_eq!(of(place(Some("telegram"), Some("b")), "CD"), None);
    }
}
