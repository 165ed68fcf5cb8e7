//! The real binary: first start, refusals, one instance per state directory.

#[path = "support/tested.rs"]
mod tested;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use tested::program;

/// A fresh user: a home and nothing in the environment.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.home.path().join(".openclaw")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env_clear().env("HOME", self.home.path());
        // The log file is in the place of temporary files.
        command.env("TMPDIR", self.home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must fail with exit code 1 and one error on stderr.
    fn refusal(&self, args: &[&str]) -> String {
        refusal(&self.output(args))
    }

    fn start(&self, args: &[&str]) -> Gateway {
        Gateway::wait_for(self.command(args).spawn().unwrap())
    }
}

fn refusal(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}

/// A gateway that has said it is ready; killed when the test is over.
struct Gateway {
    child: Child,
    text: String,
}

impl Gateway {
    /// Reads the start-up text up to its last line; the pipe closes when the
    /// process dies, so this ends either way.
    fn wait_for(mut child: Child) -> Self {
        let mut text = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            text.push_str(&line);
            text.push('\n');
            if line.starts_with("  Next ") {
                return Self { child, text };
            }
        }
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("the gateway did not start: {text}{error}");
    }

    fn address(&self) -> &str {
        let (_, rest) = self.text.split_once("ws://").unwrap();
        rest.split_whitespace().next().unwrap()
    }

    /// `kill -9`, and wait until it is gone.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_first_start_creates_private_state_and_tells_what_to_do_but_no_secret() {
    let user = User::new();
    let gateway = user.start(&["--port", "0"]);
    TcpStream::connect(gateway.address()).unwrap();
    assert_eq!(mode(&user.state()), 0o700);
    assert_eq!(mode(&user.state().join("gateway-token")), 0o600);
    assert_eq!(mode(&user.state().join("clawgate.lock")), 0o600);
    assert!(!user.state().join("openclaw.json").exists());
    for part in [
        "http://127.0.0.1:",
        "`clawgate token`",
        "Model ",
        user.state().to_str().unwrap(),
        "openclaw.json",
        "clawgate chat \"hi\"",
        "clawgate dashboard",
    ] {
        assert!(gateway.text.contains(part), "{part} is not in:\n{}", gateway.text);
    }
    assert!(gateway.text.lines().count() < 10, "{}", gateway.text);
    let token = fs::read_to_string(user.state().join("gateway-token")).unwrap();
    assert!(!gateway.text.contains(token.trim()));
    let printed = user.output(&["token"]);
    assert!(printed.status.success());
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), token);
}

#[test]
fn flags_variables_and_the_gateway_command_choose_address_and_places() {
    let user = User::new();
    let state = user.home.path().join("elsewhere");
    let child = user
        .command(&["gateway", "--bind", "127.0.0.2"])
        .env("OPENCLAW_STATE_DIR", &state)
        .env("OPENCLAW_CONFIG_PATH", user.home.path().join("my.json5"))
        .env("OPENCLAW_GATEWAY_PORT", "0")
        .env("OPENCLAW_GATEWAY_TOKEN", "canary-1234")
        .spawn()
        .unwrap();
    let gateway = Gateway::wait_for(child);
    assert!(gateway.address().starts_with("127.0.0.2:"), "{}", gateway.text);
    assert!(gateway.text.contains("from OPENCLAW_GATEWAY_TOKEN"), "{}", gateway.text);
    assert!(gateway.text.contains("my.json5"), "{}", gateway.text);
    assert!(!gateway.text.contains("canary-1234"), "{}", gateway.text);
    assert!(state.join("clawgate.lock").exists());
    assert!(!state.join("gateway-token").exists());
    assert!(!user.state().exists());
}

#[test]
fn commands_on_the_same_machine_find_the_gateway_wherever_it_listens() {
    let user = User::new();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::create_dir(user.state()).unwrap();
    let config = format!("{{gateway: {{port: {}}}}}", unused.port());
    fs::write(user.state().join("openclaw.json"), config).unwrap();
    for bind in ["loopback", "lan", "127.0.0.2"] {
        let _gateway = user.start(&["--port", "0", "--bind", bind]);
        let output = user.output(&["chat", "hi"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{bind}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.starts_with("You said: hi"), "{bind}: {text}");
    }
    let refused = user.refusal(&["health"]);
    assert!(refused.contains(&format!("no gateway answers at ws://{unused}")), "{refused}");
}

/// A user whose configuration has this `gateway.auth`, with secrets in a file
/// and behind a program.
fn with_secrets(auth: &serde_json::Value) -> User {
    let user = User::new();
    fs::create_dir(user.state()).unwrap();
    let private = |name: &str, text: &str| {
        let path = user.state().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    let file = private("secrets.json", r#"{"gateway": "s3cret-of-file", "empty": ""}"#);
    let answer = r#"{"protocolVersion":1,"values":{"gw":"s3cret-of-program"}}"#;
    let program = private("vault", &format!("#!/bin/sh\nread line\necho '{answer}'\n"));
    let config = serde_json::json!({
        "gateway": {"auth": auth},
        "secrets": {"providers": {
            "keys": {"source": "file", "path": file}, "vault": {"source": "exec", "command": program},
        }},
    });
    fs::write(user.state().join("openclaw.json"), config.to_string()).unwrap();
    user
}

#[test]
fn the_gateways_own_secret_may_be_in_a_file_or_behind_a_program() {
    let in_file = serde_json::json!({"source": "file", "provider": "keys", "id": "/gateway"});
    let program = serde_json::json!({"source": "exec", "provider": "vault", "id": "gw"});
    for (auth, secret) in [
        (serde_json::json!({"token": in_file}), "s3cret-of-file"),
        (serde_json::json!({"token": program}), "s3cret-of-program"),
        (serde_json::json!({"password": program}), "s3cret-of-program"),
    ] {
        let user = with_secrets(&auth);
        let gateway = user.start(&["--port", "0"]);
        let output = user.output(&["chat", "hi"]);
        assert!(output.status.success(), "{auth}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!user.state().join("gateway-token").exists());
        if auth.get("token").is_some() {
            let token = user.output(&["token"]).stdout;
            assert_eq!(String::from_utf8(token).unwrap(), format!("{secret}\n"));
        }
        let explained = String::from_utf8(user.output(&["config", "explain"]).stdout).unwrap();
        assert!(!explained.contains("s3cret") && !gateway.text.contains("s3cret"));
        // Whoever brings another one is not let in.
        let flag = if auth.get("token").is_some() { "--token" } else { "--password" };
        let other = user.output(&["health", flag, "other"]);
        assert!(!other.status.success(), "{auth}");
    }
}

#[test]
fn a_secret_of_the_gateway_that_is_nowhere_stops_the_start_with_its_key() {
    let at = |id: &str| serde_json::json!({"source": "file", "provider": "keys", "id": id});
    for (auth, text) in [
        (
            serde_json::json!({"token": at("/nope")}),
            "gateway.auth.token: secrets.providers.keys has no secret /nope",
        ),
        (
            serde_json::json!({"mode": "password", "password": at("/empty")}),
            "gateway.auth.password: secrets.providers.keys has no secret /empty",
        ),
        (
            serde_json::json!({"token": {"source": "vault", "id": "x"}}),
            "gateway.auth.token: source must be one of env, file, exec",
        ),
        (
            serde_json::json!({"token": {"source": "file", "id": 31337}}),
            "gateway.auth.token: invalid type: integer, expected a string",
        ),
        (
            serde_json::json!({"token": {"source": "env", "provider": "none", "id": "X"}}),
            "gateway.auth.token: secrets.providers.none: there is no such provider",
        ),
    ] {
        let user = with_secrets(&auth);
        let refused = user.refusal(&["--port", "0", "--strict"]);
        assert!(refused.contains(text), "{refused}");
        assert_eq!(user.refusal(&["config", "validate"]), refused);
    }
}

#[test]
fn a_secret_that_the_mode_does_not_ask_for_is_not_looked_up() {
    let nowhere = serde_json::json!({"source": "file", "provider": "keys", "id": "/nope"});
    let auth = serde_json::json!({"mode": "password", "password": "s3cret", "token": nowhere});
    let user = with_secrets(&auth);
    let _gateway = user.start(&["--port", "0"]);
    let output = user.output(&["chat", "hi"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_second_gateway_is_refused_until_the_first_one_is_killed() {
    let user = User::new();
    let mut first = user.start(&["--port", "0"]);
    let refusal = user.refusal(&["--port", "0"]);
    assert!(refusal.contains(&format!("pid {}", first.child.id())), "{refusal}");
    assert!(refusal.contains(user.state().to_str().unwrap()), "{refusal}");
    first.kill();
    user.start(&["--port", "0"]);
}

#[test]
fn a_port_in_use_is_said_with_the_way_out() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let user = User::new();
    let refusal = user.refusal(&["--port", &port]);
    for part in [&format!("127.0.0.1:{port}"), "in use", "--port", "OPENCLAW_GATEWAY_PORT", "lsof"]
    {
        assert!(refusal.contains(part), "{part} is not in: {refusal}");
    }
}

#[test]
fn what_is_no_database_is_told_once_and_with_what_to_do() {
    let user = User::new();
    let database = user.state().join("clawgate.sqlite");
    fs::create_dir(user.state()).unwrap();
    fs::write(&database, "this is a text file\n".repeat(100)).unwrap();
    let error = user.refusal(&["--port", "0"]);
    let told = format!(
        "database {}: file is not a database; `clawgate doctor` says what to do\n",
        database.display()
    );
    assert!(error.contains(&told) && !error.contains("because:"), "{error}");
}

#[test]
fn an_open_gateway_without_authentication_is_refused() {
    let user = User::new();
    let refusal = user.refusal(&["--port", "0", "--bind", "lan", "--auth", "none"]);
    assert!(refusal.contains("refusing to listen on 0.0.0.0"), "{refusal}");
}

#[test]
fn a_word_that_is_no_level_is_told_of() {
    let user = User::new();
    let mut command = user.command(&["--port", "0", "--bind", "lan", "--auth", "none"]);
    let told = refusal(&command.env("OPENCLAW_LOG_LEVEL", "loud").output().unwrap());
    let note = "OPENCLAW_LOG_LEVEL is no level and has no effect: \"loud\"";
    assert!(told.starts_with(note), "{told}");
}

#[test]
fn a_broken_config_file_stops_a_strict_start_and_stays_as_it_is() {
    let user = User::new();
    fs::create_dir(user.state()).unwrap();
    let path = user.state().join("openclaw.json");
    fs::write(&path, "{gateway: {port: 1,, }}").unwrap();
    let refused = user.refusal(&["--port", "0", "--strict"]);
    assert!(refused.contains("openclaw.json:1:"), "{refused}");
    let validated = user.refusal(&["config", "validate"]);
    assert_eq!(validated, refused);
    let json = user.output(&["config", "validate", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["valid"], false);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{gateway: {port: 1,, }}");
    assert_eq!(fs::read_dir(user.state()).unwrap().count(), 1);
}

#[test]
fn what_validate_accepts_is_what_the_gateway_starts_with() {
    let user = User::new();
    fs::create_dir(user.state()).unwrap();
    for (config, fault) in [
        ("{gateway: {port: 99999}}", "gateway.port"),
        ("{models: {providers: {p: {baseUrl: 'http://h', api: 'x', models: [{id: 'm'}]}}}}", "api"),
    ] {
        fs::write(user.state().join("openclaw.json"), config).unwrap();
        let refused = user.refusal(&["config", "validate"]);
        assert!(refused.contains(fault), "{config}: {refused}");
        assert_eq!(user.refusal(&["--port", "0", "--strict"]), refused);
    }
}

#[test]
fn a_model_that_there_is_not_is_a_warning_and_the_gateway_starts() {
    for (config, path) in [
        ("{agents: {defaults: {model: 'no/such'}}}", "agents.defaults.model"),
        ("{agents: {list: [{id: 'a', model: 'no/such'}]}}", "agents.list[0].model"),
    ] {
        let user = User::new();
        fs::create_dir(user.state()).unwrap();
        fs::write(user.state().join("openclaw.json"), config).unwrap();
        let validated = user.output(&["config", "validate"]);
        let told = String::from_utf8(validated.stderr).unwrap();
        let warning = format!("warning: {path} there is no model \"no/such\"");
        assert!(validated.status.success() && told.contains(&warning), "{told}");
        user.start(&["--port", "0", "--strict"]);
    }
    // Nobody begins such a value.
    let begun = User::new().refusal(&["config", "set", "agents.defaults.model", "no/such"]);
    assert!(begun.contains("there is no model \"no/such\""), "{begun}");
}

#[test]
fn a_clients_config_runs_no_gateway_unless_told_to() {
    let user = User::new();
    fs::create_dir(user.state()).unwrap();
    fs::write(user.state().join("openclaw.json"), "{gateway: {mode: 'remote'}}").unwrap();
    let refusal = user.refusal(&["--port", "0"]);
    assert!(refusal.contains("--allow-unconfigured"), "{refusal}");
    user.start(&["--port", "0", "--allow-unconfigured"]);
}

#[test]
fn a_usage_error_exits_with_2() {
    let output = User::new().output(&["--port", "many"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn config_explain_shows_value_and_origin_and_no_secret_and_writes_nothing() {
    let user = User::new();
    let output = user
        .command(&["config", "explain", "--bind", "127.0.0.3"])
        .env("OPENCLAW_GATEWAY_PORT", "7")
        .env("OPENCLAW_GATEWAY_TOKEN", "canary-1234")
        .output()
        .unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let columns = |key: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect()
    };
    let env = "environment OPENCLAW_GATEWAY_PORT";
    assert_eq!(columns("gateway.port"), ["gateway.port", "7", env]);
    assert_eq!(columns("gateway.bind"), ["gateway.bind", "127.0.0.3", "flag --bind"]);
    assert_eq!(columns("session.mainKey"), ["session.mainKey", "main", "default"]);
    assert!(!table.contains("canary-1234"), "{table}");
    let one = user.output(&["config", "explain", "gateway.port", "--json"]);
    let lines: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    let port = serde_json::json!({"key": "gateway.port", "value": "18789", "origin": "default"});
    assert_eq!(lines, serde_json::json!([port]));
    assert!(user.refusal(&["config", "explain", "nothing"]).contains("there is no key nothing"));
    let path = user.output(&["config", "path"]);
    assert_eq!(
        String::from_utf8(path.stdout).unwrap().trim(),
        user.state().join("openclaw.json").to_str().unwrap()
    );
    assert!(!user.state().exists());
}
