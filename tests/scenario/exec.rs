//! Commands that an agent runs: the real binary, real shells, real processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{
    Api, RUN_LIMIT, call, config, connect, end_of, ends_of, events, scripted, start, text_of, until,
};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::not_run::{NO_SANDBOX, not_run};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};
use crate::workspace::system_prompt;

/// What is ended is dead by then, also on a busy machine. By itself it would run for
/// minutes.
const DEAD_LIMIT: Duration = Duration::from_secs(20);

/// A client that is told of the tool calls of its runs.
async fn owner(gateway: &Gateway) -> WsClient {
    let mut params = standard_connect(&ALL_SCOPES);
    params["caps"] = json!(["tool-events"]);
    connect(gateway, &params).await
}

fn line(tool: &str, args: &Value) -> String {
    format!("@mock tool name={tool} args={args} then=\"done\"")
}

/// Has the model call a tool in this session; `{content, details, isError}`.
async fn tool(client: &mut WsClient, session: &str, tool: &str, args: Value) -> Value {
    let run = uuid::Uuid::new_v4().to_string();
    start(client, session, &line(tool, &args), &run).await;
    end_of(client, &run).await;
    let told = of_stream(client, &run, "tool");
    let end = told.into_iter().find(|data| data["phase"] == "result").expect("a result");
    let mut result = end["result"].clone();
    result["isError"] = end["isError"].clone();
    result
}

async fn exec(client: &mut WsClient, session: &str, args: Value) -> Value {
    tool(client, session, "exec", args).await
}

fn of_stream(client: &WsClient, run: &str, stream: &str) -> Vec<Value> {
    let all = events(client, "agent", run).into_iter();
    all.filter(|payload| payload["stream"] == stream).map(|mut it| it["data"].take()).collect()
}

async fn with_exec(settings: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = settings;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Waits for a file that a command writes a process id to.
pub async fn pid_in(path: &Path) -> u32 {
    until("a process id", async || fs::read_to_string(path).ok()?.trim().parse().ok()).await
}

/// Whether a process runs; one that has ended and waits for its parent does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub async fn all_die(pids: &[u32]) {
    let deadline = Instant::now() + DEAD_LIMIT;
    while pids.iter().any(|pid| runs(*pid)) {
        let alive: Vec<_> = pids.iter().filter(|pid| runs(**pid)).collect();
        assert!(Instant::now() < deadline, "{alive:?} of {pids:?} still run");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A command that does not want to end, and one of its own that made a session
/// of its own and lost its parent; both write their process ids.
const STUBBORN: &str = "trap '' TERM; echo $$ > first.pid; \
    (setsid sh -c 'trap \"\" TERM; echo $$ > second.pid; sleep 600; sleep 600' &); \
    sleep 600; sleep 600";

async fn stubborn(gateway: &Gateway) -> [u32; 2] {
    let place = gateway.workspace();
    let pids = [pid_in(&place.join("first.pid")).await, pid_in(&place.join("second.pid")).await];
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    pids
}

#[tokio::test]
async fn a_command_is_told_of_while_it_runs_and_when_it_has_ended() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let command = "echo one; echo two >&2; sleep 0.4; echo three; exit 3";
    start(&mut client, "main", &line("exec", &json!({"command": command})), "r").await;
    end_of(&client, "r").await;
    let told = of_stream(&client, "r", "tool");
    let phases: Vec<_> = told.iter().map(|data| data["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["start", "update", "update", "update", "result"]);
    let tails: Vec<_> =
        told[1..4].iter().map(|data| &data["partialResult"]["details"]["tail"]).collect();
    assert_eq!(tails, ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"]);
    let running = &told[1]["partialResult"]["details"];
    assert_eq!(running["status"], "running");
    assert!(running["pid"].as_u64().unwrap() > 1, "{running}");
    assert_eq!(running["sessionId"].as_str().unwrap().split('-').count(), 2, "{running}");
    let result = &told[4]["result"];
    let text = "one\ntwo\nthree\n\n(Command exited with code 3)";
    assert_eq!(text_of(result), text);
    let details = &result["details"];
    assert_eq!((&details["status"], &details["exitCode"]), (&json!("completed"), &json!(3)));
    assert_eq!(details["aggregated"], text);
    assert!((400..5000).contains(&details["durationMs"].as_u64().unwrap()), "{details}");
    let output = of_stream(&client, "r", "command_output");
    assert_eq!(output.last().unwrap()["output"], text);
    assert_eq!(output.last().unwrap()["exitCode"], 3);
}

#[tokio::test]
async fn output_that_is_no_text_is_made_safe_and_no_output_is_said_so() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let odd = r"printf 'a\377\000\033[31mred\033[0m \303\244\n'; cat";
    let result = exec(&mut client, "main", json!({"command": odd})).await;
    assert_eq!(text_of(&result), "a\u{fffd}red ä", "and its input is empty");
    let result = exec(&mut client, "main", json!({"command": "true"})).await;
    assert_eq!(text_of(&result), "(no output)");
    let result = exec(&mut client, "main", json!({"command": "pwd", "workdir": "/"})).await;
    assert_eq!(text_of(&result), "/");
    let result = exec(&mut client, "main", json!({"command": "pwd", "workdir": "/nowhere"})).await;
    assert_eq!(result["isError"], true);
    assert!(text_of(&result).contains("/nowhere"), "{result}");
}

#[tokio::test]
async fn a_command_in_the_background_is_polled_to_its_end() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let command = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo over; exit 4";
    let args = json!({"command": command, "yieldMs": 200});
    let result = exec(&mut client, "main", args).await;
    assert!(text_of(&result).starts_with("Command still running (session "), "{result}");
    let id = result["details"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(result["details"]["tail"], "begun\n");
    let mut process = async |args: Value| tool(&mut client, "main", "process", args).await;
    let list = process(json!({"action": "list"})).await;
    assert!(text_of(&list).starts_with(&format!("{id} running   ")), "{list}");
    assert_eq!(list["details"]["sessions"][0]["command"], command);
    let first = process(json!({"action": "poll", "sessionId": id})).await;
    assert_eq!(text_of(&first), "begun\n\nProcess still running.");
    assert_eq!(first["details"]["status"], "running");
    fs::write(gateway.workspace().join("go"), "").unwrap();
    let mut said = String::new();
    while !said.contains("exited") {
        let args = json!({"action": "poll", "sessionId": id, "timeout": 5000});
        said.push_str(&text_of(&process(args).await));
    }
    assert!(said.ends_with("Process exited with code 4."), "{said}");
    assert!(said.contains("over") && !said.contains("begun"), "{said}");
    let log = process(json!({"action": "log", "sessionId": id, "limit": 1})).await;
    assert_eq!(text_of(&log), "over");
    assert_eq!(log["details"]["exitCode"], 4);
    process(json!({"action": "clear", "sessionId": id})).await;
    let list = process(json!({"action": "list"})).await;
    assert_eq!(text_of(&list), "No running or recent sessions.");
}

#[tokio::test]
async fn the_next_turn_knows_that_a_background_command_has_ended() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": "sleep 0.1; echo ready", "background": true});
    let result = exec(&mut client, "main", args).await;
    let id = result["details"]["sessionId"].as_str().unwrap().to_owned();
    let poll = json!({"action": "poll", "sessionId": id, "timeout": 5000});
    until("the end", async || {
        let polled = tool(&mut client, "main", "process", poll.clone()).await;
        (polled["details"]["status"] == "completed").then_some(())
    })
    .await;
    crate::stage::ask(&mut client, "main", "@mock text text=hi", "after").await;
    let seen = mock.requests().iter().any(|request| {
        let text = request.body.to_string();
        text.contains(&format!("Exec completed ({id}, code 0) :: ready"))
    });
    assert!(seen, "the note is in a prompt");
}

#[tokio::test]
async fn what_a_command_writes_to_its_terminal_last_is_there() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    for _ in 0..20 {
        let args = json!({"command": "seq 1 20000; echo the-end", "pty": true});
        // The text of the event is cut.
        let result = exec(&mut client, "main", args).await["details"]["aggregated"].take();
        assert!(result.as_str().unwrap().trim_end().ends_with("the-end"), "{result}");
    }
}

#[tokio::test]
async fn a_terminal_is_written_to_and_read_from() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let command = "test -t 0 && test -t 1 && tty | grep -q pts && echo terminal; \
        read name; echo \"hello $name\"; sleep 600";
    let args = json!({"command": command, "pty": true, "background": true});
    let result = exec(&mut client, "main", args).await;
    let id = result["details"]["sessionId"].as_str().unwrap().to_owned();
    let mut process = async |mut args: Value| {
        args["sessionId"] = json!(id);
        tool(&mut client, "main", "process", args).await
    };
    let first = process(json!({"action": "poll", "timeout": 5000})).await;
    assert_eq!(text_of(&first), "terminal\n\nProcess still running.");
    assert_eq!(first["details"]["stdinWritable"], true);
    let written = process(json!({"action": "write", "data": "wörld"})).await;
    assert_eq!(text_of(&written), format!("Wrote 6 bytes to session {id}."));
    process(json!({"action": "submit"})).await;
    let mut said = String::new();
    while !said.contains("hello wörld") {
        said.push_str(&text_of(&process(json!({"action": "poll", "timeout": 5000})).await));
    }
    process(json!({"action": "send-keys", "keys": ["C-c"]})).await;
    let mut said = String::new();
    while !said.contains("exited") {
        said.push_str(&text_of(&process(json!({"action": "poll", "timeout": 5000})).await));
    }
    let refused = process(json!({"action": "write", "data": "x"})).await;
    assert_eq!(refused["isError"], true, "{refused}");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": format!("echo begun; {STUBBORN}"), "timeout": 1});
    start(&mut client, "main", &line("exec", &args), "r").await;
    let pids = stubborn(&gateway).await;
    end_of(&client, "r").await;
    all_die(&pids).await;
    let told = of_stream(&client, "r", "tool");
    let end = told.last().unwrap();
    assert!(text_of(&end["result"]).starts_with("begun\n\nCommand timed out after 1 seconds"));
    assert_eq!(end["isError"], true);
    assert_eq!(end["result"]["details"]["timedOut"], true);
}

#[tokio::test]
async fn output_beyond_the_limit_is_in_a_private_file() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let result = exec(&mut client, "main", json!({"command": "seq 1 100000"})).await;
    let shown = text_of(&result);
    let text = result["details"]["aggregated"].as_str().unwrap();
    let begin = shown.strip_suffix("\n…(truncated)…").unwrap();
    assert!(begin.len() == 8000 && text.starts_with(begin), "{}", begin.len());
    assert!(text.len() < 201_000 && text.ends_with("\n99999\n100000"), "{}", text.len());
    let note = text.lines().next().unwrap();
    assert!(note.starts_with("[the first 388895 bytes are left out; all of it is in /"), "{note}");
    let path = note.trim_end_matches(']').rsplit(' ').next().unwrap();
    let all = fs::read_to_string(path).unwrap();
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(all == expected, "{} of {} bytes", all.len(), expected.len());
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(Path::new(path).starts_with(gateway.state_dir()));
}

#[tokio::test]
async fn a_command_gets_none_of_the_gateways_secrets() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["exec"] = json!({"env": {"GIVEN": "yes"}});
    let options = GatewayOptions::with_config(config).env("PLANTED_KEY", "canary-7f3a");
    let gateway = Gateway::start(options).await;
    fs::write(gateway.workspace().join(".env"), "DOTENV=canary-7f3a\n").unwrap();
    let mut client = owner(&gateway).await;
    let command = "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo asked $ASKED";
    let args = json!({"command": command, "env": {"ASKED": "too"}});
    let text = text_of(&exec(&mut client, "main", args).await);
    assert!(text.contains("GIVEN=yes") && text.contains("OPENCLAW_SHELL=exec"), "{text}");
    assert!(text.ends_with("asked too"), "{text}");
    assert!(!text.contains("canary-7f3a") && !text.contains("GATEWAY"), "{text}");
    for name in [
        "PATH",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "A-B",
        "TAR_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "GIT_DIR",
        "XDG_CONFIG_HOME",
        "npm_config_script_shell",
    ] {
        let args = json!({"command": "echo ran", "env": {name: "x"}});
        let result = exec(&mut client, "main", args).await;
        assert_eq!(result["isError"], true, "{name}: {result}");
        assert!(text_of(&result).contains(name), "{result}");
    }
}

#[tokio::test]
async fn an_abort_ends_all_that_a_command_has_started() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    start(&mut client, "main", &line("exec", &json!({"command": STUBBORN})), "r").await;
    let pids = stubborn(&gateway).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "r"})).await;
    all_die(&pids).await;
    assert_eq!(ends_of(&client, "r").len(), 1);
    assert_eq!(end_of(&client, "r").await["state"], "aborted");
}

#[tokio::test]
async fn a_command_that_stops_its_keeper_is_ended_all_the_same() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    for (number, again) in
        ["exec sleep 600", "while :; do kill -STOP $PPID; done"].iter().enumerate()
    {
        let command =
            format!("trap '' TERM; echo $$ > {number}.pid; sleep 0.1; kill -STOP $PPID; {again}");
        let args = json!({"command": command, "timeout": 1});
        let result = exec(&mut client, "main", args).await;
        assert_eq!(result["details"]["timedOut"], true, "{again}: {result}");
        all_die(&[pid_in(&gateway.workspace().join(format!("{number}.pid"))).await]).await;
    }
}

#[tokio::test]
async fn input_for_a_keeper_that_is_stopped_holds_up_nobody() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let command = "echo $$ > own.pid; while :; do kill -STOP $PPID; done";
    let args = json!({"command": command, "pty": true, "background": true});
    let result = exec(&mut client, "main", args).await;
    let id = result["details"]["sessionId"].clone();
    let pid = pid_in(&gateway.workspace().join("own.pid")).await;
    for _ in 0..8 {
        let write = json!({"action": "write", "sessionId": id, "data": "x".repeat(60_000)});
        tool(&mut client, "main", "process", write).await;
    }
    tool(&mut client, "main", "process", json!({"action": "kill", "sessionId": id})).await;
    all_die(&[pid]).await;
}

#[tokio::test]
async fn nothing_outlives_a_gateway_that_is_killed() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": STUBBORN, "background": true});
    exec(&mut client, "main", args).await;
    let pids = stubborn(&gateway).await;
    gateway.kill9();
    all_die(&pids).await;
}

#[tokio::test]
async fn nothing_outlives_a_gateway_that_stops() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    exec(&mut client, "main", json!({"command": STUBBORN, "background": true})).await;
    let pids = stubborn(&gateway).await;
    drop(client);
    gateway.terminate().await.expect("the gateway stops");
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

/// All that the model is asked with in the next turn of a session.
async fn heard(gateway: &Gateway, mock: &MockProvider, session: &str) -> String {
    let mut client = owner(gateway).await;
    let before = mock.requests().len();
    crate::stage::ask(&mut client, session, "@mock text text=hi", session).await;
    mock.requests()[before].body.to_string()
}

#[tokio::test]
async fn the_next_turn_knows_that_the_stop_of_the_gateway_has_ended_a_command() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let mut ids = Vec::new();
    for session in ["serves", "killed"] {
        let args = json!({"command": "sleep 600", "background": true});
        let result = exec(&mut client, session, args).await;
        ids.push(result["details"]["sessionId"].as_str().unwrap().to_owned());
    }
    tool(&mut client, "killed", "process", json!({"action": "kill", "sessionId": ids[1]})).await;
    drop(client);
    gateway.terminate().await.expect("the gateway stops");
    gateway.restart().await;

    let told = heard(&gateway, &mock, "serves").await;
    assert!(told.contains(&format!("Exec ended: the gateway stopped ({}, ", ids[0])), "{told}");
    let told = heard(&gateway, &mock, "killed").await;
    assert!(!told.contains("Exec ended"), "who had it killed knows: {told}");
}

#[tokio::test]
async fn a_command_that_a_kill_of_the_gateway_has_ended_is_told_of_and_on_the_list() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": "sleep 600", "background": true});
    let result = exec(&mut client, "main", args).await;
    let id = result["details"]["sessionId"].as_str().unwrap().to_owned();
    let running = gateway.state_dir().join("exec-running").join(format!("{id}.json"));
    until("its file", async || running.exists().then_some(())).await;
    gateway.kill9();
    gateway.restart().await;
    let told = heard(&gateway, &mock, "main").await;
    assert!(told.contains(&format!("Exec ended: the gateway was cut off ({id}, ")), "{told}");
    let mut client = owner(&gateway).await;
    let listed = tool(&mut client, "main", "process", json!({"action": "list"})).await;
    let row = &listed["details"]["sessions"][0];
    assert_eq!((&row["sessionId"], &row["status"]), (&json!(id), &json!("failed")), "{listed}");
    assert!(!running.exists(), "it is told once");
}

#[tokio::test]
async fn what_has_ended_in_the_background_is_still_to_be_told_after_a_kill() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    // It ends after the turn, which would be told of it.
    let command = "while [ ! -e go ]; do sleep 0.02; done; echo ready";
    let result = exec(&mut client, "main", json!({"command": command, "background": true})).await;
    let id = result["details"]["sessionId"].as_str().unwrap();
    fs::write(gateway.workspace().join("go"), "").unwrap();
    let database = gateway.state_dir().join("clawgate.sqlite");
    until("a note", async || {
        let notes = rusqlite::Connection::open(&database).ok()?;
        let count = "SELECT count(*) FROM notices";
        let count: u32 = notes.query_row(count, [], |row| row.get(0)).ok()?;
        (count > 0).then_some(())
    })
    .await;
    gateway.kill9();
    gateway.restart().await;
    let told = heard(&gateway, &mock, "main").await;
    assert!(told.contains(&format!("Exec completed ({id}, code 0) :: ready")), "{told}");
    assert!(!told.contains("was cut off"), "{told}");
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_told_of_and_can_be_ended() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let command = "sleep 600 & echo $! > left.pid; echo over";
    let result = exec(&mut client, "main", json!({"command": command})).await;
    let text = text_of(&result);
    assert!(text.starts_with("over\n\n(Processes that it started are still running"), "{text}");
    let pid = pid_in(&gateway.workspace().join("left.pid")).await;
    assert!(runs(pid));
    let id = text.split(' ').rev().nth(2).unwrap().to_owned();
    for (action, word) in [
        ("list", "(Processes that it started are still running"),
        ("poll", "Process exited with code 0. (Processes that it started are still running"),
        ("clear", "use kill or remove"),
    ] {
        let args = json!({"action": action, "sessionId": id});
        let told = text_of(&tool(&mut client, "main", "process", args).await);
        assert!(told.contains(word), "{action}: {told}");
    }
    tool(&mut client, "main", "process", json!({"action": "kill", "sessionId": id})).await;
    all_die(&[pid]).await;
}

#[tokio::test]
async fn a_session_does_not_see_the_commands_of_another() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": "sleep 600", "background": true});
    let result = exec(&mut client, "one", args).await;
    let id = result["details"]["sessionId"].as_str().unwrap().to_owned();
    let list = tool(&mut client, "two", "process", json!({"action": "list"})).await;
    assert_eq!(text_of(&list), "No running or recent sessions.");
    for action in ["poll", "log", "write", "kill", "remove"] {
        let args = json!({"action": action, "sessionId": id});
        let result = tool(&mut client, "two", "process", args).await;
        assert_eq!(text_of(&result), format!("No session found for {id}"));
    }
    let args = json!({"action": "kill", "sessionId": id});
    let result = tool(&mut client, "one", "process", args).await;
    assert_eq!(text_of(&result), format!("Termination requested for session {id}."));
}

#[tokio::test]
async fn what_a_command_prints_of_the_gateways_secrets_is_hidden_from_everybody() {
    let secret = "sk-hidden-0123456789-abcdef";
    let (gateway, mock) =
        with_exec(json!({"env": {"SERVICE_KEY": secret, "MODE": "production"}})).await;
    let mut client = owner(&gateway).await;
    let command = "echo first; sleep 0.2; echo key=$SERVICE_KEY mode=$MODE; cat $OPENCLAW_CONFIG";
    let command = command.replace("$OPENCLAW_CONFIG", &gateway.config_path().display().to_string());
    let result = exec(&mut client, "main", json!({"command": command})).await;
    let text = text_of(&result);
    let shown = "key=[hidden: a secret of the gateway] mode=production";
    assert!(text.contains(shown), "{text}");
    let said = client.frames().iter().map(ToString::to_string).collect::<String>();
    let asked: String = mock.requests().iter().map(|request| request.body.to_string()).collect();
    let row = crate::stage::row(&mut client, "agent:main:main").await;
    let file = format!("agents/main/sessions/{}.jsonl", row["sessionId"].as_str().unwrap());
    let kept = std::fs::read_to_string(gateway.state_dir().join(file)).unwrap();
    for (place, text) in [("frames", said), ("requests", asked), ("transcript", kept)] {
        assert!(text.contains("mode=production") && !text.contains(secret), "in {place}: {text}");
        assert!(!text.contains(crate::support::SECRET), "in {place}: {text}");
    }
}

/// A file that is neither in a workspace nor temporary.
fn outside(unique: u16) -> PathBuf {
    crate::support::closed_place().join(format!("clawgate-test-outside-{unique}"))
}

#[tokio::test]
async fn a_confined_command_writes_only_where_it_may() {
    let (gateway, _mock) = with_exec(json!({"sandbox": "workspace-write"})).await;
    let mut client = owner(&gateway).await;
    let outside = outside(gateway.port());
    let command = format!(
        "echo in > inside && cat inside; echo out > {}; echo tmp > $(mktemp) && echo temporary; \
         echo x > /dev/null && echo device",
        outside.display()
    );
    let result = exec(&mut client, "main", json!({"command": command})).await;
    let text = text_of(&result);
    assert!(!outside.exists(), "{text}");
    if text.contains("landlock") {
        // This kernel cannot, so nothing ran at all.
        assert_eq!(result["isError"], true);
        assert!(!gateway.workspace().join("inside").exists());
        return not_run(NO_SANDBOX);
    }
    assert!(text.starts_with("in\n") && text.ends_with("temporary\ndevice"), "{text}");
    assert!(text.contains("Permission denied"), "{text}");

    // The gateway's own is not writable, though it lies below a place that is.
    let state = gateway.state_dir();
    assert!(state.starts_with(std::env::temp_dir()), "{}", state.display());
    std::fs::write(state.join("keep"), "as it was").unwrap();
    let command = format!(
        "cd {}; echo new > new; echo changed > keep; rm keep; mv keep kept; ln keep linked; \
         mkdir folder; echo x >> openclaw.json; ls",
        state.display()
    );
    let text = text_of(&exec(&mut client, "main", json!({"command": command})).await);
    assert_eq!(std::fs::read_to_string(state.join("keep")).unwrap(), "as it was", "{text}");
    for made in ["new", "kept", "linked", "folder"] {
        assert!(!state.join(made).exists(), "{made}: {text}");
    }
}

#[tokio::test]
async fn a_command_that_asks_for_the_sandbox_gets_it() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let outside = outside(gateway.port());
    let args = json!({"command": format!("echo out > {}", outside.display()), "host": "sandbox"});
    exec(&mut client, "main", args).await;
    assert!(!outside.exists());
}

#[tokio::test]
async fn sessions_that_the_config_confines_are_confined() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["sandbox"] = json!({"mode": "non-main", "workspaceAccess": "ro"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = owner(&gateway).await;
    exec(&mut client, "other", json!({"command": "touch other"})).await;
    exec(&mut client, "other", json!({"command": "touch escaped", "host": "gateway"})).await;
    exec(&mut client, "main", json!({"command": "touch main"})).await;
    let is_there = |name: &str| gateway.workspace().join(name).exists();
    assert!(is_there("main") && !is_there("other") && !is_there("escaped"));
}

#[tokio::test]
async fn a_command_is_waited_for_where_nobody_could_look_after_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["tools"]["deny"] = json!(["process"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": "sleep 0.3; echo over", "background": true});
    assert_eq!(text_of(&exec(&mut client, "main", args).await), "over");
}

#[tokio::test]
async fn a_command_is_waited_for_whose_caller_alone_may_not_look_after_it() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["tools"] = json!({"allow": ["exec"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = owner(&gateway).await;
    let args = json!({"command": "sleep 0.5; echo over", "yieldMs": 10});
    let answer = call(&mut client, "tools.invoke", json!({"name": "exec", "args": args})).await;
    assert_eq!(text_of(&answer["output"]), "over", "{answer}");

    let job = json!({"name": "quick", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": line("exec", &args), "toolsAllow": ["exec"]}});
    let job = call(&mut client, "cron.add", job).await;
    let began = call(&mut client, "cron.run", json!({"id": job["id"]})).await;
    let is_end = |frame: &Value| {
        frame["event"] == "cron"
            && frame["payload"]["action"] == "finished"
            && frame["payload"]["runId"] == began["runId"]
    };
    let end = client.wait_for(RUN_LIMIT, is_end).await.expect("the end of the run");
    let session = end["payload"]["sessionKey"].as_str().unwrap().to_owned();
    let all = crate::stage::history(&mut client, &session).await;
    let result = all.iter().find(|message| message["toolName"] == "exec").expect("a result");
    assert_eq!(text_of(result), "over");
}

#[tokio::test]
async fn the_prompt_says_that_commands_of_a_session_are_confined() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    let hi = "@mock text text=hi";
    crate::stage::ask(&mut client, "one", hi, "run-1").await;
    assert!(!system_prompt(&mock).contains("## Sandbox"));
    call(&mut client, "sessions.patch", json!({"key": "one", "execHost": "sandbox"})).await;
    crate::stage::ask(&mut client, "one", hi, "run-2").await;
    assert!(system_prompt(&mock).contains("can write only below the workspace"));
}

#[tokio::test]
async fn commands_in_the_background_end_with_their_session() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = owner(&gateway).await;
    for (method, session) in [("sessions.reset", "one"), ("sessions.delete", "two")] {
        let args = json!({"command": STUBBORN, "background": true});
        exec(&mut client, session, args).await;
        let pids = stubborn(&gateway).await;
        let quiet = json!({"command": "echo $$ > other.pid; sleep 600", "background": true});
        exec(&mut client, "other", quiet).await;
        let other = pid_in(&gateway.workspace().join("other.pid")).await;
        call(&mut client, method, json!({"key": session})).await;
        all_die(&pids).await;
        assert!(runs(other), "that of another session goes on");
        until("an empty list", async || {
            let list = tool(&mut client, session, "process", json!({"action": "list"})).await;
            list["details"]["sessions"].as_array()?.is_empty().then_some(())
        })
        .await;
        for name in ["first.pid", "second.pid", "other.pid"] {
            fs::remove_file(gateway.workspace().join(name)).unwrap();
        }
    }
}
