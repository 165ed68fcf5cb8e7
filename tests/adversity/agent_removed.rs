//! A kill in the middle of the removal of an agent: around the moment in which the config
//! file lets it go, before anything that it has is taken away.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, refusal, scripted, until};
use crate::strace::{self, Injection};
use crate::support::{Gateway, MockProvider, WsClient, not_run, tested};

const KEY: &str = "agent:old:main";
const RENAMES: &str = "rename,renameat,renameat2";
const COMPLETED: &str = "the removal of an agent is completed";

/// Has `strace` hold whoever gives a new name, before that (`delay_enter`) or after.
fn holding(when: &str) -> Vec<String> {
    let args = [format!("trace={RENAMES}"), format!("inject={RENAMES}:{when}=1000000000")];
    args.into_iter().flat_map(|arg| ["-e".to_owned(), arg]).collect()
}

/// The same for a gateway that runs; `None` where nobody may.
fn hold(gateway: &Gateway, when: &str) -> Option<Injection> {
    let held = Injection::with(gateway.pid().unwrap(), &holding(when));
    held.inspect_err(|why| not_run(&format!("a kill around a rename needs strace: {why}"))).ok()
}

fn workspace(gateway: &Gateway) -> PathBuf {
    gateway.root().join("of-old")
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.state_dir().join("agents/old")
}

fn is_in_config(gateway: &Gateway) -> bool {
    fs::read_to_string(gateway.config_path()).unwrap().contains("\"old\"")
}

fn is_allowed_something(gateway: &Gateway) -> bool {
    let file = gateway.home().join(".openclaw/exec-approvals.json");
    fs::read_to_string(file).unwrap().contains("\"old\"")
}

/// What there is of the agent: sessions, a workspace, its folder, what it is always allowed.
async fn left(gateway: &Gateway) -> [bool; 4] {
    let mut client = admin(gateway).await;
    let list = call(&mut client, "sessions.list", json!({"limit": 1000})).await;
    let has_session = list.to_string().contains("agent:old:");
    let folders = [workspace(gateway), folder(gateway)].map(|path| path.exists());
    [has_session, folders[0], folders[1], is_allowed_something(gateway)]
}

/// Adds the agent and says something to it.
async fn add(gateway: &Gateway, run: &str) {
    let mut client = admin(gateway).await;
    let new = json!({"name": "Old", "workspace": workspace(gateway).display().to_string()});
    call(&mut client, "agents.create", new).await;
    ask(&mut client, KEY, "@mock text text=hello", run).await;
}

/// A gateway whose agent has all of that.
async fn with_agent() -> (Gateway, MockProvider) {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    add(&gateway, "run-1").await;
    let mut client = admin(&gateway).await;
    let read = call(&mut client, "exec.approvals.get", json!({})).await;
    let list = json!({"security": "full", "allowlist": [{"id": "1", "pattern": "/bin/ls"}]});
    let file = json!({"version": 1, "agents": {"old": list, "main": list}});
    let set = json!({"file": file, "baseHash": read["hash"]});
    call(&mut client, "exec.approvals.set", set).await;
    assert_eq!(left(&gateway).await, [true; 4]);
    assert!(is_in_config(&gateway));
    // Where the newest earlier version is there already, the file itself gets the only new name.
    fs::copy(gateway.config_path(), gateway.state_dir().join("openclaw.json.bak")).unwrap();
    (gateway, mock)
}

/// Asks for the removal, and waits for no answer.
async fn ask_for_removal(gateway: &Gateway, params: Value) -> WsClient {
    let mut client = admin(gateway).await;
    let frame = json!({"type": "req", "id": "d", "method": "agents.delete", "params": params});
    client.send(&frame).await;
    client
}

/// Nothing is taken away yet when the config lets the agent go.
async fn config_lets_it_go(gateway: &Gateway) {
    until("the config lets the agent go", async || (!is_in_config(gateway)).then_some(())).await;
    assert!(workspace(gateway).exists() && folder(gateway).exists());
    assert!(is_allowed_something(gateway));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_kill_has_left_of_a_removed_agent_the_next_start_takes_away() {
    for with_files in [true, false] {
        let (mut gateway, _mock) = with_agent().await;
        let Some(held) = hold(&gateway, "delay_exit") else { return };
        let params = json!({"agentId": "old", "deleteFiles": with_files});
        let _asking = ask_for_removal(&gateway, params).await;
        config_lets_it_go(&gateway).await;
        held.kill(&mut gateway);
        gateway.restart().await;
        gateway.logs(COMPLETED).await;
        assert_eq!(left(&gateway).await, [false, !with_files, !with_files, false]);
        let mut client = admin(&gateway).await;
        let told = refusal(&mut client, "agents.delete", json!({"agentId": "old"})).await;
        assert_eq!(told, "agent \"old\" not found");
        // A later one of its name has what it has.
        add(&gateway, "run-2").await;
        gateway.restart().await;
        assert_eq!(left(&gateway).await, [true, true, true, false]);
        assert_eq!(gateway.stderr().matches(COMPLETED).count(), 1, "{}", gateway.stderr());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_kill_has_left_of_an_agent_that_a_command_removed_the_next_start_takes_away() {
    if let Some(why) = strace::unusable() {
        return not_run(&why);
    }
    let (mut gateway, _mock) = with_agent().await;
    gateway.kill9();
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null"]).args(holding("delay_exit")).arg("--");
    command.args([tested::program(), "agents", "delete", "old", "--force"]).env_clear();
    command.env("PATH", std::env::var("PATH").unwrap_or_default());
    command.env("HOME", gateway.home()).env("OPENCLAW_STATE_DIR", gateway.state_dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut held = command.spawn().unwrap();
    config_lets_it_go(&gateway).await;
    let children = format!("/proc/{0}/task/{0}/children", held.id());
    let deleting = fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(deleting).unwrap(), Signal::KILL).unwrap();
    held.kill().unwrap();
    held.wait().unwrap();
    gateway.restart().await;
    gateway.logs(COMPLETED).await;
    assert_eq!(left(&gateway).await, [false; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_the_config_did_not_let_go_before_a_kill_keeps_all_it_has() {
    let (mut gateway, _mock) = with_agent().await;
    let Some(held) = hold(&gateway, "delay_enter") else { return };
    let _asking = ask_for_removal(&gateway, json!({"agentId": "old"})).await;
    until("the next config waits for its name", async || {
        let names = fs::read_dir(gateway.state_dir()).unwrap();
        let mut names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.starts_with(".clawgate-")).then_some(())
    })
    .await;
    held.kill(&mut gateway);
    assert!(is_in_config(&gateway));
    gateway.restart().await;
    assert_eq!(left(&gateway).await, [true; 4]);
    // Nor is it remembered that it was to go: who takes it out by hand keeps its files.
    gateway.kill9();
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config: Value = json5::from_str(&text).unwrap();
    config["agents"]["list"].as_array_mut().unwrap().retain(|agent| agent["id"] != "old");
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    gateway.restart().await;
    let [_, kept @ ..] = left(&gateway).await;
    assert_eq!(kept, [true; 3]);
    assert!(!gateway.stderr().contains(COMPLETED), "{}", gateway.stderr());
}
