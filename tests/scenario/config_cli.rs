//! `clawgate config` on a file, with a gateway and without one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Api, admin, call, scripted};
use crate::support::{SECRET, program};

const FILE: &str =
    "// mine\n{\n  gateway: { port: 19000, auth: { token: 'secret-token-1' } }, // door\n}\n";

/// Somebody with a config file and nothing else.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        let user = Self { home: tempfile::tempdir().unwrap() };
        fs::create_dir(user.home.path().join(".openclaw")).unwrap();
        fs::write(user.file(), FILE).unwrap();
        user
    }

    fn file(&self) -> PathBuf {
        self.home.path().join(".openclaw/openclaw.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.piped(args, "")
    }

    fn piped(&self, args: &[&str], input: &str) -> Output {
        let stdin = self.home.path().join("stdin");
        fs::write(&stdin, input).unwrap();
        let input = Stdio::from(fs::File::open(stdin).unwrap());
        self.command(args).stdin(input).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("config").args(args).env_clear().env("HOME", self.home.path());
        command
    }

    /// What is in the folder of the file.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.file().parent().unwrap()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn said(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_value_is_shown_written_and_taken_away_and_comments_stay() {
    let user = User::new();
    assert_eq!(user.said(&["get", "gateway.port"]), "19000\n");
    let file = user.file().display().to_string();
    assert_eq!(
        user.said(&["set", "gateway.port", "19001"]),
        format!("gateway.port is 19001 (in {file})\n")
    );
    assert_eq!(user.text(), FILE.replace("19000", "19001"));
    assert_eq!(
        user.said(&["set", "gateway.port", "19001"]),
        format!("gateway.port is 19001 (in {file}), as before\n")
    );
    user.said(&["set", "agents.list", "[{id: 'main'}, {id: 'b'}]"]);
    user.said(&["set", "agents.list[1].name", "42"]);
    user.said(&["set", "agents.defaults.models[\"p/m.1\"].alias", "fast"]);
    let list: Value = serde_json::from_str(&user.said(&["get", "agents", "--json"])).unwrap();
    // A name is a text, whatever it looks like.
    let expected = json!({"list": [{"id": "main"}, {"id": "b", "name": "42"}],
        "defaults": {"models": {"p/m.1": {"alias": "fast"}}}});
    assert_eq!(list, expected);
    user.said(&["unset", "agents"]);
    assert_eq!(user.text().replace("19001", "19000"), FILE);
    assert!(user.said(&["unset", "agents"]).ends_with("as before\n"));
    assert_eq!(user.said(&["file"]).trim(), file);
    let backup = user.file().with_extension("json.bak");
    assert!(fs::read_to_string(backup).unwrap().contains("fast"));
}

#[test]
fn a_write_leaves_every_include_in_its_place_also_below_another_one() {
    let user = User::new();
    let text = "// mine\n{\n  $include: './a.json5',\n  gateway: { port: 19000 },\n  \
                models: { providers: { $include: './providers.json5' } },\n  agents: {\n    \
                $include: './agents.json5', // the others\n    \
                defaults: { $include: './defaults.json5' },\n    \
                list: [{ id: 'main' }, { $include: './two.json5' }],\n  },\n}\n";
    let part = |name: &str, text: &str| fs::write(user.file().with_file_name(name), text).unwrap();
    part("a.json5", "{ gateway: { auth: { token: 'secret-token-1' } }, session: {} }");
    part(
        "providers.json5",
        "{ p: { baseUrl: 'http://127.0.0.1:9/v1', api: 'openai-completions', \
         models: [{ id: 'm' }] } }",
    );
    part("agents.json5", "{ defaults: { workspace: '~/one' } }");
    part("defaults.json5", "{ skills: ['a'] }");
    part("two.json5", "{ id: 'two' }");
    fs::write(user.file(), text).unwrap();
    user.said(&["set", "gateway.port", "19001"]);
    assert_eq!(user.text(), text.replace("19000", "19001"));
    user.said(&["set", "agents.list[1].name", "Two"]);
    user.said(&["set", "session.mainKey", "boss"]);
    // What the files say from now on counts.
    part("agents.json5", "{ defaults: { workspace: '~/other' } }");
    part("defaults.json5", "{ skills: ['b'] }");
    part("two.json5", "{ id: 'three' }");
    let agents: Value = serde_json::from_str(&user.said(&["get", "agents", "--json"])).unwrap();
    let expected = json!({"defaults": {"workspace": "~/other", "skills": ["b"]},
        "list": [{"id": "main"}, {"id": "three", "name": "Two"}]});
    assert_eq!(agents, expected);
    let refused = user.refused(&["set", "agents.defaults.skills", "['c']"]);
    assert!(refused.contains("comes from ./defaults.json5"), "{refused}");
    // Whether that is set, only the file could say.
    fs::remove_file(user.file().with_file_name("agents.json5")).unwrap();
    let refused = user.refused(&["get", "agents.defaults.workspace"]);
    assert!(refused.contains("includes is read: cannot read \"./agents.json5\""), "{refused}");
    assert_eq!(user.said(&["get", "gateway.port"]), "19001\n");
}

#[test]
fn a_text_keeps_the_space_around_it() {
    let user = User::new();
    let path = "agents.defaults.systemPromptOverride";
    user.said(&["set", path, "  be brief \n"]);
    assert_eq!(user.said(&["get", path]), "  be brief \n\n");
    // A pipe ends its last line, which is no part of the text.
    for (piped, kept) in [(" be\n brief \r\n", " be\n brief "), ("brief\n\n", "brief\n")] {
        assert!(user.piped(&["set", path, "-"], piped).status.success());
        assert_eq!(user.said(&["get", path]), format!("{kept}\n"));
    }
    user.said(&["set", "gateway.port", " 19001 ", "--replace"]);
    assert_eq!(user.said(&["get", "gateway.port"]), "19001\n");
}

#[test]
fn no_secret_is_shown_and_one_may_come_through_a_pipe() {
    let user = User::new();
    assert!(!user.said(&["get"]).contains("secret-token-1"));
    let output = user.piped(&["set", "gateway.auth.token", "-"], "another-secret-2\n");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("gateway.auth.token is \"__OPENCLAW_REDACTED__\""), "{said}");
    assert!(user.text().contains("another-secret-2"));
    let told = user.said(&["set", "gateway.auth.token", "12345678", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["changed"], &told["value"]), (&json!(true), &json!("__OPENCLAW_REDACTED__")));
    assert!(user.text().contains("\"12345678\"") || user.text().contains("'12345678'"));
    let explained = user.said(&["explain", "gateway.auth.token"]);
    assert!(
        !explained.contains("12345678") && explained.contains("allowed: a text"),
        "{explained}"
    );
}

#[test]
fn a_variable_that_is_no_text_does_not_count_as_absent() {
    let user = User::new();
    for name in ["OPENCLAW_STATE_DIR", "OPENCLAW_GATEWAY_URL"] {
        let odd = OsStr::from_bytes(b"/tmp/odd\xff");
        let output = user.command(&["file"]).env(name, odd).output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(&format!("error: {name} is not UTF-8")), "{error}");
    }
    // What is not ours is nobody's business.
    let output = user.command(&["file"]).env("OTHER", OsStr::from_bytes(b"\xff")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_folder_whose_name_is_no_text_is_told_as_well_as_it_can_be() {
    let user = User::new();
    let home = user.home.path().join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir_all(home.join(".openclaw")).unwrap();
    for args in [&["validate", "--json"][..], &["set", "gateway.port", "19001", "--json"]] {
        let output = user.command(args).env("HOME", &home).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let file = answer["path"].as_str().filter(|path| path.contains('/'));
        let file = file.or(answer["file"].as_str()).unwrap();
        assert!(file.ends_with("odd\u{fffd}/.openclaw/openclaw.json"), "{file}");
    }
}

#[test]
fn nothing_is_a_config_as_well() {
    let user = User::new();
    let output =
        user.command(&["validate"]).env("OPENCLAW_CONFIG_PATH", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/dev/null is valid\n");
    let mut set = user.command(&["set", "gateway.port", "19001"]);
    let output = set.env("OPENCLAW_CONFIG_PATH", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/dev/null is no file that"), "{said}");
}

#[test]
fn the_placeholder_of_a_secret_is_never_written_in_its_place() {
    let user = User::new();
    let (hidden, before) = ("__OPENCLAW_REDACTED__", user.text());
    user.said(&["set", "gateway.auth.token", hidden]);
    assert!(user.text().contains("secret-token-1") && !user.text().contains(hidden));
    user.said(&["set", "gateway.auth", &format!("{{mode: 'token', token: '{hidden}'}}")]);
    assert!(user.text().contains("secret-token-1") && !user.text().contains(hidden));
    fs::write(user.file(), &before).unwrap();
    for (path, value) in [
        ("gateway.auth.password", hidden),
        ("models.providers.p.apiKey", hidden),
        ("session.mainKey", "a-__OPENCLAW_REDACTED__"),
    ] {
        let error = user.refused(&["set", path, value]);
        assert!(error.contains(&format!("{path}: the placeholder")), "{error}");
    }
    assert_eq!(user.text(), before);
    // One that another program wrote is no secret either.
    fs::write(user.file(), before.replace("secret-token-1", hidden)).unwrap();
    let error = user.refused(&["validate"]);
    assert!(error.contains("gateway.auth.token: has the placeholder"), "{error}");
}

#[test]
fn what_is_wrong_is_said_with_the_path_and_what_is_allowed_and_nothing_is_written() {
    let user = User::new();
    for (args, expected) in [
        (
            &["set", "gateway.port", "many"][..],
            &[
                "gateway.port: must be an integer",
                "allowed: an integer from 1 to 65535",
                "default: 18789",
            ][..],
        ),
        (
            &["set", "session.scope", "all"],
            &["session.scope: must be one of", "allowed: one of per-sender, global"],
        ),
        (&["set", "gateway.prot", "1"], &["there is no key gateway.prot", "port", "--force"]),
        (&["set", "gatewy.port", "1"], &["there is no section gatewy", "gateway"]),
        (&["set", "gateway.port.x", "1"], &["there is no key gateway.port.x"]),
        (&["set", "agents.list[3].id", "x"], &["agents.list"]),
        (&["set", "gateway.port", "{", "--strict-json"], &["gateway.port", "not valid JSON5"]),
        (&["get", "session.scope"], &["session.scope is not set; the default is \"per-sender\""]),
        (&["get", "nothing.here"], &["nothing.here is not in"]),
        (&["schema", "gateway.prot"], &["there is no key gateway.prot"]),
        (&["explain", "gateway.prot"], &["there is no key gateway.prot"]),
    ] {
        let error = user.refused(args);
        for part in expected {
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
    assert_eq!(user.run(&["set", "a[", "1"]).status.code(), Some(2));
    let tried = user.said(&["set", "gateway.port", "19002", "--dry-run"]);
    assert!(tried.ends_with("this would be written\n"), "{tried}");
    assert_eq!(user.text(), FILE);
    // The lock of who was about to write, and no earlier version.
    assert_eq!(user.names(), ["openclaw.json", "openclaw.json.clawgate-lock"]);
}

#[test]
fn who_only_looks_leaves_nothing_beside_the_file() {
    let user = User::new();
    for args in [
        &["get", "gateway.port"][..],
        &["explain", "gateway.port"],
        &["validate"],
        &["file"],
        &["set", "gateway.port", "19001", "--dry-run"],
    ] {
        user.said(args);
    }
    assert_eq!(user.names(), ["openclaw.json"]);
}

#[test]
fn of_what_several_programs_write_at_the_same_moment_nothing_is_lost() {
    let user = User::new();
    for round in 0..6 {
        let values: Vec<_> = (0..4).map(|number| format!("env.vars.R{round}x{number}")).collect();
        let writers = values.iter().map(|value| {
            let mut command = user.command(&["set", value, "1", "--force"]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        });
        for writer in writers.collect::<Vec<_>>() {
            let output = writer.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        for value in values {
            user.said(&["get", &value]);
        }
    }
}

#[test]
fn what_no_gateway_starts_with_is_refused_unless_none_did_before() {
    let user = User::new();
    let set = |value| ["set", "agents.defaults.model", value];
    for args in [&set("nosuch/x")[..], &["set", "agents.defaults.model", "nosuch/x", "--dry-run"]] {
        let error = user.refused(args);
        assert!(error.contains("nosuch/x"), "{error}");
        assert_eq!(user.text(), FILE);
    }
    user.said(&set("openai/gpt-5.1"));
    let broken = user.text().replace("openai/gpt-5.1", "nosuch/x");
    fs::write(user.file(), broken).unwrap();
    let told = user.run(&["validate"]);
    assert!(told.status.success() && String::from_utf8_lossy(&told.stderr).contains("nosuch/x"));
    let provider = "{baseUrl: 'http://127.0.0.1:9', api: 'ollama', models: [{id: 'a', name: 'A'}]}";
    user.said(&["set", "models.providers.p", provider]);
    let speaks = |api| ["set", "models.providers.p.api", api];
    // A gateway starts with the missing model: that excuses nothing else, and no other one.
    for args in [&speaks("nosuch"), &set("nosuch/y")] {
        let before = user.text();
        let error = user.refused(args);
        assert!(error.contains("nosuch") && user.text() == before, "{error}");
    }
    user.said(&set("openai/gpt-5.1"));
    user.refused(&speaks("nosuch"));
    let broken = user.text().replace("ollama", "nosuch");
    fs::write(user.file(), broken).unwrap();
    assert_eq!(user.run(&["validate"]).status.code(), Some(1));
    // One thing after the other can be mended.
    user.said(&["set", "gateway.port", "19001"]);
    user.said(&speaks("ollama"));
    user.said(&["validate"]);
    user.refused(&speaks("nosuch"));
}

#[test]
fn what_is_not_known_is_kept_when_that_is_wanted_and_told_by_validate() {
    let user = User::new();
    let output = user.run(&["set", "browser.enabled", "true", "--force"]);
    assert!(output.status.success(), "{output:?}");
    let validated = user.run(&["validate"]);
    assert!(validated.status.success());
    let warning = String::from_utf8(validated.stderr).unwrap();
    assert_eq!(warning, "warning: browser is not known here: it is kept, and has no effect\n");
    let answer: Value = serde_json::from_str(&user.said(&["validate", "--json"])).unwrap();
    assert_eq!(
        (&answer["valid"], &answer["warnings"][0]["path"]),
        (&json!(true), &json!("browser"))
    );
    assert!(user.text().contains("browser"));
}

#[test]
fn a_workspace_in_which_no_agent_may_work_is_refused_and_told_where_it_is_there() {
    let user = User::new();
    let before = user.text();
    for place in ["~", "~/.openclaw", "/"] {
        let error = user.refused(&["set", "agents.defaults.workspace", place]);
        assert!(error.contains("agents.defaults.workspace: "), "{error}");
        assert!(error.contains("cannot be a workspace"), "{error}");
    }
    assert_eq!(user.text(), before);
    let named = "  agents: { defaults: { workspace: '~' } },\n  gateway:";
    fs::write(user.file(), before.replace("  gateway:", named)).unwrap();
    let validated = user.run(&["validate"]);
    assert!(validated.status.success(), "{validated:?}");
    let warning = String::from_utf8(validated.stderr).unwrap();
    assert!(warning.starts_with("warning: agents.defaults.workspace "), "{warning}");
    assert!(warning.contains("cannot be a workspace"), "{warning}");
    // Something else can be changed all the same.
    user.said(&["set", "gateway.port", "19001"]);
}

#[test]
fn names_of_no_tool_and_numbers_beyond_their_bounds_are_told_by_validate() {
    let user = User::new();
    user.said(&["set", "tools.deny", "['exce', 'group:fs', 'docs__search']"]);
    user.said(&["set", "tools.web.fetch.maxRedirects", "1000"]);
    let validated = user.run(&["validate"]);
    assert!(validated.status.success());
    assert_eq!(
        String::from_utf8(validated.stderr).unwrap(),
        "warning: tools.web.fetch.maxRedirects is more than 20, and counts as 20\n\
         warning: tools.deny[0] \"exce\" is no tool and no group of tools: it has no effect\n"
    );
    let explained = user.said(&["explain", "tools.web.fetch.maxRedirects"]);
    assert!(explained.contains("; more than 20 counts as 20"), "{explained}");
    let schema: Value = serde_json::from_str(&user.said(&["schema"])).unwrap();
    let fetch = &schema["properties"]["tools"]["properties"]["web"]["properties"]["fetch"];
    let bytes = fetch["properties"]["maxResponseBytes"]["description"].as_str().unwrap();
    assert!(bytes.contains("less than 32000 counts as 32000"), "{bytes}");
}

#[test]
fn the_schema_and_the_meaning_of_a_key_are_printed() {
    let user = User::new();
    let schema: Value = serde_json::from_str(&user.said(&["schema"])).unwrap();
    assert_eq!(schema["properties"]["gateway"]["properties"]["port"]["maximum"], 65535);
    let port: Value = serde_json::from_str(&user.said(&["schema", "gateway.port"])).unwrap();
    assert_eq!(port, json!({"type": "integer", "minimum": 1, "maximum": 65535}));
    let explained = user.said(&["explain", "gateway.port"]);
    assert!(explained.starts_with("gateway.port  19000  file "), "{explained}");
    assert!(explained.contains("allowed: an integer from 1 to 65535"), "{explained}");
    // Also for a key whose value is not among the effective ones.
    let explained = user.said(&["explain", "models.providers.p.baseUrl"]);
    assert!(explained.starts_with("models.providers.p.baseUrl  not set  default"), "{explained}");
}

#[tokio::test]
async fn a_running_gateway_sees_what_was_written() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let shown = call(&mut client, "config.get", json!({})).await;
    let output = tokio::process::Command::new(program())
        .args(["config", "set", "messages.queue.cap", "7"])
        .env_clear()
        .env("HOME", gateway.state_dir())
        .env("OPENCLAW_CONFIG_PATH", gateway.config_path())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(SECRET));
    let now = call(&mut client, "config.get", json!({})).await;
    assert_eq!(now["config"]["messages"]["queue"]["cap"], 7);
    assert_ne!(now["hash"], shown["hash"]);
    // Whoever had read it before is told.
    let stale = json!({"raw": "{}", "baseHash": shown["hash"]});
    let answer = client.request("config.set", stale).await;
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("config changed"), "{answer}");
}
