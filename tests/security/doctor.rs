//! `clawgate doctor` and `clawgate security audit` through the real binary:
//! what is open or broken is found, named and, where that is safe, closed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Api, admin, ask, call, scripted, until};
use crate::support::not_run::not_run;
use crate::support::pty::Pty;
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
    answer(&command(line, home, state).output().unwrap())
}

fn command(line: &str, home: &Path, state: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .args(line.split(' '))
        .arg("--json")
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("OPENCLAW_STATE_DIR", state);
    command
}

fn answer(output: &Output) -> (i32, Value) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
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
fn the_name_of_a_file_does_not_steer_the_terminal() {
    let home = Home::new();
    home.write("agents/main/sessions/x\u{1b}]0;title\u{7}y.jsonl", 0o600, "torn");
    let mut command = Command::new(program());
    command.arg("doctor").env_clear().env("HOME", home.0.path());
    command.env("OPENCLAW_STATE_DIR", home.state());
    let mut terminal = Pty::spawn(command);
    terminal.shows("x]0;titley.jsonl");
    terminal.shows("to know");
    terminal.ends();
    assert!(!terminal.all().contains('\u{1b}'), "{}", terminal.all());
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
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let cert = home.write("old.pem", 0o600, &params.self_signed(&pair).unwrap().pem());
    let key = home.write("key.pem", 0o600, &pair.serialize_pem());
    let tls = json!({"enabled": true, "certPath": cert, "keyPath": key});
    home.write("openclaw.json", 0o600, &config(tls));
    let (_, report) = home.run("doctor");
    let found = finding(&report, "gateway.tls");
    assert_eq!(found["severity"], "warn", "{report:#}");
    let title = found["title"].as_str().unwrap();
    assert!(title.contains("old.pem has expired: 2021-01-01T00:00:00Z"), "{title}");
    home.write("openclaw.json", 0o600, "{}");
    assert!(findings(&home.run("doctor").1, "gateway.tls").is_empty());
}

#[test]
fn of_a_client_the_gateway_elsewhere_is_told_and_no_port_of_here() {
    let home = Home::new();
    let look = |remote: Value| {
        let config = json!({"gateway": {"mode": "remote", "remote": remote}});
        home.write("openclaw.json", 0o600, &config.to_string());
        let (_, report) = home.run("doctor");
        assert!(findings(&report, "gateway.port").is_empty(), "{report:#}");
        finding(&report, "gateway.remote").clone()
    };
    let told = look(json!({"url": "wss://gw.example:1"}));
    assert_eq!(told["severity"], "ok");
    assert!(told["title"].as_str().unwrap().contains("wss://gw.example:1"), "{told}");
    assert_eq!(look(json!({}))["severity"], "critical");
    let open = look(json!({"url": "ws://10.1.1.1", "token": "remote-canary-1"}));
    assert_eq!(open["severity"], "critical");
    assert!(open["title"].as_str().unwrap().starts_with("SECURITY ERROR: "), "{open}");
    let (_, report) = home.run("doctor");
    assert!(!report.to_string().contains("remote-canary-1"), "{report}");
    // Where no model answers none is missing.
    assert!(findings(&report, "models.none").is_empty(), "{report:#}");
}

#[test]
fn files_of_an_agent_that_cannot_be_had_are_found() {
    let home = Home::new();
    let rules = home.write("workspace/AGENTS.md", 0o600, "Be brief.");
    home.write("openclaw.json", 0o600, "{}");
    assert!(findings(&home.run("doctor").1, "agents.files").is_empty());
    fs::remove_file(&rules).unwrap();
    symlink(home.state().join("openclaw.json"), &rules).unwrap();
    let (code, report) = home.run("doctor");
    let found = finding(&report, "agents.files");
    assert_eq!((code, &found["severity"]), (1, &json!("critical")));
    assert!(found["title"].as_str().unwrap().contains("AGENTS.md"), "{found}");
}

#[test]
fn a_reference_of_hooks_to_the_gateways_own_secret_is_found() {
    let home = Home::new();
    home.write(".env", 0o600, "HT=hooks-canary-0123456789abcdef\nOTHER=another-0123456789abcdef\n");
    let reference = |id: &str| json!({"source": "env", "provider": "default", "id": id});
    for (id, is_found) in [("HT", true), ("OTHER", false)] {
        let config = json!({
            "gateway": {"auth": {"mode": "token", "token": reference("HT")}},
            "hooks": {"enabled": true, "token": reference(id)},
        });
        home.write("openclaw.json", 0o600, &config.to_string());
        for line in ["doctor", "security audit"] {
            let (_, report) = home.run(line);
            let found = findings(&report, "hooks.token_reuse");
            assert_eq!(!found.is_empty(), is_found, "{line} {id}: {report:#}");
            assert!(found.iter().all(|finding| finding["severity"] == "critical"));
            assert!(!report.to_string().contains("hooks-canary"), "{report}");
        }
    }
}

#[test]
fn a_key_of_a_certificate_that_others_can_read_is_found_and_closed() {
    let home = Home::new();
    let pair = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| home.0.path().join(name));
    fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    let tls = json!({"enabled": true, "certPath": cert, "keyPath": key});
    home.write("openclaw.json", 0o600, &json!({"gateway": {"tls": tls}}).to_string());
    for line in ["doctor", "security audit"] {
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        let (code, report) = home.run(line);
        let found = finding(&report, "gateway.tls_key_open");
        assert_eq!((code, &found["severity"]), (1, &json!("critical")), "{line}");
        home.run(&format!("{line} --fix"));
        assert_eq!(mode(&key), 0o640, "a group may read it");
        assert!(findings(&home.run(line).1, "gateway.tls_key_open").is_empty());
    }
}

#[test]
fn origins_of_no_page_are_told() {
    let home = Home::new();
    let origins =
        ["gateway.example.com", "https://*.example.com", "https://ui.example/", "tauri://app", "*"];
    let config = json!({"gateway": {"controlUi": {"allowedOrigins": origins}}});
    home.write("openclaw.json", 0o600, &config.to_string());
    let expected = [0, 1].map(|index| format!("gateway.controlUi.allowedOrigins[{index}]"));
    let (_, report) = home.run("doctor");
    let found = findings(&report, "gateway.control_ui.allowed_origins_vain");
    let titles: Vec<_> = found.iter().map(|it| it["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), expected.len(), "{titles:?}");
    for (title, path) in titles.iter().zip(&expected) {
        assert!(title.starts_with(path.as_str()), "{title}");
    }
    let (_, checked) = home.run("config validate");
    let warnings = checked["warnings"].as_array().unwrap();
    let paths: Vec<_> = warnings.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, expected);
}

#[test]
fn of_a_reference_to_no_variable_nobody_hears_how_to_write_a_text() {
    let home = Home::new();
    let config = json!({"gateway": {"auth": {"token": {"source": "env", "id": "NOPE"}}}});
    home.write("openclaw.json", 0o600, &config.to_string());
    let (_, report) = home.run("doctor");
    let title = finding(&report, "config.invalid")["title"].as_str().unwrap();
    assert!(title.contains("NOPE is not set") && title.ends_with("; set it"), "{title}");
}

#[test]
fn a_key_whose_variable_is_not_set_is_told_with_both_names() {
    let home = Home::new();
    let config = json!({"skills": {"entries": {"s": {"apiKey": "${NOPE}"}}}});
    home.write("openclaw.json", 0o600, &config.to_string());
    let (_, report) = home.run("doctor");
    let title = finding(&report, "config.unset")["title"].as_str().unwrap();
    assert!(title.starts_with("skills.entries.s.apiKey needs"), "{title}");
    assert!(title.contains(" NOPE, which is not set"), "{title}");
}

#[test]
fn a_place_without_a_right_to_it_and_a_lock_of_somebody_else_are_found() {
    const NOBODY: u32 = 65534;
    if !geteuid().is_root() {
        return not_run("what doctor says of places of root: the tests do not run as root");
    }
    let home = TempDir::with_prefix("clawgate-doctor-").unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let state = home.path().join(".openclaw");
    let look = || {
        let mut command = command("doctor", home.path(), &state);
        command.uid(NOBODY).gid(NOBODY).output().ok().map(|output| answer(&output))
    };
    let Some((code, report)) = look() else {
        return not_run("what doctor says of places of root: others cannot run the program");
    };
    assert_eq!(code, 1);
    let title = finding(&report, "state.unusable")["title"].as_str().unwrap();
    assert!(title.contains("cannot be made in") && title.contains("(os error 13)"), "{title}");
    fs::create_dir(&state).unwrap();
    let lock = state.join("clawgate.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, Permissions::from_mode(0o600)).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    let (_, report) = look().unwrap();
    let found = finding(&report, "state.lock");
    assert_eq!(found["severity"], "critical");
    assert_eq!(found["remediation"], format!("sudo chown -R \"$(id -u)\" {}", lock.display()));
}

#[test]
fn a_workspace_is_told_that_is_none_and_a_key_that_nobody_tried() {
    let home = Home::new();
    let config = json!({
        "agents": {"defaults": {"workspace": "~", "model": "example/big"}},
        "models": {"providers": {"example": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k",
            "api": "openai-completions", "models": [{"id": "big"}]}}},
    });
    home.write("openclaw.json", 0o600, &config.to_string());
    home.write("exec-approvals.json", 0o644, "{}");
    let (_, report) = home.run("doctor");
    let title = |id: &str| finding(&report, id)["title"].as_str().unwrap().to_owned();
    let wrong = title("agents.workspace");
    assert!(wrong.starts_with("agents.defaults.workspace: "), "{wrong}");
    assert!(title("models.auth").contains("nobody was asked"), "{report:#}");
    let open = title("fs.state.readable");
    assert_eq!(open.matches("exec-approvals.json").count(), 1, "{open}");
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
    assert_eq!((code, &invalid["remediation"]), (1, &json!("mend the place that is named")));
    home.write("openclaw.json.bak", 0o600, "{}");
    let (_, report) = home.run("doctor");
    let invalid = finding(&report, "config.invalid");
    assert!(invalid["remediation"].as_str().unwrap().contains(".bak"), "{invalid}");
}

#[test]
fn of_a_database_that_is_whole_and_cannot_be_used_nobody_hears_to_move_it_away() {
    let home = Home::new();
    let path = home.write("clawgate.sqlite", 0o600, "");
    let fix = || {
        let (code, report) = home.run("doctor");
        assert_eq!(code, 1);
        finding(&report, "store.database")["remediation"].as_str().unwrap().to_owned()
    };
    let database = Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    assert!(fix().starts_with("start the release that wrote it, or restore the backup"));
    database.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(fix().starts_with("another program holds it"));
    drop(database);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(fix().contains("belongs to the gateway's user"));
}

#[test]
fn what_root_has_written_is_found_where_the_gateways_user_cannot_use_it() {
    const NOBODY: u32 = 65534;
    if !geteuid().is_root() {
        return not_run("what doctor says of files of root: the tests do not run as root");
    }
    let home = Home::new();
    let config = home.write("openclaw.json", 0o600, "{}");
    for folder in [home.0.path(), home.state().as_path()] {
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = command("doctor", home.0.path(), &home.state());
    let Ok(output) = command.uid(NOBODY).gid(NOBODY).output() else {
        return not_run("what doctor says of files of root: others cannot run the program");
    };
    let (_, report) = answer(&output);
    let fix = finding(&report, "config.invalid")["remediation"].clone();
    assert_eq!(fix, format!("sudo chown -R \"$(id -u)\" {}", config.display()));
    let foreign = finding(&report, "fs.state.foreign")["title"].as_str().unwrap();
    assert_eq!(foreign, format!("{} owned by another user", config.display()));
}

#[test]
fn that_everybody_may_see_the_gateways_own_certificate_is_nothing_to_change() {
    let home = Home::new();
    let certificate = home.write("gateway/tls/gateway-cert.pem", 0o644, "x");
    home.write("gateway/tls/gateway-key.pem", 0o600, "x");
    let (_, report) = home.run("doctor --fix");
    assert_eq!(finding(&report, "fs.state")["severity"], "ok");
    assert_eq!(mode(&certificate), 0o644);
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

#[test]
fn a_provider_that_is_written_in_two_ways_is_found() {
    let home = Home::new();
    let provider = |model: &str| {
        json!({"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions",
            "models": [{"id": model}]})
    };
    let of = |ids: [&str; 3]| {
        let providers: serde_json::Map<_, _> =
            ids.iter().map(|id| ((*id).to_owned(), provider("m"))).collect();
        json!({"agents": {"defaults": {"model": "near/m"}},
            "models": {"mode": "replace", "providers": providers}})
    };
    home.write("openclaw.json", 0o600, &of(["near", "zai", "z"]).to_string());
    assert!(findings(&home.run("doctor").1, "models.twice").is_empty());
    home.write("openclaw.json", 0o600, &of(["near", "zai", "Z.AI"]).to_string());
    let (_, report) = home.run("doctor");
    let twice = finding(&report, "models.twice");
    assert_eq!(twice["severity"], "warn");
    let title = twice["title"].as_str().unwrap();
    assert!(title.contains("zai") && title.contains("Z.AI"), "{title}");
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
    let pid = gateway.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let report = look(&gateway);
    kill_process(pid, Signal::CONT).unwrap();
    let silent = finding(&report, "gateway.running");
    assert_eq!(silent["severity"], "critical", "{silent}");
    assert!(silent["title"].as_str().unwrap().ends_with("does not answer"), "{silent}");
}

#[tokio::test]
async fn conversations_whose_transcripts_are_gone_are_found_and_named() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let look = || run("doctor", &gateway.home(), &gateway.state_dir()).1;
    let mut client = admin(&gateway).await;
    ask(&mut client, "gone", "hello", "run-1").await;
    let folder = gateway.state_dir().join("agents/main/sessions");
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|end| end == "jsonl")).collect();
    ask(&mut client, "kept", "hello", "run-2").await;
    call(&mut client, "sessions.create", json!({"key": "agent:main:new"})).await;
    assert!(findings(&look(), "sessions.gone").is_empty());
    assert_eq!(files.len(), 1, "{files:?}");
    fs::remove_file(&files[0]).unwrap();
    let report = look();
    let title = finding(&report, "sessions.gone")["title"].as_str().unwrap();
    let named = format!(
        "1 conversations have no transcript any more: agent:main:gone ({}",
        files[0].display()
    );
    assert!(title.starts_with(&named), "{title}");
}

#[tokio::test]
async fn transcripts_that_a_restored_database_does_not_know_are_found_and_come_by_an_import() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let (home, state) = (gateway.home(), gateway.state_dir());
    let unlisted = || {
        let (_, report) = run("doctor", &home, &state);
        let found = findings(&report, "sessions.unlisted").into_iter().cloned();
        found.collect::<Vec<_>>()
    };
    let mut client = admin(&gateway).await;
    ask(&mut client, "kept", "hello", "run-1").await;
    ask(&mut client, "gone", "hello", "run-2").await;
    let gone = json!({"key": "agent:main:gone", "deleteTranscript": false});
    call(&mut client, "sessions.delete", gone).await;
    gateway.terminate().await;
    assert!(unlisted().is_empty(), "one was removed, and its transcript kept");
    let [database, backup] = ["clawgate.sqlite", "backup"].map(|name| state.join(name));
    let open = Connection::open(&database).unwrap();
    open.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    drop(open);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "lost", "hello", "run-3").await;
    gateway.terminate().await;
    for end in ["-wal", "-shm"] {
        // It is gone when nobody uses the database.
        let _ = fs::remove_file(state.join(format!("clawgate.sqlite{end}")));
    }
    fs::rename(backup, &database).unwrap();
    let found = unlisted();
    assert!(found[0]["title"].as_str().unwrap().starts_with("1 transcripts are in no list"));
    let import = format!("import --from {}", state.display());
    let fix = found[0]["remediation"].as_str().unwrap();
    assert!(fix.ends_with(&format!("and run `clawgate {import}`")), "{fix}");
    let index = state.join("agents/main/sessions/sessions.json");
    assert!(!index.exists());
    fs::write(&index, "{}").unwrap();
    assert!(unlisted().is_empty(), "OpenClaw has run here, which is told");
    fs::remove_file(&index).unwrap();
    let open = Connection::open(&database).unwrap();
    open.execute("UPDATE sessions SET entry = entry || '{'", []).unwrap();
    let (_, report) = run("doctor", &home, &state);
    let told = findings(&report, "store.database").into_iter().map(|it| it["title"].to_string());
    assert!(told.collect::<String>().contains("is listed cannot be told"), "{report}");
    open.execute("UPDATE sessions SET entry = substr(entry, 1, length(entry) - 1)", []).unwrap();
    drop(open);
    run(&import, &home, &state);
    assert!(unlisted().is_empty());
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let page = call(&mut client, "chat.history", json!({"sessionKey": "lost"})).await;
    assert!(page["messages"].to_string().contains("hello"), "{page}");
}

#[test]
fn a_database_that_is_lost_or_empty_beside_conversations_that_were_begun_here_is_critical() {
    let home = Home::new();
    let transcript = "agents/main/sessions/a.jsonl";
    let theirs = json!({"type": "session", "version": 3, "id": "a"});
    let ours = json!({"type": "session", "version": 3, "id": "a", "sessionKey": "agent:main:x"});
    home.write(transcript, 0o600, &format!("{theirs}\n"));
    assert!(findings(&home.run("doctor").1, "store.database").is_empty(), "a first start");
    home.write(transcript, 0o600, &format!("{ours}\n"));
    for what in ["there is no database ", "nothing is in the database "] {
        let (code, report) = home.run("doctor");
        let found = finding(&report, "store.database");
        assert_eq!((code, &found["severity"]), (1, &json!("critical")), "{found}");
        assert!(found["title"].as_str().unwrap().starts_with(what), "{found}");
        assert!(found["detail"].as_str().unwrap().contains("jobs"), "{found}");
        assert!(found["remediation"].as_str().unwrap().contains("a backup"), "{found}");
        home.write("clawgate.sqlite", 0o600, "");
        home.write("clawgate.sqlite-wal", 0o600, "the last writes");
    }
    let left = fs::read_to_string(home.state().join("clawgate.sqlite-wal")).unwrap();
    assert_eq!(left, "the last writes");
    home.write(transcript, 0o600, &format!("{theirs}\n"));
    fs::remove_file(home.state().join("clawgate.sqlite-wal")).unwrap();
    assert_eq!(finding(&home.run("doctor").1, "store.database")["severity"], "ok");
}

#[test]
fn files_that_a_power_loss_has_cut_are_found_with_the_way_to_mend_them() {
    let home = Home::new();
    let cut = [
        ("identity/device.json", "", "gateway.identity", "critical"),
        ("exec-approvals.json", "{\"version\":1,\"defau", "exec.approvals", "critical"),
        ("devices/paired.json", "", "devices.paired", "warn"),
        ("nodes/paired.json", "{", "devices.paired", "warn"),
        ("agents/main/sessions/sessions.json", "", "sessions.index", "warn"),
    ];
    for (name, text, id, severity) in cut {
        let path = home.write(name, 0o600, text);
        let (_, report) = home.run("doctor");
        let found = findings(&report, id);
        assert_eq!((found.len(), &found[0]["severity"]), (1, &json!(severity)), "{report:#}");
        assert!(found[0]["title"].as_str().unwrap().contains(path.to_str().unwrap()), "{report:#}");
        assert!(!found[0]["remediation"].as_str().unwrap().is_empty(), "{report:#}");
        fs::remove_file(path).unwrap();
        assert!(findings(&home.run("doctor").1, id).is_empty(), "{name}");
    }
}

#[test]
fn of_a_damaged_database_it_is_told_what_is_wrong_and_what_may_save_it() {
    let home = Home::new();
    let path = home.write("clawgate.sqlite", 0o600, "");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE one (x); CREATE TABLE two (x)").unwrap();
    drop(database);
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 3;
    bytes[2 * page..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let (_, report) = home.run("doctor");
    let damaged = finding(&report, "store.database");
    let title = damaged["title"].as_str().unwrap();
    assert!(title.starts_with("the database is damaged: ") && title.contains("age 3"), "{title}");
    assert!(!title.contains(['*', '\n']), "{title}");
    let fix = damaged["remediation"].as_str().unwrap();
    let (copy, save) = (fix.find(" and copy ").unwrap(), fix.find(".recover").unwrap());
    assert!(copy < save && save < fix.find("move them away").unwrap(), "{fix}");
}

#[test]
fn a_database_that_the_next_start_completes_is_nothing_to_mend() {
    let home = Home::new();
    home.write("clawgate.sqlite", 0o600, "");
    let (_, report) = home.run("doctor");
    let told = findings(&report, "store.database");
    assert!(told.len() == 1 && told[0]["severity"] == "ok", "{report}");
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
