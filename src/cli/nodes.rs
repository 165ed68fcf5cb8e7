//! `clawgate nodes`: the nodes of the running gateway.
//!
//! Owns: what the commands show and ask for. Must not: decide which node may do
//! what; the gateway does.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::nodes::{MAX_LIMIT, is_same_name};
use crate::support::json;

use super::args::Timeout;
use super::client::Client;
use super::screen::in_line;
use super::{CliError, ConnectArgs, Screen, Surroundings, format};

/// What the gateway gives a node when nobody says so.
const NODE_LIMIT: Duration = Duration::from_secs(30);
/// More than that of a name tells nothing more.
const MAX_NAME: usize = 40;
/// So that the gateway says that the time is over, not this program.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// Arguments of `clawgate nodes`.
#[derive(Debug, Args)]
pub struct NodesArgs {
    #[command(subcommand)]
    command: NodesCommand,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    /// List nodes, and who waits for an approval
    #[command(alias = "status")]
    List {
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show one node, and what it can be asked
    Describe {
        /// Which.
        #[command(flatten)]
        node: Node,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Name a node that was approved
    Rename {
        /// Which.
        #[command(flatten)]
        node: Node,
        /// What it is called from now on.
        #[command(flatten)]
        name: NewName,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Let a node have the commands that it asks for
    Approve {
        /// Id of the request, or how it begins; see `nodes list`
        request: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Refuse what a node asks for
    Reject {
        /// Id of the request, or how it begins; see `nodes list`
        request: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Take the approval of a node back
    Remove {
        /// Which.
        #[command(flatten)]
        node: Node,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Ask a node for something, and show its answer
    Invoke {
        /// Which.
        #[command(flatten)]
        node: Node,
        /// What it is asked for.
        #[command(flatten)]
        command: Wanted,
        /// Its params, as JSON
        #[arg(long, value_name = "JSON")]
        params: Option<String>,
        /// How long the node may take, whatever --timeout says [default: 30000]
        #[arg(long, alias = "invoke-timeout", value_name = "MS")]
        timeout_ms: Option<u64>,
        /// The same key is the same invocation [default: a new one]
        #[arg(long, alias = "idempotency-key", value_name = "KEY")]
        key: Option<String>,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// A node, in our form or in that of OpenClaw.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Node {
    /// Its id, its name, or how its id begins
    node: Option<String>,
    /// The same, as scripts for OpenClaw spell it
    #[arg(long = "node", value_name = "NODE")]
    named_node: Option<String>,
}

/// A name, in both forms.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct NewName {
    /// Its new name
    name: Option<String>,
    /// The same, as scripts for OpenClaw spell it
    #[arg(long = "name", value_name = "NAME")]
    named_name: Option<String>,
}

/// A command of a node, in both forms.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Wanted {
    /// The command, such as location.get
    command: Option<String>,
    /// The same, as scripts for OpenClaw spell it
    #[arg(long = "command", value_name = "COMMAND")]
    named_command: Option<String>,
}

impl From<Node> for String {
    fn from(node: Node) -> Self {
        node.node.or(node.named_node).unwrap_or_default()
    }
}

/// Runs one of them.
pub async fn run(
    args: NodesArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    let (mut connect, asked) = parts(args.command);
    if let Asked::Invoke { more, .. } = &asked {
        let limit = patience(connect.limit(), more["timeoutMs"].as_u64());
        connect.timeout = Some(Timeout::of(limit));
    }
    let mut client = connect.connect(around).await?;
    let (answer, text) = ask(&mut client, asked).await?;
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        screen.text(&text)?;
    }
    client.close().await;
    Ok(0)
}

/// How long the answer of a node is waited for that has so many milliseconds.
fn patience(limit: Duration, timeout_ms: Option<u64>) -> Duration {
    let of_node = timeout_ms.map_or(NODE_LIMIT, Duration::from_millis).min(MAX_LIMIT);
    limit.max(of_node + ON_THE_WAY)
}

/// What a command asks for.
enum Asked {
    List,
    Describe(String),
    Rename(String, String),
    Decide(&'static str, String),
    Remove(String),
    Invoke { node: String, command: String, params: Option<String>, more: Value },
}

fn parts(command: NodesCommand) -> (ConnectArgs, Asked) {
    match command {
        NodesCommand::List { connect } => (connect, Asked::List),
        NodesCommand::Describe { node, connect } => (connect, Asked::Describe(node.into())),
        NodesCommand::Rename { node, name, connect } => {
            let name = name.name.or(name.named_name).unwrap_or_default();
            (connect, Asked::Rename(node.into(), name))
        }
        NodesCommand::Approve { request, connect } => (connect, Asked::Decide("approve", request)),
        NodesCommand::Reject { request, connect } => (connect, Asked::Decide("reject", request)),
        NodesCommand::Remove { node, connect } => (connect, Asked::Remove(node.into())),
        NodesCommand::Invoke { node, command, params, timeout_ms, key, connect } => {
            let key = key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
            let mut more = json!({"idempotencyKey": key});
            if let Some(limit) = timeout_ms {
                more["timeoutMs"] = json!(limit);
            }
            let command = command.command.or(command.named_command).unwrap_or_default();
            (connect, Asked::Invoke { node: node.into(), command, params, more })
        }
    }
}

/// The answer, and the same for people.
async fn ask(client: &mut Client, asked: Asked) -> Result<(Value, String), CliError> {
    Ok(match asked {
        Asked::List => {
            let mut list = client.request("node.list", json!({})).await?;
            // Who may not approve sees the nodes all the same.
            if let Ok(pairings) = client.request("node.pair.list", json!({})).await {
                list["pending"] = pairings["pending"].clone();
            }
            let text = list_text(&list);
            (list, text)
        }
        Asked::Describe(name) => {
            let node = find(client, &name, false).await?;
            let params = json!({"nodeId": node["nodeId"]});
            let node = client.request("node.describe", params).await?;
            // Who may not approve sees the node all the same.
            let pairings = client.request("node.pair.list", json!({})).await.ok();
            let text = node_text(&node, pairings.map(|it| is_approved(&node, &it)));
            (node, text)
        }
        Asked::Rename(name, new) => {
            let node = find(client, &name, false).await?;
            let params = json!({"nodeId": node["nodeId"], "displayName": new});
            let answer = client.request("node.rename", params).await?;
            let text = format!("{} is called {new}\n", text(&answer["nodeId"]));
            (answer, text)
        }
        Asked::Decide(decision, begins) => {
            let request = request(client, &begins).await?;
            let params = json!({"requestId": request["requestId"]});
            let answer = client.request(&format!("node.pair.{decision}"), params).await?;
            let name = label(&request);
            let text = match decision {
                "approve" => {
                    format!("{name} may be asked for: {}\n", names(&request["commands"]))
                }
                _ => format!("{name} is rejected\n"),
            };
            (answer, text)
        }
        Asked::Remove(name) => {
            let node = find(client, &name, true).await?;
            let params = json!({"nodeId": node["nodeId"]});
            let answer = client.request("node.pair.remove", params).await?;
            (answer, format!("{} is no longer approved\n", label(&node)))
        }
        Asked::Invoke { node, command, params, more } => {
            let node = find(client, &node, false).await?;
            let mut asked = more;
            asked["nodeId"] = node["nodeId"].clone();
            asked["command"] = json!(command);
            if let Some(text) = params {
                asked["params"] = serde_json::from_str(&text)
                    .map_err(|error| CliError::Usage(format!("--params is not JSON: {error}")))?;
            }
            let answer = client.request("node.invoke", asked).await?;
            let text = format!("{:#}\n", answer["payload"]);
            (answer, text)
        }
    })
}

/// The one of `all` that somebody names. Of several the one that is connected is meant, as by
/// agents, unless it `is_to_go`.
fn pick<'a>(
    all: &'a [Value],
    id: &str,
    name: &str,
    what: &str,
    is_to_go: bool,
) -> Result<&'a Value, CliError> {
    let is_there = |value: &Value| value["connected"] == true;
    let is = |member: &str, value: &Value| value[member].as_str().is_some_and(|it| it == name);
    if let Some(exact) = all.iter().find(|value| is(id, value)) {
        return Ok(exact);
    }
    let called = |value: &&Value| {
        let begins = value[id].as_str().is_some_and(|it| it.starts_with(name));
        let same = is_same_name(text(&value["displayName"]), name);
        !name.is_empty() && (begins || (same && id == "nodeId"))
    };
    let mut found: Vec<_> = all.iter().filter(called).collect();
    if !is_to_go && found.iter().any(|value| is_there(value)) {
        found.retain(|value| is_there(value));
    }
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            Err(CliError::Missing(format!("there is no {what} {name}; see `clawgate nodes list`")))
        }
        many => {
            let ids = many.iter().map(|value| {
                let place = if is_there(value) { " (connected)" } else { "" };
                in_line(text(&value[id])) + place
            });
            let ids: Vec<_> = ids.collect();
            Err(CliError::Missing(format!("{name} is not clear: {}", ids.join(", "))))
        }
    }
}

async fn find(client: &mut Client, name: &str, is_to_go: bool) -> Result<Value, CliError> {
    let list = client.request("node.list", json!({})).await?;
    let all = list["nodes"].as_array().cloned().unwrap_or_default();
    pick(&all, "nodeId", name, "node", is_to_go).cloned()
}

async fn request(client: &mut Client, begins: &str) -> Result<Value, CliError> {
    let list = client.request("node.pair.list", json!({})).await?;
    let all = list["pending"].as_array().cloned().unwrap_or_default();
    pick(&all, "requestId", begins, "request", false).cloned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What people call a node, which may be what it calls itself.
fn label(node: &Value) -> String {
    let name = node["displayName"].as_str().unwrap_or_else(|| text(&node["nodeId"]));
    in_line(&name.chars().take(MAX_NAME).collect::<String>())
}

fn names(list: &Value) -> String {
    let names: Vec<_> = list.as_array().into_iter().flatten().map(text).collect();
    if names.is_empty() { "nothing".into() } else { in_line(&names.join(", ")) }
}

fn list_text(list: &Value) -> String {
    let nodes = list["nodes"].as_array().into_iter().flatten().map(|node| {
        let state = match (node["connected"] == true, node["paired"] == true) {
            (true, _) => "connected",
            (false, true) => "away",
            (false, false) => "unknown",
        };
        let id: String = text(&node["nodeId"]).chars().take(12).collect();
        let platform = text(&node["platform"]).to_owned();
        [label(node), state.into(), id, platform, names(&node["commands"])]
    });
    let rows: Vec<_> = nodes.collect();
    let mut shown = if rows.is_empty() { "No nodes\n".into() } else { format::table(&rows) };
    let waiting = list["pending"].as_array().into_iter().flatten().map(|request| {
        let id = text(&request["requestId"]).to_owned();
        [label(request), id, names(&request["commands"])]
    });
    let rows: Vec<_> = waiting.collect();
    if !rows.is_empty() {
        shown += "\nWaiting for `clawgate nodes approve` or `reject`:\n";
        shown += &format::table(&rows);
    }
    shown
}

/// Whether the commands of a node were approved; its device alone may be, which `paired` of
/// the node says as well.
fn is_approved(node: &Value, pairings: &Value) -> bool {
    let approved = pairings["paired"].as_array();
    approved.is_some_and(|approved| approved.iter().any(|it| it["nodeId"] == node["nodeId"]))
}

fn node_text(node: &Value, approved: Option<bool>) -> String {
    let yes = |is_so| if is_so { "yes" } else { "no" };
    let mut rows = vec![
        ["name".to_owned(), label(node)],
        ["id".into(), text(&node["nodeId"]).into()],
        ["connected".into(), yes(node["connected"] == true).into()],
    ];
    if let Some(approved) = approved {
        rows.push(["approved".into(), yes(approved).into()]);
    }
    for (member, name) in [
        ("platform", "platform"),
        ("version", "version"),
        ("clientId", "client"),
        ("deviceFamily", "device"),
        ("modelIdentifier", "model"),
        ("remoteIp", "address"),
    ] {
        if let Some(value) = node[member].as_str() {
            rows.push([name.into(), value.into()]);
        }
    }
    rows.push(["is good for".into(), names(&node["caps"])]);
    rows.push(["can be asked".into(), names(&node["commands"])]);
    format::table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_time_and_the_answer_a_moment_more() {
        let seconds = Duration::from_secs;
        assert_eq!(patience(seconds(30), None), seconds(35));
        assert_eq!(patience(seconds(30), Some(120_000)), seconds(125));
        assert_eq!(patience(seconds(600), Some(120_000)), seconds(600));
        assert_eq!(patience(seconds(1), Some(7_200_000)), seconds(7205));
        assert_eq!(patience(seconds(1), Some(u64::MAX)), MAX_LIMIT + ON_THE_WAY);
    }

    #[test]
    fn a_node_that_calls_itself_a_row_makes_none() {
        let node = json!({"nodeId": "aa11", "requestId": "r1", "displayName": "Phone\nbox  x",
            "commands": ["a\nb"]});
        let list = json!({"nodes": [node], "pending": [node]});
        let shown = list_text(&list);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(shown.contains("Phone\\nbox") && shown.contains("a\\nb"), "{shown}");
        assert_eq!(node_text(&node, Some(true)).lines().count(), 6);
        let long = json!({"displayName": "x".repeat(200)});
        assert_eq!(label(&long).len(), MAX_NAME);
    }

    #[test]
    fn a_node_is_approved_when_it_is_among_those_that_were_not_when_its_device_is() {
        let node = json!({"nodeId": "aa11", "paired": true});
        let approved = |ids: &[&str]| {
            let rows: Vec<_> = ids.iter().map(|id| json!({"nodeId": id})).collect();
            is_approved(&node, &json!({"paired": rows}))
        };
        assert!(approved(&["bb22", "aa11"]) && !approved(&["bb22"]) && !approved(&[]));
        let said = |approved| {
            let text = node_text(&node, approved);
            let row = text.lines().find(|line| line.starts_with("approved"))?;
            row.split_whitespace().next_back().map(str::to_owned)
        };
        assert_eq!(said(Some(false)).as_deref(), Some("no"));
        assert_eq!(said(None), None);
    }

    #[test]
    fn a_node_is_found_by_its_id_its_name_or_how_its_id_begins() {
        let all = [
            json!({"nodeId": "aa11", "displayName": "Phone"}),
            json!({"nodeId": "aa22", "displayName": "Box"}),
            json!({"nodeId": "bb33"}),
        ];
        let found =
            |name: &str| pick(&all, "nodeId", name, "node", false).map(|it| text(&it["nodeId"]));
        assert_eq!(found("aa11").ok(), Some("aa11"));
        assert_eq!(found("phone").ok(), Some("aa11"));
        assert_eq!(found("bb").ok(), Some("bb33"));
        assert!(found("aa").is_err() && found("").is_err() && found("x").is_err());
    }

    #[test]
    fn of_nodes_of_one_name_the_connected_one_is_meant_but_not_to_be_removed() {
        let name = "Ann\u{2019}s iPhone";
        let node = |id: &str, is_there: bool| {
            let connected = json!(is_there);
            json!({"nodeId": id, "displayName": name, "connected": connected})
        };
        let mut all = vec![node("aa11", false), node("bb22", true)];
        let found = |all: &[Value], is_to_go: bool| {
            let found = pick(all, "nodeId", "ann's iphone", "node", is_to_go);
            found.map(|it| text(&it["nodeId"]).to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(found(&all, false).as_deref(), Ok("bb22"));
        let unclear = found(&all, true).unwrap_err();
        assert!(unclear.ends_with("is not clear: aa11, bb22 (connected)"), "{unclear}");
        all.push(node("cc33", true));
        let unclear = found(&all, false).unwrap_err();
        assert!(unclear.ends_with(": bb22 (connected), cc33 (connected)"), "{unclear}");
    }
}
