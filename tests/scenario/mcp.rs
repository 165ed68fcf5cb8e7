//! MCP servers through the real binary: a third-party server over both
//! transports, and scripts for what no good server does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::stage::{
    Api, admin, ask, call, config, end_of, history, settles, start, text_of, until,
};
use crate::support::gateway::free_port;
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

/// Also of what has ended and was not waited for there is no open file.
fn is_alive(id: i32) -> bool {
    Path::new("/proc").join(id.to_string()).join("fd/0").exists()
}

/// Waits until what a server has started is gone, also what made a session of its own.
async fn children_are_gone(dir: &Path) {
    let children = ["child", "far"].map(|name| number(dir, name).unwrap());
    until("its children to be gone", async || {
        (!children.iter().any(|id| is_alive(*id))).then_some(())
    })
    .await;
}

/// Waits until the gateway has logged this.
async fn logged(gateway: &Gateway, text: &str) {
    until(text, async || gateway.stderr().contains(text).then_some(())).await;
}

/// A server in Python; `$0` is its folder.
const SCRIPT: &str = r#"
import json, os, signal, sys, subprocess, time
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "starts"), "a") as f: f.write("%d\n" % os.getpid())
if os.path.exists(os.path.join(here, "silent")): time.sleep(600)
if os.path.exists(os.path.join(here, "stubborn")): signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
with open(os.path.join(here, "child"), "w") as f: f.write(str(child.pid))
far = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    start_new_session=True)
with open(os.path.join(here, "far"), "w") as f: f.write(str(far.pid))
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
schema = {"type": "object", "properties": {}}
tools = [{"name": "die", "inputSchema": schema}, {"name": "grow", "inputSchema": schema},
    {"name": "Grow", "inputSchema": schema}, {"name": "env", "inputSchema": schema},
    {"name": "hang", "inputSchema": schema}, {"name": "bad", "inputSchema": {"type": 5}}]
choose = {"name": "choose", "inputSchema": {"type": "object", "oneOf": [
    {"properties": {"text": {"type": "string"}}, "required": ["text"]},
    {"properties": {"$url": {"type": "string"}}, "required": ["$url"]}]}}
tools[5]["inputSchema"] = {"type": "object", "properties": {"a": {"type": 5}}}
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "script", "version": "1"}}})
    elif method == "tools/list":
        if os.path.exists(os.path.join(here, "mute")):
            with open(os.path.join(here, "listed"), "w") as f: f.write("no")
            continue
        cursor = (message.get("params") or {}).get("cursor")
        if cursor in ("broken", "short"):
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no such page"}})
            continue
        result = {"tools": tools}
        if os.path.exists(os.path.join(here, "choice")): result["tools"] = [choose]
        if os.path.exists(os.path.join(here, "odd")): result["tools"] = [{"name": "odd"}] + tools
        if os.path.exists(os.path.join(here, "cursor")) and cursor != "empty":
            with open(os.path.join(here, "cursor")) as f: next = result["nextCursor"] = f.read()
            if next == "short": result["tools"] = tools[:1]
            if next == "empty": result["tools"] = []
        is_restless = os.path.exists(os.path.join(here, "restless"))
        if is_restless:
            with open(os.path.join(here, "lists"), "a") as f: f.write("%f\n" % time.monotonic())
        say({"jsonrpc": "2.0", "id": id, "result": result})
        if is_restless: say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif method == "notifications/cancelled":
        with open(os.path.join(here, "cancelled"), "w") as f: f.write("yes")
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "die" and message["params"].get("arguments", {}).get("quietly"):
            os.close(1)
            continue
        if name == "die" and message["params"].get("arguments", {}).get("deaf"):
            os.close(0)
            say({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
            time.sleep(600)
        if name == "die": os._exit(3)
        if name == "hang":
            with open(os.path.join(here, "hangs"), "w") as f: f.write("yes")
            continue
        if name == "grow":
            tools.append({"name": "new", "inputSchema": schema})
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        text = json.dumps(dict(os.environ)) if name == "env" else "done"
        if name == "choose": text = json.dumps(message["params"]["arguments"])
        how = message["params"].get("arguments", {}).get("how")
        if how == "latin-1":
            sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":['
                b'{"type":"text","text":"caf\xe9"}]}}\n' % id)
            sys.stdout.flush()
            continue
        if how == "task":
            text = "Tool %s requires task augmentation (taskSupport: 'required')" % name
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": text}})
            continue
        if how == "long": text = "x" * (17 << 20)
        if how == "verbose":
            error = {"code": -32000, "message": "x" * (1 << 20)}
            say({"jsonrpc": "2.0", "id": id, "error": error})
            continue
        if how == "chatty":
            data = {"level": "info", "data": "log-canary-of-a-server"}
            say({"jsonrpc": "2.0", "method": "notifications/message", "params": data})
        content = [{"type": "text", "text": text}]
        if how == "new kind": content.append({"type": "hologram", "data": "AA"})
        say({"jsonrpc": "2.0", "id": id, "result": {"content": content}})
if os.path.exists(os.path.join(here, "stubborn")): time.sleep(600)
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
    let told = text_of(&ask(&mut client, "main", "/tools", "run-2").await["message"]);
    let (built_in, connected) = told.split_once("\n\nConnected tools\n  ").expect("both");
    assert!(!built_in.contains("all__") && connected.contains("all__echo (all), "), "{told}");
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
        server.is_there().await;
        server
    }

    async fn is_there(&self) {
        until("the server listening", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", self.1)).await.ok()
        })
        .await;
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
    children_are_gone(dir.path()).await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_nothing_of_a_server() {
    let (dir, server) = script();
    let (mut gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let own: i32 = number(dir.path(), "starts").unwrap();
    gateway.kill9();
    until("the server to be gone", async || (!is_alive(own)).then_some(())).await;
    children_are_gone(dir.path()).await;
}

#[tokio::test]
async fn what_a_server_has_started_ends_with_it_and_how_it_ended_is_told() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let answer = invoke(&mut client, "own__die", json!({})).await;
    assert_eq!(answer["ok"], false, "{answer}");
    logged(&gateway, "it ended with exit status: 3").await;
    children_are_gone(dir.path()).await;
}

#[tokio::test]
async fn a_server_that_does_not_end_is_killed_with_the_gateway() {
    let (dir, server) = script();
    fs::write(dir.path().join("stubborn"), "").unwrap();
    let (mut gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let own: i32 = number(dir.path(), "starts").unwrap();
    gateway.terminate().await;
    until("the server to be gone", async || (!is_alive(own)).then_some(())).await;
    children_are_gone(dir.path()).await;
}

#[tokio::test]
async fn a_program_gets_its_own_variables_and_none_of_our_secrets() {
    let (_dir, mut server) = script();
    // A call may not set it, the owner may.
    server["env"]["JDK_JAVA_OPTIONS"] = json!("-Xmx64m");
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
    assert_eq!(env["JDK_JAVA_OPTIONS"], "-Xmx64m");
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
    assert!(results[1].contains("OWN_KEY"), "the next call waits for it: {results:?}");
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
async fn a_call_that_a_program_reads_no_more_is_made_again() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "own__die", json!({"deaf": true})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    let answer = invoke(&mut client, "own__env", json!({})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(starts(dir.path()), 2);
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
async fn a_tool_that_is_done_only_as_a_task_is_refused_once_its_server_has_said_so() {
    let (_dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "own__env", json!({"how": "task"})).await;
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.contains("requires task augmentation"), "{answer}");
    assert_eq!(tools(&mut client).await, ["own__die", "own__grow", "own__hang"]);
    let [status] = &servers(&mut client).await[..] else { panic!() };
    assert_eq!(status["refused"], json!(["own__Grow", "own__env"]), "{status}");
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
async fn why_a_server_ends_at_its_start_is_seen() {
    let dir = TempDir::new().unwrap();
    let broken = dir.path().join("broken");
    fs::write(&broken, "#!/no/such/program\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let broken = broken.to_str().unwrap();
    let (gateway, _mock) = gateway(json!({
        "broken": {"command": broken},
        "crashes": {"command": "sh", "args": ["-c", "exit 7"]},
    }))
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let servers = servers(&mut client).await;
    let errors: Vec<_> = servers.iter().map(|server| server["error"].as_str().unwrap()).collect();
    let [is_broken, crashes] = errors[..] else { panic!("{errors:?}") };
    let why = format!("cannot start {broken:?}: No such file or directory");
    assert!(is_broken.contains(&why), "{is_broken}");
    assert!(crashes.contains("it ended with exit status: 7"), "{crashes}");
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

#[tokio::test]
async fn a_server_that_is_slow_to_start_is_waited_for_once_and_not_by_each_answer() {
    let (dir, mut silent) = script();
    fs::write(dir.path().join("silent"), "").unwrap();
    // Sooner than three answers have waited for it, each by itself.
    silent["connectionTimeoutMs"] = json!(25_000);
    let (gateway, _mock) = gateway(json!({ "silent": silent })).await;
    let mut client = admin(&gateway).await;
    let text = "@mock tool name=session_status name2=session_status then=fine";
    let end = ask(&mut client, "main", text, "run-1").await;
    assert_eq!(text_of(&end["message"]), "fine");
    let [status] = &servers(&mut client).await[..] else { panic!() };
    assert_eq!((&status["state"], &status["starts"]), (&json!("starting"), &json!(1)), "{status}");
}

#[tokio::test]
async fn a_list_that_goes_on_for_ever_or_breaks_off_is_what_came_of_it() {
    for cursor in ["again", "broken", "empty"] {
        let (dir, server) = script();
        fs::write(dir.path().join("cursor"), cursor).unwrap();
        let (gateway, _mock) = gateway(json!({ "own": server })).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", "hi", "run-1").await;
        let names = tools(&mut client).await;
        assert_eq!(names, ["own__die", "own__env", "own__grow", "own__hang"], "{cursor}");
        let [status] = &servers(&mut client).await[..] else { panic!() };
        assert_eq!(status["refused"], json!(["own__Grow"]), "{status}");
    }
}

#[tokio::test]
async fn an_entry_of_the_list_that_is_no_tool_costs_no_other() {
    let (dir, server) = script();
    fs::write(dir.path().join("odd"), "").unwrap();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let names = tools(&mut client).await;
    assert_eq!(names, ["own__die", "own__env", "own__grow", "own__hang"]);
    logged(&gateway, "it is no tool, or has no schema").await;
}

#[tokio::test]
async fn a_choice_of_arguments_and_names_that_providers_refuse_keep_nobody_from_answering() {
    let (dir, server) = script();
    fs::write(dir.path().join("choice"), "").unwrap();
    let (gateway, mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    let offered = mock.requests().pop().unwrap().body["tools"].clone();
    let mut functions = offered.as_array().unwrap().iter().map(|tool| &tool["function"]);
    let choose = functions.find(|function| function["name"] == "own__choose").unwrap();
    assert_eq!(
        choose["parameters"],
        json!({"type": "object",
            "properties": {"text": {"type": "string"}, "_url": {"type": "string"}}})
    );
    for (given, got) in [("text", "text"), ("_url", "$url")] {
        let answer = invoke(&mut client, "own__choose", json!({ given: "x" })).await;
        let got = json!({ got: "x" });
        let told: Value = serde_json::from_str(&text_of(&answer["output"])).unwrap();
        assert_eq!(told, got);
    }
}

#[tokio::test]
async fn a_new_list_that_breaks_off_takes_no_tool_away() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    fs::write(dir.path().join("cursor"), "short").unwrap();
    invoke(&mut client, "own__grow", json!({})).await;
    logged(&gateway, "it does not tell its new tools").await;
    let names = tools(&mut client).await;
    assert_eq!(names, ["own__die", "own__env", "own__grow", "own__hang"]);
}

#[tokio::test]
async fn a_server_whose_tools_change_with_each_list_is_not_asked_without_a_pause() {
    let (dir, server) = script();
    fs::write(dir.path().join("restless"), "").unwrap();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    // The first list is that of the start, and the next one may come at once.
    let lists = until("four lists", async || {
        let lists = fs::read_to_string(dir.path().join("lists")).unwrap_or_default();
        // A line that is being written has no end yet.
        let whole = lists.rsplit_once('\n')?.0;
        let at: Vec<f64> = whole.lines().map(|line| line.parse().unwrap()).collect();
        (at.len() >= 4).then_some(at)
    })
    .await;
    assert!(lists[3] - lists[1] > 1.9, "{lists:?}");
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_new_tools_holds_up_no_end() {
    let (dir, server) = script();
    let (mut gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    fs::write(dir.path().join("mute"), "").unwrap();
    invoke(&mut client, "own__grow", json!({})).await;
    until("the question", async || dir.path().join("listed").exists().then_some(())).await;
    gateway.terminate().await;
    assert!(!gateway.stderr().contains("did not end in time"), "{}", gateway.stderr());
}

#[tokio::test]
async fn of_an_answer_that_is_odd_or_too_long_there_is_what_can_be_told() {
    let (dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    for (how, is_good, told) in [
        ("new kind", true, "[content of an unknown kind]"),
        ("latin-1", true, "caf\u{fffd}"),
        ("long", false, "The answer of own has more than 16 MiB."),
        ("verbose", false, "x… (1048576 bytes in all)"),
    ] {
        let answer = invoke(&mut client, "own__env", json!({ "how": how })).await;
        assert_eq!(answer["ok"], is_good, "{how}: {answer}");
        assert!(answer.to_string().contains(told), "{how}: {answer}");
    }
    assert_eq!(starts(dir.path()), 1);
}

#[tokio::test]
async fn what_servers_tell_on_the_way_is_not_logged() {
    let (_dir, server) = script();
    let (gateway, _mock) = gateway(json!({ "own": server })).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "own__env", json!({"how": "chatty"})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    // What is logged comes in its order.
    invoke(&mut client, "own__die", json!({})).await;
    logged(&gateway, "an MCP server is gone").await;
    assert!(!gateway.stderr().contains("log-canary-of-a-server"));
}

/// A server in Python that listens: its sessions end with it, or when it is to forget them,
/// and its tools are other ones with another name. It can stop to listen for a while. In its
/// folder it looks for what it waits for, and for what it says of a session that it does not
/// know: the kind of content, and that.
const LISTENING: &str = r#"
import http.server, json, os, sys, threading, time, uuid
port, name, here, session = int(sys.argv[1]), sys.argv[2], sys.argv[3], str(uuid.uuid4())
def place(name): return os.path.join(here, name)
def wait_for(name):
    while not os.path.exists(place(name)): time.sleep(0.01)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self, status, result=None, id=None, headers={}):
        body = b""
        if result is not None:
            body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        self.say(status, body, "application/json", headers)
    def say(self, status, body, kind, headers={}):
        self.send_response(status)
        for key, value in headers.items(): self.send_header(key, value)
        if body: self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        # Each call comes over a connection of its own.
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)
    def lose(self, id):
        if not os.path.exists(place("lost")): return self.answer(404)
        with open(place("lost")) as f: kind, body = f.read().split("\n", 1)
        self.say(400, body.replace("ID", json.dumps(id)).encode(), kind)
    def do_GET(self): self.answer(405)
    def do_DELETE(self): self.answer(200)
    def do_POST(self):
        global session
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            self.answer(200, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "listening", "version": "1"}}, id,
                {"mcp-session-id": session})
        elif self.headers.get("mcp-session-id") != session: self.lose(id)
        elif id is None: self.answer(202)
        elif method == "tools/list":
            schema = {"type": "object", "properties": {}}
            self.answer(200, {"tools": [{"name": "same", "inputSchema": schema},
                {"name": name, "inputSchema": schema}]}, id)
        else:
            how = message["params"].get("arguments", {}).get("how")
            if how == "slow":
                open(place("begun"), "w").close()
                wait_for("go on")
            if how == "forget": session = str(uuid.uuid4())
            if how == "forget always":
                with open(place("calls"), "a") as f: f.write("1")
                return self.lose(id)
            if how == "half":
                result = {"content": [{"type": "text", "text": "a\ud83d"}]}
                event = json.dumps({"jsonrpc": "2.0", "id": id, "result": result})
                return self.say(200, ("data: %s\n\n" % event).encode(), "text/event-stream")
            if how == "deaf":
                server.shutdown()
                server.server_close()
            self.answer(200, {"content": [{"type": "text", "text": name}]}, id)
http.server.ThreadingHTTPServer.daemon_threads = True
while True:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.serve_forever()
    wait_for("listen")
"#;

/// Such a server, once it listens.
async fn listening(port: u16, name: &str, dir: &TempDir) -> Listening {
    let child = Command::new("python3")
        .args(["-c", LISTENING, &port.to_string(), name])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Listening(child, port);
    server.is_there().await;
    server
}

#[tokio::test]
async fn a_server_that_listens_has_other_tools_after_a_restart() {
    let (port, dir) = (free_port(), TempDir::new().unwrap());
    let server = listening(port, "before", &dir).await;
    let config = json!({"url": format!("http://127.0.0.1:{port}/mcp")});
    let (gateway, _mock) = gateway(json!({ "docs": config })).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hi", "run-1").await;
    assert_eq!(tools(&mut client).await, ["docs__before", "docs__same"]);
    // Nobody notices in between.
    drop(server);
    let server = listening(port, "after", &dir).await;
    let answer = invoke(&mut client, "docs__same", json!({})).await;
    assert_eq!(text_of(&answer["output"]), "after", "{answer}");
    assert_eq!(tools(&mut client).await, ["docs__after", "docs__same"]);
    // Somebody calls in between.
    drop(server);
    let answer = invoke(&mut client, "docs__same", json!({})).await;
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("docs") && !why.contains("::") && !why.contains("http://"), "{why}");
    let _server = listening(port, "again", &dir).await;
    let answer = invoke(&mut client, "docs__same", json!({})).await;
    assert_eq!(text_of(&answer["output"]), "again", "{answer}");
    assert_eq!(tools(&mut client).await, ["docs__again", "docs__same"]);
}

/// What a server that listens has to answer, though something else happens to it in the
/// meantime.
async fn slow(gateway: &Gateway, dir: &TempDir, meantime: impl Future<Output = ()>) {
    let mut client = admin(gateway).await;
    let asked = invoke(&mut client, "docs__same", json!({"how": "slow"}));
    let (answer, ()) = tokio::join!(asked, async {
        until("the slow call", async || dir.path().join("begun").exists().then_some(())).await;
        meantime.await;
        fs::write(dir.path().join("go on"), "").unwrap();
    });
    assert_eq!(text_of(&answer["output"]), "docs", "{answer}");
}

#[tokio::test]
async fn a_connection_that_is_refused_ends_no_other_call() {
    let (port, dir) = (free_port(), TempDir::new().unwrap());
    let server = listening(port, "docs", &dir).await;
    let config = json!({"url": format!("http://127.0.0.1:{port}/mcp")});
    let (gateway, _mock) = gateway(json!({ "docs": config })).await;
    let mut client = admin(&gateway).await;
    slow(&gateway, &dir, async {
        let answer = invoke(&mut client, "docs__same", json!({"how": "deaf"})).await;
        assert_eq!(answer["ok"], true, "{answer}");
        let answer = invoke(&mut client, "docs__same", json!({})).await;
        assert_eq!(answer["ok"], false, "{answer}");
        fs::write(dir.path().join("listen"), "").unwrap();
        server.is_there().await;
        let answer = invoke(&mut client, "docs__same", json!({})).await;
        assert_eq!(answer["ok"], true, "{answer}");
    })
    .await;
    assert_eq!(servers(&mut client).await[0]["starts"], 1);
}

#[tokio::test]
async fn an_event_of_a_server_with_half_a_character_loses_that_and_not_its_call() {
    let (_dir, _server, gateway, _mock) = forgetful("").await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "docs__same", json!({"how": "half"})).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(answer.to_string().contains("a\u{fffd}"), "{answer}");
}

/// A server that listens and says this of sessions that it does not know, for a gateway.
async fn forgetful(lost: &str) -> (TempDir, Listening, Gateway, MockProvider) {
    let (port, dir) = (free_port(), TempDir::new().unwrap());
    if !lost.is_empty() {
        fs::write(dir.path().join("lost"), lost).unwrap();
    }
    let server = listening(port, "docs", &dir).await;
    let config = json!({"url": format!("http://127.0.0.1:{port}/mcp")});
    let (gateway, mock) = gateway(json!({ "docs": config })).await;
    (dir, server, gateway, mock)
}

/// An error of the protocol that comes with status 400; `ID` is that of the request.
fn refusal(id: &str, text: &str) -> String {
    let error = json!({"code": -32000, "message": text});
    format!("application/json\n{{\"jsonrpc\": \"2.0\", \"error\": {error}, \"id\": {id}}}")
}

const NO_SESSION: &str = "Bad Request: No valid session provided";

#[tokio::test]
async fn a_session_that_a_server_forgets_is_begun_anew_and_ends_no_call() {
    for lost in [
        String::new(),
        refusal("null", NO_SESSION),
        refusal("\"server-error\"", NO_SESSION),
        refusal("ID", NO_SESSION),
        refusal("null", "Bad Request: Server not initialized"),
        "text/plain\nInvalid or missing session".into(),
        "application/json\n{\"error\": \"Bad Request: No valid session\"}".into(),
    ] {
        let (dir, _server, gateway, _mock) = forgetful(&lost).await;
        let mut client = admin(&gateway).await;
        slow(&gateway, &dir, async {
            for how in ["forget", "no way"] {
                let answer = invoke(&mut client, "docs__same", json!({ "how": how })).await;
                assert_eq!(answer["ok"], true, "{how}: {answer} for {lost:?}");
            }
        })
        .await;
        assert_eq!(servers(&mut client).await[0]["starts"], 2, "{lost:?}");
    }
}

#[tokio::test]
async fn a_server_that_forgets_each_session_is_asked_once_more_and_not_again() {
    let (dir, _server, gateway, _mock) = forgetful(&refusal("null", NO_SESSION)).await;
    let mut client = admin(&gateway).await;
    let answer = invoke(&mut client, "docs__same", json!({"how": "forget always"})).await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(fs::read_to_string(dir.path().join("calls")).unwrap(), "11");
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
