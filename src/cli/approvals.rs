//! `clawgate approvals`: commands, and questions of plugins, that wait for a person.
//!
//! Promises: what is to be decided is shown letter by letter, so that nothing in it can
//! look like something else. Must not: decide what may be decided; the gateway does.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::format::{self, span, table};
use super::screen::spelled_out;
use super::{CliError, ConnectArgs, Screen, Surroundings};
use crate::support::{Clock, SystemClock, json};

/// So begin the ids of what plugins ask.
const OF_PLUGIN: &str = "plugin:";
/// Longer commands would hide the others; `--json` has them whole.
const SHOWN_MAX: usize = 200;

/// Arguments of `clawgate approvals`.
#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// List what waits
    #[command(visible_alias = "pending")]
    List {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Let it be done
    Approve {
        /// Its id, or how only one begins
        id: String,
        /// From now on without asking
        #[arg(long)]
        always: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Do not let it be done
    Deny {
        /// Its id, or how only one begins
        id: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show what runs without asking
    Get {
        /// OpenClaw's word for the only place that there is here.
        #[arg(long, hide = true)]
        gateway: bool,
        /// That of a node; its id
        #[arg(long, value_name = "ID", conflicts_with = "gateway")]
        node: Option<String>,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// Runs one of them.
pub async fn run(
    args: ApprovalsArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (connect, answer, text) = match args.command {
        ApprovalsCommand::List { connect } => {
            let waiting = waiting(&connect, around).await?;
            let text = waiting_text(&waiting, SystemClock.now_ms());
            (connect, waiting, text)
        }
        ApprovalsCommand::Approve { id, always, connect } => {
            let decision = if always { "allow-always" } else { "allow-once" };
            let answer = decide(&id, decision, &connect, around).await?;
            let lasting = if always { ", from now on without asking" } else { "" };
            (connect, answer, format!("Approved {id}{lasting}\n"))
        }
        ApprovalsCommand::Deny { id, connect } => {
            let answer = decide(&id, "deny", &connect, around).await?;
            (connect, answer, format!("Denied {id}\n"))
        }
        ApprovalsCommand::Get { node, connect, .. } => {
            let mut client = connect.connect(around).await?;
            let answer = match node {
                Some(id) => client.request("exec.approvals.node.get", json!({"nodeId": id})).await,
                None => client.request("exec.approvals.get", json!({})).await,
            };
            let answer = answer?;
            client.close().await;
            let text = rules_text(&answer);
            (connect, answer, text)
        }
    };
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&text)?;
    }
    Ok(0)
}

/// What waits, by kind.
async fn waiting(connect: &ConnectArgs, around: &Surroundings) -> Result<Value, CliError> {
    let mut client = connect.connect(around).await?;
    // Both at once: the gateway answers them concurrently.
    let exec = client.start("exec.approval.list", json!({})).await?;
    let plugin = client.start("plugin.approval.list", json!({})).await?;
    let exec = client.answer(&exec).await?;
    let plugin = client.answer(&plugin).await?;
    client.close().await;
    Ok(json!({"exec": exec, "plugin": plugin}))
}

async fn decide(
    id: &str,
    decision: &str,
    connect: &ConnectArgs,
    around: &Surroundings,
) -> Result<Value, CliError> {
    let kind = if id.starts_with(OF_PLUGIN) { "plugin" } else { "exec" };
    let mut client = connect.connect(around).await?;
    let method = format!("{kind}.approval.resolve");
    let answer = client.request(&method, json!({"id": id, "decision": decision})).await?;
    client.close().await;
    Ok(answer)
}

fn word<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn rows<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn waiting_text(waiting: &Value, now_ms: u64) -> String {
    let asked: Vec<_> = rows(waiting, "exec").iter().chain(rows(waiting, "plugin")).collect();
    let Some(first) = asked.first() else { return "Nothing waits for approval.\n".to_owned() };
    let head = ["ID", "AGENT", "WHERE", "EXPIRES", "WHAT"].map(str::to_owned);
    let all = asked.iter().map(|question| row(question, now_ms));
    let mut text = table(&std::iter::once(head).chain(all).collect::<Vec<_>>());
    let id = spelled_out(word(first, "/id").unwrap_or_default());
    text.extend(["\nLet one be done with: clawgate approvals approve ", &id, "   (or deny)\n"]);
    text
}

fn row(question: &Value, now_ms: u64) -> [String; 5] {
    let of = |pointer: &str| word(question, pointer);
    let left = question["expiresAtMs"].as_u64().map(|at| span(at.saturating_sub(now_ms)));
    let place = match of("/request/nodeId") {
        Some(node) => format!("node {node}"),
        None => of("/request/cwd").unwrap_or("-").to_owned(),
    };
    let what = of("/request/command").map(spelled_out);
    let what = what.or_else(|| {
        let title = of("/request/title")?;
        let about = of("/request/description").map(|about| format!(": {about}"));
        Some(spelled_out(&format!("{title}{}", about.unwrap_or_default())))
    });
    let mut what = shortened(what.unwrap_or_default());
    // Shortened by itself: a long command does not hide it.
    for line in of("/request/warningText").unwrap_or_default().lines() {
        what.extend(["  ! ", &shortened(spelled_out(line))]);
    }
    [
        spelled_out(of("/id").unwrap_or("?")),
        spelled_out(of("/request/agentId").unwrap_or("-")),
        spelled_out(&place),
        left.map_or_else(|| "-".to_owned(), |left| format!("in {left}")),
        what,
    ]
}

/// What is left out is said, so that nobody approves what he has not seen.
fn shortened(text: String) -> String {
    let more = text.chars().count().saturating_sub(SHOWN_MAX);
    if more == 0 {
        return text;
    }
    let begin: String = text.chars().take(SHOWN_MAX).collect();
    format!("{begin}… ({more} more characters: --json)")
}

fn rules_text(answer: &Value) -> String {
    let path = word(answer, "/path").unwrap_or("the file of what may run");
    let absent = if answer["exists"] == true { "" } else { " (not there)" };
    let mut text = format!("{}{absent}\n", spelled_out(path));
    let file = &answer["file"];
    for (name, value) in file["defaults"].as_object().into_iter().flatten() {
        let line = format!("default {name}: {}", value.as_str().unwrap_or(&value.to_string()));
        text.extend([spelled_out(&line).as_str(), "\n"]);
    }
    let agents = file["agents"].as_object().into_iter().flatten();
    let entries = agents.flat_map(|(agent, rules)| {
        rows(rules, "allowlist").iter().map(move |entry| entry_row(agent, entry))
    });
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        text.push_str("No command runs by a rule of its own.\n");
    } else {
        let head = ["AGENT", "PATTERN", "ARGUMENTS", "LAST COMMAND"].map(str::to_owned);
        text.push('\n');
        text.push_str(&table(&std::iter::once(head).chain(entries).collect::<Vec<_>>()));
    }
    text
}

fn entry_row(agent: &str, entry: &Value) -> [String; 4] {
    // Older files have the pattern alone.
    let pattern = entry.as_str().or_else(|| word(entry, "/pattern")).unwrap_or("?");
    [
        spelled_out(agent),
        spelled_out(pattern),
        word(entry, "/argPattern").map_or_else(|| "any".to_owned(), spelled_out),
        shortened(word(entry, "/lastUsedCommand").map_or_else(|| "-".to_owned(), spelled_out)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_shown_letter_by_letter_with_what_to_do() {
        let waiting = json!({
            "exec": [{"id": "0a1b", "expiresAtMs": 61_000, "request":
                {"command": "ls \u{202e}x", "cwd": "/w", "agentId": "main"}}],
            "plugin": [{"id": "plugin:7", "request": {"title": "Pay", "description": "10 EUR"}}],
        });
        let expected = "\
ID        AGENT  WHERE  EXPIRES   WHAT
0a1b      main   /w     in 1m 0s  ls \\u{202e}x
plugin:7  -      -      -         Pay: 10 EUR

Let one be done with: clawgate approvals approve 0a1b   (or deny)
";
        assert_eq!(waiting_text(&waiting, 1000), expected);
        let warned = json!({"exec": [{"id": "a", "request": {"command": "x".repeat(250),
            "warningText": "It sets:\nTAR_OPTIONS='\u{2800}-I'"}}]});
        let shown = waiting_text(&warned, 0);
        let end = "--json)  ! It sets:  ! TAR_OPTIONS='\\u{2800}-I'\n";
        assert!(shown.contains(end), "{shown}");
        let nothing = waiting_text(&json!({"exec": [], "plugin": []}), 0);
        assert_eq!(nothing, "Nothing waits for approval.\n");
        let sly = json!({"exec": [{"id": "a", "request": {"command": "ls", "agentId": "x\ny"}}]});
        let shown = waiting_text(&sly, 0);
        assert!(shown.contains("a   x\\ny  "), "{shown}");
        let long = json!({"exec": [{"id": "a", "request": {"command": "x".repeat(250)}}]});
        let shown = waiting_text(&long, 0);
        assert!(shown.contains("… (50 more characters: --json)"), "{shown}");
    }

    #[test]
    fn rules_are_shown_by_agent() {
        let answer = json!({"path": "/h/exec-approvals.json", "exists": true, "file": {
            "defaults": {"ask": "on-miss"},
            "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/rg", "lastUsedCommand": "rg x"},
                "/bin/ls"]}}}});
        let expected = "\
/h/exec-approvals.json
default ask: on-miss

AGENT  PATTERN      ARGUMENTS  LAST COMMAND
main   /usr/bin/rg  any        rg x
main   /bin/ls      any        -
";
        assert_eq!(rules_text(&answer), expected);
        let none = rules_text(&json!({"exists": false, "file": {"version": 1}}));
        assert!(none.ends_with("No command runs by a rule of its own.\n"), "{none}");
        // That of a node is what the node says.
        let sly = rules_text(&json!({"path": "/h\nx", "exists": true, "file": {
            "defaults": {"ask\nx": "y"}, "agents": {"a\nx": {"allowlist": ["/bin/ls"]}}}}));
        assert!(sly.lines().all(|line| !line.starts_with('x')), "{sly}");
    }
}
