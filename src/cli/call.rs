//! `clawgate call`: any method, as it is.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::support::json;

use super::args::Timeout;
use super::client::{Client, ClientError, Incoming};
use super::{CliError, ConnectArgs, Screen, Surroundings, format};

/// Arguments of `clawgate call`.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// Name of the method, such as `sessions.list`
    pub method: String,
    /// Parameters as JSON; `-` reads them from stdin
    #[arg(value_name = "JSON")]
    pub params: Option<String>,
    /// The same, as scripts for OpenClaw spell it
    #[arg(long = "params", value_name = "JSON", conflicts_with = "params")]
    pub named_params: Option<String>,
    /// Wait for the last answer of a method that first says "accepted", such as `agent`,
    /// however long that takes if there is no --timeout
    #[arg(long)]
    pub expect_final: bool,
    /// How to reach the gateway.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Calls the method and prints what it answers.
pub async fn run(
    args: CallArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let params = params(args.params.or(args.named_params).as_deref())?;
    let mut client = args.connect.connect(around).await?;
    let payload = if args.expect_final {
        let limit = args.connect.timeout.map(Timeout::time);
        final_answer(&mut client, &args.method, params, limit).await?
    } else {
        client.request(&args.method, params).await?
    };
    screen.line(&format::json(&payload, args.connect.json))?;
    client.close().await;
    Ok(0)
}

fn params(given: Option<&str>) -> Result<Value, CliError> {
    let text = match given {
        None => return Ok(json!({})),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            text
        }
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::Usage(format!(
            "the parameters are not JSON ({error}); quote them for the shell, such as '{{\"limit\":5}}'"
        ))
    })
}

/// The last answer of a method that first says "accepted". A run may take long, so only a
/// limit that the user asked for holds.
pub(super) async fn final_answer(
    client: &mut Client,
    method: &str,
    params: Value,
    limit: Option<Duration>,
) -> Result<Value, ClientError> {
    let wanted = client.start(method, params).await?;
    let answer = async {
        loop {
            if let Incoming::Answer { id, result } = client.next().await?
                && id == wanted
            {
                let payload = result.map_err(ClientError::refused)?;
                if payload.get("status").and_then(Value::as_str) != Some("accepted") {
                    return Ok(payload);
                }
            }
        }
    };
    match limit {
        None => answer.await,
        Some(limit) => tokio::time::timeout(limit, answer)
            .await
            .map_err(|_| ClientError::Timeout { what: method.to_owned(), limit })?,
    }
}
