//! `clawgate devices`: who may connect with a device, and who wants to.
//!
//! Owns: what the commands show and ask for. Promises: on the gateway's own
//! machine, as its user, they need no token. Must not: touch the database; the
//! running gateway does, so that whoever loses something is closed at once.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::support::json;

use super::client::Client;
use super::control::Control;
use super::{CliError, ConnectArgs, Screen, Surroundings, format};

mod code;
mod text;

pub use code::{QrArgs, run as qr};

/// For who names what there is not.
const SEE: &str = "`clawgate devices list` shows devices, and who waits";
/// How a refusal begins that is about the token of a device.
const TOKEN_DENIED: &str = "device token ";

/// Arguments of `clawgate devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    #[command(subcommand)]
    command: DevicesCommand,
}

#[derive(Debug, Subcommand)]
enum DevicesCommand {
    /// List devices, and those that wait for approval
    List {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Let a device in that waits
    Approve {
        /// Id of its request; without one, what waits is shown
        request_id: Option<String>,
        /// Approve whatever was asked for last
        #[arg(long, conflicts_with = "request_id")]
        latest: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Turn down a device that waits
    Reject {
        /// Id of its request
        request_id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Forget a device and close its connections
    Remove {
        /// Its id
        device_id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Make a device's token good for nothing and close its connections
    Revoke {
        /// Which token
        #[command(flatten)]
        token: TokenOf,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Give a device another token and close its connections
    Rotate {
        /// Which token
        #[command(flatten)]
        token: TokenOf,
        /// What the new token is good for, more than once for several [default:
        /// as the old one]
        #[arg(long = "scope", value_name = "SCOPE", num_args = 1..)]
        scopes: Vec<String>,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Forget every device
    Clear {
        /// Really
        #[arg(long)]
        yes: bool,
        /// Turn down those that wait, too
        #[arg(long)]
        pending: bool,
        /// Only take back setup codes that were not used
        #[arg(long, conflicts_with = "pending")]
        codes: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// A token of a device.
#[derive(Debug, Args)]
struct TokenOf {
    /// Id of the device
    #[arg(long, value_name = "ID")]
    device: String,
    /// The token's role: operator or node
    #[arg(long)]
    role: String,
}

/// The way to the gateway.
pub(super) enum Way {
    /// The socket of this machine's gateway.
    Control(Control),
    /// Its address.
    Gateway(Box<Client>),
}

impl Way {
    /// The socket of this machine's gateway, unless another one is meant.
    pub async fn find(connect: &ConnectArgs, around: &Surroundings) -> Result<Self, CliError> {
        let is_for_another =
            connect.token.is_some() || connect.password.is_some() || connect.is_elsewhere(around);
        if let Some((socket, key)) = around.control.as_ref().filter(|_| !is_for_another)
            && let Some(control) = Control::connect(socket, key, connect.limit()).await?
        {
            return Ok(Self::Control(control));
        }
        Ok(Self::Gateway(Box::new(connect.connect(around).await?)))
    }

    /// Asks, and waits for the answer.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, CliError> {
        match self {
            Self::Control(control) => control.request(method, params).await,
            Self::Gateway(client) => Ok(client.request(method, params).await?),
        }
    }
}

/// Runs one of them.
pub async fn run(
    args: DevicesArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    match args.command {
        DevicesCommand::List { connect } => {
            let list = ask(&connect, around, "device.pair.list", json!({})).await?;
            show(screen, &connect, &list, || text::list(&list))
        }
        DevicesCommand::Approve { request_id, latest, connect } => {
            approve(request_id, latest, &connect, around, screen).await
        }
        DevicesCommand::Reject { request_id, connect } => {
            let params = json!({"requestId": request_id});
            let answer = ask(&connect, around, "device.pair.reject", params).await?;
            show(screen, &connect, &answer, || {
                format!("Turned down {}\n", text::of(&answer, "deviceId"))
            })
        }
        DevicesCommand::Remove { device_id, connect } => {
            let params = json!({"deviceId": device_id});
            let answer = ask(&connect, around, "device.pair.remove", params).await?;
            show(screen, &connect, &answer, || {
                format!("Removed {}\n", text::of(&answer, "deviceId"))
            })
        }
        DevicesCommand::Revoke { token, connect } => {
            let params = json!({"deviceId": token.device, "role": token.role});
            let answer = ask(&connect, around, "device.token.revoke", params).await?;
            show(screen, &connect, &answer, || {
                format!("Revoked the {} token of {}\n", token.role, token.device)
            })
        }
        DevicesCommand::Rotate { token, scopes, connect } => {
            let mut params = json!({"deviceId": token.device, "role": token.role});
            if !scopes.is_empty() {
                params["scopes"] = json!(scopes);
            }
            let answer = ask(&connect, around, "device.token.rotate", params).await?;
            show(screen, &connect, &answer, || {
                format!(
                    "Rotated the {} token of {}; the device gets it when it connects with the gateway's token\n",
                    token.role, token.device
                )
            })
        }
        DevicesCommand::Clear { yes, pending, codes, connect } => {
            clear(yes, pending, codes, &connect, around, screen).await
        }
    }
}

async fn ask(
    connect: &ConnectArgs,
    around: &Surroundings,
    method: &str,
    params: Value,
) -> Result<Value, CliError> {
    let mut way = Way::find(connect, around).await?;
    let device = params["deviceId"].clone();
    let error = match way.request(method, params).await {
        Ok(answer) => return Ok(answer),
        Err(error) => unknown(error),
    };
    // It says the same of a token that there is not and of one that is not for who asks.
    let is_there = !error.says(TOKEN_DENIED) || is_listed(&mut way, &device).await;
    Err(if is_there { error } else { error.see(TOKEN_DENIED, SEE) })
}

/// Why it was refused, with where to look when there is no such request or device.
fn unknown(error: CliError) -> CliError {
    error.see("unknown requestId", SEE).see("unknown deviceId", SEE)
}

/// Whether the gateway lists this device, as far as it can be asked.
async fn is_listed(way: &mut Way, device: &Value) -> bool {
    let Ok(list) = way.request("device.pair.list", json!({})).await else { return true };
    let paired = list["paired"].as_array();
    paired.is_none_or(|paired| paired.iter().any(|row| row["deviceId"] == *device))
}

/// The answer for programs, or what people read.
pub(super) fn show(
    screen: &mut Screen,
    connect: &ConnectArgs,
    answer: &Value,
    text: impl FnOnce() -> String,
) -> Result<u8, CliError> {
    if connect.json {
        screen.line(&format::compact(answer))?;
    } else {
        screen.text(&text())?;
    }
    Ok(0)
}

async fn approve(
    request_id: Option<String>,
    latest: bool,
    connect: &ConnectArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let mut way = Way::find(connect, around).await?;
    let request_id = if let Some(id) = request_id {
        id
    } else {
        let list = way.request("device.pair.list", json!({})).await?;
        // The newest comes first.
        let newest = list["pending"][0]["requestId"].as_str();
        match newest.filter(|_| latest) {
            Some(id) => id.to_owned(),
            None if latest && !connect.json => {
                screen.error(text::waiting(&list).trim_end())?;
                return Ok(1);
            }
            None => {
                show(screen, connect, &list, || text::waiting(&list))?;
                return Ok(u8::from(latest));
            }
        }
    };
    let answer = way.request("device.pair.approve", json!({"requestId": request_id})).await;
    let answer = answer.map_err(unknown)?;
    show(screen, connect, &answer, || text::approved(&answer))
}

async fn clear(
    yes: bool,
    pending: bool,
    codes: bool,
    connect: &ConnectArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    if !yes {
        return Err(CliError::Usage("this cannot be undone; add --yes".to_owned()));
    }
    let mut way = Way::find(connect, around).await?;
    if codes {
        let answer = way.request("device.pair.clearCodes", json!({})).await?;
        return show(screen, connect, &answer, || {
            format!("Took back {} setup codes\n", answer["cleared"])
        });
    }
    let list = way.request("device.pair.list", json!({})).await?;
    let ids = |rows: &str, name: &str| -> Vec<String> {
        let rows = list[rows].as_array().into_iter().flatten();
        rows.filter_map(|row| row[name].as_str().map(str::to_owned)).collect()
    };
    let (mut removed, mut rejected) = (Vec::new(), Vec::new());
    for id in ids("paired", "deviceId") {
        way.request("device.pair.remove", json!({"deviceId": id})).await?;
        removed.push(id);
    }
    for id in ids("pending", "requestId").into_iter().filter(|_| pending) {
        // One that asks for more has gone with its device.
        match way.request("device.pair.reject", json!({"requestId": id})).await {
            Ok(_) => rejected.push(id),
            Err(CliError::Client(super::client::ClientError::Request(_))) => {}
            Err(error) => return Err(error),
        }
    }
    let answer = json!({"removedDevices": removed, "rejectedPending": rejected});
    show(screen, connect, &answer, || {
        format!("Removed {} devices, turned down {} requests\n", removed.len(), rejected.len())
    })
}
