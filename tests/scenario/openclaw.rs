//! OpenClaw's own programs on this gateway: the command line and the node host of the
//! last release of protocol 3, and of one that speaks protocol 4 alone.

use serde_json::json;

use crate::stage::{Api, admin, call, config, end_of, scripted, start, told, until_within};
use crate::support::client::SOON;
use crate::support::openclaw::{
    NodeHost, OF_PROTOCOL_3, OF_PROTOCOL_4, OpenClaw, PATIENCE, Release,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A message, jobs and a run of one, who is connected, what is logged.
async fn everyday(release: Release) -> (Gateway, MockProvider, OpenClaw) {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let openclaw = OpenClaw::of(release, &gateway).await;
    // What asks for most comes first: more than a device has is approved by a person.
    assert!(openclaw.says(&["secrets", "reload"]).await.contains("Secrets reloaded"));
    let asked = ["agent", "--agent", "main", "--message", "hello", "--json"];
    let answer = openclaw.tells(&asked).await;
    assert_eq!(answer["status"], "ok", "{answer}");
    assert!(answer["result"]["payloads"][0]["text"].as_str().unwrap().contains("hello"));

    let bare = ["infer", "model", "run", "--gateway", "--prompt", "just this", "--json"];
    assert_eq!(openclaw.tells(&bare).await["outputs"][0]["text"], "Echo: just this");
    let heard = mock.requests().last().unwrap().body["messages"].clone();
    assert!(heard.as_array().is_some_and(|all| all.len() == 1), "{heard}");

    let every = ["--every", "1h", "--message", "hey", "--session", "isolated", "--no-deliver"];
    let made = [&["cron", "add", "--name", "hourly", "--json"][..], &every].concat();
    let job = openclaw.tells(&made).await;
    let id = job["id"].as_str().unwrap();
    assert!(openclaw.says(&["cron", "list"]).await.contains(id));
    assert!(openclaw.says(&["cron", "show", "hourly"]).await.contains("every 1h"));
    let run = openclaw.tells(&["cron", "run", id]).await;
    assert_eq!(run["ok"], true, "{run}");
    let mut client = admin(&gateway).await;
    until_within(PATIENCE, "the run of a job", async || {
        let runs = call(&mut client, "cron.runs", json!({"id": id})).await;
        (runs["entries"][0]["status"] == "ok").then_some(())
    })
    .await;
    assert!(openclaw.says(&["cron", "runs", "--id", id]).await.contains("\"finished\""));
    assert!(openclaw.says(&["cron", "disable", id]).await.contains("\"enabled\": false"));
    assert!(openclaw.says(&["cron", "rm", id]).await.contains("\"removed\": true"));

    let present = openclaw.tells(&["system", "presence"]).await;
    assert!(present.as_array().unwrap().iter().any(|one| one["mode"] == "gateway"), "{present}");
    assert!(openclaw.says(&["logs", "--limit", "5", "--plain"]).await.contains("gateway/"));
    assert!(openclaw.says(&["health"]).await.contains("agent:main:main"));
    (gateway, mock, openclaw)
}

#[tokio::test]
async fn the_command_line_of_protocol_3_works() {
    let (gateway, _mock, openclaw) = everyday(OF_PROTOCOL_3).await;
    // It has a device, which is approved by itself on this machine, for what it asked.
    let mut client = admin(&gateway).await;
    let devices = call(&mut client, "device.pair.list", json!({})).await;
    assert_eq!(devices["paired"][0]["clientId"], "cli", "{devices}");
    assert!(openclaw.says(&["devices", "list"]).await.contains("operator"));
}

#[tokio::test]
async fn the_command_line_of_protocol_4_works() {
    let (gateway, mock, openclaw) = everyday(OF_PROTOCOL_4).await;
    // It needs no device on this machine.
    let mut client = admin(&gateway).await;
    let devices = call(&mut client, "device.pair.list", json!({})).await;
    assert_eq!(devices["paired"], json!([]), "{devices}");
    let other = ["agent", "--agent", "main", "--model", "mock/mock-2", "--message", "hello"];
    assert!(openclaw.says(&other).await.contains("Echo: hello"));
    assert_eq!(mock.requests().last().unwrap().body["model"], "mock-2");
    // It waits for the very run that it began.
    let at = ["--at", "2h", "--message", "ho", "--session", "isolated", "--no-deliver", "--json"];
    let job = openclaw.tells(&[&["cron", "add", "--name", "once"][..], &at].concat()).await;
    let id = job["id"].as_str().unwrap();
    let run = openclaw.tells(&["cron", "run", id, "--wait", "--poll-interval", "100ms"]).await;
    assert_eq!(run["completionStatus"], "succeeded", "{run}");
    assert_eq!(run["run"]["runId"], run["runId"]);
}

/// A node of this release that is there, and was allowed its commands; and its id.
async fn joined(gateway: &Gateway, client: &mut WsClient, release: Release) -> (NodeHost, String) {
    let node = OpenClaw::of(release, gateway).await.into_node(gateway, "real");
    let request = until_within(PATIENCE, "the request of a node", async || {
        let pairs = call(client, "node.pair.list", json!({})).await;
        pairs["pending"][0]["requestId"].as_str().map(str::to_owned)
    })
    .await;
    let approved = call(client, "node.pair.approve", json!({"requestId": request})).await;
    let id = approved["node"]["nodeId"].as_str().unwrap().to_owned();
    until_within(PATIENCE, "a node that runs programs", async || {
        let row = call(client, "node.describe", json!({"nodeId": id})).await;
        let commands = row["commands"].as_array()?;
        (row["connected"] == true && commands.contains(&json!("system.run"))).then_some(())
    })
    .await;
    (node, id)
}

async fn asking(ask: &str) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"host": "node", "security": "full", "ask": ask});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

const SAYS_HI: &str = "@mock tool name=exec args={\"command\":\"echo hi there\"} then=\"done\"";

/// What an agent gets of a command that a person has allowed.
async fn allowed(client: &mut WsClient) -> (String, String) {
    start(client, "main", SAYS_HI, "run-1").await;
    let asked = client.wait_for(SOON, |frame| frame["event"] == "exec.approval.requested").await;
    let asked = asked.expect("a question")["payload"].clone();
    assert!(asked["request"]["systemRunPlan"]["commandText"].as_str().unwrap().contains("echo hi"));
    let decision = json!({"id": asked["id"], "decision": "allow-once"});
    call(client, "exec.approval.resolve", decision).await;
    end_of(client, "run-1").await;
    told(client, "main").await.swap_remove(2)
}

#[tokio::test]
async fn a_node_of_protocol_3_answers_and_runs_what_was_allowed() {
    let (gateway, _mock) = asking("always").await;
    let mut client = admin(&gateway).await;
    let (_node, id) = joined(&gateway, &mut client, OF_PROTOCOL_3).await;
    let which = json!({"nodeId": id, "command": "system.which", "params": {"bins": ["sh"]},
        "idempotencyKey": "which"});
    let found = call(&mut client, "node.invoke", which).await;
    let shell = found["payload"]["bins"]["sh"].as_str();
    assert!(shell.is_some_and(|path| path.ends_with("/sh")), "{found}");
    assert_eq!(allowed(&mut client).await, ("toolResult".into(), "hi there".into()));
}

#[tokio::test]
async fn a_node_of_protocol_4_runs_what_was_allowed() {
    let (gateway, _mock) = asking("always").await;
    let mut client = admin(&gateway).await;
    let _node = joined(&gateway, &mut client, OF_PROTOCOL_4).await;
    assert_eq!(allowed(&mut client).await, ("toolResult".into(), "hi there".into()));
}

/// It makes no plan of it that could be shown.
#[tokio::test]
async fn a_node_of_protocol_4_runs_a_script_where_nobody_is_asked() {
    let (gateway, _mock) = asking("off").await;
    let mut client = admin(&gateway).await;
    let _node = joined(&gateway, &mut client, OF_PROTOCOL_4).await;
    let text = "@mock tool name=exec args={\"command\":\"echo one; exit 3\"} then=\"done\"";
    start(&mut client, "main", text, "run-1").await;
    end_of(&client, "run-1").await;
    let (_, result) = told(&mut client, "main").await.swap_remove(2);
    assert_eq!(result, "one\n\n(Command exited with code 3)");
}
