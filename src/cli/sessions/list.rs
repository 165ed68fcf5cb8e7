//! `clawgate sessions list`.

use clap::Args;
use serde_json::Value;

use crate::cli::format::{self, span, table};
use crate::cli::status::tokens;
use crate::cli::{CliError, ConnectArgs, Screen, Surroundings};
use crate::support::{Clock, SystemClock, json};

/// More than there ever are; an integer in every language.
const ALL: u64 = 4_294_967_295;

/// Arguments of `clawgate sessions list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Those of all agents, as it is without --agent
    #[arg(long, hide = true, conflicts_with = "agent")]
    all_agents: bool,
    /// OpenClaw tells more with it; here all is told.
    #[arg(long, hide = true)]
    verbose: bool,
    /// Only those that were used within so many minutes
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    active: Option<u64>,
    /// At most so many, the last used first, or all [default: 100]
    #[arg(long, value_name = "COUNT", value_parser = limit)]
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

fn limit(text: &str) -> Result<u64, String> {
    if text == "all" {
        return Ok(ALL);
    }
    let count = text.parse::<u64>().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "give a number from 1 on, or all".to_owned())
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
        if let Some(more) = more(&answer) {
            screen.note(&more)?;
        }
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

/// That there are more than those that are listed.
fn more(answer: &Value) -> Option<String> {
    let shown = u64::try_from(answer["sessions"].as_array()?.len()).ok()?;
    let total = answer["totalCount"].as_u64().filter(|total| *total > shown)?;
    Some(format!("{shown} of {total} sessions; --limit {total} lists all"))
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

    #[test]
    fn a_limit_is_a_count_or_all() {
        assert_eq!((limit("7"), limit("all")), (Ok(7), Ok(ALL)));
        assert!(["0", "-1", "x", ""].into_iter().all(|text| limit(text).is_err()));
    }

    #[test]
    fn that_there_are_more_is_said() {
        let some = |total: Value| more(&json!({"sessions": [{}, {}], "totalCount": total}));
        assert_eq!(some(json!(3)).unwrap(), "2 of 3 sessions; --limit 3 lists all");
        // Other gateways may not tell.
        assert!(some(json!(2)).is_none() && some(Value::Null).is_none());
    }
}
