//! Path traversal, links, other names of the same file (CVE-2026-28482,
//! CVE-2026-35636, CVE-2026-32060, CVE-2026-32846, CVE-2026-41364). Swapped
//! names are in the tests of `src/agent/reach`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Api, ask, call, config, connect, events, until};
use crate::support::client::{ALL_SCOPES, SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

pub const CANARY: &str = "canary-4711";

pub async fn scene(only_workspace: bool) -> (Gateway, MockProvider, WsClient) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["fs"]["workspaceOnly"] = json!(only_workspace);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let client = connect(&gateway, &params).await;
    (gateway, mock, client)
}

/// Lets the model call a tool; the data of the result.
pub async fn result_of(client: &mut WsClient, run: &str, name: &str, args: &Value) -> Value {
    let line = format!("@mock tool name={name} args={args} then=\"done\"");
    ask(client, run, &line, run).await;
    let told = events(client, "agent", run);
    let result = told.into_iter().find(|payload| payload["data"]["phase"] == "result");
    result.expect("a result")["data"].clone()
}

/// Every tool that takes a path, with this one.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    let patch = |body: String| json!({"input": format!("*** Begin Patch\n{body}\n*** End Patch")});
    vec![
        ("read", json!({"path": path})),
        ("write", json!({"path": path, "content": "overwritten"})),
        ("edit", json!({"path": path, "oldText": CANARY, "newText": "overwritten"})),
        ("apply_patch", patch(format!("*** Delete File: {path}"))),
        ("apply_patch", patch(format!("*** Update File: {path}\n@@\n-{CANARY}\n+overwritten"))),
        ("image", json!({"image": path})),
        ("memory_get", json!({"path": path})),
    ]
}

pub async fn all_refused(client: &mut WsClient, paths: &[String]) {
    for (at, path) in paths.iter().enumerate() {
        for (index, (name, args)) in every_tool(path).into_iter().enumerate() {
            let data = result_of(client, &format!("run-{at}-{index}"), name, &args).await;
            let is_refused =
                data["isError"] == true || data["result"]["details"]["disabled"] == true;
            assert!(is_refused, "{name} {path}: {data}");
            let text = data.to_string();
            assert!(!text.contains(CANARY) && !text.contains(SECRET), "{name} {path}: {data}");
        }
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_spelling_of_a_path_leaves_the_workspace() {
    let (gateway, _mock, mut client) = scene(true).await;
    let workspace = gateway.workspace();
    let outside = gateway.root().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let secret = outside.join("secret.md");
    fs::write(&secret, CANARY).unwrap();
    symlink(&secret, workspace.join("file-link.md")).unwrap();
    symlink(&outside, workspace.join("folder-link")).unwrap();
    symlink("folder-link", workspace.join("link-to-link")).unwrap();
    fs::create_dir_all(workspace.join("memory")).unwrap();
    symlink(&secret, workspace.join("memory/link.md")).unwrap();
    let up = "../".repeat(30);
    let absolute = text(&secret);
    let below_root = absolute.trim_start_matches('/');
    let paths = [
        absolute.clone(),
        format!("{up}{below_root}"),
        format!("memory/../{up}{below_root}"),
        format!("{}/{up}{below_root}", workspace.display()),
        format!("@{absolute}"),
        "file-link.md".into(),
        "folder-link/secret.md".into(),
        "link-to-link/secret.md".into(),
        "memory/link.md".into(),
        format!("/proc/self/root{absolute}"),
        "a\0b.md".into(),
        format!("memory/{up}{below_root}\0.md"),
    ];
    all_refused(&mut client, &paths).await;
    assert_eq!(fs::read_to_string(&secret).unwrap(), CANARY);
}

#[tokio::test]
async fn the_gateways_secrets_are_out_of_reach_without_any_limit_too() {
    let (gateway, _mock, mut client) = scene(false).await;
    let workspace = gateway.workspace();
    let state = gateway.state_dir();
    let profiles = state.join("agents/main/agent/auth-profiles.json");
    fs::create_dir_all(profiles.parent().unwrap()).unwrap();
    fs::write(&profiles, CANARY).unwrap();
    fs::create_dir_all(state.join("credentials")).unwrap();
    fs::write(state.join("credentials/oauth.json"), CANARY).unwrap();
    let before = fs::read(gateway.config_path()).unwrap();
    fs::hard_link(&profiles, workspace.join("hard.md")).unwrap();
    fs::hard_link(gateway.config_path(), workspace.join("hard-config.md")).unwrap();
    symlink(&state, workspace.join("state")).unwrap();
    let paths = [
        text(&gateway.config_path()),
        text(&profiles),
        text(&state.join("credentials/oauth.json")),
        text(&state.join("clawgate.sqlite")),
        text(&state.join("clawgate.sqlite-wal")),
        "state/agents/main/agent/auth-profiles.json".into(),
        "hard.md".into(),
        "hard-config.md".into(),
        "/proc/self/environ".into(),
        format!("/proc/{}/environ", gateway.pid().unwrap()),
        format!("/proc/self/root{}", gateway.config_path().display()),
        "/dev/zero".into(),
    ];
    all_refused(&mut client, &paths).await;
    assert_eq!(fs::read_to_string(&profiles).unwrap(), CANARY);
    assert_eq!(fs::read(gateway.config_path()).unwrap(), before);
}

#[tokio::test]
async fn what_the_config_includes_is_out_of_reach_as_the_config_is() {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    // A folder that is open to tools though it is one of the gateway's own.
    let folder = root.path().join("state/skills");
    fs::create_dir_all(&folder).unwrap();
    let part = |name: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("{{ ui: {{}} }} // {CANARY}")).unwrap();
        text(&path)
    };
    let (one, two) = (part("one.json5"), part("two.json5"));
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["fs"]["workspaceOnly"] = json!(false);
    config["$include"] = json!("./skills/one.json5");
    let options = GatewayOptions::with_config(config);
    let gateway = Gateway::start_in(root, options).await.unwrap();
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    let mut client = connect(&gateway, &params).await;
    let data = result_of(&mut client, "before", "read", &json!({"path": one})).await;
    assert!(data["isError"] == true && !data.to_string().contains(CANARY), "{data}");
    // The config begins to include another one.
    let written = fs::read_to_string(gateway.config_path()).unwrap();
    let mut written: Value = serde_json::from_str(&written).unwrap();
    written["$include"] = json!(["./skills/one.json5", "./skills/two.json5"]);
    written["session"]["mainKey"] = json!("chief");
    fs::write(gateway.config_path(), written.to_string()).unwrap();
    until("the other config", async || {
        let agents = call(&mut client, "agents.list", json!({})).await;
        (agents["mainKey"] == "chief").then_some(())
    })
    .await;
    all_refused(&mut client, &[one.clone(), two.clone()]).await;
    for path in [one, two] {
        assert!(fs::read_to_string(path).unwrap().contains(CANARY));
    }
}

#[tokio::test]
async fn a_pipe_keeps_nobody_waiting() {
    let (gateway, _mock, mut client) = scene(true).await;
    let pipe = gateway.workspace().join("pipe.md");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    all_refused(&mut client, &["pipe.md".to_owned()]).await;
}

/// Asks by HTTP for exactly this path, as no client would send some of them.
pub async fn get(gateway: &Gateway, path: &str) -> String {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n\
        x-openclaw-requester-session-key: agent:main:main\r\nConnection: close\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(SOON, tcp.read_to_end(&mut answer)).await;
    read.expect("nobody waits on a pipe").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn no_route_of_media_opens_what_lies_elsewhere_or_waits_on_a_pipe() {
    let (gateway, _mock, mut client) = scene(true).await;
    ask(&mut client, "main", "hello", "run-0").await;
    let (state, workspace) = (gateway.state_dir(), gateway.workspace());
    let secret = gateway.root().join("secret.png");
    fs::write(&secret, [b"\x89PNG\r\n\x1a\n".as_slice(), CANARY.as_bytes()].concat()).unwrap();
    let (inbound, outgoing) = (state.join("media/inbound"), state.join("media/outgoing"));
    for folder in [&inbound, &outgoing.join("originals"), &outgoing.join("records"), &workspace] {
        fs::create_dir_all(folder).unwrap();
    }
    let fifo = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    };
    for folder in [&inbound, &outgoing.join("originals"), &workspace] {
        symlink(&secret, folder.join("link.png")).unwrap();
        symlink("/dev/zero", folder.join("device.png")).unwrap();
        symlink(gateway.root(), folder.join("folder")).unwrap();
        fifo(&folder.join("pipe.png"));
    }
    let names = [
        "link.png",
        "device.png",
        "folder/secret.png",
        "pipe.png",
        "../secret.png",
        "..%2fsecret.png",
        "%2e%2e/secret.png",
        "%2e%2e%2f%2e%2e%2fsecret.png",
        "a%00.png",
        "..%5csecret.png",
    ];
    let mut paths = vec!["/avatar/..%2f..%2fsecret".to_owned(), "/avatar/main%00".to_owned()];
    for name in names {
        let media = "/__openclaw__/assistant-media?source=";
        paths.push(format!("{media}media://inbound/{name}"));
        paths.push(format!("{media}{}/{name}", inbound.display()));
        paths.push(format!("{media}file://{}/{name}", workspace.display()));
        paths.push(format!("/api/chat/media/outgoing/agent:main:main/{name}/full"));
    }
    paths.push(format!("/__openclaw__/assistant-media?source={}", secret.display()));
    // Records that name what is no picture of theirs.
    for (at, name) in names.iter().enumerate() {
        let id = format!("0f8b1f4e-6c1e-4c0f-9d0a-0000000000{at:02}");
        let record = json!({"sessionKey": "agent:main:main",
            "original": {"path": format!("{}/{name}", outgoing.display()), "contentType": "image/png"}});
        fs::write(outgoing.join(format!("records/{id}.json")), record.to_string()).unwrap();
        paths.push(format!("/api/chat/media/outgoing/agent:main:main/{id}/full"));
    }
    for path in paths {
        let answer = get(&gateway, &path).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "404"].contains(&status), "{path}: {answer}");
        assert!(!answer.contains(CANARY), "{path}");
    }
    for name in names.iter().filter(|name| !name.contains('%')) {
        fs::write(workspace.join("IDENTITY.md"), format!("- Avatar: {name}\n")).unwrap();
        let answer = get(&gateway, "/avatar/main").await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{name}: {answer}");
    }
}
