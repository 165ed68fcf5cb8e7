//! Skills: found, listed to the model, switched, given keys, taken over.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, connect, refusal, scripted};
use crate::support::client::standard_connect;
use crate::support::{Gateway, WsClient, program};
use crate::workspace::system_prompt;

fn make(dir: &Path, name: &str, more: &str) {
    fs::create_dir_all(dir).unwrap();
    let text = format!("---\nname: {name}\ndescription: About {name}\n{more}\n---\nBODY\n");
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

async fn row(client: &mut WsClient, name: &str) -> Value {
    let status = call(client, "skills.status", json!({})).await;
    let rows = status["skills"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_else(|| panic!("{status}"))
}

#[tokio::test]
async fn status_tells_where_skills_are_and_what_they_lack() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let dir = gateway.workspace().join("skills/notes");
    make(
        &dir,
        "notes",
        "homepage: https://example.org\nmetadata: {openclaw: {emoji: 📝, primaryEnv: NOTES_KEY, \
         requires: {bins: [no-such-program], env: [NOTES_KEY], config: [channels.x]}}}",
    );
    let mut client = admin(&gateway).await;
    let lists = |bins: Value, env: Value, config: Value| json!({"bins": bins, "anyBins": [], "env": env, "config": config, "os": []});
    let needs = lists(json!(["no-such-program"]), json!(["NOTES_KEY"]), json!(["channels.x"]));
    let status = call(&mut client, "skills.status", json!({})).await;
    assert_eq!(
        status,
        json!({
            "workspaceDir": gateway.workspace(),
            "managedSkillsDir": gateway.state_dir().join("skills"),
            "skills": [{
                "name": "notes", "description": "About notes", "source": "openclaw-workspace",
                "bundled": false, "filePath": dir.join("SKILL.md"), "baseDir": dir,
                "skillKey": "notes", "primaryEnv": "NOTES_KEY", "emoji": "📝",
                "homepage": "https://example.org", "always": false, "disabled": false,
                "blockedByAllowlist": false, "blockedByAgentFilter": false, "eligible": false,
                "modelVisible": false, "userInvocable": true, "commandVisible": false,
                "requirements": needs, "missing": needs,
                "configChecks": [{"path": "channels.x", "satisfied": false}], "install": [],
            }],
        })
    );
}

#[tokio::test]
async fn the_model_is_told_of_a_skill_until_it_is_switched_off() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=hi", "run-0").await;
    assert!(!system_prompt(&mock).contains("## Skills"));
    make(&gateway.state_dir().join("skills/weather"), "weather", "");
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    let prompt = system_prompt(&mock);
    let location =
        format!("<location>{}/skills/weather/SKILL.md</location>", gateway.state_dir().display());
    assert!(prompt.contains(&location) && prompt.contains("About weather"), "{prompt}");
    assert!(!prompt.contains("BODY"), "{prompt}");
    let off = json!({"skillKey": "weather", "enabled": false});
    let answer = call(&mut client, "skills.update", off).await;
    assert_eq!(answer, json!({"ok": true, "skillKey": "weather", "config": {"enabled": false}}));
    ask(&mut client, "main", "@mock text text=hi", "run-2").await;
    assert!(!system_prompt(&mock).contains("## Skills"));
    assert_eq!(row(&mut client, "weather").await["disabled"], true);
}

#[tokio::test]
async fn a_key_counts_at_once_is_never_shown_and_survives_a_kill() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let more = "metadata: {openclaw: {primaryEnv: A_KEY, requires: {env: [A_KEY, B]}}}";
    make(&gateway.state_dir().join("skills/a"), "a", more);
    let mut client = admin(&gateway).await;
    assert_eq!(row(&mut client, "a").await["eligible"], false);
    let update = json!({"skillKey": "a", "apiKey": "sk-very-secret", "env": {"B": "hidden"}});
    let answer = call(&mut client, "skills.update", update).await;
    let redacted = "__OPENCLAW_REDACTED__";
    assert_eq!(answer["config"], json!({"apiKey": redacted, "env": {"B": redacted}}));
    assert_eq!(row(&mut client, "a").await["eligible"], true);
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(row(&mut client, "a").await["eligible"], true);
    let back = json!({"skillKey": "a", "apiKey": redacted, "env": {"B": ""}});
    call(&mut client, "skills.update", back).await;
    let config = fs::read_to_string(gateway.config_path()).unwrap();
    assert!(config.contains("sk-very-secret") && !config.contains("hidden"), "{config}");
    for text in [gateway.stdout(), gateway.stderr()] {
        assert!(!text.contains("sk-very-secret"), "{text}");
    }
}

#[tokio::test]
async fn commands_of_an_agent_get_what_is_set_for_its_skills_until_these_are_switched_off() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let more = "metadata: {openclaw: {primaryEnv: A_KEY, requires: {env: [A_KEY]}}}";
    make(&gateway.state_dir().join("skills/a"), "a", more);
    let mut client = admin(&gateway).await;
    let set = json!({"skillKey": "a", "apiKey": "k-1", "env": {"A_URL": "u", "TERM": "mine"}});
    call(&mut client, "skills.update", set).await;
    let command = "echo key:$A_KEY:$A_URL:$TERM.";
    let args = json!({"command": command, "env": {"A_URL": "asked"}});
    let line = format!("@mock tool name=exec args={args} then=\"done\"");
    ask(&mut client, "main", &line, "run-1").await;
    let told = || mock.requests().pop().unwrap().body.to_string();
    assert!(told().contains("key:k-1:asked:dumb."), "{}", told());
    call(&mut client, "skills.update", json!({"skillKey": "a", "enabled": false})).await;
    ask(&mut client, "other", &line, "run-2").await;
    assert!(told().contains("key::asked:dumb."), "{}", told());
}

#[tokio::test]
async fn only_one_who_may_change_everything_changes_skills() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let update = json!({"skillKey": "a", "enabled": true});
    let text = refusal(&mut client, "skills.update", update).await;
    assert_eq!(text, "missing scope: operator.admin");
    let install = json!({"source": "local", "path": "/tmp"});
    let text = refusal(&mut client, "skills.install", install).await;
    assert_eq!(text, "missing scope: operator.admin");
    let mut client = admin(&gateway).await;
    let text = refusal(&mut client, "skills.bins", json!({})).await;
    assert_eq!(text, "unauthorized role: operator");
    let mut client = admin(&gateway).await;
    let update = json!({"skillKey": "a", "env": {"LD_PRELOAD": "/x.so"}});
    let text = refusal(&mut client, "skills.update", update).await;
    assert!(text.starts_with("invalid skills.update params: at /env/LD_PRELOAD: "), "{text}");
}

#[tokio::test]
async fn a_skill_is_taken_over_from_a_folder_and_can_be_used_at_once() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let from = gateway.root().join("from");
    make(&from, "imported", "");
    let mut client = admin(&gateway).await;
    let install = json!({"source": "local", "path": from});
    let answer = call(&mut client, "skills.install", install.clone()).await;
    assert_eq!(answer["message"], "Installed imported");
    ask(&mut client, "main", "@mock text text=hi", "run-1").await;
    assert!(system_prompt(&mock).contains("<name>imported</name>"));
    let text = refusal(&mut client, "skills.install", install).await;
    assert_eq!(text, "the skill \"imported\" is there already; force replaces it");
    let hub = json!({"source": "clawhub", "slug": "x"});
    let answer = client.request("skills.install", hub).await;
    assert_eq!(answer["error"]["code"], "UNAVAILABLE", "{answer}");
}

fn clawgate(gateway: &Gateway, args: &[&str]) -> (bool, String) {
    let output = Command::new(program())
        .args(args)
        .args(["--url", &format!("ws://{}", gateway.address()), "--token", "ref-secret-0001"])
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_installs_and_switches_skills() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let (ok, text) = clawgate(&gateway, &["skills", "list"]);
    assert!(ok && text.contains("No skills"), "{text}");
    let from = gateway.root().join("from");
    make(&from, "cli-skill", "");
    let (ok, text) = clawgate(&gateway, &["skills", "install", from.to_str().unwrap()]);
    assert!(ok && text.contains("Installed cli-skill"), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "list"]);
    assert!(ok && text.contains("cli-skill") && text.contains("ready"), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "list", "--eligible", "-v"]);
    assert!(ok && text.contains("cli-skill"), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "disable", "cli-skill"]);
    assert!(ok, "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "list", "--eligible"]);
    assert!(ok && text.starts_with("No skill is ready"), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "list", "--eligible", "--json"]);
    let status: Value = serde_json::from_str(&text).unwrap();
    assert!(ok && status["skills"] == json!([]), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "info", "cli-skill"]);
    assert!(ok && text.contains("off") && text.contains("About cli-skill"), "{text}");
    let (ok, text) = clawgate(&gateway, &["skills", "enable", "nope"]);
    assert!(!ok && text.contains("there is no skill nope"), "{text}");
}
