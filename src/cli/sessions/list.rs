//! `clawgate sessions list`.

use clap::Args;
use serde_json::Value;

use crate::cli::format::{self, span, table};
use crate::cli::status::tokens;
use crate::cli::{CliError, ConnectArgs, Screen, Surroundings};
use crate::support::{Clock, SystemClock, json};

/// Arguments of `clawgate sessions list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only those that were used within so many minutes
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    active: Option<u64>,
    /// At most so many, the last used first [default: 100]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// How to reach the gateway.
    #[command(flatten)]
    connect: ConnectArgs,
}

impl ListArgs {
    fn params(&self) -> Value {
        let mut params = json!({});
        if let Some(agent) = &self.agent {
            params["agentId"] = json!(agent);
        }
        for (name, value) in [("activeMinutes", self.active), ("limit", self.limit)] {
            if let Some(value) = value {
                params[name] = json!(value);
            }
        }
        params
    }
}

/// Lists them.
pub async fn run(
    args: &ListArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let mut client = args.connect.connect(around).await?;
    let answer = client.request("sessions.list", args.params()).await?;
    client.close().await;
    if args.connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&text(&answer, SystemClock.now_ms()))?;
    }
    Ok(0)
}

fn text(answer: &Value, now_ms: u64) -> String {
    let sessions = answer["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    if sessions.is_empty() {
        return "No sessions.\n".to_owned();
    }
    let head = ["KEY", "KIND", "MODEL", "TOKENS", "AGE"].map(str::to_owned);
    let rows = sessions.iter().map(|session| row(session, now_ms));
    table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn row(session: &Value, now_ms: u64) -> [String; 5] {
    let word = |name: &str| session[name].as_str().unwrap_or("-").to_owned();
    let age = session["updatedAt"].as_u64().map(|at| span(now_ms.saturating_sub(at)));
    [
        word("key"),
        word("kind"),
        word("model"),
        tokens(session),
        age.unwrap_or_else(|| "-".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_a_line() {
        let answer = json!({"sessions": [
            {"key": "agent:main:main", "kind": "direct", "model": "mock-1", "updatedAt": 1000,
             "totalTokens": 4533, "contextTokens": 200_000},
            {"key": "agent:main:b"},
        ]});
        let expected = "\
KEY              KIND    MODEL   TOKENS     AGE
agent:main:main  direct  mock-1  4.5k/200k  1m 0s
agent:main:b     -       -       -          -
";
        assert_eq!(text(&answer, 61_000), expected);
        assert_eq!(text(&json!({}), 0), "No sessions.\n");
    }
}
