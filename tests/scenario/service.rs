//! `clawgate gateway install|status|start|stop|restart|uninstall`: as a service, with a
//! `systemctl` that only writes down how it is called, and by hand.
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::program::command;
use crate::stage::{Api, Stage, until};
use crate::support::gateway::free_port;
use crate::support::{Gateway, GatewayOptions, debian, default_config, program};

/// How long a gateway that was told to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A folder with a `systemctl` that writes its calls into `calls` of the other folder, and
/// answers `show clawgate.service` with what is in `shown` there.
pub fn fake_systemctl(root: &Path) -> PathBuf {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let (calls, shown) = (root.join("calls"), root.join("shown"));
    let script = format!(
        "#!/bin/sh\necho \"systemctl $*\" >> '{}'\ncase \"$*\" in\n\
         *'show clawgate.service'*) test ! -f '{shown}' || while read line; do echo \"$line\"; \
         done < '{shown}' ;;\n*) echo Version=257 ;;\nesac\n",
        calls.display(),
        shown = shown.display(),
    );
    let program = bin.join("systemctl");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// A machine of which only this much is there.
struct Machine {
    root: TempDir,
    bin: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let root = TempDir::with_prefix("clawgate-test-").unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        let bin = fake_systemctl(root.path());
        Self { root, bin }
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn unit(&self) -> PathBuf {
        self.home().join(".config/systemd/user/clawgate.service")
    }

    async fn gateway(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(program());
        command.arg("gateway").args(args).env_clear().env("HOME", self.home());
        command.env("PATH", &self.bin).env("TMPDIR", self.root.path().join("tmp"));
        command.envs(env.iter().copied()).kill_on_drop(true).output().await.unwrap()
    }

    /// The calls of `systemctl` since the last time.
    fn calls(&self) -> Vec<String> {
        let path = self.root.path().join("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// What systemd says against a unit.
fn complaints(folder: &Path, unit: &Path) -> String {
    let program = debian::installed(&["systemd-analyze"], "systemd");
    let mut command = std::process::Command::new(program);
    command.args(["--user", "verify"]).arg(unit);
    let output = command.env("XDG_RUNTIME_DIR", folder).env("HOME", folder).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[tokio::test]
async fn the_service_is_written_started_kept_and_removed() {
    let machine = Machine::new();
    let state = machine.root.path().join("a state");
    let state = state.to_str().unwrap();
    let [port, other_port] = [(); 2].map(|()| free_port().to_string());
    let env = [
        ("OPENCLAW_STATE_DIR", state),
        ("OPENCLAW_GATEWAY_PORT", port.as_str()),
        ("ANTHROPIC_API_KEY", "sk-canary"),
        ("OPENCLAW_GATEWAY_TOKEN", "canary"),
    ];
    let told = out(&machine.gateway(&["install"], &env).await);
    assert!(told.contains(&format!("Installed service: {}", machine.unit().display())), "{told}");
    assert!(
        told.contains("journalctl --user -u clawgate") && told.contains("enable-linger"),
        "{told}"
    );
    assert!(told.contains("ANTHROPIC_API_KEY, OPENCLAW_GATEWAY_TOKEN"), "{told}");
    let text = fs::read_to_string(machine.unit()).unwrap();
    assert!(!told.contains("canary") && !text.contains("canary"), "{told}{text}");
    for line in [
        format!("ExecStart={} gateway", program()),
        format!("Environment=\"OPENCLAW_STATE_DIR={state}\""),
        format!("Environment=OPENCLAW_GATEWAY_PORT={port}"),
        format!("ReadWritePaths=\"-{state}\""),
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    assert_eq!(complaints(machine.root.path(), &machine.unit()), "", "{text}");
    let all = machine.calls();
    let wanted = ["--user daemon-reload", "--user enable --now clawgate.service"];
    assert_eq!(all[all.len() - 2..], wanted.map(|call| format!("systemctl {call}")), "{all:?}");
    assert!(Path::new(state).is_dir() && machine.home().join(".openclaw").is_dir());

    let again = json_of(&machine.gateway(&["install", "--json"], &env).await);
    assert_eq!((&again["ok"], &again["result"]), (&json!(true), &json!("already-installed")));
    let other = machine.gateway(&["install", "--port", &other_port], &env[..1]).await;
    assert!(err(&other).contains("--force"), "{other:?}");
    assert_eq!(fs::read_to_string(machine.unit()).unwrap(), text);
    machine.calls();
    out(&machine.gateway(&["install", "--port", &other_port, "--force"], &env[..1]).await);
    let line = format!("Environment=OPENCLAW_GATEWAY_PORT={other_port}\n");
    assert!(fs::read_to_string(machine.unit()).unwrap().contains(&line));
    assert_eq!(machine.calls().last().unwrap(), "systemctl --user restart clawgate.service");

    out(&machine.gateway(&["start"], &env).await);
    assert_eq!(machine.calls().last().unwrap(), "systemctl --user start clawgate.service");
    // There is one service, and it is not that of this state.
    for args in [&["start"][..], &["install"], &["uninstall"]] {
        let refused = err(&machine.gateway(args, &[]).await);
        assert!(
            refused.contains("another state directory") && refused.contains(state),
            "{refused}"
        );
    }
    let told = out(&machine.gateway(&["stop"], &[]).await);
    assert!(told.starts_with("No gateway runs"), "{told}");
    machine.calls();
    out(&machine.gateway(&["uninstall"], &env).await);
    assert!(!machine.unit().exists() && Path::new(state).is_dir());
    let all = machine.calls();
    assert!(all.contains(&"systemctl --user disable --now clawgate.service".to_owned()), "{all:?}");
    assert_eq!(all.last().unwrap(), "systemctl --user daemon-reload");
    let told = out(&machine.gateway(&["uninstall"], &env).await);
    assert!(told.starts_with("No service is installed"), "{told}");
}

#[tokio::test]
async fn a_workspace_that_is_not_there_yet_is_made_so_that_the_service_may_write_to_it() {
    let machine = Machine::new();
    let [workspace, log] = ["far/work", "log"].map(|name| machine.root.path().join(name));
    let blocker = machine.root.path().join("file");
    fs::write(&blocker, "").unwrap();
    let agents = json!([
        {"id": "gone", "workspace": blocker.join("work")}, {"id": "a", "workspace": workspace}]);
    let config = json!({"logging": {"file": log.join("gateway.log")},
        "gateway": {"port": free_port()}, "agents": {"list": agents}});
    let state = machine.home().join(".openclaw");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
    let told = out(&machine.gateway(&["install"], &[]).await);
    let unmade = format!("{} cannot be made", blocker.join("work").display());
    assert_eq!(told.matches("cannot be made").count(), 1, "{told}");
    assert!(told.contains(&unmade), "{told}");
    let text = fs::read_to_string(machine.unit()).unwrap();
    for dir in [&workspace, &log] {
        assert!(text.contains(&format!("-{}", dir.display())), "{text}");
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test]
async fn a_service_finds_programs_where_its_terminal_does_and_another_terminal_changes_nothing() {
    let machine = Machine::new();
    let (bin, port) = (machine.bin.to_str().unwrap(), free_port().to_string());
    let install = async |path: &str, args: &[&str]| {
        let env = [("PATH", path), ("OPENCLAW_GATEWAY_PORT", port.as_str())];
        json_of(&machine.gateway(&[&["install", "--json"], args].concat(), &env).await)
    };
    let other = format!("{bin}:/opt/other");
    // A service has another working directory.
    let told = install(&format!("/opt/a b%:bin:.:{bin}"), &[]).await;
    assert_eq!(told["result"], "installed", "{told}");
    let text = fs::read_to_string(machine.unit()).unwrap();
    let line = format!("Environment=\"PATH=/opt/a b%%:{bin}\"");
    assert!(text.lines().any(|known| known == line), "{line} in {text}");
    assert_eq!(complaints(machine.root.path(), &machine.unit()), "", "{text}");
    let told = install(&other, &[]).await;
    assert_eq!(told["result"], "already-installed", "{told}");
    assert_eq!(fs::read_to_string(machine.unit()).unwrap(), text);
    assert_eq!(install(&other, &["--force"]).await["result"], "installed");
    let text = fs::read_to_string(machine.unit()).unwrap();
    assert!(text.lines().any(|line| line == format!("Environment=PATH={other}")), "{text}");
}

#[tokio::test]
async fn doctor_looks_for_programs_where_the_service_does() {
    let machine = Machine::new();
    let (bin, tools) = (machine.bin.display().to_string(), machine.root.path().join("tools"));
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("rg"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(tools.join("rg"), fs::Permissions::from_mode(0o755)).unwrap();
    let doctor = async || {
        let mut command = Command::new(program());
        command.args(["doctor", "--non-interactive"]).env_clear().env("HOME", machine.home());
        let output = command.env("PATH", &bin).kill_on_drop(true).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor().await;
    assert!(text.contains("rg is not in PATH  [machine.program]"), "{text}");
    let (path, port) = (format!("{bin}:{}", tools.display()), free_port().to_string());
    let env = [("PATH", path.as_str()), ("OPENCLAW_GATEWAY_PORT", port.as_str())];
    out(&machine.gateway(&["install"], &env).await);
    let text = doctor().await;
    assert!(text.contains("✓ rg is installed\n"), "{text}");
    assert!(text.contains("git is not in PATH of the service"), "{text}");
}

#[tokio::test]
async fn a_service_that_would_not_start_is_not_installed() {
    let machine = Machine::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let refused = err(&machine.gateway(&["install", "--port", &port], &[]).await);
    assert!(refused.contains(&format!("another program listens at {address}")), "{refused}");
    assert!(refused.contains(&format!("lsof -nP -iTCP:{port} ")), "{refused}");
    assert!(!machine.unit().exists());
    drop(taken);
    let state = machine.home().join(".openclaw");
    fs::create_dir_all(&state).unwrap();
    let config = state.join("openclaw.json");
    let remote = json!({"mode": "remote", "port": address.port(),
        "remote": {"url": "wss://gateway.example"}});
    fs::write(&config, json!({"gateway": remote}).to_string()).unwrap();
    let refused = err(&machine.gateway(&["install"], &[]).await);
    assert!(refused.contains(&format!("gateway.mode is remote in {}", config.display())));
    assert!(!machine.unit().exists());
    let calls = machine.calls();
    assert!(!calls.iter().any(|call| call.contains("enable")), "{calls:?}");
    fs::write(&config, json!({"gateway": {"port": address.port()}}).to_string()).unwrap();
    out(&machine.gateway(&["install"], &[]).await);
}

#[tokio::test]
async fn a_variable_that_nobody_has_is_told_when_the_service_is_installed() {
    let machine = Machine::new();
    let state = machine.home().join(".openclaw");
    fs::create_dir_all(&state).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${NOBODY_HAS_THIS}",
        "api": "openai-completions", "models": [{"id": "m"}]});
    let config = json!({"gateway": {"port": taken.local_addr().unwrap().port()},
        "models": {"providers": {"p": provider}},
        "agents": {"list": [{"id": "main", "workspace": "/${NOR_THIS}/main"}]}});
    fs::write(state.join("openclaw.json"), config.to_string()).unwrap();
    // The rest of the config is looked at all the same.
    let refused = err(&machine.gateway(&["install"], &[]).await);
    assert!(refused.contains("another program listens at"), "{refused}");
    drop(taken);
    let told = out(&machine.gateway(&["install"], &[]).await);
    let file = machine.home().join(".config/clawgate.env");
    let advice = "does not get NOBODY_HAS_THIS, NOR_THIS, which this terminal has or the config";
    assert!(told.contains(advice) && told.contains(file.to_str().unwrap()), "{told}");
    let unit = fs::read_to_string(machine.unit()).unwrap();
    assert!(!unit.contains("not-in-this-environment"), "no folder is made up: {unit}");
    fs::write(&file, "NOBODY_HAS_THIS=canary\n").unwrap();
    // What is in the file is not missing, whether this terminal has it or not.
    for env in [&[("NOBODY_HAS_THIS", "canary")][..], &[]] {
        let again = json_of(&machine.gateway(&["install", "--json"], env).await);
        assert_eq!(again["service"]["missingVariables"], json!(["NOR_THIS"]), "{again}");
        assert_eq!(again["service"]["missingFolders"], json!([]), "{again}");
    }
}

#[tokio::test]
async fn where_nobody_runs_services_it_is_said_what_to_do_and_nothing_is_written() {
    let machine = Machine::new();
    let program = machine.bin.join("systemctl");
    fs::write(&program, "#!/bin/sh\necho 'Failed to connect to bus: No medium' >&2\nexit 1\n")
        .unwrap();
    let no_bus = err(&machine.gateway(&["install"], &[]).await);
    assert!(no_bus.contains("Failed to connect to bus: No medium"), "{no_bus}");
    fs::remove_file(program).unwrap();
    let none = machine.gateway(&["install", "--json"], &[]).await;
    assert_eq!(json_of(&none)["ok"], false);
    let none = err(&none);
    for text in [&no_bus, &none] {
        assert!(text.contains("clawgate gateway run") && text.contains("docs/deploy.md"), "{text}");
    }
    assert!(!machine.unit().exists());
    for args in [["start"], ["restart"]] {
        let refused = err(&machine.gateway(&args, &[]).await);
        assert!(refused.contains("clawgate gateway install"), "{refused}");
    }
}

/// Runs a command about this gateway, with a `systemctl` of its root.
async fn about(gateway: &Gateway, args: &[&str]) -> Output {
    command(gateway, &[&["gateway"], args].concat())
        .env("PATH", gateway.root().join("bin"))
        .env("TMPDIR", gateway.root().join("tmp"))
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_gateway_that_runs_by_hand_is_shown_restarted_and_stopped() {
    let mut stage = Stage::new(Api::OpenAi).await;
    let gateway = &stage.gateway;
    fake_systemctl(gateway.root());
    let pid = gateway.pid().unwrap();
    let status = json_of(&about(gateway, &["status", "--json"]).await);
    assert_eq!(status["gateway"]["pid"], json!(pid), "{status}");
    assert_eq!(status["gateway"]["address"], json!(gateway.address()));
    assert_eq!(
        (&status["rpc"]["ok"], &status["service"]["installed"]),
        (&json!(true), &json!(false))
    );
    let log = PathBuf::from(status["logs"]["file"].as_str().unwrap());
    assert!(log.starts_with(gateway.state_dir()), "{log:?}");
    let shown = out(&about(gateway, &["status"]).await);
    assert!(
        shown.contains(&format!("Runtime: running (pid {pid}, not as the service)\n")),
        "{shown}"
    );
    assert!(
        shown.contains("Service: systemd (not installed)\n") && shown.contains("RPC probe: ok")
    );
    let health = json_of(&about(gateway, &["health", "--json"]).await);
    assert_eq!(health["ok"], true);
    let called = json_of(&about(gateway, &["call", "health", "--json"]).await);
    assert_eq!(called["ok"], true);

    let refused = err(&about(gateway, &["install"]).await);
    assert!(
        refused.contains(&format!("pid {pid}")) && refused.contains("gateway stop"),
        "{refused}"
    );

    let told = out(&about(gateway, &["restart"]).await);
    assert_eq!(told, format!("Restarted the gateway (pid {pid})\n"));
    let is_again = || gateway.stdout().matches("is ready").count() == 2;
    until("it says that it is ready again", async || is_again().then_some(())).await;
    assert_eq!(
        out(&about(gateway, &["start"]).await),
        format!("A gateway runs already (pid {pid})\n")
    );

    let told = json_of(&about(gateway, &["stop", "--json"]).await);
    assert_eq!((&told["result"], &told["pid"]), (&json!("stopped"), &json!(pid)));
    assert!(stage.gateway.wait_exit(STOP_LIMIT).await.unwrap().success());
    let gateway = &stage.gateway;
    let told = json_of(&about(gateway, &["stop", "--json"]).await);
    assert_eq!((&told["ok"], &told["result"]), (&json!(true), &json!("not-running")));
    let status = about(gateway, &["status", "--require-rpc"]).await;
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    let shown = String::from_utf8_lossy(&status.stdout);
    assert!(shown.contains("Runtime: stopped\n") && shown.contains("RPC probe: failed"), "{shown}");
    let no_call = fs::read_to_string(gateway.root().join("calls")).unwrap_or_default();
    assert!(!no_call.contains("stop") && !no_call.contains("restart"), "{no_call}");
}

#[tokio::test]
async fn a_gateway_that_is_to_run_by_force_stops_the_one_before_it() {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    let mut gateway = Gateway::start(options).await;
    let root = gateway.root().to_owned();
    fake_systemctl(&root);
    let password = root.join("password");
    fs::write(&password, "of a file, and long enough\n").unwrap();
    let port = free_port().to_string();
    let file = password.display().to_string();
    let run = ["gateway", "run", "--force", "--port", &port, "--ws-log", "compact"];
    let by_file = ["--auth", "password", "--password-file", &file];
    let absent = about(&gateway, &["run", "--password-file", "/no/such/file"]).await;
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");

    let mut start = command(&gateway, &[&run[..], &by_file].concat());
    start.env("PATH", root.join("bin")).env("TMPDIR", root.join("tmp"));
    let mut next = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = i64::from(next.id().unwrap());
    assert!(gateway.wait_exit(STOP_LIMIT).await.unwrap().success());
    until("the next one listens", async || {
        let status = json_of(&about(&gateway, &["status", "--no-probe", "--json"]).await);
        (status["gateway"]["pid"] == pid && status["gateway"]["running"] == true).then_some(())
    })
    .await;
    let url = format!("ws://127.0.0.1:{port}");
    let known = ["health", "--url", &url, "--password", "of a file, and long enough"];
    let health = json_of(&about(&gateway, &[&known[..], &["--json"]].concat()).await);
    assert!(health["services"].is_object(), "{health}");
    next.kill().await.unwrap();
}

#[tokio::test]
async fn a_restart_after_which_the_gateway_has_a_new_certificate_has_succeeded() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["reload"] = json!({"mode": "off"});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    fake_systemctl(gateway.root());
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["gateway"]["tls"] = json!({"enabled": true});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    let told = out(&about(&gateway, &["restart"]).await);
    assert!(told.starts_with("Restarted the gateway"), "{told}");
    let status = json_of(&about(&gateway, &["status", "--json"]).await);
    assert_eq!((&status["gateway"]["tls"], &status["rpc"]["ok"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn a_restart_that_is_given_up_ends_at_once_with_the_reason() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    fake_systemctl(gateway.root());
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["tools"] = json!({"allow": 7});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    // The second one is not taken in by what the first was told.
    for _ in 0..2 {
        let refused = err(&about(&gateway, &["restart"]).await);
        let pid = gateway.pid().unwrap();
        let told = format!("the gateway (pid {pid}) does not begin again: tools.allow: must be");
        assert!(refused.contains(&told), "{refused}");
        assert!(refused.ends_with("Put that right, then: clawgate gateway restart\n"), "{refused}");
    }
    assert_eq!(gateway.stdout().matches("is ready").count(), 1);
    fs::write(gateway.config_path(), text).unwrap();
    let told = out(&about(&gateway, &["restart"]).await);
    assert!(told.starts_with("Restarted the gateway"), "{told}");
}

#[tokio::test]
async fn what_runs_as_the_service_is_left_to_who_runs_services() {
    let stage = Stage::new(Api::OpenAi).await;
    let gateway = &stage.gateway;
    fake_systemctl(gateway.root());
    let unit = gateway.home().join(".config/systemd/user/clawgate.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    let state = gateway.state_dir();
    fs::write(&unit, format!("[Service]\nEnvironment=OPENCLAW_STATE_DIR={}\n", state.display()))
        .unwrap();
    let pid = gateway.pid().unwrap();
    let shown =
        format!("MainPID={pid}\nActiveState=active\nSubState=running\nUnitFileState=enabled\n");
    fs::write(gateway.root().join("shown"), shown).unwrap();

    let status = out(&about(gateway, &["status"]).await);
    assert!(status.contains("Service: systemd (enabled)\n"), "{status}");
    assert!(
        status.contains(&format!("Runtime: running (pid {pid}, active (running))\n")),
        "{status}"
    );
    for action in ["restart", "stop"] {
        out(&about(gateway, &[action]).await);
        let calls = fs::read_to_string(gateway.root().join("calls")).unwrap();
        let last = calls.lines().last().unwrap();
        assert_eq!(last, format!("systemctl --user {action} clawgate.service"));
    }
    // It got no signal itself.
    let status = json_of(&about(gateway, &["status", "--json"]).await);
    assert_eq!((&status["gateway"]["pid"], &status["rpc"]["ok"]), (&json!(pid), &json!(true)));
    assert_eq!(gateway.stdout().matches("is ready").count(), 1);
}

#[tokio::test]
async fn the_log_of_a_service_is_read_where_no_gateway_runs() {
    let machine = Machine::new();
    let logs = machine.home().join(".openclaw/logs");
    fs::create_dir_all(&logs).unwrap();
    let line = json!({"0": r#"{"subsystem":"gateway"}"#, "1": "said by the service",
        "_meta": {"logLevelName": "INFO"}, "time": "2026-01-01T00:00:00.000+00:00"});
    let mut bad = line.clone();
    (bad["1"], bad["_meta"]["logLevelName"]) = (json!("it failed"), json!("ERROR"));
    // More than one answer of a gateway has.
    let text = format!("{bad}\n{}", format!("{line}\n").repeat(20_000));
    assert!(text.len() > 2_000_000);
    fs::write(logs.join("openclaw-2026-01-01.log"), text).unwrap();
    for (args, expected) in
        [(&["logs"][..], "said by the service"), (&["logs", "--level", "error"], "it failed")]
    {
        let output = Command::new(program())
            .args(args)
            .env_clear()
            .env("HOME", machine.home())
            .env("TMPDIR", machine.root.path().join("tmp"))
            .env("OPENCLAW_GATEWAY_PORT", "1")
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        assert!(out(&output).contains(expected), "{output:?}");
    }
}
