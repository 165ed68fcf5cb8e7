//! `clawgate models` as a process: what it prints, what it writes, and what it
//! leaves alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use support::program;
use support::pty::Pty;

/// A user's machine.
struct Home(tempfile::TempDir);

const CONFIG: &str = "\
// Do not lose me.
{
  agents: {
    defaults: {
      model: 'mock/one', // the usual one
      models: { 'mock/one': {}, 'mock/two': { alias: 'Deux' } },
    },
    list: [{ id: 'main' }, { id: 'work', model: 'mock/two' }],
  },
  models: {
    providers: {
      mock: { baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'canary-key', models: [{ id: 'one' }, { id: 'two' }, { id: 'three' }] },
    },
  },
  unknown: [1, 2,],
}
";

impl Home {
    fn with(config: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.0.path().join(".openclaw")).unwrap();
        fs::write(home.config(), config).unwrap();
        home
    }

    fn config(&self) -> PathBuf {
        self.0.path().join(".openclaw/openclaw.json")
    }

    fn profiles(&self, agent: &str) -> PathBuf {
        self.0.path().join(format!(".openclaw/agents/{agent}/agent/auth-profiles.json"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .arg("models")
            .args(args)
            .env_clear()
            .env("HOME", self.0.path())
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .env("GROQ_API_KEY", "canary-groq");
        command
    }

    fn run(&self, args: &[&str], stdin: &str) -> Output {
        // A file: at the other end of a pipe there may be nobody any more.
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(stdin.as_bytes()).unwrap();
        input.rewind().unwrap();
        let output = self.command(args).stdin(input).output().unwrap();
        let told = [&output.stdout[..], &output.stderr[..]].concat();
        assert!(!String::from_utf8(told).unwrap().contains("canary"), "{output:?}");
        output
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args, "");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    fn error(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin);
        assert!(!output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn the_list_shows_what_may_be_chosen_and_with_all_what_is_known() {
    let home = Home::with(CONFIG);
    assert_eq!(home.ok(&["list", "--plain"]), "mock/one\nmock/two\n");
    let list = home.json(&["list", "--json"]);
    assert_eq!(list["count"], 2);
    let facts = |row: &Value| [row["key"].clone(), row["available"].clone(), row["tags"].clone()];
    let rows: Vec<_> = list["models"].as_array().unwrap().iter().map(facts).collect();
    assert_eq!(
        rows,
        [
            [json!("mock/one"), json!(true), json!(["default"])],
            [json!("mock/two"), json!(true), json!(["alias:Deux"])],
        ]
    );
    let all = home.json(&["list", "--all", "--provider", "Anthropic", "--json"]);
    let models = all["models"].as_array().unwrap();
    assert!(models.len() > 5 && models.iter().all(|row| row["available"] == false));
    let groq = home.json(&["list", "--all", "--provider", "groq", "--json"]);
    assert!(groq["models"].as_array().unwrap().iter().all(|row| row["available"] == true));
    assert!(home.ok(&["list"]).starts_with("Model     Input  Context  Usable  Notes\n"));
    assert!(home.ok(&["list", "--provider", "nobody"]).starts_with("No models; "));
    assert_eq!(home.ok(&["list", "--provider", "nobody", "--all"]), "No models.\n");
    assert_eq!(fs::read_to_string(home.config()).unwrap(), CONFIG);
}

#[test]
fn a_name_that_would_turn_around_what_is_read_is_spelled_out() {
    let home = Home::with(&CONFIG.replace("'Deux'", "'D\u{202e}eux'"));
    for shown in [&["list"][..], &["status"], &["aliases", "list"]] {
        let text = home.ok(shown);
        assert!(text.contains("D\\u{202e}eux") && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn setting_the_model_changes_one_value_and_keeps_the_old_file() {
    let home = Home::with(CONFIG);
    let changed = CONFIG.replace("'mock/one', //", "\"mock/two\", //");
    let told = home.json(&["set", "deux", "--json"]);
    assert_eq!((&told["model"], &told["changed"]), (&json!("mock/two"), &json!(true)));
    assert_eq!(told["key"], "agents.defaults.model");
    assert_eq!(fs::read_to_string(home.config()).unwrap(), changed);
    let backup = home.config().with_extension("json.bak");
    assert_eq!(fs::read_to_string(&backup).unwrap(), CONFIG);
    assert!(home.ok(&["set", "mock/two"]).ends_with(", as before\n"));
    assert_eq!(home.ok(&["status", "--plain"]), "mock/two\n");

    // What the list of allowed models does not have is added to it.
    assert!(!home.ok(&["set", "mock/three"]).contains("restart"), "it is used at once");
    let text = fs::read_to_string(home.config()).unwrap();
    let expected = changed
        .replace("\"mock/two\", //", "\"mock/three\", //")
        .replace("{ alias: 'Deux' } }", "{ alias: 'Deux' }, \"mock/three\": {} }");
    assert_eq!(text, expected);

    let error = home.error(&["set", "nope"], "");
    assert!(error.contains("there is no model \"nope\""), "{error}");
    let error = home.error(&["set", "mock"], "");
    assert!(error.contains("there is no model"), "{error}");
    assert_eq!(fs::read_to_string(home.config()).unwrap(), expected);
}

#[test]
fn fallbacks_are_added_in_their_order_and_taken_away() {
    let home = Home::with(CONFIG);
    assert_eq!(home.ok(&["fallbacks", "list"]), "No fallbacks.\n");
    home.ok(&["fallbacks", "add", "deux"]);
    let told = home.json(&["fallbacks", "add", "mock/three", "--json"]);
    assert_eq!(told["model"], json!(["mock/two", "mock/three"]));
    assert_eq!(home.ok(&["fallbacks", "list"]), "mock/two\nmock/three\n");
    let config =
        clawgate::config::parse(&fs::read_to_string(home.config()).unwrap(), &home.config());
    let defaults = &config.unwrap()["agents"]["defaults"];
    assert_eq!(defaults["model"]["primary"], "mock/one");
    assert!(defaults["models"]["mock/three"].is_object(), "it may be chosen: {defaults}");
    assert!(fs::read_to_string(home.config()).unwrap().contains("// Do not lose me."));

    assert!(home.ok(&["fallbacks", "add", "mock/two"]).ends_with(", as before\n"));
    home.ok(&["fallbacks", "remove", "deux"]);
    assert_eq!(home.json(&["fallbacks", "list", "--json"]), json!({"fallbacks": ["mock/three"]}));
    assert!(home.error(&["fallbacks", "remove", "mock/two"], "").contains("is no fallback"));
    home.ok(&["fallbacks", "clear"]);
    assert_eq!(home.ok(&["fallbacks", "list"]), "No fallbacks.\n");
}

#[cfg(target_os = "linux")]
#[test]
fn fallbacks_and_aliases_that_are_added_at_the_same_moment_all_remain() {
    let home = Home::with(CONFIG);
    let alone = clawgate::store::WriteLock::acquire(&home.config()).unwrap();
    let commands = [
        &["fallbacks", "add", "mock/two"][..],
        &["fallbacks", "add", "mock/three"],
        &["aliases", "add", "uno", "mock/one"],
    ];
    let children = commands.map(|args| {
        let mut command = home.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    // All of them wait for the file.
    let waits = |child: &std::process::Child| {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let mut files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        files.any(|file| file.ends_with("openclaw.json.clawgate-lock"))
    };
    for _ in 0..900 {
        if children.iter().all(waits) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(children.iter().all(waits), "somebody does not wait");
    drop(alone);
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut all: Vec<String> = home.ok(&["fallbacks", "list"]).lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["mock/three", "mock/two"]);
    assert_eq!(home.ok(&["aliases", "list"]).lines().count(), 2);
}

#[test]
fn a_fallback_that_the_file_names_by_its_alias_is_known_by_its_name() {
    let model = "model: { primary: 'mock/one', fallbacks: ['deux'] },";
    let home = Home::with(&CONFIG.replace("model: 'mock/one',", model));
    assert!(home.ok(&["fallbacks", "add", "mock/two"]).ends_with(", as before\n"));
    home.ok(&["fallbacks", "remove", "mock/two"]);
    assert_eq!(home.ok(&["fallbacks", "list"]), "No fallbacks.\n");
}

#[test]
fn aliases_are_given_to_one_model_and_taken_away() {
    let home = Home::with(CONFIG);
    assert_eq!(home.ok(&["aliases", "list"]), "Deux  mock/two\n");
    home.ok(&["aliases", "add", "tri", "mock/three"]);
    let all = json!({"aliases": {"Deux": "mock/two", "tri": "mock/three"}});
    assert_eq!(home.json(&["aliases", "list", "--json"]), all);
    home.ok(&["set", "tri"]);
    assert_eq!(home.ok(&["status", "--plain"]), "mock/three\n");
    for (args, why) in [
        (["aliases", "add", "deux", "mock/one"], "take that away first"),
        (["aliases", "add", "a/b", "mock/one"], "is no alias"),
    ] {
        let error = home.error(&args, "");
        assert!(error.contains(why), "{error}");
    }
    home.ok(&["aliases", "remove", "deux"]);
    assert_eq!(home.ok(&["aliases", "list"]), "tri  mock/three\n");
    assert!(home.error(&["aliases", "remove", "deux"], "").contains("there is no alias"));
}

#[test]
fn aliases_that_models_of_the_list_have_anyway_are_shown() {
    let models = "models: { 'anthropic/claude-opus-4-7': {}, 'mock/one': {},";
    let home = Home::with(&CONFIG.replace("models: { 'mock/one': {},", models));
    let all = json!({"aliases": {"Deux": "mock/two", "opus": "anthropic/claude-opus-4-7"}});
    assert_eq!(home.json(&["aliases", "list", "--json"]), all);
    let error = home.error(&["aliases", "remove", "opus"], "");
    assert!(error.contains("OpenClaw gives it"), "{error}");
}

#[test]
fn an_alias_forbids_no_model_that_answers() {
    let heartbeat = "heartbeat: { model: 'mock/three' },";
    let home = Home::with(
        &CONFIG.replace("models: { 'mock/one': {}, 'mock/two': { alias: 'Deux' } },", heartbeat),
    );
    home.ok(&["aliases", "add", "uno", "mock/one"]);
    let config =
        clawgate::config::parse(&fs::read_to_string(home.config()).unwrap(), &home.config());
    let models = config.unwrap()["agents"]["defaults"]["models"].clone();
    let mut names: Vec<_> = models.as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["mock/one", "mock/three", "mock/two"], "{models}");
}

#[test]
fn who_has_the_file_unwatched_is_told_to_restart() {
    let off = "gateway: { reload: { mode: 'off' } },";
    let home = Home::with(&CONFIG.replace("unknown: [1, 2,],", off));
    assert!(home.ok(&["set", "mock/two"]).ends_with("; restart the gateway to use it\n"));
}

#[test]
fn a_machine_without_a_file_gets_one() {
    let home = Home::with("");
    fs::remove_file(home.config()).unwrap();
    home.ok(&["set", "groq/openai/gpt-oss-120b"]);
    let text = fs::read_to_string(home.config()).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value,
        json!({"agents": {"defaults": {"model": {"primary": "groq/openai/gpt-oss-120b"}}}})
    );
    assert_eq!(fs::metadata(home.config()).unwrap().permissions().mode() & 0o777, 0o600);
    let error = home.error(&["set", "gpt-oss"], "");
    assert!(error.contains("may mean") && error.contains("say which"), "{error}");
}

#[test]
fn a_key_is_read_from_stdin_stored_privately_and_removed_again() {
    let home = Home::with(CONFIG);
    let add = ["auth", "add", "--provider", "Anthropic"];
    let output = home.run(&add, "canary-new-key\n");
    assert!(output.status.success(), "{output:?}");
    let stored: Value =
        serde_json::from_str(&fs::read_to_string(home.profiles("main")).unwrap()).unwrap();
    assert_eq!(
        stored,
        json!({"version": 1, "profiles": {"anthropic:default":
            {"type": "api_key", "provider": "anthropic", "key": "canary-new-key"}}})
    );
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.profiles("main")), 0o600);
    assert_eq!(mode(home.profiles("main").parent().unwrap().to_owned()), 0o700);

    let list = home.json(&["auth", "list", "--json"]);
    assert_eq!(list["providers"][0]["profiles"][0]["profileId"], "anthropic:default");
    assert!(home.ok(&["auth", "list"]).contains("anthropic:default  api_key  static"));
    let usable = home.json(&["list", "--all", "--provider", "anthropic", "--json"]);
    assert!(usable["models"].as_array().unwrap().iter().all(|row| row["available"] == true));

    let token = [
        "auth",
        "--agent",
        "work",
        "add",
        "--provider",
        "x",
        "--type",
        "token",
        "--profile-id",
        "x:me",
    ];
    assert!(home.run(&token, "canary-token").status.success());
    let work: Value =
        serde_json::from_str(&fs::read_to_string(home.profiles("work")).unwrap()).unwrap();
    assert_eq!(work["profiles"]["x:me"]["token"], "canary-token");

    let removed = home.json(&["auth", "remove", "anthropic:default", "--json"]);
    assert_eq!(removed["profileId"], "anthropic:default");
    assert_eq!(removed["path"], home.profiles("main").to_str().unwrap());
    assert!(home.ok(&["auth", "list"]).starts_with("no stored credentials in "));
    let error = home.error(&["auth", "remove", "anthropic:default"], "");
    assert!(error.contains("there is no credential") && error.contains("auth list"), "{error}");
    let added = home.run(&[&add[..], &["--json"]].concat(), "canary-new-key\n");
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(added, removed);
}

#[test]
fn keys_that_are_stored_at_the_same_moment_are_all_kept() {
    let home = Home::with(CONFIG);
    let mut stored = 0;
    for _ in 0..6 {
        let mut children = Vec::new();
        for _ in 0..4 {
            let id = format!("x:k{stored}");
            stored += 1;
            let mut command =
                home.command(&["auth", "add", "--provider", "x", "--profile-id", &id]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            children.push(command.spawn().unwrap());
        }
        // All of them wait for their keys by now, or soon.
        for child in &mut children {
            child.stdin.take().unwrap().write_all(b"canary\n").unwrap();
        }
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        let text = fs::read_to_string(home.profiles("main")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["profiles"].as_object().unwrap().len(), stored, "{text}");
    }
}

#[test]
fn a_key_is_typed_unseen_and_ctrl_c_gives_the_terminal_back() {
    let home = Home::with(CONFIG);
    let add = ["auth", "add", "--provider", "anthropic"];
    let mut terminal = Pty::spawn(home.command(&add));
    terminal.answers("Key for anthropic", "canary\x03");
    assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
    assert!(terminal.echoes() && !terminal.all().contains("canary"), "{}", terminal.all());
    assert!(!home.profiles("main").exists());

    let mut terminal = Pty::spawn(home.command(&add));
    terminal.answers("Key for anthropic", "canary-typedx\x7f\r");
    assert!(terminal.ends().success(), "{}", terminal.all());
    assert!(terminal.echoes() && !terminal.all().contains("canary"), "{}", terminal.all());
    let stored = fs::read_to_string(home.profiles("main")).unwrap();
    assert!(stored.contains("\"canary-typed\""), "{stored}");
}

#[test]
fn what_is_no_key_is_not_stored() {
    let home = Home::with(CONFIG);
    let add = ["auth", "add", "--provider", "anthropic"];
    for (typed, why) in
        [("", "no key"), ("  \n", "no key"), ("two\nlines", "one line"), ("kéy", "ASCII")]
    {
        let error = home.error(&add, typed);
        assert!(error.contains(why), "{typed:?}: {error}");
    }
    assert!(home.error(&["auth", "add", "--provider", "a/b"], "k").contains("is no provider"));
    assert!(home.error(&["auth", "--agent", "gone", "list"], "").contains("there is no agent"));
    let error = home.error(&["auth", "add", "--provider", "anthropic", "a-key-as-an-argument"], "");
    assert!(error.contains("unexpected argument"), "{error}");
    assert!(!home.profiles("main").exists());
}

#[test]
fn the_status_tells_what_answers_and_what_lets_us_in() {
    let home = Home::with(CONFIG);
    let status = home.json(&["status", "--json"]);
    assert_eq!(status["defaultModel"], "mock/one");
    assert_eq!(status["aliases"], json!({"Deux": "mock/two"}));
    assert_eq!(
        status["auth"]["providers"],
        json!([{"provider": "mock", "profiles": 0,
            "effective": {"kind": "config", "detail": "models.providers.mock.apiKey"}}])
    );
    for agent in ["work", " Work! "] {
        let status = home.json(&["status", "--agent", agent, "--json"]);
        let found = [&status["agentId"], &status["defaultModel"]];
        assert_eq!(found, ["work", "mock/two"], "{agent}");
    }
    for args in [&["status", "--check"][..], &["status", "--check", "--plain"]] {
        assert_eq!(home.run(args, "").status.code(), Some(0), "{args:?}");
    }
    // Without a command it is the status that is shown.
    assert_eq!(home.ok(&[]), home.ok(&["status"]));

    let config = "{agents: {defaults: {model: {primary: 'xai/grok-4.7', fallbacks: ['groq/openai/gpt-oss-20b']}}}}";
    let home = Home::with(config);
    let status = home.json(&["--json"]);
    assert_eq!(status["fallbacks"], json!(["groq/openai/gpt-oss-20b"]));
    assert_eq!(status["auth"]["missingProvidersInUse"], json!(["xai"]));
    let advice = "set XAI_API_KEY, or run: clawgate models auth add --provider xai";
    assert_eq!(
        status["auth"]["providers"][0]["effective"],
        json!({"kind": "missing", "detail": advice})
    );
    assert_eq!(
        status["auth"]["providers"][1]["effective"],
        json!({"kind": "env", "detail": "GROQ_API_KEY"})
    );
    assert_eq!(home.run(&["status", "--check"], "").status.code(), Some(1));
    let plain = home.run(&["status", "--check", "--plain"], "");
    assert_eq!((plain.status.code(), &plain.stdout[..]), (Some(1), &b"xai/grok-4.7\n"[..]));
}

#[test]
fn the_status_says_what_helps_with_a_key_that_is_not_there() {
    let config = "{
        agents: { defaults: { model: 'own/one' } },
        models: { providers: { own: { baseUrl: 'https://own.example/v1', models: [{ id: 'one' }] } } },
    }";
    let home = Home::with(config);
    let stored = json!({"version": 1, "profiles": {"openai:default": {
        "type": "api_key", "provider": "openai",
        "keyRef": {"source": "env", "provider": "default", "id": "NOT_THERE"},
    }}});
    let path = home.profiles("main");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, stored.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let status = home.json(&["status", "--json"]);
    let effective = |at: usize| status["auth"]["providers"][at]["effective"].clone();
    let advice = "run: clawgate models auth add --provider own";
    assert_eq!(effective(0), json!({"kind": "missing", "detail": advice}));
    let unused = "none can be used; see: clawgate models auth list";
    assert_eq!(effective(1), json!({"kind": "profiles", "detail": unused}));
    assert_eq!(status["auth"]["missingProvidersInUse"], json!(["own"]));
}

#[test]
fn a_probe_asks_the_provider_and_shows_what_it_said() {
    let home = Home::with(CONFIG);
    let status = home.json(&["status", "--probe", "--json"]);
    let probe = &status["auth"]["probes"][0];
    assert_eq!((&probe["provider"], &probe["profileId"]), (&json!("mock"), &json!("mock:key")));
    assert_eq!(probe["status"], "timeout");
    assert!(
        probe["error"].as_str().unwrap().contains("cannot reach http://127.0.0.1:9"),
        "{probe}"
    );
    assert_eq!(home.run(&["status", "--probe", "--check"], "").status.code(), Some(1));
    for (flags, code) in [(&["--check"][..], Some(1)), (&[], Some(0))] {
        let plain = home.run(&[&["status", "--probe", "--plain"][..], flags].concat(), "");
        assert_eq!((plain.status.code(), &plain.stdout[..]), (code, &b"mock/one\n"[..]));
        let told = String::from_utf8(plain.stderr).unwrap();
        assert!(told.contains("Probe mock/one: mock:key timeout in"), "{told}");
    }
}

#[test]
fn every_command_explains_itself() {
    let home = Home::with(CONFIG);
    for args in [
        &["--help"][..],
        &["list", "--help"],
        &["status", "--help"],
        &["set", "--help"],
        &["auth", "add", "--help"],
    ] {
        assert!(home.ok(args).contains("Usage:"), "{args:?}");
    }
}
