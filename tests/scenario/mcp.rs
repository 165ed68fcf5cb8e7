//! MCP servers through the real binary: a third-party server over both
//! transports, and scripts for what no good server does.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::stage::{
    Api, admin, ask, call, config, end_of, history, settles, start, text_of, until,
};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, node};

/// The third-party server that does all there is.
fn everything() -> String {
    let package = node::package("@modelcontextprotocol/server-everything");
    package.join("dist/index.js").to_string_lossy().into_owned()
}

async fn gateway(servers: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["mcp"]["servers"] = servers;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

async fn invoke(client: &mut WsClient, name: &str, args: Value) -> Value {
    call(client, "tools.invoke", json!({"name": name, "args": args})).await
}

/// The servers in `status`.
async fn servers(client: &mut WsClient) -> Vec<Value> {
    let status = call(client, "status", json!({})).await;
    status["mcp"]["servers"].as_array().unwrap().clone()
}

/// Names of the tools of servers that a session has.
async fn tools(client: &mut WsClient) -> Vec<String> {
    let effective = call(client, "tools.effective", json!({"sessionKey": "main"})).await;
    let groups = effective["groups"].as_array().unwrap();
    let tools = groups.iter().flat_map(|group| group["tools"].as_array().unwrap());
    let names = tools.map(|tool| tool["id"].as_str().unwrap().to_owned());
    names.filter(|name| name.contains("__")).collect()
}

fn is_alive(id: i32) -> bool {
    Pid::from_raw(id).is_some_and(|id| test_kill_process(id).is_ok())
}

/// A server in Python; `$0` is its folder.
const SCRIPT: &str = r#"
import json, os, sys, subprocess, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "starts"), "a") as f: f.write("%d\n" % os.getpid())
if os.path.exists(os.path.join(here, "silent")): time.sleep(600)
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
with open(os.path.join(here, "child"), "w") as f: f.write(str(child.pid))
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
schema = {"type": "object", "properties": {}}
tools = [{"name": "die", "inputSchema": schema}, {"name": "grow", "inputSchema": schema},
    {"name": "Grow", "inputSchema": schema}, {"name": "env", "inputSchema": schema},
    {"name": "hang", "inputSchema": schema}, {"name": "bad", "inputSchema": {"type": 5}}]
tools[5]["inputSchema"] = {"type": "object", "properties": {"a": {"type": 5}}}
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "script", "version": "1"}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": id, "result": {"tools": tools}})
    elif method == "notifications/cancelled":
        with open(os.path.join(here, "cancelled"), "w") as f: f.write("yes")
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "die" and message["params"].get("arguments", {}).get("quietly"):
            os.close(1)
            continue
        if name == "die": os._exit(3)
        if name == "hang":
            with open(os.path.join(here, "hangs"), "w") as f: f.write("yes")
            continue
        if name == "grow":
            tools.append({"name": "new", "inputSchema": schema})
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        text = json.dumps(dict(os.environ)) if name == "env" else "done"
        say({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
"#;

/// A folder with the script, and how to configure it.
fn script() -> (TempDir, Value) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("server.py");
    fs::write(&path, SCRIPT).unwrap();
    let server = json!({"command": "python3", "args": [path], "env": {"OWN_KEY": "own-key-1"}});
    (dir, server)
}

fn number(dir: &Path, name: &str) -> Option<i32> {
    fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
}

fn starts(dir: &Path) -> usize {
    fs::read_to_string(dir.join("starts")).unwrap_or_default().lines().count()
}

/// The tools of the third-party server, however it is reached.
async fn check_everything(gateway: &Gateway) {
    let mut client = admin(gateway).await;
    let end = ask(
        &mut client,
        "main",
        "@mock tool name=all__echo args={\"message\":\"hello\"} then=\"Done.\"",
        "run-1",
    )
    .await;
    assert_eq!(text_of(&end["message"]), "Done.");
    let messages = history(&mut client, "main").await;
    let result = messages.iter().find(|message| message["role"] == "toolResult").unwrap();
    assert_eq!((text_of(result).as_str(), &result["isError"]), ("Echo: hello", &json!(false)));
    let names = tools(&mut client).await;
    assert!(names.contains(&"all__get-sum".to_owned()), "{names:?}");
    let sum = invoke(&mut client, "all__get-sum", json!({"a": 2, "b": "3"})).await;
    assert_eq!(sum["source"], "mcp");
    assert!(text_of(&sum["output"]).contains('5'), "{sum}");
    let image = invoke(&mut client, "all__get-tiny-image", json!({})).await;
    let blocks = image["output"]["content"].as_array().unwrap();
    let picture = blocks.iter().find(|block| block["type"] == "image").unwrap();
    assert_eq!(picture["mimeType"], "image/png");
    let data =
        invoke(&mut client, "all__get-structured-content", json!({"location": "Chicago"})).await;
    assert!(data["output"]["details"]["structuredContent"].is_object(), "{data}");
    let wrong = invoke(&mut client, "all__get-sum", json!({"a": 2})).await;
    assert_eq!(wrong["error"]["code"], "validation_error");
    let [status] = &servers(&mut client).await[..] else { panic!() };
    assert_eq!((&status["name"], &status["state"]), (&json!("all"), &json!("ready")));
    assert_eq!(status["tools"], names.len(), "{status}");
}

#[tokio::test]
async fn the_tools_of_a_program_join_ours() {
    let server = json!({"command": "node", "args": [everything(), "stdio"]});
    let (gateway, _mock) = gateway(json!({ "all": server })).await;
    check_everything(&gateway).await;
}

/// The third-party server as somebody who listens; killed when dropped.
struct Listening(Child, u16);

impl Listening {
    async fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("node")
            .args([&everything(), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(child, port);
        until("the server listening", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        server
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_tools_of_somebody_who_listens_join_ours() {
    let server = Listening::start().await;
    let url = format!("http://127.0.0.1:{}/mcp", server.1);
    let config = json!({"url": url, "transport": "streamable-http", "headers": {"X-Key": "k"}});
    let (gateway, _mock) = gateway(json!({ "all": config })).await;
    check_everything(&gateway).await;
}

#[tokio::test]
async fn a_server_is_started_when_it_is_needed_and_ends_with_the_gateway() {
    let (dir, server) = script();
    let (mut gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    assert_eq!(servers(&mut client).await[0]["state"], "idle");
    assert_eq!(starts(dir.path()), 0);
    ask(&mut client, "main", "hi", "run-1").await;
    ask(&mut client, "main", "hi", "run-2").await;
    assert_eq!(starts(dir.path()), 1);
    let child = number(dir.path(), "child").unwrap();
    let own: i32 = number(dir.path(), "starts").unwrap();
    assert!(is_alive(child) && is_alive(own));
    gateway.terminate().await;
    assert!(!is_alive(own));
    until("its child to be gone", async || (!is_alive(child)).then_some(())).await;
}

#[tokio::test]
async fn a_program_gets_its_own_variables_and_none_of_our_secrets() {
    let (_dir, server) = script();
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["mcp"]["servers"] = json!({ "own": server });
    let options = GatewayOptions::with_config(config)
        .env("OPENCLAW_GATEWAY_TOKEN", "ref-secret-0001")
        .env("ANTHROPIC_API_KEY", "our-key-1");
    let gateway = Gateway::start(options).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "own__env", json!({})).await;
    let env: Value = serde_json::from_str(&text_of(&answer["output"])).unwrap();
    assert_eq!(env["OWN_KEY"], "own-key-1");
    assert!(env["PATH"].is_string() && env["HOME"].is_string());
    let env = env.to_string();
    assert!(!env.contains("ref-secret-0001") && !env.contains("our-key-1"), "{env}");
    assert!(!gateway.stderr().contains("own-key-1"));
}

#[tokio::test]
async fn a_server_that_breaks_is_started_again_and_its_call_is_an_error() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=own__die name2=own__env then=\"Done.\"";
    let end = ask(&mut client, "main", text, "run-1").await;
    assert_eq!(text_of(&end["message"]), "Done.");
    let messages = history(&mut client, "main").await;
    let results = messages.iter().filter(|message| message["role"] == "toolResult");
    let results: Vec<_> = results.map(text_of).collect();
    assert!(results[0].contains("\"status\": \"error\""), "{results:?}");
    assert!(!results[1].contains("not found"), "it is offered while it is away: {results:?}");
    until("it to be back", async || (starts(dir.path()) == 2).then_some(())).await;
    let answer = invoke(&mut client, "own__env", json!({})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(servers(&mut client).await[0]["starts"], 2);
}

#[tokio::test]
async fn a_server_that_says_nothing_more_is_started_again() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "own__die", json!({"quietly": true})).await;
    assert_eq!(answer["ok"], false, "{answer}");
    let first = fs::read_to_string(dir.path().join("starts")).unwrap();
    let first = first.lines().next().unwrap().parse().unwrap();
    until("it to be back", async || (starts(dir.path()) == 2).then_some(())).await;
    let answer = invoke(&mut client, "own__env", json!({})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    until("the first to be gone", async || (!is_alive(first)).then_some(())).await;
}

#[tokio::test]
async fn new_tools_are_there_at_once_and_names_that_are_taken_or_wrong_are_refused() {
    let (_dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let names = tools(&mut client).await;
    assert_eq!(names, ["own__die", "own__env", "own__grow", "own__hang"]);
    assert_eq!(servers(&mut client).await[0]["refused"], json!(["own__Grow"]));
    invoke(&mut client, "own__grow", json!({})).await;
    let mut seen = admin(&gateway).await;
    until("the new tool", async || {
        tools(&mut seen).await.contains(&"own__new".to_owned()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn servers_that_do_not_work_keep_no_run_from_starting_and_are_seen() {
    let (dir, mut silent) = script();
    fs::write(dir.path().join("silent"), "").unwrap();
    silent["connectionTimeoutMs"] = json!(2000);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().port();
    drop(listener);
    let (gateway, _mock) = gateway(json!({
        "silent": silent,
        "missing": {"command": "no-such-program-anywhere"},
        "closed": {"url": format!("http://127.0.0.1:{closed}/mcp")},
        "wrong": {"url": "http://127.0.0.1:1/", "transport": "sse"},
        "preloaded": {"command": "node", "env": {"NODE_OPTIONS": "--require /tmp/x.js"}},
        "off": {"command": "node", "enabled": false},
    }))
    .await;
    let mut client = admin(&gateway).await;
    let began = Instant::now();
    let end = ask(&mut client, "main", "@mock text text=fine", "run-1").await;
    assert_eq!(text_of(&end["message"]), "fine");
    assert!(began.elapsed().as_secs() < 9, "{:?}", began.elapsed());
    // Who has failed before is not waited for again, but each run has it tried again.
    fs::remove_file(dir.path().join("silent")).unwrap();
    let mut turn = 1;
    until("the server that was fixed", async || {
        turn += 1;
        ask(&mut client, "main", "@mock text text=fine", &format!("run-{turn}")).await;
        tools(&mut client).await.contains(&"silent__env".to_owned()).then_some(())
    })
    .await;
    let servers = servers(&mut client).await;
    let names: Vec<_> = servers.iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["silent", "missing", "closed", "wrong", "preloaded"]);
    for (server, text) in servers.iter().zip([
        "",
        "cannot start \"no-such-program-anywhere\"",
        "no connection",
        "\"sse\" is not supported",
        "NODE_OPTIONS",
    ]) {
        let error = server["error"].as_str().unwrap_or_default();
        assert!(error.contains(text) && error.is_empty() == text.is_empty(), "{server}");
    }
}

#[tokio::test]
async fn an_abort_cancels_the_call_at_the_server() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock tool name=own__hang", "run-1").await;
    until("the call", async || dir.path().join("hangs").exists().then_some(())).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    until("the server told", async || dir.path().join("cancelled").exists().then_some(())).await;
    settles(&mut client, "agent:main:main", "killed").await;
    assert_eq!(starts(dir.path()), 1);
}

#[tokio::test]
async fn lists_take_tools_of_servers_away() {
    for (tools_config, filter, expected) in [
        (json!({"deny": ["bundle-mcp"]}), json!({}), vec![]),
        (json!({"deny": ["own__g*", "own__hang"]}), json!({}), vec!["own__die", "own__env"]),
        (json!({"profile": "minimal"}), json!({}), vec![]),
        (
            json!({"profile": "coding"}),
            json!({"include": ["e*", "own__die"], "exclude": ["die"]}),
            vec!["own__env"],
        ),
    ] {
        let (_dir, mut server) = script();
        server["toolFilter"] = filter;
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), Api::OpenAi);
        config["mcp"]["servers"] = json!({ "own": server });
        config["tools"] = tools_config.clone();
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", "hi", "run-1").await;
        assert_eq!(tools(&mut client).await, expected, "{tools_config}");
    }
}

/// MCP redirects forwarded credentials to another origin (CVE-2026-53840).
#[tokio::test]
async fn a_redirect_of_a_server_takes_no_header_anywhere() {
    let mock = MockProvider::start().await;
    let target = format!("http://{}/mcp", mock.address());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = axum::Router::new().fallback(move || {
        let target = target.clone();
        async move { (axum::http::StatusCode::TEMPORARY_REDIRECT, [("location", target)]) }
    });
    let mut server = tokio::task::JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await.unwrap() });
    let url = format!("http://127.0.0.1:{port}/mcp");
    let config = json!({"url": url, "headers": {"Authorization": "Bearer mcp-key-1"}});
    let (gateway, models) = gateway(json!({ "moved": config })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    assert!(servers(&mut client).await[0]["error"].is_string());
    assert!(mock.requests().is_empty(), "{:?}", mock.requests());
    assert!(!format!("{:?}", models.requests()).contains("mcp-key-1"));
    assert!(!gateway.stderr().contains("mcp-key-1"));
}
