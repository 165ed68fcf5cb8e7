//! An installed Claude Code CLI as a provider, played by a script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::command;
use crate::stage::{admin, ask, call, deltas, end_of, settles, start, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, default_config};

/// Notes how it was called, answers each question with the lines of the file
/// `answer`, and keeps a child of its own, and one with a session of its own. `$0` is in
/// the directory of the test.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
n=$(ls "$here" | grep -c '^args-')
for argument in "$@"; do printf '%s\n' "$argument"; done > "$here/args-$n"
env > "$here/env-$n"
echo $$ > "$here/own"
echo $PPID > "$here/holder"
previous=
for argument in "$@"; do
  if [ "$previous" = --system-prompt-file ]; then cp "$argument" "$here/system-$n"; fi
  if [ "$previous" = --resume ] && [ -e "$here/forgetful" ]; then
    echo "No conversation found with session ID: $argument" >&2
    exit 1
  fi
  previous=$argument
done
read -r line
printf '%s\n' "$line" > "$here/asked-$n"
sleep 600 &
echo $! > "$here/child"
setsid sleep 600 &
echo $! > "$here/far"
cat "$here/answer"
if [ -e "$here/hangs" ]; then wait; fi
while read -r line; do printf '%s\n' "$line" >> "$here/asked-$n"; done
if [ -e "$here/complains" ]; then cat "$here/complains" >&2; exit 3; fi
"#;

struct Cli {
    dir: TempDir,
}

impl Cli {
    /// A script that says these lines.
    fn saying(lines: &[Value]) -> Self {
        let dir = TempDir::new().unwrap();
        let cli = Self { dir };
        fs::write(cli.path("claude"), SCRIPT).unwrap();
        fs::set_permissions(cli.path("claude"), fs::Permissions::from_mode(0o755)).unwrap();
        cli.says(lines);
        cli
    }

    fn says(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path("answer"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn told(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The value of an option of the call with this number.
    fn option(&self, call: usize, name: &str) -> Option<String> {
        let all = self.told(&format!("args-{call}"));
        let mut all = all.lines().skip_while(|argument| *argument != name);
        all.nth(1).map(str::to_owned)
    }

    /// A gateway whose default model is that of the script.
    async fn gateway(&self) -> Gateway {
        let mut config = default_config("127.0.0.1:9");
        self.put(&mut config);
        config["agents"]["defaults"]["model"]["primary"] = json!("claude-cli/opus");
        Gateway::start(options(config)).await
    }

    fn put(&self, config: &mut Value) {
        config["agents"]["defaults"]["cliBackends"]["claude-cli"] = json!({
            "command": self.path("claude"), "args": ["-p", "--output-format", "json"],
            "env": {"CLI_TOKEN": "${THE_TOKEN}"}, "modelAliases": {"opus": "claude-opus-4-6"},
        });
    }

    async fn children_are_gone(&self) {
        self.are_gone(&["child", "far"]).await;
    }

    async fn are_gone(&self, names: &[&str]) {
        let is_gone = |name: &&str| {
            let id = self.told(name);
            !id.is_empty() && !Path::new("/proc").join(id.trim()).join("fd/0").exists()
        };
        let gone = async || names.iter().all(is_gone).then_some(());
        until("its processes to be gone", gone).await;
    }

    /// Kills the process whose id it has noted there.
    fn kill(&self, name: &str) {
        let id = Pid::from_raw(self.told(name).trim().parse().unwrap()).unwrap();
        kill_process(id, Signal::KILL).unwrap();
    }
}

fn options(config: Value) -> GatewayOptions {
    GatewayOptions::with_config(config)
        .env("THE_TOKEN", "cli-secret-token")
        .env("ANTHROPIC_API_KEY", "sk-of-the-gateway")
}

fn event(event: &Value) -> Value {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null, "session_id": "s", "uuid": "u"})
}

fn streamed(texts: &[&str]) -> Vec<Value> {
    let mut lines = vec![
        json!({"type": "system", "subtype": "init", "model": "m", "tools": []}),
        event(
            &json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9}}}),
        ),
        event(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
    ];
    lines.extend(texts.iter().map(|text| {
        event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
    }));
    lines
}

fn answer(texts: &[&str]) -> Vec<Value> {
    let whole = texts.concat();
    let mut lines = streamed(texts);
    lines.extend([
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "msg_1", "content": [{"type": "text", "text": whole}]}}),
        event(&json!({"type": "content_block_stop", "index": 0})),
        event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}})),
        event(&json!({"type": "message_stop"})),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": whole,
            "usage": {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0}}),
    ]);
    lines
}

#[tokio::test]
async fn the_cli_answers_and_its_session_goes_on_with_the_conversation() {
    let cli = Cli::saying(&answer(&["Good ", "morning."]));
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "first question", "run-1").await;
    assert_eq!(
        (&end["state"], text_of(&end["message"])),
        (&json!("final"), "Good morning.".into())
    );
    let usage = &end["usage"];
    assert_eq!((&usage["input"], &usage["cacheRead"]), (&json!(9), &json!(2)), "{end}");
    let asked: Value = serde_json::from_str(&cli.told("asked-0")).unwrap();
    let id = cli.option(0, "--session-id").unwrap();
    assert_eq!((&asked["type"], &asked["session_id"]), (&json!("user"), &json!(id)));
    assert!(asked["message"]["content"].to_string().contains("first question"), "{asked}");
    assert_eq!(cli.option(0, "--model").as_deref(), Some("claude-opus-4-6"));
    assert_eq!(cli.option(0, "--output-format").as_deref(), Some("stream-json"));
    assert_eq!(cli.option(0, "--tools").as_deref(), Some(""));
    cli.children_are_gone().await;

    ask(&mut client, "main", "second question", "run-2").await;
    assert_eq!(cli.option(1, "--resume"), Some(id), "{}", cli.told("args-1"));
    let asked = cli.told("asked-1");
    assert!(asked.contains("second question") && !asked.contains("first question"), "{asked}");

    // What it no longer has, it is told.
    fs::write(cli.path("forgetful"), "").unwrap();
    let end = ask(&mut client, "main", "third question", "run-3").await;
    assert_eq!(end["state"], "final", "{end}");
    assert!(cli.option(2, "--resume").is_some() && cli.option(3, "--session-id").is_some());
    let asked = cli.told("asked-3");
    let places: Vec<_> = ["first question", "Good morning.", "second question", "third question"]
        .map(|text| asked.find(text).unwrap_or_else(|| panic!("{text} is not in {asked}")))
        .into();
    assert!(places.is_sorted(), "{asked}");
}

#[tokio::test]
async fn notes_that_a_model_cannot_write_before_a_compaction_are_not_written_by_the_cli() {
    let cli = Cli::saying(&answer(&["Good morning."]));
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    cli.put(&mut config);
    let flush = json!({"prompt": "@mock err status=400 msg=\"no notes\""});
    let defaults = &mut config["agents"]["defaults"];
    defaults["compaction"] =
        json!({"keepRecentTokens": 1, "reserveTokens": 10_000_000, "memoryFlush": flush});
    defaults["model"]["fallbacks"] = json!(["claude-cli/opus"]);
    config["models"]["providers"]["mock"]["models"][0]["contextWindow"] = json!(8000);
    let gateway = Gateway::start(options(config)).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "s", "hello", "run-1").await;
    ask(&mut client, "s", "@mock text text=\"They said hello.\"", "run-2").await;
    let long = format!("@mock text text=there {}", "x".repeat(24_000));
    let end = ask(&mut client, "s", &long, "run-3").await;
    assert_eq!(text_of(&end["message"]), "there");
    gateway.logs("no notes taken before a compaction").await;
    assert_eq!(cli.told("asked-0"), "");
    // What is said to the model itself is answered in its place.
    mock.fail("mock-1", 404, "gone");
    let end = ask(&mut client, "other", "hello", "run-4").await;
    assert_eq!(text_of(&end["message"]), "Good morning.", "{end}");
}

#[tokio::test]
async fn neither_secrets_nor_prompts_are_among_its_arguments_and_our_keys_not_in_its_variables() {
    let cli = Cli::saying(&answer(&["Yes."]));
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "a private question", "run-1").await;
    let (arguments, variables) = (cli.told("args-0"), cli.told("env-0"));
    let system = cli.told("system-0");
    assert!(!system.trim().is_empty());
    for private in ["cli-secret-token", "a private question", system.lines().next().unwrap()] {
        assert!(!arguments.contains(private), "{arguments}");
    }
    assert!(variables.contains("CLI_TOKEN=cli-secret-token"), "{variables}");
    assert!(!variables.contains("sk-of-the-gateway"), "{variables}");
    let file = cli.option(0, "--system-prompt-file").unwrap();
    assert!(!Path::new(&file).exists(), "{file} is left behind");
}

#[tokio::test]
async fn an_abort_kills_the_cli_and_what_it_has_started() {
    let cli = Cli::saying(&streamed(&["Once ", "upon "]));
    fs::write(cli.path("hangs"), "").unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "tell a story", "run-1").await;
    deltas(&client, "run-1", 1).await;
    call(&mut client, "chat.abort", json!({"sessionKey": "main", "runId": "run-1"})).await;
    assert_eq!(end_of(&client, "run-1").await["state"], "aborted");
    settles(&mut client, "agent:main:main", "killed").await;
    cli.children_are_gone().await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_nothing_of_the_cli_and_the_next_one_no_prompt() {
    let cli = Cli::saying(&streamed(&["Once ", "upon "]));
    fs::write(cli.path("hangs"), "").unwrap();
    let mut gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "tell a story", "run-1").await;
    deltas(&client, "run-1", 1).await;
    let prompt = cli.option(0, "--system-prompt-file").unwrap();
    gateway.kill9();
    cli.children_are_gone().await;
    assert!(Path::new(&prompt).exists(), "{prompt}");
    gateway.restart().await;
    assert!(!Path::new(&prompt).exists(), "{prompt}");
}

#[tokio::test]
async fn the_end_of_whoever_holds_the_cli_or_of_itself_by_a_signal_ends_the_answer() {
    let cli = Cli::saying(&streamed(&["Once ", "upon "]));
    fs::write(cli.path("hangs"), "").unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    for (run, killed) in [("run-1", "holder"), ("run-2", "own")] {
        start(&mut client, run, "tell a story", run).await;
        deltas(&client, run, 1).await;
        cli.kill(killed);
        let end = end_of(&client, run).await.to_string();
        assert!(end.contains("ended with signal: 9 (SIGKILL)"), "{killed}: {end}");
        cli.are_gone(&["own"]).await;
        if killed == "holder" {
            // Nobody is left who would.
            cli.kill("child");
            cli.kill("far");
        }
    }
    cli.children_are_gone().await;
}

#[tokio::test]
async fn a_cli_that_cannot_be_executed_and_a_folder_for_prompts_that_cannot_be_written_are_named() {
    let cli = Cli::saying(&[]);
    fs::write(cli.path("claude"), "#!/nowhere/sh\n").unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    let told = end["errorMessage"].as_str().unwrap();
    let command = cli.path("claude");
    let start = format!(
        "agents.defaults.cliBackends.claude-cli.command: cannot start \"{}\": No such file",
        command.display()
    );
    assert!(told.contains(&start), "{told}");

    let prompts = gateway.state_dir().join("cli-prompts");
    fs::remove_dir_all(&prompts).unwrap();
    fs::write(&prompts, "").unwrap();
    let end = ask(&mut client, "main", "hello again", "run-2").await;
    let told = end["errorMessage"].as_str().unwrap();
    assert!(told.contains(&format!("to a file in {}: ", prompts.display())), "{told}");
}

#[tokio::test]
async fn a_cli_may_be_silent_for_as_long_as_is_configured() {
    let cli = Cli::saying(&[]);
    fs::write(cli.path("hangs"), "").unwrap();
    let mut config = default_config("127.0.0.1:9");
    cli.put(&mut config);
    config["agents"]["defaults"]["model"]["primary"] = json!("claude-cli/opus");
    config["models"]["providers"]["claude-cli"] = json!({"timeoutSeconds": 1});
    let gateway = Gateway::start(options(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert!(end.to_string().contains("timed out"), "{end}");
    cli.children_are_gone().await;
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_secrets_and_a_fallback_answers() {
    let cli = Cli::saying(&streamed(&["Half "]));
    fs::write(cli.path("complains"), "cannot use cli-secret-token here\n").unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let hangup = [json!({"type": "result", "subtype": "success", "is_error": true,
        "result": "Invalid API key · Please run /login"})];
    cli.says(&hangup);
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(end["state"], "error");
    assert!(end.to_string().contains("Please run /login"), "{end}");

    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    cli.put(&mut config);
    config["agents"]["defaults"]["model"] =
        json!({"primary": "claude-cli/opus", "fallbacks": ["mock/mock-1"]});
    let gateway = Gateway::start(options(config)).await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(text_of(&end["message"]), "Echo: hello", "{end}");
}

#[tokio::test]
async fn a_cli_that_ends_early_or_is_not_there_is_an_error_that_says_so() {
    let cli = Cli::saying(&[]);
    fs::write(cli.path("complains"), "cannot use cli-secret-token here\n").unwrap();
    let script = SCRIPT.replace(
        "while read -r line; do printf '%s\\n' \"$line\" >> \"$here/asked-$n\"; done\n",
        "",
    );
    assert_ne!(script, SCRIPT);
    fs::write(cli.path("claude"), script).unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await.to_string();
    assert!(end.contains("ended with exit status: 3"), "{end}");
    assert!(end.contains("cannot use *** here") && !end.contains("cli-secret-token"), "{end}");

    fs::remove_file(cli.path("claude")).unwrap();
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let end = ask(&mut client, "main", "hello", "run-1").await.to_string();
    assert!(end.contains("cliBackends.claude-cli.command: cannot start"), "{end}");
    let mut doctor = command(&gateway, &["doctor", "--json"]);
    let report = doctor.env("THE_TOKEN", "cli-secret-token").output().await.unwrap().stdout;
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("models.cli") && report.contains("there is no program"), "{report}");
    assert!(gateway.stderr().find("cli-secret-token").is_none());
}

#[tokio::test]
async fn without_the_key_there_is_no_such_provider() {
    let mock = MockProvider::start().await;
    let gateway = Gateway::start(GatewayOptions::with_config(default_config(mock.address()))).await;
    let mut client = admin(&gateway).await;
    let all = call(&mut client, "models.list", json!({"view": "all"})).await;
    assert!(!all.to_string().contains("claude-cli"), "{all}");

    let cli = Cli::saying(&[]);
    let gateway = cli.gateway().await;
    let mut client = admin(&gateway).await;
    let all = call(&mut client, "models.list", json!({"view": "all"})).await;
    let models = all["models"].as_array().unwrap();
    let own = models.iter().filter(|model| model["provider"] == "claude-cli");
    assert!(own.clone().any(|model| model["id"] == "opus") && own.count() > 3, "{all}");
}
