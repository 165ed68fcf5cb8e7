//! `clawgate doctor` and `clawgate security audit` through the real binary:
//! what is open or broken is found, named and, where that is safe, closed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Api, admin, ask, scripted, until};
use crate::support::{Gateway, GatewayOptions, default_config, program};

/// A home with a state directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(TempDir::with_prefix("clawgate-doctor-").unwrap());
        fs::create_dir_all(home.state()).unwrap();
        fs::set_permissions(home.state(), Permissions::from_mode(0o700)).unwrap();
        home
    }

    fn state(&self) -> PathBuf {
        self.0.path().join(".openclaw")
    }

    fn write(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.state().join(name);
        for folder in path.parent().unwrap().ancestors().take_while(|it| *it != self.state()) {
            fs::create_dir_all(folder).unwrap();
            fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Exit code and JSON.
    fn run(&self, line: &str) -> (i32, Value) {
        run(line, self.0.path(), &self.state())
    }
}

fn run(line: &str, home: &Path, state: &Path) -> (i32, Value) {
    let output = Command::new(program())
        .args(line.split(' '))
        .arg("--json")
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("OPENCLAW_STATE_DIR", state)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), report)
}

/// The findings with this id.
fn findings<'a>(report: &'a Value, id: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    all.iter().filter(|finding| finding["checkId"] == id).collect()
}

#[track_caller]
fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    findings(report, id).first().copied().unwrap_or_else(|| panic!("no {id} in {report:#}"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn open_files_are_found_and_closed_when_that_is_asked_for() {
    for line in ["doctor", "security audit"] {
        let home = Home::new();
        let secrets = [
            home.write("openclaw.json", 0o644, "{}"),
            home.write("openclaw.json.bak", 0o640, "{}"),
            home.write("gateway-token", 0o604, "x"),
            home.write(".env", 0o644, "A=1\n"),
            home.write("agents/main/agent/auth-profiles.json", 0o644, "{}"),
        ];
        let transcript = home.write("agents/main/sessions/a.jsonl", 0o644, "{}\n");
        let writable = home.write("clawgate.lock", 0o666, "");
        let skill = home.write("skills/a/SKILL.md", 0o644, "---\n---\n");
        let (code, report) = home.run(line);
        assert_eq!((code, &report["ok"]), (1, &json!(false)), "{report:#}");
        let title = finding(&report, "fs.secrets.readable")["title"].as_str().unwrap().to_owned();
        for path in &secrets {
            assert!(title.contains(path.to_str().unwrap()), "{title}");
        }
        assert_eq!(finding(&report, "fs.state.readable")["severity"], "warn");
        let open = finding(&report, "fs.state.writable");
        assert_eq!((&open["severity"], &open["fixable"]), (&json!("critical"), &json!(true)));
        assert_eq!(mode(&secrets[0]), 0o644, "nothing is changed unasked");
        let (_, report) = home.run(&format!("{line} --fix"));
        assert_eq!(finding(&report, "fs.secrets.readable")["fixed"], true);
        let closed = secrets.iter().chain([&transcript, &writable]);
        assert!(closed.clone().all(|path| mode(path) == 0o600));
        assert_eq!(mode(&skill), 0o644, "skills are anybody's");
        let (_, report) = home.run(line);
        assert_eq!(finding(&report, "fs.state")["severity"], "ok");
    }
}

#[test]
fn a_certificate_with_which_no_gateway_starts_is_found() {
    let home = Home::new();
    let wrong = home.write("cert.pem", 0o600, "no certificate");
    let config = |tls: Value| json!({"gateway": {"tls": tls}}).to_string();
    let tls = json!({"enabled": true, "certPath": wrong, "keyPath": wrong});
    home.write("openclaw.json", 0o600, &config(tls));
    let (code, report) = home.run("doctor");
    let found = finding(&report, "gateway.tls");
    assert_eq!((code, &found["severity"]), (1, &json!("critical")), "{report:#}");
    let title = found["title"].as_str().unwrap();
    assert!(title.contains("there is no certificate in") && title.contains("cert.pem"), "{title}");
    home.write("openclaw.json", 0o600, &config(json!({"enabled": true})));
    let (_, report) = home.run("doctor");
    assert_eq!(finding(&report, "gateway.tls")["severity"], "ok");
    home.write("openclaw.json", 0o600, "{}");
    assert!(findings(&home.run("doctor").1, "gateway.tls").is_empty());
}

#[test]
fn what_is_broken_is_named_with_the_way_to_mend_it() {
    let home = Home::new();
    home.write("clawgate.sqlite", 0o600, "this is no database, however long it may be");
    home.write("agents/main/sessions/a.jsonl", 0o600, "{\"type\":\"session\"}\n{\"torn");
    home.write("agents/main/sessions/b.jsonl", 0o600, "{}\n");
    let (code, report) = home.run("doctor");
    assert_eq!(code, 1);
    let damaged = finding(&report, "store.database");
    assert_eq!(damaged["severity"], "critical");
    assert!(damaged["remediation"].as_str().unwrap().contains("clawgate.sqlite"), "{damaged}");
    let torn = finding(&report, "sessions.damaged");
    assert!(torn["title"].as_str().unwrap().starts_with("1 transcripts"), "{torn}");
    assert_eq!(finding(&report, "models.none")["severity"], "warn");
    home.write("openclaw.json", 0o600, "{\n  gateway: {port: 70000},\n}");
    let (code, report) = home.run("doctor");
    let invalid = finding(&report, "config.invalid");
    assert!(invalid["title"].as_str().unwrap().contains("gateway.port"), "{invalid}");
    let waits = "the gateway waits, and serves nothing else, until it is mended";
    assert!(invalid["detail"].as_str().unwrap().contains(waits), "{invalid}");
    assert_eq!(code, 1);
}

#[test]
fn values_that_are_not_built_in_and_a_broken_file_of_variables_are_told() {
    let home = Home::new();
    let config = json!({
        "tools": {"web": {"search": {"provider": "perplexity"}}},
        "gateway": {"prot": 1},
    });
    home.write("openclaw.json", 0o600, &config.to_string());
    home.write(".env", 0o600, "A=1\nno-line secret-of-a-line\n");
    let (_, report) = home.run("doctor");
    let foreign = finding(&report, "config.foreign");
    let title = foreign["title"].as_str().unwrap();
    assert!(title.starts_with("tools.web.search.provider: \"perplexity\" is not"), "{foreign}");
    assert_eq!(foreign["severity"], "warn");
    let unknown = finding(&report, "config.unknown")["title"].as_str().unwrap();
    assert!(unknown.ends_with(": gateway.prot"), "{unknown}");
    let broken = finding(&report, "config.dotenv");
    assert!(broken["title"].as_str().unwrap().ends_with("line 2 is not NAME=value"), "{broken}");
    assert!(!report.to_string().contains("secret-of-a-line"), "{report}");
}

#[test]
fn a_rule_for_no_tool_and_a_number_beyond_its_bounds_are_told() {
    let home = Home::new();
    let config = json!({
        "tools": {"deny": ["exce", "exec"], "web": {"search": {"maxResults": 50}}},
        "agents": {"list": [{"id": "main", "tools": {"deny": ["group:runtme"]}}]},
    });
    home.write("openclaw.json", 0o600, &config.to_string());
    let (_, report) = home.run("doctor");
    let named = findings(&report, "config.tools");
    let titles: Vec<_> = named.iter().map(|finding| finding["title"].clone()).collect();
    let expected = [("tools.deny[0]", "exce"), ("agents.list[0].tools.deny[0]", "group:runtme")];
    let expected = expected.map(|(path, name)| {
        json!(format!("{path}: {name:?} is no tool and no group of tools: it has no effect"))
    });
    assert_eq!(titles, expected);
    assert!(named.iter().all(|finding| finding["severity"] == "warn"), "{report}");
    let bound = finding(&report, "config.bounds")["title"].as_str().unwrap();
    assert_eq!(bound, "tools.web.search.maxResults is more than 10, and counts as 10");
}

/// Restrictions of OpenClaw, and a key that is misspelt.
fn restricted() -> Value {
    json!({
        "session": {"sendPolicy": {"default": "deny"}},
        "tools": {"sandbox": {"tools": {"deny": ["exec"]}}},
        "gateway": {"prot": 1},
    })
}

#[test]
fn restrictions_that_nobody_keeps_to_are_told_with_what_comes_nearest() {
    let home = Home::new();
    home.write("openclaw.json", 0o600, &restricted().to_string());
    for line in ["doctor", "security audit"] {
        let (_, report) = home.run(line);
        let found = findings(&report, "config.unenforced");
        let titles: Vec<_> = found.iter().map(|finding| finding["title"].clone()).collect();
        let expected = ["session.sendPolicy", "tools.sandbox.tools"];
        let expected =
            expected.map(|path| json!(format!("{path}: this restriction is not enforced here")));
        assert_eq!(titles, expected, "{line}");
        for finding in found {
            assert_eq!(finding["severity"], "warn");
            let fix = finding["remediation"].as_str().unwrap();
            assert!(fix.starts_with("nearest: "), "{fix}");
        }
    }
}

#[tokio::test]
async fn a_start_names_the_keys_without_effect_in_one_line() {
    let mut config = default_config("127.0.0.1:9");
    for (section, members) in restricted().as_object().unwrap() {
        for (name, value) in members.as_object().unwrap() {
            config[section][name] = value.clone();
        }
    }
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let line = until("the line", async || {
        let log = gateway.stderr();
        let mut told = log.lines().filter(|line| line.contains("have no effect here"));
        let line = told.next().map(str::to_owned);
        assert_eq!(told.next(), None, "one line");
        line
    });
    let line = line.await;
    let keys = "session.sendPolicy, tools.sandbox.tools, gateway.prot, tools.sandbox, update";
    assert!(line.contains("WARN") && line.contains(keys), "{line}");
}

#[test]
fn a_reference_that_leads_nowhere_and_a_model_without_a_key_are_found() {
    let home = Home::new();
    let config = json!({
        "agents": {"defaults": {"model": "far/m"}},
        "models": {"mode": "replace", "providers": {"far": {"baseUrl": "https://models.invalid/v1",
            "api": "openai-completions", "models": [{"id": "m"}]}}},
        "skills": {"entries": {"s": {"apiKey": {"source": "env", "id": "NOWHERE"}}}},
    });
    home.write("openclaw.json", 0o600, &config.to_string());
    let (code, report) = home.run("doctor");
    let lost = finding(&report, "secrets.unresolved");
    assert_eq!(lost["severity"], "warn");
    assert!(lost["title"].as_str().unwrap().starts_with("skills.entries.s.apiKey: "), "{lost}");
    let keyless = finding(&report, "models.auth");
    assert_eq!(keyless["remediation"], "clawgate models auth add --provider far");
    assert_eq!(code, 1);
}

#[test]
fn every_model_that_there_is_not_is_found_and_is_worse_where_nothing_stands_in_for_it() {
    let home = Home::new();
    let config = json!({"agents": {
        "defaults": {"model": {"primary": "no/first", "fallbacks": ["offline/echo-guide"]}},
        "list": [{"id": "main"}, {"id": "a", "model": {"primary": "no/second", "fallbacks": []}}],
    }});
    home.write("openclaw.json", 0o600, &config.to_string());
    let (code, report) = home.run("doctor");
    let missing = findings(&report, "models.missing");
    let bad = |place: &str| {
        let title = |it: &&&Value| it["title"].as_str().unwrap().starts_with(place);
        missing.iter().find(title).unwrap()["severity"].clone()
    };
    assert_eq!((missing.len(), code), (2, 1));
    assert_eq!(bad("agents.defaults.model: "), "warn");
    assert_eq!(bad("agents.list[1].model: "), "critical");
}

#[tokio::test]
async fn a_gateway_that_runs_is_recognised_and_its_port_is_no_trouble() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    let look = |gateway: &Gateway| run("doctor", &gateway.home(), &gateway.state_dir()).1;
    let report = look(&gateway);
    let running = finding(&report, "gateway.running")["title"].as_str().unwrap();
    assert!(running.ends_with(&gateway.address()), "{running}");
    assert_eq!(finding(&report, "store.database")["severity"], "ok");
    assert_eq!(finding(&report, "sessions.transcripts")["title"], "1 transcripts can be read");
    // It goes on as before.
    ask(&mut client, "main", "hello again", "run-2").await;
}

#[test]
fn whether_a_page_may_connect_is_told_with_what_to_write() {
    let home = Home::new();
    let allowed =
        json!({"gateway": {"controlUi": {"allowedOrigins": ["https://chat.example.com"]}}});
    home.write("openclaw.json", 0o600, &allowed.to_string());
    for (url, severity, part) in [
        ("https://chat.example.com/x?y", "ok", "may connect"),
        ("https://evil.example.com", "critical", "may not connect"),
        ("http://localhost:5173", "info", "from the gateway's own machine"),
        ("nonsense", "warn", "is no address of a page"),
    ] {
        let (_, report) = home.run(&format!("doctor --url {url}"));
        let found = finding(&report, "gateway.page");
        assert_eq!(found["severity"], severity, "{found}");
        assert!(found["title"].as_str().unwrap().contains(part), "{found}");
        if severity == "critical" {
            let fix = found["remediation"].as_str().unwrap();
            assert!(fix.contains("\"https://evil.example.com\""), "{fix}");
        }
    }
}

#[test]
fn a_port_that_another_program_has_is_found() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    home.write("openclaw.json", 0o600, &json!({"gateway": {"port": port}}).to_string());
    let (_, report) = home.run("doctor");
    let found = finding(&report, "gateway.port");
    assert_eq!(found["severity"], "critical");
    assert!(found["remediation"].as_str().unwrap().contains(&format!("-iTCP:{port}")), "{found}");
}

#[test]
fn a_good_configuration_has_nothing_critical_and_says_so() {
    let home = Home::new();
    let config = json!({
        "gateway": {"auth": {"mode": "token", "token": "${GATE}"},
            "sharedSecretScopes": ["read"]},
        "tools": {"exec": {"security": "allowlist", "ask": "on-miss"}, "fs": {"workspaceOnly": true}},
    });
    home.write("openclaw.json", 0o600, &config.to_string());
    let output = Command::new(program())
        .args(["security", "audit"])
        .env_clear()
        .env("HOME", home.0.path())
        .env("OPENCLAW_STATE_DIR", home.state())
        .env("GATE", "0123456789abcdef0123456789abcdef")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("critical  "), "{text}");
    assert!(text.contains("\n0 critical, "), "{text}");
    assert!(!text.contains("0123456789abcdef"), "{text}");
}
