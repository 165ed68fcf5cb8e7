//! `clawgate onboard` as a process: with flags, and on a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(target_os = "linux")]
use crate::service::fake_systemctl;
use crate::stage::{ask, connect, text_of};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::gateway::free_port;
use crate::support::pty::Pty;
use crate::support::{Gateway, GatewayOptions, MockProvider, program};

const KEY: &str = "sk-canary-of-the-wizard";

/// A machine on which nothing is set up.
struct Machine {
    root: TempDir,
    mock: MockProvider,
}

impl Machine {
    async fn new() -> Self {
        let root = TempDir::with_prefix("clawgate-test-").unwrap();
        for folder in ["home", "state"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root, mock: MockProvider::start().await }
    }

    fn config(&self) -> PathBuf {
        self.root.path().join("state/openclaw.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    fn profiles(&self) -> PathBuf {
        self.root.path().join("state/agents/main/agent/auth-profiles.json")
    }

    fn onboard(&self, flags: &[&str]) -> Command {
        self.command("onboard", flags)
    }

    fn command(&self, name: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .arg(name)
            .args(flags)
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("OPENCLAW_STATE_DIR", self.root.path().join("state"))
            .env("OPENCLAW_CONFIG_PATH", self.config())
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.mock.address()));
        command
    }

    /// What stands in the config.
    fn written(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// Runs it to its end, without a terminal.
    async fn run(&self, flags: &[&str], stdin: &str) -> Output {
        let mut command = self.onboard(&[&["--non-interactive", "--accept-risk"], flags].concat());
        let input = self.root.path().join("stdin");
        fs::write(&input, stdin).unwrap();
        command.stdin(fs::File::open(input).unwrap());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finished(command).await;
        let told = [&output.stdout[..], &output.stderr[..]].concat();
        assert!(!String::from_utf8_lossy(&told).contains("canary"), "{output:?}");
        output
    }

    async fn done(&self, flags: &[&str]) -> Value {
        let output = self.run(&[flags, &["--json"]].concat(), "").await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn fails(&self, flags: &[&str]) -> String {
        let output = self.run(flags, "").await;
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts the gateway and says something to it.
    async fn first_answer(self) -> (String, MockProvider) {
        let url = format!("http://{}", self.mock.address());
        let options = GatewayOptions::default().env("ANTHROPIC_BASE_URL", &url);
        let gateway = Gateway::start_in(self.root, options).await.unwrap();
        let token = fs::read_to_string(gateway.state_dir().join("gateway-token")).unwrap();
        let mut hello = standard_connect(&ALL_SCOPES);
        hello["auth"]["token"] = json!(token.trim());
        let mut client = connect(&gateway, &hello).await;
        let end = ask(&mut client, "main", "@mock text text=\"hello there\"", "r1").await;
        for frame in client.frames() {
            assert!(!frame.to_string().contains("canary"), "{frame}");
        }
        let log = gateway.stdout() + &gateway.stderr();
        assert!(!log.contains("canary"), "{log}");
        (text_of(&end["message"]), self.mock)
    }

    /// The key was tried once, and is only referred to.
    fn refers_to_the_key(&self) {
        assert_eq!(self.mock.calls().len(), 1);
        let profiles = fs::read_to_string(self.profiles()).unwrap();
        assert!(profiles.contains("\"id\": \"ANTHROPIC_API_KEY\""), "{profiles}");
        assert!(!profiles.contains(KEY) && !self.text().contains(KEY));
    }

    /// What changes one thing of a gateway with this config.
    fn change_of(&self, config: &Value, change: [&str; 2]) -> Command {
        fs::write(self.config(), config.to_string()).unwrap();
        let flags = ["--section", "gateway", "--non-interactive", "--accept-risk"];
        self.command("configure", &[&flags[..], &change].concat())
    }

    /// Stores these keys.
    fn keeps(&self, profiles: &Value) {
        fs::create_dir_all(self.profiles().parent().unwrap()).unwrap();
        let file = json!({"version": 1, "profiles": profiles});
        fs::write(self.profiles(), file.to_string()).unwrap();
    }

    async fn answers_by_the_new_key(self) {
        let (_, mock) = self.first_answer().await;
        assert_eq!(mock.calls().last().unwrap().1, KEY);
    }
}

/// Runs this to its end.
async fn finished(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Accepts, and leaves all as it is offered, but for the agent's name.
fn walks(terminal: &mut Pty, agent: &str) {
    terminal.answers("Do you accept this?", "y\r");
    terminal.answers("Which model?", "\r");
    terminal.answers("Which channels", "\r");
    terminal.answers("The folder", "\r");
    terminal.answers("The agent's name", &format!("{agent}\r"));
    terminal.answers("The gateway:", "\r");
}

#[tokio::test]
async fn from_an_empty_machine_flags_lead_to_a_first_answer() {
    let machine = Machine::new().await;
    let told = machine.done(&["--anthropic-api-key", KEY, "--skip-channels"]).await;
    assert_eq!(told["model"], "anthropic/claude-opus-5-5");
    assert_eq!((&told["changed"], &told["gateway"]["authMode"]), (&json!(true), &json!("token")));
    assert_eq!(told["gateway"]["url"], "http://127.0.0.1:18789/");
    // The key was tried once, by a question.
    assert_eq!(machine.mock.calls(), [("claude-opus-5-5".to_owned(), KEY.to_owned())]);
    assert!(!machine.text().contains("canary"), "{}", machine.text());
    let profiles = fs::read_to_string(machine.profiles()).unwrap();
    assert!(profiles.contains(KEY), "{profiles}");
    let mode = fs::metadata(machine.profiles()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let workspace = PathBuf::from(told["workspace"].as_str().unwrap());
    assert!(workspace.join("IDENTITY.md").is_file(), "{told}");
    let (answer, mock) = machine.first_answer().await;
    assert_eq!(answer, "hello there");
    assert!(mock.calls().iter().all(|(_, key)| key == KEY), "{:?}", mock.calls());
}

#[tokio::test]
async fn a_key_that_is_refused_writes_nothing_and_may_be_kept_untried() {
    let machine = Machine::new().await;
    machine.mock.fail(KEY, 401, "invalid x-api-key");
    let error = machine.fails(&["--anthropic-api-key", KEY]).await;
    assert!(error.contains("does not accept the key"), "{error}");
    assert!(error.contains("invalid x-api-key") && error.contains("--skip-check"), "{error}");
    assert!(!machine.config().exists() && !machine.profiles().exists());
    // Not on the command line, where others could read it.
    let flags = ["--auth-choice", "apiKey", "--anthropic-api-key", "-", "--skip-check"];
    let output = machine.run(&flags, &format!("{KEY}\n")).await;
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read_to_string(machine.profiles()).unwrap().contains(KEY));
}

#[tokio::test]
async fn what_the_config_holds_stays_and_a_second_time_changes_nothing() {
    let machine = Machine::new().await;
    let before = "// mine\n{\n  unknown: [1, 2,], // kept\n  agents: { defaults: { \
                  model: 'offline/echo-guide', models: { 'offline/echo-guide': {} } } },\n}\n";
    fs::write(machine.config(), before).unwrap();
    let flags = ["--auth-choice", "offline", "--gateway-port", "18999", "--agent-name", "Inky"];
    let told = machine.done(&flags).await;
    assert_eq!((&told["changed"], &told["gateway"]["port"]), (&json!(true), &json!(18_999)));
    let text = machine.text();
    for kept in ["// mine\n", "unknown: [1, 2,], // kept", "'offline/echo-guide': {}"] {
        assert!(text.contains(kept), "{text}");
    }
    assert!(text.contains("Inky") && text.contains("lastRunAt"), "{text}");
    let backup = fs::read_to_string(machine.config().with_extension("json.bak")).unwrap();
    assert_eq!(backup, before);
    let told = machine.done(&flags).await;
    assert_eq!((&told["changed"], &told["requiresRestart"]), (&json!(false), &json!(false)));
    assert_eq!(machine.text(), text);
    // A model that a list does not allow would be forbidden.
    machine.done(&["--anthropic-api-key", KEY, "--model", "claude-sonnet-5"]).await;
    let parsed = clawgate::config::parse(&machine.text(), &machine.config()).unwrap();
    assert_eq!(parsed["agents"]["defaults"]["model"], "anthropic/claude-sonnet-5");
    assert!(parsed["agents"]["defaults"]["models"]["anthropic/claude-sonnet-5"].is_object());
}

/// Sets up what needs no model, and a service, with only these programs.
async fn with_service(machine: &Machine, bin: &Path) -> (Value, String) {
    let port = free_port().to_string();
    let flags = ["--non-interactive", "--accept-risk", "--auth-choice", "offline"];
    let service = ["--gateway-port", port.as_str(), "--install-daemon", "--json"];
    let mut command = machine.onboard(&[&flags[..], &service].concat());
    command.env("PATH", bin).stdin(Stdio::null());
    let output = finished(command).await;
    assert!(output.status.success() && machine.config().exists(), "{output:?}");
    let told = serde_json::from_slice(&output.stdout).unwrap();
    (told, String::from_utf8(output.stderr).unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_service_is_installed_and_where_none_can_be_all_else_is_set_up() {
    let machine = Machine::new().await;
    let bin = machine.root.path().join("bin");
    let (told, said) = with_service(&machine, &bin).await;
    let note = told["notes"][0].as_str().unwrap();
    assert!(note.contains("no service") && note.contains("clawgate gateway run"), "{told}");
    assert_eq!(told["daemon"], json!({"requested": true, "installed": false}));
    assert!(said.contains(note), "{said}");

    let bin = fake_systemctl(machine.root.path());
    let (told, said) = with_service(&machine, &bin).await;
    assert_eq!(told["daemon"], json!({"requested": true, "installed": true}));
    let unit = machine.root.path().join("home/.config/systemd/user/clawgate.service");
    assert!(unit.is_file() && said.contains(unit.to_str().unwrap()), "{said}");
    let calls = fs::read_to_string(machine.root.path().join("calls")).unwrap();
    assert!(calls.contains("--user enable --now clawgate.service"), "{calls}");

    let changed = fs::read_to_string(&unit).unwrap() + "# mine\n";
    fs::write(&unit, &changed).unwrap();
    let (told, said) = with_service(&machine, &bin).await;
    assert_eq!(told["daemon"], json!({"requested": true, "installed": false}));
    assert!(said.contains("clawgate gateway install --force"), "{said}");
    assert_eq!(fs::read_to_string(&unit).unwrap(), changed);

    let told = machine.done(&["--auth-choice", "offline", "--no-install-daemon"]).await;
    assert_eq!(told["notes"], json!([]));
    assert_eq!(told["daemon"], json!({"requested": false, "installed": false}));
}

#[tokio::test]
async fn a_server_of_ones_own_and_channels_are_set_up_by_flags() {
    let machine = Machine::new().await;
    let base = format!("http://{}/v1", machine.mock.address());
    let told = machine
        .done(&[
            "--auth-choice",
            "custom-api-key",
            "--custom-base-url",
            &base,
            "--custom-model-id",
            "mock-1",
            "--custom-provider-id",
            "lab",
            "--custom-api-key",
            KEY,
            "--webhook-url",
            "https://example.com/hook",
            "--gateway-password",
            "a-long-password",
        ])
        .await;
    assert_eq!((&told["model"], &told["channels"]), (&json!("lab/mock-1"), &json!(["webhook"])));
    assert_eq!(machine.mock.calls(), [("mock-1".to_owned(), KEY.to_owned())]);
    let config = machine.written();
    assert_eq!(config["models"]["providers"]["lab"]["api"], "openai-completions");
    assert_eq!(config["channels"]["webhook"]["secret"].as_str().unwrap().len(), 64);
    assert_eq!(
        config["gateway"]["auth"],
        json!({"mode": "password", "password": "a-long-password"})
    );
    let config_mode = fs::metadata(machine.config()).unwrap().permissions().mode();
    assert_eq!(config_mode & 0o777, 0o600);
    let profiles = fs::read_to_string(machine.profiles()).unwrap();
    assert!(profiles.contains("lab:default"), "{profiles}");
}

#[tokio::test]
async fn a_variable_is_referred_to_and_its_value_is_stored_nowhere() {
    let machine = Machine::new().await;
    let flags = ["--non-interactive", "--accept-risk", "--auth-choice", "apiKey"];
    let mut command = machine.onboard(&[&flags[..], &["--secret-input-mode", "ref"]].concat());
    command.env("ANTHROPIC_API_KEY", KEY);
    let output = finished(command).await;
    assert!(output.status.success(), "{output:?}");
    machine.refers_to_the_key();
    // Without the variable there is nothing to refer to.
    let error =
        machine.fails(&["--auth-choice", "openai-api-key", "--secret-input-mode", "ref"]).await;
    assert!(error.contains("OPENAI_API_KEY is not set; set it, or leave the mode out"), "{error}");
}

#[tokio::test]
async fn a_variable_that_the_config_misses_is_told_before_what_the_flags_miss() {
    let machine = Machine::new().await;
    let provider = json!({"baseUrl": "http://${NOBODY_HAS_THIS}/v1", "apiKey": "k",
        "api": "openai-completions", "models": [{"id": "m"}]});
    let remote = json!({"mode": "remote", "remote": {"url": "wss://gw.example:1"}});
    let config = json!({"gateway": remote, "models": {"providers": {"p": provider}}}).to_string();
    fs::write(machine.config(), &config).unwrap();
    let by_reference = ["--auth-choice", "apiKey", "--secret-input-mode", "ref"];
    for flags in [&["--mode", "remote"][..], &by_reference] {
        let error = machine.fails(flags).await;
        for told in ["NOBODY_HAS_THIS is not set", "set it", "Mend the config file first"] {
            assert!(error.contains(told), "{told} in {error}");
        }
        assert_eq!(machine.text(), config);
    }
}

#[tokio::test]
async fn a_variable_of_the_file_dotenv_is_referred_to_like_one_of_the_process() {
    let machine = Machine::new().await;
    let text = format!("ANTHROPIC_API_KEY={KEY}\n");
    fs::write(machine.root.path().join("state/.env"), text).unwrap();
    machine.done(&["--auth-choice", "apiKey", "--secret-input-mode", "ref"]).await;
    machine.refers_to_the_key();
}

#[tokio::test]
async fn flags_that_do_not_do_are_named_and_nothing_is_written() {
    let machine = Machine::new().await;
    for (flags, expected) in [
        (&["--auth-choice", "copilot-proxy"][..], "not offered here"),
        (&["--anthropic-api-key", "two words"], "--<provider>-api-key"),
        (&["--auth-choice", "offline", "--workspace", "here"], "--workspace"),
        (&["--auth-choice", "offline", "--telegram-token", "x"], "--telegram-token"),
        (&["--auth-choice", "offline", "--telegram-token", ""], "--telegram-token is empty"),
        (&["--auth-choice", "offline", "--gateway-password", "short"], "--gateway-password"),
        (&["--mode", "remote", "--remote-url", "http://x"], "--remote-url"),
        (&["--mode", "remote", "--remote-url", "ws://example.com"], "by ws everybody on the way"),
        (&["--mode", "remote"], "Missing --remote-url for remote mode."),
        (&["--auth-choice", "offline", "--gateway-token", "-"], "stdin is empty"),
    ] {
        let error = machine.fails(flags).await;
        assert!(error.contains(expected), "{flags:?}: {error}");
        assert!(!machine.config().exists(), "{flags:?}");
    }
    let command = machine.onboard(&["--non-interactive", "--auth-choice", "offline"]);
    let output = finished(command).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("--accept-risk"), "{output:?}");
    let mut command = machine.onboard(&[]);
    command.stdin(Stdio::null());
    let output = finished(command).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("no terminal"), "{output:?}");
    assert!(!machine.config().exists());
}

#[tokio::test]
async fn an_empty_token_of_a_bot_is_the_one_that_is_there() {
    let machine = Machine::new().await;
    let token = "123456:abcdefghijklmnopqrst";
    machine.done(&["--auth-choice", "offline", "--telegram-token", token, "--skip-check"]).await;
    let before = machine.text();
    machine.done(&["--telegram-token", ""]).await;
    assert_eq!(machine.text(), before);
    let machine = Machine::new().await;
    let env = format!("TELEGRAM_BOT_TOKEN={token}\n");
    fs::write(machine.root.path().join("state/.env"), env).unwrap();
    machine.done(&["--auth-choice", "offline", "--telegram-token", "", "--skip-check"]).await;
    let text = machine.text();
    assert!(text.contains("TELEGRAM_BOT_TOKEN") && !text.contains(token), "{text}");
}

#[tokio::test]
async fn flags_that_nothing_asks_for_are_told() {
    let machine = Machine::new().await;
    let told = machine.done(&["--auth-choice", "offline", "--gateway-port", "18999"]).await;
    assert_eq!(told["notes"], json!([]));
    let before = machine.text();
    // What answers is kept, so nobody asks for a model.
    let flags = ["--model", "claude-sonnet-5", "--remote-url", "ws://h"];
    let told = machine.done(&flags).await;
    assert_eq!(told["notes"], json!(["not used, as nothing asked for it: --model, --remote-url"]));
    let output = machine.run(&flags, "").await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not used") && said.contains("--model"), "{said}");
    assert_eq!(machine.text(), before);
}

#[tokio::test]
async fn a_folder_in_which_no_agent_may_work_is_no_workspace() {
    let machine = Machine::new().await;
    let state = machine.root.path().join("state");
    for place in ["/", "~", state.to_str().unwrap()] {
        let error = machine.fails(&["--auth-choice", "offline", "--workspace", place]).await;
        assert!(
            error.contains("--workspace: ") && error.contains("cannot be a workspace"),
            "{error}"
        );
        assert!(!machine.config().exists() && !state.join("AGENTS.md").exists(), "{place}");
    }
}

#[tokio::test]
async fn a_client_of_another_machine_stays_one_until_somebody_says_otherwise() {
    let machine = Machine::new().await;
    let flags = ["--mode", "remote", "--remote-url", "wss://gw.example:1", "--remote-token"];
    machine.done(&[&flags[..], &["token-of-there"]].concat()).await;
    let told = machine.done(&["--agent-name", "Inky"]).await;
    let unused = json!(["not used, as nothing asked for it: --agent-name"]);
    assert_eq!((&told["mode"], &told["notes"]), (&json!("remote"), &unused));
    let config = machine.written();
    let output = finished(machine.change_of(&config, ["--gateway-port", "18900"])).await;
    assert!(output.status.success(), "{output:?}");
    let gateway = machine.written()["gateway"].clone();
    assert_eq!((&gateway["mode"], &gateway["port"]), (&json!("remote"), &json!(18_900)));
    // The token of there, and none is made that would let nobody in.
    let printed = finished(machine.command("token", &[])).await;
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), "token-of-there\n");
    assert!(!machine.root.path().join("state/gateway-token").exists());
    machine.done(&["--mode", "local", "--auth-choice", "offline"]).await;
    assert_eq!(machine.written()["gateway"]["mode"], "local");
}

#[tokio::test]
async fn a_workspace_that_cannot_be_made_does_not_hide_that_the_rest_is_written() {
    let machine = Machine::new().await;
    let file = machine.root.path().join("file");
    fs::write(&file, "").unwrap();
    let place = file.join("work");
    let flags = ["--auth-choice", "offline", "--workspace", place.to_str().unwrap()];
    let error = machine.fails(&flags).await;
    assert!(error.contains("the workspace is not made"), "{error}");
    assert!(error.contains("(os error"), "why: {error}");
    assert!(error.contains("all else that was chosen is written"), "{error}");
    assert_eq!(machine.written()["agents"]["defaults"]["workspace"], json!(place));
    // Once it is so, nothing more is.
    let error = machine.fails(&flags).await;
    assert!(error.contains("is not made") && !error.contains("is written"), "{error}");
}

#[tokio::test]
async fn a_config_file_that_cannot_be_written_is_told_with_the_reason() {
    let machine = Machine::new().await;
    // Nobody can lock a folder for writing, root neither.
    fs::create_dir(machine.root.path().join("state/openclaw.json.clawgate-lock")).unwrap();
    let error = machine.fails(&["--anthropic-api-key", KEY, "--skip-check"]).await;
    assert!(error.contains("the config file is not written"), "{error}");
    assert!(error.contains("(os error") && error.contains("; the key is stored"), "{error}");
    assert!(!machine.config().exists() && machine.profiles().exists());
}

#[tokio::test]
async fn on_a_terminal_arrows_and_numbers_choose_and_the_key_is_not_shown() {
    let machine = Machine::new().await;
    let mut terminal = Pty::spawn(machine.onboard(&[]));
    let walked = tokio::task::spawn_blocking(move || {
        // The Enter is not the answer to the list.
        terminal.answers("Do you accept this?", "n\x7fy\r");
        terminal.shows("Who is to answer?");
        terminal.shows(" more\r\n");
        // Down to OpenAI and back.
        terminal.types("\x1b[B");
        terminal.shows(">  2. ");
        terminal.types("\x1b[A\r");
        terminal.shows("The key for Anthropic");
        terminal.types(&format!("two words\r{KEY}x\x7f\r"));
        terminal.shows("without spaces");
        terminal.answers("Which model?", "2\r");
        terminal.answers("Which channels", "\r");
        terminal.answers("The folder that the agent works in", "\r");
        terminal.answers("The agent's name", "Inky\r");
        terminal.answers("The gateway: listens on 127.0.0.1:18789", "\r");
        terminal.shows("anthropic/claude-sonnet-5-5");
        terminal.answers("Write this to", "\r");
        terminal.shows("clawgate chat \"hi\"");
        let status = terminal.ends();
        assert!(status.success() && terminal.echoes(), "{}", terminal.all());
        terminal.all()
    });
    let shown = walked.await.unwrap();
    assert!(!shown.contains("canary"), "{shown}");
    let config = machine.written();
    assert_eq!(config["agents"]["defaults"]["model"]["primary"], "anthropic/claude-sonnet-5-5");
    assert_eq!(config["agents"]["list"], json!([{"id": "main", "identity": {"name": "Inky"}}]));
    let (answer, mock) = machine.first_answer().await;
    assert_eq!(answer, "hello there");
    assert_eq!(mock.calls().last().unwrap(), &("claude-sonnet-5-5".to_owned(), KEY.to_owned()));
}

#[tokio::test]
async fn ctrl_c_leaves_everything_as_it_was() {
    let machine = Machine::new().await;
    let before = "{ /* mine */ gateway: { port: 1234 } }\n";
    fs::write(machine.config(), before).unwrap();
    let first = Pty::spawn(machine.onboard(&[]));
    let second = Pty::spawn(machine.onboard(&["--anthropic-api-key", KEY, "--skip-check"]));
    let stopped = tokio::task::spawn_blocking(move || {
        let (mut first, mut second) = (first, second);
        first.answers("Do you accept this?", "y\r");
        first.answers("Who is to answer?", "\r");
        first.answers("The key for Anthropic", &format!("{KEY}\x03"));
        walks(&mut second, "");
        second.answers("Write this to", "\x03");
        for terminal in [&mut first, &mut second] {
            terminal.shows("nothing was written");
            assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
            assert!(terminal.echoes());
        }
    });
    stopped.await.unwrap();
    assert_eq!(machine.text(), before);
    assert!(!machine.profiles().exists());
    assert!(!machine.config().with_extension("json.bak").exists());
}

#[tokio::test]
async fn without_colours_no_letter_is_brighter_than_another() {
    let machine = Machine::new().await;
    for (no_colour, is_bold) in [("1", false), ("", true)] {
        let mut command = machine.onboard(&[]);
        command.env("NO_COLOR", no_colour);
        let mut terminal = Pty::spawn(command);
        let stopped = tokio::task::spawn_blocking(move || {
            terminal.answers("Do you accept this?", "\x03");
            assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
            terminal.all()
        });
        let shown = stopped.await.unwrap();
        let has = |style: &str| shown.contains(style);
        assert_eq!((has("\x1b[1m"), has("\x1b[2m")), (is_bold, is_bold), "{shown}");
    }
}

#[tokio::test]
async fn configure_asks_about_one_part_and_leaves_the_others() {
    let machine = Machine::new().await;
    machine.done(&["--auth-choice", "offline"]).await;
    let before = machine.written();
    let mut terminal = Pty::spawn(machine.command("configure", &[]));
    let walked = tokio::task::spawn_blocking(move || {
        terminal.answers("What do you want to change?", "4 \r");
        terminal.answers("The gateway:", "2\r");
        terminal.answers("The port", "\x1519001\r");
        terminal.answers("Who can reach it?", "\r");
        terminal.answers("What lets clients in?", "\r");
        terminal.answers("The token", "\r");
        terminal.answers("Write this to", "y\r");
        assert!(terminal.ends().success(), "{}", terminal.all());
    });
    walked.await.unwrap();
    let after = machine.written();
    assert_eq!(after["gateway"]["port"], 19_001);
    assert_eq!(after["wizard"]["lastRunCommand"], "configure");
    assert_eq!(after["agents"], before["agents"]);
}

#[tokio::test]
async fn another_port_leaves_who_is_let_in_as_it_was() {
    let proxy = json!({"mode": "trusted-proxy",
        "trustedProxy": {"userHeader": "X-User", "allowLoopback": true}});
    for auth in [json!({"mode": "none"}), proxy, json!({"token": "a-long-token"})] {
        let machine = Machine::new().await;
        let config = json!({"gateway": {"auth": auth, "trustedProxies": ["127.0.0.1"]}});
        let output = finished(machine.change_of(&config, ["--gateway-port", "1999"])).await;
        assert!(output.status.success(), "{auth}: {output:?}");
        let after = machine.written();
        assert_eq!((&after["gateway"]["port"], &after["gateway"]["auth"]), (&json!(1999), &auth));
    }
}

#[tokio::test]
async fn a_port_that_only_a_variable_names_is_not_written() {
    for port in [None, Some(1234)] {
        let machine = Machine::new().await;
        let config = json!({"gateway": {"mode": "local", "port": port}});
        let mut command = machine.change_of(&config, ["--gateway-token", "a-long-token-1"]);
        command.env("OPENCLAW_GATEWAY_PORT", "19555");
        let output = finished(command).await;
        assert!(output.status.success(), "{output:?}");
        let gateway = &machine.written()["gateway"];
        assert_eq!(gateway["auth"]["token"], "a-long-token-1");
        assert_eq!(gateway["port"], json!(port), "{gateway}");
        assert!(gateway.get("bind").is_none(), "nobody was asked for another one: {gateway}");
    }
}

#[tokio::test]
async fn a_new_key_comes_before_those_that_are_stored() {
    let machine = Machine::new().await;
    let old = json!({"type": "token", "provider": "anthropic", "token": "old-token"});
    machine.keeps(&json!({"anthropic:work": old}));
    machine.done(&["--anthropic-api-key", KEY]).await;
    let profiles: Value =
        serde_json::from_str(&fs::read_to_string(machine.profiles()).unwrap()).unwrap();
    assert_eq!(profiles["profiles"]["anthropic:work"], old);
    let config = machine.written();
    assert_eq!(
        config["auth"]["order"]["anthropic"],
        json!(["anthropic:default", "anthropic:work"])
    );
    machine.answers_by_the_new_key().await;
}

#[tokio::test]
async fn a_new_key_is_used_though_the_agent_has_an_order_of_its_own() {
    let machine = Machine::new().await;
    let old = json!({"type": "api_key", "provider": "anthropic", "key": "old"});
    machine.keeps(&json!({"anthropic:old": old}));
    let state = machine.profiles().with_file_name("auth-state.json");
    let order = json!({"version": 1, "order": {"Anthropic": ["anthropic:old"]}, "x": 1});
    fs::write(&state, order.to_string()).unwrap();
    let expected = json!({"anthropic:default": {"provider": "anthropic", "mode": "token"}});
    fs::write(machine.config(), json!({"auth": {"profiles": expected}}).to_string()).unwrap();
    machine.done(&["--anthropic-api-key", KEY]).await;
    let state: Value = serde_json::from_str(&fs::read_to_string(&state).unwrap()).unwrap();
    let ids = ["anthropic:default", "anthropic:old"];
    assert_eq!(state, json!({"version": 1, "order": {"Anthropic": ids}, "x": 1}));
    let config = machine.written();
    assert!(config["auth"]["order"].is_null(), "{config}");
    machine.answers_by_the_new_key().await;
}

#[tokio::test]
async fn a_new_key_shuts_out_no_key_of_another_agent() {
    for order in [Value::Null, json!({"Anthropic": ["anthropic:work", "anthropic:old"]})] {
        let machine = Machine::new().await;
        for (agent, id) in [("main", "anthropic:old"), ("work", "anthropic:work")] {
            let file = format!("state/agents/{agent}/agent/auth-profiles.json");
            let file = machine.root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let key = json!({"type": "api_key", "provider": "anthropic", "key": id});
            fs::write(file, json!({"version": 1, "profiles": {id: key}}).to_string()).unwrap();
        }
        let mut config = json!({"agents": {"list": [{"id": "main"}, {"id": "work"}]}});
        let name = if order.is_null() { "anthropic" } else { "Anthropic" };
        if !order.is_null() {
            config["auth"]["order"] = order;
        }
        fs::write(machine.config(), config.to_string()).unwrap();
        machine.done(&["--anthropic-api-key", KEY]).await;
        let config = machine.written();
        let ids = json!(["anthropic:work", "anthropic:default", "anthropic:old"]);
        assert_eq!(config["auth"]["order"], json!({name: ids}));
        machine.answers_by_the_new_key().await;
    }
}

#[tokio::test]
async fn what_somebody_writes_while_a_terminal_asks_is_not_undone() {
    let machine = Machine::new().await;
    let before = "{ agents: { defaults: { model: 'offline/echo-guide' } } }\n";
    fs::write(machine.config(), before).unwrap();
    let flags = ["--anthropic-api-key", KEY, "--skip-check"];
    let mut terminal = Pty::spawn(machine.onboard(&flags));
    let config = machine.config();
    let walked = tokio::task::spawn_blocking(move || {
        walks(&mut terminal, "Inky");
        terminal.shows("Write this to");
        let theirs = json!({"agents": {
            "defaults": {"model": {"primary": "offline/echo-guide", "fallbacks": ["offline/echo-guide"]}},
            "list": [{"id": "Main", "name": "theirs"}]}});
        fs::write(config, theirs.to_string()).unwrap();
        terminal.types("\r");
        terminal.shows("clawgate chat \"hi\"");
        assert!(terminal.ends().success(), "{}", terminal.all());
    });
    walked.await.unwrap();
    let agents = machine.written()["agents"].clone();
    let model = &agents["defaults"]["model"];
    assert!(model["primary"].as_str().unwrap().starts_with("anthropic/"), "{model}");
    assert_eq!(model["fallbacks"], json!(["offline/echo-guide"]));
    let main = json!([{"id": "Main", "name": "theirs", "identity": {"name": "Inky"}}]);
    assert_eq!(agents["list"], main);
}

#[tokio::test]
async fn an_ollama_elsewhere_is_asked_and_written_with_its_address() {
    let machine = Machine::new().await;
    let (address, asked) = crate::ollama::serve().await;
    let flags = ["--auth-choice", "ollama", "--custom-base-url", &address, "--model", "later:1b"];
    let told = machine.done(&flags).await;
    assert_eq!(told["model"], "ollama/later:1b");
    let paths: Vec<_> = asked.lock().iter().map(|(path, _)| path.clone()).collect();
    assert!(paths.contains(&"/api/tags".to_owned()) && paths.contains(&"/api/chat".to_owned()));
    let config = machine.written();
    let provider = &config["models"]["providers"]["ollama"];
    assert_eq!(provider["baseUrl"], json!(address));
    assert_eq!(provider["models"], json!([{"id": "later:1b", "name": "later:1b"}]));
    assert!(!machine.profiles().exists(), "it wants no key");
}
